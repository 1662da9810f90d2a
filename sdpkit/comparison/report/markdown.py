"""Tables of a comparison inside Markdown files, between marks that name them:

    <!-- measured: summary -->
    … replaced …
    <!-- end of measured -->

So a page keeps its words and its numbers come from a file of runs; `sdpkit report RUNS
--markdown PAGE` fills the page, and a test fills it again and compares.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sdpkit.comparison.records import RunRecord
from sdpkit.comparison.report import VERDICTS, power, verdict
from sdpkit.errors import InputError
from sdpkit.files import one_line

if TYPE_CHECKING:
    from sdpkit.comparison.table import Comparison, Tier

_MARKED = re.compile(
    r"(?P<open><!-- measured: (?P<name>[\w-]+) -->\n).*?(?P<close><!-- end of measured -->)",
    re.DOTALL,
)


def fill(text: str, comparison: Comparison) -> str:
    """The page with every marked block replaced.

    >>> from sdpkit import Comparison
    >>> fill("no marks", Comparison((), {}, ()))
    Traceback (most recent call last):
    sdpkit.errors.InputError: there is no block '<!-- measured: NAME -->' ...
    """
    names = [found["name"] for found in _MARKED.finditer(text)]
    if not names or text.count("<!-- measured:") != len(names):
        raise InputError(
            f"there is no block '<!-- measured: NAME -->' … '<!-- end of measured -->' to fill, or "
            f"one is not closed; NAME is one of {', '.join(BLOCKS)}"
        )
    unknown = [name for name in names if name not in BLOCKS]
    if unknown:
        raise InputError(f"there is no block {unknown[0]!r}; there are {', '.join(BLOCKS)}")
    if not comparison.runs:
        raise InputError("the comparison has no runs: there is nothing to report")
    return _MARKED.sub(
        lambda found: f"{found['open']}\n{BLOCKS[found['name']](comparison)}\n\n{found['close']}",
        text,
    )


# -- blocks ---------------------------------------------------------------------------------------


def _summary(comparison: Comparison) -> str:
    """Certified runs and mean times, a table per tolerance."""
    versions = {run.solver: run.solver_version for run in comparison.runs}
    parts = []
    for tol, tiers in _by_tol(comparison.summary()).items():
        rows = [
            (
                f"`{tier.solver}` {versions[tier.solver]}".strip(),
                f"{tier.successes} of {tier.runs}",
                str(tier.lied),
                str(tier.refused),
                _seconds(tier.mean_time),
                _seconds(tier.relative_time),
            )
            for tier in tiers
        ]
        head = ("solver", "certified", "not as claimed", "not attempted", "mean s", "× fastest")
        parts.append(f"To a tolerance of {power(tol)}:\n\n{_table(head, rows)}")
    return "\n\n".join(parts)


def _readme(comparison: Comparison) -> str:
    """Certified runs and mean seconds at every tolerance, for solvers that take most problems."""
    tiers = _by_tol(comparison.summary())
    all_tiers = [tier for of_tol in tiers.values() for tier in of_tol]
    special = {tier.solver for tier in all_tiers if 3 * tier.refused > tier.runs}
    rows = []
    for name in _solvers(comparison):
        if name in special:
            continue
        row = [f"`{name}`"]
        for tier in (tier for tier in all_tiers if tier.solver == name):
            row += [f"{tier.successes} of {tier.runs}", _seconds(tier.mean_time)]
        rows.append(row)
    titles = [title for tol in tiers for title in (f"certified to {power(tol)}", "mean s")]
    return _table(["solver", *titles], rows)


def _kinds(comparison: Comparison) -> str:
    """Mean seconds by kind of problem at the finest tolerance, and how many were certified."""
    finest = min(run.tol for run in comparison.runs)
    tiers = [tier for tier in comparison.summary(by_kind=True) if tier.tol == finest]
    solvers = _solvers(comparison)
    by_kind: dict[str, dict[str, Tier]] = {}
    for tier in tiers:
        by_kind.setdefault(tier.kind, {})[tier.solver] = tier
    rows = []
    for kind, found in by_kind.items():
        best = min((tier.mean_time for tier in found.values() if tier.successes), default=math.nan)
        rows.append((kind, *(_kind_cell(found.get(name), best) for name in solvers)))
    words = f"Tolerance {power(finest)}; mean seconds, and the certified share where it is not all:"
    return f"{words}\n\n{_table(('kind', *(f'`{name}`' for name in solvers)), rows)}"


def _kind_cell(tier: Tier | None, best: float) -> str:
    if tier is None or tier.refused == tier.runs:
        return "–"
    if not tier.successes:
        return f"0 of {tier.runs}"
    words = _seconds(tier.mean_time)
    words = f"**{words}**" if tier.mean_time == best else words
    return words if tier.successes == tier.runs else f"{words} ({tier.successes} of {tier.runs})"


def _instances(comparison: Comparison) -> str:
    """Seconds of every solver on every instance at the finest tolerance; failures by name."""
    finest = min(run.tol for run in comparison.runs)
    solvers = _solvers(comparison)
    chosen = [run for run in comparison.runs if run.tol == finest and run.start == "cold"]
    rows = []
    for name in sorted({run.instance for run in chosen}, key=lambda name: _size(chosen, name)):
        own = [run for run in chosen if run.instance == name]
        cells = {solver: [run for run in own if run.solver == solver] for solver in solvers}
        times = {solver: _median(runs) for solver, runs in cells.items()}
        best = min((time for time in times.values() if not math.isnan(time)), default=math.nan)
        shown = [_cell(cells[solver], times[solver], best) for solver in solvers]
        rows.append((name, str(own[0].n), *shown))
    head = ("instance", "n", *(f"`{name}`" for name in solvers))
    return f"Tolerance {power(finest)}; seconds:\n\n{_table(head, rows)}"


def _cell(runs: list[RunRecord], seconds: float, best: float) -> str:
    if not runs:
        return ""
    if math.isnan(seconds):
        word = verdict(runs[0])
        return "–" if word == "refused" else VERDICTS[word].label if word in VERDICTS else word
    return f"**{_seconds(seconds)}**" if seconds == best else _seconds(seconds)


def _exactness(comparison: Comparison) -> str:
    """How far certified optima are from the known optimal values, by solver and tolerance.

    A stationary end is no optimum, and a proof that there is none has no gap.
    """
    tols = sorted({run.tol for run in comparison.runs}, reverse=True)
    rows = []
    for name in _solvers(comparison):
        row = [f"`{name}`"]
        for tol in tols:
            at = [run for run in comparison.runs if (run.solver, run.tol) == (name, tol)]
            own = [run for run in at if run.success and run.outcome == "optimal"]
            gaps = [run.gap for run in own if math.isfinite(run.gap)]
            errors = [run.reference_error for run in own if math.isfinite(run.reference_error)]
            row += [f"{max(gaps):.0e}" if gaps else "–", f"{max(errors):.0e}" if errors else "–"]
        rows.append(row)
    head = [w for tol in tols for w in (f"largest gap, tol {power(tol)}", "largest error")]
    return _table(["solver", *head], rows)


def _machine(comparison: Comparison) -> str:
    """Where and how the runs were made."""
    words = {key: value for key, value in comparison.environment.items() if key != "command"}
    made = ", ".join(f"{key} {value}" for key, value in words.items()) or "not recorded"
    command = comparison.environment.get("command", "")
    return f"{made}." + (f"\n\n```sh\n{command}\n```" if command else "")


BLOCKS: Mapping[str, Callable[[Comparison], str]] = {
    "summary": _summary,
    "readme": _readme,
    "kinds": _kinds,
    "instances": _instances,
    "exactness": _exactness,
    "machine": _machine,
}


# -- cells ----------------------------------------------------------------------------------------


def _by_tol(tiers: Iterable[Tier]) -> dict[float, list[Tier]]:
    """Tolerance → tiers, loosest tolerance first, the most successful solver first."""
    out: dict[float, list[Tier]] = {}
    for tier in sorted(tiers, key=lambda t: (-t.tol, -t.success_rate, t.mean_time)):
        out.setdefault(tier.tol, []).append(tier)
    return out


def _solvers(comparison: Comparison) -> list[str]:
    """Solvers by success and mean time at the finest tolerance."""
    (tiers,) = _by_tol(comparison.finest).values()
    return [tier.solver for tier in tiers]


def _size(runs: Iterable[RunRecord], name: str) -> tuple[str, int, str]:
    first = next(run for run in runs if run.instance == name)
    return (first.kind, first.n, name)


def _median(runs: Iterable[RunRecord]) -> float:
    times = [run.total for run in runs if run.success]
    return statistics.median(times) if times else math.nan


def _seconds(value: float) -> str:
    """Three figures at most, never an exponent for what is read as a time.

    >>> [_seconds(x) for x in (0.01234, 1.0, 98.7654, 1234.5)]
    ['0.012', '1.0', '99', '1234']
    """
    if math.isnan(value):
        return "–"
    places = 3 if value < 0.1 else 2 if value < 1 else 1 if value < 10 else 0
    return f"{value:.{places}f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are set to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)


def _escaped(cell: str) -> str:
    """Text, whatever it says: no cell ends early, and no link or tag begins in it."""
    cell = one_line(cell, 1000)
    for mark, written in (("|", "\\|"), ("<", "&lt;"), ("[", "\\["), ("]", "\\]")):
        cell = cell.replace(mark, written)
    return cell
