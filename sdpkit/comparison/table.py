"""What a comparison of solvers found: one row per run, and what the rows say together.

`sdpkit.compare` makes a `Comparison`; `Comparison.load` and `Comparison.from_csv` read one back.
A time counts only if the certificate granted what the solver was asked for: a run that did not
succeed stands in every mean at its time limit.

The shifted geometric mean of times t_1, …, t_n is  exp(mean log(t_i + s)) − s  with s = 1 second:
it weighs ratios, as a geometric mean does, but differences far below a second count for nothing.
"""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sdpkit.comparison.crosscheck import cross_checked
from sdpkit.comparison.ledger import read
from sdpkit.comparison.records import SHIFT_SECONDS, Described, RunRecord, numbers_or_null, run_from
from sdpkit.comparison.suites import INSTANCES
from sdpkit.errors import InputError
from sdpkit.files import one_line, read_text, reading, replace_text
from sdpkit.plotting.cards import card

# What is not written to a table of text.
_LISTS = ("history", "coordinates")
# Marks with which spreadsheets begin a formula; a quote before it is only doubled.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "'")


@dataclass(frozen=True)
class Tier:
    """What one solver did at one tolerance, over all instances or those of one kind.

    Attributes
    ----------
    kind: "" for all
    instances, runs: how many
    successes, refused, lied: runs that succeeded, were declined as beyond the solver, or claimed
        success that the certificate denied
    timeouts: runs that ended, or were ended, when their time was up, or were left out for it
    success_rate: successes per run, refused runs counted
    mean_time: shifted geometric mean of seconds over instances (median over repeats), a run
        without success at its time limit
    relative_time: mean_time over the smallest of its tolerance and kind
    """

    solver: str
    tol: float
    kind: str
    instances: int
    runs: int
    successes: int
    refused: int
    lied: int
    timeouts: int
    success_rate: float
    mean_time: float
    relative_time: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs, what they were about, and where they were made.

    Attributes
    ----------
    runs : tuple of RunRecord
        One row per run.
    environment : mapping
        Versions, machine and date.
    instances : tuple of Described
        What the instances are.

    Examples
    --------
    >>> import sdpkit
    >>> comparison = sdpkit.compare(
    ...     {"pentagon": sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))},
    ...     solvers=["interior", "clarabel"], tols=[1e-6])
    >>> [(run.instance, run.solver, run.outcome) for run in comparison.runs]
    [('pentagon', 'interior', 'optimal'), ('pentagon', 'clarabel', 'optimal')]
    >>> [tier.success_rate for tier in comparison.summary()]
    [1.0, 1.0]
    """

    runs: tuple[RunRecord, ...]
    environment: Mapping[str, str]
    instances: tuple[Described, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", cross_checked(self.runs))

    def __repr__(self) -> str:
        solvers = list(dict.fromkeys(run.solver for run in self.runs))
        good = sum(run.success for run in self.runs)
        return (
            f"<Comparison: {len(self.instances)} instances, solvers {', '.join(solvers)}, "
            f"{good} of {len(self.runs)} runs certified>"
        )

    # -- what the rows say together ----------------------------------------------------------

    def summary(self, by_kind: bool = False, start: str = "cold") -> tuple[Tier, ...]:
        """Success rates and shifted geometric means per tolerance and solver, best first."""
        kinds = sorted({run.kind for run in self.runs}) if by_kind else [""]
        chosen = [run for run in self.runs if run.start == start]
        tiers: list[Tier] = []
        for kind in kinds:
            for tol in sorted({run.tol for run in chosen}, reverse=True):
                rows = [r for r in chosen if r.tol == tol and kind in ("", r.kind)]
                tiers += _tiers(rows, tol, kind)
        return tuple(tiers)

    @property
    def finest(self) -> tuple[Tier, ...]:
        """The summary at the finest tolerance; of warm starts if there are no others."""
        tiers = self.summary() or self.summary(start="warm")
        return tuple(tier for tier in tiers if tier.tol == min(t.tol for t in tiers))

    # -- text --------------------------------------------------------------------------------

    def table(self) -> str:
        """The runs as text, one line each, and the summary below."""
        head = f"{'instance':<26}{'solver':<13}{'tol':>7} {'outcome':<15}"
        lines = [f"{head}{'objective':>15}{'gap':>9}{'seconds':>9}{'MiB':>7}{'iter':>7}"]
        lines += [_line(run) for run in self.runs]
        lines += ["", *_summary_lines(self.summary())]
        warm = self.summary(start="warm")
        lines += ["", "started from the answer at a looser tolerance:"] * bool(warm)
        return "\n".join([*lines, *(_summary_lines(warm) if warm else [])])

    def to_csv(self, path: str | Path) -> None:
        """Write the runs, exactly; history and coordinates are left out.

        Lines that begin with # say where the runs were made.
        """
        names = [field.name for field in fields(RunRecord) if field.name not in _LISTS]
        text = io.StringIO()
        for key, value in self.environment.items():
            text.write(f"# {one_line(key)}: {one_line(value, 1000)}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        for run in self.runs:
            writer.writerow([_cell(getattr(run, name)) for name in names])
        replace_text(path, text.getvalue())

    @classmethod
    def from_csv(cls, path: str | Path) -> Comparison:
        """Read what `to_csv` wrote."""
        with reading(path, "a table of runs"):
            return cls._from_text(path, read_text(path, "a table of runs"))

    @classmethod
    def _from_text(cls, path: str | Path, text: str) -> Comparison:
        environment: dict[str, str] = {}
        rows: list[str] = []
        for line in io.StringIO(text, newline=""):
            if line.startswith("# ") and not rows:
                key, _, value = line[2:].rstrip("\r\n").partition(": ")
                environment[key] = value
            else:
                rows.append(line)
        reader = csv.DictReader(rows)
        missing = {"instance", "solver", "outcome"} - set(reader.fieldnames or ())
        if missing:
            raise InputError(
                f"{path} is not a table of runs, it lacks {', '.join(sorted(missing))}: "
                "pass a CSV that sdpkit wrote"
            )
        runs = tuple(run_from({k: _uncell(v) for k, v in row.items()}) for row in reader)
        return cls(runs, environment, _instances_of(runs))

    # -- files -------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read a file of `sdpkit.compare(…, path=…)`, finished or not."""
        return cls(*read(path))

    def to_json(self) -> str:
        """Everything as one JSON object; NaN and infinity are null."""
        return json.dumps(
            {
                "environment": dict(self.environment),
                "instances": [numbers_or_null(asdict(one)) for one in self.instances],
                "runs": [numbers_or_null(asdict(run)) for run in self.runs],
                "summary": [numbers_or_null(asdict(tier)) for tier in self.summary()],
            },
            ensure_ascii=False,
        )

    def plot(self, path: str | Path | None = None) -> Any:
        """Time against n, performance profile, gap against time, in one figure.

        Written to `path` if there is one; returns the figure. Needs matplotlib.
        """
        from sdpkit.plotting import plot_runs

        return plot_runs(self, path)

    def _repr_html_(self) -> str:
        heads = ("tolerance", "solver", "certified", "mean seconds", "times the best")
        rows = [
            (
                f"{tier.tol:.0e}",
                tier.solver,
                f"{tier.successes} of {tier.runs}",
                f"{tier.mean_time:.3f}",
                f"{tier.relative_time:.1f}",
            )
            for tier in self.summary()
        ]
        return card(repr(self).strip("<>"), rows, heads)

    def report(self, path: str | Path) -> None:
        """Write the report as one HTML file."""
        from sdpkit.comparison.report import write_report

        write_report(self, path)


