"""`bmat`: a matrix of affine functions from blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.program.expressions import Combination, Expression, Unknown
from sdpkit.program.matrices import MatrixExpression, matrix_of_numbers, words_of_numbers
from sdpkit.program.printing import written


def bmat(blocks: Sequence[Sequence[Any]]) -> MatrixExpression:
    """Assemble a matrix from blocks: matrices, unknowns, vectors, numbers or expressions.

    A vector stands as a column or as a row, as its neighbours leave room. The number 0 is a block
    of zeros of any shape.

    Parameters
    ----------
    blocks : sequence of sequence of object
        Rows of blocks.

    Returns
    -------
    MatrixExpression
        A symmetric matrix of expressions, for `>> 0`.

    Examples
    --------
    >>> from sdpkit import Variable, minimise, solve
    >>> t, x = Variable(name="t", free=True), Variable(2, "x", free=True)
    >>> program = minimise(t, bmat([[np.eye(2), x], [x, t]]) >> 0, x[0] + 2 * x[1] == 5)  # t ≥ ‖x‖²
    >>> print(program)
    program
      minimise    t
      subject to  [I, x; x, t] ⪰ 0  (3 × 3)
                  x[0] + 2 x[1] = 5  (1 constraint)
                  t, x free  (3)
    >>> round(solve(program).objective, 4)
    5.0
    """
    grid = [list(row) for row in blocks]
    if not grid or not grid[0] or any(len(row) != len(grid[0]) for row in grid):
        raise InputError("bmat takes rows of blocks, all with the same number of blocks")
    heights = [_known([_height(b) for b in row]) for row in grid]
    widths = [_known([_width(b) for b in column]) for column in zip(*grid, strict=True)]
    _settle_vectors(grid, heights, widths)
    for what, sizes in (("row", heights), ("column", widths)):
        if None in sizes:
            raise InputError(
                f"bmat: {what} {sizes.index(None)} of the blocks has no size: write "
                "np.zeros((r, c)) instead of 0, or e.reshape(r, c) for a vector"
            )
    r, c = [int(h or 0) for h in heights], [int(w or 0) for w in widths]
    n, total = sum(c), sum(r) * sum(c)
    out: Expression = Combination(total, (), np.zeros(total), ())
    for k, row in enumerate(grid):
        for j, block in enumerate(row):
            entries = _entries(block, (r[k], c[j]), (k, j))
            i0, j0 = sum(r[:k]), sum(c[:j])
            places = ((i0 + np.arange(r[k]))[:, None] * n + j0 + np.arange(c[j])).ravel()
            where = sp.csr_array(
                (np.ones(places.size), (places, np.arange(places.size))), (total, places.size)
            )
            out = out + entries._times(where, entries.words)
    text = "; ".join(", ".join(_text(block) for block in row) for row in grid)
    text = text if len(text) <= 70 else f"{text[:60]} …"
    return MatrixExpression(out, (sum(r), n), ((1.0, f"[{text}]"),))


def _kind(block: Any) -> tuple[int, ...] | None:
    """(r, c) of a matrix, (k,) of a vector, () of a scalar, None for the number 0."""
    if isinstance(block, MatrixExpression):
        return block.shape
    if isinstance(block, Unknown):
        return (block.size, block.size)
    if isinstance(block, Expression):
        return () if block.size == 1 else (block.size,)
    shape = tuple(int(k) for k in np.shape(block) or getattr(block, "shape", ()))
    if not shape and isinstance(block, int | float | np.number) and block == 0:
        return None
    return shape


def _height(block: Any) -> int | None:
    kind = _kind(block)
    return kind[0] if kind is not None and len(kind) == 2 else 1 if kind == () else None


def _width(block: Any) -> int | None:
    kind = _kind(block)
    return kind[1] if kind is not None and len(kind) == 2 else 1 if kind == () else None


def _known(sizes: Sequence[int | None]) -> int | None:
    found = {size for size in sizes if size is not None}
    if len(found) > 1:
        raise InputError(f"bmat: blocks of one row or column have sizes {sorted(found)}")
    return found.pop() if found else None


def _settle_vectors(
    grid: list[list[Any]], heights: list[int | None], widths: list[int | None]
) -> None:
    """Sizes of rows and columns that only vectors decide: a row or a column where a neighbour
    says so, else a column."""
    for certain in (True, False):
        for k, row in enumerate(grid):
            for j, block in enumerate(row):
                kind = _kind(block)
                if kind is None or len(kind) != 1:
                    continue
                (size,), h, w = kind, heights[k], widths[j]
                if h in (None, 1) and (w == size or (h == 1 and w is None)):
                    heights[k], widths[j] = 1, size
                elif w in (None, 1) and (h == size or w == 1 or not certain) and h in (None, size):
                    heights[k], widths[j] = size, 1


def _entries(block: Any, shape: tuple[int, int], place: tuple[int, int]) -> Expression:
    """The entries of a block, row by row."""
    kind, size = _kind(block), shape[0] * shape[1]
    if kind is None:
        return Combination(size, (), np.zeros(size), ())
    fits = kind == shape or (len(kind) == 1 and size == kind[0] and 1 in shape)
    if not fits and not (kind == () and shape == (1, 1)):
        raise InputError(
            f"bmat: block {place} has shape {kind}, and its neighbours leave room for "
            f"{shape[0]} × {shape[1]}"
        )
    if isinstance(block, Unknown):
        block = block.as_matrix()
    if isinstance(block, MatrixExpression):
        return block.entries
    if isinstance(block, Expression):
        return block
    numbers = np.reshape(block, shape) if not sp.issparse(block) else block
    table = matrix_of_numbers(numbers, f"block {place} of bmat")
    return Combination(size, (), table.toarray().ravel(), ())


def _text(block: Any) -> str:
    if isinstance(block, Unknown):
        return block.name
    if isinstance(block, Expression | MatrixExpression):
        return written(block.words)
    kind = _kind(block)
    if kind is None or kind == ():
        return f"{float(block):g}"
    if len(kind) == 1:
        return "b"
    return written(words_of_numbers(sp.csr_array(block)))
