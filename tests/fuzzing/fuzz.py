"""Attack the certificate with programs whose answer is known: `python tests/fuzzing`.

Each run draws a planted program and one attack:

    statuses    solve it, as a program, an SDPA file or a cvxpy model (`fuzzing.routes`), and
                compare status, objective and safe bound with the truth
    theorems    perturb exact multipliers, at scales up to 2^±1000, and compare what `verify()`
                proves with the exact optimum
    garbage     certify and verify numbers that are no answer
    files       load a saved program after some of its bytes were changed

A run is *wrong* if a status contradicts the truth, a bound cuts the optimum off, a theorem is
false, or an exception is not one of sdpkit's. `optimal` may be off by 3·tol·max(1, |optimum|) in
the user's units; where the program has no interior on one side, an answer that is off by more must
carry a warning. Wrong runs are printed with the argument of `--replay` that repeats them.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from fuzzing.planted import KINDS, Planted, Rng, rescaled, solvable
from fuzzing.planted_values import ALL_KINDS
from fuzzing.routes import ROUTES, ROUTES_OF, TOL, Reply
from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.certify import certify
from sdpkit.certificate.rigor import Verification
from sdpkit.errors import SdpkitError
from sdpkit.program.form import Program
from sdpkit.solution.solution import Status

# How often each solver is asked; the slow ones less often.
SOLVERS = {"interior": 0.4, "auto": 0.25, "clarabel": 0.15, "lowrank": 0.12, "projection": 0.08}
# An optimum below this share of `Program.value_scale` is small compared with its terms.
SMALL = 1e-3


@dataclass(frozen=True)
class Choice:
    """Which solvers are asked, which kinds of programs they solve, and how they get them.

    solvers: names; kinds: of `planted_values.ALL_KINDS`; routes: of `routes.ROUTES`. Empty for
        all, drawn with the shares that are given there.
    """

    solvers: Sequence[str] = ()
    kinds: Sequence[str] = ()
    routes: Sequence[str] = ()

    def draw(self, rng: Rng) -> tuple[str, str, str]:
        """(kind, route, solver); the state of `rng` after that does not depend on the choice."""
        chances = rng.random(3)
        routes = _shares(ROUTES, self.routes)
        if importlib.util.find_spec("cvxpy") is None:
            routes = {name: share for name, share in routes.items() if name in ("program", "sdpa")}
        possible = {
            kind: share
            for kind, share in _shares(ALL_KINDS, self.kinds).items()
            if set(routes) & set(ROUTES_OF.get(kind, routes))
        }
        kind = _pick(possible, chances[0])
        allowed = ROUTES_OF.get(kind, tuple(routes))
        route = _pick({r: share for r, share in routes.items() if r in allowed}, chances[1])
        solvers = dict.fromkeys(self.solvers, 1.0) or SOLVERS
        return kind, route, "CLARABEL" if route == "certify" else _pick(solvers, chances[2])


def _shares(table: Mapping[str, tuple[object, float]], names: Sequence[str]) -> dict[str, float]:
    return {name: share for name, (_, share) in table.items() if not names or name in names}


def _pick(shares: Mapping[str, float], chance: float) -> str:
    names, ends = list(shares), np.cumsum(list(shares.values()))
    return names[min(int(np.searchsorted(ends, chance * ends[-1])), len(names) - 1)]


@dataclass
class Tally:
    """What was seen: counters of all outcomes and of those that are wrong, and their lines."""

    seen: Counter[tuple[str, ...]] = field(default_factory=Counter)
    failed: Counter[tuple[str, ...]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return self.seen.total()

    def share(self, size: str) -> tuple[int, int]:
        """(optimal, all) runs over strictly feasible programs with optima of this size."""
        mine = {what: n for what, n in self.seen.items() if what[-2:-1] == (size,)}
        return sum(n for what, n in mine.items() if what[-1] == "optimal"), sum(mine.values())

    def table(self, column: int) -> list[str]:
        """Runs, wrong ones and shares with the right status, by solver and the given column.

        0: for all programs, 1: by kind, 2: by route.
        """
        groups: dict[tuple[str, str], Counter[str]] = {}
        for what, n in self.seen.items():
            if what[0] == "statuses" and len(what) == 6:
                counts = groups.setdefault((what[column], what[3]), Counter())
                counts["runs"] += n
                counts["wrong"] += self.failed[what]
                counts[what[4]] += n
                counts[what[4] + " right"] += n * (what[5] == _right(what[4]))
        lines = []
        for names, counts in sorted(groups.items()):
            shares = "".join(
                f"{_percent(counts[f'{size} right'], counts[size]):>18}" for size in _SIZES
            )
            lines.append(
                f"{names[0]:<12}{names[1]:<12}{counts['runs']:6d}{counts['wrong']:7d}{shares}"
            )
        return [f"{'':<24}{'runs':>6}{'wrong':>7}" + "".join(f"{s:>18}" for s in _SIZES), *lines]

    def __str__(self) -> str:
        lines = []
        if any(what[0] == "statuses" for what in self.seen):
            lines += ["Shares that end with the right status, by the size of the optimum:"]
            lines += [*self.table(1), "", *self.table(2), "", *self.table(0), ""]
            lines += [f"{size}: {_percent(*self.share(size))} optimal" for size in _SIZES[:2]]
        lines += [
            f"{n:7d}  {'  '.join(what)}"
            for what, n in sorted(self.seen.items())
            if what[0] != "statuses" or len(what) != 6
        ]
        verdict = f"{self.runs} runs, {self.failed.total()} wrong"
        return "\n".join([*lines, *self.wrong, verdict])


# Optima of programs with an interior on both sides, compared with `SMALL` times the value scale;
# programs where one side may have none; programs without an optimum.
_SIZES = ("large optimum", "small optimum", "no interior", "infeasible", "unbounded")


def _right(size: str) -> str:
    return size if size in ("infeasible", "unbounded") else "optimal"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % of {whole}" if whole else "-"


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
        attempt(tally, names[number % len(names)], seed, number, choice)
        number += 1
    return tally


def attempt(tally: Tally, attack: str, seed: int, number: int, choice: Choice) -> None:
    """One run, entered in the tally."""
    rng = np.random.default_rng([seed, number])
    drawn = choice.draw(np.random.default_rng([seed, number])) if attack == "statuses" else ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, complaints = ATTACKS[attack](rng, choice)
    except SdpkitError as error:
        outcome, complaints = (*drawn[:2], type(error).__name__), []
    except Exception as error:
        outcome = (*drawn, "exception")
        complaints = [f"{type(error).__name__}: {error}"]
    what = (attack, *outcome)
    tally.seen[what] += 1
    tally.failed[what] += bool(complaints)
    where = ":".join([attack, *drawn, str(seed), str(number)])
    tally.wrong += [f"--replay {where}   {complaint}" for complaint in complaints]


def replay(line: str) -> Tally:
    """Repeat a wrong run from the words behind `--replay`, and print what was drawn and told."""
    attack, *drawn, seed, number = line.split(":")
    choice = Choice()
    if drawn:
        kind, route, solver = drawn
        choice = Choice([solver], [kind], [route])
        rng = np.random.default_rng([int(seed), int(number)])
        choice.draw(rng)
        reply = told(rng, kind, route, solver)
        truth = reply.planted
        print(truth.program)
        print(f"in truth {truth.status}, optimum {_value(truth)}; told {reply.status}")
        print(f"objective {reply.objective}, value_scale {truth.program.value_scale:.6g}")
        print(reply.certificate)
    tally = Tally()
    attempt(tally, attack, int(seed), int(number), choice)
    return tally


Outcome = tuple[tuple[str, ...], list[str]]


def statuses(rng: Rng, choice: Choice) -> Outcome:
    """Solve a planted program and compare."""
    kind, route, solver = choice.draw(rng)
    reply = told(rng, kind, route, solver)
    return (kind, route, solver, _size(reply.planted), reply.status), complaints(reply)


def told(rng: Rng, kind: str, route: str, solver: str) -> Reply:
    """Draw a program of this kind, solve it on this route."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        planted = ALL_KINDS[kind][0](rng)
        return ROUTES[route][0](planted, solver, rng)


