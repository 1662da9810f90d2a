"""The other end of the enclosure: a point that is proven feasible, and its value.

Let a point Z = (M, x, s), s the slacks of the inequalities, miss its rows by r = A(Z) − b, and let
σ² ≤ λ_min(AAᵀ). Then Ẑ = Z − Aᵀ(AAᵀ)⁻¹r meets them exactly and ‖Ẑ − Z‖ ≤ ‖r‖/σ. If M ⪰ ρI on
the face and x, s ≥ ρ with ρ = ‖r‖/σ, then Ẑ is feasible, and its value differs from that of Z by
at most ρ times the norm of the costs (Jansson, Chaykin, Keil 2007). r is bounded with the rounding
of its computation, M ⪰ ρI proved by a shifted Cholesky factorisation, and so is AAᵀ ⪰ σ²I; for
distinct edges of a graph AAᵀ = |B||B|ᵀ + 2I, so that σ² = 2.

Null directions must be orthogonal to all measurements (centring a graph): then Aᵀ(y)N = 0 exactly,
and M stands for its projection PMP.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.certificate.rigor import BREAKDOWNS, certainly_definite, definite_on_face
from sdpkit.certificate.rounding import TINY, gamma
from sdpkit.certificate.slack import ScaledSlack
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program

Array = NDArray[np.float64]

# Rows up to which AAᵀ is factored densely.
_MAX_ROWS = 3000
_NO_INTERIOR = (
    "no point near this one was proven feasible: it lies too near the boundary of the cone, or the "
    "program has no interior"
)


def attained(program: Program, matrices: tuple[Array, ...], x: Array) -> tuple[float | None, str]:
    """(value of a point proven feasible, rounded to the safe side; how, or why there is none)"""
    try:
        with np.errstate(all="ignore"):
            return _attained(program, matrices, x)
    except BREAKDOWNS as error:
        return None, f"the numbers are too near the ends of the floating-point range ({error})"


def _attained(program: Program, matrices: tuple[Array, ...], x: Array) -> tuple[float | None, str]:
    refused = _refusal(program, matrices, x)
    if refused:
        return None, refused
    rows = _Rows.of(program)
    if rows is None:
        return None, "the rows are linearly dependent, or too many for a proof"
    s = rows.slack_of(program, matrices, x)
    size = max(float(np.trace(m)) / len(m) for m in matrices)
    for power in (None, *range(-13, -4)):
        tau = 0.0 if power is None else 10.0**power * max(size, TINY)
        point = [m + tau * np.eye(len(m)) for m in matrices]
        moved = rows.corrected(program, point, x + tau * ~program.free_x, s + tau)
        value = _proven_value(program, rows, *moved)
        if value is not None:
            return value, "shifted Cholesky succeeded around the point"
    return None, _NO_INTERIOR


def _refusal(program: Program, matrices: tuple[Array, ...], x: Array) -> str:
    if not program.is_linear or program.family is not None:
        return "penalties, log dets and families have no feasible end yet"
    if any(not isinstance(m, np.ndarray) for m in matrices):
        return "the matrix is too large to be factored densely"
    if not all(np.isfinite(m).all() for m in [*matrices, x]):
        return "there is no finite point"
    for block in program.blocks:
        if block.null.shape[1] and not block.is_centred:
            return "null directions beside the centring of a graph are not exact in floating point"
    return ""


@dataclass(frozen=True, eq=False)
class _Rows:
    """A over (M, x, s), with a proven σ and a factor of AAᵀ."""

    slack: sp.csr_array
    sigma: float
    factor: tuple[Array, bool]

    @classmethod
    def of(cls, program: Program) -> _Rows | None:
        m = program.n_rows
        if not 0 < m <= _MAX_ROWS:
            return None
        slack = program.slack_columns
        gram = np.zeros((m, m))
        size = np.zeros((m, m))
        chain = 8
        for block, span in zip(program.blocks, program.spans, strict=True):
            a, v = program.rows_q[:, span], block.vectors()
            if block.features is not None:
                return None
            inner = v @ v.T
            gram += dense(a @ inner.multiply(inner) @ a.T)
            most = abs(v) @ abs(v).T
            size += dense(abs(a) @ most.multiply(most) @ abs(a).T)
            chain += 2 * int(np.diff(v.indptr).max(initial=0)) + 2 * int(
                np.diff(a.indptr).max(initial=0)
            )
        for part in (program.rows_x, slack):
            gram += dense(part @ part.T)
            size += dense(abs(part) @ abs(part).T)
            chain += int(np.diff(part.indptr).max(initial=0))
        if not np.isfinite(gram).all():
            return None
        error = 1.01 * gamma(chain) * float(size.sum(axis=1).max()) + m * chain * TINY
        least = float(scipy.linalg.eigvalsh(gram, subset_by_index=[0, 0])[0])
        for share in (0.5, 0.1):
            shift = share * least
            if shift > 0 and certainly_definite(gram - shift * np.eye(m), error + 4e-16 * shift):
                return cls(
                    slack, float(np.sqrt(shift) * (1 - 1e-12)), scipy.linalg.cho_factor(gram)
                )
        return None

    def slack_of(self, program: Program, matrices: tuple[Array, ...], x: Array) -> Array:
        off = program.rhs - program.row_values(program.measure(list(matrices)), x)
        return np.maximum(np.asarray(self.slack.T @ off), 0.0)

    def corrected(
        self, program: Program, matrices: list[Array], x: Array, s: Array
    ) -> tuple[list[Array], Array, Array]:
        """One step of least squares onto the rows, twice for its rounding."""
        for _ in range(2):
            r = program.row_values(program.measure(matrices), x) + self.slack @ s - program.rhs
            y = scipy.linalg.cho_solve(self.factor, r)
            matrices = [m - a for m, a in zip(matrices, program.adjoints(y), strict=True)]
            matrices = [(m + m.T) / 2 for m in matrices]
            x, s = x - program.rows_x.T @ y, s - self.slack.T @ y
        return matrices, x, s

    def distance(self, program: Program, matrices: list[Array], x: Array, s: Array) -> float:
        """ρ: how far the next point that meets the rows exactly may be."""
        q = program.measure(matrices)
        r = program.row_values(q, x) + self.slack @ s - program.rhs
        widest = max(int(np.diff(b.incidence.indptr).max(initial=0)) for b in program.blocks)
        terms = [int(np.diff(a.indptr).max(initial=0)) for a in (program.rows_q, program.rows_x)]
        lengths = [
            b_abs.measure(np.abs(m))
            for b_abs, m in zip(map(_absolute, program.blocks), matrices, strict=True)
        ]
        size = abs(program.rows_q) @ np.concatenate(lengths) + abs(program.rows_x) @ np.abs(x)
        size = size + abs(self.slack) @ np.abs(s) + np.abs(program.rhs)
        chain = 2 * widest + sum(terms) + 8
        sums = abs(program.rows_q) @ np.ones(program.rows_q.shape[1])
        error = 1.01 * gamma(chain) * size + chain * TINY * (1 + sums) * 4.0 * (1 + widest) ** 2
        return float(np.linalg.norm(np.abs(r) + error)) / self.sigma * (1 + 1e-9)


def _absolute(block: Block) -> Block:
    from dataclasses import replace

    return replace(block, incidence=abs(block.incidence))


def _proven_value(
    program: Program, rows: _Rows, matrices: list[Array], x: Array, s: Array
) -> float | None:
    """The value of the feasible point next to this one, if there is one."""
    rho = rows.distance(program, matrices, x, s)
    inside = np.all(x[~program.free_x] > rho) and np.all(s > rho)
    if not np.isfinite(rho) or not inside:
        return None
    for block, m in zip(program.blocks, matrices, strict=True):
        shifted = m - rho * np.eye(len(m))
        # The subtraction is rounded, entry by entry of the diagonal.
        error = np.diag(4e-16 * (np.abs(np.diag(m)) + rho))
        if not definite_on_face(ScaledSlack(shifted, error, _unit_null(block))):
            return None
    return _value(program, matrices, x, rho)


def _unit_null(block: Block) -> Array:
    """The constant vector of a centred block, as ones."""
    return np.ones((block.size, block.null.shape[1]))


def _value(program: Program, matrices: list[Array], x: Array, rho: float) -> float:
    """<C, PMP> + gᵀq + cᵀx, less what rounding and the distance ρ may cost."""
    total, error, norms = program.offset, 0.0, 0.0
    for block, m, g in zip(program.blocks, matrices, program.split(program.cost_q), strict=True):
        cost = block.cost.dense() + dense(block.adjoint(g))
        factor, n = np.abs(block.cost.factor), block.size
        size = abs(block.cost.identity) * np.eye(n) + dense(abs(block.cost.sparse))
        size = size + (factor * np.abs(block.cost.weights)) @ factor.T
        size = size + dense(_absolute(block).adjoint(np.abs(g)))
        chain = n * n + block.cost.weights.size + block.n_measurements + 8
        total += float(np.sum(cost * m))
        error += gamma(chain) * float(np.sum(size * np.abs(m)))
        if block.null.shape[1]:
            # PMP = M − (1mᵀ + m1ᵀ) + μ11ᵀ with the row means m of M and their mean μ.
            means, ones = m.mean(axis=1), cost.sum(axis=1)
            total += -2 * float(means @ ones) + float(means.mean()) * float(ones.sum())
            heavy = size.sum(axis=1)
            rough = 2 * float(np.abs(m).mean(axis=1) @ heavy)
            error += 4 * gamma(chain) * (rough + float(np.abs(m).mean()) * float(heavy.sum()))
        norms += float(np.sum(size**2))
    total += float(program.cost_x @ x)
    error += gamma(x.size + 8) * (float(np.abs(program.cost_x) @ np.abs(x)) + abs(program.offset))
    norms += float(np.sum(program.cost_x**2))
    lost = rho * float(np.sqrt(norms)) * (1 + 1e-9) + 1.01 * error + 8e-16 * abs(total) + TINY
    return float(np.nextafter(total - program.sign * lost, -np.inf * program.sign))
