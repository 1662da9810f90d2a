"""The other end of the enclosure: a point that is proven feasible, and its value.

Let a point Z = (M, x), with the slacks of inequalities among x, miss its rows by r = A(Z) − b, and
let σ² ≤ λ_min(AAᵀ). Then Ẑ = Z − Aᵀ(AAᵀ)⁻¹r meets them exactly and ‖Ẑ − Z‖ ≤ ‖r‖/σ. If M ⪰ ρI on
the face, x ≥ ρ and x_h ≥ ‖x_T‖ + √2ρ with ρ = ‖r‖/σ, then Ẑ is feasible, and its value differs
from that of Z by at most ρ times the norm of the costs (Jansson, Chaykin, Keil 2007), and a little
more where there are squares. r is bounded with the rounding of its computation, M ⪰ ρI proved by a
shifted Cholesky factorisation, and so is AAᵀ ⪰ σ²I; for distinct edges of a graph
AAᵀ = |B||B|ᵀ + 2I, so that σ² = 2.

A returned point lies at the boundary of the cone. It is moved inwards first: M + τI and x + τ, with
τ as large as the proof needs, and then back onto its rows by congruences, which keep it inside.

Null directions must be orthogonal to all measurements (centring a graph): then Aᵀ(y)N = 0 exactly,
and M stands for its projection PMP.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.certificate.definite import certainly_definite, definite_on_face
from sdpkit.certificate.hinges import value_above
from sdpkit.certificate.log_det import log_det_bounds
from sdpkit.certificate.onto_constraints import is_small, root_of, step_onto_rows
from sdpkit.certificate.rounding import TINY, gamma
from sdpkit.certificate.slack import ScaledSlack
from sdpkit.numerics.breakdown import BREAKDOWNS
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix
from sdpkit.program.safe import SafeBounds
from sdpkit.program.second_order import VariableCone
from sdpkit.typing import Array

# How far inwards a point is moved, in units of what the proof takes, and steps back onto its rows.
_INWARDS = (4.0, 40.0, 4e2, 4e3, 4e4, 4e5)
_STEPS = 12
_NO_INTERIOR = (
    "no point near this one was proven feasible: it lies too near the boundary of the cone, or the "
    "program has no interior"
)

_OF_A_FACTOR = "the matrix is the product of a factor with itself, its value was rounded upwards"
_FAMILY_BESIDE = (
    "a family together with constraints, log dets or null directions has no feasible end"
)


def attained(program: Program, matrices: tuple[Matrix, ...], x: Array) -> tuple[float | None, str]:
    """(value of a point proven feasible, rounded to the safe side; how, or why there is none)"""
    try:
        with np.errstate(all="ignore"):
            return _attained(program, matrices, x)
    except BREAKDOWNS as error:
        return None, f"the numbers are too near the ends of the floating-point range ({error})"


def _attained(program: Program, matrices: tuple[Matrix, ...], x: Array) -> tuple[float | None, str]:
    refused = _refusal(program, matrices, x)
    if refused:
        return None, refused
    given = [np.asarray(m) for m in matrices]
    if program.family is not None:
        value = value_above(program, given)
        return value, _OF_A_FACTOR if value is not None else _FAMILY_BESIDE
    rows = _Rows.of(program) or _Rows.of(_without_repeats(program))
    if rows is None:
        return None, "the constraints are linearly dependent, or so nearly that no proof was found"
    x = np.concatenate([x, rows.slacks(given, x)])
    # What the rows take, and a shifted Cholesky factorisation.
    blur = max(rows.distance(given, x, blur_only=True), TINY)
    shift = max(blur, *(4 * gamma(len(m) + 1) * float(np.trace(m)) for m in given))
    for times in _INWARDS:
        point = rows.inwards(given, x, times * shift, times * blur)
        value = None if point is None else _proven_value(rows, *point)
        if value is not None:
            return value, "shifted Cholesky succeeded around the point, moved inwards"
    return None, _NO_INTERIOR


def _refusal(program: Program, matrices: tuple[Matrix, ...], x: Array) -> str:
    if any(isinstance(m, Gram) for m in matrices) or not is_small(program):
        return "the matrix or its constraints are too large to be factored densely"
    # M + Mᵀ and M + τI must not overflow.
    if not all(np.isfinite(4 * np.asarray(m)).all() for m in [*matrices, x]):
        return "there is no finite point"
    ranked = any(block.max_rank is not None for block in program.blocks)
    if ranked and program.family is None:
        return "a limit on the rank has no feasible end"
    if any(block.null.shape[1] and not _is_centred(block) for block in program.blocks):
        return "null directions other than the centring of a graph are not exact in floating point"
    if any(block.null.shape[1] and block.log_det for block in program.blocks):
        return "log dets on a face have no feasible end"
    return "" if program.n_rows or program.family is not None else "there are no constraints"


def _is_centred(block: Block) -> bool:
    """M1 = 0 is the only null condition, and all measurements sum to zero exactly."""
    starts = block.incidence.indptr
    parts = itertools.pairwise(starts)
    return block.is_centred and all(not math.fsum(block.incidence.data[a:b]) for a, b in parts)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The program with equations only, and σ with AAᵀ ⪰ σ²I, proven."""

    program: Program
    sigma: float

    @classmethod
    def of(cls, program: Program) -> _Rows | None:
        slack = program.slack_columns
        k = slack.shape[1]
        equations = replace(
            program,
            rows_x=sp.csr_array(sp.hstack([program.rows_x, slack])),
            relations=np.zeros_like(program.relations),
            cost_x=np.concatenate([program.cost_x, np.zeros(k)]),
            free_x=np.concatenate([program.free_x, np.zeros(k, dtype=bool)]),
            quadratic_x=np.concatenate([program.quadratic_x, np.zeros(k)]),
            safe=SafeBounds(),
        )
        # A slack in every row: AAᵀ ⪰ I.
        sigma = 1.0 if k == program.n_rows else _edges_alone(equations)
        sigma = sigma or _proven_sigma(equations)
        return None if sigma is None else cls(equations, sigma)

    def slacks(self, matrices: list[Array], x: Array) -> Array:
        """(k,) what the inequalities leave."""
        k = self.program.n_auxiliary - x.size
        padded = np.concatenate([x, np.zeros(k)])
        left = self.program.rhs - self.program.row_values(self.program.measure(matrices), padded)
        return np.asarray(np.maximum((self.program.rows_x.T @ left)[x.size :], 0.0))

    def inwards(
        self, matrices: list[Array], x: Array, tau: float, tau_x: float
    ) -> tuple[list[Array], Array] | None:
        """M + τI and x + τ_x, moved back onto the rows as well as rounding lets."""
        program = self.program
        pairs = zip(program.blocks, matrices, strict=True)
        factors = [root_of(block, m, tau) for block, m in pairs]
        x = program.cone_x.projected(x) + tau_x * program.cone_x.unit
        left = np.inf
        for _ in range(_STEPS):
            step = step_onto_rows(program, factors, x)
            if step is None:
                return None
            factors, x = step
            q = np.concatenate(
                [
                    np.einsum("pk,pk->p", w, w)
                    for w in (b.vectors() @ y for b, y in zip(program.blocks, factors, strict=True))
                ]
            )
            before, left = left, float(np.linalg.norm(program.row_values(q, x) - program.rhs))
            if not left < 0.1 * before:
                break
        return [y @ y.T for y in factors], x

    def distance(self, matrices: list[Array], x: Array, blur_only: bool = False) -> float:
        """ρ: how far the next point that meets the rows exactly may be."""
        program = self.program
        r = program.row_values(program.measure(matrices), x) - program.rhs
        widest = max(map(_chain, program.blocks))
        terms = [int(np.diff(a.indptr).max(initial=0)) for a in (program.rows_q, program.rows_x)]
        pairs = zip(map(_absolute, program.blocks), matrices, strict=True)
        lengths = np.concatenate([block.measure(np.abs(m)) for block, m in pairs])
        size = abs(program.rows_q) @ lengths + abs(program.rows_x) @ np.abs(x)
        chain = 2 * widest + sum(terms) + 8
        sums = abs(program.rows_q) @ np.ones(program.rows_q.shape[1])
        blur = 1.01 * gamma(chain) * (size + np.abs(program.rhs))
        blur = blur + chain * TINY * (1 + sums) * 4.0 * (1 + widest) ** 2
        off = blur if blur_only else np.abs(r) + blur
        return _norm(off) / self.sigma * (1 + 1e-9)