def _size(planted: Planted) -> str:
    if planted.optimum is None:
        return str(planted.status)
    if not planted.strong:
        return "no interior"
    large = abs(planted.optimum) >= Fraction(SMALL * planted.program.value_scale)
    return "large optimum" if large else "small optimum"


def _value(planted: Planted) -> float | None:
    return None if planted.optimum is None else float(planted.optimum)


def complaints(reply: Reply) -> list[str]:
    """Where a reply contradicts the truth."""
    planted, status = reply.planted, reply.status
    out = contradictions(planted.status, status, planted.strong, reply.warned)
    if planted.optimum is None:
        return out
    if status == "optimal" and planted.status is Status.OPTIMAL:
        assert reply.objective is not None
        off = is_off(reply.objective, planted.optimum, _least_unit(planted))
        if off and (planted.strong or not reply.warned):
            words = "" if planted.strong else " without a warning"
            out.append(f"objective {reply.objective!r}, optimum {_value(planted)!r}{words}")
    if not (reply.own and planted.exact and reply.certificate is not None):
        return out
    out += false_bounds(reply.certificate, planted)
    return out + false_theorems(reply.certificate.verify(), planted)


def contradictions(truth: Status, status: str, strong: bool, warned: bool) -> list[str]:
    """A status that cannot be right; without an interior `optimal` may come with a warning."""
    if status == truth or status not in _CLAIMS:
        return []
    if status == "infeasible_or_unbounded" and truth is not Status.OPTIMAL:
        return []
    if not strong and status == "optimal" and warned:
        return []
    return [f"{status}, in truth {truth}"]


