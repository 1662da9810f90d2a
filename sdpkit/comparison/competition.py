"""`sdpkit.compare`: any problems by any solvers, each run in a separate process.

    sdpkit.compare("minimal", solvers="all", path="runs.jsonl")

Every run is one row of the `Comparison`, whatever became of it: a crash, a kill, a lie. With a
`path` each row is on the disk before the next run starts, and the same call made again continues
where the last one stopped.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import os
import pickle
import platform
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any
from uuid import uuid4

from sdpkit import __version__
from sdpkit.comparison.hosts import Done, Errand, carry_out, dismiss, memory_share
from sdpkit.comparison.hosts import memory as memory_here
from sdpkit.comparison.hosts import processor as processor_here
from sdpkit.comparison.ledger import Ledger
from sdpkit.comparison.models import (
    MODEL,
    ComparedModel,
    is_cvxpy_problem,
    is_cvxpy_solver,
    solvers_of_models,
)
from sdpkit.comparison.parallel import in_parallel, on_a_cluster, runs_at_a_time
from sdpkit.comparison.records import Described, RunRecord
from sdpkit.comparison.suites import INSTANCES, TIERS, Instance, names, suite
from sdpkit.comparison.table import Comparison
from sdpkit.comparison.trial import Trial
from sdpkit.comparison.worker import Outcome
from sdpkit.errors import InputError
from sdpkit.inputs import integer, positive
from sdpkit.numerics import threads
from sdpkit.solving.registry import available_solvers, get_solver, known_here_only

# So many runs and more make it worth while to import everything beforehand.
_MANY = 20
# Seconds of a run outside the suites.
_TIME_LIMIT = 60.0
# A solver is told the time limit; it is killed when it has gone beyond it by this much.
_GRACE = (1.25, 2.0)
# Seconds until a solver has imported and compiled itself, once per kind of problem.
_WARMING = 90.0
# Verdicts that the certificate proves.
_PROVEN = ("optimal", "infeasible", "unbounded", "stationary")
# What an instance and its solver are, whatever becomes of the run.
_FACTS = ("n", "n_rows", "fingerprint", "sense", "solver_version")
# Endings that a tighter tolerance does not change.
_HOPELESS = ("timeout", "time_limit", "out_of_memory", "refused")

# What stands for the hardware if each run has a host of its own.
_CLUSTER = {"processor": "of each run's host", "cores": "of each run's host"}

Key = tuple[str, str, float, int, str]


@dataclass(frozen=True)
class ComparisonProgress:
    """Where a comparison is: runs done of all, the last of them, estimated seconds left."""

    done: int
    total: int
    run: RunRecord
    remaining: float


@dataclass(frozen=True)
class _Contestant:
    """A solver by name, or as "module:attribute", or pickled."""

    name: str
    plugin: bytes = b""


@dataclass(frozen=True)
class _Entry:
    """An instance that takes part: in words, and as the worker gets it."""

    described: Described
    instance: str = ""
    problem: bytes = b""


@dataclass(frozen=True)
class _Plan:
    """One run that is to be made."""

    entry: _Entry
    contestant: _Contestant
    tol: float
    repeat: int
    start: str

    @property
    def key(self) -> Key:
        name = self.entry.described.name
        return name, self.contestant.name, self.tol, self.repeat, self.start


def compare(
    problems: Any,
    solvers: str | Iterable[Any] = "all",
    tols: Iterable[float] = (1e-3, 1e-6),
    *,
    repeats: int = 1,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    path: str | Path | None = None,
    n_jobs: int | None = None,
    warm: bool = False,
    fresh: bool = False,
    progress: Callable[[ComparisonProgress], Any] | None = None,
) -> Comparison:
    """Let solvers solve problems, certify what they return, and measure what it took.

    Parameters
    ----------
    problems : object
        A problem, `Program` or cvxpy model, a list of them, a mapping from names to them, the name
        of a suite ("minimal", "fast", "large", "mvu", …), or `sdpkit.comparison.suites.Instance`
        objects.
    solvers : str or iterable of object, default "all"
        "all" that are available (but methods for teaching), or a list of names, of
        "module:attribute" strings, or of solver objects. A cvxpy model is solved natively by
        cvxpy's solvers, which have cvxpy's names ("CLARABEL", "SCS", …), and by sdpkit's. Solvers
        of other packages are found by their entry point; one that was registered at run time, or is
        given as an object, is pickled for the other processes, so that its class must be in a
        module that they can import.
    tols : iterable of float, default (0.001, 1e-06)
        Tolerances; a solver that ran into a limit at one is not asked again at a tighter one, and
        its row says so.
    repeats : int, default 1
        How often each run is made.
    time_limit : float or None, default None
        Seconds; a solver is told, and killed when it goes beyond by a quarter and two seconds more.
        By default that of the suite, else 60.
    memory_limit : float or None, default None
        Bytes beyond what the process begins with; by default 80 % of what is free.
    path : str or path or None, default None
        A file that keeps every run as soon as it is made; if it exists, its runs count as made.
    n_jobs : int or None, default None
        Runs at a time, by joblib; timings suffer from more than one. By default 1, or what
        `joblib.parallel_config` says, which may also name a Dask cluster.
    warm : bool, default False
        Also start from the answer at a tolerance 100 times looser, with the solvers that can.
    fresh : bool, default False
        Delete the runs in `path` first; a file that another comparison has open is refused.
    progress : callable or None, default None
        Called after every run with a `ComparisonProgress`.

    Returns
    -------
    Comparison
        The runs, with tables, plots and a report.

    Examples
    --------
    >>> import sdpkit
    >>> ring = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(6))
    >>> comparison = sdpkit.compare(ring, solvers=["interior"], tols=[1e-6])
    >>> run = comparison.runs[0]
    >>> run.outcome, run.success, round(run.objective, 4)          # 6/(4 sin²(π/6))
    ('optimal', True, 6.0)
    """
    entries, default_limit = _entries(problems)
    limit = positive(default_limit if time_limit is None else time_limit, "time_limit")
    memory = None if memory_limit is None else positive(memory_limit, "memory_limit")
    tolerances = sorted({positive(tol, "tols") for tol in tols})
    contestants = _contestants(solvers, all(entry.described.kind == MODEL for entry in entries))
    plans = list(_plans(entries, contestants, tolerances, repeats, warm))
    cluster, jobs = on_a_cluster(), runs_at_a_time(n_jobs)
    environment, described = _environment(jobs, cluster), [entry.described for entry in entries]
    settings = {"time_limit": limit, "memory_limit": memory, "n_jobs": cluster or jobs}
    with ExitStack() as stack:
        ledger: Any = _Unwritten(environment, described)
        if path is not None:
            ledger = stack.enter_context(Ledger(path, environment, settings, described, fresh))
        share = memory if memory is not None or cluster else memory_share(jobs)
        beside = 1 if cluster else jobs
        _Referee(ledger, plans, limit, share, jobs, beside, progress).play(entries)
        return _asked(ledger, plans)


class _Unwritten:
    """A ledger without a file."""

    def __init__(self, environment: Mapping[str, str], instances: list[Described]) -> None:
        self.environment, self.instances = environment, instances
        self.runs: list[RunRecord] = []

    def add(self, run: RunRecord) -> None:
        self.runs.append(run)


def _asked(ledger: Any, plans: list[_Plan]) -> Comparison:
    """The runs that were planned, in the order of the plans; a file may hold others too."""
    made = {run.key: run for run in ledger.runs}
    involved = {plan.entry.described.name for plan in plans}
    return Comparison(
        tuple(made[plan.key] for plan in plans),
        ledger.environment,
        tuple(one for one in ledger.instances if one.name in involved),
    )


# -- the runs -------------------------------------------------------------------------------


class _Referee:
    """Makes the runs that are missing, by joblib, and alone writes them down."""

    def __init__(
        self,
        ledger: Any,
        plans: list[_Plan],
        limit: float,
        memory: float | None,
        n_jobs: int,
        beside: int,
        progress: Callable[[ComparisonProgress], Any] | None,
    ) -> None:
        self.ledger, self.plans, self.progress = ledger, plans, progress
        self.limit, self.n_jobs = limit, n_jobs
        self.seconds: list[tuple[_Plan, float]] = []
        self.left_out: deque[tuple[_Plan, RunRecord]] = deque()
        made = {run.key for run in ledger.runs}
        # Loose tolerances first: what they are too hard for need not be tried at tighter ones,
        # also if several runs are made at a time.
        missing = [plan for plan in plans if plan.key not in made]
        self.missing = sorted(missing, key=lambda plan: -plan.tol)
        self.common: dict[str, Any] = {
            "owner": uuid4().hex,
            "patience": _GRACE[0] * limit + _GRACE[1],
            "memory": memory,
            "heavy": len(missing) > _MANY,
            "beside": beside,
        }

    def play(self, entries: list[_Entry]) -> None:
        """Make the runs. Here joblib's threads wait for the processes of the runs; on a cluster
        its tasks do."""
        from joblib import delayed

        try:
            self._require_same_instances(entries)
            tasks = (delayed(carry_out)(errand) for errand in self._errands())
            for done in in_parallel(tasks, self.n_jobs, prefer="threads"):
                self._note(done)
            self._note_left_out()
        finally:
            dismiss(self.common["owner"])

    def _errands(self) -> Iterator[Errand]:
        """What is still to be run when it is asked for."""
        for number, plan in enumerate(self.missing):
            row = self._without_hope(plan)
            if row is not None:
                self.left_out.append((plan, row))
                continue
            trial = Trial(
                plan.entry.instance,
                plan.entry.problem,
                plan.contestant.name,
                plan.contestant.plugin,
                plan.tol,
                self.limit,
                plan.start,
            )
            yield Errand(
                number,
                function="sdpkit.comparison.trial:attempt",
                arguments={"trial": trial},
                sort=(plan.contestant.name, plan.entry.described.kind),
                warming=_WARMING,
                **self.common,
            )

    def _note(self, done: Done) -> None:
        self._note_left_out()
        plan = self.missing[done.number]
        self._add(plan, _row(plan, done.outcome, self.limit, done.host), done.seconds)

    def _note_left_out(self) -> None:
        while self.left_out:
            self._add(*self.left_out.popleft(), 0.0)

    def _add(self, plan: _Plan, run: RunRecord, seconds: float) -> None:
        self.ledger.add(run)
        self.seconds.append((plan, seconds))
        if self.progress is not None:
            done = len(self.plans) - len(self.missing) + len(self.seconds)
            self.progress(ComparisonProgress(done, len(self.plans), run, self._remaining()))

    def _without_hope(self, plan: _Plan) -> RunRecord | None:
        """The row of a run that is not made, since a looser tolerance was too much already, or
        the solver does not accept programs of this kind."""
        for run in list[RunRecord](self.ledger.runs):
            same = replace(run, tol=plan.tol).key == plan.key
            if same and run.tol > plan.tol and run.outcome in _HOPELESS:
                words = f"not run: at tol {run.tol:g} it ended in {run.outcome}"
                if run.outcome == "refused":
                    words = run.message
                told = {"outcome": run.outcome, "message": words}
                facts = {name: getattr(run, name) for name in _FACTS}
                found = {"result": told, "described": facts}
                return _row(plan, Outcome("", "", found, 0.0, math.nan), self.limit)
        return None

    def _remaining(self) -> float:
        """Seconds left, if every run takes what its solver took on the instance, or else what it
        took on average, or else what all did."""
        made = {plan.key for plan, _ in self.seconds}
        total = 0.0
        for plan in self.missing:
            if plan.key not in made:
                total += self._expected(plan)
        return total / self.n_jobs

    def _expected(self, plan: _Plan) -> float:
        own = [(p, s) for p, s in self.seconds if p.contestant.name == plan.contestant.name]
        here = [s for p, s in own if p.entry.described.name == plan.entry.described.name]
        return fmean(here or [s for _, s in own] or [s for _, s in self.seconds])

    def _require_same_instances(self, entries: list[_Entry]) -> None:
        """Refuse to continue a file whose runs are of other instances with the same names."""
        before = {run.instance: run.fingerprint for run in self.ledger.runs if run.fingerprint}
        for entry in entries:
            name = entry.described.name
            if name not in before:
                continue
            trial = Trial(entry.instance, entry.problem, "", b"", 1.0, self.limit)
            describe = "sdpkit.comparison.trial:describe"
            done = carry_out(
                Errand(0, function=describe, arguments={"trial": trial}, **self.common)
            )
            now = dict(done.outcome.told.get("described") or {}).get("fingerprint")
            if now is not None and now != before[name]:
                raise InputError(
                    f"the file holds runs of another instance named {name!r} (fingerprint "
                    f"{before[name]}, now {now}): rename the instance or choose another path"
                )


def _row(plan: _Plan, outcome: Outcome, limit: float, host: str = "") -> RunRecord:
    """What a child told, and how it ended, as a row."""
    described, told = plan.entry.described, dict(outcome.told)
    facts = {"n": 0, "n_rows": 0, **dict.fromkeys(_FACTS[2:], ""), **(told.get("described") or {})}
    scale, kind = float(facts.pop("value_floor", 0.0)), str(facts.pop("kind", ""))
    result = dict(told.get("result") or {})
    if not result:
        seconds = outcome.seconds
        result = {"outcome": outcome.ending or "crashed", "message": outcome.words}
        result |= {"total": seconds, "peak": outcome.peak}
    verdict = str(result.pop("outcome"))
    expected = (described.expected,) if described.expected else _PROVEN
    coordinates = told.get("coordinates")
    return RunRecord(
        suite=described.suite,
        instance=described.name,
        kind=described.kind or kind,
        solver=plan.contestant.name,
        tol=plan.tol,
        repeat=plan.repeat,
        start=plan.start,
        outcome=verdict,
        success=verdict in expected,
        reference=described.reference,
        reference_error=_error(result.get("objective", math.nan), described.reference, scale),
        time_limit=limit,
        host=host,
        coordinates=None if coordinates is None else tuple(coordinates),
        **{"claimed": False, **facts, **result},
    )


def _error(value: float, reference: float, scale: float) -> float:
    """|value − reference| over the larger of the reference and a value that counts as zero."""
    denominator = max(abs(reference), scale)
    return abs(value - reference) / denominator if denominator > 0 else math.nan


# -- who and what ---------------------------------------------------------------------------


def _plans(
    entries: list[_Entry],
    contestants: list[_Contestant],
    tols: list[float],
    repeats: int,
    warm: bool,
) -> Iterator[_Plan]:
    """All runs, instance by instance, the loosest tolerance first."""
    if not tols:
        raise InputError("tols is empty: pass at least one tolerance")
    count = integer(repeats, "repeats")
    for entry in entries:
        for contestant in contestants:
            starts = ["cold", *["warm"] * (warm and _starts_warm(contestant))]
            for tol in reversed(tols):
                for start in starts:
                    for repeat in range(count):
                        yield _Plan(entry, contestant, tol, repeat, start)


def _starts_warm(contestant: _Contestant) -> bool:
    if contestant.name == "auto":
        return True
    if contestant.plugin:
        return bool(pickle.loads(contestant.plugin).capabilities.warm_start)
    if ":" in contestant.name:
        from sdpkit.solving.registry import load

        return bool(load(contestant.name).capabilities.warm_start)
    if is_cvxpy_solver(contestant.name):
        return False
    return get_solver(contestant.name).capabilities.warm_start


def _contestants(solvers: str | Iterable[Any], only_models: bool) -> list[_Contestant]:
    if isinstance(solvers, str):
        everybody = solvers_of_models if only_models else _all
        solvers = everybody() if solvers == "all" else [solvers]
    found = [_contestant(solver) for solver in solvers]
    if not found:
        raise InputError("solvers is empty: pass names, or 'all'")
    repeated = {one.name for one in found if sum(one.name == o.name for o in found) > 1}
    if repeated:
        raise InputError(
            f"the solvers {', '.join(sorted(repeated))} are named twice: name each once"
        )
    return found


def _all() -> list[str]:
    """Everybody but the methods for teaching, which would run into every limit."""
    return [name for name in available_solvers() if not get_solver(name).capabilities.teaching]


def _contestant(solver: Any) -> _Contestant:
    if isinstance(solver, str):
        if ":" in solver or solver == "auto" or is_cvxpy_solver(solver):
            return _Contestant(solver)
        found = get_solver(solver)  # raises for unknown names
        if not known_here_only(solver):
            return _Contestant(solver)
        solver = found
    name = getattr(solver, "name", "")
    if not name or not callable(getattr(solver, "solve", None)):
        raise InputError(f"solvers holds {solver!r}: pass names, 'module:attribute' or solvers")
    return _Contestant(str(name), _pickled(solver, f"the solver {name!r}"))


def _pickled(thing: Any, words: str) -> bytes:
    """`thing` for another process, which must be able to import its class."""
    if type(thing).__module__ == "__main__":
        raise InputError(
            f"{words} is of a class defined in the main script, which other processes cannot "
            "import: move the class to a module"
        )
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"{words} cannot be sent to another process: {error}") from error


def _entries(problems: Any) -> tuple[list[_Entry], float]:
    """Who takes part, and the time limit that goes with it."""
    if isinstance(problems, str):
        limit = TIERS[problems][0] if problems in TIERS else TIERS["fast"][0]
        return [_entry(one.name, one, 0) for one in suite(problems)], limit
    if isinstance(problems, Mapping):
        pairs = [(str(name), problem) for name, problem in problems.items()]
    elif isinstance(problems, list | tuple):
        pairs = [("", problem) for problem in problems]
    else:
        pairs = [("", problems)]
    entries = [_entry(name, problem, k) for k, (name, problem) in enumerate(pairs, start=1)]
    seen = [entry.described.name for entry in entries]
    twice = sorted({name for name in seen if seen.count(name) > 1})
    if twice:
        raise InputError(f"two instances are called {', '.join(twice)}: give them different names")
    if not entries:
        raise InputError(
            f"there is nothing to compare on: pass problems, or one of the suites "
            f"{', '.join(names())}"
        )
    return entries, _TIME_LIMIT


def _entry(name: str, problem: Any, position: int) -> _Entry:
    if isinstance(problem, Instance):
        described = problem.described()
        if any(problem is one for one in INSTANCES):
            return _Entry(described, instance=problem.name)
        return _Entry(described, problem=_pickled(problem.build(), f"{problem.name!r}"))
    if is_cvxpy_problem(problem):
        title = name or f"model-{position}"
        model = ComparedModel.of(title, problem)
        return _Entry(
            Described(title, kind=MODEL, description="cvxpy model"), problem=_pickled(model, title)
        )
    if not callable(getattr(problem, "program", None)) and not hasattr(problem, "fingerprint"):
        raise InputError(
            f"compare got {type(problem).__name__}: pass problems, programs, cvxpy models, "
            "instances or the name of a suite"
        )
    kind = type(problem).__name__.lower()
    title = name or f"{kind}-{position}"
    words = repr(problem) if len(repr(problem)) < 200 else type(problem).__name__
    described = Described(title, kind=kind, description=words.strip("<>"))
    return _Entry(described, problem=_pickled(problem, f"the problem {title!r}"))


# -- where ----------------------------------------------------------------------------------


def _environment(n_jobs: int, cluster: str) -> dict[str, str]:
    """Versions and hardware, as a reader of the figures needs them."""
    versions = {}
    for package in ("numpy", "scipy", "scikit-learn", "numba", "cvxpy", "scs", "clarabel"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "sdpkit": __version__,
        "python": platform.python_version(),
        **versions,
        **(_CLUSTER if cluster else _hardware(n_jobs)),
        "parallel": f"{cluster}, " * bool(cluster) + f"{n_jobs} at a time",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join([_command_name(), *sys.argv[1:]]),
    }


def _hardware(n_jobs: int) -> dict[str, str]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor_here(),
        "cores": str(os.cpu_count() or "unknown"),
        "threads": f"1 of BLAS, {threads.workers(n_jobs)} of sdpkit's own",
        "memory": memory_here(),
    }


def _command_name() -> str:
    name = Path(sys.argv[0]).name if sys.argv else ""
    return "sdpkit" if name == "__main__.py" else name  # python -m sdpkit
