"""The projections of the thesis: round after round over the rows and the cone.

Weinberger 2007, section 1.3.4, solves convex programs by projecting in turn on the sets whose
intersection is feasible: every row {z : aᵀz = b} or {z : aᵀz ≤ b} (eq. 1.4) and the cone of
positive semidefinite matrices (eq. 1.5), of which null directions are a part.

`alternating`           Algorithm 1, p ← P_c(…P_2(P_1(p))). It finds a feasible point, not the
                        best one, and has no dual: it proves nothing but feasibility. Where the
                        sets do not meet, its steps converge to multipliers that prove that.
`gradient-projection`   Algorithm 2, a step −α∇f before each round. With a constant α it ends near
                        the optimum, not at it, because each projection undoes part of the others:
                        the steps vanish here, α/√t. Multipliers are what the projections had to
                        correct per unit of step, averaged.
`dykstra`               Dykstra 1983, Boyle and Dykstra 1986: each projection first takes back what
                        it did in the round before. The limit is the *nearest* feasible point and
                        the corrections are its multipliers; so  z ← P(z − λc),  P by rounds of
                        Dykstra, is the proximal point method. It optimises and has a dual.

They keep the plain geometry of the thesis and converge as slowly as theory says: linearly at the
rate cos²φ of the angle at which the sets meet, and sublinearly where they touch. They are here to
be read and watched (`sdpkit.plotting.plot_iterates`, `plot_distances`); `projection` is the
engine to use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.certificate.bounds import safe_bound
from sdpkit.certificate.primal import project_onto_cone
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.numerics.kernels import clock, fast_kernel
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.reduction import Reduction
from sdpkit.solution.solver import Capabilities, dense_work, digits, unsupported
from sdpkit.solvers.projection import RAY_TOL, Run, options_of

Array = NDArray[np.float64]

_ROUNDS = 20_000
_LOOK = 10  # rounds between looks at the dual side
_INNER, _ENOUGH = 100, 0.1  # rounds of Dykstra per proximal step, and when they may end before
_RAYS = 50  # rounds between looks for rays
_PICTURE = 3  # up to this many coordinates the iterates themselves are kept


@fast_kernel("f8[:]", "i4[:]", "i4[:]", "f8[:]", "i1[:]", "out f8[:]", "out f8[:]")
def _sweep(
    entries: Array,
    columns: NDArray[np.int32],
    starts: NDArray[np.int32],
    b: Array,
    relations: NDArray[np.int8],
    y: Array,
    z: Array,
) -> None:
    """Project z on one row after the other, each taking back its last correction y_e first.

    With y = 0 these are the plain projections of eq. 1.4: a step b − aᵀz along the unit vector a,
    none where an inequality holds. z and y are changed in place.
    """
    for e in range(b.size):
        value = 0.0
        for t in range(starts[e], starts[e + 1]):
            value += entries[t] * z[columns[t]]
        new = y[e] + b[e] - value
        if relations[e] < 0:
            new = min(new, 0.0)
        elif relations[e] > 0:
            new = max(new, 0.0)
        change = new - y[e]
        y[e] = new
        for t in range(starts[e], starts[e + 1]):
            z[columns[t]] += change * entries[t]


class _Geometry:
    """The sets of the thesis: one per row, and the cone; z = (M₁, M₂, …, x) as they are.

    Rows have norm one, the largest right-hand side and the norm of the cost are one.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        rows = sp.csr_array(sp.hstack([program.matrix_rows, program.rows_x]))
        self.norms = program.row_norms
        self.rows = sp.csr_array(sp.diags_array(1 / self.norms) @ rows)
        self.rows.sort_indices()
        b = program.rhs / self.norms
        self.rhs_scale = float(np.abs(b).max(initial=0.0)) or 1.0
        images = program._images(program.cost_q)
        costs = [
            (block.cost.dense() + image).ravel()
            for block, image in zip(program.blocks, images, strict=True)
        ]
        c = -program.sign * np.concatenate([*costs, program.cost_x])
        c = self._on_face(c)
        self.cost_scale = float(np.linalg.norm(c)) or 1.0
        self.b, self.c = b / self.rhs_scale, c / self.cost_scale

    def _on_face(self, z: Array) -> Array:
        matrices, x = self._parts(z)
        pairs = zip(self.program.blocks, matrices, strict=True)
        return np.concatenate([*(b.project_out_null(m).ravel() for b, m in pairs), x])

    def _parts(self, z: Array) -> tuple[list[Array], Array]:
        ends = np.cumsum([block.size**2 for block in self.program.blocks])
        *matrices, x = np.split(z, ends)
        shapes = [(block.size, block.size) for block in self.program.blocks]
        return [m.reshape(shape) for m, shape in zip(matrices, shapes, strict=True)], x

    def onto_rows(self, y: Array, z: Array) -> None:
        """One round over the rows, in place."""
        a = self.rows
        _sweep(a.data, a.indices, a.indptr, self.b, self.program.relations, y, z)

    def onto_cone(self, z: Array) -> Array:
        """The nearest point of the cone; M vanishes on its null directions there."""
        matrices, x = self._parts(z)
        pairs = zip(self.program.blocks, matrices, strict=True)
        projected = [np.asarray(project_onto_cone(block, m)).ravel() for block, m in pairs]
        return np.concatenate([*projected, np.where(self.program.free_x, x, np.maximum(x, 0.0))])

    def distances(self, z: Array) -> Array:
        """(m,) from each row's set."""
        return self.program.excess(self.rows @ z - self.b)

    def to_program(self, z: Array) -> tuple[tuple[Array, ...], Array]:
        matrices, x = self._parts(self.rhs_scale * z)
        return tuple(matrices), x

    def multipliers(self, y: Array) -> Array:
        """w in the program's own signs for a y with  c − Aᵀy ⪰ 0."""
        return -self.program.sign * self.cost_scale * y / self.norms

    def from_solution(self, settings: Settings) -> tuple[Array, Array] | None:
        """(z, y) of a given solution of a program of this shape."""
        warm = settings.warm_start
        shapes = [(block.size, block.size) for block in self.program.blocks]
        if warm is None or [m.shape for m in warm.matrices] != shapes:
            return None
        if warm.x.size != self.program.n_auxiliary:
            return None
        z = np.concatenate([*(np.asarray(m).ravel() for m in warm.matrices), warm.x])
        y = np.zeros(self.b.size)
        if warm.dual is not None and warm.dual.size == y.size:
            y = -self.program.sign * warm.dual * self.norms / self.cost_scale
        return z / self.rhs_scale, y

    def objective(self, z: Array) -> float:
        scale = self.rhs_scale * self.cost_scale
        return self.program.offset - self.program.sign * scale * float(self.c @ z)


