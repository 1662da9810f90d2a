"""A primal–dual interior-point method for programs in squared lengths.

For the maximisation (a minimisation is negated), with inequalities turned into equalities by
slacks and every block restricted to its face, it follows the central path of

    A(M) + A_x x = b,    S = Vᵀdiag(A_qᵀw − g)V − C,    z = A_xᵀw + h∘x − c,
    M S = μI,            x∘z = μ

with the HKM direction (Helmberg–Rendl–Vanderbei–Wolkowicz, Kojima–Shindoh–Hara, Monteiro) and
Mehrotra's predictor–corrector. Its normal equations have the matrix

    B = A_q [(V M Vᵀ) ∘ (V S⁻¹ Vᵀ)] A_qᵀ + A_x diag(x/(z + h∘x)) A_xᵀ

a Hadamard product of two gathered matrices: where a general code spends O(mn³ + m²n²) on it,
sparse measurements need O(m²). What is left is one Cholesky factorisation of B (m³/3), three
products and three factorisations of n × n matrices per iteration. `sdpkit.solvers.algebra` has
the details, and the other shape of the equations, for rows that far outnumber entries of M.

Free variables without curvature are eliminated by a second, small Schur complement. The dual
slack is recomputed from w in every iteration once it is feasible, so that the multipliers which
are returned are *strictly* feasible and bᵀw is a bound without any repair. Where progress ends
near a solution, graphs go on in the coordinates of a spanning tree (`sdpkit.solvers.tree`), which
have the digits that coordinates of nodes lack.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sdpkit.errors import InputError
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.reduction import Reduction, reduce
from sdpkit.solution.solver import Capabilities
from sdpkit.solvers.algebra import (
    Breakdown,
    Cone,
    EntryEquations,
    RowEquations,
    TreeCone,
    cholesky,
    inner,
    inverse_of,
    product,
    symmetrise,
    times,
)

Array = NDArray[np.float64]

_MAX_ITER = 100
_DENSE_STEP = 120  # up to this size step lengths come from all eigenvalues
_LANCZOS = 48  # steps of the Lanczos method above it
_STUCK = 0.1  # a step this short calls for pure centring
_DOUBT = 2  # iterations without progress after which rounding is suspected
_PATIENCE = 8  # iterations without progress after which there will be none
_NEAR = 1e-3  # relative errors below which a stalled point is near a solution
_DIVERGED = 1e8  # an objective this many times its scale is a ray


def _longest_step(matrix: Array, factor: Array, direction: Any, enough: float) -> float:
    """The largest α with  A + αD ⪰ 0, to a few percent; any value above `enough` will do.

    With A = LLᵀ, −1/α is the smallest eigenvalue of L⁻¹DL⁻ᵀ. The caller proves the step it takes
    by a Cholesky factorisation, so an estimate suffices.
    """
    if factor.shape[0] <= _DENSE_STEP:
        moved = matrix + enough * dense(direction)
        if lapack.dpotrf(moved.T, lower=1, clean=0)[1] == 0:
            return np.inf
        scaled = lapack.dsygst(dense(direction).T, factor, itype=1, lower=1)[0]
        smallest = float(lapack.dsyevr(scaled, compute_v=0, range="I", lower=1, il=1, iu=1)[0][0])
    else:
        smallest = _lanczos_smallest(factor, direction, 1.0 / enough)
    return np.inf if smallest >= 0 else -1.0 / smallest


def _lanczos_smallest(factor: Array, direction: Any, harmless: float) -> float:
    """λ_min(L⁻¹ D L⁻ᵀ) to a few percent, or any bound above −harmless."""
    n = factor.shape[0]
    basis = np.zeros((_LANCZOS + 1, n))
    start = np.cos(np.arange(n) * 1.7 + 0.3)  # deterministic, in general position
    basis[0] = start / np.linalg.norm(start)
    tridiagonal = np.zeros((_LANCZOS + 1, _LANCZOS + 1))
    smallest = 0.0
    for k in range(_LANCZOS):
        image = blas.dtrsv(factor, basis[k], lower=1, trans=1)
        image = blas.dtrsv(factor, _apply(direction, image), lower=1)
        tridiagonal[k, k] = basis[k] @ image
        for _ in range(2):
            image -= basis[: k + 1].T @ (basis[: k + 1] @ image)
        off = float(np.linalg.norm(image))
        # A residual tells how near *some* eigenvalue is; only steps tell that it is the smallest.
        if (k > 10 and k % 4 == 3) or off == 0 or k == _LANCZOS - 1:
            ritz, vectors = np.linalg.eigh(tridiagonal[: k + 1, : k + 1])
            smallest, residual = float(ritz[0]), off * abs(float(vectors[-1, 0]))
            if smallest - residual > -harmless:
                return smallest - residual
            if residual <= 0.05 * abs(smallest):
                return smallest - residual
        tridiagonal[k, k + 1] = tridiagonal[k + 1, k] = off
        basis[k + 1] = image / off if off else 0.0
    return smallest - residual


def _apply(symmetric: Any, vector: Array) -> Array:
    if isinstance(symmetric, np.ndarray):
        return np.asarray(blas.dsymv(1.0, symmetric.T, vector, lower=1))
    return np.asarray(symmetric @ vector)


# -- the iterate ----------------------------------------------------------------------------


@dataclass
class _Point:
    """(M, x; w, S, z). Arrays are replaced, never changed in place."""

    matrices: list[Array]
    x: Array
    w: Array
    slacks: list[Array]
    z: Array

    def copy(self) -> _Point:
        return replace(self, matrices=list(self.matrices), slacks=list(self.slacks))


@dataclass
class _Step:
    matrices: list[Array]
    x: Array
    w: Array
    slacks: list[Any]
    z: Array


@dataclass(frozen=True)
class _Measures:
    """How far a point is from optimal, all relative."""

    primal: float
    dual: float
    primal_residual: float
    dual_residual: float
    mu: float
    zero: float  # the magnitude below which a value counts as zero

    @property
    def gap(self) -> float:
        return abs(self.dual - self.primal) / max(abs(self.dual), abs(self.primal), self.zero)

    @property
    def worst(self) -> float:
        return max(self.gap, self.primal_residual, self.dual_residual)


class _Method:
    """Predictor–corrector on one reduced program, as equalities with slacks."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sign = program.sign
        self.b = program.rhs
        self._set_columns(program)
        self.cones = [
            Cone(block, program.rows_q[:, span], program.cost_q[span], program.sign)
            for block, span in zip(program.blocks, program.spans, strict=True)
        ]
        self.order = sum(cone.n for cone in self.cones) + int((~self.free).sum())
        self.equations = self._choose_equations()
        self.last_step = 1.0
        self.zero = 1e-12
        self.scale_b = max(1.0, float(np.abs(self.b).max(initial=0.0)))
        costs = [float(np.abs(cone.cost).max()) for cone in self.cones]
        self.scale_c = max(1.0, *costs, float(np.abs(self.c).max(initial=0.0)))

    def _choose_equations(self) -> RowEquations | EntryEquations:
        """Over the entries of M where rows far outnumber them and have slacks of their own."""
        if _entries_are_fewer(self.program) and np.diff(sp.csc_array(self.a).indptr).max() == 1:
            return EntryEquations(self.cones)
        return RowEquations(self.cones, self.b.size)

    def _set_columns(self, program: Program) -> None:
        """A_x with one slack per inequality; variables split into nonnegative and free."""
        slack = program.slack_columns
        zeros = np.zeros(slack.shape[1])
        self.a = sp.csr_array(sp.hstack([program.rows_x, slack]))
        self.at = sp.csr_array(self.a.T)
        self.c = np.concatenate([self.sign * program.cost_x, zeros])
        self.h = np.concatenate([program.quadratic_x, zeros])
        self.free = np.concatenate([program.free_x, zeros.astype(bool)])
        self.rigid = self.free & (self.h == 0)
        # Rows of nothing but rigid variables are zero in B; what they share goes into it.
        soft = abs(self.a) @ np.where(self.rigid, 0.0, 1.0) + np.diff(program.rows_q.indptr)
        bare = sp.diags_array((soft == 0).astype(float)) @ abs(self.a)
        self.tied = np.flatnonzero(self.rigid & (np.asarray(bare.sum(axis=0)).ravel() > 0))

    # -- points ------------------------------------------------------------------------------

    def start(self) -> _Point:
        """Multiples of the identity, large enough to dominate rows and costs."""
        matrices, slacks = [], []
        w = np.zeros(self.b.size)
        for cone in self.cones:
            # Rows have unit norm after reduction: ‖A_e‖ = 1.
            xi = max(10.0, np.sqrt(cone.n), cone.n * float(np.abs(self.b).max(initial=0.0)))
            eta = max(10.0, np.sqrt(cone.n), float(np.linalg.norm(cone.cost)))
            matrices.append(xi * np.eye(cone.n))
            slacks.append(eta * np.eye(cone.n))
        size = max(10.0, self.scale_b)
        x = np.where(self.free, 0.0, size)
        z = np.where(self.free, 0.0, max(10.0, self.scale_c))
        return _Point(matrices, x, w, slacks, z)

    def centred_start(self, w: Array) -> _Point | None:
        """A strictly feasible dual w, and M = μS⁻¹, x = μ/z: exactly on the central path of the
        program whose rows they meet. None if w is not strictly feasible.

        μ is chosen so that the rows at hand are met as well as one number can.
        """
        z = np.asarray(self.at @ w - self.c)
        # A slack that is positive by rounding only would start with an x of 1e16.
        rounding = 1e-8 * float(np.abs(w).max(initial=0.0))
        if self.h.any() or np.any(z[~self.free] <= rounding) or np.any(z[self.free] != 0):
            return None
        slacks = [dense(cone.adjoint(w)) - cone.cost for cone in self.cones]
        try:
            inverses = [inverse_of(cholesky(s)) for s in slacks]
        except Breakdown:
            return None
        x = np.where(self.free, 0.0, 1.0 / np.where(self.free, 1.0, z))
        values = np.asarray(self.a @ x)
        for cone, inverse in zip(self.cones, inverses, strict=True):
            values = values + cone.values(inverse)
        fit = float(values @ self.b) / float(values @ values)
        mu = 3 * fit if fit > 0 else float(np.linalg.norm(self.b) / np.linalg.norm(values))
        if not mu > 0:
            return None
        return _Point([mu * m for m in inverses], mu * x, w, slacks, z)

    def warm(self, matrices: list[Array], x: Array, w: Array) -> _Point:
        """A given point moved into the interior by a thousandth of its size."""
        start = self.start()
        start.w = w
        for k, cone in enumerate(self.cones):
            eye = np.eye(cone.n)
            m = symmetrise(matrices[k])
            s = dense(cone.adjoint(w)) - cone.cost
            lift = max(0.0, -float(np.linalg.eigvalsh(s)[0]))
            start.matrices[k] = m + 1e-3 * max(float(np.trace(m)) / cone.n, 1e-8) * eye
            start.slacks[k] = s + (lift + 1e-3 * max(float(np.trace(s)) / cone.n, 1e-8)) * eye
        slack = self.program.n_auxiliary
        values = np.concatenate([x, np.zeros(self.c.size - slack)])
        start.x = np.where(self.free, values, np.maximum(values, 1e-3))
        reduced = self.at @ w + self.h * start.x - self.c
        start.z = np.where(self.free, 0.0, np.maximum(reduced, 1e-3))
        return start

    def along_trees(self, p: _Point) -> tuple[_Method, _Point] | None:
        """The method in the coordinates of spanning trees, and the point in them.

        None where no block is a graph, or all graphs have their trees already.
        """
        if not isinstance(self.equations, RowEquations) or self.follows_trees:
            return None
        cones = [TreeCone.of(cone, m) for cone, m in zip(self.cones, p.matrices, strict=True)]
        if not any(cones):
            return None
        finer = copy(self)
        finer.cones = [new or old for new, old in zip(cones, self.cones, strict=True)]
        finer.equations = self.equations.over(finer.cones)
        moved = p.copy()
        for k, cone in enumerate(finer.cones):
            if isinstance(cone, TreeCone):
                exact = dense(cone.adjoint(p.w)) - cone.cost
                moved.matrices[k] = _interior(cone.tree.from_nodes(p.matrices[k]))
                moved.slacks[k] = _interior(exact)
        finer.prepare(moved)
        return finer, moved

    @property
    def follows_trees(self) -> bool:
        """Whether some block is in the coordinates of a tree."""
        return any(isinstance(cone, TreeCone) for cone in self.cones)

    def among_nodes(self, p: _Point) -> tuple[Array, ...]:
        """The point's matrices in the coordinates of the program."""
        return tuple(
            cone.tree.to_nodes(m) if isinstance(cone, TreeCone) else m
            for cone, m in zip(self.cones, p.matrices, strict=True)
        )

    def measures(self, p: _Point) -> _Measures:
        products = zip(p.matrices, p.slacks, strict=True)
        mu = sum(inner(m, s) for m, s in products) + float(p.x @ p.z)
        values = np.asarray(self.a @ p.x)
        primal = float(self.c @ p.x) - 0.5 * float(self.h @ p.x**2)
        for cone, matrix in zip(self.cones, p.matrices, strict=True):
            values = values + cone.values(matrix)
            primal += inner(cone.cost, matrix)
        dual = float(self.b @ p.w) + 0.5 * float(self.h @ p.x**2)
        self.primal_gap = self.b - values
        self.dual_gaps = self._dual_gaps(p)
        self.z_gap = np.asarray(self.at @ p.w + self.h * p.x - self.c - p.z)
        off = max(float(np.abs(g).max()) if g is not None else 0.0 for g in self.dual_gaps)
        off = max(off, float(np.abs(self.z_gap).max(initial=0.0)))
        return _Measures(
            primal,
            dual,
            float(np.abs(self.primal_gap).max(initial=0.0)) / self.scale_b,
            off / self.scale_c,
            mu / self.order,
            self.zero,
        )

    def _dual_gaps(self, p: _Point) -> list[Array | None]:
        """S(w) − S per block; None once the slack is that of w and is recomputed from it."""
        gaps: list[Array | None] = []
        for k, cone in enumerate(self.cones):
            exact = dense(cone.adjoint(p.w)) - cone.cost
            gap = exact - p.slacks[k]
            if np.abs(gap).max() <= 1e-9 * max(self.scale_c, float(np.abs(exact).max())):
                p.slacks[k] = exact
                gaps.append(None)
            else:
                gaps.append(gap)
        return gaps

    # -- directions --------------------------------------------------------------------------

    def factor(self, p: _Point) -> None:
        """Factor S, invert it, assemble and factor B."""
        self.inverses = [inverse_of(f) for f in self.slack_factors]
        curved = np.where(self.rigid, 1.0, p.z + self.h * np.where(self.free, 1.0, p.x))
        self.weights = np.where(self.rigid, 0.0, np.where(self.free, 1.0, p.x) / curved)
        extra: sp.csr_array | None = None
        if self.c.size:
            extra = sp.csr_array(self.a @ sp.diags_array(self.weights) @ self.at)
        if extra is not None and self.tied.size:
            # A_fᵀΔw is given: adding a multiple of A_f A_fᵀΔw to both sides changes nothing.
            pairs = zip(p.matrices, self.inverses, strict=True)
            self.tie = max(float(np.trace(m) * np.trace(i)) / len(m) ** 2 for m, i in pairs)
            extra = extra + self.tie * (self.a[:, self.tied] @ self.at[self.tied])
        self.equations.factor(p.matrices, self.inverses, extra)

    def _solve(self, rhs: Array, rigid_rhs: Array) -> tuple[Array, Array]:
        """(Δw, Δx of the rigid free variables) from  BΔw − A_f Δx = rhs,  A_fᵀΔw = rigid_rhs."""
        if self.tied.size:
            given = np.zeros(self.c.size)
            given[self.rigid] = rigid_rhs
            rhs = rhs + self.tie * (self.a[:, self.tied] @ given[self.tied])
        solution = self.equations.solve(rhs)
        if not self.rigid.any():
            return solution, np.zeros(0)
        coupling = self.a[:, np.flatnonzero(self.rigid)].toarray()
        answers = self.equations.solve(coupling)
        # Least squares: free columns may depend on each other, or be empty.
        dx = np.linalg.lstsq(coupling.T @ answers, rigid_rhs - coupling.T @ solution)[0]
        return solution + answers @ dx, np.asarray(dx, dtype=np.float64)

    def direction(self, p: _Point, target: float, predictor: _Step | None) -> _Step:
        """The HKM step towards MS = target·I, with Mehrotra's correction of `predictor`."""
        rhs = -self.b.copy()
        corrections: list[Array] = []
        for k, cone in enumerate(self.cones):
            total = np.zeros((cone.n, cone.n))
            gap = self.dual_gaps[k]
            if gap is not None:
                total += product(p.matrices[k], gap)
            if predictor is not None:
                total += times(predictor.matrices[k], predictor.slacks[k])
            correction = product(total, self.inverses[k]) if total.any() else total
            if target:
                correction -= target * self.inverses[k]
            corrections.append(correction)
            rhs -= cone.values(correction)
        second = np.zeros_like(p.x) if predictor is None else predictor.x * predictor.z
        pull = np.where(self.free, -self.z_gap, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bounded = target - second - p.x * self.z_gap + self.h * p.x**2
            bounded /= p.z + self.h * p.x
            curved = pull / self.h
        base = np.where(self.rigid, 0.0, np.where(self.free, curved + p.x, bounded))
        # Free variables: A(M) + A_x x = b counts their current value, nonnegative ones' x cancels.
        rhs += self.a @ np.where(self.rigid, p.x, base)
        dw, rigid_step = self._solve(rhs, -self.z_gap[self.rigid])
        return self._assemble(p, dw, rigid_step, corrections, base)

    def _assemble(
        self,
        p: _Point,
        dw: Array,
        rigid_step: Array,
        corrections: list[Array],
        base: Array,
    ) -> _Step:
        matrices, slacks = [], []
        for k, cone in enumerate(self.cones):
            image = cone.adjoint(dw)
            step = product(times(p.matrices[k], image), self.inverses[k])
            step += corrections[k]
            matrices.append(-p.matrices[k] - symmetrise(step))
            gap = self.dual_gaps[k]
            slacks.append(image if gap is None else dense(image) + gap)
        tilt = np.asarray(self.at @ dw)
        dx = base - self.weights * tilt - p.x
        dx[self.rigid] = rigid_step
        dz = np.where(self.free, 0.0, tilt + self.h * dx + self.z_gap)
        return _Step(matrices, dx, dw, slacks, dz)

    # -- steps -------------------------------------------------------------------------------

    def lengths(self, p: _Point, step: _Step, enough: float) -> tuple[float, float]:
        """The longest primal and dual steps that stay in the cones, if shorter than `enough`."""
        primal, dual = np.inf, np.inf
        for k, (m, s) in enumerate(zip(p.matrices, p.slacks, strict=True)):
            dm, ds = step.matrices[k], step.slacks[k]
            primal = min(primal, _longest_step(m, self.matrix_factors[k], dm, enough))
            dual = min(dual, _longest_step(s, self.slack_factors[k], ds, enough))
        with np.errstate(divide="ignore", invalid="ignore"):
            falling = (step.x < 0) & ~self.free
            primal = min(primal, float(np.min(-p.x[falling] / step.x[falling], initial=np.inf)))
            falling = (step.z < 0) & ~self.free
            dual = min(dual, float(np.min(-p.z[falling] / step.z[falling], initial=np.inf)))
        if self.h.any():
            primal = dual = min(primal, dual)  # x enters the dual: one step for both
        return primal, dual

    def move(self, p: _Point, step: _Step, primal: float, dual: float) -> tuple[float, float]:
        """Take the step, shortened until Cholesky factorisations prove it; return the lengths."""
        primal, p.matrices, self.matrix_factors = _proven(p.matrices, step.matrices, primal)
        p.x = p.x + primal * step.x
        if self.h.any():
            dual = min(primal, dual)
        dual, p.slacks, self.slack_factors = _proven(p.slacks, step.slacks, dual)
        p.w, p.z = p.w + dual * step.w, p.z + dual * step.z
        return primal, dual

    def iterate(self, p: _Point, now: _Measures) -> tuple[float, float]:
        """One predictor–corrector iteration; returns the step lengths."""
        self.factor(p)
        predictor = self.direction(p, 0.0, None)
        primal, dual = (min(1.0, a) for a in self.lengths(p, predictor, 1.0))
        sigma = self._centring(p, predictor, primal, dual, now.mu)
        if self.last_step < _STUCK:
            # At the edge of the cone a corrected step goes nowhere: back to the central path.
            step = self.direction(p, now.mu, None)
        else:
            step = self.direction(p, sigma * now.mu, predictor)
        shrink = 0.9 + 0.09 * min(primal, dual)
        primal, dual = (min(1.0, shrink * a) for a in self.lengths(p, step, 1.0 / shrink))
        primal, dual = self.move(p, step, primal, dual)
        self.last_step = min(primal, dual)
        return primal, dual

    def _centring(self, p: _Point, step: _Step, primal: float, dual: float, mu: float) -> float:
        """Mehrotra's σ from the gap that the predictor would leave."""
        left = float((p.x + primal * step.x) @ (p.z + dual * step.z))
        for k in range(len(self.cones)):
            m, s, dm = p.matrices[k], p.slacks[k], step.matrices[k]
            ds = dense(step.slacks[k])
            left += inner(m, s) + primal * inner(dm, s)
            left += dual * inner(m, ds) + primal * dual * inner(dm, ds)
        # Mehrotra's cube is timid where the predictor meets the cone half-way: square it, and cap
        # it unless the predictor hardly moves at all.
        cap = 0.3 if min(primal, dual) > 0.2 else 1.0
        return float(np.clip((max(left, 0.0) / self.order / mu) ** 2, 1e-6, cap))

    def prepare(self, p: _Point) -> None:
        """Factor the matrices of a starting point."""
        self.last_step = 1.0
        self.matrix_factors = [cholesky(m) for m in p.matrices]
        self.slack_factors = [cholesky(s) for s in p.slacks]


def _interior(matrix: Array) -> Array:
    """The symmetric part of a matrix, moved into the cone if rounding has put it outside."""
    matrix = symmetrise(matrix)
    eye = float(np.trace(matrix)) / len(matrix) * np.eye(len(matrix))
    for shift in (0.0, *10.0 ** np.arange(-14, 0)):
        moved = matrix + shift * eye
        if lapack.dpotrf(moved.T, lower=1, clean=0)[1] == 0:
            return np.asarray(moved)
    raise Breakdown


def _proven(
    matrices: list[Array], directions: list[Any], length: float
) -> tuple[float, list[Array], list[Array]]:
    """(length, matrices, factors) after a step, shortened until the factors exist."""
    for _ in range(40):
        moved = [m + length * dense(d) for m, d in zip(matrices, directions, strict=True)]
        try:
            return length, moved, [cholesky(m) for m in moved]
        except Breakdown:
            length *= 0.9
    raise Breakdown


# -- the solver -----------------------------------------------------------------------------


@dataclass
class _Run:
    """The best point so far, the method whose coordinates it has, and the history of a run."""

    method: _Method
    best: _Point
    measures: _Measures
    history: list[Mapping[str, float]] = field(default_factory=list)
    stalled: int = 0
    slow: int = 0
    mark: float = np.inf

    @property
    def is_near(self) -> bool:
        """Whether the best point is near a solution."""
        return self.measures.worst < _NEAR

    def see(self, p: _Point, now: _Measures) -> None:
        if now.worst < self.measures.worst:
            self.best, self.measures, self.stalled = p.copy(), now, 0
        else:
            self.stalled += 1
        if now.worst < 0.5 * self.mark:
            self.mark, self.slow = now.worst, 0
        else:
            self.slow += 1

    @property
    def is_doubtful(self) -> bool:
        """Whether progress has ended, or goes by small change, near a solution."""
        return self.is_near and (self.stalled >= _DOUBT or self.slow > _DOUBT)

    def enter(self, method: _Method, point: _Point) -> None:
        """Go on in other coordinates, from `point`, which is the best one in them."""
        self.method, self.best = method, point.copy()
        self.stalled = self.slow = 0


@dataclass(frozen=True)
class Interior:
    """The engine behind `solver="interior"`."""

    name: str = "interior"
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(
            quadratic=True,
            warm_start=True,
            callback=True,
            summary="structured primal–dual interior point; certified, up to a few thousand points",
        )
    )

    def unavailable(self) -> str | None:
        """Always available."""
        return None

    def memory(self, program: Program) -> float:
        """Bytes: the Schur matrix and its factor, gathered measurements, a dozen n × n."""
        n2 = sum(block.size**2 for block in program.blocks)
        widest = max(block.n_measurements * block.size for block in program.blocks)
        p2 = (
            0
            if _rows_are_measurements(program)
            else max(block.n_measurements**2 for block in program.blocks)
        )
        rows = 1.1 * program.n_rows**2
        if _entries_are_fewer(program):
            entries = EntryEquations.n_entries([block.size for block in program.blocks])
            rows = 4.0 * program.n_rows * entries + 3.0 * entries**2
            p2 = 0
        return 8.0 * (rows + p2 + 4 * widest + 14 * n2)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Reduce, follow the central path, lift the best point."""
        if settings.options:
            option = next(iter(settings.options))
            raise InputError(f"interior has no option {option!r}; there are tol and max_iter")
        started = time.perf_counter()
        reduction = reduce(program)
        method = _Method(reduction.program)
        # As the certificate: an optimum of zero is never met to a relative gap of its own.
        unit = reduction.rhs_scale * reduction.cost_scale
        method.zero = max(method.zero, program.safe.value_scale / unit)
        setup = time.perf_counter() - started
        deadline = None if settings.time_limit is None else started + settings.time_limit
        units = _Units(reduction)
        given = reduction.lower(settings.warm_start) if settings.warm_start is not None else None
        answer = None
        if given is not None:
            answer = _follow(method, method.warm(*given), settings, deadline, units)
        if answer is None or not answer.native_status.startswith("converged"):
            # A warm start that leads nowhere is forgotten.
            start = _cold_start(method, reduction)
            answer = _follow(method, start, settings, deadline, units)
        solved = time.perf_counter() - started - setup
        return reduction.lift(replace(answer, setup_time=setup, solve_time=solved))


def _cold_start(method: _Method, reduction: Reduction) -> _Point:
    """A centred start where the program knows a strictly feasible dual, identities elsewhere."""
    scale = reduction.row_scale / reduction.cost_scale
    # One μ does not suit blocks of different sizes.
    alone = len(reduction.original.blocks) == 1
    for w in _dual_guesses(reduction.original) if alone else ():
        point = method.centred_start(w[reduction.rows] * scale)
        if point is not None:
            return point
    return method.start()


def _dual_guesses(program: Program) -> Iterator[Array]:
    """Multipliers of the maximisation that may be strictly feasible, the nearest first."""
    direction = program.repair_direction
    if direction is not None and _bounds_the_trace(program, direction):
        costs = [block.cost.magnitude() for block in program.blocks]
        for t in 2.0 * 4.0 ** np.arange(6):
            yield t * max(*costs, 1e-300) * direction
    if program.safe.anchor is not None:
        for t in (0.5, 0.75, 0.9, 0.99):
            yield t * program.sign * program.safe.anchor


def _bounds_the_trace(program: Program, direction: Array) -> bool:
    """Whether w₀ is the problem's own, or Aᵀ(w₀) = I exactly; a mere fit starts far off."""
    if program.safe.direction is not None:
        return bool(program.safe.direction.any())
    return all(
        np.abs(block.face.T @ image @ block.face - np.eye(block.face.shape[1])).max(initial=0.0)
        < 1e-6
        for block, image in zip(program.blocks, program.adjoints(direction), strict=True)
    )


