"""The SDPA sparse format (`.dat-s`), read into and written from programs in squared lengths.

A file states  max <F₀, Y>,  <F_k, Y> = c_k,  Y ⪰ 0  (and the LMI  min cᵀx, Σ x_k F_k ⪰ F₀  as
its dual). Every symmetric matrix is a combination of squared lengths: entry (i, i) is the
length of e_i, and 2Y_ij the length of e_i + e_j less those of e_i and e_j; with e_i − e_j the
signs change, and a Laplacian needs no diagonal at all. A matrix of rank one, F = a·vvᵀ, is one
measurement of v. A combination of squared lengths with coefficients of one sign that must equal
zero fixes its vectors: Yv = 0 becomes a null direction of the block and the row disappears.

Diagonal blocks and blocks of size one are nonnegative auxiliary variables.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.files import one_line, read_text, reading, replace_text, require_memory
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost, dense
from sdpkit.program.form import Program
from sdpkit.program.safe import SafeBounds
from sdpkit.typing import Array, Indices

# How the first line of `write_sdpa` begins; the program's name follows.
_NOTE = re.compile(r'"sdpkit sense=(max|min) offset=(\S+)')
# A block up to this size may have indices that no entry names.
_SMALL = 1000
# Bytes of an entry of a diagonal block: costs, rows and what a solver keeps.
_LINEAR = 200.0
_PUNCTUATION = str.maketrans("{}(),", "     ")
_ENTRY_LETTERS = str.maketrans("{}(),Dd", "     ee")  # Fortran writes 1.0D+00


# -- reading --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SdpaContent:
    """The raw content: c (m,), block sizes (negative: diagonal), entries (k, 5)."""

    rhs: Array
    sizes: list[int]
    entries: Array
    sense: str
    offset: float


def read_sdpa(path: str | Path) -> Program:
    """Read a `.dat-s` file as a `Program` whose optimal value is SDPA's.

    Row e of the program is constraint e of the file, except that rows which only fix null
    directions (see `sdpkit.program.sdpa`) are gone.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Program
        The program.

    Raises
    ------
    InputError
        If the file is missing or malformed; the message names the line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tiny.dat-s"
    >>> _ = path.write_text("2\\n1\\n2\\n1.0 1.0\\n0 1 1 2 1.0\\n1 1 1 1 1\\n2 1 2 2 1\\n")
    >>> print(read_sdpa(path))                     # max 2 Y₁₂, Y₁₁ = Y₂₂ = 1
    tiny
      maximise    <C, Y1>,  C = sparse (2 nonzeros)
      subject to  A_q q = b  (2 constraints),  q_p = v_pᵀ Y1 v_p  (2 measurements)
                  Y1 ∈ S², Y1 ⪰ 0
    """
    return read_with_origin(path)[0]


@dataclass(frozen=True, eq=False)
class Origin:
    """Where the parts of a program stand in its file.

    Attributes
    ----------
    rows: (m,) the constraint of the file that each row is, counted from 0, of `n_rows`
    columns: (n_x,) the nonnegative variable of the file that each auxiliary variable is, counted
        through all diagonal blocks, of `n_columns`
    halves: (n_x,) the variable that is subtracted from it where it is free, −1 elsewhere
    has_first: whether the first variable of the file is the program's 1 × 1 block
    """

    rows: Indices
    n_rows: int
    columns: Indices
    n_columns: int
    halves: Indices
    has_first: bool


def read_with_origin(path: str | Path) -> tuple[Program, Origin]:
    """The same program, and where its parts stand in the file."""
    path = Path(path)
    with reading(path, "in SDPA sparse format"):
        return _program(_parse(path), one_line(path.name.removesuffix(".dat-s")))


def _program(content: SdpaContent, name: str) -> tuple[Program, Origin]:
    dense = [k for k, size in enumerate(content.sizes) if size > 1]
    has_first = not dense
    if not dense:
        # A linear program: its first variable becomes a 1 × 1 semidefinite block.
        content = _first_variable_as_block(content)
        dense = [0]
    blocks = {k: BlockReader(k, content) for k in dense}
    linear = _LinearReader(content)
    null_rows = _null_rows(content, blocks, linear)
    kept = np.array([e for e in range(content.rhs.size) if e not in null_rows], dtype=np.int64)
    rows_q = sp.hstack([reader.rows() for reader in blocks.values()], format="csr")
    columns, halves = _join_halves(linear.rows, linear.cost)
    sign = 1.0 if content.sense == "max" else -1.0
    n_columns = linear.cost.size
    origin = Origin(kept, content.rhs.size, columns, n_columns, halves, has_first)
    program = Program.of(
        [reader.block(null_rows, sign) for reader in blocks.values()],
        content.rhs[kept],
        sense="max" if content.sense == "max" else "min",
        rows_q=rows_q[kept],
        rows_x=linear.rows[kept][:, columns],
        cost_x=sign * linear.cost[columns],
        free_x=halves >= 0,
        offset=content.offset,
        name=name,
        safe=SafeBounds(),
    )
    return program, origin


def _parse(path: Path) -> SdpaContent:
    # Numbers are ASCII; comments may be in any encoding.
    lines = read_text(path, "in SDPA sparse format", errors="replace").splitlines()
    sense, offset = "max", 0.0
    start = 0
    while start < len(lines) and (not lines[start].strip() or lines[start].lstrip()[0] in '"*'):
        note = _NOTE.match(lines[start])
        if note and start == 0:
            sense, offset = note.group(1), float(note.group(2))
        start += 1
    try:
        if len(lines) < start + 2:
            raise ValueError("it ends before the numbers of constraints and of blocks")
        m, n_blocks = counted(lines[start]), counted(lines[start + 1])
        if m < 0 or n_blocks < 1:
            raise ValueError(f"it announces {m} constraints and {n_blocks} blocks")
        sizes, start = _take(lines, start + 2, n_blocks)
        rhs, start = _take(lines, start, m)
        words = " ".join(lines[start:]).translate(_ENTRY_LETTERS).split()
        entries = np.array(words, dtype=float).reshape(-1, 5)
    except (IndexError, ValueError) as error:
        raise InputError(f"{path} is not in SDPA sparse format: {one_line(error)}") from error
    if not all(size.is_integer() for size in sizes.tolist()):
        raise InputError(f"{path} has block sizes {one_line(sizes)}: pass whole numbers")
    content = SdpaContent(rhs, [int(s) for s in sizes], entries, sense, offset)
    _check(path, content)
    return content


def counted(line: str) -> int:
    """The number that a header line starts with; what follows is a remark."""
    found = re.search(r"[-+]?\d+", line)
    if found is None:
        raise ValueError(f"no number in {line!r}")
    return int(found.group())


def _take(lines: list[str], start: int, count: int) -> tuple[Array, int]:
    """`count` numbers from as many lines as it takes, and the line after them."""
    values: list[float] = []
    while len(values) < count or (count == 0 and start < len(lines) and not lines[start].strip()):
        if start >= len(lines):
            raise ValueError(f"the file ends after {len(values)} of {count} numbers")
        for word in lines[start].translate(_PUNCTUATION).split():
            number = _number(word)
            if number is None:
                break  # a remark fills the rest of the line
            values.append(number)
        start += 1
    if len(values) > count:
        raise ValueError(f"{len(values)} numbers where {count} were announced")
    return np.array(values), start


def _number(word: str) -> float | None:
    """The word as a number (Fortran's 1.0D+00 too); None if it is none."""
    try:
        return float(word.replace("D", "e").replace("d", "e"))
    except ValueError:
        return None


def _check(path: Path, content: SdpaContent) -> None:
    e = content.entries
    if not np.isfinite(e).all() or not np.isfinite(content.rhs).all():
        raise InputError(f"{path} contains NaN or infinite numbers")
    if 0 in content.sizes:
        raise InputError(f"{path} has a block of size 0")
    if np.any(e[:, :4] != np.round(e[:, :4])):
        odd = e[np.any(e[:, :4] != np.round(e[:, :4]), axis=1)][0].tolist()
        raise InputError(f"{path}: entry {odd} has an index that is not a whole number")
    _refuse_vast(path, content)
    extent = np.abs(np.array(content.sizes))
    bad = (e[:, 0] < 0) | (e[:, 0] > content.rhs.size) | (e[:, 1] < 1) | (e[:, 1] > extent.size)
    bad = bad | (e[:, 2:4].min(axis=1, initial=1) < 1)
    if not bad.any():
        bad = e[:, 2:4].max(axis=1, initial=1) > extent[e[:, 1].astype(int) - 1]
    if bad.any():
        raise InputError(f"{path}: entry {e[bad][0].tolist()} points outside of its matrix")
    diagonal = np.array(content.sizes)[e[:, 1].astype(int) - 1] < 0
    off = diagonal & (e[:, 2] != e[:, 3])
    if off.any():
        raise InputError(f"{path}: entry {e[off][0].tolist()} is off a diagonal block's diagonal")


def _refuse_vast(path: Path, content: SdpaContent) -> None:
    """Refuse sizes that the entries of the file do not bear out, before anything is allocated."""
    numbers, counts = np.unique(content.entries[:, 1], return_counts=True)
    entries = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    for number, size in enumerate(content.sizes, start=1):
        named = 2 * entries.get(float(number), 0)
        if abs(size) > max(_SMALL, named):
            raise InputError(
                f"{path}: block {number} has size {size}, and its entries name at most {named} of "
                "its rows; leave out rows that no entry names"
            )
    needed = sum(8.0 * size**2 if size > 0 else -_LINEAR * size for size in content.sizes)
    require_memory(needed, f"{path}: the matrices of blocks {one_line(content.sizes, 80)}")


def _first_variable_as_block(content: SdpaContent) -> SdpaContent:
    """Move variable (block 1, index 1) to a block of its own in front."""
    entries = content.entries.copy()
    entries[:, 1] += 1
    first = (entries[:, 1] == 2) & (entries[:, 2] == 1)
    entries[first, 1] = 1
    entries[~first & (entries[:, 1] == 2), 2:4] -= 1
    rest = abs(content.sizes[0]) - 1
    sizes = [1, -rest if rest else -1, *content.sizes[1:]]
    return SdpaContent(content.rhs, sizes, entries, content.sense, content.offset)


class BlockReader:
    """Collects the measurement vectors and rows of one dense block."""

    def __init__(self, index: int, content: SdpaContent) -> None:
        self.index, self.size, self.m = index, content.sizes[index], content.rhs.size
        part = content.entries[content.entries[:, 1] == index + 1]
        matrix = part[:, 0].astype(np.int64)
        i, j = part[:, 2].astype(np.int64) - 1, part[:, 3].astype(np.int64) - 1
        _refuse_both_triangles(matrix, i, j)
        upper = np.stack([np.minimum(i, j), np.maximum(i, j)], axis=1)
        order = np.argsort(matrix, kind="stable")
        matrix, upper, values = matrix[order], upper[order], part[order, 4]
        nonzero = values != 0
        matrix, upper, values = matrix[nonzero], upper[nonzero], values[nonzero]
        ends = np.searchsorted(matrix, np.arange(self.m + 2))
        self.cost = self._symmetric(upper[: ends[1]], values[: ends[1]])
        self.vectors: dict[tuple[tuple[int, float], ...], int] = {}
        self.coefficients: dict[int, dict[int, float]] = {}
        plus = self._majority(upper[ends[1] :], values[ends[1] :])
        places, numbers, ends = upper.tolist(), values.tolist(), ends.tolist()
        for e in range(1, self.m + 1):
            start, end = ends[e], ends[e + 1]
            if end == start + 1:
                self.coefficients[e - 1] = self._entry(places[start], numbers[start], plus)
            else:
                self.coefficients[e - 1] = self._row(upper[start:end], values[start:end], plus)

    def _symmetric(self, ij: Indices, values: Array) -> sp.csr_array:
        off = ij[:, 0] != ij[:, 1]
        rows = np.concatenate([ij[:, 0], ij[off, 1]])
        columns = np.concatenate([ij[:, 1], ij[off, 0]])
        data = np.concatenate([values, values[off]])
        return sp.csr_array((data, (rows, columns)), shape=(self.size, self.size))

    @staticmethod
    def _majority(ij: Indices, values: Array) -> dict[tuple[int, int], bool]:
        """For every off-diagonal place, whether e_i + e_j serves more rows than e_i − e_j."""
        votes: dict[tuple[int, int], int] = defaultdict(int)
        for (i, j), value in zip(ij.tolist(), values.tolist(), strict=True):
            if i != j:
                votes[i, j] += 1 if value > 0 else -1
        return {place: vote >= 0 for place, vote in votes.items()}

    def _entry(
        self, place: list[int], value: float, plus: dict[tuple[int, int], bool]
    ) -> dict[int, float]:
        """The same as `_row` for a matrix with one entry: most rows of some programs have one."""
        i, j = place
        if i == j:
            return {self._measurement(((i, 1.0),)): value}
        other = 1.0 if plus[i, j] else -1.0
        pair = self._measurement(((i, 1.0), (j, other)))
        ends = self._measurement(((i, 1.0),)), self._measurement(((j, 1.0),))
        return {pair: other * value, ends[0]: -other * value, ends[1]: -other * value}

    def _row(
        self, ij: Indices, values: Array, plus: dict[tuple[int, int], bool]
    ) -> dict[int, float]:
        """measurement → coefficient for one constraint matrix."""
        out: dict[int, float] = defaultdict(float)
        single = self._rank_one(ij, values)
        if single is not None:
            out[self._measurement(single[0])] = single[1]
            return dict(out)
        for (i, j), value in zip(ij.tolist(), values.tolist(), strict=True):
            if i == j:
                out[self._measurement(((i, 1.0),))] += value
                continue
            other = 1.0 if plus[i, j] else -1.0
            out[self._measurement(((i, 1.0), (j, other)))] += other * value
            out[self._measurement(((i, 1.0),))] -= other * value
            out[self._measurement(((j, 1.0),))] -= other * value
        return {p: a for p, a in out.items() if a != 0}

    def _rank_one(
        self, ij: Indices, values: Array
    ) -> tuple[tuple[tuple[int, float], ...], float] | None:
        """(v, a) with F = a·vvᵀ and the first entry of v equal to one, or None."""
        support = np.unique(ij)
        k = support.size
        if k == 0 or values.size != k * (k + 1) // 2:
            return None
        small = np.zeros((k, k))
        place = np.searchsorted(support, ij)
        small[place[:, 0], place[:, 1]] = values
        if small[0, 0] == 0:
            return None
        v = small[0] / small[0, 0]
        if not np.allclose(small, np.triu(small[0, 0] * np.outer(v, v)), rtol=1e-14, atol=0):
            return None
        pairs = zip(support.tolist(), v.tolist(), strict=True)
        return tuple((int(i), float(value)) for i, value in pairs), float(small[0, 0])

    def _measurement(self, vector: tuple[tuple[int, float], ...]) -> int:
        return self.vectors.setdefault(vector, len(self.vectors))

    def rows(self) -> sp.csr_array:
        """(m, p) coefficients."""
        found = list(self.coefficients.values())
        e = np.repeat(np.fromiter(self.coefficients, np.int64), [len(row) for row in found])
        p = np.fromiter((p for row in found for p in row), np.int64, e.size)
        a = np.fromiter((a for row in found for a in row.values()), np.float64, e.size)
        return sp.csr_array((a, (e, p)), shape=(self.m, len(self.vectors)))

    def block(self, null_rows: set[int], sign: float) -> Block:
        """The block, with the vectors of `null_rows` as null directions."""
        found = list(self.vectors)  # in the order of their numbers
        p = np.repeat(np.arange(len(found)), [len(vector) for vector in found])
        i = np.fromiter((i for vector in found for i, _ in vector), np.int64, p.size)
        v = np.fromiter((v for vector in found for _, v in vector), np.float64, p.size)
        vectors = sp.csr_array((v, (p, i)), shape=(len(found), self.size))
        null = sorted({p for e in null_rows for p in self.coefficients[e]})
        return Block.of(
            self.size,
            vectors,
            name=f"Y{self.index + 1}",
            cost=Cost.of(self.size, sparse=sign * self.cost),
            null=vectors[null].toarray().T,
        )


def _refuse_both_triangles(matrix: Indices, i: Indices, j: Indices) -> None:
    below = set(zip(matrix[i > j].tolist(), j[i > j].tolist(), i[i > j].tolist(), strict=True))
    above = set(zip(matrix[i < j].tolist(), i[i < j].tolist(), j[i < j].tolist(), strict=True))
    both = below & above
    if both:
        k, a, b = min(both)
        raise InputError(f"matrix {k} has entries both at ({a + 1}, {b + 1}) and below it")


class _LinearReader:
    """Collects the diagonal blocks: cost (n_x,) and rows (m, n_x)."""

    def __init__(self, content: SdpaContent) -> None:
        starts, total = {}, 0
        for k, size in enumerate(content.sizes):
            if size < 0 or (size == 1 and k > 0) or (size == 1 and not _is_lone(content)):
                starts[k], total = total, total + abs(size)
        e = content.entries
        mine = np.isin(e[:, 1].astype(int) - 1, list(starts))
        e = e[mine]
        first = np.array([starts.get(int(k) - 1, 0) for k in e[:, 1]], dtype=np.int64)
        column = first + e[:, 2].astype(np.int64) - 1
        shape = (content.rhs.size + 1, total)
        table = sp.csr_array((e[:, 4], (e[:, 0].astype(np.int64), column)), shape=shape)
        self.cost: Array = table[[0]].toarray().ravel()
        self.rows: sp.csr_array = sp.csr_array(table[1:])


def _join_halves(rows: sp.csr_array, cost: Array) -> tuple[Indices, Indices]:
    """(columns that are kept, the other half of each or −1): nonnegative columns (a, c) and
    (−a, −c) are one free variable.

    As two they have no interior dual; as one they cost no solver anything.
    """
    columns = sp.csc_array(rows)
    columns.sort_indices()
    unmatched: dict[bytes, list[int]] = defaultdict(list)
    other = np.full(cost.size, -1, dtype=np.int64)
    dropped = np.zeros(cost.size, dtype=bool)
    for j in range(cost.size):
        part = slice(columns.indptr[j], columns.indptr[j + 1])
        where, values = columns.indices[part].tobytes(), columns.data[part]
        if not values.size:
            continue
        opposite = where + (-values).tobytes() + np.float64(-cost[j] + 0.0).tobytes()
        if unmatched[opposite]:
            other[unmatched[opposite].pop()], dropped[j] = j, True
        else:
            mine = where + values.tobytes() + np.float64(cost[j] + 0.0).tobytes()
            unmatched[mine].append(j)
    kept = np.flatnonzero(~dropped)
    return kept, other[kept]


def _is_lone(content: SdpaContent) -> bool:
    """Whether block 1 is the 1 × 1 block that stands in for a missing semidefinite one."""
    return content.sizes[0] == 1 and all(size <= 1 for size in content.sizes)


def _null_rows(
    content: SdpaContent, blocks: dict[int, BlockReader], linear: _LinearReader
) -> set[int]:
    """Rows Σ a_p q_p = 0 with all a_p of one sign and no auxiliary variable."""
    out = set()
    for e in np.flatnonzero(content.rhs == 0).tolist():
        values = [a for reader in blocks.values() for a in reader.coefficients[e].values()]
        alone = linear.rows.indptr[e] == linear.rows.indptr[e + 1]
        if values and alone and (min(values) > 0 or max(values) < 0):
            out.add(e)
    return out


# -- writing --------------------------------------------------------------------------------


@dataclass(eq=False)
class _Writer:
    lines: list[str] = field(default_factory=list)

    def entries(self, matrix: int, block: int, upper: sp.coo_array) -> None:
        triples = zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True)
        self.lines += [f"{matrix} {block} {i + 1} {j + 1} {v!r}" for i, j, v in triples if v]


