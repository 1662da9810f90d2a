"""Programs written as in the papers: unknowns, variables, expressions, constraints.

    K = Unknown("K", n, null=np.ones(n))                  # K ⪰ 0, K1 = 0
    up, down = Variable(m, "ξ⁺"), Variable(m, "ξ⁻")       # ≥ 0 unless free=True
    maximise((1 - ω) * K.trace() - ω * (up.sum() + down.sum()),
             K.distances(edges) == d + up - down)

An `Expression` is a vector of affine functions of the unknowns. It is kept as a constant and a
sum of terms  coefficients · atom, where an *atom* is a vector that no arithmetic takes apart: the
squared lengths of some vectors under an unknown, some of its entries, <C, M>, or an auxiliary
variable. Adding expressions concatenates their terms, `A @ expression` multiplies the
coefficients, a comparison makes a `Constraint`. log det and the penalties `sum_squares` and
`norm` are atoms that only an objective may hold.

`sdpkit.program.compilation` turns objective and constraints into a `Program`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpkit.errors import InputError
from sdpkit.inputs import finite_array
from sdpkit.program.atoms import (
    Absolute,
    Atom,
    Auxiliary,
    Entries,
    Inner,
    Lengths,
    LogDet,
    Penalty,
)
from sdpkit.program.block import differences
from sdpkit.program.checks import cost_of, pairs_of
from sdpkit.program.cost import Cost
from sdpkit.program.matrices import (
    ActsAsMatrix,
    MatrixExpression,
    index_grid,
    matrix_of_numbers,
    multiple_of_matrix,
    part_name,
)
from sdpkit.program.printing import (
    SYMBOLS,
    Words,
    factor_name,
    product_of_words,
    sum_of_words,
    superscript,
    written,
)
from sdpkit.typing import Array

# -- unknowns -------------------------------------------------------------------------------


class Unknown(ActsAsMatrix):
    """A positive semidefinite matrix M to be found.

    Parameters
    ----------
    name : str
        The paper's letter for it.
    size : int or None, default None
        n; may be left out where `features` say it.
    null : array-like of shape (n,) or None, default None
        Or (n, k) directions N with M N = 0.
    features : array-like of shape (N, n) or None, default None
        X, one row per node. `lengths` and `distances` are then about nodes: they take combinations
        of rows of X, and X is never multiplied out.
    max_rank : int or None, default None
        The largest rank M may have, or None; a limit makes the program non-convex.

    Examples
    --------
    >>> import numpy as np
    >>> from sdpkit import maximise
    >>> K = Unknown("K", 3, null=np.ones(3))
    >>> print(maximise(K.trace(), K.distances([[0, 1], [1, 2]]) <= 1, name="a string"))
    a string
      maximise    tr K
      subject to  ‖y_i − y_j‖² ≤ 1  (2 constraints)
                  K ∈ S³, K ⪰ 0, K1 = 0
    """

    def __init__(
        self,
        name: str,
        size: int | None = None,
        *,
        null: ArrayLike | None = None,
        features: ArrayLike | None = None,
        max_rank: int | None = None,
    ) -> None:
        x = None if features is None else np.asarray(features, dtype=np.float64)
        if x is not None and x.ndim != 2:
            raise InputError(f"features of {name} have shape {x.shape}: pass one row per node")
        width = None if x is None else int(x.shape[1])
        if size is None and width is None:
            raise InputError(f"the unknown {name} has no size: pass Unknown({name!r}, n)")
        if size is not None and width is not None and size != width:
            raise InputError(f"{name} has size {size}, but its features have {width} columns")
        n = size if size is not None else width
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"the size of {name} is {n!r}; it must be a positive integer")
        self.name, self.size = name, int(n)
        self.null, self.features, self.max_rank = null, x, max_rank

    @property
    def n_nodes(self) -> int:
        """How many nodes `lengths` and `distances` refer to: N, or n without features."""
        return self.size if self.features is None else int(self.features.shape[0])

    def lengths(self, vectors: Any = None) -> Expression:
        """q_p = v_pᵀ M v_p for the rows of (p, n) `vectors`, dense or sparse.

        With features, a row combines nodes: v_p = b_p X. Without `vectors`, one per node.

        >>> Unknown("M", 3).lengths(np.ones(3))
        <Expression of size 1: vᵀ M v>
        """
        nodes = self.n_nodes
        if vectors is None:
            vectors = sp.eye_array(nodes, format="csr")
        elif not sp.issparse(vectors):
            vectors = np.atleast_2d(finite_array(vectors, f"the vectors that measure {self.name}"))
        if vectors.ndim != 2 or vectors.shape[1] != nodes:
            what = "node (row of the features)" if self.features is not None else "row of it"
            raise InputError(
                f"vectors that measure {self.name} have shape {tuple(vectors.shape)}: "
                f"pass {nodes} columns, one per {what}"
            )
        v = "v" if vectors.shape[0] == 1 else "v_p"
        return _atom(Lengths(self, sp.csr_array(vectors)), f"{v}ᵀ {self.name} {v}")

    def distances(self, edges: ArrayLike) -> Expression:
        """Squared distances  M_ii + M_jj − 2M_ij  for the rows (i, j) of `edges`; with features,
        those of nodes, (x_i − x_j)ᵀM(x_i − x_j).

        >>> Unknown("K", 3).distances([[0, 1], [1, 2]])
        <Expression of size 2: ‖y_i − y_j‖²>
        """
        i, j = pairs_of(edges, self.n_nodes, self.name)
        if self.features is not None:
            text = f"‖x_i − x_j‖²_{self.name}"
        else:
            y = "y" + superscript("".join(filter(str.isdigit, self.name)))
            text = f"‖{y}_i − {y}_j‖²"
        return _atom(Lengths(self, differences(i, j, self.n_nodes)), text)

    def inner(self, matrix: Any) -> Expression:
        """<C, M> for a symmetric C: a `Cost`, a dense or a sparse (n, n) matrix.

        In an objective C stays as it is. In a constraint it becomes squared lengths: its low-rank
        part and dense matrices by their eigenvectors, sparse ones by their entries.

        >>> Unknown("M", 2).inner(np.eye(2))
        <Expression of size 1: <C, M>>
        """
        cost = matrix if isinstance(matrix, Cost) else cost_of(matrix, self.size, self.name)
        if cost.size != self.size:
            raise InputError(
                f"<C, {self.name}>: C has size {cost.size}, and {self.name} has size {self.size}"
            )
        if cost.is_identity:
            words: Words = ((cost.identity, f"tr {self.name}"),)
        else:
            words = ((1.0, f"<C, {self.name}>"),)
        return Combination(
            1, ((Inner(self, cost), sp.csr_array(np.ones((1, 1)))),), np.zeros(1), words
        )

    def trace(self) -> Expression:
        """tr M."""
        return self.inner(Cost.of(self.size, identity=1.0))

    def log_det(self) -> Expression:
        """log det M, on the face {z : Nᵀz = 0}. A term of objectives that are maximised."""
        return _atom(LogDet(self), f"log det {self.name}")

    def __getitem__(self, index: Any) -> Any:
        """M[i, j] for two numbers or two arrays of numbers: entries, one by one. Slices and
        np.ix_(rows, columns) choose a part of M, a matrix."""
        i, j, is_part = index_grid(self.name, self.size, index)
        if is_part:
            words: Words = ((1.0, part_name(self.name, self.size, i[:, 0], j[0])),)
            at = Entries(self, i.ravel(), j.ravel())
            return MatrixExpression(_atom(at, self.name), (i.shape[0], i.shape[1]), words)
        single = i.ndim == 0
        where = f"[{i}, {j}]" if single else "_ii" if np.array_equal(i, j) else "_ij"
        at = Entries(self, np.atleast_1d(i), np.atleast_1d(j))
        return _atom(at, f"{self.name}{where}")

    def as_matrix(self) -> MatrixExpression:
        """M as a matrix of expressions; arithmetic with M does this by itself."""
        matrix: MatrixExpression = self[:, :]
        return matrix

    @property
    def T(self) -> MatrixExpression:
        """M, which is symmetric."""
        return self.as_matrix()

    def _refuse(self, *others: Any) -> NoReturn:
        raise InputError(
            f"{self.name} is a matrix, which cannot be used as a vector: write "
            f"{self.name}.trace(), .inner(C), .lengths(V), .distances(edges) or {self.name}[i, j]. "
            f"{self.name} ⪰ 0 always holds, {self.name}[:, :] >= 0 bounds all entries; "
            f"{self.name} N = 0 is Unknown(…, null=N)"
        )

    __pow__ = __bool__ = __le__ = __ge__ = __lt__ = __gt__ = __ne__ = _refuse

    def __repr__(self) -> str:
        return f"<Unknown {self.name} of size {self.size}>"


# -- expressions ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A vector of affine functions: Σ coefficients · atom + constant.

    Arithmetic is that of numpy vectors: sums, products with numbers and arrays, `A @ e`,
    `e.sum()`, `e[rows]`; an expression of size 1 is repeated where a vector is needed.

    Attributes
    ----------
    size: m;  constant: (m,)
    terms: pairs of an atom of size k and its (m, k) coefficients
    words: what is printed
    """

    size: int
    terms: tuple[tuple[Atom, sp.csr_array], ...]
    constant: Array
    words: Words

    __array_ufunc__ = None  # numpy arrays on the left leave the operation to us

    # -- sums ------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        other = as_expression(other)
        size = _common_size(self, other)
        a, b = self._repeated(size), other._repeated(size)
        words = sum_of_words(a.words + b.words)
        return Combination(size, a.terms + b.terms, a.constant + b.constant, words)

    def __radd__(self, other: Any) -> Expression:
        return as_expression(other) + self

    def __neg__(self) -> Expression:
        negative: Expression = self * -1.0
        return negative

    def __sub__(self, other: Any) -> Expression:
        return self.__add__(as_expression(other).__neg__())

    def __rsub__(self, other: Any) -> Expression:
        return as_expression(other).__add__(-self)

    def sum(self) -> Expression:
        """The sum of the entries, of size 1."""
        if self.size == 1:
            return self
        words = tuple((c, f"Σ{body}") if body else (c * self.size, "") for c, body in self.words)
        return self._times(np.ones((1, self.size)), words)

    # -- products --------------------------------------------------------------------------

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, MatrixExpression) or np.ndim(other) == 2 or sp.issparse(other):
            return self._times_matrix(other)
        other = as_expression(other)
        if self.terms and other.terms:
            raise InputError(
                f"({written(self.words)}) · ({written(other.words)}) is a product of unknowns: "
                "programs are affine in them. Penalties are e.sum_squares() and e.norm()"
            )
        factor, e = (self, other) if other.terms else (other, self)
        size = _common_size(factor, e)
        if factor.size > 1:
            words = product_of_words(f"{factor_name(factor.words) or 'a'} ∘", e.words)
            return e._repeated(size)._times(sp.diags_array(factor.constant), words)
        c, name = float(factor.constant[0]), factor_name(factor.words)
        words = tuple((c * k, body) for k, body in e.words)
        terms = tuple((atom, sp.csr_array(a * c)) for atom, a in e.terms)
        named = product_of_words(name, e.words) if name else words
        return Combination(e.size, terms, c * e.constant, named)

    __rmul__ = __mul__

    def _times_matrix(self, value: Any) -> MatrixExpression:
        """e · A for an expression of size 1 and a matrix of numbers A."""
        table, words = multiple_of_matrix(self.words, self.size, value)
        shape = (int(table.shape[0]), int(table.shape[1]))
        column = table.reshape((shape[0] * shape[1], 1))
        return MatrixExpression(self._times(column, self.words), shape, words)

    def reshape(self, rows: int, columns: int) -> MatrixExpression:
        """The entries as a matrix, row by row."""
        if rows * columns != self.size:
            raise InputError(f"{written(self.words)} has {self.size} entries, not {rows}·{columns}")
        return MatrixExpression(self, (int(rows), int(columns)), self.words)

    def __truediv__(self, other: Any) -> Expression:
        divisor = as_expression(other)
        if divisor.terms:
            raise InputError(f"nothing can be divided by {written(divisor.words)}: it is unknown")
        if (divisor.constant == 0).any():
            raise InputError(f"{written(self.words)} is divided by zero")
        factor = 1.0 / divisor.constant if divisor.size > 1 else 1.0 / divisor.constant[0]
        quotient: Expression = self * factor
        return quotient

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise InputError(f"nothing can be divided by {written(self.words)}: it is unknown")

    def __rmatmul__(self, matrix: Any) -> Expression:
        """A @ e for a dense or sparse (k, m) matrix, or a vector (m,)."""
        if isinstance(matrix, Expression | Unknown | MatrixExpression):
            raise InputError("programs are affine in their unknowns: A in A @ e must be numbers")
        if not sp.issparse(matrix):
            matrix = finite_array(matrix, "A in A @ e")
            if matrix.ndim == 1:
                matrix = matrix[None, :]
        if matrix.ndim != 2 or matrix.shape[1] != self.size:
            raise InputError(
                f"A @ ({written(self.words)}): A has shape {tuple(matrix.shape)}; it needs "
                f"{self.size} columns"
            )
        return self._times(matrix, product_of_words("A", self.words))

    def __matmul__(self, other: Any) -> Expression:
        if not isinstance(other, Expression | Unknown) and np.ndim(other) == 1:
            return self.__rmatmul__(other)
        raise InputError("write A @ e, with the matrix of numbers on the left")

    def __pow__(self, power: Any) -> NoReturn:
        raise InputError(
            f"({written(self.words)}) ** {power!r} is not affine; for a penalty in the objective "
            "write e.sum_squares() or e.norm()"
        )

    def __getitem__(self, rows: Any) -> Expression:
        """Some of the entries, as numpy indexes a vector."""
        try:
            chosen = np.atleast_1d(np.arange(self.size)[rows])
        except (IndexError, TypeError) as error:
            raise InputError(f"e[{rows!r}] of an expression of size {self.size}: {error}") from None
        index = f"[{int(chosen[0])}]" if np.ndim(rows) == 0 and not isinstance(rows, slice) else ""
        words = tuple((c, body and f"{body}{index}") for c, body in self.words)
        terms = tuple((atom, sp.csr_array(a[chosen])) for atom, a in self._entrywise().terms)
        return Combination(chosen.size, terms, self.constant[chosen], words)

    def _times(self, matrix: Any, words: Words) -> Expression:
        matrix = sp.csr_array(matrix)
        terms = tuple((atom, sp.csr_array(matrix @ a)) for atom, a in self._entrywise().terms)
        return Combination(int(matrix.shape[0]), terms, matrix @ self.constant, words)

    def _repeated(self, size: int) -> Expression:
        return self if self.size == size else self._times(np.ones((size, 1)), self.words)

    def _affine(self) -> Expression:
        if not self.is_affine:
            raise InputError(
                f"{written(self.words)} is not affine: it may only be scaled and added to an "
                "objective"
            )
        return self

    def _entrywise(self) -> Expression:
        """Refuses a log det or a penalty, which has one entry; |e| has as many as e."""
        if any(isinstance(atom, LogDet | Penalty) for atom, _ in self.terms):
            return self._affine()
        return self

    @property
    def is_affine(self) -> bool:
        """False where a log det, a penalty or an absolute value is among the terms."""
        return not any(isinstance(atom, LogDet | Penalty | Absolute) for atom, _ in self.terms)

    # -- convex functions ------------------------------------------------------------------

    def sum_squares(self) -> Expression:
        """Σ e_k²: minimised, subtracted from what is maximised, or bounded, Σ e_k² <= t."""
        return _atom(Penalty("squares", self._affine()), f"‖{written(self.words)}‖²")

    def norm(self) -> Expression:
        """The Euclidean norm ‖e‖: minimised, subtracted from what is maximised, or bounded,
        ‖e‖ <= t."""
        return _atom(Penalty("norm", self._affine()), f"‖{written(self.words)}‖")

    def __abs__(self) -> Expression:
        """|e_k|, entry by entry: minimised, subtracted from what is maximised, or bounded above."""
        return _atom(Absolute(self._affine()), f"|{written(self.words)}|")

    # -- comparisons -----------------------------------------------------------------------

    def __eq__(self, other: Any) -> Constraint:  # type: ignore[override]
        return self._compared(other, 0)

    def __le__(self, other: Any) -> Constraint:
        return self._compared(other, -1)

    def __ge__(self, other: Any) -> Constraint:
        return self._compared(other, 1)

    def _compared(self, other: Any, relation: int) -> Constraint:
        other = as_expression(other)
        difference = self - other
        text = f"{written(self.words)} {SYMBOLS[relation]} {written(other.words)}"
        if not difference.terms:
            raise InputError(f"{text}: neither side holds an unknown or a variable")
        _require_convex(difference, relation, text)
        return Constraint(difference, relation, text)

    def _strict(self, other: Any) -> NoReturn:
        raise InputError(
            "programs have no strict inequalities: write <= or >=, and subtract a margin "
            "where one is needed"
        )

    __lt__ = __gt__ = __ne__ = _strict
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise InputError(f"{written(self.words)} has no truth value before it is solved for")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of size {self.size}: {written(self.words)}>"


