"""Mehrotra's predictor–corrector iteration for programs in squared lengths.

With inequalities turned into equalities by slacks and every block restricted to its face, the
points of the central path satisfy

    A(M) + A_x x = b,    S = Vᵀdiag(A_qᵀw − g)V − C,    z = A_xᵀw + h∘x − c,
    M S = μI,            x∘z = μ

Steps are HKM directions (Helmberg–Rendl–Vanderbei–Wolkowicz, Kojima–Shindoh–Hara, Monteiro). Their
normal equations have the matrix

    B = A_q [(V M Vᵀ) ∘ (V S⁻¹ Vᵀ)] A_qᵀ + A_x diag(x/(z + h∘x)) A_xᵀ

a Hadamard product of two gathered matrices: where a general code spends O(mn³ + m²n²) on it,
sparse measurements need O(m²). The rest is one Cholesky factorisation of B (m³/3), two products
and two factorisations of n × n matrices per iteration, one where slacks have sparse factors.
`sdpkit.solvers.algebra` has the details, and the other shape of the equations, for rows that far
outnumber entries of M.

Free variables without curvature are eliminated by a second, small Schur complement. Once the dual
slack is feasible it is recomputed from w in every iteration, so that the multipliers are *strictly*
feasible and bᵀw is a bound without any repair.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.solvers.algebra import (
    SOLVED,
    BlockAlgebra,
    EntryEquations,
    RowEquations,
    TreeCone,
    inner,
    inner_with,
    symmetrise,
)
from sdpkit.solvers.definite import Breakdown, cholesky
from sdpkit.solvers.measures import Measures, row_sizes
from sdpkit.solvers.passes import primal_step, product, times
from sdpkit.solvers.slack_inverse import DenseInverse, Inverse
from sdpkit.solvers.step_lengths import longest_step, longest_tried, moved_inside, proven_step
from sdpkit.typing import Array, Indices

_PREDICTED = 1e-6  # relative residual of a predictor: it is not taken, it tells how far to go
_STUCK_LENGTH = 0.1  # a step this short calls for pure centring
_SINGULAR = 1e13  # the size of a matrix times that of its inverse, where digits are lost


@dataclass(frozen=True, eq=False)
class Gaps:
    """What the equations of a point are off.

    Attributes
    ----------
    primal: b − A(M) − A_x x;  z: A_xᵀw + h∘x − c − z
    slacks: per block S(w) − S; None once the slack is that of w and is recomputed from it
    """

    primal: Array
    slacks: list[Array | None]
    z: Array


@dataclass
class Iterate:
    """(M, x; w, S, z). Arrays are replaced, never changed in place.

    `exact` says of each block whether its slack is that of w; nothing if that is not known.
    """

    matrices: list[Array]
    x: Array
    w: Array
    slacks: list[Array]
    z: Array
    exact: tuple[bool, ...] = ()

    def copy(self) -> Iterate:
        """An iterate that may be moved without moving this one."""
        return replace(self, matrices=list(self.matrices), slacks=list(self.slacks), exact=())


@dataclass
class Direction:
    """A step of all unknowns, primal and dual."""

    matrices: list[Array]
    x: Array
    w: Array
    slacks: list[Any]
    z: Array


class PredictorCorrector:
    """Predictor–corrector on one reduced program, as equalities with slacks, to `tol`."""

    def __init__(self, program: Program, value_floor: float = 1e-12, tol: float = 1e-6) -> None:
        self.program = program
        self.value_floor, self.offset = value_floor, program.sign * program.offset
        self.sign = program.sign
        self.b = program.rhs
        slack = program.slack_columns
        zeros = np.zeros(slack.shape[1])
        # A_x with one slack per inequality; variables are nonnegative or free.
        self.a = sp.csr_array(sp.hstack([program.rows_x, slack]))
        self.at = sp.csr_array(self.a.T)
        self.c = np.concatenate([self.sign * program.cost_x, zeros])
        self.h = np.concatenate([program.quadratic_x, zeros])
        self.free = np.concatenate([program.free_x, zeros.astype(bool)])
        self.rigid = self.free & (self.h == 0)
        self.tied = self._tied(program)
        self.cones = [
            BlockAlgebra(block, program.rows_q[:, span], program.cost_q[span], program.sign)
            for block, span in zip(program.blocks, program.spans, strict=True)
        ]
        self.order = sum(cone.n for cone in self.cones) + int((~self.free).sum())
        self.equations = self._choose_equations()
        # Of the iterate at hand: set by `prepare` and `move`, and by `factor`.
        self.matrix_factors: list[Array] = []
        self.inverses: list[Inverse] = []
        self.last_step = 1.0
        self.pull, self.weights, self.tie = np.zeros(self.b.size), np.zeros(self.c.size), 0.0
        self.scale_b = max(1.0, float(np.abs(self.b).max(initial=0.0)))
        self.row_sizes = row_sizes(self.b, tol)
        costs = [float(np.abs(cone.cost).max()) for cone in self.cones]
        self.scale_c = max(1.0, *costs, float(np.abs(self.c).max(initial=0.0)))

    def _choose_equations(self) -> RowEquations | EntryEquations:
        """Over the entries of M where rows far outnumber them and have slacks of their own."""
        if entries_are_fewer(self.program) and np.diff(sp.csc_array(self.a).indptr).max() == 1:
            return EntryEquations(self.cones)
        return RowEquations(self.cones, self.b.size)

    def _tied(self, program: Program) -> Indices:
        """Rigid variables in rows of nothing but rigid variables: B is zero there, and what they
        share goes into it."""
        soft = abs(self.a) @ np.where(self.rigid, 0.0, 1.0) + np.diff(program.rows_q.indptr)
        bare = sp.diags_array((soft == 0).astype(float)) @ abs(self.a)
        return np.flatnonzero(self.rigid & (np.asarray(bare.sum(axis=0)).ravel() > 0))

    # -- points ------------------------------------------------------------------------------

    def start(self) -> Iterate:
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
        return Iterate(matrices, x, w, slacks, z)

    def centred_start(self, w: Array) -> Iterate | None:
        """A strictly feasible dual w, and M = μS⁻¹, x = μ/z: exactly on the central path of the
        program whose rows they meet. None if w is not strictly feasible.

        μ is chosen so that the rows at hand are met as well as one number can.
        """
        z = np.asarray(self.at @ w - self.c)
        # A slack that is positive by rounding only would start with an x of 1e16.
        rounding = 1e-8 * float(np.abs(w).max(initial=0.0))
        if self.h.any() or np.any(z[~self.free] <= rounding) or np.any(z[self.free] != 0):
            return None
        slacks = [cone.slack_of(w) for cone in self.cones]
        try:
            pairs = zip(self.cones, slacks, strict=True)
            inverses = [cone.inverse_of_slack(w, s).matrix for cone, s in pairs]
        except Breakdown:
            return None
        # A slack that is definite only through rounding would give a start of size 1e16, too.
        sizes = (np.abs(m).max() * np.abs(s).max() for m, s in zip(inverses, slacks, strict=True))
        if max(sizes, default=0.0) > _SINGULAR:
            return None
        x = np.where(self.free, 0.0, 1.0 / np.where(self.free, 1.0, z))
        values = np.asarray(self.a @ x)
        for cone, inverse in zip(self.cones, inverses, strict=True):
            values = values + cone.values(inverse)
        fit = float(values @ self.b) / float(values @ values)
        mu = 3 * fit if fit > 0 else float(np.linalg.norm(self.b) / np.linalg.norm(values))
        if not mu > 0:
            return None
        return Iterate([mu * m for m in inverses], mu * x, w, slacks, z)

    def warm(self, matrices: list[Array], x: Array, w: Array) -> Iterate:
        """A given point moved into the interior by a thousandth of its size."""
        start = self.start()
        start.w = w
        for k, cone in enumerate(self.cones):
            eye = np.eye(cone.n)
            m = symmetrise(matrices[k])
            s = cone.slack_of(w)
            lift = max(0.0, -float(np.linalg.eigvalsh(s)[0]))
            start.matrices[k] = m + 1e-3 * max(float(np.trace(m)) / cone.n, 1e-8) * eye
            start.slacks[k] = s + (lift + 1e-3 * max(float(np.trace(s)) / cone.n, 1e-8)) * eye
        slack = self.program.n_auxiliary
        values = np.concatenate([x, np.zeros(self.c.size - slack)])
        start.x = np.where(self.free, values, np.maximum(values, 1e-3))
        reduced = self.at @ w + self.h * start.x - self.c
        start.z = np.where(self.free, 0.0, np.maximum(reduced, 1e-3))
        return start

    def along_trees(self, p: Iterate) -> tuple[PredictorCorrector, Iterate] | None:
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
                exact = cone.slack_of(p.w)
                moved.matrices[k] = moved_inside(cone.tree.from_nodes(p.matrices[k]))
                moved.slacks[k] = moved_inside(exact)
        finer.prepare(moved)
        return finer, moved

    @property
    def follows_trees(self) -> bool:
        """Whether some block is in the coordinates of a tree."""
        return any(isinstance(cone, TreeCone) for cone in self.cones)

    def among_nodes(self, p: Iterate) -> tuple[Array, ...]:
        """The point's matrices in the coordinates of the program."""
        return tuple(
            cone.tree.to_nodes(m) if isinstance(cone, TreeCone) else m
            for cone, m in zip(self.cones, p.matrices, strict=True)
        )

    @np.errstate(over="ignore")
    def settle(self, p: Iterate) -> Gaps:
        """What the equations of a point are off, once slacks that are nearly those of w are so."""
        values = np.asarray(self.a @ p.x)
        for cone, matrix in zip(self.cones, p.matrices, strict=True):
            values = values + cone.values(matrix)
        z = np.asarray(self.at @ p.w + self.h * p.x - self.c - p.z)
        return Gaps(self.b - values, self._settled_slacks(p), z)

    def _settled_slacks(self, p: Iterate) -> list[Array | None]:
        """S(w) − S per block, or None; slacks that are nearly those of w become so."""
        gaps = list[Array | None]()
        for k, cone in enumerate(self.cones):
            if p.exact and p.exact[k]:
                gaps.append(None)
                continue
            exact = cone.slack_of(p.w)
            gap = exact - p.slacks[k]
            if _largest(gap) <= 1e-9 * max(self.scale_c, _largest(exact)):
                p.slacks[k] = exact
                gaps.append(None)
            else:
                gaps.append(gap)
        return gaps

    @np.errstate(over="ignore")  # what diverges is measured too
    def measures(self, p: Iterate, gaps: Gaps) -> Measures:
        """How far a point is from optimal."""
        products = zip(p.matrices, p.slacks, strict=True)
        mu = sum(inner(m, s) for m, s in products) + float(p.x @ p.z)
        primal = float(self.c @ p.x) - 0.5 * float((self.h * p.x) @ p.x)
        for cone, matrix in zip(self.cones, p.matrices, strict=True):
            primal += inner(cone.cost, matrix)
        dual = float(self.b @ p.w) + 0.5 * float((self.h * p.x) @ p.x)
        off = max(_largest(g) if g is not None else 0.0 for g in gaps.slacks)
        off = max(off, float(np.abs(gaps.z).max(initial=0.0)))
        return Measures(
            primal,
            dual,
            float((np.abs(gaps.primal) / self.row_sizes).max(initial=0.0)),
            off / self.scale_c,
            mu / self.order,
            self.value_floor,
            self.offset,
            float(np.abs(gaps.primal) @ np.abs(p.w)),
        )

    # -- directions --------------------------------------------------------------------------

    def factor(self, p: Iterate) -> None:
        """Invert S, assemble and factor B."""
        inverses = [inverse.matrix for inverse in self.inverses]
        continue_or_raise()
        values = [cone.values(i) for cone, i in zip(self.cones, inverses, strict=True)]
        self.pull = np.sum(values, axis=0)
        curved = np.where(self.rigid, 1.0, p.z + self.h * np.where(self.free, 1.0, p.x))
        with np.errstate(over="ignore"):
            self.weights = np.where(self.rigid, 0.0, np.where(self.free, 1.0, p.x) / curved)
        if not np.isfinite(self.weights).all():
            raise Breakdown("the iterates diverge")
        extra: sp.csr_array | None = None
        if self.c.size:
            extra = sp.csr_array(self.a @ sp.diags_array(self.weights) @ self.at)
        if extra is not None and self.tied.size:
            # A_fᵀΔw is given: adding a multiple of A_f A_fᵀΔw to both sides changes nothing.
            pairs = zip(p.matrices, inverses, strict=True)
            self.tie = max(float(np.trace(m) * np.trace(i)) / len(m) ** 2 for m, i in pairs)
            extra = extra + self.tie * (self.a[:, self.tied] @ self.at[self.tied])
        self.equations.factor(p.matrices, inverses, extra)

    def _solve(self, rhs: Array, rigid_rhs: Array, enough: float) -> tuple[Array, Array]:
        """(Δw, Δx of the rigid free variables) from  BΔw − A_f Δx = rhs,  A_fᵀΔw = rigid_rhs,
        to a relative residual of `enough` at most."""
        if self.tied.size:
            given = np.zeros(self.c.size)
            given[self.rigid] = rigid_rhs
            rhs = rhs + self.tie * (self.a[:, self.tied] @ given[self.tied])
        solution = self.equations.solve(rhs, enough)
        if not self.rigid.any():
            return solution, np.zeros(0)
        coupling = self.a[:, np.flatnonzero(self.rigid)].toarray()
        answers = self.equations.solve(coupling)
        # Least squares: free columns may depend on each other, or be empty.
        square, right = coupling.T @ answers, rigid_rhs - coupling.T @ solution
        if not np.isfinite(square).all() or not np.isfinite(right).all():
            raise Breakdown("the equations of the free variables are too large for floating point")
        dx = np.linalg.lstsq(square, right)[0]
        return solution + answers @ dx, np.asarray(dx, dtype=np.float64)

    def direction(
        self, p: Iterate, gaps: Gaps, target: float, predictor: Direction | None
    ) -> Direction:
        """The HKM step towards MS = target·I, with Mehrotra's correction of `predictor`."""
        rhs = target * self.pull - self.b
        errors: list[Array | None] = []
        for k, cone in enumerate(self.cones):
            error = self._error(p, gaps, k, predictor)
            errors.append(error)
            if error is not None:
                rhs -= cone.values_of_product(error.T, self.inverses[k].matrix)
        second = np.zeros_like(p.x) if predictor is None else predictor.x * predictor.z
        pull = np.where(self.free, -gaps.z, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bounded = target - second - p.x * gaps.z + self.h * p.x * p.x
            bounded /= p.z + self.h * p.x
            curved = pull / self.h
        base = np.where(self.rigid, 0.0, np.where(self.free, curved + p.x, bounded))
        # Free variables: A(M) + A_x x = b counts their current value, nonnegative ones' x cancels.
        rhs += self.a @ np.where(self.rigid, p.x, base)
        enough = _PREDICTED if predictor is None and not target else SOLVED
        dw, rigid_step = self._solve(rhs, -gaps.z[self.rigid], enough)
        return self._assemble(p, gaps, target, dw, rigid_step, errors, base)

    def _error(self, p: Iterate, gaps: Gaps, k: int, predictor: Direction | None) -> Array | None:
        """What MS + M ΔS leaves out in block k, transposed: (S(w) − S)M + ΔS_pΔM_p."""
        gap, error = gaps.slacks[k], None
        if gap is not None:
            error = product(gap, p.matrices[k])
        if predictor is not None:
            second = times(predictor.slacks[k], predictor.matrices[k])
            error = second if error is None else error + second
        return error

    def _assemble(
        self,
        p: Iterate,
        gaps: Gaps,
        target: float,
        dw: Array,
        rigid_step: Array,
        errors: list[Array | None],
        base: Array,
    ) -> Direction:
        matrices, slacks = [], []
        for k, cone in enumerate(self.cones):
            image = cone.adjoint(dw)
            inverse = self.inverses[k]
            bent = inverse.solve(image, p.matrices[k], errors[k])
            step = primal_step(bent, p.matrices[k], inverse.matrix, target)
            matrices.append(step)
            gap = gaps.slacks[k]
            slacks.append(image if gap is None else dense(image) + gap)
        tilt = np.asarray(self.at @ dw)
        dx = base - self.weights * tilt - p.x
        dx[self.rigid] = rigid_step
        dz = np.where(self.free, 0.0, tilt + self.h * dx + gaps.z)
        return Direction(matrices, dx, dw, slacks, dz)

    # -- steps -------------------------------------------------------------------------------

    def lengths(self, p: Iterate, step: Direction, enough: float) -> tuple[float, float]:
        """The longest primal and dual steps that stay in the cones, if shorter than `enough`."""
        primal, dual = np.inf, np.inf
        for k, (m, dm) in enumerate(zip(p.matrices, step.matrices, strict=True)):
            primal = min(primal, longest_step(m, self.matrix_factors[k], dm, enough))
            dual = min(dual, self._dual_length(p, step, k, enough))
        with np.errstate(divide="ignore", invalid="ignore"):
            falling = (step.x < 0) & ~self.free
            primal = min(primal, float(np.min(-p.x[falling] / step.x[falling], initial=np.inf)))
            falling = (step.z < 0) & ~self.free
            dual = min(dual, float(np.min(-p.z[falling] / step.z[falling], initial=np.inf)))
        if self.h.any():
            primal = dual = min(primal, dual)  # x enters the dual: one step for both
        return primal, dual

    def _dual_length(self, p: Iterate, step: Direction, k: int, enough: float) -> float:
        """The longest dual step of block k, if shorter than `enough`."""
        inverse, cone = self.inverses[k], self.cones[k]
        if isinstance(inverse, DenseInverse):
            return longest_step(p.slacks[k], inverse.lower, step.slacks[k], enough)
        return longest_tried(lambda length: cone.is_definite(p.w + length * step.w), enough)

    def move(
        self, p: Iterate, gaps: Gaps, step: Direction, primal: float, dual: float
    ) -> tuple[float, float]:
        """Take the step, shortened until Cholesky factorisations prove it; return the lengths."""
        primal, (p.matrices, self.matrix_factors) = proven_step(
            lambda length: _moved_and_factored(p.matrices, step.matrices, length), primal
        )
        p.x = p.x + primal * step.x
        if self.h.any():
            dual = min(primal, dual)
        dual, (p.slacks, self.inverses) = proven_step(
            lambda length: self._moved_slacks(p, gaps, step, length), dual
        )
        p.w, p.z = p.w + dual * step.w, p.z + dual * step.z
        p.exact = tuple(gap is None for gap in gaps.slacks)
        return primal, dual

    def _moved_slacks(
        self, p: Iterate, gaps: Gaps, step: Direction, length: float
    ) -> tuple[list[Array], list[Inverse]]:
        """S + αΔS, or where S is that of w the slack of w + αΔw, and the inverses."""
        w = p.w + length * step.w
        slacks: list[Array] = []
        inverses: list[Inverse] = []
        for k, cone in enumerate(self.cones):
            if gaps.slacks[k] is None:
                slacks.append(cone.slack_of(w))
                inverses.append(cone.inverse_of_slack(w, slacks[k]))
            else:
                slacks += _moved([p.slacks[k]], [step.slacks[k]], length)
                inverses.append(DenseInverse.of(slacks[k]))
        return slacks, inverses

    def iterate(self, p: Iterate, gaps: Gaps, now: Measures) -> tuple[float, float]:
        """One predictor–corrector iteration; returns the step lengths."""
        self.factor(p)
        continue_or_raise()
        predictor = self.direction(p, gaps, 0.0, None)
        continue_or_raise()
        primal, dual = (min(1.0, a) for a in self.lengths(p, predictor, 1.0))
        sigma = self._centring(p, predictor, primal, dual, now.mu)
        if self.last_step < _STUCK_LENGTH:
            # At the edge of the cone a corrected step goes nowhere: back to the central path.
            step = self.direction(p, gaps, now.mu, None)
        else:
            step = self.direction(p, gaps, sigma * now.mu, predictor)
        continue_or_raise()
        shrink = 0.9 + 0.09 * min(primal, dual)
        primal, dual = (min(1.0, shrink * a) for a in self.lengths(p, step, 1.0 / shrink))
        primal, dual = self.move(p, gaps, step, primal, dual)
        self.last_step = min(primal, dual)
        return primal, dual

    def _centring(
        self, p: Iterate, step: Direction, primal: float, dual: float, mu: float
    ) -> float:
        """Mehrotra's σ from the gap that the predictor would leave."""
        if not mu > 0:
            raise Breakdown  # rounding alone is left of the gap
        left = float((p.x + primal * step.x) @ (p.z + dual * step.z))
        for k in range(len(self.cones)):
            m, s, dm = p.matrices[k], p.slacks[k], step.matrices[k]
            ds = step.slacks[k]
            left += inner(m, s) + primal * inner(dm, s)
            left += dual * inner_with(ds, m) + primal * dual * inner_with(ds, dm)
        # Mehrotra's cube is timid where the predictor meets the cone half-way: square it, and cap
        # it unless the predictor hardly moves at all.
        cap = 0.3 if min(primal, dual) > 0.2 else 1.0
        return float(np.clip((max(left, 0.0) / self.order / mu) ** 2, 1e-6, cap))

    def prepare(self, p: Iterate) -> None:
        """Factor the matrices of a starting point."""
        self.last_step = 1.0
        self.matrix_factors = [cholesky(m) for m in p.matrices]
        self.inverses = []
        for cone, s in zip(self.cones, p.slacks, strict=True):
            # Only the slack of w has a sparse factor.
            of_w = np.array_equal(s, cone.slack_of(p.w))
            self.inverses.append(cone.inverse_of_slack(p.w, s) if of_w else DenseInverse.of(s))


def _moved(matrices: list[Array], steps: list[Any], length: float) -> list[Array]:
    """M + αΔM, block by block."""
    out = []
    for matrix, step in zip(matrices, steps, strict=True):
        moved = length * dense(step)
        moved += matrix
        out.append(moved)
    return out


def _moved_and_factored(
    matrices: list[Array], steps: list[Any], length: float
) -> tuple[list[Array], list[Array]]:
    """M + αΔM and its Cholesky factors, block by block."""
    moved = _moved(matrices, steps, length)
    return moved, [cholesky(m) for m in moved]


def _largest(matrix: Array) -> float:
    """max |A_ij|, without a copy."""
    return max(float(matrix.max()), -float(matrix.min()))


def entries_are_fewer(program: Program) -> bool:
    """Whether the normal equations are smaller over the entries of M: many rows, each with a
    slack of its own (an inequality's, or a nonnegative or curved variable)."""
    entries = EntryEquations.n_entries([block.size for block in program.blocks])
    given = abs(program.rows_x) @ (~program.free_x | (program.quadratic_x > 0)).astype(float)
    own_slack = (given > 0) | (program.relations != 0)
    return program.n_rows > 2 * entries and bool(own_slack.all())