@dataclass(eq=False)
class _Rounds:
    """The state of a method that goes round the sets.

    Attributes
    ----------
    z: the point;  y: (m,) the rows' corrections;  s: the cone's
    anchor: where the proximal step began;  weight: λ or the sum of steps that y belongs to
    """

    geometry: _Geometry
    z: Array
    y: Array
    s: Array
    anchor: Array
    weight: float = 1.0
    sums: Array | None = None
    t: int = 0
    inner: int = 0
    moved: float = np.inf
    between: list[Array] = field(default_factory=list)
    earlier: tuple[Array, Array] | None = None

    @classmethod
    def at(cls, geometry: _Geometry, z: Array, y: Array) -> _Rounds:
        return cls(geometry, z.copy(), y, np.zeros_like(z), z.copy())

    def round(self) -> None:
        """P_K(P_m(…P_1(z))), every projection taking back its last correction first."""
        self.geometry.onto_rows(self.y, self.z)
        self.between = [self.z.copy()]
        before = self.z - self.s
        self.z = self.geometry.onto_cone(before)
        self.s = self.z - before

    def forget(self) -> None:
        """Plain projections have nothing to take back."""
        self.y[:] = 0.0
        self.s[:] = 0.0


def _alternate(state: _Rounds) -> None:
    """One round of Algorithm 1."""
    before = state.z.copy()
    state.forget()
    state.round()
    state.moved = float(np.linalg.norm(state.z - before))