def _chain(block: Block) -> int:
    """How many numbers one entry of vᵀM is summed from, and v itself."""
    widest = int(np.diff(block.incidence.indptr).max(initial=0))
    return widest if block.features is None else widest + block.size


def _norm(values: Array) -> float:
    """‖values‖, rounded upwards, of numbers whose squares may underflow."""
    largest = float(np.abs(values).max(initial=0.0))
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.linalg.norm(values / largest)) * (1 + 1e-9) + TINY


def _without_repeats(program: Program) -> Program:
    """The program without equations that are exact multiples of others, or 0 = 0."""
    kept: list[int] = []
    seen: dict[tuple[Fraction, ...], int] = {}
    wide = sp.csr_array(sp.hstack([program.rows_q, program.rows_x]))
    for e in range(program.n_rows):
        part = slice(wide.indptr[e], wide.indptr[e + 1])
        row = [Fraction(float(a)) for a in wide.data[part]]
        right = Fraction(float(program.rhs[e]))
        if program.relations[e] == 0:
            if not row and right == 0:
                continue
            lead = row[0] if row else Fraction(1)
            places = map(Fraction, wide.indices[part].tolist())
            key = (*places, *(a / lead for a in row), right / lead)
            if key in seen:
                continue
            seen[key] = e
        kept.append(e)
    return replace(
        program,
        rows_q=program.rows_q[kept],
        rows_x=program.rows_x[kept],
        relations=program.relations[kept],
        rhs=program.rhs[kept],
        safe=SafeBounds(),
    )


