"""From matrices to outputs: the embedding that a Gram matrix holds (thesis eq. 3.20 and 3.21).

K = Σ_α λ_α v_α v_αᵀ,      y_i = (√λ_1 v_1i, …, √λ_d v_di)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.gram import Gram, Matrix
from sdpkit.quality import fidelity

Array = NDArray[np.float64]

# Eigenvalues below this share of the trace are noise; a fall by this factor is steep.
_NOISE_SHARE = 1e-2
_STEEP = 4.0
# Eigenvalues computed of an operator, at least.
_LEADING = 12


@dataclass(frozen=True, eq=False)
class Embedding:
    """Outputs y_i and the spectrum they come from.

    Attributes
    ----------
    coordinates: (n, d), centred, columns by falling variance
    eigenvalues: (n,) of K, falling, nonnegative; the leading ones where K is an operator
    edges: (m, 2) rods of the neighbourhood graph;  tensions: (m,) their multipliers w
    components: (n,) which connected component a point belongs to; each is centred on its own
    variance: tr K, where only leading eigenvalues are known; None: their sum
    """

    coordinates: Array
    eigenvalues: Array
    edges: NDArray[np.int64] = field(repr=False)
    tensions: Array | None = field(repr=False)
    components: NDArray[np.int64] = field(repr=False)
    variance: float | None = field(default=None, repr=False)

    @property
    def n_components(self) -> int:
        """d."""
        return int(self.coordinates.shape[1])

    @property
    def fidelity(self) -> float:
        """Share of the variance that the d coordinates keep."""
        return fidelity(self.eigenvalues, self.n_components, self.variance)

    @property
    def suggested_dimension(self) -> int:
        """Where the spectrum breaks off (see `suggested_dimension`)."""
        return suggested_dimension(self.eigenvalues, self.variance)

    def plot(self, ax: Any = None, *, color: Any = None, tension: bool = True) -> Any:
        """Draw the first two coordinates, the rods coloured by tension. Needs matplotlib."""
        from sdpkit.plotting import plot_embedding

        return plot_embedding(self, ax, color=color, tension=tension)

    def plot_spectrum(self, ax: Any = None) -> Any:
        """Draw the eigenvalues as shares of the trace. Needs matplotlib."""
        from sdpkit.plotting import plot_spectrum

        return plot_spectrum(self.eigenvalues, ax, variance=self.variance)

    def __repr__(self) -> str:
        n, d = self.coordinates.shape
        return (
            f"<Embedding of {n} points in {d} dimensions: fidelity {self.fidelity:.4f}, "
            f"suggested dimension {self.suggested_dimension}>"
        )


def suggested_dimension(eigenvalues: Array, variance: float | None = None) -> int:
    """The d after which the spectrum breaks off.

    The last steep fall: the largest d with λ_d ≥ 4 λ_{d+1} among eigenvalues of at least 1 % of
    the trace; where none falls that steeply, the steepest.

    >>> suggested_dimension(np.array([50.0, 30.0, 0.2, 0.1, 0.0]))
    2
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1].clip(min=0)
    total = float(values.sum()) if variance is None else variance
    if total == 0 or values.size == 1:
        return 1
    ratios = values[:-1] / np.maximum(values[1:], 1e-12 * total)
    steep = np.flatnonzero((ratios >= _STEEP) & (values[:-1] >= _NOISE_SHARE * total))
    return int(steep[-1] if steep.size else np.argmax(ratios)) + 1


def outputs(kernel: Matrix, n_components: int | None = None) -> tuple[Array, Array]:
    """(coordinates (n, d), eigenvalues (n,)) of a Gram matrix; of an operator the leading ones.

    Without `n_components` the suggested dimension is used. The sign of each coordinate is fixed
    so that its entry of largest magnitude is positive.

    >>> Y = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -0.5]])
    >>> coordinates, eigenvalues = outputs(Y @ Y.T, 2)
    >>> np.allclose(coordinates @ coordinates.T, Y @ Y.T)
    True
    """
    total = None
    if isinstance(kernel, Gram):
        n, total = kernel.shape[0], kernel.trace()
        wanted = n_components if isinstance(n_components, int | np.integer) else 0
        values, vectors = kernel.leading(min(n, max(int(wanted), _LEADING)))
        values = values.clip(min=0)
    else:
        values, vectors = _spectrum(kernel)
        n = values.size
    d = suggested_dimension(values, total) if n_components is None else n_components
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or not 1 <= d <= n:
        raise InputError(f"n_components is {d!r}; it must be an integer between 1 and {n}")
    top = vectors[:, :d]
    signs = np.sign(top[np.abs(top).argmax(axis=0), np.arange(d)])
    return top * np.where(signs == 0, 1.0, signs) * np.sqrt(values[:d]), values


def _spectrum(kernel: Array) -> tuple[Array, Array]:
    """All eigenvalues, falling and nonnegative, and eigenvectors of a Gram matrix."""
    kernel = np.asarray(kernel, dtype=np.float64)
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or kernel.shape[0] == 0:
        raise InputError(f"a kernel is a square matrix; this one has shape {kernel.shape}")
    if not np.isfinite(kernel).all():
        raise InputError("the kernel contains NaN or infinite entries; check the solution's status")
    values, vectors = scipy.linalg.eigh((kernel + kernel.T) / 2)
    return values[::-1].clip(min=0), vectors[:, ::-1]
