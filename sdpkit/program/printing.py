"""Programs printed as mathematics: as they were written, or else by their form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sdpkit.program.block import Block

if TYPE_CHECKING:
    from sdpkit.program.form import Program

# What is printed of an expression: a sum of coefficient · name; the name of a number is "".
Words: TypeAlias = tuple[tuple[float, str], ...]

SYMBOLS = {-1: "≤", 0: "=", 1: "≥"}
# At most so many constraints, unknowns or variables are printed.
_MOST_LINES = 6


@dataclass(frozen=True)
class Wording:
    """How a program was written: objective, constraints and variables, for printing.

    Attributes
    ----------
    objective: without "maximise"
    rows: each constraint and how many rows it has; a constraint "" is not printed
    variables: auxiliary variables with the number of each and whether they are free; those of
        name "" are not printed
    sense: that of the model where the program is its dual, "" elsewhere
    lines: what is printed instead of `rows` where a constraint is a cone: texts and sizes
    shown: what is printed instead of `variables`
    n_blocks: how many blocks were written; the others are slacks or multipliers
    """

    objective: str
    rows: tuple[tuple[str, int], ...]
    variables: tuple[tuple[str, int, bool], ...] = ()
    sense: str = ""
    lines: tuple[tuple[str, str], ...] = ()
    shown: tuple[tuple[str, int, bool], ...] = ()
    n_blocks: int | None = None

    def fit(self, program: Program) -> bool:
        """Whether rows and variables are as many as the program's."""
        return (
            sum(count for _, count in self.rows) == program.n_rows
            and sum(count for _, count, _ in self.variables) == program.n_auxiliary
        )


def describe(program: Program) -> str:
    """A program as mathematics, in a few lines."""
    wording = program.wording
    if wording is not None and wording.fit(program):
        objective, rows, variables = (
            wording.objective,
            _few([f"{text}  {size}" for text, size in wording.lines], "constraints")
            or _written_rows(wording),
            _written_variables(wording),
        )
    else:
        objective, rows, variables = _objective(program), _rows(program), _variables(program)
    # A multiple of the identity is printed as tr M.
    apart = wording is None or not wording.fit(program)
    blocks = program.blocks if wording is None or apart else program.blocks[: wording.n_blocks]
    costs = [
        f"C = {b.cost}" for b in blocks if b.cost.magnitude() and (apart or not b.cost.is_identity)
    ]
    sense = program.sense if wording is None or apart else wording.sense or program.sense
    verb = "maximise" if sense == "max" else "minimise"
    if program.family is not None:
        objective = f"{objective} + {_hinges(program)}" if objective != "0" else _hinges(program)
        rows = [] if not program.n_rows else rows
    head = f"  {verb}    " + ",  ".join([objective, *costs[:3], *["…"] * (len(costs) > 3)])
    cones = [cone_of(block) for block in blocks]
    body = [*rows, *_few(cones, "blocks"), *variables]
    if program.family is not None:
        body.insert(0, counted(program.family.n_rows, program.family.noun))
    first = "over      " if program.family is not None else "subject to"
    lines = [f"  {first if not k else ' ' * 10}  {line}" for k, line in enumerate(body)]
    return "\n".join([program.name, head, *lines])


# -- as it was written -----------------------------------------------------------------------


def _written_rows(wording: Wording) -> list[str]:
    shown = [f"{text}  ({counted(count, 'constraint')})" for text, count in wording.rows if text]
    return _few(shown, "constraints")


def _written_variables(wording: Wording) -> list[str]:
    lines = []
    for free, end in ((False, " ≥ 0"), (True, " free")):
        given = wording.shown or wording.variables
        mine = [(v, count) for v, count, is_free in given if v and is_free is free]
        if mine:
            names = ", ".join(dict.fromkeys(name for name, _ in mine))
            counts = {count for _, count in mine}
            each = f"  ({counts.pop()} each)" if len(counts) == 1 and len(mine) > 1 else ""
            lines.append(f"{names}{end}{each or _total(mine)}")
    return lines


def _total(variables: list[tuple[str, int]]) -> str:
    total = sum(count for _, count in variables)
    return f"  ({total})" if total > 1 else ""


# -- expressions ----------------------------------------------------------------------------