def _descend(state: _Rounds, constant: bool) -> None:
    """One round of Algorithm 2, the step α/√t or constant; corrections averaged as multipliers.

    The averages begin anew when the rounds have doubled.
    """
    before = state.z.copy()
    state.t += 1
    step = 1.0 if constant else 1.0 / np.sqrt(state.t)
    if state.sums is None or state.t & (state.t - 1) == 0:
        state.sums, state.weight = np.zeros_like(state.y), 0.0
    state.z = state.z - step * state.geometry.c
    start = state.z.copy()
    state.forget()
    state.round()
    state.between.insert(0, start)
    state.sums += state.y
    state.weight += step
    state.moved = float(np.linalg.norm(state.z - before))


def _approach(state: _Rounds) -> None:
    """One round of Dykstra's algorithm towards  P(anchor − λc);  a new anchor when it is there."""
    before = state.z.copy()
    state.inner += 1
    state.round()
    inner = float(np.linalg.norm(state.z - before))
    outer = float(np.linalg.norm(state.z - state.anchor))
    if inner <= _ENOUGH * outer or state.inner >= _INNER or outer == 0:
        # z = anchor − λc + Aᵀy + s holds throughout, so that a new anchor shifts z.
        state.moved = outer
        shift = state.z - state.anchor
        state.anchor = state.z.copy()
        state.z = state.z + shift
        state.inner = 0


