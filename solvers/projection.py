"""Douglas–Rachford splitting: where the projections of the thesis lead.

`alternating`, `gradient-projection` and `dykstra` (`sdpkit.solvers.rounds`) project on one row
after the other and on the cone. `projection`, here, takes all rows at once, and two sets only:

    x = P_K(z),   y = P_R(2x − z − sc),   z ← z + α(y − x)

(the alternating direction method of multipliers on the dual; Povh–Rendl–Wiegele 2006, Wen–Goldfarb–
Yin 2010). x tends to a solution, (x − z)/s and the multipliers of P_R to a dual one.

What makes it fast is described in `sdpkit.solvers.sets` (a metric in which all rows ask the same)
and here: at every restart the metric is fitted to the iterate. With z = X − sS, X ⪰ 0 and S ⪰ 0
share their eigenvectors, and coordinates scaled by  ((X + δ)/(S + δ))^¼  along them lessen the
spread of both spectra. Steps are over-relaxed and extrapolated (Anderson's method), the penalty s
follows the balance of both residuals. Intervals between restarts double, so that the theory for a
fixed metric holds in the end.

Its multipliers are repaired in the metric, by y₀ with Aᵀy₀ = I or by a known feasible point: they
are *feasible* whenever there is one of these, and their value bounds the optimum. Where there is no
optimum, the iterates move on along a ray, which is returned once the certificate accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpkit.certificate.bounds import safe_bound
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.errors import InputError
from sdpkit.numerics.kernels import clock
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.reduction import Reduction, reduce
from sdpkit.solution.solver import Capabilities, dense_work, digits, unsupported
from sdpkit.solvers.sets import DENSE_ROWS, TwoSets, metric

Array = NDArray[np.float64]

_MAX_ITER = 20_000
_RELAXATION = 1.6
_CHECK = 20  # iterations between looks at both sides
_MEMORY = 10  # steps that an extrapolation sees, and iterations between two
_FIRST = 100  # iterations before the first restart; twice as many before each later one
_SPREAD, _FLOOR = 0.25, 0.03  # exponent and floor of the fitted metric
_UNBALANCED, _LOPSIDED = 4.0, 50.0  # ratios of residuals that call for another penalty: soon, now
_WORSE = 1.0  # an extrapolation that makes the next step longer than this is taken back
_FARTHEST = 300.0  # how many steps an extrapolation may leap
_SAFETY = 0.8  # share of tol at which to stop
_SHRUNK = 0.5  # and where the point will be shrunk into its limits, at a price of half of tol
RAY_TOL = 1e-7


@dataclass(frozen=True, eq=False)
class _Repair:
    """What makes multipliers that miss feasibility feasible.

    Attributes
    ----------
    y: a direction with Aᵀy ⪰ strength·I, to be subtracted; or, as an `anchor`, multipliers whose
        slack is ⪰ strength·I, to be mixed in
    """

    sets: TwoSets
    y: Array
    strength: float
    is_anchor: bool

    @classmethod
    def of(cls, sets: TwoSets, anchor: Array | None) -> _Repair | None:
        """The direction that maps to the identity where there is one, else the anchor."""
        one = np.zeros(sets.tail.stop)
        for block in sets.blocks:
            one[block.part] = np.eye(block.size).ravel()
        curved = sets.curvature > 0  # their dual slacks may be anything, at a price
        one[sets.tail] = ~sets.free & ~curved
        if sets.groups or (sets.free & ~curved).any():
            return None
        y = sets.solve(sets.values(one))
        strength = sets.smallest(sets.adjoint(y))
        if strength > 0.01:
            return cls(sets, y, strength, is_anchor=False)
        if anchor is None:
            return None
        y = np.clip(sets.from_multipliers(anchor), *sets.box)
        strength = sets.smallest(sets.slack_of(y), matrices_only=sets.is_boxed)
        return cls(sets, y, strength, is_anchor=True) if strength > 0 else None

    def feasible(self, y: Array, homogeneous: bool = False) -> Array:
        """Multipliers near y whose slack c − Aᵀy, or −Aᵀy, is in the cone."""
        sets = self.sets
        if not homogeneous:
            y = np.clip(y, *sets.box)
        slack = -sets.adjoint(y) if homogeneous else sets.slack_of(y)
        boxed = sets.is_boxed and not homogeneous
        lack = max(0.0, -sets.smallest(slack, matrices_only=boxed))
        # The smallest eigenvalue is known to rounding only.
        lack += 1e-14 * float(np.abs(slack).max()) if lack else 0.0
        if not self.is_anchor:
            return y - (lack / self.strength) * self.y
        share = lack / (lack + self.strength)
        return (1 - share) * y + share * self.y


@dataclass(frozen=True, eq=False)
class _Pair:
    """A point X of the cone and a dual slack S in the coordinates of the base metric."""

    x: Array
    slack: Array


class _Splitting:
    """Douglas–Rachford iterations on one reduced program."""

    def __init__(self, program: Program, fitted: bool, anchor: Array | None) -> None:
        self.fitted = fitted
        self.base = TwoSets(program, metric(program) if fitted else None)
        self.repair = _Repair.of(self.base, anchor)
        self.s = 1.0
        self.ranks: tuple[int, ...] = ()
        self._enter(self.base)
        self.move_to(np.zeros(self.base.tail.stop))

    def _enter(self, sets: TwoSets) -> None:
        self.sets = sets
        self.cost_values = sets.values(sets.c)

    def move_to(self, z: Array) -> None:
        self.z, self.values = z, self.sets.values(z)
        self.forget()

    def forget(self) -> None:
        """Begin the extrapolation anew."""
        self.changes: list[tuple[Array, Array, Array]] = []
        self.previous: tuple[Array, Array, Array] | None = None
        self.fallback: tuple[Array, Array, float] | None = None
        self.ranks = ()

    def iterate(self, k: int) -> None:
        """One step; afterwards `point`, `y`, `image` and `slack` are of the z before, in `at`."""
        sets, s = self.sets, self.s
        point = sets.onto_cone(self.z, s, self.ranks)
        off = sets.b - point.values
        scaled = sets.solve(off - point.values + self.values + s * self.cost_values)
        image = sets.adjoint(scaled)
        step = point.z - self.z
        slack = step / s
        step -= s * sets.c
        step += image
        self.at, self.point, self.ranks = sets, point, point.ranks
        self.y, self.image, self.slack = scaled / s, image / s, slack
        self.distance, self.off = float(np.linalg.norm(step)), float(np.linalg.norm(off))
        if self.fallback is not None and self.distance > _WORSE * self.fallback[2]:
            z, values, _ = self.fallback
            self.forget()
            self.z, self.values = z, values
            return
        self.fallback = None
        step *= _RELAXATION
        self._advance(k, step, _RELAXATION * off)

    def _advance(self, k: int, step: Array, values: Array) -> None:
        z, az = self.z + step, self.values + values
        if self.previous is not None:
            before = self.previous
            self.changes.append((z - before[0], az - before[1], step - before[2]))
            del self.changes[:-_MEMORY]
        self.previous = (z, az, step)
        if k % _MEMORY == 0 and len(self.changes) == _MEMORY:
            self.fallback = (z, az, self.distance)
            z, az = self._extrapolated(z, az, step)
        self.z, self.values = z, az

    def _extrapolated(self, z: Array, az: Array, step: Array) -> tuple[Array, Array]:
        """Anderson's method: the combination of the last steps that cancels most of this one."""
        steps = np.array([change[2] for change in self.changes])
        gram = steps @ steps.T
        gram[np.diag_indices(len(gram))] += 1e-8 * np.trace(gram)
        if not np.trace(gram) > 0:
            return z, az
        shares = np.linalg.solve(gram, steps @ step)
        dz, daz = (
            sum(share * change[k] for share, change in zip(shares, self.changes, strict=True))
            for k in (0, 1)
        )
        # Along flat directions it would go anywhere.
        length = _FARTHEST * float(np.linalg.norm(step))
        cut = min(1.0, length / max(float(np.linalg.norm(dz)), length))
        return z - cut * dz, az - cut * daz

    def rebalance(self, limit: float) -> None:
        """Another penalty where one residual is much larger than the other."""
        dual = float(np.linalg.norm(self.at.c - self.image - self.slack))
        if self.off <= 0 or dual <= 0:
            return
        ratio = self.off / dual
        if not 1 / limit < ratio < limit:
            point = self.sets.onto_cone(self.z, self.s)
            slack = (point.z - self.z) / self.s
            self.s /= float(np.clip(np.sqrt(ratio), 0.2, 5.0))
            self.move_to(point.z - self.s * slack)

    # -- changes of metric -------------------------------------------------------------------

    def pair(self) -> _Pair:
        """Where the iteration is, in the base metric."""
        point = self.sets.onto_cone(self.z, self.s)
        slack = (point.z - self.z) / self.s
        if self.sets is self.base:
            return _Pair(point.z, slack)
        base = self.base
        out = np.empty_like(slack)
        for mine, other in zip(self.sets.blocks, base.blocks, strict=True):
            to = _relative(mine.factor, other.factor)
            out[other.part] = (to.T @ self.sets.matrix(slack, mine) @ to).ravel()
        out[base.tail] = slack[base.tail] * base.column_scale / self.sets.column_scale
        out *= self.sets.cost_scale / base.cost_scale
        return _Pair(base.from_program(*self.sets.to_program(point.z)), out)

    def restart(self, pair: _Pair, penalty: float = 1.0) -> None:
        """Go on from a pair in the metric that is fitted to it."""
        base = self.base
        if not self.fitted:
            self.s = penalty
            self.move_to(pair.x - self.s * pair.slack)
            return
        factors, scalings = [], []
        for block in base.blocks:
            difference = base.matrix(pair.x - pair.slack, block)
            scaling = _fit(difference)
            scalings.append(scaling)
            factors.append(block.to_frame(scaling))
        sets = TwoSets(base.program, tuple(factors))
        slack = np.empty_like(pair.slack)
        for block, scaling in zip(base.blocks, scalings, strict=True):
            slack[block.part] = (scaling.T @ base.matrix(pair.slack, block) @ scaling).ravel()
        slack[base.tail] = pair.slack[base.tail] * sets.column_scale / base.column_scale
        slack *= base.cost_scale / sets.cost_scale
        x = sets.from_program(*base.to_program(pair.x))
        self._enter(sets)
        self.s = penalty
        self.move_to(x - self.s * slack)


