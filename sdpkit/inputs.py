"""Validators: they copy what the user passed, or raise an `InputError` that names it.

Every message says what was given and what to pass instead; `name` is the word that the caller's
signature uses.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.typing import Array, Bools, Indices

T = TypeVar("T")
MatrixLike: TypeAlias = "ArrayLike | sp.sparray | sp.spmatrix"

SYMMETRY_TOLERANCE = 1e-8
"""Asymmetry forgiven in distances and kernels, relative to their largest entry."""

_LARGEST_SQUARABLE = 1e140
_SMALLEST_SQUARABLE = 1e-150


def real_number(value: Any, name: str) -> float:
    """`value` as a float; NaN and infinity are numbers here.

    >>> real_number("1", "offset")
    Traceback (most recent call last):
    sdpkit.errors.InputError: offset has dtype <U1 and is not an array of real numbers: ...
    """
    number = real_array(value, name)
    if number.ndim:
        raise InputError(f"{name} has shape {number.shape}: pass one number")
    return float(number)


def instance(value: Any, kind: type[T], name: str) -> T:
    """`value`, which must be an object of the class.

    >>> instance("a", int, "blocks")
    Traceback (most recent call last):
    sdpkit.errors.InputError: blocks: expected an object of the class int, not of str
    """
    if not isinstance(value, kind):
        expected = f"expected an object of the class {kind.__name__}"
        raise InputError(f"{name}: {expected}, not of {type(value).__name__}")
    return value


def instances(values: Any, kind: type[T], name: str) -> tuple[T, ...]:
    """One or several objects of the class, as a tuple."""
    several = isinstance(values, Sequence | Iterator) and not isinstance(values, kind | str)
    return tuple(instance(one, kind, name) for one in (values if several else (values,)))


# -- arrays ---------------------------------------------------------------------------------------


def real_array(value: Any, name: str) -> Array:
    """`value` as a new array of real numbers, of any shape; NaN and infinity may be in it.

    >>> real_array([1, 2], "X")
    array([1., 2.])
    """
    if np.ma.is_masked(value):
        raise InputError(f"{name} is a masked array with missing entries: fill or remove them")
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"{name} is not an array of numbers ({error}): all rows need one length"
        ) from error
    if raw.dtype.kind not in "biuf":
        raise InputError(
            f"{name} has dtype {raw.dtype} and is not an array of real numbers: pass real numbers, "
            f"for example {name}.astype(float)"
        )
    with np.errstate(over="ignore"):  # a longer float may become infinite
        return np.array(raw, dtype=np.float64, order="C")


def finite_array(value: Any, name: str) -> Array:
    """`value` as a new array of finite numbers, of any shape.

    >>> finite_array([1, float("nan")], "X")
    Traceback (most recent call last):
    sdpkit.errors.InputError: X contains NaN or infinite values (1, the first at [1]): ...
    """
    array = real_array(value, name)
    require_finite(array, name)
    return array


def finite_matrix(value: MatrixLike, name: str, columns: int | None = None) -> Array:
    """`value`, dense or sparse, as a new matrix of finite numbers with at least one entry.

    >>> finite_matrix([1.0, 2.0], "X")
    Traceback (most recent call last):
    sdpkit.errors.InputError: X is 1-d with 2 values: pass a matrix, for 2 points on a line ...
    """
    entries: Any = value
    if sp.issparse(value):
        entries = value.toarray()
    matrix = real_array(entries, name)
    if matrix.ndim == 1 and matrix.size:
        raise InputError(
            f"{name} is 1-d with {matrix.size} values: pass a matrix, "
            f"for {matrix.size} points on a line {name}.reshape(-1, 1)"
        )
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(f"{name} has shape {matrix.shape}: pass a matrix with data in it")
    if columns is not None and matrix.shape[1] != columns:
        raise InputError(f"{name} has {matrix.shape[1]} columns: pass {columns} columns")
    require_finite(matrix, name)
    return matrix


def finite_rows(value: ArrayLike, columns: int, name: str) -> Array:
    """`value` as a new matrix (b, columns) of finite numbers; one row may be passed as a vector.

    >>> finite_rows([1, 2], 2, "points")
    array([[1., 2.]])
    """
    rows = np.atleast_2d(finite_array(value, name))
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise InputError(f"{name} has shape {rows.shape}: pass one row per point, (b, {columns})")
    return rows


def finite_points(value: ArrayLike, name: str) -> Array:
    """Points (n, D), n ≥ 2, as a new read-only array; anything else is refused by `name`.

    >>> finite_points([[1, 2]], "X")
    Traceback (most recent call last):
    sdpkit.errors.InputError: X has shape (1, 2), expected (n, D) with n ≥ 2
    """
    points = finite_array(value, name)
    if points.ndim != 2 or points.shape[0] < 2 or points.shape[1] < 1:
        raise InputError(f"{name} has shape {points.shape}, expected (n, D) with n ≥ 2")
    require_moderate(points, name)
    points.setflags(write=False)
    return points


def distinct_pairs(value: ArrayLike | None, n_points: int, name: str) -> Indices:
    """(m, 2) pairs i < j of n points, in order and each once; anything else is refused by `name`.

    >>> distinct_pairs([[2, 0], [0, 2], [1, 2]], 3, "similar")
    array([[0, 2],
           [1, 2]])
    """
    pairs = np.asarray(() if value is None else value)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"{name} pairs have shape {pairs.shape}, expected whole numbers (m, 2)")
    if pairs.min() < 0 or pairs.max() >= n_points:
        raise InputError(f"{name} pairs name points outside 0 … {n_points - 1}")
    if np.any(pairs[:, 0] == pairs[:, 1]):
        raise InputError(f"{name} pairs name a point twice; a pair is two different points")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0)


def symmetric_matrix(value: MatrixLike, name: str) -> Array:
    """`value` as a new symmetric matrix of finite numbers; rounding errors are averaged out.

    >>> symmetric_matrix([[0, 1], [2, 0]], "distances")
    Traceback (most recent call last):
    sdpkit.errors.InputError: distances is not symmetric: [0, 1] is 1, [1, 0] is 2: pass a ...
    """
    matrix = finite_matrix(value, name)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} has shape {matrix.shape}: pass a square matrix, (n, n)")
    asymmetry = np.abs(matrix - matrix.T)
    if asymmetry.max() > SYMMETRY_TOLERANCE * np.abs(matrix).max():
        i, j = position(asymmetry.argmax(), matrix.shape)
        raise InputError(
            f"{name} is not symmetric: [{i}, {j}] is {matrix[i, j]:g}, [{j}, {i}] is "
            f"{matrix[j, i]:g}: pass a symmetric matrix, for example ({name} + {name}.T) / 2"
        )
    return np.asarray((matrix + matrix.T) / 2)


def sparse_matrix(value: Any, name: str) -> sp.csr_array:
    """`value`, dense or sparse, as a csr matrix, which may share its entries with the caller.

    >>> sparse_matrix([1.0, 2.0], "rows_x")
    Traceback (most recent call last):
    sdpkit.errors.InputError: rows_x has shape (2,): pass a matrix
    """
    entries: Any = value if sp.issparse(value) else real_array(value, name)
    if entries.ndim != 2:
        raise InputError(f"{name} has shape {entries.shape}: pass a matrix")
    return sp.csr_array(entries)


def finite_csr(value: Any, shape: tuple[int, int], name: str) -> sp.csr_array:
    """`value` as a canonical, finite csr array of that shape, not shared with the caller (zeros if
    None).

    >>> finite_csr(np.eye(2), (2, 2), "rows_q").nnz
    2
    """
    if value is None:
        return sp.csr_array(shape)
    given = sparse_matrix(value, name)
    _require_shape(given.shape, name, shape)
    out = given.copy()
    out.data = real_array(given.data, f"{name}.data")
    _require_inside(out, name)
    require_finite(out.data, f"{name}.data")
    out.sum_duplicates()
    out.eliminate_zeros()
    out.sort_indices()
    return out


def finite_vector(value: ArrayLike | None, size: int, name: str) -> Array:
    """`value` as a finite, read-only vector of that size (zeros if None).

    >>> finite_vector(None, 2, "rhs")
    array([0., 0.])
    """
    out = np.zeros(size) if value is None else real_array(value, name)
    _require_shape(out.shape, name, (size,))
    require_finite(out, name)
    return read_only(out)


def indices(value: Any, shape: tuple[int, ...], below: int, name: str) -> Indices:
    """`value` as whole numbers of that shape in 0 … below − 1.

    >>> indices([0, 3], (2,), 3, "labels")
    Traceback (most recent call last):
    sdpkit.errors.InputError: labels holds numbers outside 0 … 2
    """
    array = np.asarray(value)
    _require_shape(array.shape, name, shape)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: pass whole numbers")
    if array.size and not 0 <= array.min() <= array.max() < below:
        raise InputError(f"{name} holds numbers outside 0 … {below - 1}")
    return array.astype(np.int64)


def _require_inside(matrix: sp.csr_array, name: str) -> None:
    """Refuse indices that point outside: scipy's kernels follow any index they are given."""
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{name} is not a sparse matrix: {error}") from error


