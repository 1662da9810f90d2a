"""Attack the certificate with programs whose answer is known: `python -m sdpkit.testing.fuzz`.

Each run draws a program (`sdpkit.testing.planted`) and one attack:

    statuses    solve it and compare status, objective and safe bound with the truth
    theorems    perturb exact multipliers, at scales up to 2^±1000, and compare what `verify()`
                proves with the exact optimum
    garbage     certify and verify numbers that are no answer
    files       load a saved program after some of its bytes were changed

A run is *wrong* if a status contradicts the truth, a bound cuts the optimum off, a theorem is
false, or an exception is not one of sdpkit's. `optimal` may be off by five times tol.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from sdpkit.certificate.judge import certify
from sdpkit.certificate.rigor import Verification
from sdpkit.errors import SdpkitError
from sdpkit.program.form import Program
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.call import solve
from sdpkit.testing.planted import KINDS, Planted, Rng, rescaled, solvable

TOL = 1e-6
SOLVERS = ("interior", "auto", "projection", "lowrank")
# How often each kind is drawn.
_SHARES = [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]


@dataclass(frozen=True)
class Choice:
    """Which solvers are asked, and which kinds of programs they are asked to solve.

    kinds: names of `sdpkit.testing.planted.KINDS`; empty for all, four in ten of them solvable
    """

    solvers: Sequence[str] = SOLVERS
    kinds: Sequence[str] = ()

    def kind(self, rng: Rng) -> str:
        """One of the kinds."""
        if self.kinds:
            return str(rng.choice(list(self.kinds)))
        return str(rng.choice(list(KINDS), p=_SHARES))


@dataclass
class Tally:
    """What was seen: a counter of outcomes, and one line for each that is wrong."""

    seen: Counter[tuple[str, ...]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return self.seen.total()

    def __str__(self) -> str:
        lines = [f"{n:7d}  {'  '.join(what)}" for what, n in sorted(self.seen.items())]
        verdict = f"{self.runs} runs, {len(self.wrong)} wrong"
        return "\n".join([*lines, verdict, *self.wrong])


def fuzz(
    runs: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    attacks: Sequence[str] = (),
    choice: Choice | None = None,
) -> Tally:
    """Attack until `runs` or `seconds` are used up; every run can be repeated from its seed.

    >>> fuzz(runs=5, attacks=["theorems"]).wrong
    []
    """
    tally, started, number = Tally(), time.monotonic(), 0
    choice = choice or Choice()
    names = list(attacks or ATTACKS)
    while (runs is None or number < runs) and (
        seconds is None or time.monotonic() - started < seconds
    ):
        attack = names[number % len(names)]
        rng = np.random.default_rng([seed, number])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome, complaints = ATTACKS[attack](rng, choice)
        except SdpkitError as error:
            outcome, complaints = (type(error).__name__,), []
        except Exception as error:
            outcome = ("exception",)
            complaints = [f"{type(error).__name__}: {error}"]
        tally.seen[(attack, *outcome)] += 1
        where = f"attack {attack!r}, seed {seed}, run {number}"
        tally.wrong += [f"{where}: {complaint}" for complaint in complaints]
        number += 1
    return tally


Outcome = tuple[tuple[str, ...], list[str]]


def statuses(rng: Rng, choice: Choice) -> Outcome:
    """Solve a planted program and compare."""
    kind = choice.kind(rng)
    planted, scaled = KINDS[kind](rng), ""
    if kind == "solvable" and rng.random() < 0.4:
        planted, scaled = rescaled(planted, rng, 8), " scaled"
    solver = str(rng.choice(list(choice.solvers)))
    solution = solve(planted.program, solver=solver, tol=TOL, time_limit=20.0)
    return (kind + scaled, solver, str(solution.status)), [
        f"{kind}{scaled}, {solver}: {complaint}" for complaint in complaints(planted, solution)
    ]


def complaints(planted: Planted, solution: Solution) -> list[str]:
    """Where a solution contradicts the truth."""
    out = []
    certificate, sign = solution.certificate, int(planted.program.sign)
    claimed = solution.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
    if claimed and solution.status is not planted.status and planted.strong:
        out.append(f"{solution.status}, in truth {planted.status}")
    if solution.status is Status.UNBOUNDED and planted.status is not Status.UNBOUNDED:
        out.append(f"unbounded, in truth {planted.status}")
    if planted.optimum is None:
        return out
    bound = certificate.safe_bound
    # A bound of a program with a duality gap need not be near, but must be a bound.
    if np.isfinite(bound) and sign * (Fraction(bound) - planted.optimum) < 0:
        out.append(f"safe bound {bound!r}, optimum {float(planted.optimum)!r}")
    if solution.status is Status.OPTIMAL:
        scale = max(abs(float(planted.optimum)), certificate.program.value_floor)
        off = abs(solution.objective - float(planted.optimum))
        if off > 5 * TOL * scale and planted.strong:
            out.append(f"objective {solution.objective!r}, optimum {float(planted.optimum)!r}")
        if off > 5 * TOL * scale and not planted.strong and not certificate.warnings:
            out.append(f"objective {solution.objective!r} without a warning")
    return out + false_theorems(certificate.verify(), planted)


def false_theorems(verification: Verification, planted: Planted) -> list[str]:
    """Ends of an enclosure that the exact optimum contradicts."""
    optimum = planted.optimum
    if optimum is None:
        return []
    out = []
    for end, side in ((verification.lower, -1), (verification.upper, 1)):
        if end is not None and np.isfinite(end) and side * (Fraction(end) - optimum) < 0:
            out.append(f"a false theorem: {verification!r}, optimum {float(optimum)!r}")
    return out


def theorems(rng: Rng, choice: Choice) -> Outcome:
    """Perturb the exact optimal pair and let it be verified, linear programs at any scale."""
    kind = str(rng.choice(["solvable", "mixed", "log_det", "hinges"], p=[0.55, 0.25, 0.1, 0.1]))
    planted = KINDS[kind](rng)
    linear = kind in ("solvable", "mixed")
    span = int(rng.choice([0, 20, 150, 300, 480])) if linear else 0
    if span:
        planted = rescaled(planted, rng, span)
    assert planted.dual is not None
    size = 10.0 ** rng.uniform(-17, 1)
    dual = planted.dual * (1 + size * rng.standard_normal(planted.dual.size))
    if rng.random() < 0.5:
        noise = rng.standard_normal(dual.size) * np.abs(planted.dual).max(initial=1.0)
        dual = dual + size * noise
    matrices = [m + size * np.eye(len(m)) * np.abs(m).max(initial=0.0) for m in planted.matrices]
    certificate = certify(planted.program, matrices, planted.x, dual, planted.rows)
    verification = certificate.verify()
    words = []
    if np.isfinite(certificate.safe_bound) and planted.optimum is not None:
        sign = int(planted.program.sign)
        if sign * (Fraction(certificate.safe_bound) - planted.optimum) < 0:
            words.append(f"safe bound {certificate.safe_bound!r} of {float(planted.optimum)!r}")
    known = "verified" if verification else "nothing to say"
    return (kind, f"scales 2^±{span}", known), words + false_theorems(verification, planted)


def garbage(rng: Rng, choice: Choice) -> Outcome:
    """Numbers that are no answer must not pass, and must not crash."""
    planted = solvable(rng)
    if rng.random() < 0.5:
        planted = rescaled(planted, rng, int(rng.choice([20, 300, 480])))
    program = planted.program
    wild = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 5e-324, 0.0, -0.0, 1e17])

    def some(*shape: int) -> np.ndarray:
        values = rng.standard_normal(shape) * 10.0 ** rng.uniform(-20, 20)
        hit = rng.random(shape) < 0.2
        return np.asarray(np.where(hit, rng.choice(wild, shape), values))

    matrices = [some(b.size, b.size) for b in program.blocks]
    dual = some(program.n_rows) if rng.random() < 0.8 else None
    certificate = certify(program, matrices, some(program.n_auxiliary), dual)
    words = false_theorems(certificate.verify(), planted)
    sign, optimum = int(program.sign), planted.optimum
    bound = certificate.safe_bound
    if optimum is not None and np.isfinite(bound) and sign * (Fraction(bound) - optimum) < 0:
        words.append(f"safe bound {bound!r}, optimum {float(optimum)!r}")
    if certificate.passes(TOL) and optimum is not None:
        scale = max(abs(float(optimum)), certificate.program.value_floor)
        if not abs(certificate.objective - float(optimum)) <= 5 * TOL * scale:
            words.append(f"garbage passes with {certificate.objective!r}")
    return ("certified",), words


def files(rng: Rng, choice: Choice) -> Outcome:
    """Change some bytes of a saved program: it loads, or it is refused in our words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.npz"
        solvable(rng).program.save(path)
        data = bytearray(path.read_bytes())
        for place in rng.integers(0, len(data), int(rng.integers(1, 6))):
            data[place] = int(rng.integers(256))
        path.write_bytes(bytes(data))
        Program.load(path)
    return ("loaded",), []


ATTACKS: dict[str, Callable[[Rng, Choice], Outcome]] = {
    "statuses": statuses,
    "theorems": theorems,
    "garbage": garbage,
    "files": files,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m sdpkit.testing.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--runs", type=int, help="stop after this many runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attack", action="append", choices=list(ATTACKS), default=[])
    parser.add_argument("--solver", action="append", default=[])
    parser.add_argument("--kind", action="append", choices=list(KINDS), default=[])
    given = parser.parse_args(arguments)
    if given.minutes is None and given.runs is None:
        given.minutes = 1.0
    seconds = None if given.minutes is None else 60 * given.minutes
    choice = Choice(given.solver or SOLVERS, given.kind)
    tally = fuzz(given.runs, seconds, given.seed, given.attack, choice)
    print(tally)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