_CLAIMS = ("optimal", "infeasible", "unbounded", "infeasible_or_unbounded")


def is_off(objective: float, optimum: Fraction, least: float = 1.0) -> bool:
    """Whether an objective that is called optimal is farther off than three times tol."""
    return not abs(objective - float(optimum)) <= 3 * TOL * max(least, abs(float(optimum)))


def _least_unit(planted: Planted) -> float:
    """1; with a log det, which shifts with the unit of length, the size of the linear part."""
    program = planted.program
    if not program.has_log_det:
        return 1.0
    return max(1.0, abs(_value(planted) or 0.0) + abs(program.log_dets(planted.matrices)))


def false_bounds(certificate: Certificate, planted: Planted) -> list[str]:
    """A safe bound that cuts the exact optimum off.

    A bound of a program with a duality gap need not be near, but must be a bound.
    """
    bound, optimum = certificate.safe_bound, planted.optimum
    sign = int(planted.program.sign)
    if optimum is None or not np.isfinite(bound) or sign * (Fraction(bound) - optimum) >= 0:
        return []
    return [f"safe bound {bound!r}, optimum {float(optimum)!r}"]


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
    words = false_bounds(certificate, planted)
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
    words = false_bounds(certificate, planted) + false_theorems(certificate.verify(), planted)
    assert planted.optimum is not None
    if certificate.passes(TOL) and is_off(certificate.objective, planted.optimum):
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
    parser = argparse.ArgumentParser(prog="python tests/fuzzing", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--runs", type=int, help="stop after this many runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attacks", nargs="+", choices=list(ATTACKS), default=[])
    parser.add_argument("--solvers", nargs="+", default=[], help="default: " + ", ".join(SOLVERS))
    parser.add_argument("--kinds", nargs="+", choices=list(ALL_KINDS), default=[])
    parser.add_argument("--routes", nargs="+", choices=list(ROUTES), default=[])
    parser.add_argument("--replay", help="repeat one run, by the words printed with it")
    given = parser.parse_args(arguments)
    if given.minutes is None and given.runs is None:
        given.minutes = 1.0
    seconds = None if given.minutes is None else 60 * given.minutes
    choice = Choice(given.solvers, given.kinds, given.routes)
    if given.replay:
        tally = replay(given.replay)
    else:
        tally = fuzz(given.runs, seconds, given.seed, given.attacks, choice)
    print(tally)
    return 1 if tally.wrong else 0