def _entries_are_fewer(program: Program) -> bool:
    """Whether the normal equations are smaller over the entries of M: many rows, each with a
    slack of its own (an inequality's, or a nonnegative or curved variable)."""
    entries = EntryEquations.n_entries([block.size for block in program.blocks])
    given = abs(program.rows_x) @ (~program.free_x | (program.quadratic_x > 0)).astype(float)
    own_slack = (given > 0) | (program.relations != 0)
    return program.n_rows > 2 * entries and bool(own_slack.all())


def _rows_are_measurements(program: Program) -> bool:
    return bool(np.all(np.diff(program.rows_q.indptr) == 1))


def _follow(
    method: _Method,
    point: _Point,
    settings: Settings,
    deadline: float | None,
    units: _Units,
) -> Answer:
    goal = 0.3 * settings.tol
    limit = settings.max_iter or _MAX_ITER
    run: _Run | None = None
    stop, words, iteration = Stop.ITERATION_LIMIT, f"{limit} iterations", 0
    steps = (1.0, 1.0)
    try:
        method.prepare(point)
        for iteration in range(limit + 1):
            method = method if run is None else run.method
            now = method.measures(point)
            run = _Run(method, point.copy(), now) if run is None else run
            run.see(point, now)
            _record(run, units.of(now, iteration, steps), settings)
            verdict = _verdict(method, point, now, run, goal, deadline)
            if verdict is not None:
                stop, words = verdict
                break
            if iteration == limit:
                break
            point, steps = _advance(run, point, now)
    except Breakdown:
        stop = Stop.DONE if run is not None and run.is_near else Stop.FAILED
        words = "a factorisation broke down; the best point is returned"
    except KeyboardInterrupt:
        stop, words = Stop.INTERRUPTED, "interrupted"
    return _answer(run, point, stop, words, iteration)


