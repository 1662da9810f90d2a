"""Three solvers of the thesis that project on one row after the other and on the cone.

Weinberger 2007, section 1.3.4, solves convex programs by projecting in turn on the sets whose
intersection is feasible: every row {z : aᵀz = b} or {z : aᵀz ≤ b} (eq. 1.4) and the cone of
positive semidefinite matrices (eq. 1.5), of which null directions are a part.

`alternating`           Algorithm 1, p ← P_c(…P_2(P_1(p))). It finds a feasible point, not the
                        best one, and has no dual, so that it proves only feasibility. Where the
                        sets do not meet, its steps converge to multipliers that prove it.
`gradient-projection`   Algorithm 2, a step −α∇f before each round. With a constant α it ends near
                        the optimum, not at it, because each projection undoes part of the others:
                        the steps vanish here, α/√t. Multipliers are what the projections had to
                        correct per unit of step, averaged.
`dykstra`               Dykstra 1983, Boyle and Dykstra 1986: each projection first takes back what
                        it did in the round before. The limit is the *nearest* feasible point and
                        the corrections are its multipliers; so  z ← P(z − λc),  P by rounds of
                        Dykstra, is the proximal point method. It optimises and has a dual.

They keep the plain geometry of the thesis and converge slowly, as theory predicts: linearly at the
rate cos²φ of the angle at which the sets meet, and sublinearly where they touch. They are meant for
reading and watching (`sdpkit.plotting.plot_iterates`, `plot_distances`); to solve programs, use
`projection`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpkit.certificate.bounds import safe_bound
from sdpkit.certificate.primal import project_onto_cone
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.certificate.scales import relative_gap_of
from sdpkit.layout import Expected, Layout
from sdpkit.numerics.kernels import fast_kernel
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.driver import Driver
from sdpkit.solution.options import Option
from sdpkit.solution.solver import Capabilities, OwnSolver, dense_work, digits
from sdpkit.solvers.in_time import set_up, stoppable
from sdpkit.solvers.sets import RAY_TOL
from sdpkit.typing import Array

_MAX_ROUNDS = 20_000
_LOOK_INTERVAL = 10  # rounds between looks at the dual side
_RAY_INTERVAL = 50  # rounds between looks for rays
_PROXIMAL_ROUNDS = 100  # rounds of Dykstra per proximal step, at most
_NEAR_SHARE = 0.1  # a round that moves this share of the proximal step ends it
_PICTURE_SIZE = 3  # up to this many coordinates the iterates themselves are kept


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


class SetsOfRows:
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
        # The cost of the minimisation is the dual slack of multipliers that are zero.
        zero = np.zeros(program.n_rows)
        slacks = [slack.ravel() for slack in program.dual_slacks(zero)]
        c = self._on_face(np.concatenate([*slacks, program.reduced_costs(zero)]))
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
        projected = [
            np.asarray(stoppable(block.size, partial(project_onto_cone, block, m))).ravel()
            for block, m in pairs
        ]
        return np.concatenate([*projected, np.where(self.program.free_x, x, np.maximum(x, 0.0))])

    def distances(self, z: Array) -> Array:
        """(m,) from each row's set."""
        return self.program.excess(self.rows @ z - self.b)

    def to_program(self, z: Array) -> tuple[tuple[Array, ...], Array]:
        """The matrices and variables of a point, in the program's units."""
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
        """The objective at a point, in the program's units."""
        scale = self.rhs_scale * self.cost_scale
        return self.program.offset - self.program.sign * scale * float(self.c @ z)