def _relative(factor: Array | None, base: Array | None) -> Array:
    """T with S_base = TᵀST:  T = F⁻¹F_base."""
    if factor is None or base is None:
        raise ValueError("plain coordinates are never changed")
    return np.asarray(np.linalg.solve(factor, base))


def _fit(difference: Array) -> Array:
    """D with M → D⁻¹MD⁻ᵀ flattening the spectra of X and S, given X − S."""
    values, vectors = scipy.linalg.eigh(difference)
    above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    floors = [_FLOOR * float(np.sqrt(np.mean(part**2))) for part in (above, below)]
    if not min(floors) > 0:
        return np.eye(len(difference))
    scale = ((above + floors[0]) / (below + floors[1])) ** _SPREAD
    scale /= np.exp(np.log(scale).mean())
    return np.asarray(vectors * np.sqrt(scale))


@dataclass(frozen=True)
class _Look:
    """Both sides at one iteration, in the user's units."""

    objective: float
    bound: float
    gap: float
    residual: float


@dataclass(eq=False)
class Run:
    """What a run has found: the last point, the best multipliers, and rays."""

    program: Program
    reduction: Reduction
    settings: Settings
    started: float
    history: list[Mapping[str, float]] = field(default_factory=list)
    iterations: int = 0
    stop: Stop = Stop.ITERATION_LIMIT
    words: str = ""
    matrices: tuple[Array, ...] | None = None
    x: Array | None = None
    dual: Array | None = None
    bound: float = -np.inf
    multiplier_ray: Array | None = None
    matrix_ray: tuple[tuple[Array, ...], Array] | None = None

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed."""
        limit = self.settings.time_limit
        return limit is not None and clock() - self.started > limit

    def end(self, stop: Stop, words: str) -> bool:
        """Note why the run ends; True, for a caller to return."""
        self.stop, self.words = stop, words
        return True

    def record(self, row: dict[str, float]) -> bool:
        """Keep, print and hand out one iteration; True if the callback asks to stop."""
        self.history.append(row)
        if self.settings.verbose > 1:
            print("  ".join(f"{name} {number:.6g}" for name, number in row.items()), flush=True)
        callback = self.settings.callback
        return callback is not None and callback(row) is True

    def answer(self, setup: float) -> Answer:
        """What was found, in the coordinates in which it was found."""
        return Answer(
            self.stop,
            self.words or f"{self.stop} after {self.iterations} iterations",
            matrices=self.matrices,
            x=self.x,
            dual=self.dual,
            multiplier_ray=self.multiplier_ray,
            matrix_ray=self.matrix_ray,
            iterations=self.iterations,
            setup_time=setup,
            solve_time=clock() - self.started - setup,
            history=tuple(self.history),
        )


class _Driver:
    """Runs a splitting until both sides meet, or there is nothing to meet at."""

    def __init__(self, run: Run, method: _Splitting) -> None:
        self.run, self.method = run, method
        program, reduction = run.program, run.reduction
        scale = reduction.rhs_scale * reduction.cost_scale
        self.unit = -program.sign * scale * method.base.rhs_scale * method.base.cost_scale
        self.snapshot: tuple[TwoSets, Array, Array] | None = None
        self.first = 0

    def start(self) -> None:
        """From a checkpoint, else from a given solution, else from zero."""
        run, base = self.run, self.method.base
        saved = None if run.settings.checkpoint is None else run.settings.checkpoint.state
        if saved is not None:
            self.first = int(saved["iteration"])
            self.method.restart(_Pair(saved["x"], saved["slack"]))
            return
        warm = run.settings.warm_start
        given = None if warm is None else run.reduction.lower(warm)
        if given is None:
            return
        matrices, x, w = given
        slack = base.slack_of(base.from_multipliers(w))
        point = base.onto_cone(base.from_program(matrices, x))
        self.method.restart(_Pair(point.z, base.onto_cone(slack).z))

    def save(self, k: int) -> None:
        checkpoint = self.run.settings.checkpoint
        if checkpoint is not None:
            pair = self.method.pair()
            checkpoint.save(iteration=k, x=pair.x, slack=pair.slack)

    def loop(self) -> None:
        run, method = self.run, self.method
        length = _FIRST
        renew = self.first + length
        last = self.first + (run.settings.max_iter or _MAX_ITER)
        for k in range(self.first + 1, last + 1):
            method.iterate(k)
            run.iterations = k
            look = None
            if k % _CHECK == 0 or k == last:
                look = self.look(k)
            if self.record(k, look):
                run.end(Stop.INTERRUPTED, "stopped by the callback")
                break
            if look is not None and self.verdict(k, look):
                break
            if run.out_of_time:
                run.end(Stop.TIME_LIMIT, f"time limit after {k} iterations")
                break
            if k == renew:
                length *= 2
                renew += length
                method.restart(method.pair())
                self.snapshot = None
            elif k % _CHECK == 0:
                method.rebalance(_UNBALANCED if k % (5 * _CHECK) == 0 else _LOPSIDED)
        if run.stop not in (Stop.DONE, Stop.CLAIMS_INFEASIBLE, Stop.CLAIMS_UNBOUNDED):
            self.look(run.iterations)
            self.save(run.iterations)

    def record(self, k: int, look: _Look | None) -> bool:
        method, sets = self.method, self.method.at
        value = self.value(sets, float(sets.c @ method.point.z), method.point.z)
        row = {
            "iteration": float(k),
            "objective": value,
            "distance to the rows": method.off,
            "distance of the shadows": method.distance,
            "penalty": method.s,
            "rank": float(sum(method.point.ranks)),
        }
        if look is not None:
            row |= {"bound": look.bound, "gap": look.gap, "residual": look.residual}
        return self.run.record(row)

    def value(self, sets: TwoSets, linear: float, z: Array) -> float:
        """The user's objective."""
        base = self.method.base
        ratio = sets.rhs_scale * sets.cost_scale / (base.rhs_scale * base.cost_scale)
        total = linear + sets.penalty(z[sets.tail])
        return self.run.program.offset + self.unit * ratio * total

    def look(self, k: int) -> _Look:
        """Keep the point and the better multipliers; measure both."""
        run, method = self.run, self.method
        sets, base = method.at, method.base
        matrices, x = sets.to_program(method.point.z)
        run.matrices, run.x = matrices, x[: sets.program.n_auxiliary]
        sign = sets.program.sign
        y = base.from_multipliers(sign * sets.multipliers(method.y))
        if method.repair is not None:
            y = method.repair.feasible(y)
        value = base.dual_value(y)
        if method.repair is None or value > run.bound:
            run.bound, run.dual = value, base.multipliers(y)
        objective = self.value(sets, float(sets.c @ method.point.z), method.point.z)
        bound = run.program.offset + self.unit * run.bound
        scale = max(abs(objective), abs(bound), run.program.safe.value_scale, 1e-300)
        residual = sets.residual(method.point.values)
        return _Look(objective, bound, abs(objective - bound) / scale, residual)

    def verdict(self, k: int, look: _Look) -> bool:
        run = self.run
        tol = run.settings.tol
        share = _SHRUNK if np.all(run.program.relations == -1) else _SAFETY
        if max(look.gap, look.residual) <= share * tol and self.is_proven(look, tol):
            return run.end(Stop.DONE, f"converged: gap {look.gap:.1e}, rows {look.residual:.1e}")
        if not np.isfinite([look.objective, look.residual]).all():
            return run.end(Stop.FAILED, "the iteration left the floating-point numbers")
        checkpoint = run.settings.checkpoint
        if checkpoint is not None and checkpoint.is_due:
            self.save(k)
        if k % (5 * _CHECK) == 0:
            return self.seek_rays()
        if k % (5 * _CHECK) == 4 * _CHECK:
            method = self.method
            self.snapshot = (method.at, method.point.z, method.y)
        return False

    def is_proven(self, look: _Look, tol: float) -> bool:
        """Whether the certificate's bound is as good; far beyond tol it need not be.

        Where the certificate has no bound at all, a margin may be asked for instead, and soon.
        """
        program, reached = self.run.program, max(look.gap, look.residual)
        if self.method.repair is not None or reached <= 1e-3 * tol:
            return True
        dual = self.run.reduction.lift(Answer(Stop.DONE, "", dual=self.run.dual)).dual
        safe = safe_bound(program, program.sign * np.asarray(dual)).value
        if not np.isfinite(safe):
            return reached <= 0.05 * tol
        bound = program.sign * safe + program.offset
        scale = max(abs(look.objective), abs(bound), program.safe.value_scale)
        return bool(abs(bound - look.objective) <= _SAFETY * tol * scale)

    # -- programs without an optimum ---------------------------------------------------------

    def seek_rays(self) -> bool:
        """Iterates of a program without an optimum move on for ever: along a proof."""
        method, before = self.method, self.snapshot
        if before is None or before[0] is not method.at:
            return False
        return self.proves_infeasible(method.y - before[2]) or self.proves_unbounded(
            method.point.z - before[1]
        )

    def proves_infeasible(self, change: Array) -> bool:
        run, method, base = self.run, self.method, self.method.base
        sign = base.program.sign
        y = base.from_multipliers(sign * method.at.multipliers(change))
        if not base.b @ y > 0:
            return False
        if method.repair is not None and not method.repair.is_anchor:
            y = method.repair.feasible(y, homogeneous=True)
            if not base.b @ y > 0:
                return False
        ray = base.multipliers(y)
        lifted = run.reduction.lift(Answer(Stop.DONE, "", multiplier_ray=ray)).multiplier_ray
        if lifted is None or not certify_infeasible(run.program, lifted).passes(RAY_TOL):
            return False
        run.multiplier_ray = ray
        return run.end(Stop.CLAIMS_INFEASIBLE, "the multipliers move on along a ray")

    def proves_unbounded(self, change: Array) -> bool:
        run, sets = self.run, self.method.at
        length = float(np.linalg.norm(change))
        off = float(np.linalg.norm(sets.values(change)))
        if not sets.c @ change < 0 or not off <= 0.1 * length:
            return False
        z = change / length
        for _ in range(60):
            z = sets.onto_cone(z - sets.adjoint(sets.solve(sets.values(z)))).z
        if not sets.c @ z < 0:
            return False
        matrices, x = sets.to_program(z)
        ray = (matrices, x[: sets.program.n_auxiliary])
        lifted = run.reduction.lift(Answer(Stop.DONE, "", matrix_ray=ray)).matrix_ray
        if lifted is None or not certify_unbounded(run.program, *lifted).passes(RAY_TOL):
            return False
        run.matrix_ray = ray
        return run.end(Stop.CLAIMS_UNBOUNDED, "the matrices move on along a ray")