# -- means ----------------------------------------------------------------------------------


def shifted_geometric_mean(values: Iterable[float], shift: float = SHIFT_SECONDS) -> float:
    """exp(mean log(t + s)) − s.

    >>> shifted_geometric_mean([1.0, 7.0])          # √(2 · 8) − 1
    3.0
    """
    logs = [math.log(value + shift) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) - shift


def _tiers(runs: list[RunRecord], tol: float, kind: str) -> list[Tier]:
    """One tier per solver over the same instances, the fastest mean first."""
    names = dict.fromkeys(run.solver for run in runs)
    means = {name: _mean_time([run for run in runs if run.solver == name]) for name in names}
    best = min(means.values(), default=math.nan)
    tiers = []
    for name in sorted(names, key=lambda name: means[name]):
        own = [run for run in runs if run.solver == name]
        successes = sum(run.success for run in own)
        tiers.append(
            Tier(
                solver=name,
                tol=tol,
                kind=kind,
                instances=len({run.instance for run in own}),
                runs=len(own),
                successes=successes,
                refused=sum(run.outcome == "refused" for run in own),
                lied=sum(run.claimed and not run.success for run in own),
                timeouts=sum(run.outcome in ("timeout", "time_limit") for run in own),
                success_rate=successes / len(own),
                mean_time=means[name],
                relative_time=means[name] / best if best > 0 else math.nan,
            )
        )
    return tiers


