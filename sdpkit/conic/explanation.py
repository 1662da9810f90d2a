"""What `sdpkit.explain` returns: why a model has no optimum, as data, text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sdpkit.certificate.rays import Ray
from sdpkit.certificate.rigor import Verification
from sdpkit.plotting.cards import card
from sdpkit.program.printing import counted
from sdpkit.solution.solution import Solution, Status
from sdpkit.solving.conflict import Conflict, Decision
from sdpkit.typing import Array

Kind = Literal["infeasible", "unbounded", "solvable", "undecided"]

# At most so many lines of constraints or variables are printed.
_MOST_LINES = 20
# Entries of a direction below this share of the largest do not run away.
_STILL = 1e-6
# At most so many characters of a constraint.
_MOST_CHARACTERS = 78


@dataclass(frozen=True, eq=False)
class Member:
    """A constraint of a conflict, or the domain of a variable, and how much it weighs.

    Attributes
    ----------
    name: its label in cvxpy, or its printed form; for problems of sdpkit the edge or the row
    weights: one per entry that takes part, in units of the largest of the conflict. For an equation
        with its sign; for a second-order cone its first multiplier, for a matrix the trace
    entries: the index of each of these entries; empty where the constraint takes part as a whole
    constraint: the cvxpy constraint or variable; None for problems of sdpkit and for the domain of
        the objective
    row: its place among the constraints of the cvxpy model, or among the rows of the program; None
        for domains
    """

    name: str
    weights: tuple[float, ...]
    entries: tuple[tuple[int, ...], ...] = ()
    constraint: Any = field(default=None, repr=False)
    row: int | None = None

    @property
    def weight(self) -> float:
        """The largest of the weights, without sign."""
        return max((abs(w) for w in self.weights), default=0.0)

    def lines(self) -> list[tuple[str, str]]:
        """(weight, text) for each entry."""
        place = "" if self.row is None or self.constraint is None else f"constraints[{self.row}]  "
        name = place + _shortened(self.name)
        if not self.entries:
            return [(f"{self.weights[0]:.4g}" if self.weights else "", name)]
        weights = self.weights or (np.nan,) * len(self.entries)
        return [
            (f"{w:.4g}" if np.isfinite(w) else "", f"{name}, entry {_index(entry)}")
            for w, entry in zip(weights, self.entries, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Runaway:
    """A variable of an unbounded model and the direction in which it may go without end.

    Attributes
    ----------
    name: the variable's name
    direction: in the variable's shape; the largest entry of all variables is 1 or −1
    variable: the cvxpy variable; None for problems of sdpkit
    """

    name: str
    direction: Array
    variable: Any = field(default=None, repr=False)

    def lines(self) -> list[tuple[str, str]]:
        """(step, text) for each entry that changes."""
        values = np.atleast_1d(self.direction)
        places = np.argwhere(np.abs(values) > 1e-6)
        scalar = np.ndim(self.direction) == 0
        return [
            (
                f"{values[tuple(place)]:+.4g}",
                self.name if scalar else f"{self.name}[{', '.join(map(str, place))}]",
            )
            for place in places
        ]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model is infeasible or unbounded.

    Attributes
    ----------
    kind : str
        "infeasible", "unbounded", "solvable" (there is nothing to explain) or "undecided".
    members : tuple of Member
        The constraints that contradict each other, of an infeasible model.
    runaways : tuple of Runaway
        The variables that go on without end, of an unbounded model.
    rate : float
        By how much the objective changes per step of the direction.
    misses : float
        By how much the weighted sum of the members contradicts itself: it reads 0 ≤ −misses.
    is_irreducible : bool
        Whether it was shown that without any one member the rest is feasible.
    ray : Ray or None
        The proof; `verify()` checks it.
    n_asked : int
        How many further programs were solved.
    message : str
        One sentence.

    Examples
    --------
    >>> import cvxpy, sdpkit
    >>> x = cvxpy.Variable(name="x", nonneg=True)
    >>> why = sdpkit.explain(cvxpy.Problem(cvxpy.Minimize(x), [x <= -1]))
    >>> why.kind
    'infeasible'
    """

    kind: Kind
    message: str
    members: tuple[Member, ...] = ()
    runaways: tuple[Runaway, ...] = ()
    rate: float = 0.0
    misses: float = 0.0
    is_irreducible: bool = False
    ray: Ray | None = field(default=None, repr=False)
    n_asked: int = 0

    @property
    def constraints(self) -> list[Any]:
        """The cvxpy constraints among the members."""
        return [m.constraint for m in self.members if hasattr(m.constraint, "dual_variables")]

    @property
    def variables(self) -> list[Any]:
        """The cvxpy variables that go on without end, or whose domains are among the members."""
        owners = [*(m.constraint for m in self.members), *(r.variable for r in self.runaways)]
        return [v for v in owners if v is not None and not hasattr(v, "dual_variables")]

    def verify(self) -> Verification:
        """Prove the ray with all rounding errors counted."""
        if self.ray is None:
            return Verification(None, "there is no ray to verify")
        return self.ray.verify()

    def _lines(self) -> list[tuple[str, str]]:
        parts: list[Member | Runaway] = [*self.members, *self.runaways]
        lines = [line for part in parts for line in part.lines()]
        more = len(lines) - _MOST_LINES
        return lines if more <= 0 else [*lines[:_MOST_LINES], ("", f"… {more} more")]

    @property
    def _head(self) -> tuple[str, str]:
        return ("step", "variable") if self.kind == "unbounded" else ("weight", "constraint")

    def __str__(self) -> str:
        lines = self._lines()
        if lines:
            lines = [self._head, *lines]
        width = max((len(left) for left, _ in lines), default=0)
        return "\n".join([self.message, *(f"  {left:>{width}}  {text}" for left, text in lines)])

    def __repr__(self) -> str:
        return f"<Explanation: {self}>"

    def _repr_html_(self) -> str:
        return card(self.message, self._lines(), self._head if self._lines() else ())