def _unseen_ray(program: Program) -> tuple[tuple[Array, ...], Array] | None:
    """A direction that no row sees and the objective gains by: parts that nothing ties together."""
    rays = [np.zeros((block.size, block.size)) for block in program.blocks]
    theta = program.split(np.asarray(abs(program.rows_q).sum(axis=0), dtype=np.float64).ravel())
    costs = program.split(program.cost_q)
    for k, (block, weight, g) in enumerate(zip(program.blocks, theta, costs, strict=True)):
        values, vectors = scipy.linalg.eigh(dense(block.adjoint(weight + np.abs(g))))
        hidden = vectors[:, values <= 1e-13 * max(values[-1], 0.0)]
        if not hidden.shape[1]:
            continue
        gain, within = scipy.linalg.eigh(program.sign * hidden.T @ block.cost.dense() @ hidden)
        if gain[-1] > 1e-9 * block.cost.magnitude():
            direction = hidden @ within[:, -1]
            rays[k] = np.outer(direction, direction)
            return tuple(rays), np.zeros(program.n_auxiliary)
    return None


class Projection:
    """Douglas–Rachford splitting as a solver."""

    name = "projection"
    capabilities = Capabilities(
        quadratic=True,
        norms=True,
        warm_start=True,
        callback=True,
        checkpoint=True,
        summary="Douglas–Rachford splitting in a fitted metric; any program, to 1e-3 … 1e-6",
    )

    def unavailable(self) -> str | None:
        """It always works."""
        return None

    def accepts(self, program: Program) -> str | None:
        """Any program within its capabilities."""
        return unsupported(self.capabilities, program)

    def memory(self, program: Program) -> float:
        """Bytes: AAᵀ and its factor, gathered measurements, thirty copies of the matrices."""
        n2 = sum(block.size**2 for block in program.blocks)
        wide = sum(block.n_measurements * block.size for block in program.blocks)
        rows = 2 * program.n_rows**2 if program.n_rows <= DENSE_ROWS else 100 * program.n_rows
        return 8.0 * (rows + 3 * wide + 32 * n2)

    def feasible(self, program: Program, dual: Array) -> Array | None:
        """`feasible_multipliers`, for those who know the solver by its name."""
        return feasible_multipliers(program, dual)

    def seconds(self, program: Program, tol: float) -> float:
        """Thousands of eigendecompositions."""
        work = dense_work(program)
        return 0.5 + digits(tol) / 6 * (2e-4 * work + 2e-8 * float(program.n_rows) ** 3)

    def solve(self, program: Program, settings: Settings) -> Answer:
        """Reduce, iterate, lift."""
        fitted = options_of(self.name, settings, {"metric": ("fitted", "plain")})["metric"]
        started = clock()
        reduction = reduce(program, orthonormal=True)
        run = Run(program, reduction, settings, started)
        ray = _unseen_ray(reduction.program)
        if ray is not None:
            run.matrix_ray = ray
            run.end(Stop.CLAIMS_UNBOUNDED, "a direction that no row sees improves the objective")
            return reduction.lift(run.answer(clock() - started))
        few = reduction.program.n_rows <= DENSE_ROWS
        anchor = _reduced_anchor(reduction)
        method = _Splitting(reduction.program, few and fitted == "fitted", anchor)
        driver = _Driver(run, method)
        setup = clock() - started
        try:
            driver.start()
            driver.loop()
        except KeyboardInterrupt:
            run.end(Stop.INTERRUPTED, f"interrupted after {run.iterations} iterations")
            if run.iterations:
                driver.look(run.iterations)
        if run.iterations:
            driver.save(run.iterations)
        return reduction.lift(run.answer(setup))


