"""Programs as proofs state them, and answers in their coordinates.

A program in squared lengths has the constraint matrices Σ_p a_ep v_p v_pᵀ. They are multiplied out
in integers. A null direction v becomes the constraint <vvᵀ, M> = 0, after all others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.files import read_text, reading
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.gram import Gram, Matrix
from sdpkit.program.sdpa import Origin
from sdpkit.proof.canonical import hexadecimal, of_double, program_of
from sdpkit.typing import Array

# Entries of V that are multiplied out in pairs, all blocks together.
_LARGEST = 5_000_000
Place = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Approximation:
    """An answer in the coordinates of a statement, as good as floating point has it.

    Attributes
    ----------
    matrices: one (n, n) array per block, or None where there is no point
    x: (n_x,) variables, without slacks;  multipliers: (m,) of the maximisation, or None
    """

    matrices: list[Array] | None
    x: Array
    multipliers: Array | None


def refusal(program: Program) -> str:
    """Why a program is outside the scope of proof files; empty if it is not.

    >>> from sdpkit import Block
    >>> refusal(Program.of(Block.of(1, [[1.0]], log_det=1.0), [1.0]))
    'a program with a log det has no proof file'
    """
    if program.family is not None:
        return "a program with a family of constraints has no proof file"
    if program.has_log_det:
        return "a program with a log det has no proof file"
    if program.cones:
        return "a program with second-order cones has no proof file"
    if not program.is_linear:
        return "a program with quadratic or norm penalties has no proof file"
    if any(block.max_rank is not None for block in program.blocks):
        return "a program with a limit on the rank has no proof file"
    pairs = sum(_pairs(block) for block in program.blocks)
    if pairs > _LARGEST:
        return f"the program has {pairs:.2g} entries to multiply out; the limit is {_LARGEST:.2g}"
    return ""


def _pairs(block: Block) -> float:
    width = np.diff(block.incidence.indptr)
    if block.features is not None:
        return float(block.n_measurements) * block.size**2
    return float(np.square(width, dtype=float).sum()) + np.count_nonzero(block.null) * block.size


# -- statements -------------------------------------------------------------------------------


def statement_of_file(path: str | Path) -> dict[str, Any]:
    """The program of an SDPA file, its decimals read as the nearest doubles."""
    with reading(path, "in SDPA sparse format"):
        try:
            return program_of(read_text(path, "in SDPA sparse format", errors="replace"))
        except (KeyError, OverflowError) as error:
            raise InputError(f"{path} is not in SDPA sparse format: {error}") from error


def statement_of(program: Program) -> dict[str, Any]:
    """The program as the JSON of a proof states it.

    >>> from sdpkit import Block, Cost
    >>> block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=0.5))
    >>> statement_of(Program.of(block, [3.0], relations="<="))["entries"][2:4]
    [[1, 1, 1, 1, '0x1p+0'], [1, 1, 1, 2, '-0x1p+0']]
    """
    words = refusal(program)
    if words:
        raise InputError(words)
    exact: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for k, (block, span) in enumerate(zip(program.blocks, program.spans, strict=True), start=1):
        vectors = list(_vectors(block))
        for e, p, a in _triples(program.rows_q[:, span]):
            _add_square(exact, e + 1, k, [a], vectors[p])
        for p, g in enumerate(program.cost_q[span].tolist()):
            if g:
                _add_square(exact, 0, k, [g], vectors[p])
        _add_cost(exact, k, block.cost)
    nulls = [(k, v) for k, b in enumerate(program.blocks, start=1) for v in b.null.T if v.any()]
    for e, (k, v) in enumerate(nulls, start=program.n_rows + 1):
        _add_square(exact, e, k, [1.0], {i: [v[i]] for i in np.flatnonzero(v).tolist()})
    for e, j, a in _triples(program.rows_x):
        exact[e + 1, 0, j + 1, j + 1].append(_split(a))
    for j, c in enumerate(program.cost_x.tolist()):
        exact[0, 0, j + 1, j + 1].append(_split(c))
    entries = ((place, *_sum(terms)) for place, terms in sorted(exact.items()))
    relations = [{-1: "<", 0: "=", 1: ">"}[int(r)] for r in program.relations]
    return {
        "sense": program.sense,
        "constant": of_double(float(program.offset)),
        "blocks": [block.size for block in program.blocks],
        "variables": "".join("*" if free else "+" for free in program.free_x),
        "rows": "".join(relations) + "=" * len(nulls),
        "rhs": [of_double(float(b)) for b in program.rhs] + ["0x0p+0"] * len(nulls),
        "entries": [[*place, hexadecimal(v, power)] for place, v, power in entries if v],
    }


# A number is a list of factors, each a double; a product of integers and a power of two.
Factors = list[float]


def _split(*factors: float) -> tuple[int, int]:
    """(integer, power of two) of a product of doubles."""
    value, power = 1, 0
    for factor in factors:
        numerator, denominator = float(factor).as_integer_ratio()
        value, power = value * numerator, power + 1 - denominator.bit_length()
    return value, power


def _sum(terms: list[tuple[int, int]]) -> tuple[int, int]:
    least = min(power for _, power in terms)
    return sum(value << (power - least) for value, power in terms), least


def _triples(matrix: sp.csr_array) -> Iterator[tuple[int, int, float]]:
    entries = sp.coo_array(matrix)
    return zip(*(part.tolist() for part in (*entries.coords, entries.data)), strict=True)


def _vectors(block: Block) -> Iterator[dict[int, Any]]:
    """Per measurement its vector: places and lists of factors, or of sums of products."""
    b = block.incidence
    for p in range(b.shape[0]):
        part = slice(b.indptr[p], b.indptr[p + 1])
        nodes, values = b.indices[part].tolist(), b.data[part].tolist()
        if block.features is None:
            yield {i: [v] for i, v in zip(nodes, values, strict=True)}
            continue
        out = {}
        for i in range(block.size):
            pairs = zip(nodes, values, strict=True)
            terms = [_split(v, block.features[node, i]) for node, v in pairs]
            out[i] = _sum(terms) if terms else (0, 0)
        yield out


def _add_square(exact: Any, e: int, k: int, factors: Factors, vector: dict[int, Any]) -> None:
    """Row e + factors · vvᵀ."""
    a, a_power = _split(*factors)
    parts = [(i, *(v if isinstance(v, tuple) else _split(*v))) for i, v in vector.items()]
    for i, u, u_power in parts:
        for j, v, v_power in parts:
            if i <= j and u and v:
                exact[e, k, i + 1, j + 1].append((a * u * v, a_power + u_power + v_power))


def _add_cost(exact: Any, k: int, cost: Cost) -> None:
    for i, j, c in _triples(cost.sparse):
        if i <= j:
            exact[0, k, i + 1, j + 1].append(_split(c))
    if cost.identity:
        for i in range(cost.size):
            exact[0, k, i + 1, i + 1].append(_split(cost.identity))
    for weight, column in zip(cost.weights.tolist(), cost.factor.T, strict=True):
        places = np.flatnonzero(column).tolist()
        _add_square(exact, 0, k, [weight], {i: [float(column[i])] for i in places})


# -- answers ----------------------------------------------------------------------------------


def approximation(
    program: Program, matrices: Sequence[Matrix] | None, x: Array, w: Array | None
) -> Approximation:
    """An answer to a program, for `statement_of` the program; w of the maximisation."""
    nulls = sum(int(np.count_nonzero(block.null.any(axis=0))) for block in program.blocks)
    multipliers = None if w is None else np.r_[w, np.zeros(nulls)]
    return Approximation(_dense(matrices), x, multipliers)


def approximation_of_file(
    origin: Origin,
    statement: dict[str, Any],
    matrices: Sequence[Matrix] | None,
    x: Array,
    w: Array | None,
) -> Approximation:
    """The same for the file that the program was read from."""
    n = len(statement["variables"])
    full = np.zeros(n)
    given = _dense(matrices)
    shift = origin.has_first * (n - origin.n_columns)
    if given is not None:
        raw = np.zeros(n + 1)
        raw[origin.columns + shift] = np.where(origin.halves >= 0, np.maximum(x, 0.0), x)
        twice = origin.halves >= 0
        raw[origin.halves[twice] + shift] = np.maximum(-x[twice], 0.0)
        if origin.has_first:
            raw[0], given = float(given[0][0, 0]), given[1:]
        full = raw[:n]
    multipliers = None
    if w is not None:
        multipliers = np.zeros(origin.n_rows)
        multipliers[origin.rows] = w
    return Approximation(given, full, multipliers)


def _dense(matrices: Sequence[Matrix] | None) -> list[Array] | None:
    if matrices is None or any(isinstance(m, Gram) for m in matrices):
        return None
    return [(np.asarray(m) + np.asarray(m).T) / 2 for m in matrices]