def conflict_message(n: int, misses: float, is_irreducible: bool, noun: str = "constraint") -> str:
    """What is said of n constraints that contradict each other."""
    if n == 1:
        words = f"infeasible: this {noun} cannot be met, even alone"
    else:
        words = f"infeasible: these {counted(n, noun)} contradict each other"
        words += (
            "; without any one of them the rest can be met"
            if is_irreducible
            else ("; whether all of them are needed is open")
        )
    return f"{words}. Their weighted sum reads 0 ≤ −{misses:.4g}" if misses > 0 else words


def _index(entry: tuple[int, ...]) -> str:
    return str(entry[0]) if len(entry) == 1 else str(entry)


def _shortened(text: str) -> str:
    """One line of a printed constraint."""
    line = " ".join(text.split())
    if len(line) <= _MOST_CHARACTERS:
        return line
    return f"{line[: _MOST_CHARACTERS - 20]} … {line[-17:]}"


# -- explanations -----------------------------------------------------------------------------


def nothing_to_explain(solution: Solution, is_feasible: bool | None) -> Explanation:
    """Of a model that has an optimum, or of which nothing is proven."""
    if solution.status in (Status.OPTIMAL, Status.STATIONARY):
        return Explanation("solvable", f"nothing to explain: {solution.message}")
    words = "it has a feasible point" if is_feasible else "no feasible point was found"
    return Explanation(
        "undecided",
        f"undecided: there is no proof that it is infeasible or unbounded; {words}; "
        f"{solution.message}",
    )


def explanation_of(
    members: tuple[Member, ...], conflict: Conflict, misses: float, proof: Decision
) -> Explanation:
    """Of constraints that contradict each other."""
    n = sum(max(1, len(member.entries)) for member in members)
    words = conflict_message(n, misses, conflict.is_irreducible)
    if np.isfinite(proof.size):
        words += (
            f" (shown for points of size up to {proof.size:.1e}; rounding hides what is beyond)"
        )
    return Explanation(
        "infeasible",
        words,
        members,
        misses=misses,
        is_irreducible=conflict.is_irreducible,
        ray=proof.ray,
        n_asked=conflict.n_asked,
    )


def moving(found: Sequence[tuple[Any, Any]]) -> tuple[Runaway, ...]:
    """The variables that move, of (variable or name, direction), in units of the largest entry."""
    size = max(float(np.abs(value).max(initial=0.0)) for _, value in found)
    return tuple(
        Runaway(
            owner if isinstance(owner, str) else owner.name(),
            np.where(np.abs(value) > _STILL * size, value, 0.0) / size,
            None if isinstance(owner, str) else owner,
        )
        for owner, value in found
        if np.abs(value).max(initial=0.0) > _STILL * size
    )


def explanation_of_direction(
    runaways: tuple[Runaway, ...], rate: float, solution: Solution
) -> Explanation:
    """Of an unbounded model, or one of which only the direction is known."""
    names = ", ".join(dict.fromkeys(runaway.name for runaway in runaways))
    words = f"the objective changes by {rate:+.4g} for each step of {names}, without end"
    if solution.status is Status.INFEASIBLE_OR_UNBOUNDED:
        words += "; no feasible point is known, so that the model may be infeasible as well"
    return Explanation(
        "unbounded", f"unbounded: {words}", runaways=runaways, rate=rate, ray=solution.ray
    )