def _mean_time(runs: list[RunRecord]) -> float:
    per_instance: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        per_instance[run.instance].append(run.counted)
    return shifted_geometric_mean(statistics.median(times) for times in per_instance.values())


# -- rows as text and back ------------------------------------------------------------------


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    if not isinstance(value, str):
        return str(value)
    # A spreadsheet would run what begins with one of these marks.
    return f"'{value}" if value.startswith(_FORMULAS) else value


def _uncell(text: str | None) -> str | None:
    """The inverse of `_cell` for texts."""
    return text[1:] if text is not None and text[:1] == "'" and text[1:2] in _FORMULAS else text


def _instances_of(runs: Iterable[RunRecord]) -> tuple[Described, ...]:
    """What the rows themselves say about their instances, and the suites about those they know."""
    known = {instance.name: instance.described() for instance in INSTANCES}
    found = {}
    for run in runs:
        plain = Described(run.instance, run.suite, run.kind, reference=run.reference)
        found[run.instance] = known.get(run.instance, plain) if run.suite else plain
    return tuple(found.values())


def _line(run: RunRecord) -> str:
    instance, solver = one_line(run.instance, 60), one_line(run.solver, 40)
    name = instance if run.start == "cold" else f"{instance} (warm)"
    outcome = run.outcome if run.success or not run.claimed else f"{run.outcome} (!)"
    iterations = run.iterations if run.iterations >= 0 else ""
    line = (
        f"{name:<26}{solver:<13}{run.tol:>7.0e} {outcome:<15}"
        f"{_number(run.objective, 15, '.8g')}{_number(run.gap, 9, '.1e')}"
        f"{_number(run.total, 9, '.3f')}{_number(run.peak / 2**20, 7, '.0f')}{iterations:>7}"
    )
    return line.rstrip()


def _number(value: float, width: int, form: str) -> str:
    return f"{'' if math.isnan(value) else format(value, form):>{width}}"


def _summary_lines(tiers: Iterable[Tier]) -> list[str]:
    lines = [
        f"{'tol':>7}  {'solver':<13}{'certified':>14}{'refused':>9}{'untrue':>8}"
        f"{'mean time':>12}{'relative':>10}"
    ]
    for tier in tiers:
        share, solver = f"{tier.successes} of {tier.runs}", one_line(tier.solver, 40)
        lines.append(
            f"{tier.tol:>7.0e}  {solver:<13}{share:>14}{tier.refused:>9}{tier.lied:>8}"
            f"{tier.mean_time:>10.3f} s{tier.relative_time:>10.1f}"
        )
    return lines