class _Classic(ABC):
    """One of the thesis's methods as a solver: rounds over the rows and the cone."""

    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self, name: str, summary: str) -> None:
        self.name = name
        self.capabilities = Capabilities(
            warm_start=True, callback=True, checkpoint=True, teaching=True, summary=summary
        )

    def unavailable(self) -> str | None:
        """It always works."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Any program within its capabilities."""
        return unsupported(self.capabilities, program)

    def memory(self, program: Program) -> float:
        """Bytes: the rows as vectors and a dozen copies of the matrices."""
        n2 = sum(block.size**2 for block in program.blocks)
        rows = sum(
            float((np.diff(b.vectors().indptr).astype(float) ** 2).sum()) for b in program.blocks
        )
        return 8.0 * (4 * rows + 12 * n2)

    def seconds(self, program: Program, tol: float) -> float:
        """A hundred times what `projection` needs."""
        work = dense_work(program)
        return 10.0 + digits(tol) / 6 * (2e-2 * work + 2e-6 * float(program.n_rows) ** 3)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Go round until the tolerance, a limit or an interruption."""
        options = options_of(self.name, settings, self.options)
        started = clock()
        geometry = _Geometry(program)
        run = Run(program, _no_reduction(program), settings, started)
        state = self.begin(geometry, settings)
        setup = clock() - started
        try:
            self.go_round(run, state, options)
        except KeyboardInterrupt:
            run.end(Stop.INTERRUPTED, f"interrupted after {run.iterations} rounds")
        self.keep(run, state)
        return run.answer(setup)

    # -- what the methods differ in --

    @abstractmethod
    def step(self, state: _Rounds, options: Mapping[str, str]) -> None:
        """One round."""

    @abstractmethod
    def dual(self, state: _Rounds) -> Array | None:
        """y in the geometry's units, or None."""

    # -- what they share --

    def begin(self, geometry: _Geometry, settings: Settings) -> _Rounds:
        saved = None if settings.checkpoint is None else settings.checkpoint.state
        if saved is not None:
            z, y, s, anchor = (np.array(saved[name]) for name in ("z", "y", "s", "anchor"))
            state = _Rounds(geometry, z, y, s, anchor)
            state.t, state.inner = int(saved["t"]), int(saved["inner"])
            state.weight = float(saved["weight"])
            state.sums = np.array(saved["sums"]) if saved["sums"].size else None
            return state
        size, m = geometry.c.size, geometry.b.size
        z, y = geometry.from_solution(settings) or (np.zeros(size), np.zeros(m))
        return self.start(geometry, z, y)

    def start(self, geometry: _Geometry, z: Array, y: Array) -> _Rounds:
        """From a point; most methods have no use for multipliers."""
        return _Rounds.at(geometry, z, np.zeros_like(y))

    def save(self, settings: Settings, state: _Rounds) -> None:
        if settings.checkpoint is not None:
            settings.checkpoint.save(
                z=state.z, y=state.y, s=state.s, anchor=state.anchor, t=state.t,
                inner=state.inner, weight=state.weight,
                sums=np.zeros(0) if state.sums is None else state.sums,
            )  # fmt: skip

    def go_round(self, run: Run, state: _Rounds, options: Mapping[str, str]) -> None:
        settings = run.settings
        limit = settings.max_iter or _ROUNDS
        for k in range(1, limit + 1):
            self.step(state, options)
            run.iterations = k
            if run.record(self.row(run, state, k)):
                run.end(Stop.INTERRUPTED, "stopped by the callback")
                break
            if self.ended(run, state, k) or (k % _RAYS == 0 and self.finds_ray(run, state)):
                break
            if run.out_of_time:
                run.end(Stop.TIME_LIMIT, f"time limit after {k} rounds")
                break
            if settings.checkpoint is not None and settings.checkpoint.is_due:
                self.save(settings, state)
        self.save(settings, state)

    def point(self, state: _Rounds) -> Array:
        """The point of the cone that the method offers."""
        return state.z

    def row(self, run: Run, state: _Rounds, k: int) -> dict[str, float]:
        geometry, scale = state.geometry, state.geometry.rhs_scale
        z = self.point(state)
        far = scale * geometry.distances(z)
        on_rows = state.between[-1]
        row = {
            "iteration": float(k),
            "objective": geometry.objective(z),
            "distance to the rows": float(np.linalg.norm(far)),
            "distance to the cone": scale
            * float(np.linalg.norm(on_rows - geometry.onto_cone(on_rows))),
            "moved": scale * state.moved,
        }
        if geometry.c.size <= _PICTURE:
            points = [*state.between, z]
            row |= {
                f"p{i}[{j}]": scale * float(value)
                for i, point in enumerate(points)
                for j, value in enumerate(point)
            }
        return row

    def keep(self, run: Run, state: _Rounds) -> None:
        geometry = state.geometry
        run.matrices, run.x = geometry.to_program(self.point(state))
        y = self.dual(state)
        run.dual = None if y is None else geometry.multipliers(y)

    def corrections(self, state: _Rounds) -> Array:
        """(m,) what grows along multipliers that prove infeasibility, where the sets do not meet.

        The corrections of a round cancel out then, Aᵀy + s = 0: a plane that separates the sets.
        """
        return state.y

    def finds_ray(self, run: Run, state: _Rounds) -> bool:
        """Where there is no optimum, points or corrections go on in a direction that proves it."""
        geometry, before = state.geometry, state.earlier
        corrections = self.corrections(state)
        point = self.point(state).copy()
        state.earlier = (point, corrections.copy())
        if before is None:
            return False
        far = float(geometry.distances(point).max(initial=0.0))
        for y in (corrections, corrections - before[1]):
            ray = geometry.multipliers(y)
            if far > run.settings.tol and certify_infeasible(run.program, ray).passes(RAY_TOL):
                run.multiplier_ray = ray
                return run.end(Stop.CLAIMS_INFEASIBLE, "the sets do not meet")
        direction = geometry.to_program(geometry.onto_cone(point - before[0]))
        if certify_unbounded(run.program, *direction).passes(RAY_TOL):
            run.matrix_ray = direction
            return run.end(Stop.CLAIMS_UNBOUNDED, "the points move on along a ray")
        return False

    def ended(self, run: Run, state: _Rounds, k: int) -> bool:
        """Whether both sides meet, by the certificate's own measures."""
        if k % _LOOK:
            return False
        self.keep(run, state)
        # Repairs of the point may cost as much again.
        program, tol = run.program, 0.5 * run.settings.tol
        if run.dual is None or run.matrices is None or run.x is None:
            return False
        residual = float(state.geometry.distances(self.point(state)).max(initial=0.0))
        value = program.objective(run.matrices, run.x)
        nominal = program.sign * program.dual_value(program.sign * run.dual) + program.offset
        scale = max(abs(value), program.safe.value_scale)
        if residual > tol or abs(nominal - value) > tol * max(scale, abs(nominal)):
            return False
        safe = safe_bound(program, program.sign * run.dual).value
        bound = program.sign * safe + program.offset
        if abs(bound - value) > tol * max(scale, abs(bound)):
            return False
        return run.end(Stop.DONE, f"both sides meet after {k} rounds")


