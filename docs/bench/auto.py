"""How good the choice of `solver="auto"` is: `make bench NAME=auto`.

Every suitable engine of ours solves every instance; the choice of `auto` is compared with the
fastest one. The runs are kept in a table, docs/auto.csv (`--measure`), so that the choice can be
judged, and the prices behind the forecasts fitted (`--fit`), without solving anything again.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp

import sdpkit
from bench.threads import processor_time
from sdpkit.comparison.hosts import isolated
from sdpkit.comparison.parallel import in_parallel
from sdpkit.program.form import Program
from sdpkit.solution.forecast import UnitCosts
from sdpkit.solving.choice import choose, offers, suitable
from sdpkit.solving.registry import get_solver
from sdpkit.typing import Array

# An engine gets this many times the seconds of the fastest before it, and at least some seconds;
# the first one gets more.
_PATIENCE_RATIO, _LEAST_SECONDS, _FIRST_SECONDS = 4.0, 2.0, 120.0
# Differences that nobody notices, in seconds.
_UNNOTICED_SECONDS = 0.1
# Engines that are compared: ours, which answer on one thread.
ENGINES = ("interior", "barrier", "lowrank", "projection", "factored", "covering", "ascent")

Problem = Any


@dataclass(frozen=True)
class Timing:
    """One run: processor seconds of a solve, infinite if it did not end `optimal`, and those that
    it spent in any case."""

    instance: str
    tol: float
    solver: str
    seconds: float
    spent: float
    status: str


# -- instances ----------------------------------------------------------------------------------


def _roll(n: int, form: Any, k: int = 4, seed: int = 0) -> Problem:
    points = sdpkit.datasets.swiss_roll(n, random_state=seed)
    return sdpkit.MVU(points, n_neighbors=k, form=form, connect="bridge")


def _noisy(n: int, form: Any) -> Problem:
    points = sdpkit.datasets.swiss_roll(n, noise_dims=5, noise=0.3, random_state=1)
    return sdpkit.MVU(points, n_neighbors=5, form=form, connect="bridge")


def _digits(n: int, form: Any) -> Problem:
    """A graph of images: the first n of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    return sdpkit.MVU(load_digits().data[:n], n_neighbors=4, form=form, connect="bridge")


def _cloud(n: int, form: Any, dimensions: int = 3, k: int = 6) -> Problem:
    """Random points in space: a graph with a large fill, and rigid parts in few dimensions."""
    points = np.random.default_rng(0).random((n, dimensions))
    return sdpkit.MVU(points, n_neighbors=k, form=form, connect="bridge")


def _basis(n: int) -> Problem:
    """Variational unfolding in a basis of n vectors: few unknowns, rows without zeros."""
    points = sdpkit.datasets.swiss_roll(200, random_state=0)
    return sdpkit.VariationalMVU(points, n_neighbors=4, n_basis=n)


def _maxcut(n: int) -> Program:
    """Random weights on the edges of a sparse random graph."""
    rng = np.random.default_rng(n)
    W = np.triu(rng.random((n, n)) < 8 / n, 1) * rng.random((n, n))
    W = W + W.T
    M = sdpkit.Unknown("M", n)
    laplacian = sp.csr_array(np.diag(W.sum(axis=1)) - W)
    return sdpkit.maximise(0.25 * M.inner(laplacian), M.lengths() == 1, name=f"max-cut {n}")


def _theta(n: int) -> Program:
    """Lovász's θ of a random graph of half the edges."""
    i, j = np.nonzero(np.triu(np.random.default_rng(n).random((n, n)) < 0.5, 1))
    M = sdpkit.Unknown("M", n)
    return sdpkit.maximise(M.lengths(np.ones(n)), M.trace() == 1, M[i, j] == 0, name=f"θ {n}")


def _correlation(n: int) -> Program:
    """The correlation matrix nearest to a perturbed one."""
    rng = np.random.default_rng(n)
    noisy = np.corrcoef(rng.standard_normal((n, 3 * n))) + 0.3 * rng.standard_normal((n, n))
    i, j = np.triu_indices(n, 1)
    M, error = sdpkit.Unknown("M", n), sdpkit.Variable(i.size, "e", free=True)
    target = 0.5 * (noisy + noisy.T)[i, j]
    rows = [M.lengths() == 1, M[i, j] - error == target]
    return sdpkit.minimise(error.sum_squares(), rows, name=f"correlation {n}")