class Combination(Expression):
    """What arithmetic makes.

    Not a base class of `Variable`: for a ≤ b Python would call b's method first where b's class is
    derived from a's, and the sides of a constraint would change places.
    """

    def __repr__(self) -> str:
        return f"<Expression of size {self.size}: {written(self.words)}>"


class Variable(Expression):
    """Real variables, nonnegative unless `free`.

    Parameters
    ----------
    size : int, default 1
        How many.
    name : str, default "x"
        Their name, for printing.
    free : bool, default False
        Whether they may be negative.

    Examples
    --------
    >>> ξ = Variable(3, "ξ")
    >>> 2 * ξ.sum() + 1
    <Expression of size 1: 2 Σξ + 1>
    """

    def __init__(self, size: int = 1, name: str = "x", *, free: bool = False) -> None:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
            raise InputError(f"the variable {name} has size {size!r}; pass a whole number")
        eye = sp.eye_array(int(size), format="csr")
        terms = ((Auxiliary(name, int(size), free), eye),)
        super().__init__(int(size), terms, np.zeros(size), ((1.0, name),))


@dataclass(frozen=True, eq=False, repr=False)
class Constraint:
    """Rows  expression {=, ≤, ≥} 0, as a comparison of two expressions makes them.

    Attributes
    ----------
    expression: the left side less the right;  relation: 0 for =, −1 for ≤, +1 for ≥
    text: the comparison as it was written
    """

    expression: Expression
    relation: int
    text: str

    def __bool__(self) -> NoReturn:
        raise InputError(
            f"the constraint {self.text} has no truth value. Pass it to maximise or minimise; "
            "write a <= e <= b as two constraints, a <= e and e <= b"
        )

    def __repr__(self) -> str:
        return f"<Constraint: {self.text}>"