@dataclass(eq=False)
class Rounds(ABC):
    """The engine: rounds over the rows and the cone, and the state that they leave.

    Attributes
    ----------
    z: the point;  y: (m,) the rows' corrections;  s: the cone's
    anchor: where the proximal step began;  weight: λ or the sum of steps that y belongs to
    inner: rounds since the last proximal step;  moved: the length of the last step
    between: where the round was between its projections;  earlier: (point, corrections) then
    """

    geometry: SetsOfRows
    tol: float
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
    multiplier_ray: Array | None = None
    matrix_ray: tuple[tuple[Array, ...], Array] | None = None

    @classmethod
    def begin(cls, geometry: SetsOfRows, driver: Driver) -> Self:
        """From a checkpoint, else from a given solution, else from zero."""
        saved, tol = driver.saved(cls.layout(geometry)), driver.settings.tol
        if saved is not None:
            z, y, s, anchor = (saved[name] for name in ("z", "y", "s", "anchor"))
            sums = saved["sums"] if saved["sums"].size else None
            t, inner = int(saved["t"]), int(saved["inner"])
            return cls(geometry, tol, z, y, s, anchor, float(saved["weight"]), sums, t, inner)
        size, m = geometry.c.size, geometry.b.size
        z, y = geometry.from_solution(driver.settings) or (np.zeros(size), np.zeros(m))
        return cls.at(geometry, tol, z, y)

    @staticmethod
    def layout(geometry: SetsOfRows) -> Layout:
        """What `state` holds."""
        m, count = geometry.b.size, Expected(whole=True, least=0)
        point, corrections = Expected((geometry.c.size,)), Expected((m,))
        return {
            "z": point, "y": corrections, "s": point, "anchor": point, "t": count,
            "inner": count, "weight": Expected(least=0.0), "sums": Expected(((0, m),)),
        }  # fmt: skip

    @classmethod
    def at(cls, geometry: SetsOfRows, tol: float, z: Array, y: Array) -> Self:
        """From a point; most methods have no use for multipliers."""
        return cls(geometry, tol, z.copy(), np.zeros_like(y), np.zeros_like(z), z.copy())

    # -- what the methods differ in --

    @abstractmethod
    def advance(self, options: Mapping[str, Any]) -> None:
        """One round."""

    @abstractmethod
    def dual(self) -> Array | None:
        """y in the geometry's units, or None."""

    def offered(self) -> Array:
        """The point of the cone that the method offers."""
        return self.z

    # -- what they share --

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

    def step(self, driver: Driver) -> None:
        """One round, and from time to time a look at the dual side and at rays."""
        self.advance(driver.options)
        driver.count()
        self._record(driver)
        if driver.stop is None:
            self.judge(driver)
        if driver.stop is None and driver.iterations % _RAY_INTERVAL == 0:
            self._find_ray(driver)

    def _record(self, driver: Driver) -> None:
        geometry, scale = self.geometry, self.geometry.rhs_scale
        z, on_rows = self.offered(), self.between[-1]
        far = geometry.distances(z)
        away = float(np.linalg.norm(on_rows - geometry.onto_cone(on_rows)))
        own = {
            "distance to the rows": float(np.linalg.norm(scale * far)),
            "distance to the cone": scale * away,
            "moved": scale * self.moved,
        }
        if geometry.c.size <= _PICTURE_SIZE:
            own |= {
                f"p{i}[{j}]": scale * float(value)
                for i, point in enumerate([*self.between, z])
                for j, value in enumerate(point)
            }
        objective, residual = geometry.objective(z), float(far.max(initial=0.0))
        driver.record(objective=objective, primal_residual=residual, **own)

    def answer(self, stop: Stop) -> Answer:
        """The point offered, with multipliers where the method has them."""
        matrices, x = self.geometry.to_program(self.offered())
        return Answer(
            stop,
            "",
            matrices=matrices,
            x=x,
            dual=self._multipliers(),
            multiplier_ray=self.multiplier_ray,
            matrix_ray=self.matrix_ray,
        )

    def state(self) -> Mapping[str, ArrayLike]:
        """The point and all corrections."""
        return {
            "z": self.z, "y": self.y, "s": self.s, "anchor": self.anchor, "t": self.t,
            "inner": self.inner, "weight": self.weight,
            "sums": np.zeros(0) if self.sums is None else self.sums,
        }  # fmt: skip

    def _multipliers(self) -> Array | None:
        y = self.dual()
        return None if y is None else self.geometry.multipliers(y)

    def _find_ray(self, driver: Driver) -> None:
        """Where there is no optimum, points or corrections move in a direction that proves it.

        Where the sets do not meet, the corrections of a round cancel out, Aᵀy + s = 0: they are a
        plane that separates the sets.
        """
        geometry, program, before = self.geometry, self.geometry.program, self.earlier
        point = self.offered().copy()
        self.earlier = (point, self.y.copy())
        if before is None:
            return
        far = float(geometry.distances(point).max(initial=0.0))
        for y in (self.y, self.y - before[1]):
            ray = geometry.multipliers(y)
            if far > self.tol and certify_infeasible(program, ray).passes(RAY_TOL):
                self.multiplier_ray = ray
                driver.end(Stop.CLAIMS_INFEASIBLE, "the sets do not meet")
                return
        direction = geometry.to_program(geometry.onto_cone(point - before[0]))
        if certify_unbounded(program, *direction).passes(RAY_TOL):
            self.matrix_ray = direction
            driver.end(Stop.CLAIMS_UNBOUNDED, "the points move along a ray")

    def judge(self, driver: Driver) -> None:
        """End the run where both sides meet, by the certificate's own measures."""
        if driver.iterations % _LOOK_INTERVAL:
            return
        w = self._multipliers()
        if w is None:
            return
        # Repairs of the point may cost as much again.
        program, tol = self.geometry.program, 0.5 * self.tol
        matrices, x = self.geometry.to_program(self.offered())
        residual = float(self.geometry.distances(self.offered()).max(initial=0.0))
        value = program.objective(matrices, x)
        nominal = program.sign * program.dual_value(program.sign * w) + program.offset
        if residual > tol or relative_gap_of(program, value, nominal) > tol:
            return
        bound = program.sign * safe_bound(program, program.sign * w).value + program.offset
        if relative_gap_of(program, value, bound) <= tol:
            driver.end(Stop.DONE, f"both sides meet after {driver.iterations} rounds")