def write_sdpa(program: Program, path: str | Path) -> None:
    """Write a program as `.dat-s`.

    The file's maximisation has the program's optimal value, negated for a minimisation (`read_sdpa`
    knows it by a comment). Inequalities get slack variables, free variables are split in two, null
    directions become rows vᵀYv = 0. Quadratic and norm penalties have no place in the format.

    Parameters
    ----------
    program : Program
        The program.
    path : str or path
        The file to write.

    Raises
    ------
    InputError
        If the program cannot be expressed in the format.

    Examples
    --------
    >>> import sdpkit, tempfile, os
    >>> program = sdpkit.MVU(sdpkit.datasets.swiss_roll(20), n_neighbors=4).program()
    >>> path = os.path.join(tempfile.mkdtemp(), "roll.dat-s")
    >>> write_sdpa(program, path)
    >>> read_sdpa(path).n_rows == program.n_rows
    True
    """
    if program.cones:
        raise InputError(
            "SDPA files hold no second-order cones; without_second_order_cones of "
            "sdpkit.program.arrow turns them into semidefinite blocks"
        )
    if not program.is_linear:
        raise InputError(
            "SDPA files hold no quadratic or norm penalties and no log det; use clarabel or scs"
        )
    blocks, linear = program.blocks, standard_columns(program)
    nulls = [(k, v) for k, block in enumerate(blocks) for v in block.null.T]
    m = program.n_rows + len(nulls)
    n_linear = linear.rows.shape[1]
    sizes = [block.size for block in blocks] + [-n_linear] * bool(n_linear)
    writer = _Writer(
        [
            f'"sdpkit sense={program.sense} offset={program.offset!r} {_plain(program.name)}',
            str(m),
            str(len(sizes)),
            " ".join(str(size) for size in sizes),
            " ".join(repr(float(b)) for b in [*program.rhs, *np.zeros(len(nulls))]),
        ]
    )
    _write_costs(writer, program, linear)
    _write_rows(writer, program, linear)
    for e, (k, v) in enumerate(nulls, program.n_rows + 1):
        support = np.flatnonzero(v)
        i, j = np.triu_indices(support.size)
        upper = sp.coo_array(
            (v[support[i]] * v[support[j]], (support[i], support[j])), shape=(v.size, v.size)
        )
        writer.entries(e, k + 1, upper)
    replace_text(path, "\n".join(writer.lines) + "\n")