def feasible_multipliers(program: Program, dual: Array) -> Array | None:
    """Multipliers near `dual` that are feasible, by the repair that `projection` uses for its own.

    None where the metric has no repair. Any solver's multipliers will do.

    >>> import numpy as np
    >>> from sdpkit import MVU, datasets
    >>> program = MVU(graph=datasets.path_graph(3)).program()     # w = (1, 1) is optimal
    >>> w = feasible_multipliers(program, np.array([0.9, 1.0]))
    >>> bool(program.blocks[0].smallest_of_slack(w, 1.0) >= -1e-12)
    True
    """
    reduction = reduce(program, orthonormal=True)
    sets = TwoSets(reduction.program, metric(reduction.program))
    repair = _Repair.of(sets, _reduced_anchor(reduction))
    if repair is None:
        return None
    w = program.sign * dual[reduction.rows] * reduction.row_scale / reduction.cost_scale
    repaired = sets.multipliers(repair.feasible(sets.from_multipliers(w)))
    return reduction.lift(Answer(Stop.DONE, "", dual=repaired)).dual


def _reduced_anchor(reduction: Reduction) -> Array | None:
    """The program's own feasible multipliers, for the reduced maximisation."""
    anchor = reduction.original.safe.anchor
    if anchor is None:
        return None
    scale = reduction.original.sign * reduction.row_scale / reduction.cost_scale
    return np.asarray(anchor[reduction.rows] * scale)


def options_of(
    name: str, settings: Settings, known: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """The options with their defaults; anything else is refused by name."""
    out = {option: values[0] for option, values in known.items()}
    for option, value in settings.options.items():
        if option not in known:
            there = ", ".join(known) or "none"
            raise InputError(f"{name} has no option {option!r}; there are: {there}")
        if value not in known[option]:
            raise InputError(f"{option} is {value!r}; use one of {', '.join(known[option])}")
        out[option] = str(value)
    return out


PROJECTION = Projection()