class AlternatingRounds(Rounds):
    """Algorithm 1: a feasible point."""

    def advance(self, options: Mapping[str, Any]) -> None:
        """Plain projections."""
        before = self.z.copy()
        self.forget()
        self.round()
        self.moved = float(np.linalg.norm(self.z - before))

    def dual(self) -> Array | None:
        """None, unless there is nothing to optimise: then every feasible point is optimal."""
        return None if self.geometry.c.any() else np.zeros_like(self.y)

    def judge(self, driver: Driver) -> None:
        """As the thesis: done when p is feasible and moves no more."""
        far = float(np.linalg.norm(self.geometry.distances(self.z)))
        if far <= self.tol and self.moved <= self.tol:
            words = f"feasible after {driver.iterations} rounds; Algorithm 1 does not optimise"
            driver.end(Stop.DONE, words)


class GradientRounds(Rounds):
    """Algorithm 2: a step α/√t, or a constant one, then a round."""

    def advance(self, options: Mapping[str, Any]) -> None:
        """A step and a round; corrections are averaged as multipliers.

        The averages restart when the rounds have doubled.
        """
        before = self.z.copy()
        self.t += 1
        step = 1.0 if options["step"] == "constant" else 1.0 / np.sqrt(self.t)
        if self.sums is None or self.t & (self.t - 1) == 0:
            self.sums, self.weight = np.zeros_like(self.y), 0.0
        self.z = self.z - step * self.geometry.c
        start = self.z.copy()
        self.forget()
        self.round()
        self.between.insert(0, start)
        self.sums += self.y
        self.weight += step
        self.moved = float(np.linalg.norm(self.z - before))

    def dual(self) -> Array | None:
        """Corrections per unit of step."""
        return None if not self.weight or self.sums is None else self.sums / self.weight


class DykstraRounds(Rounds):
    """Proximal steps by Dykstra's algorithm."""

    @classmethod
    def at(cls, geometry: SetsOfRows, tol: float, z: Array, y: Array) -> Self:
        """z = anchor − λc + Aᵀy + s  with what is known of y and s."""
        s = geometry.onto_cone(geometry.c - geometry.rows.T @ y) if y.any() else np.zeros_like(z)
        start = z - geometry.c + geometry.rows.T @ y + s
        return cls(geometry, tol, start, y.copy(), s, z.copy())

    def advance(self, options: Mapping[str, Any]) -> None:
        """One round towards  P(anchor − λc);  a new anchor when it is there."""
        before = self.z.copy()
        self.inner += 1
        self.round()
        inner = float(np.linalg.norm(self.z - before))
        outer = float(np.linalg.norm(self.z - self.anchor))
        if inner <= _NEAR_SHARE * outer or self.inner >= _PROXIMAL_ROUNDS or outer == 0:
            # z = anchor − λc + Aᵀy + s holds throughout, so that a new anchor shifts z.
            self.moved = outer
            shift = self.z - self.anchor
            self.anchor = self.z.copy()
            self.z = self.z + shift
            self.inner = 0

    def offered(self) -> Array:
        """The anchor after a proximal step, else where the round ended."""
        return self.anchor if self.inner == 0 else self.z

    def dual(self) -> Array | None:
        """The corrections."""
        return self.y.copy()


@dataclass(frozen=True)
class ClassicSolver(OwnSolver):
    """One of the thesis's methods as a solver."""

    name: str
    rounds: type[Rounds]
    capabilities: Capabilities
    options: Mapping[str, Option] = field(default_factory=dict)

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
        driver = Driver(self.name, settings, _MAX_ROUNDS, self.options)
        return driver.run(set_up(driver, lambda: self.rounds.begin(SetsOfRows(program), driver)))


def _capabilities(summary: str) -> Capabilities:
    return Capabilities(
        warm_start=True, callback=True, checkpoint=True, teaching=True, summary=summary
    )


ALTERNATING = ClassicSolver(
    "alternating",
    AlternatingRounds,
    _capabilities("alternating projection (thesis, Algorithm 1): a feasible point, no dual"),
)
GRADIENT_PROJECTION = ClassicSolver(
    "gradient-projection",
    GradientRounds,
    _capabilities("gradient alternating projection (thesis, Algorithm 2), for teaching"),
    {"step": Option.one_of("vanishing", "constant")},
)
DYKSTRA = ClassicSolver(
    "dykstra", DykstraRounds, _capabilities("proximal steps by Dykstra's algorithm, for teaching")
)