def _plain(name: str) -> str:
    """A name that stays one comment, whoever reads the file."""
    return one_line(name, 80).replace('"', "'").encode("ascii", "replace").decode()


@dataclass(frozen=True, eq=False)
class Columns:
    """The auxiliary variables of a file, all nonnegative: slacks and halves included.

    `origin` and `sign` tell which variable of the program each column belongs to (−1: a slack).
    """

    rows: sp.csr_array
    cost: Array
    origin: Indices
    sign: Array

    def read(self, values: Array, n_auxiliary: int) -> Array:
        """The program's x from the file's nonnegative variables."""
        x = np.zeros(n_auxiliary)
        mine = self.origin >= 0
        np.add.at(x, self.origin[mine], self.sign[mine] * values[mine])
        return x


def standard_columns(program: Program) -> Columns:
    """Split free variables and add slacks to inequalities, for the maximisation."""
    free = np.flatnonzero(program.free_x)
    unequal = np.flatnonzero(program.relations)
    slack = sp.csr_array(
        (-program.relations[unequal].astype(float), (unequal, np.arange(unequal.size))),
        shape=(program.n_rows, unequal.size),
    )
    rows = sp.hstack([program.rows_x, -program.rows_x[:, free], slack], format="csr")
    cost = program.sign * program.cost_x
    return Columns(
        rows=sp.csr_array(rows),
        cost=np.concatenate([cost, -cost[free], np.zeros(unequal.size)]),
        origin=np.concatenate(
            [np.arange(program.n_auxiliary), free, np.full(unequal.size, -1)]
        ).astype(np.int64),
        sign=np.concatenate(
            [np.ones(program.n_auxiliary), -np.ones(free.size), np.zeros(unequal.size)]
        ),
    )


