"""Steps on the inner problem of `factored`: in the factor L, or in the matrix M itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dtrsv

from sdpkit.solvers.augmented import InnerPoint
from sdpkit.solvers.hinge_program import Factors
from sdpkit.typing import Array

# δ of the preconditioner relative to ‖LᵀL‖, and the number of steps it remembers.
_DELTA, _MEMORY = 0.05, 40
# What rounding may do to the value of the inner problem, in double and in single precision.
_ROUNDING = (1e-14, 1e-7)

Evaluate = Callable[[Factors], InnerPoint]


class _Steps:
    """The last steps s and the changes y of the gradient along them, oldest first.

    They move to the front of their arrays when these are full, every `_MEMORY` steps.
    """

    def __init__(self, size: int) -> None:
        self._s, self._y = np.empty((2 * _MEMORY, size)), np.empty((2 * _MEMORY, size))
        self._products = np.zeros((2 * _MEMORY, 2 * _MEMORY))
        self._kept = slice(0, 0)

    def __len__(self) -> int:
        return self._kept.stop - self._kept.start

    @property
    def s(self) -> Array:
        """(m, N)."""
        return self._s[self._kept]

    @property
    def y(self) -> Array:
        """(m, N)."""
        return self._y[self._kept]

    def triangle(self) -> Array:
        """(m, m) the upper triangle of s yᵀ, in the order that BLAS reads without a copy."""
        return np.asfortranarray(self._products[self._kept, self._kept])

    def add(self, s: Array, y: Array) -> None:
        """Remember a step, and forget the oldest where there is no room."""
        first, last = self._kept.start, self._kept.stop
        first += last - first == _MEMORY
        if last == len(self._s):
            for array in (self._s, self._y):
                array[: last - first] = array[first:last]
            products = self._products[first:last, first:last].copy()
            self._products[: last - first, : last - first] = products
            first, last = 0, last - first
        self._s[last], self._y[last] = s, y
        self._kept = slice(first, last + 1)
        self._products[self._kept, last] = self.s @ y


class InTheFactor:
    """Limited-memory quasi-Newton steps on L, preconditioned from the right."""

    def __init__(self, factors: Factors) -> None:
        self.shapes = [factor.shape for factor in factors]
        self.steps = _Steps(sum(factor.size for factor in factors))
        self.recondition(factors)

    def recondition(self, factors: Factors) -> None:
        """Take the preconditioner (LᵀL/‖LᵀL‖ + δI)⁻¹ from the present factors; steps have a scale
        of their own."""
        self.inverses = []
        for factor in factors:
            unit = factor / max(float(np.abs(factor).max()), np.finfo(float).tiny)
            gram = unit.T @ unit
            gram /= max(float(np.linalg.norm(gram, 2)), np.finfo(float).tiny)
            self.inverses.append(scipy.linalg.inv(gram + _DELTA * np.eye(gram.shape[0])))

    def step(self, evaluate: Evaluate, at: InnerPoint) -> InnerPoint | None:
        """A point with a smaller value, or None if there is none to be found."""
        gradient, here = _flat(at.gradient), _flat(at.factors)
        while True:
            direction = self._direction(gradient)
            if not self.steps:
                length = float(np.linalg.norm(direction))
                direction *= 0.1 * float(np.linalg.norm(here)) / max(length, np.finfo(float).tiny)
            slope = float(gradient @ direction)
            found = self._search(evaluate, at, here, direction, slope) if slope > 0 else None
            if found is None and self.steps:
                self.steps = _Steps(gradient.size)
                continue
            if found is not None:
                self._remember(_flat(found.factors) - here, _flat(found.gradient) - gradient)
            return found

    def _search(
        self, evaluate: Evaluate, at: InnerPoint, here: Array, direction: Array, slope: float
    ) -> InnerPoint | None:
        length, rounding = 1.0, _ROUNDING[at.single] * abs(at.value)
        while length > 1e-6:
            found = evaluate(self._unflat(here - length * direction))
            if found.value <= at.value - 1e-4 * length * slope:
                return found
            left = float(_flat(found.gradient) @ direction)
            # Where values cannot be told apart, slopes still can (Hager and Zhang 2005).
            if found.value <= at.value + rounding and left >= -0.8 * slope:
                return found
            # Where the slope would vanish, if it changed evenly.
            length *= min(0.5, max(0.1, slope / max(slope - left, slope)))
        return None

    def _direction(self, gradient: Array) -> Array:
        """The two loops of the limited-memory method, each as a triangular system."""
        if not self.steps:
            return self._precondition(gradient)
        s, y, triangle = self.steps.s, self.steps.y, self.steps.triangle()
        weights = dtrsv(triangle, s @ gradient)
        out = self._precondition(gradient - weights @ y)
        out *= triangle[-1, -1] / float(y[-1] @ self._precondition(y[-1]))
        rest = np.diag(triangle) * weights - y @ out
        return np.asarray(out + dtrsv(triangle, rest, trans=1) @ s)

    def _precondition(self, vector: Array) -> Array:
        parts = zip(self._unflat(vector), self.inverses, strict=True)
        return _flat([part @ inverse for part, inverse in parts])

    def _remember(self, s: Array, y: Array) -> None:
        if float(s @ y) > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            self.steps.add(s, y)

    def _unflat(self, vector: Array) -> Factors:
        if len(self.shapes) == 1:
            return [vector.reshape(self.shapes[0])]
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])[:-1]
        parts = zip(np.split(vector, ends), self.shapes, strict=True)
        return [part.reshape(shape) for part, shape in parts]


class InTheCone:
    """Spectral projected gradient steps on M itself (Birgin, Martínez and Raydan 2000)."""

    def __init__(self, factors: Factors) -> None:
        self.length = 1.0
        self.last: tuple[Array, Array] | None = None
        self.values: list[float] = []

    def recondition(self, factors: Factors) -> None:
        """A new inner problem: forget values that belong to the old one."""
        self.values, self.last = [], None

    def step(self, evaluate: Evaluate, at: InnerPoint) -> InnerPoint | None:
        """A point with a smaller value than the largest of the last ten, or None."""
        gradients = at.in_the_cone()
        here = [f.T @ f for f in at.factors]
        flat_x, flat_g = _flat(here), _flat(gradients)
        if self.last is not None:
            s, y = flat_x - self.last[0], flat_g - self.last[1]
            curvature = float(s @ y)
            self.length = float(s @ s) / curvature if curvature > 0 else 10 * self.length
        else:
            norm = max(float(np.linalg.norm(flat_g)), np.finfo(float).tiny)
            # From zero any length may be tried; the search below cuts it down.
            self.length = (0.1 * float(np.linalg.norm(flat_x)) or 1.0) / norm
        self.last = (flat_x, flat_g)
        self.values = [*self.values[-9:], at.value]
        moved = [_onto_cone(m - self.length * g) for m, g in zip(here, gradients, strict=True)]
        direction = [new - old for new, old in zip(moved, here, strict=True)]
        slope = float(flat_g @ _flat(direction))
        if not slope < 0:
            return None
        length = 1.0
        while length > 1e-8:
            trial = [_root(m + length * d) for m, d in zip(here, direction, strict=True)]
            found = evaluate(trial)
            if found.value <= max(self.values) + 1e-4 * length * slope:
                return found
            length *= 0.5
        return None


def _onto_cone(matrix: Array) -> Array:
    values, vectors = scipy.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _root(matrix: Array) -> Array:
    """The symmetric root."""
    values, vectors = scipy.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _flat(parts: list[Array]) -> Array:
    if len(parts) == 1:
        return parts[0].ravel()
    return np.concatenate([part.ravel() for part in parts])