def _edges_alone(program: Program) -> float | None:
    """σ² = 2 for rows that are one edge each of distinct edges; None for other rows."""
    single = np.all(np.diff(program.rows_q.indptr) == 1)
    if not single or np.unique(program.rows_q.indices).size != program.n_rows:
        return None
    if any(block.edges is None for block in program.blocks):
        return None
    return float(np.sqrt(2.0) * np.abs(program.rows_q.data).min()) * (1 - 1e-12)


def _proven_sigma(program: Program) -> float | None:
    """σ from a shifted Cholesky factorisation of AAᵀ; None where it fails."""
    m = program.n_rows
    gram, size, chain = np.zeros((m, m)), np.zeros((m, m)), 8
    for block, span in zip(program.blocks, program.spans, strict=True):
        a, v, absolute = program.rows_q[:, span], block.vectors(), _absolute(block).vectors()
        inner, most = v @ v.T, absolute @ absolute.T
        gram += dense(a @ inner.multiply(inner) @ a.T)
        size += dense(abs(a) @ most.multiply(most) @ abs(a).T)
        chain += 2 * (2 * _chain(block) + int(np.diff(a.indptr).max(initial=0)))
    gram += dense(program.rows_x @ program.rows_x.T)
    size += dense(abs(program.rows_x) @ abs(program.rows_x).T)
    chain += int(np.diff(program.rows_x.indptr).max(initial=0))
    if not np.isfinite(gram).all():
        return None
    error = 1.01 * gamma(chain) * float(size.sum(axis=1).max()) + m * chain * TINY
    least = float(scipy.linalg.eigvalsh(gram, subset_by_index=[0, 0])[0])
    for share in (0.5, 0.1):
        shift = share * least
        if shift > 0 and certainly_definite(gram - shift * np.eye(m), error + 4e-16 * shift):
            return float(np.sqrt(shift) * (1 - 1e-12))
    return None


def _absolute(block: Block) -> Block:
    features = None if block.features is None else np.abs(block.features)
    return replace(block, incidence=abs(block.incidence), features=features)