def _advance(run: _Run, point: _Point, now: _Measures) -> tuple[_Point, tuple[float, float]]:
    """One iteration; along spanning trees from where rounding is in its way near a solution."""
    finer = run.method.along_trees(run.best) if run.is_doubtful else None
    if finer is None:
        try:
            return point, run.method.iterate(point, now)
        except Breakdown:
            finer = run.method.along_trees(run.best) if run.is_near else None
            if finer is None:
                raise
    run.enter(*finer)
    point = finer[1]
    return point, run.method.iterate(point, run.method.measures(point))


def _verdict(
    method: _Method,
    p: _Point,
    now: _Measures,
    run: _Run,
    goal: float,
    deadline: float | None,
) -> tuple[Stop, str] | None:
    if now.worst <= goal:
        return Stop.DONE, f"converged: relative gap {now.gap:.1e}"
    if run.measures.worst <= 2.5 * goal and run.stalled >= 2:
        # Rounding is in the way of the goal, but what was asked for is reached.
        return Stop.DONE, f"converged: relative gap {run.measures.gap:.1e}"
    if deadline is not None and time.perf_counter() > deadline:
        return Stop.TIME_LIMIT, "time limit"
    if now.dual < -_DIVERGED * method.scale_c and now.dual_residual < 1e-6:
        return Stop.CLAIMS_INFEASIBLE, "the dual objective diverges"
    if now.primal > _DIVERGED * method.scale_b * method.scale_c * method.order:
        return Stop.CLAIMS_UNBOUNDED, "the primal objective diverges"
    if run.is_near and (run.stalled >= _PATIENCE or run.slow >= 2 * _PATIENCE):
        waited = max(run.stalled, run.slow)
        return Stop.DONE, f"no progress for {waited} iterations; the best point is returned"
    if run.stalled >= 3 * _PATIENCE:
        # Far from a solution means that there may be none: let the rays be asked for.
        words = f"no progress for {run.stalled} iterations; the best point is returned"
        return Stop.FAILED, words
    if not np.isfinite(now.worst):
        return Stop.FAILED, "the iteration left the floating-point numbers"
    return None