def booleans(value: Any, name: str) -> Bools:
    """`value` as a new array of booleans; words such as "False" are refused.

    >>> booleans([True, False], "free_x")
    array([ True, False])
    """
    try:
        flags = np.array(value)
    except ValueError as error:
        raise InputError(f"{name} is not an array ({error}): pass True and False") from error
    if flags.size and not (flags.dtype.kind in "biu" and np.isin(flags, (0, 1)).all()):
        raise InputError(f"{name} has dtype {flags.dtype}: pass True and False")
    return flags.astype(bool)


def _require_shape(given: tuple[int, ...], name: str, expected: tuple[int, ...]) -> None:
    if given != expected:
        raise InputError(f"{name} has shape {given}, expected {expected}")


def require_finite(values: Array, name: str) -> None:
    """Refuse NaN and infinity, and say where the first one is."""
    wrong = ~np.isfinite(values)
    if wrong.any():
        first = ", ".join(map(str, position(wrong.argmax(), values.shape)))
        raise InputError(
            f"{name} contains NaN or infinite values ({wrong.sum()}, the first at [{first}]): "
            "remove or replace them"
        )


def require_squarable(values: Array, name: str) -> None:
    """Refuse numbers whose square would overflow."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest > _LARGEST_SQUARABLE:
        raise InputError(f"{name} has values up to {largest:g}, too large to square: rescale it")


def require_moderate(values: Array, name: str) -> None:
    """Refuse lengths or coordinates whose squares would overflow, or would all underflow.

    >>> require_moderate(np.array([0.0, 1e-200]), "X")
    Traceback (most recent call last):
    sdpkit.errors.InputError: X has values up to 1e-200, too small to square: rescale it
    """
    require_squarable(values, name)
    largest = float(np.abs(values).max(initial=0.0))
    if 0 < largest < _SMALLEST_SQUARABLE:
        raise InputError(f"{name} has values up to {largest:g}, too small to square: rescale it")


def position(flat: np.intp, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an entry from its place in the flattened array.

    >>> position(np.intp(3), (2, 2))
    (1, 1)
    """
    return tuple(int(index) for index in np.unravel_index(flat, shape))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, which can no longer be written to."""
    array.flags.writeable = False
    return array


# -- numbers and words ----------------------------------------------------------------------------


def integer(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """`value` as an int between `least` and `most`.

    >>> integer(0, "n_neighbors")
    Traceback (most recent call last):
    sdpkit.errors.InputError: n_neighbors=0: pass an integer of at least 1
    >>> integer(7, "n_components", most=6)
    Traceback (most recent call last):
    sdpkit.errors.InputError: n_components=7: pass an integer between 1 and 6
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool | np.bool_) or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"between {least} and {most}"
        raise InputError(f"{name}={value!r}: pass an integer {limits}")
    return number