def _write_costs(writer: _Writer, program: Program, linear: Columns) -> None:
    for k, (block, g) in enumerate(zip(program.blocks, program.split(program.cost_q), strict=True)):
        cost = block.cost.dense() + dense(block.adjoint(g))
        writer.entries(0, k + 1, sp.coo_array(np.triu(program.sign * cost)))
    _write_diagonal(writer, 0, len(program.blocks) + 1, np.arange(linear.cost.size), linear.cost)


def _write_rows(writer: _Writer, program: Program, linear: Columns) -> None:
    starts = np.cumsum([0] + [block.size**2 for block in program.blocks])
    rows = program.matrix_rows
    for e in range(program.n_rows):
        part = slice(rows.indptr[e], rows.indptr[e + 1])
        column, value = rows.indices[part], rows.data[part]
        owner = np.searchsorted(starts, column, side="right") - 1
        for k in np.unique(owner):
            n = program.blocks[k].size
            i, j = np.divmod(column[owner == k] - starts[k], n)
            upper = i <= j
            entries = (value[owner == k][upper], (i[upper], j[upper]))
            writer.entries(e + 1, int(k) + 1, sp.coo_array(entries, shape=(n, n)))
        extra = slice(linear.rows.indptr[e], linear.rows.indptr[e + 1])
        _write_diagonal(
            writer,
            e + 1,
            len(program.blocks) + 1,
            linear.rows.indices[extra],
            linear.rows.data[extra],
        )


def _write_diagonal(
    writer: _Writer, matrix: int, block: int, where: NDArray[np.integer], values: Array
) -> None:
    pairs = zip(where.tolist(), values.tolist(), strict=True)
    writer.lines += [f"{matrix} {block} {i + 1} {i + 1} {v!r}" for i, v in pairs if v]