class _Units:
    """Turns measures of the reduced program into rows of the history, in the user's units."""

    def __init__(self, reduction: Reduction) -> None:
        program = reduction.original
        self.scale = program.sign * reduction.rhs_scale * reduction.cost_scale
        self.offset = program.offset

    def of(self, now: _Measures, iteration: int, steps: tuple[float, float]) -> dict[str, float]:
        return {
            "iteration": float(iteration),
            "objective": self.scale * now.primal + self.offset,
            "dual_objective": self.scale * now.dual + self.offset,
            "gap": now.gap,
            "primal_residual": now.primal_residual,
            "dual_residual": now.dual_residual,
            "mu": now.mu,
            "primal_step": steps[0],
            "dual_step": steps[1],
        }


def _record(run: _Run, row: dict[str, float], settings: Settings) -> None:
    run.history.append(row)
    if settings.verbose > 1:
        print(
            "{iteration:3.0f}  objective {objective:+.9e}  dual {dual_objective:+.9e}  "
            "gap {gap:.1e}  rows {primal_residual:.1e}  slack {dual_residual:.1e}  "
            "steps {primal_step:.2f} {dual_step:.2f}".format(**row)
        )
    if settings.callback is not None and settings.callback(row) is True:
        raise KeyboardInterrupt  # it ends like any other interruption


def _answer(run: _Run | None, last: _Point, stop: Stop, words: str, iterations: int) -> Answer:
    if run is None:
        return Answer(stop, words, iterations=iterations)
    method = run.method
    rays = stop in (Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED)
    p = last if rays else run.best
    n_x = method.program.n_auxiliary
    matrices, x, w = method.among_nodes(p), p.x[:n_x], method.sign * p.w
    common = Answer(stop, words, iterations=iterations, history=tuple(run.history))
    if stop is Stop.CLAIMS_INFEASIBLE:
        return replace(common, multiplier_ray=w)
    if stop is Stop.CLAIMS_UNBOUNDED:
        return replace(common, matrix_ray=(matrices, x))
    return replace(common, matrices=matrices, x=x, dual=w)


INTERIOR = Interior()