def written(words: Iterable[tuple[float, str]]) -> str:
    """A sum of coefficient · name as mathematics; the name of a number is "".

    >>> written([(-1.0, "tr K"), (0.5, "t"), (-2.0, "")])
    '−tr K + 0.5 t − 2'
    """
    out = ""
    for c, body in words:
        if c == 0:
            continue
        size = f"{abs(c):g}"
        piece = size if not body else body if size == "1" else f"{size} {body}"
        if body.startswith("−") and size == "1":  # a name that begins with a sign
            piece = f"({body})"
        negative = c < 0
        if not out:
            out = f"−{piece}" if negative else piece
        else:
            out += f" − {piece}" if negative else f" + {piece}"
    return out or "0"


def sum_of_words(words: Words) -> Words:
    """The words with all numbers added up where the first of them stood."""
    number = sum(c for c, body in words if not body)
    out = [(c, body) for c, body in words if body]
    if number or not out:
        out.insert(next((k for k, (_, body) in enumerate(words) if not body), 0), (number, ""))
    return tuple(out)


def shortened(words: Words, most: int = 6) -> Words:
    """The words with "…" for all but the first three and the last, where there are too many."""
    return words if len(words) <= most else (*words[:3], (1.0, "…"), words[-1])


def factor_name(words: Words) -> str:
    """What is printed for a factor that has a name; "" for numbers."""
    if not any(body for _, body in words):
        return ""
    return written(words) if len(words) == 1 else f"({written(words)})"


def product_of_words(factor: str, words: Words) -> Words:
    """`factor` before a single name, or before several in parentheses."""
    if len(words) == 1 and words[0][1]:
        return ((words[0][0], f"{factor} {words[0][1]}"),)
    return ((1.0, f"{factor} ({written(words)})"),)


# -- by its form ----------------------------------------------------------------------------


def _objective(program: Program) -> str:
    terms = [f"<C, {b.name}>" for b in program.blocks if b.cost.magnitude()]
    terms += ["gᵀq"] * bool(program.cost_q.any()) + ["cᵀx"] * bool(program.cost_x.any())
    penalties = ["½Σhx²"] * bool(program.quadratic_x.any()) + ["ρ‖x_G‖"] * len(program.norms)
    words = [(1.0, term) for term in terms]
    words += [(-program.sign, penalty) for penalty in penalties]
    words += [
        (program.sign * block.log_det, f"log det {block.name}")
        for block in program.blocks
        if block.log_det
    ]
    return written(words)


def _rows(program: Program) -> list[str]:
    p = program.rows_q.shape[1]
    unknown = program.blocks[0].name if len(program.blocks) == 1 else "M"
    relations = zip(*np.unique(program.relations, return_counts=True), strict=True)
    left = "A_q q + A_x x" if program.n_auxiliary else "A_q q"
    rows = "; ".join(
        f"{left} {SYMBOLS[k]} b  ({counted(int(n), 'constraint')})" for k, n in relations
    )
    return [f"{rows},  q_p = v_pᵀ {unknown} v_p  ({counted(p, 'measurement')})"]


def _variables(program: Program) -> list[str]:
    if not program.n_auxiliary:
        return []
    n_nonnegative, n_free = int((~program.free_x).sum()), int(program.cone_x.lines.sum())
    kinds = [f"{n_nonnegative} nonnegative", f"{n_free} free"]
    if program.cones:
        members = program.cone_x.members.size
        kinds.append(f"{members} in {counted(len(program.cones), 'second-order cone')}")
    return [f"x: {', '.join(kinds)}"]


def _hinges(program: Program) -> str:
    assert program.family is not None
    return f"{program.family.weight:g}·{program.family.formula}"


def _few(lines: list[str], what: str) -> list[str]:
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[:_MOST_LINES], f"… {len(lines) - _MOST_LINES} more {what}"]


def counted(n: int, noun: str) -> str:
    """A number with its noun, in the plural where it has to be."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def superscript(text: str | int) -> str:
    """Digits as superscripts."""
    return str(text).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def cone_of(block: Block) -> str:
    """The cone of a block: its size, M ⪰ 0 and the null directions."""
    text = f"{block.name} ∈ S{superscript(block.size)}, {block.name} ⪰ 0"
    k = block.null.shape[1]
    if k == 1 and np.ptp(block.null) == 0:
        dot = "·" if block.name[-1:].isdigit() else ""
        return f"{text}, {block.name}{dot}1 = 0"
    return f"{text}, {block.name}N = 0 ({counted(k, 'direction')})" if k else text
