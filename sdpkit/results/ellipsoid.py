"""Ellipsoids that cover points, one by one or thousands at once.

An ellipsoid here is  {x : (x − c)ᵀS⁻¹(x − c) ≤ t}  with S = Σ_j φ_j (x_j − c)(x_j − c)ᵀ + γI, the
weights φ on the simplex those that make log det S largest; c is given, or c = Σφ_j x_j where it is
free. For γ = 0 it is the covering ellipsoid of least volume (and t = d).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array, finite_matrix, finite_rows, nonnegative, positive
from sdpkit.layout import TINY, Expected, read_layout
from sdpkit.numerics.covering import TOL
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.typing import Array, Bools, Indices


@dataclass(frozen=True, eq=False, repr=False)
class Ellipsoid:
    """One covering ellipsoid.

    Attributes
    ----------
    center : array of shape (d,)
        c.
    basis : array of shape (d, r)
        Orthonormal basis of the directions in which it extends; r = d unless γ = 0 and the points
        lie in a subspace.
    shape : array of shape (d, d)
        S, of rank r.
    radius : float
        t.
    log_det : float
        Log det S on the span.
    weights : array of shape (m,)
        φ.
    gap : float
        An upper bound on how far log det S is below its largest value.

    Examples
    --------
    >>> import sdpkit
    >>> problem = sdpkit.CoveringEllipsoid([[0, 0], [2, 0], [0, 2], [2, 2.0], [1, 1.5]])
    >>> ellipsoid = problem.recover(sdpkit.solve(problem))
    >>> ellipsoid.center.round(6), float(round(ellipsoid.volume / np.pi, 6))
    (array([1., 1.]), 2.0)
    >>> ellipsoid.contains([[0, 1], [0, -1]])
    array([ True, False])
    """

    center: Array
    basis: Array
    shape: Array
    radius: float
    log_det: float
    weights: Array
    gap: float

    def __repr__(self) -> str:
        d, r = self.basis.shape
        where = f"in {d} dimensions" if r == d else f"of dimension {r} in {d}"
        return f"<Ellipsoid {where}: log volume {self.log_volume:.6g}, log det gap {self.gap:.1e}>"

    @cached_property
    def _factor(self) -> Array:
        """The Cholesky factor of S on the span, (r, r)."""
        return np.asarray(np.linalg.cholesky(self.basis.T @ self.shape @ self.basis))

    @property
    def log_volume(self) -> float:
        """The logarithm of the r-dimensional volume."""
        r = self.basis.shape[1]
        ball = 0.5 * r * np.log(np.pi) - float(scipy.special.gammaln(0.5 * r + 1))
        return float(ball + 0.5 * (r * np.log(self.radius) + self.log_det))

    @property
    def volume(self) -> float:
        """The r-dimensional volume."""
        return float(np.exp(self.log_volume))

    @property
    def axes(self) -> Array:
        """(r, d) the half axes, longest first."""
        values, vectors = np.linalg.eigh(self.basis.T @ self.shape @ self.basis)
        lengths = np.sqrt(values * self.radius)[::-1]
        return np.asarray(lengths[:, None] * (self.basis @ vectors[:, ::-1]).T)

    @property
    def components(self) -> Array:
        """(r, d) L under which the ellipsoid is the unit ball around Lc: lengths in half axes."""
        axes = self.axes
        return np.asarray(axes / np.square(axes).sum(axis=1, keepdims=True))

    def lengths(self, X: ArrayLike) -> Array:
        """(b,) (x − c)ᵀS⁻¹(x − c), infinite outside of the span."""
        z = finite_rows(X, self.center.size, "X") - self.center
        inside = z @ self.basis
        out = np.square(np.linalg.solve(self._factor, inside.T)).sum(axis=0)
        off = np.linalg.norm(z - inside @ self.basis.T, axis=1)
        scale = 1e-9 * np.sqrt(self.radius * max(float(np.trace(self.shape)), 0.0))
        return np.where(off <= scale, out, np.inf)

    def contains(self, X: ArrayLike, tol: float = 1e-9) -> Bools:
        """(b,) which points lie inside, up to a relative `tol`."""
        return np.asarray(self.lengths(X) <= self.radius * (1 + tol))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The ellipsoid as plain arrays."""
        return {part.name: np.asarray(getattr(self, part.name)) for part in fields(self)}

    @classmethod
    def from_arrays(cls, a: Mapping[str, NDArray[Any]]) -> Ellipsoid:
        """The ellipsoid that gave these arrays; anything else is refused."""
        d, r = finite_matrix(a["basis"], "basis").shape
        number = Expected()
        layout = {
            "center": Expected((d,)),
            "basis": Expected((d, r), least=-2.0, most=2.0),
            "shape": Expected((d, d)),
            "radius": Expected(least=TINY),
            "log_det": number,
            "weights": Expected((a["weights"].size,), least=0.0),
            "gap": number,
        }
        found = read_layout(a, layout)
        parts: dict[str, Any] = {name: x if x.ndim else float(x) for name, x in found.items()}
        ellipsoid = cls(**parts)
        try:
            ellipsoid._factor  # noqa: B018 — a matrix that is not positive definite has none
        except np.linalg.LinAlgError as error:
            raise InputError("shape is not positive definite on the basis") from error
        return ellipsoid

    def plot(self, X: ArrayLike | None = None, ax: Any = None) -> Any:
        """The ellipse in the first two dimensions, over points X; returns the axes."""
        from sdpkit.plotting import plot_ellipses

        return plot_ellipses([self], X, ax)