def positive(value: Any, name: str, most: float = sys.float_info.max) -> float:
    """`value` as a float > 0, and finite unless `most` is infinite.

    >>> positive("far", "radius")
    Traceback (most recent call last):
    sdpkit.errors.InputError: radius='far': pass a number > 0
    """
    if not _is_number(value) or not 0 < value <= most:
        limit = "" if most >= sys.float_info.max else f" and ≤ {most:g}"
        raise InputError(f"{name}={value!r}: pass a number > 0{limit}")
    return float(value)


def nonnegative(value: Any, name: str) -> float:
    """`value` as a finite float ≥ 0.

    >>> nonnegative(0, "gamma")
    0.0
    """
    if not _is_number(value) or not 0 <= value < np.inf:
        raise InputError(f"{name}={value!r}: pass a number ≥ 0")
    return float(value)


def _is_number(value: Any) -> bool:
    """Whether it is a number that a float can hold, or an infinite one."""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int):
        return abs(value) <= sys.float_info.max
    return isinstance(value, float | np.integer | np.floating)


def boolean(value: Any, name: str) -> bool:
    """`value` as a bool; words such as "false" are refused, since they would count as true.

    >>> boolean("false", "angles")
    Traceback (most recent call last):
    sdpkit.errors.InputError: angles='false': pass True or False
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={value!r}: pass True or False")
    return bool(value)


def one_of(value: object, name: str, allowed: tuple[object, ...]) -> None:
    """Refuse a value that is not among the allowed ones.

    >>> one_of("push", "connect", ("error", "bridge", None))
    Traceback (most recent call last):
    sdpkit.errors.InputError: connect='push': pass 'error', 'bridge' or None
    """
    if not any(value is word or (isinstance(value, str) and value == word) for word in allowed):
        *most, last = map(repr, allowed)
        raise InputError(f"{name}={value!r}: pass {', '.join(most)} or {last}")


def set_fields(frozen: Any, **values: Any) -> None:
    """Set the fields of a frozen dataclass that follow from its arguments.

    >>> from sdpkit.solution.solver import Estimate
    >>> needed = Estimate(seconds=1.0, memory=8.0)
    >>> set_fields(needed, seconds=2.0)
    >>> needed.seconds
    2.0
    """
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
