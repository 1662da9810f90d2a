"""A table or figure of a paper: how it is made, what it says, and how that was certified."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sdpkit.errors import InputError
from sdpkit.inputs import integer
from sdpkit.papers.pictures import Panel
from sdpkit.solution.solution import Solution, Status

_GOOD = (Status.OPTIMAL, Status.STATIONARY)


@dataclass(frozen=True)
class Certified:
    """How a number was certified: in words, whether it was, and the largest relative gap."""

    words: str = "no program"
    proven: bool = True
    gap: float | None = None

    @classmethod
    def of(cls, solution: Solution, remark: str = "") -> Certified:
        """The certificate of one solution."""
        gap = _gap(solution)
        words = "no bound" if gap is None else f"gap {gap:.1e}"
        words = f"{solution.status} by {solution.solver}, {words}{remark}"
        return cls(words, solution.status in _GOOD, gap)

    @classmethod
    def of_all(cls, solutions: Sequence[Solution]) -> Certified:
        """The worst of several."""
        if len(solutions) == 1:
            return cls.of(solutions[0])
        good = sum(solution.status in _GOOD for solution in solutions)
        gaps = [gap for gap in map(_gap, solutions) if gap is not None]
        gap = max(gaps) if gaps else None
        local = len(solutions) - len(gaps)
        words = f"{good} of {len(solutions)} certified"
        words += "" if gap is None else f", largest gap {gap:.1e}"
        words += f"; {local} local, of a given rank" if local else ""
        return cls(words, good == len(solutions), gap)


def _gap(solution: Solution) -> float | None:
    """The certified gap; None for a local solution of a given rank, whose bound is that of the
    convex problem without the limit."""
    gap = float(solution.certificate.relative_gap)
    limited = any(block.max_rank is not None for block in solution.program.blocks)
    return None if limited and solution.status is Status.STATIONARY else gap


NO_PROGRAM = Certified()


@dataclass(frozen=True)
class Row:
    """One number or claim of a paper: as published, as found here, whether they agree, the proof.

    `agrees` is None where the paper states nothing that could be compared.
    """

    what: str
    published: str
    ours: str
    agrees: bool | None
    certified: str
    proven: bool
    gap: float | None

    @classmethod
    def claim(
        cls, what: str, published: str, ours: str, holds: bool | None, proof: Certified = NO_PROGRAM
    ) -> Row:
        """A statement of the paper, and whether it holds here; not judged if the program behind it
        was not certified."""
        verdict = None if holds is None or not proof.proven else bool(holds)
        return cls(what, published, ours, verdict, proof.words, proof.proven, proof.gap)

    @classmethod
    def number(
        cls,
        what: str,
        published: float,
        ours: float,
        within: float,
        unit: str = "",
        proof: Certified = NO_PROGRAM,
        deviation: float | None = None,
    ) -> Row:
        """A number of the paper; it agrees if the two differ by `within` at most."""
        spread = "" if deviation is None else f" ± {deviation:.2f}"
        return cls.claim(
            what,
            f"{published:.4g}{unit}",
            f"{ours:.4g}{spread}{unit}",
            abs(published - ours) <= within,
            proof,
        )


@dataclass(frozen=True)
class Options:
    """What a reader may choose: a folder of data, sizes and repetitions other than the paper's,
    a smaller version that takes seconds, and a file for the picture."""

    data: Path | None = None
    points: int | None = None
    runs: int | None = None
    quick: bool = False
    picture: Path | None = None


@dataclass(frozen=True)
class Setting:
    """What an entry runs with: the folder of data or None, points and runs (0 where unused)."""

    data: Path | None
    points: int
    runs: int
    quick: bool


@dataclass(frozen=True)
class Entry:
    """A table or figure.

    Attributes
    ----------
    title, source: what it shows, and where it stands (docs/bibliography.md has the works)
    make: yields rows and panels of the picture
    assumed: what the paper does not say, or what replaces data that are not available
    points, runs: (quick, as published), None where an entry has no such number
    needs: data sets it cannot do without;  uses: sets it takes if there is a folder
    seconds: measured for the quick version on one core;  growth: the power of the points with
        which they grow
    differs: where the published numbers are not reached, why, and what was tried
    """

    title: str
    source: str
    make: Callable[[Setting], Iterator[Row | Panel]]
    assumed: tuple[str, ...]
    points: tuple[int, int] | None = None
    runs: tuple[int, int] | None = None
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    seconds: float = 5.0
    growth: float = 2.5
    differs: str = ""

    def setting(self, name: str, options: Options) -> Setting:
        """The options with the entry's own numbers where nothing was said; refuses unused ones."""
        for word in ("points", "runs"):
            given = getattr(options, word)
            if given is not None and getattr(self, word) is None:
                raise InputError(f"{name} does not use --{word}; {self._used()}")
            if given is not None:
                integer(given, f"--{word}")
        if options.data is not None and not self.needs + self.uses:
            raise InputError(f"{name} does not use --data; {self._used()}")
        if options.data is None and self.needs:
            files = ", ".join(f"{file}.npz" for file in self.needs)
            raise InputError(f"{name} needs {files}: pass their folder with --data FOLDER")
        full = not options.quick
        points = options.points or (self.points or (0, 0))[full]
        runs = options.runs or (self.runs or (0, 0))[full]
        return Setting(options.data, points, runs, options.quick)

    def _used(self) -> str:
        words = [f"--{word}" for word in ("points", "runs") if getattr(self, word) is not None]
        words += ["--data"] if self.needs + self.uses else []
        return f"it uses {', '.join(words)}" if words else "it has no such options"

    def forecast(self, quick: bool) -> float:
        """Seconds on one core, about."""
        if quick:
            return self.seconds
        points = 1.0 if self.points is None else self.points[1] / self.points[0]
        runs = 1.0 if self.runs is None else self.runs[1] / self.runs[0]
        return float(self.seconds * points**self.growth * runs)


