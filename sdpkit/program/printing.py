"""Programs printed as mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sdpkit.program.block import Block

if TYPE_CHECKING:
    from sdpkit.program.form import Program

_SYMBOLS = {-1: "≤", 0: "=", 1: "≥"}


def describe(program: Program) -> str:
    """A program as mathematics, in a few lines."""
    terms = [f"<C, {b.name}>" for b in program.blocks if b.cost.magnitude()]
    terms += ["gᵀq"] * bool(program.cost_q.any()) + ["cᵀx"] * bool(program.cost_x.any())
    penalties = ["½Σhx²"] * bool(program.quadratic_x.any()) + ["ρ‖x_G‖"] * len(program.norms)
    objective = " + ".join(terms) or "0"
    for penalty in penalties:
        objective += (" − " if program.sense == "max" else " + ") + penalty
    for block in program.blocks:
        if block.log_det:
            weight = "" if block.log_det == 1 else f"{block.log_det:g} "
            objective += (" + " if program.sense == "max" else " − ") + weight
            objective += f"log det {block.name}"
    if program.has_log_det and objective.startswith("0 "):
        objective = objective[2:].removeprefix("+ ").replace("− ", "−", 1)
    costs = [f"C = {b.cost}" for b in program.blocks if b.cost.magnitude()]
    p = program.rows_q.shape[1]
    if program.family is not None:
        objective += f" + {program.family.weight:g}·{program.family.formula}"
    unknown = program.blocks[0].name if len(program.blocks) == 1 else "M"
    lines = [
        program.name,
        f"  {'maximise' if program.sense == 'max' else 'minimise'}    "
        + ",  ".join([objective, *costs[:3], *["…"] * (len(costs) > 3)]),
        "  subject to  "
        + "; ".join(
            f"A_q q{' + A_x x' if program.n_auxiliary else ''} {_SYMBOLS[k]} b"
            f"  ({counted(int(n), 'row')})"
            for k, n in zip(*np.unique(program.relations, return_counts=True), strict=True)
        )
        + f",  q_p = v_pᵀ {unknown} v_p  ({counted(p, 'measurement')})",
    ]
    if program.family is not None:
        lines[-1] = f"  over        {counted(program.family.n_rows, program.family.noun)}"
    for block in program.blocks[:6]:
        lines.append(f"              {cone_of(block)}")
    if len(program.blocks) > 6:
        lines.append(f"              … {len(program.blocks) - 6} more blocks")
    if program.n_auxiliary:
        n_free = int(program.free_x.sum())
        lines.append(f"              x: {program.n_auxiliary - n_free} nonnegative, {n_free} free")
    return "\n".join(lines)


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def cone_of(block: Block) -> str:
    size = str(block.size).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    text = f"{block.name} ∈ S{size}, {block.name} ⪰ 0"
    k = block.null.shape[1]
    if k == 1 and np.ptp(block.null) == 0:
        dot = "·" if block.name[-1:].isdigit() else ""
        return f"{text}, {block.name}{dot}1 = 0"
    return f"{text}, {block.name}N = 0 ({counted(k, 'direction')})" if k else text
