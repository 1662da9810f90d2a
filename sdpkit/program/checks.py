"""Checks of the parts of a program, alone and against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.inputs import (
    booleans,
    finite_array,
    finite_csr,
    finite_vector,
    instances,
    real_array,
    sparse_matrix,
)
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.typing import Array, Bools, Indices

if TYPE_CHECKING:
    from sdpkit.program.form import Program

RELATIONS = {"<=": -1, "==": 0, ">=": 1}


def check_sense(sense: str) -> None:
    """A program is maximised or minimised."""
    if sense not in ("max", "min"):
        raise InputError(f"sense is {sense!r}; use 'max' or 'min'")


def some_blocks(blocks: Block | Sequence[Block]) -> tuple[Block, ...]:
    """One block or more."""
    found = instances(blocks, Block, "blocks")
    if not found:
        raise InputError("a program needs at least one semidefinite block")
    return found


def right_side(rhs: ArrayLike) -> Array:
    """(m,) b, finite; a number is one entry."""
    b = np.atleast_1d(real_array(rhs, "rhs"))
    return finite_vector(b, b.size, "rhs")


def measurement_rows(rows_q: Any, n_measurements: int, n_rows: int) -> sp.csr_array:
    """A_q as given, or one row per measurement."""
    if rows_q is None and n_rows != n_measurements:
        raise InputError(
            f"rhs has {n_rows} entries for {n_measurements} measurements; without rows_q each "
            "measurement is one constraint"
        )
    given = sp.eye_array(n_rows, format="csr") if rows_q is None else rows_q
    return finite_csr(given, (n_rows, n_measurements), "rows_q")


def auxiliary(
    rows_x: Any, free_x: ArrayLike | None, quadratic_x: ArrayLike | None
) -> tuple[Any, Bools, Array]:
    """(rows_x, free_x, quadratic_x) of the auxiliary variables, none of them None but `rows_x`."""
    rows_x = None if rows_x is None else sparse_matrix(rows_x, "rows_x")
    n_x = 0 if rows_x is None else int(rows_x.shape[1])
    free = np.zeros(n_x, dtype=bool) if free_x is None else booleans(free_x, "free_x")
    if free.shape != (n_x,):
        raise InputError(f"free_x has shape {free.shape}, expected ({n_x},)")
    free.setflags(write=False)
    h = finite_vector(quadratic_x, n_x, "quadratic_x")
    if (h < 0).any():
        raise InputError(f"quadratic_x must be nonnegative; its smallest entry is {h.min():g}")
    return rows_x, free, h


def check_parts(program: Program) -> None:
    """The parts of a program fit each other."""
    check_norms(program)
    check_cones(program)
    check_safe(program)
    check_family(program)


def check_norms(program: Program) -> None:
    """Groups of norm penalties are disjoint sets of free variables."""
    seen: set[int] = set()
    for penalty in program.norms:
        group = set(penalty.group)
        if not 0 < penalty.weight < np.inf:
            raise InputError(f"a norm penalty needs a positive weight, not {penalty.weight}")
        if not group or seen & group or len(group) < len(penalty.group):
            raise InputError(
                "a norm penalty needs variables without repetitions that no other has, not "
                f"{penalty.group}"
            )
        if not all(0 <= j < program.n_auxiliary and program.free_x[j] for j in group):
            raise InputError("a norm penalty takes free auxiliary variables only")
        if program.quadratic_x[list(group)].any():
            raise InputError("a variable takes a quadratic or a norm penalty, not both")
        seen |= group


def check_cones(program: Program) -> None:
    """Second-order cones are disjoint sets of free variables without penalties."""
    members = program.cone_x.members if program.cones else np.zeros(0, dtype=np.int64)
    if not members.size:
        return
    outside = members[(members < 0) | (members >= program.n_auxiliary)]
    if outside.size:
        raise InputError(
            f"a second-order cone names variable {outside[0]}; the program has "
            f"{program.n_auxiliary} auxiliary variables, counted from 0"
        )
    if np.unique(members).size < members.size:
        raise InputError("a variable can be in one second-order cone, once")
    if not program.free_x[members].all():
        raise InputError("a second-order cone takes free auxiliary variables only; set free_x")
    penalised = program.quadratic_x > 0
    for penalty in program.norms:
        penalised[list(penalty.group)] = True
    if penalised[members].any():
        raise InputError("a variable in a second-order cone takes no penalty")


def check_safe(program: Program) -> None:
    """The offset and the safe bounds have their shapes and ranges."""
    if not np.isfinite(program.offset):
        raise InputError(f"offset is {program.offset}; it must be finite")
    if program.safe.value_scale is not None and not 0 <= program.safe.value_scale < np.inf:
        raise InputError(f"value_scale is {program.safe.value_scale}; it must be nonnegative")
    if program.safe.trace is not None and len(program.safe.trace) != len(program.blocks):
        raise InputError(f"safe.trace needs {len(program.blocks)} numbers, one per block")
    for name in ("direction", "anchor"):
        vector = getattr(program.safe, name)
        if vector is not None:
            finite_vector(vector, program.n_rows, f"safe.{name}")


def check_family(program: Program) -> None:
    """A family fits the blocks, and the program has nothing else but costs."""
    if program.family is None:
        return
    if program.sense != "min" or program.n_rows or program.n_auxiliary or program.has_log_det:
        raise InputError(
            "a program with a family is a minimisation without other constraints, auxiliary "
            "variables or log det"
        )
    named = program.family.block_of
    if named.max(initial=0) >= len(program.blocks):
        raise InputError(f"the family names more blocks than the {len(program.blocks)} there are")
    if named.min(initial=0) < 0:
        raise InputError("the family names a block with a negative number")
    n = program.family.n_points
    if named.shape != (n,):
        raise InputError(f"block_of has shape {named.shape}, expected ({n},)")
    for block in program.blocks:
        if block.incidence.shape[1] != program.family.n_points:
            raise InputError(
                f"block {block.name!r} has {block.incidence.shape[1]} nodes, the family "
                f"has {program.family.n_points} points"
            )


def signs_of(relations: str | ArrayLike, n_rows: int) -> NDArray[np.int8]:
    """(m,) −1 for ≤, 0 for =, +1 for ≥, from one relation for all rows or one per row."""
    if isinstance(relations, str):
        if relations not in RELATIONS:
            raise InputError(f"relations is {relations!r}; use one of {', '.join(RELATIONS)}")
        out = np.full(n_rows, RELATIONS[relations], dtype=np.int8)
    else:
        given = np.asarray(relations)
        if given.dtype.kind == "U" and np.isin(given, list(RELATIONS)).all():
            given = np.array([RELATIONS[str(word)] for word in given])
        elif given.dtype.kind not in "iufb":
            raise InputError(f"relations must hold −1, 0, 1 or {', '.join(RELATIONS)}")
        out = given.astype(np.int8)
        if not np.array_equal(out, given):
            raise InputError("relations must hold −1, 0 or 1")
    if out.shape != (n_rows,) or not np.isin(out, (-1, 0, 1)).all():
        raise InputError(f"relations must hold −1, 0 or 1 for each of the {n_rows} rows")
    out.setflags(write=False)
    return out


def cost_of(matrix: Any, n: int, name: str) -> Cost:
    """C in <C, M> from a dense or sparse symmetric matrix."""
    if not sp.issparse(matrix):
        matrix = finite_array(matrix, f"C in <C, {name}>")
    if matrix.shape != (n, n):
        raise InputError(f"<C, {name}>: C has shape {tuple(matrix.shape)}, and {name} has size {n}")
    return Cost.of(n, sparse=matrix)


def pairs_of(edges: ArrayLike, n: int, name: str) -> tuple[Indices, Indices]:
    """(i, j) of pairs of different nodes of an unknown."""
    pairs = np.asarray(edges)
    if pairs.size == 0:
        pairs = np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"edges have shape {pairs.shape} and type {pairs.dtype.name}: pass pairs of whole "
            "numbers, (m, 2)"
        )
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n):
        raise InputError(f"edges name nodes outside 0 … {n - 1}, the nodes of {name}")
    if np.any(pairs[:, 0] == pairs[:, 1]):
        raise InputError("an edge joins a node to itself: its length is 0 whatever the answer is")
    i, j = pairs.astype(np.int64).T
    return i, j