@dataclass(frozen=True)
class Reproduction:
    """The rows of one table or figure, with everything that was chosen or assumed."""

    name: str
    title: str
    source: str
    rows: tuple[Row, ...]
    assumed: tuple[str, ...]
    differs: str
    picture: str
    seconds: float
    setting: dict[str, Any]

    @property
    def proven(self) -> bool:
        """Whether every program behind the rows was certified."""
        return all(row.proven for row in self.rows)

    @property
    def gap(self) -> float | None:
        """The largest certified gap, None without programs."""
        gaps = [row.gap for row in self.rows if row.gap is not None]
        return max(gaps) if gaps else None

    def __str__(self) -> str:
        words = {None: "", True: "agrees", False: "differs"}
        head = ("", "published", "ours", "", "certified")
        cells = [
            (row.what, row.published, row.ours, words[row.agrees], row.certified)
            for row in self.rows
        ]
        widths = [max(len(line[k]) for line in [head, *cells]) for k in range(len(head))]
        lines = [f"{self.title}  ({self.source})", ""]
        for line in [head, *cells]:
            lines.append("  ".join(word.ljust(w) for word, w in zip(line, widths, strict=True)))
        lines += ["", *(f"assumed: {words}" for words in self.assumed)]
        lines += [f"differs: {self.differs}"] * bool(self.differs)
        lines += [f"picture: {self.picture}"] * bool(self.picture)
        return "\n".join(line.rstrip() for line in lines)

    def to_json(self) -> str:
        """Everything as one JSON object."""
        return json.dumps({**asdict(self), "proven": self.proven}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Reproduction:
        """What `to_json` wrote."""
        data = json.loads(text)
        data.pop("proven")
        data["rows"] = tuple(Row(**row) for row in data["rows"])
        data["assumed"] = tuple(data["assumed"])
        return cls(**data)


def less(ours: float, other: float, form: str, unit: str = "") -> tuple[str, bool]:
    """Two numbers in words, and whether the first is less than the second.

    >>> less(2.0, 3.0, ".1f", " %")
    ('2.0 against 3.0 %', True)
    """
    return f"{ours:{form}} against {other:{form}}{unit}", ours < other


def more(ours: float, other: float, form: str, unit: str = "") -> tuple[str, bool]:
    """Two numbers in words, and whether the first is more than the second."""
    return less(ours, other, form, unit)[0], ours > other


def rises(values: Sequence[float]) -> tuple[str, bool]:
    """Numbers with commas between them, and whether each is more than the one before."""
    return listed(values), all(b > a for a, b in itertools.pairwise(values))


def listed(values: Iterable[float], digits: int = 3) -> str:
    """Numbers with commas between them.

    >>> listed([0.5, 0.25], 2)
    '0.50, 0.25'
    """
    return ", ".join(f"{value:.{digits}f}" for value in values)