def _no_reduction(program: Program) -> Reduction:
    bases = tuple(np.eye(block.size) for block in program.blocks)
    every = np.arange(program.n_rows)
    return Reduction(program, program, bases, every, np.ones(every.size), 1.0, 1.0)


class Alternating(_Classic):
    """Algorithm 1: a feasible point."""

    def step(self, state: _Rounds, options: Mapping[str, str]) -> None:
        """Algorithm 1."""
        _alternate(state)

    def dual(self, state: _Rounds) -> Array | None:
        """None, unless there is nothing to optimise: then every feasible point is optimal."""
        return None if state.geometry.c.any() else np.zeros_like(state.y)

    def ended(self, run: Run, state: _Rounds, k: int) -> bool:
        """As the thesis: when p moves no more; and when it never will reach all sets."""
        far = float(np.linalg.norm(state.geometry.distances(state.z)))
        tol = run.settings.tol
        if far <= tol and state.moved <= tol:
            return run.end(Stop.DONE, f"feasible after {k} rounds; Algorithm 1 does not optimise")
        return False


class GradientProjection(_Classic):
    """Algorithm 2: a step, then a round."""

    options: ClassVar[Mapping[str, tuple[str, ...]]] = {"step": ("vanishing", "constant")}

    def step(self, state: _Rounds, options: Mapping[str, str]) -> None:
        """Algorithm 2."""
        _descend(state, options["step"] == "constant")

    def dual(self, state: _Rounds) -> Array | None:
        """Corrections per unit of step."""
        return None if not state.weight or state.sums is None else state.sums / state.weight


class Dykstra(_Classic):
    """Proximal steps by Dykstra's algorithm."""

    def start(self, geometry: _Geometry, z: Array, y: Array) -> _Rounds:
        """z = anchor − λc + Aᵀy + s  with what is known of y and s."""
        state = _Rounds.at(geometry, z, y.copy())
        state.s = geometry.onto_cone(geometry.c - geometry.rows.T @ y) if y.any() else state.s
        state.z = state.anchor - geometry.c + geometry.rows.T @ y + state.s
        return state

    def step(self, state: _Rounds, options: Mapping[str, str]) -> None:
        """A round of Dykstra's algorithm."""
        _approach(state)

    def point(self, state: _Rounds) -> Array:
        """The anchor after a proximal step, else where the round ended."""
        return state.anchor if state.inner == 0 else state.z

    def dual(self, state: _Rounds) -> Array | None:
        """The corrections."""
        return state.y.copy()


ALTERNATING = Alternating(
    "alternating", "alternating projection (thesis, Algorithm 1): a feasible point, no dual"
)
GRADIENT_PROJECTION = GradientProjection(
    "gradient-projection", "gradient alternating projection (thesis, Algorithm 2); to be read"
)
DYKSTRA = Dykstra("dykstra", "proximal steps by Dykstra's algorithm; to be read")