def _classes(n: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    y = rng.integers(4, size=n)
    return 1.3 * rng.standard_normal((4, d))[y] + rng.standard_normal((n, d)), y


def _lmnn(n: int, d: int) -> Problem:
    return sdpkit.LMNN(*_classes(n, d))


def _mmc(n: int, d: int) -> Problem:
    return sdpkit.MMC(*_classes(n, d), max_pairs=2000)


def _covering(n: int, d: int) -> Problem:
    return sdpkit.CoveringEllipsoid(np.random.default_rng(n).standard_normal((n, d)))


def instances() -> dict[str, tuple[Callable[[], Problem], float]]:
    """Name → (how it is made, tolerance)."""
    made: dict[str, tuple[Callable[[], Problem], float]] = {}

    def add(
        kind: Callable[..., Problem],
        sizes: Iterator[int] | tuple[int, ...],
        *more: Any,
        tol: float = 1e-6,
    ) -> None:
        for size in sizes:
            words = " ".join([kind.__name__.strip("_"), str(size), *map(str, more), f"{tol:g}"])
            made[words] = (partial(kind, size, *more), tol)

    add(_roll, (60, 150, 400, 700, 1000, 1500), "equality")
    add(_roll, (400, 1000, 2000, 4000), "equality", tol=1e-3)
    add(_roll, (60, 200, 500, 1000), "inequality")
    add(_roll, (500, 1500, 4000), "inequality", tol=1e-3)
    add(_roll, (60, 150, 400), "slack")
    add(_roll, (150, 600, 1200), "slack", tol=1e-3)
    add(_roll, (60, 200, 500), "min_trace")
    add(_roll, (300,), "equality", 8)
    add(_noisy, (300, 800), "equality")
    add(_noisy, (800, 2000), "inequality", tol=1e-3)
    add(_digits, (200, 500, 900), "equality", tol=1e-3)
    add(_digits, (200, 500), "inequality")
    add(_digits, (500, 1000, 1797), "inequality", tol=1e-3)
    add(_digits, (300,), "slack", tol=1e-3)
    add(_cloud, (200, 500), "inequality")
    add(_cloud, (500, 1500), "inequality", tol=1e-3)
    add(_cloud, (150, 400), "equality", tol=1e-4)
    add(_cloud, (1000, 3000), "equality", 3, 4, tol=1e-3)
    add(_cloud, (800, 2000), "equality", 6, tol=1e-3)
    add(_cloud, (300, 800), "equality", 10)
    add(_cloud, (2000,), "equality", 10, 4, tol=1e-3)
    add(_cloud, (300, 800), "inequality", 10, tol=1e-3)
    add(_basis, (10, 20, 30, 80))
    add(_maxcut, (30, 100, 300))
    add(_maxcut, (300,), tol=1e-3)
    add(_theta, (15, 30, 50))
    add(_correlation, (10, 30))
    add(_lmnn, (20,), 2)
    add(_lmnn, (100, 500, 2000), 5)
    add(_lmnn, (2000,), 20, tol=1e-3)
    add(_mmc, (20, 60, 150), 4)
    add(_covering, (100, 2000), 4)
    return made


# -- runs ---------------------------------------------------------------------------------------


def measured(only: str | None = None, jobs: int | None = None) -> Iterator[Timing]:
    """Runs of every suitable engine on every instance (whose name holds `only`), `jobs` instances
    at a time."""
    from joblib import delayed

    names = [name for name in instances() if only is None or only in name]
    made = in_parallel((delayed(isolated)(_raced, name) for name in names), jobs)
    for timings in made:
        yield from timings


def _raced(name: str) -> list[Timing]:
    """The runs on one instance, the engine with the shortest forecast first."""
    problem, program, tol = _made(name)
    ours = [o for o in suitable(offers(program, tol)) if o.solver.name in ENGINES]
    timings: list[Timing] = []
    for offer in ours:
        best = min((timing.seconds for timing in timings), default=math.inf)
        limit = max(_LEAST_SECONDS, _PATIENCE_RATIO * best) if best < math.inf else _FIRST_SECONDS
        timings.append(_timed(name, problem, offer.solver.name, tol, limit))
    return timings


def _made(name: str) -> tuple[Problem, Program, float]:
    """An instance, its program and its tolerance."""
    make, tol = instances()[name]
    problem = make()
    return problem, problem if isinstance(problem, Program) else problem.program(), tol


def _timed(name: str, problem: Problem, solver: str, tol: float, limit: float) -> Timing:
    """The better of two runs where they are short: the first one may load libraries."""
    seconds, spent, status = math.inf, 0.0, ""
    for _ in range(2):
        began = processor_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = sdpkit.solve(problem, solver=solver, tol=tol, time_limit=limit)
        spent, status = processor_time() - began, solution.status.value
        seconds = min(seconds, spent if status == "optimal" else math.inf)
        if spent > 3.0:
            break
    return Timing(name, tol, solver, seconds, spent, status)


def read(path: Path) -> list[Timing]:
    """The runs of a table."""
    with path.open(newline="") as file:
        return [
            Timing(
                row["instance"],
                float(row["tol"]),
                row["solver"],
                float(row["seconds"]),
                float(row["spent"]),
                row["status"],
            )
            for row in csv.DictReader(file)
        ]


def write(path: Path, timings: list[Timing]) -> None:
    """The table of some runs, in the order of the instances."""
    order = list(instances())
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Timing)], lineterminator="\n")
        writer.writeheader()
        for timing in sorted(timings, key=lambda t: order.index(t.instance)):
            rounded = {"seconds": f"{timing.seconds:.3g}", "spent": f"{timing.spent:.3g}"}
            writer.writerow({**asdict(timing), **rounded})