@dataclass(frozen=True, eq=False, repr=False)
class Ellipsoids:
    """b covering ellipsoids with given centres.

    Attributes
    ----------
    centers: (b, d);  shapes: (b, d, d) S;  radii: (b,) t;  log_dets: (b,) log det S
    ranks: (b,) the dimensions of the ellipsoids, in which determinants are taken
    weights: (b, m) φ;  gaps: (b,) of log det, recomputed from the weights
    """

    centers: Array
    shapes: Array
    radii: Array
    log_dets: Array
    ranks: Indices
    weights: Array
    gaps: Array

    def __len__(self) -> int:
        return len(self.centers)

    def __repr__(self) -> str:
        worst = float(self.gaps.max(initial=0.0))
        return (
            f"<{len(self)} ellipsoids in {self.centers.shape[1]} dimensions: "
            f"largest log det gap {worst:.1e}>"
        )

    def __getitem__(self, k: int) -> Ellipsoid:
        rank = int(self.ranks[k])
        if not rank:
            raise InputError(f"ellipsoid {k} is a single point: pass gamma > 0")
        d = self.centers.shape[1]
        basis = np.eye(d) if rank == d else np.linalg.eigh(self.shapes[k])[1][:, d - rank :]
        return Ellipsoid(
            self.centers[k],
            basis,
            self.shapes[k],
            float(self.radii[k]),
            float(self.log_dets[k]),
            self.weights[k],
            float(self.gaps[k]),
        )


@one_blas_thread
def cover(
    points: ArrayLike, centers: ArrayLike, *, gamma: float = 0.0, tol: float = TOL
) -> Ellipsoids:
    """The covering ellipsoids of b sets of m points around b given centres, all at once.

    Parameters
    ----------
    points: (b, m, d);  centers: (b, d)
    gamma: γ ≥ 0, added to S as γI
    tol: the gap in log det at which a set counts as done; every gap is returned

    >>> rng = np.random.default_rng(0)
    >>> many = cover(rng.standard_normal((100, 30, 10)), np.zeros((100, 10)))
    >>> len(many), bool(many.gaps.max() < 1e-11)
    (100, True)
    """
    x, c = finite_array(points, "points"), finite_array(centers, "centers")
    if x.ndim != 3 or not x.size:
        raise InputError(f"points has shape {x.shape}: pass (b, m, d), b sets of m points")
    if c.shape != (x.shape[0], x.shape[2]):
        raise InputError(f"centers has shape {c.shape}, expected {(x.shape[0], x.shape[2])}")
    nonnegative(gamma, "gamma")
    positive(tol, "tol")
    z = x - c[:, None, :]
    identity = np.eye(x.shape[2])
    units = np.ones(len(z))
    if gamma == 0:
        # In units of each set: neither 1e-200 nor 1e200 may leave the range of floats if squared.
        units = np.abs(z).max(axis=(1, 2))
        units = np.where(units > 0, units, 1.0)
    z /= units[:, None, None]
    from sdpkit.numerics.coverings import many_weights  # it loads the compiler

    weights, found, ranks = many_weights(z, gamma * identity, tol)
    weights /= weights.sum(axis=1, keepdims=True)
    squares = (units**2)[:, None, None]
    shapes = squares * ((z * weights[:, :, None]).transpose(0, 2, 1) @ z) + gamma * identity
    log_dets = found.log_dets + 2 * ranks * np.log(units)
    return Ellipsoids(c, shapes, found.radii, log_dets, ranks, weights, found.gaps)
