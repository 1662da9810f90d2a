"""Energies of labels: what LMNN's objective would be if a query had that label.

Compiled loops over squared distances to training points, which stand in the order of their classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpkit.numerics.kernels import fast_kernel
from sdpkit.typing import Array, Indices

EVERY_LABEL = -1
# Energies that differ by no more than this share are equal.
_SAME_ENERGY = 1e-10


def first_lowest(energies: Array) -> Indices:
    """(b,) the first label whose energy is the least; rounding, which depends on the other queries
    of a batch, does not tell labels apart."""
    least = energies.min(axis=1, keepdims=True)
    return np.asarray((energies <= least * (1 + _SAME_ENERGY)).argmax(axis=1))


@fast_kernel("f8[:,:]", "f8[:,:]", "i8[:]", "f8", "out f8[:]", "out i8[:]", "out f8[:,:]")
def add_own_energy(
    distances: Any, ranking: Any, starts: Any, mu: float, smallest: Any, chosen: Any, out: Any
) -> None:
    """out ← (1−μ)·Σ_j D_tj + μ·Σ_{j,l} [1 + D_tj − D_tl]₊, j the k first of each class by
    `ranking`.

    Columns of `distances` are ordered by class; `smallest` and `chosen` are room for k numbers.
    """
    n, k = distances.shape[1], smallest.size
    for t in range(distances.shape[0]):
        for label in range(starts.size - 1):
            begin, end = starts[label], starts[label + 1]
            count = 0
            for j in range(begin, end):
                d = ranking[t, j]
                if count == k and d >= smallest[k - 1]:
                    continue
                place = min(count, k - 1)
                while place > 0 and smallest[place - 1] > d:
                    smallest[place] = smallest[place - 1]
                    chosen[place] = chosen[place - 1]
                    place -= 1
                smallest[place] = d
                chosen[place] = j
                count = min(count + 1, k)
            energy = 0.0
            for s in range(k):
                length = distances[t, chosen[s]]
                reach = 1 + length
                pushed = 0.0
                for o in range(begin):
                    pushed += max(0.0, reach - distances[t, o])
                for o in range(end, n):
                    pushed += max(0.0, reach - distances[t, o])
                energy += (1 - mu) * length + mu * pushed
            out[t, label] = energy


@fast_kernel("f8[:,:]", "i8[:]", "i8[:]", "f8[:]", "f8", "i8", "out f8[:]", "out f8[:,:]")
def add_other_energy(
    distances: Any,
    starts: Any,
    first: Any,
    reaches: Any,
    mu: float,
    only: int,
    sums: Any,
    out: Any,
) -> None:
    """out[t, c] += μ·Σ_i Σ_j [reach_ij − D_it]₊ over anchors i of classes other than c; `sums`
    is room for a number per class."""
    classes = starts.size - 1
    for t in range(distances.shape[0]):
        total = 0.0
        for label in range(classes):
            part = 0.0
            for i in range(starts[label], starts[label + 1]):
                for p in range(first[i], first[i + 1]):
                    part += max(0.0, reaches[p] - distances[t, i])
            sums[label] = part
            total += part
        for label in range(classes):
            if only < 0 or label == only:
                out[t, label] += mu * (total - sums[label])


@fast_kernel(
    *("out f4[:,:]", "f4[:]", "f4[:]", "f8[:]", "i8[:]", "i8[:]", "f8[:]", "f4[:]"),
    *("out f4[:,:,:]", "out f8[:,:,:]"),
)
def look_at_classes(
    products: Any,
    squares: Any,
    norms: Any,
    doubts: Any,
    starts: Any,
    first: Any,
    reaches: Any,
    farthest: Any,
    nearest: Any,
    bounds: Any,
) -> None:
    """Distances take the place of `products`; `nearest`, (b, c, k), holds the k smallest of every
    class, and `bounds`, (b, 4, c), begins with bounds on what a query pushes in every class.

    Distances are squares + norms − products, each wrong by its row's doubt at most, and so are the
    k smallest of a class.
    """
    k = nearest.shape[2]
    for t in range(products.shape[0]):
        row, doubt = products[t], doubts[t]
        wide = row.dtype.type(1.01 * doubt)
        for o in range(row.size):
            row[o] = squares[t] + (norms[o] - row[o])
        for label in range(nearest.shape[1]):
            begin, end = starts[label], starts[label + 1]
            small = nearest[t, label]
            for s in range(k):
                small[s] = np.inf
            low, high = 0.0, 0.0
            for start in range(begin, end, 256):
                part, far = row[start : min(start + 256, end)], farthest[start:]
                limit, nearer, pushed = small[k - 1], 0, 0
                for c in range(part.size):
                    nearer += part[c] < limit
                    pushed += part[c] - far[c] < wide
                for c in range(part.size if nearer + pushed else 0):
                    d = part[c]
                    if d < small[k - 1]:
                        s = k - 1
                        while s > 0 and small[s - 1] > d:
                            small[s] = small[s - 1]
                            s -= 1
                        small[s] = d
                    if d - far[c] < wide:
                        for p in range(first[start + c], first[start + c + 1]):
                            low += max(0.0, reaches[p] - d - doubt)
                            high += max(0.0, reaches[p] - d + doubt)
            bounds[t, 0, label], bounds[t, 1, label] = low, high


@fast_kernel("f4[:,:]", "f8[:]", "i8[:]", "f8", "f4[:,:,:]", "out f8[:,:,:]")
def bound_energies(
    distances: Any, doubts: Any, starts: Any, mu: float, nearest: Any, bounds: Any
) -> None:
    """Bounds on the energy of every label, in bounds[:, 2] and bounds[:, 3]. Labels are given up,
    with an upper bound of infinity, as soon as their lower bound is above another's upper one."""
    classes, k = nearest.shape[1], nearest.shape[2]
    for t in range(distances.shape[0]):
        row, doubt, known = distances[t], doubts[t], bounds[t]
        total_low, total_high, leader, shortest = 0.0, 0.0, 0, np.inf
        for label in range(classes):
            total_low += known[0, label]
            total_high += known[1, label]
            length = 0.0
            for s in range(k):
                length += nearest[t, label, s]
            if length < shortest:
                leader, shortest = label, length
        least = np.inf
        for step in range(classes + 1):
            # The label with the nearest points goes first: it is a hard one to beat.
            label = leader if step == 0 else step - 1
            if step > 0 and label == leader:
                continue
            small, begin, end = nearest[t, label], starts[label], starts[label + 1]
            low = mu * (total_low - known[0, label])
            high = mu * (total_high - known[1, label])
            for s in range(k):
                low += (1 - mu) * max(0.0, small[s] - doubt)
                high += (1 - mu) * (small[s] + doubt)
            for s in range(k):
                if low > least:
                    high = np.inf
                    break
                below, above = 0.0, 0.0
                for side in range(2):
                    others = row[:begin] if side == 0 else row[end:]
                    reach = 1.0 + small[s]
                    for o in range(others.size):
                        below += max(0.0, reach - 2 * doubt - others[o])
                        above += max(0.0, reach + 2 * doubt - others[o])
                low += mu * below
                high += mu * above
            known[2, label], known[3, label] = low, high
            least = min(least, high)


def decided_labels(bounds: Array) -> Indices:
    """(b,) the label of least energy, or −1 where the bounds, (b, 4, c), leave several."""
    low, high = bounds[:, 2], bounds[:, 3]
    # The bounds are sums that round too.
    least = high.min(axis=1, keepdims=True) * (1 + 1e-9)
    alone = np.count_nonzero(~(low > least), axis=1) == 1
    return np.where(alone, high.argmin(axis=1), -1)