# -- making expressions ---------------------------------------------------------------------


def as_expression(value: Any) -> Expression:
    """Expressions as they are; numbers and vectors of numbers as constants."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, Unknown):
        value._refuse()
    if isinstance(value, Constraint):
        raise InputError(f"{value.text} is a constraint; arithmetic takes expressions and numbers")
    if isinstance(value, MatrixExpression):
        raise InputError(
            f"{written(value.words)} is a matrix: add it to matrices of its shape, or use its "
            ".trace(), .diagonal(), .sum() or an entry F[i, j]"
        )
    if value is None or isinstance(value, str) or sp.issparse(value):
        raise InputError(f"{value!r} is neither an expression nor a vector of numbers")
    numbers = np.atleast_1d(finite_array(value, "a number or vector in an expression"))
    if numbers.ndim != 1:
        raise InputError(
            f"an array of shape {numbers.shape} cannot be combined with expressions, which are "
            "vectors; write A @ e for a matrix product"
        )
    equal = numbers.size and bool((numbers == numbers[0]).all())
    words: Words = ((float(numbers[0]), ""),) if equal else ((1.0, "b"),)
    return Combination(numbers.size, (), numbers, words)


def named(name: str, value: Any) -> Any:
    """A number, vector, matrix or expression under the name that is printed for it.

    >>> Unknown("K", 3).distances([[0, 1], [1, 2]]) == named("d_ij", [1.0, 4.0])
    <Constraint: ‖y_i − y_j‖² = d_ij>
    """
    if isinstance(value, MatrixExpression):
        return MatrixExpression(value.entries, value.shape, ((1.0, name),))
    if np.ndim(value) == 2 or sp.issparse(value):
        table = matrix_of_numbers(value, name)
        entries = Combination(table.shape[0] * table.shape[1], (), table.toarray().ravel(), ())
        return MatrixExpression(entries, (table.shape[0], table.shape[1]), ((1.0, name),))
    expression = as_expression(value)
    return Combination(expression.size, expression.terms, expression.constant, ((1.0, name),))


def stack(expressions: Iterable[Any]) -> Expression:
    """Expressions one below the other, as one.

    >>> stack([Variable(2, "a"), Variable(3, "b"), 1.0])
    <Expression of size 6: (a; b; 1)>
    """
    parts = [as_expression(part)._affine() for part in expressions]
    if len(parts) == 1:
        return parts[0]
    sizes = [part.size for part in parts]
    total, terms, start = sum(sizes), [], 0
    for part in parts:
        # Row k of a part becomes row start + k of the whole.
        below = sp.eye_array(total, part.size, k=-start, format="csr")
        terms += [(atom, sp.csr_array(below @ a)) for atom, a in part.terms]
        start += part.size
    texts = list(dict.fromkeys(written(part.words) for part in parts))
    text = texts[0] if len(texts) == 1 else f"({'; '.join(_few(texts))})"
    constant = np.concatenate([np.zeros(0), *(part.constant for part in parts)])
    return Combination(total, tuple(terms), constant, ((1.0, text),))


def _require_convex(difference: Expression, relation: int, text: str) -> None:
    """Refuse  e {≤, =, ≥} 0  unless it is convex: norms, squares and |e| may only be bounded
    above."""
    for atom, a in difference.terms:
        if isinstance(atom, LogDet):
            raise InputError(
                f"{text}: a log det may only be a term of the objective. In cvxpy it may be in a "
                "constraint: sdpkit.from_cvxpy, or solve there and call sdpkit.certify_cvxpy"
            )
        if isinstance(atom, Penalty | Absolute) and (
            relation == 0 or (relation * a.data > 0).any()
        ):
            raise InputError(
                f"{text} is not a convex constraint: a norm, a sum of squares or an absolute value "
                "may only be bounded above, as in e.norm() <= t"
            )


def _few(texts: Sequence[str], most: int = 3) -> list[str]:
    return list(texts) if len(texts) <= most else [*texts[: most - 1], "…", texts[-1]]


def _atom(atom: Atom, text: str) -> Expression:
    size = atom.size
    eye = sp.eye_array(size, format="csr")
    return Combination(size, ((atom, eye),), np.zeros(size), ((1.0, text),))


def _common_size(a: Expression, b: Expression) -> int:
    if a.size == b.size or b.size == 1:
        return a.size
    if a.size == 1:
        return b.size
    raise InputError(
        f"sizes differ: {written(a.words)} has {a.size} entries, {written(b.words)} has {b.size}"
    )