def _proven_value(rows: _Rows, matrices: list[Array], x: Array) -> float | None:
    """The value of the feasible point next to this one, if there is one."""
    program, rho = rows.program, rows.distance(matrices, x)
    if not np.isfinite(rho) or not _is_inside(program.cone_x, x, rho):
        return None
    for block, m in zip(program.blocks, matrices, strict=True):
        shifted = m - rho * np.eye(len(m))
        # The subtraction is rounded, entry by entry of the diagonal.
        error = np.diag(4e-16 * (np.abs(np.diag(m)) + rho))
        ones = np.ones((block.size, block.null.shape[1]))
        if not definite_on_face(ScaledSlack(shifted, error, ones)):
            return None
    return _value(program, matrices, x, rho)


def _is_inside(cone: VariableCone, x: Array, rho: float) -> bool:
    """Whether all points within ρ of x are in its cone."""
    if not np.all(x[~cone.free] > rho):
        return False
    rounding = 4e-16 * (cone.members.size + 8) * np.abs(x[cone.heads])
    return bool(np.all(-cone.lack(x) > 1.4143 * rho + rounding + TINY))


def _value(program: Program, matrices: list[Array], x: Array, rho: float) -> float | None:
    """<C, PMP> + gᵀq + cᵀx and log dets, less what rounding and the distance ρ may cost."""
    # Parts may cancel, or hide each other: they are summed at the end, and exactly.
    parts, lost, norms = [program.offset], 0.0, [_norm(program.cost_x)]
    for block, m, g in zip(program.blocks, matrices, program.split(program.cost_q), strict=True):
        cost = block.cost.dense() + dense(block.adjoint(g))
        size = _absolute_cost(block, g)
        chain = block.size**2 + block.cost.weights.size + block.n_measurements + 2 * _chain(block)
        value, error = _inner(cost, size, m, chain + 8, centred=bool(block.null.shape[1]))
        parts.append(value)
        lost += error
        norms.append(_norm(size))
        if block.log_det:
            # The point next to M is M − ρI at least.
            logs = log_det_bounds(m - rho * np.eye(block.size), 4e-16 * (rho + np.abs(m).max()))
            if logs is None:
                return None
            parts.append(program.sign * block.log_det * logs[0])
            lost += 4e-16 * block.log_det * abs(logs[0])
    bent = program.penalty(x)
    if bent:
        parts.append(-program.sign * bent)
        steepness = float(program.quadratic_x.max(initial=0.0))
        lost += gamma(2 * x.size + 16) * bent + 0.51 * rho**2 * steepness
        norms.append(_norm(program.quadratic_x * x))
        norms.extend(penalty.weight for penalty in program.norms)
    total = math.fsum([*parts, float(program.cost_x @ x)])
    size_x = float(np.abs(program.cost_x) @ np.abs(x)) + abs(program.offset)
    lost += 1.01 * gamma(x.size + 8) * size_x + x.size * TINY
    lost += rho * _norm(np.array(norms)) * (1 + 1e-9) + 4e-15 * abs(total) + TINY
    value = float(np.nextafter(total - program.sign * lost, -np.inf * program.sign))
    return value if np.isfinite(value) else None


def _absolute_cost(block: Block, g: Array) -> Array:
    """|C| + |V|ᵀdiag|g||V|, from the absolute values of its parts."""
    factor = np.abs(block.cost.factor)
    size = abs(block.cost.identity) * np.eye(block.size) + dense(abs(block.cost.sparse))
    size = size + (factor * np.abs(block.cost.weights)) @ factor.T
    return np.asarray(size + dense(_absolute(block).adjoint(np.abs(g))) + TINY)


def _inner(cost: Array, size: Array, m: Array, chain: int, centred: bool) -> tuple[float, float]:
    """(<C, PMP>, a bound on its rounding)"""
    total = float(np.sum(cost * m))
    error = gamma(chain) * float(np.sum(size * np.abs(m))) + m.size * TINY
    if centred:
        # PMP = M − (1mᵀ + m1ᵀ) + μ11ᵀ with the row means m of M and their mean μ.
        means, ones = m.mean(axis=1), cost.sum(axis=1)
        total += -2 * float(means @ ones) + float(means.mean()) * float(ones.sum())
        heavy = size.sum(axis=1)
        rough = 2 * float(np.abs(m).mean(axis=1) @ heavy)
        error += 4 * gamma(chain) * (rough + float(np.abs(m).mean()) * float(heavy.sum()))
    return total, 1.01 * error
