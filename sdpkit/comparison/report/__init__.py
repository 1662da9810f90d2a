"""The report of a comparison: one HTML file that needs nothing else, and tables in Markdown.

The page is three files beside this one (`page.html`, `page.css`, `page.js`), put together when a
report is written. Data stand in the page as JSON in which no `<` is left, and the script builds
every element by hand, so a solver's message is text whatever it says. A content security policy
names the hashes of the one script and the one style sheet: nothing else runs, nothing is loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdpkit.comparison.records import SHIFT_SECONDS, Described, RunRecord, numbers_or_null
from sdpkit.errors import InputError
from sdpkit.files import replace_text

if TYPE_CHECKING:
    from sdpkit.comparison.table import Comparison

__all__ = ["VERDICTS", "Verdict", "power", "verdict", "write_report"]


@dataclass(frozen=True)
class Verdict:
    """How a run is shown: a mark that needs no colour, a word, a tone, what the word means."""

    mark: str
    label: str
    tone: str
    means: str


# Tones: good, warn, bad, none.
VERDICTS: Mapping[str, Verdict] = {
    "certified": Verdict("✓", "certified", "good", "proven to the tolerance"),
    "lied": Verdict("!", "not as claimed", "bad", "the solver said done; the certificate did not"),
    "contradicted": Verdict(
        "≠", "contradicted", "bad", "another solver has proven that it cannot be"
    ),
    "inaccurate": Verdict("≈", "inaccurate", "warn", "an answer, not to the tolerance"),
    "infeasible_or_unbounded": Verdict(
        "⊘", "no optimum", "warn", "infeasible or unbounded, and not proven which"
    ),
    "time_limit": Verdict("◷", "time limit", "warn", "stopped by itself when its time was up"),
    "iteration_limit": Verdict("↻", "iteration limit", "warn", "stopped at its last iteration"),
    "timeout": Verdict("◷", "timeout", "bad", "ended from outside when its time was up"),
    "crashed": Verdict("✗", "crashed", "bad", "its process died"),
    "killed": Verdict("✗", "killed", "bad", "its process was killed"),
    "out_of_memory": Verdict("▣", "out of memory", "bad", "asked for more than it was given"),
    "error": Verdict("✗", "error", "bad", "raised an error"),
    "refused": Verdict("–", "not attempted", "none", "declined as beyond the solver"),
}


def verdict(run: RunRecord) -> str:
    """The word for how a run ended: a key of `VERDICTS`, or the granted status itself.

    A claim of success that the certificate denies is `lied`, whatever came of the run.
    """
    if run.success:
        return "certified"
    if run.outcome == "contradicted":
        return run.outcome
    return "lied" if run.claimed else run.outcome


def power(tol: float) -> str:
    """A tolerance as people write it.

    >>> power(1e-6), power(2.5e-4)
    ('1e-6', '2.5e-4')
    """
    mantissa, exponent = f"{tol:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def write_report(comparison: Comparison, path: str | Path) -> None:
    """Write the comparison as one self-contained HTML page.

    >>> import sdpkit
    >>> sdpkit.Comparison.load("runs.jsonl").report("report.html")      # doctest: +SKIP
    """
    if not comparison.runs:
        raise InputError("the comparison has no runs: there is nothing to report")
    style, script = _part("page.css"), _part("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    data = page_data(comparison)
    parts = {
        "policy": policy,
        "title": html.escape(data["title"]),
        "style": style,
        "script": script,
        "data": inline_json(data),
    }
    # One pass, so that a name in braces inside the data is left alone.
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))
    replace_text(path, page)


def inline_json(data: Any) -> str:
    """JSON that may stand inside a script element: no `<`, `>` or `&`, and null for NaN and ±∞.

    >>> inline_json({"message": "</script>", "gap": float("nan")})
    '{"message":"\\\\u003c/script\\\\u003e","gap":null}'
    """
    text = json.dumps(
        numbers_or_null(data), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_data(comparison: Comparison) -> dict[str, Any]:
    """All that the page shows."""
    runs = comparison.runs
    tols = sorted({run.tol for run in runs}, reverse=True)
    versions = {run.solver: run.solver_version for run in runs}
    summary = _summary(comparison)
    # By rank at the finest tolerance: the best solvers have the first colours.
    ranked = [row["solver"] for row in summary if row["tol"] == tols[-1]]
    known = {described.name: described for described in comparison.instances}
    first = {run.instance: run for run in reversed(runs)}
    environment = dict(comparison.environment)
    command = environment.pop("command", "") or _command(comparison)
    suites = sorted({run.suite for run in runs if run.suite})
    return {
        "title": f"Solvers compared: {', '.join(suites)}" if suites else "Solvers compared",
        "lede": _lede(comparison),
        "mean_words": (
            f"Seconds are shifted geometric means (shift {SHIFT_SECONDS:g} s) over the instances, "
            "from problem to certificate; an instance that was not certified counts at the time "
            "limit."
        ),
        "command": command,
        "environment": [[key.replace("_", " "), str(value)] for key, value in environment.items()],
        "verdicts": {name: asdict(value) for name, value in VERDICTS.items()},
        "tols": tols,
        "solvers": [
            {"name": name, "version": versions[name]}
            for name in dict.fromkeys([*ranked, *versions])
        ],
        "instances": [
            _instance(run, known.get(run.instance))
            for run in sorted(first.values(), key=lambda run: (run.kind, run.n, run.instance))
        ],
        "summary": summary,
        "fields": [field.name for field in fields(RunRecord) if field.name not in _LONG],
        "runs": [{**asdict(run), "verdict": verdict(run)} for run in runs],
    }


# Fields of a run that have no place in a table.
_LONG = ("history", "coordinates")


def _instance(run: RunRecord, described: Described | None) -> dict[str, Any]:
    about = described or Described(run.instance, kind=run.kind)
    facts = {name: getattr(run, name) for name in ("kind", "n", "n_rows", "fingerprint")}
    words = {name: getattr(about, name) for name in ("description", "source", "how")}
    reference = run.reference if math.isnan(about.reference) else about.reference
    return {"name": run.instance, **facts, **words, "reference": reference}


def _summary(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per tolerance and solver, the most successful first, then the fastest."""
    peaks: dict[tuple[str, float], float] = {}
    for run in comparison.runs:
        if math.isfinite(run.peak):
            at = (run.solver, run.tol)
            peaks[at] = max(peaks.get(at, 0.0), run.peak)
    tiers = sorted(comparison.summary(), key=lambda t: (-t.tol, -t.success_rate, t.mean_time))
    return [
        {
            "solver": tier.solver,
            "tol": tier.tol,
            "runs": tier.runs,
            "certified": tier.successes,
            "lied": tier.lied,
            "refused": tier.refused,
            "timeouts": tier.timeouts,
            "failed": tier.runs - tier.successes - tier.refused - tier.lied - tier.timeouts,
            "mean": tier.mean_time,
            "relative": tier.relative_time,
            "peak": peaks.get((tier.solver, tier.tol), math.nan),
        }
        for tier in tiers
    ]


def _lede(comparison: Comparison) -> list[str]:
    """A sentence or two; every second part is set in bold."""
    runs = comparison.runs
    best = min(comparison.finest, key=lambda tier: (-tier.success_rate, tier.mean_time))
    count = len({run.instance for run in runs})
    certified = f"{best.successes} of {best.runs}"
    return [
        f"{count} instances, {len({run.solver for run in runs})} solvers, every answer judged by a "
        "certificate that was recomputed from the returned numbers. To a tolerance of "
        f"{power(best.tol)}, ",
        best.solver,
        f" did best: {certified} runs certified, {best.mean_time:.3g} s on average.",
    ]


def _command(comparison: Comparison) -> str:
    """The command that would make such a comparison, where none was recorded."""
    suites = sorted({run.suite for run in comparison.runs if run.suite})
    names = list(dict.fromkeys(run.solver for run in comparison.runs))
    tols = sorted({run.tol for run in comparison.runs}, reverse=True)
    return (
        f"sdpkit compare --suite {' '.join(suites) or 'minimal'} --solvers {' '.join(names)} "
        f"--tols {' '.join(map(power, tols))} --html report.html"
    )


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
