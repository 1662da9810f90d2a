"""Constraint generation: families of comparisons for solvers that cannot search them.

A small family is written out. Of a large one a round solves with the comparisons found so far and
adds those that its answer violates, until what is left out weighs less than a tenth of the allowed
gap. The multipliers of a part bound the whole, so that the certificate needs no more than them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sdpkit.errors import InputError
from sdpkit.numerics.deadline import Abandoned
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.numerics.kernels import clock
from sdpkit.program.families import RowFamily, Rows, best_scale, values
from sdpkit.program.form import Program
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Solver
from sdpkit.solving.choice import WRITTEN_ROWS, refusal

# Comparisons this close to being violated, in units of the family, are added with those that are.
_SLACK = 0.1

# Has a solver solve a program within its limits.
Ask = Callable[[Program, Solver, Settings], Answer]


def by_rows(program: Program, solver: Solver, settings: Settings, ask: Ask) -> Answer:
    """Solve `program` by parts of its family; the answer's `rows` are the last part.

    `Abandoned` if the time is over before the first part is found.
    """
    family = program.family
    if family is None:
        raise InputError("constraint generation needs a program with a family of comparisons")
    started, rounds = clock(), 0
    with settings.deadline.applies():
        rows, last = _first_rows(program, family), None
    while True:
        answer = _solve_part(program, rows, solver, settings, ask)
        if answer.matrices is None and last is not None:
            # The last part's point and multipliers still bound the whole.
            answer = replace(last, stop=answer.stop, native_status=answer.native_status)
        rounds, last = rounds + 1, answer
        more = None
        if answer.matrices is not None and answer.stop is Stop.DONE and not is_interrupted():
            try:
                with settings.deadline.applies():
                    more = _left_out(program, family, rows, answer, settings.tol)
            except Abandoned:
                words = "the time was over while comparisons were searched"
                stop = Stop.INTERRUPTED if is_interrupted() else Stop.TIME_LIMIT
                answer = replace(answer, stop=stop, native_status=words)
        if more is None:
            rows = rows if answer.rows is None else answer.rows
            note = f"{rows.size} of {family.n_rows} {family.noun}s written, in {rounds} rounds"
            solve_time = clock() - started - answer.setup_time
            return replace(answer, notes=(*answer.notes, note), solve_time=solve_time)
        rows = more


def _first_rows(program: Program, family: RowFamily) -> Rows:
    if family.n_rows <= WRITTEN_ROWS:
        return family.everything()
    identities = [np.eye(block.size) for block in program.blocks]
    outputs = program.outputs(identities)
    costs = [b.cost.inner(m) for b, m in zip(program.blocks, identities, strict=True)]
    t = best_scale(family, outputs, sum(costs))
    return family.near([np.sqrt(t) * y for y in outputs], 0.0)


def _solve_part(
    program: Program, rows: Rows, solver: Solver, settings: Settings, ask: Ask
) -> Answer:
    if not rows.size:
        # Without comparisons the cost alone is least at zero.
        zeros = tuple(np.zeros((block.size, block.size)) for block in program.blocks)
        words = "no comparisons"
        return Answer(Stop.DONE, words, zeros, np.zeros(0), np.zeros(0), iterations=0, rows=rows)
    part = program.restricted(rows)
    refused = refusal(solver, part)
    if refused is not None:
        raise refused
    file = settings.checkpoint
    file = None if file is None else file.of_part(part.fingerprint)
    asked = replace(settings, warm_start=None, checkpoint=file)
    answer = ask(part, solver, asked)
    return replace(answer, rows=rows, x=np.zeros(0))


def _left_out(
    program: Program, family: RowFamily, rows: Rows, answer: Answer, tol: float
) -> Rows | None:
    """`rows` together with those that the answer violates; None if these weigh nothing."""
    assert answer.matrices is not None
    outputs = program.outputs(answer.matrices)
    new = np.setdiff1d(family.near(outputs, _SLACK * family.unit), rows, assume_unique=True)
    missing = float(np.maximum(values(family, family.terms(new), outputs), 0.0).sum())
    value = program.objective(answer.matrices, np.zeros(0))
    if family.weight * missing <= 0.1 * tol * max(abs(value), program.value_floor):
        return None
    return np.union1d(rows, new)
