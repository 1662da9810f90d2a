"""Sums and products in twice the precision of floats, for residuals that proofs rest on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpkit.numerics.kernels import kernel_part, proof_kernel
from sdpkit.typing import Array, Indices

UNIT = float(np.finfo(np.float64).eps) / 2
"""The largest relative error of one rounding."""


@kernel_part
def _add(high: Array, low: Array, size: Array, k: int, value: float) -> None:
    """Add to an entry in twice the precision (Knuth's two-sum)."""
    total = high[k] + value
    shadow = total - high[k]
    low[k] += (high[k] - (total - shadow)) + (value - shadow)
    high[k] = total
    size[k] += abs(value)


@kernel_part
def _split(a: float) -> tuple[float, float]:
    """a as a sum of two numbers of half the digits (Veltkamp)."""
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


@kernel_part
def _product_error(a: float, b: float, product: float) -> float:
    """a·b − product, exactly (Dekker)."""
    ah, al = _split(a)
    bh, bl = _split(b)
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl


@proof_kernel("i8[:]", "f8[:]", "out f8[:]", "out f8[:]", "out f8[:]")
def add_all(places: Indices, values: Array, high: Array, low: Array, size: Array) -> None:
    """Add values to entries in twice the precision."""
    for t in range(values.size):
        _add(high, low, size, places[t], values[t])


@proof_kernel("i8[:]", "i8[:]", "f8[:]", "f8[:,:]", "out f8[:,:]", "out f8[:,:]", "out f8[:,:]")
def subtract_times(
    to: Indices, of: Indices, weights: Array, g: Array, high: Array, low: Array, size: Array
) -> None:
    """Subtract weights_t times row of_t of g from row to_t, in twice the precision."""
    for t in range(weights.size):
        k, i, a = to[t], of[t], weights[t]
        for c in range(g.shape[1]):
            product = a * g[i, c]
            total = high[k, c] - product
            shadow = total - high[k, c]
            low[k, c] += (high[k, c] - (total - shadow)) + (-product - shadow)
            low[k, c] -= _product_error(a, g[i, c], product)
            high[k, c] = total
            size[k, c] += abs(product)


def doubled_products(u: Array, g: Array, start: Array) -> Array:
    """start − UᵀG, summed in twice the working precision and then rounded."""
    high, low, size = start.copy(), np.zeros(start.shape), np.zeros(start.shape)
    of, to = np.indices(u.shape).reshape(2, -1)
    subtract_times(to, of, u.ravel(), np.ascontiguousarray(g), high, low, size)
    return high + low


@proof_kernel("i8[:]", "i8[:]", "i4[:]", "f8[:]", "out f8[:]", "out f8[:]", "out f8[:]")
def subtract_product(
    indptr: Indices,
    starts: Indices,
    places: NDArray[np.int32],
    x: Array,
    high: Array,
    low: Array,
    size: Array,
) -> None:
    """Subtract LDLᵀ, every product with its error."""
    n = indptr.size - 1
    for k in range(n):
        d = x[k]
        _add(high, low, size, k, -d)
        stop = n + indptr[k + 1]
        t = starts[k]
        for a in range(n + indptr[k], stop):
            left = x[a] * d
            left_error = _product_error(x[a], d, left)
            _add(high, low, size, a, -left)
            low[a] -= left_error
            for b in range(a, stop):
                product = left * x[b]
                place = places[t]
                _add(high, low, size, place, -product)
                low[place] -= _product_error(left, x[b], product) + left_error * x[b]
                t += 1
