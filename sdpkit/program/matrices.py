"""Matrices of affine functions, and the constraint that one is positive semidefinite.

    t * np.eye(n) − A,   Σ x[i] * A_i,   K[:2, 1:],   Aᵀ @ P + P @ A,   bmat([[X, B], [B.T, Y]])

A `MatrixExpression` keeps its entries, row by row, as one `Expression`: its arithmetic is that of
numpy matrices, done by sparse matrices on this vector. `F >> G` says that F − G ⪰ 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array
from sdpkit.program.atoms import Entries
from sdpkit.program.printing import Words, product_of_words, shortened, sum_of_words, written
from sdpkit.typing import Indices

if TYPE_CHECKING:
    from sdpkit.program.expressions import Constraint, Expression

# Entries (i, j) and (j, i) that differ by more than this share of the coefficients do differ.
_SYMMETRIC = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class MatrixExpression:
    """A matrix of affine functions.

    Attributes
    ----------
    entries: the (r·c) entries, row by row
    shape: (r, c)
    words: what is printed

    >>> from sdpkit import Variable
    >>> t = Variable(name="t", free=True)
    >>> t * np.eye(2) - np.array([[1.0, 2.0], [2.0, 1.0]]) >> 0
    <Constraint: t I − A ⪰ 0>
    """

    entries: Expression
    shape: tuple[int, int]
    words: Words

    __array_ufunc__ = None  # numpy arrays on the left leave the operation to us

    # -- sums ------------------------------------------------------------------------------

    def __add__(self, other: Any) -> MatrixExpression:
        if _is_zero(other):
            return self
        right, words = self._operand(other)
        return MatrixExpression(
            self.entries + right, self.shape, shortened(sum_of_words(self.words + words))
        )

    __radd__ = __add__

    def __neg__(self) -> MatrixExpression:
        return self * -1.0

    def __sub__(self, other: Any) -> MatrixExpression:
        if _is_zero(other):
            return self
        right, words = self._operand(other)
        negated = tuple((-c, body) for c, body in words)
        return MatrixExpression(
            self.entries - right, self.shape, shortened(sum_of_words(self.words + negated))
        )

    def __rsub__(self, other: Any) -> MatrixExpression:
        return self.__sub__(other).__neg__()

    def _operand(self, other: Any) -> tuple[Any, Words]:
        """The entries of another matrix of this shape, and its words."""
        if hasattr(other, "as_matrix"):  # an unknown
            other = other.as_matrix()
        if isinstance(other, MatrixExpression):
            if other.shape != self.shape:
                raise InputError(
                    f"shapes differ: {written(self.words)} is {self._shape}, "
                    f"{written(other.words)} is {other._shape}"
                )
            return other.entries, other.words
        number = np.ndim(other) == 0 and not sp.issparse(other)
        if hasattr(other, "terms") or number:
            raise InputError(
                f"{written(self.words)} is a {self._shape} matrix, and {_said(other)} is not: for "
                f"a multiple of the identity write c * np.eye({self.shape[0]})"
            )
        table = matrix_of_numbers(other, f"a matrix added to {written(self.words)}")
        if table.shape != self.shape:
            raise InputError(
                f"shapes differ: {written(self.words)} is {self._shape}, the array is "
                f"{table.shape[0]} × {table.shape[1]}"
            )
        return table.toarray().ravel(), words_of_numbers(table)

    # -- products --------------------------------------------------------------------------

    def __mul__(self, other: Any) -> MatrixExpression:
        unknown = hasattr(other, "terms") or hasattr(other, "as_matrix")
        if unknown or isinstance(other, MatrixExpression):
            self._refuse_product()
        if np.ndim(other) != 0 or sp.issparse(other):
            raise InputError(
                f"{written(self.words)} times an array is not defined: write F @ B for a matrix "
                "product, and c * F with a number c"
            )
        c = float(finite_array(other, "a factor of a matrix"))
        words = tuple((c * k, body) for k, body in self.words)
        return MatrixExpression(self.entries * c, self.shape, words)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> MatrixExpression:
        if np.ndim(other) != 0 or not other:
            raise InputError(f"{written(self.words)} can only be divided by a number other than 0")
        return self.__mul__(1.0 / other)

    def __matmul__(self, other: Any) -> Any:
        """F @ B for numbers B (c, k): a matrix; F @ v for a vector (c,): an expression."""
        unknown = hasattr(other, "terms") or hasattr(other, "as_matrix")
        if unknown or isinstance(other, MatrixExpression):
            self._refuse_product()
        if not sp.issparse(other) and np.ndim(other) == 1:
            v = finite_array(other, "v in F @ v")
            self._require(v.size == self.shape[1], "F @ v", v.shape)
            rows = sp.kron(sp.eye_array(self.shape[0]), sp.csr_array(v[None, :]))
            return self.entries._times(rows, _after(self.words, "v"))
        table = matrix_of_numbers(other, "B in F @ B")
        self._require(table.shape[0] == self.shape[1], "F @ B", table.shape)
        rows = sp.kron(sp.eye_array(self.shape[0]), table.T)
        shape = (self.shape[0], int(table.shape[1]))
        return MatrixExpression(
            self.entries._times(rows, self.entries.words), shape, _after(self.words, "B")
        )

    def __rmatmul__(self, other: Any) -> Any:
        """A @ F for numbers A (k, r), or a vector (r,)."""
        if not sp.issparse(other) and np.ndim(other) == 1:
            return self.T @ other
        table = matrix_of_numbers(other, "A in A @ F")
        self._require(table.shape[1] == self.shape[0], "A @ F", table.shape)
        rows = sp.kron(table, sp.eye_array(self.shape[1]))
        words = product_of_words("A", self.words)
        return MatrixExpression(
            self.entries._times(rows, self.entries.words),
            (int(table.shape[0]), self.shape[1]),
            words,
        )

    def _require(self, fits: bool, what: str, shape: Any) -> None:
        if not fits:
            raise InputError(
                f"{what}: F = {written(self.words)} is {self._shape}, the array has shape "
                f"{tuple(shape)}"
            )

    def _refuse_product(self) -> NoReturn:
        raise InputError(
            f"{written(self.words)} times an unknown is a product of unknowns: programs are affine "
            "in them. A Schur complement may say the same: bmat([[X, Y], [Y.T, Z]]) >> 0; other "
            "products need a model of cvxpy that is convex (sdpkit.from_cvxpy)"
        )

    # -- parts -----------------------------------------------------------------------------

    @property
    def T(self) -> MatrixExpression:
        """The transpose."""
        order = np.arange(self.entries.size).reshape(self.shape).T.ravel()
        simple = len(self.words) == 1
        body = written(self.words)
        words: Words = ((1.0, f"{body}ᵀ" if simple else f"({body})ᵀ"),)
        if self.is_symmetric:
            words = self.words
        return MatrixExpression(self.entries[order], (self.shape[1], self.shape[0]), words)

    def trace(self) -> Expression:
        """Σ F_ii, of size 1."""
        n = self._square("the trace")
        row = sp.csr_array((np.ones(n), (np.zeros(n, int), np.arange(n) * (n + 1))), (1, n * n))
        return self.entries._times(row, ((1.0, f"tr({written(self.words)})"),))

    def diagonal(self) -> Expression:
        """The entries F_ii."""
        n = self._square("the diagonal")
        return self.entries[np.arange(n) * (n + 1)]

    def sum(self) -> Expression:
        """The sum of all entries, of size 1."""
        return self.entries.sum()

    def __getitem__(self, index: Any) -> Any:
        """F[i, j] as numpy has it: one entry, a vector of entries, or a part."""
        places = np.arange(self.entries.size).reshape(self.shape)
        try:
            chosen = np.asarray(places[index])
        except (IndexError, TypeError) as error:
            raise InputError(f"{written(self.words)}[{index!r}]: {error}") from None
        if chosen.ndim == 2:
            entries = self.entries[chosen.ravel()]
            part: Words = ((1.0, f"({written(self.words)})[…]"),)
            return MatrixExpression(entries, (chosen.shape[0], chosen.shape[1]), part)
        return self.entries[np.atleast_1d(chosen).ravel()]

    def _square(self, what: str) -> int:
        r, c = self.shape
        if r != c:
            raise InputError(
                f"{what} of {written(self.words)} needs a square matrix, not {r} × {c}"
            )
        return r

    @property
    def is_symmetric(self) -> bool:
        """Whether F_ij and F_ji are the same function for all i and j."""
        return self.shape[0] == self.shape[1] and first_asymmetry(self) is None

    @property
    def _shape(self) -> str:
        return f"{self.shape[0]} × {self.shape[1]}"

    # -- comparisons -----------------------------------------------------------------------

    def __rshift__(self, other: Any) -> Semidefinite:
        """F >> G: F − G ⪰ 0."""
        return _semidefinite(self - other, f"{written(self.words)} ⪰ {_said(other)}")

    def __lshift__(self, other: Any) -> Semidefinite:
        """F << G: G − F ⪰ 0."""
        return _semidefinite(-(self - other), f"{written(self.words)} ⪯ {_said(other)}")

    def __rrshift__(self, other: Any) -> Semidefinite:
        return _semidefinite(-(self - other), f"{_said(other)} ⪰ {written(self.words)}")

    def __rlshift__(self, other: Any) -> Semidefinite:
        return _semidefinite(self - other, f"{_said(other)} ⪯ {written(self.words)}")

    def __eq__(self, other: Any) -> Constraint:  # type: ignore[override]
        difference = self - other
        entries = difference.entries
        if difference.is_symmetric:
            i, j = np.triu_indices(self.shape[0])
            entries = entries[i * self.shape[0] + j]
        return _renamed(entries == 0.0, f"{written(self.words)} = {_said(other)}")

    def __le__(self, other: Any) -> Constraint:
        return _renamed((self - other).entries <= 0.0, f"{written(self.words)} ≤ {_said(other)}")

    def __ge__(self, other: Any) -> Constraint:
        return _renamed((self - other).entries >= 0.0, f"{written(self.words)} ≥ {_said(other)}")

    def _strict(self, other: Any) -> NoReturn:
        raise InputError("programs have no strict inequalities: write F >> G, F <= G or F >= G")

    __lt__ = __gt__ = __ne__ = _strict
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise InputError(f"{written(self.words)} has no truth value before it is solved for")

    def __repr__(self) -> str:
        return f"<MatrixExpression of shape {self._shape}: {written(self.words)}>"


class ActsAsMatrix:
    """Arithmetic of an object that `as_matrix` makes a matrix of expressions: an unknown's."""

    __array_ufunc__ = None  # numpy arrays on the left leave the operation to us

    def as_matrix(self) -> MatrixExpression:
        """The matrix of expressions."""
        raise NotImplementedError

    def __add__(self, other: Any) -> MatrixExpression:
        return self.as_matrix().__add__(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> MatrixExpression:
        return self.as_matrix().__sub__(other)

    def __rsub__(self, other: Any) -> MatrixExpression:
        return self.as_matrix().__rsub__(other)

    def __neg__(self) -> MatrixExpression:
        return -self.as_matrix()

    def __mul__(self, other: Any) -> MatrixExpression:
        return self.as_matrix().__mul__(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> MatrixExpression:
        return self.as_matrix().__truediv__(other)

    def __matmul__(self, other: Any) -> Any:
        return self.as_matrix() @ other

    def __rmatmul__(self, other: Any) -> Any:
        return other @ self.as_matrix()

    def __rshift__(self, other: Any) -> Semidefinite:
        return self.as_matrix().__rshift__(other)

    def __lshift__(self, other: Any) -> Semidefinite:
        return self.as_matrix().__lshift__(other)

    __rrshift__, __rlshift__ = __lshift__, __rshift__

    def __eq__(self, other: Any) -> Constraint:  # type: ignore[override]
        return self.as_matrix().__eq__(other)

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class Semidefinite:
    """F ⪰ 0 for a symmetric matrix F of affine functions.

    Attributes
    ----------
    entries: the n² entries of F, row by row;  size: n;  text: as it was written
    """

    entries: Expression
    size: int
    text: str

    def __bool__(self) -> NoReturn:
        raise InputError(
            f"the constraint {self.text} has no truth value. Pass it to maximise or minimise"
        )

    def __repr__(self) -> str:
        return f"<Constraint: {self.text}>"


def _semidefinite(difference: MatrixExpression, text: str) -> Semidefinite:
    r, c = difference.shape
    if r != c:
        raise InputError(f"{text}: only square matrices are semidefinite, and this is {r} × {c}")
    if not difference.entries.terms:
        raise InputError(f"{text}: neither side holds an unknown or a variable")
    place = first_asymmetry(difference)
    if place is not None:
        i, j = place
        raise InputError(
            f"{text}: the matrix is not symmetric, its entries ({i}, {j}) and ({j}, {i}) differ. "
            "For its symmetric part write (F + F.T) / 2"
        )
    order = np.arange(r * r).reshape(r, r).T.ravel()
    same = sp.eye_array(r * r, format="csr")
    even = sp.csr_array((same + same[order]) / 2)
    return Semidefinite(difference.entries._times(even, difference.entries.words), r, text)


def _renamed(constraint: Constraint, text: str) -> Constraint:
    return type(constraint)(constraint.expression, constraint.relation, text)


def first_asymmetry(matrix: MatrixExpression) -> tuple[int, int] | None:
    """The first (i, j) with F_ij ≠ F_ji, or None."""
    n = matrix.shape[0]
    order = np.arange(n * n).reshape(n, n).T.ravel()
    total: dict[tuple[int, str], Any] = {}
    largest = float(np.abs(matrix.entries.constant).max(initial=0.0))
    for atom, a in matrix.entries.terms:
        key, merged = (id(atom), ""), sp.csr_array(a)
        if isinstance(atom, Entries):  # M_ij and M_ji are one number
            size = atom.unknown.size
            low, high = np.minimum(atom.i, atom.j), np.maximum(atom.i, atom.j)
            places = (np.ones(low.size), (np.arange(low.size), low * size + high))
            merged = sp.csr_array(merged @ sp.csr_array(places, shape=(low.size, size**2)))
            key = (id(atom.unknown), "entries")
        largest = max(largest, float(np.abs(merged.data).max(initial=0.0)))
        known = total.get(key)
        total[key] = merged if known is None else known + merged
    constant = matrix.entries.constant
    off: list[Indices] = [np.flatnonzero(np.abs(constant - constant[order]) > _SYMMETRIC * largest)]
    for sums in total.values():
        difference = sp.coo_array(sums - sums[order])
        rows = np.asarray(difference.coords[0], dtype=np.int64)
        off.append(rows[np.abs(difference.data) > _SYMMETRIC * largest])
    found = np.concatenate(off)
    return None if not found.size else (int(found.min()) // n, int(found.min()) % n)


# -- numbers --------------------------------------------------------------------------------


def matrix_of_numbers(value: Any, what: str) -> sp.csr_array:
    """A finite (r, c) matrix of numbers, dense or sparse."""
    if not sp.issparse(value):
        value = finite_array(value, what)
    if value.ndim != 2:
        raise InputError(f"{what} has shape {tuple(value.shape)}: pass a matrix")
    table = sp.csr_array(value, dtype=np.float64)
    if not np.isfinite(table.data).all():
        raise InputError(f"{what} has entries that are not finite")
    return table


def words_of_numbers(table: sp.csr_array) -> Words:
    """What is printed for a matrix of numbers: nothing for 0, I, or A."""
    if not np.any(table.data):
        return ()
    r, c = table.shape
    diagonal = table.diagonal()
    if r == c and diagonal[0] and (diagonal == diagonal[0]).all():
        rest = table - diagonal[0] * sp.eye_array(r)
        if not np.any(rest.data):
            return ((float(diagonal[0]), "I"),)
    return ((1.0, "A"),)


def multiple_of_matrix(words: Words, size: int, value: Any) -> tuple[sp.csr_array, Words]:
    """A and the words of e · A, for an expression e of these words and this size."""
    if isinstance(value, MatrixExpression):  # numbers with a name
        if value.entries.terms:
            value._refuse_product()
        table = sp.csr_array(value.entries.constant.reshape(value.shape))
        name = value.words
    else:
        table = matrix_of_numbers(value, f"the matrix that is multiplied by {written(words)}")
        name = words_of_numbers(table) or ((0.0, "0"),)
    if size != 1:
        raise InputError(
            f"{written(words)} has {size} entries: multiply one of them by a matrix, e[i] * A, or "
            "write A @ e for a matrix product"
        )
    c, body = name[0] if len(name) == 1 else (1.0, f"({written(name)})")
    if len(words) > 1:
        return table, ((c, f"({written(words)}) {body}"),)
    return table, tuple((c * k, f"{e} {body}".strip()) for k, e in words)


def _after(words: Words, factor: str) -> Words:
    if len(words) == 1:
        return ((words[0][0], f"{words[0][1]} {factor}"),)
    return ((1.0, f"({written(words)}) {factor}"),)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == 0


def _said(value: Any) -> str:
    """The right-hand side of a constraint."""
    if _is_zero(value):
        return "0"
    if hasattr(value, "words"):
        return written(value.words)
    if hasattr(value, "as_matrix"):
        return str(value.name)
    if np.ndim(value) == 2 or sp.issparse(value):
        return written(words_of_numbers(sp.csr_array(value)))
    return repr(value)


def part_name(name: str, n: int, rows: Indices, columns: Indices) -> str:
    """What is printed for the part of M in these rows and columns."""

    def span(k: Indices) -> str:
        if k.size == n and np.array_equal(k, np.arange(n)):
            return ":"
        together = k.size and np.array_equal(k, np.arange(k[0], k[0] + k.size))
        return f"{k[0]}:{k[0] + k.size}" if together else "…"

    spans = span(rows), span(columns)
    return name if spans == (":", ":") else f"{name}[{', '.join(spans)}]"


def index_grid(name: str, n: int, index: Any) -> tuple[Indices, Indices, bool]:
    """(i, j, is a part) of M[index]: numbers, arrays of them, or slices, which choose a part."""
    if not isinstance(index, tuple) or len(index) != 2:
        raise InputError(f"{name}[{index!r}]: an entry has two indices, {name}[i, j]")
    if any(isinstance(k, slice) for k in index):
        rows, columns = (
            np.arange(n)[k] if isinstance(k, slice) else np.atleast_1d(np.asarray(k)) for k in index
        )
        single = [not isinstance(k, slice) and np.ndim(k) == 0 for k in index]
        i, j = np.meshgrid(rows, columns, indexing="ij")
        if any(single):
            i, j = i.ravel(), j.ravel()
    else:
        try:
            i, j = np.broadcast_arrays(*(np.asarray(k) for k in index))
        except ValueError as error:
            raise InputError(f"indices of {name} do not fit together: {error}") from error
    if i.dtype.kind not in "iu" or j.dtype.kind not in "iu" or i.ndim > 2:
        raise InputError(
            f"indices of {name} must be whole numbers, arrays of them or slices: {name}[i, j] for "
            f"entries one by one, {name}[:2, 1:] or {name}[np.ix_(rows, columns)] for a part"
        )
    if i.size and (min(i.min(), j.min()) < -n or max(i.max(), j.max()) >= n):
        raise InputError(f"indices of {name} must lie in 0 … {n - 1}")
    return i % n, j % n, i.ndim == 2
