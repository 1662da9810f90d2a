"""What a comparison of solvers found: one row per run, and what the rows say together.

`sdpkit.compare` makes a `Comparison`; `Comparison.load` and `Comparison.from_csv` read one back.
A time counts only if the certificate granted what the solver was asked for: a run that did not
succeed stands in every mean at its time limit.

The shifted geometric mean of times t_1, …, t_n is  exp(mean log(t_i + s)) − s  with s = 1 second:
it weighs ratios, as a geometric mean does, but differences far below a second count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Seconds added before, and taken off after, the geometric mean.
SHIFT = 1.0


@dataclass(frozen=True)
class Described:
    """An instance in words, as a report needs it.

    `reference` is the optimal value (NaN if unknown), `how` says how it was obtained, and
    `expected` is the status that counts as success ("" for any that is certified).
    """

    name: str
    suite: str = ""
    kind: str = ""
    description: str = ""
    source: str = ""
    reference: float = float("nan")
    how: str = ""
    expected: str = ""


@dataclass(frozen=True)
class Run:
    """One row: a solver on an instance at a tolerance, in a process of its own.

    Attributes
    ----------
    kind: "mvu", "mve", "lmnn", …;  n: sizes of all blocks together;  n_rows: rows, or comparisons
    start: "cold" or "warm"
    outcome: the granted status, or "crashed", "killed", "out_of_memory", "timeout", "refused",
        "error"
    success: certified at `tol` to be what was expected;  claimed: its own words said it succeeded
    reference_error: |objective − reference| relative to the reference, NaN without one
    iterations: −1 if unknown
    compile, setup, solve, certify: seconds;  total: seconds by the clock, all in all
    peak: bytes above what the process held before it began
    history: per iteration, may be empty
    coordinates: points (x, y) of the embedding, 500 at most, or None
    """

    suite: str
    instance: str
    kind: str
    n: int
    n_rows: int
    fingerprint: str
    solver: str
    solver_version: str
    tol: float
    repeat: int
    start: str
    outcome: str
    success: bool
    claimed: bool
    message: str = ""
    native_status: str = ""
    objective: float = float("nan")
    bound: float = float("nan")
    gap: float = float("nan")
    primal_residual: float = float("nan")
    dual_residual: float = float("nan")
    reference: float = float("nan")
    reference_error: float = float("nan")
    iterations: int = -1
    compile: float = float("nan")
    setup: float = float("nan")
    solve: float = float("nan")
    certify: float = float("nan")
    total: float = float("nan")
    peak: float = float("nan")
    time_limit: float = float("inf")
    history: tuple[Mapping[str, float], ...] = ()
    coordinates: tuple[tuple[float, float], ...] | None = None


@dataclass(frozen=True)
class Tier:
    """What one solver did at one tolerance, over all instances or those of one kind.

    Attributes
    ----------
    kind: "" for all
    instances, runs: how many
    successes, refused, lied: runs that succeeded, were declined as beyond the solver, or claimed
        success that the certificate denied
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
    success_rate: float
    mean_time: float
    relative_time: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs, what they were about, and where they were made."""

    runs: tuple[Run, ...]
    environment: Mapping[str, str]
    instances: tuple[Described, ...]

    def table(self) -> str:
        """The runs as text, one line each."""
        raise NotImplementedError

    def to_csv(self, path: str | Path) -> None:
        """Write the runs; history and coordinates are left out."""
        raise NotImplementedError

    @classmethod
    def from_csv(cls, path: str | Path) -> Comparison:
        """Read what `to_csv` wrote."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read a file of `sdpkit.compare(…, path=…)`, finished or not."""
        raise NotImplementedError

    def summary(self, by_kind: bool = False) -> tuple[Tier, ...]:
        """Success rates and shifted geometric means per solver and tolerance."""
        raise NotImplementedError

    def plot(self, path: str | Path | None = None) -> Any:
        """Time against n, performance profile, gap against time. Needs matplotlib."""
        raise NotImplementedError

    def report(self, path: str | Path) -> None:
        """Write the report as one HTML file."""
        from sdpkit.report import write_report

        write_report(self, path)