# -- costs ---------------------------------------------------------------------------------------


def fitted(timings: list[Timing]) -> dict[str, tuple[float, ...]]:
    """Costs for every engine of a table, nearest to its runs by ratios.

    A run that ended without success says that the engine takes longer than it was given.
    """
    work: dict[str, list[tuple[float, ...]]] = {name: [] for name in ENGINES}
    runs: dict[str, list[Timing]] = {name: [] for name in ENGINES}
    for name in dict.fromkeys(timing.instance for timing in timings):
        _, program, tol = _made(name)
        for timing in timings:
            if timing.instance == name and timing.solver in ENGINES:
                work[timing.solver].append(_engine(timing.solver).work(program, tol))
                runs[timing.solver].append(timing)
    fits = {name: (_engine(name).costs.units, work[name], runs[name]) for name in ENGINES}
    return {name: _nearest(*fit) for name, fit in fits.items() if runs[name]}


def _engine(name: str) -> Any:
    """An engine with its `work` and `costs`."""
    return get_solver(name)


def _nearest(
    prices: tuple[float, ...], work: list[tuple[float, ...]], runs: list[Timing]
) -> tuple[float, ...]:
    """Least squares in the logarithm of the seconds, from the prices at hand."""
    units = np.array(work)
    spent = np.log([max(timing.spent, _UNNOTICED_SECONDS / 10) for timing in runs])
    ended = np.array([math.isfinite(timing.seconds) for timing in runs])

    def residuals(logarithms: Array) -> Array:
        apart = np.log(units @ np.exp(logarithms)) - spent
        near = 0.05 * (logarithms - start)  # a term that no run tells of keeps its price
        return np.asarray(np.r_[np.where(ended, apart, np.minimum(apart, 0.0)), near])

    start = np.log(prices)
    found = scipy.optimize.least_squares(residuals, start, loss="soft_l1")
    return tuple(float(f"{price:.2g}") for price in np.exp(found.x))


# -- how good the choice is ---------------------------------------------------------------------


@dataclass(frozen=True)
class AutoChoice:
    """What `auto` chooses for an instance, beside the fastest engine."""

    instance: str
    chosen: str
    seconds: float
    best: str
    fastest: float

    @property
    def ratio(self) -> float:
        """Seconds of the choice over those of the fastest; 1 where nobody sees the difference."""
        if self.seconds - self.fastest <= _UNNOTICED_SECONDS:
            return 1.0
        return self.seconds / self.fastest


def verdicts(timings: list[Timing]) -> list[AutoChoice]:
    """The choice of `auto` for every instance of a table that some engine solved."""
    found = []
    for name in dict.fromkeys(t.instance for t in timings):
        runs = {t.solver: t.seconds for t in timings if t.instance == name}
        best = min(runs, key=runs.__getitem__)
        if runs[best] == math.inf:
            continue
        _, program, tol = _made(name)
        chosen = choose(program, tol)[0].name
        found.append(AutoChoice(name, chosen, runs.get(chosen, math.inf), best, runs[best]))
    return found


def auto(
    runs: Path = Path("docs/auto.csv"),
    measure: bool = False,
    fit: bool = False,
    jobs: int | None = None,
) -> None:
    """Print the choices beside the fastest engines; solve everything or fit prices before."""
    if measure:
        timings = []
        for timing in measured(jobs=jobs):
            print(f"{timing.instance:34} {timing.solver:10} {timing.seconds:9.3g}", flush=True)
            timings.append(timing)
        write(runs, timings)
    if fit:
        print("units of `costs` in each engine:")
        for name, units in fitted(read(runs)).items():
            print(f"    {name}: {units}")
            engine = type(_engine(name))
            engine.costs = UnitCosts(units, engine.costs.loading)
    judged = verdicts(read(runs))
    print(
        f"{'instance':34} {'auto':10} {'seconds':>9}   {'fastest':10} {'seconds':>9} {'ratio':>6}"
    )
    for v in sorted(judged, key=lambda v: -v.ratio):
        print(
            f"{v.instance:34} {v.chosen:10} {v.seconds:9.3g}   {v.best:10} {v.fastest:9.3g} "
            f"{v.ratio:6.2f}"
        )
    close = sum(v.ratio <= 1.3 for v in judged) / len(judged)
    worst = max(v.ratio for v in judged)
    print(f"{len(judged)} instances: {close:.0%} within 1.3 of the fastest; the worst {worst:.3g}")
