"""Faces of the cone that contain every feasible point, in rational arithmetic.

Let y have the signs of multipliers, Aᵀ(y) ⪰ 0 and A_xᵀy ≥ 0 (= 0 for free variables). Every
feasible (M, x) has <Aᵀ(y), M> + (A_xᵀy)ᵀx ≤ bᵀy, and the left-hand side is nonnegative. So

    bᵀy < 0     there is no feasible point;
    bᵀy = 0     M vanishes outside of the kernel of Aᵀ(y), x_j = 0 where (A_xᵀy)_j > 0, and the
                inequalities with y_e ≠ 0 are equations.

The second kind exposes a face. On a face the conditions on the next y are weaker, so that a chain
of exposing vectors may end in a contradiction although no single y does: the program is *weakly*
infeasible (Waki and Muramatsu 2013, "Facial reduction algorithms for conic optimization
problems").

Multipliers here are those of a maximisation, and fractions: a chain is a theorem about the
floating-point data, or it is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from sdpkit.certificate.exact import coefficients
from sdpkit.certificate.rational import (
    Rational,
    Vector,
    congruence,
    dot,
    doubles,
    identity,
    independent,
    kernel_of_semidefinite,
    near_solution,
    null_space,
    rationals,
    rounded_span,
    table,
    times,
    upper_triangle,
)
from sdpkit.certificate.rounding import TINY
from sdpkit.program.arrow import without_second_order_cones
from sdpkit.program.block import Block
from sdpkit.program.cost import dense
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.typing import Array, Bools

# Entries of all rows, and unknowns of one system, up to which fractions take a second at most.
_ENTRIES = 20_000
_LARGEST = 40
# What the terms of equations may be off by in relation to each other, in units of their number: a
# contradiction within it is one of rounded data, not of the model.
DATA_ROUNDING = 16 * float(np.finfo(np.float64).eps)
# Multipliers whose terms are larger than this, at bᵀy = −1, exclude points of moderate size only.
_LONGEST = 1_000_000
# Members of a second-order cone that becomes a block.
_LARGEST_CONE = 200
# Eigenvalues and reduced costs below this share of the largest multiplier are rounding, or zero.
_DUST = 1e-10
# Below these shares of the largest number a part of approximate multipliers counts as zero.
_CUTS = (1e-6, 1e-4, 1e-2)


@dataclass(frozen=True, eq=False)
class Face:
    """The rows of a program on a face of its cone, exactly.

    Attributes
    ----------
    sizes: per block n;  units: per row the power of two that it is multiplied by
    bases: per block k vectors of length n; M = Σ z_ab N_a N_bᵀ with Z ⪰ 0
    matrices: per row and block the (k, k) coefficient of Z
    linear: per row the coefficients of x;  free: per variable whether it has no sign
    vanishing: per variable whether it is zero on the face
    rhs, relations: one per row
    """

    sizes: tuple[int, ...]
    units: Vector
    bases: tuple[Rational, ...]
    matrices: tuple[tuple[Rational, ...], ...]
    linear: tuple[Vector, ...]
    free: tuple[bool, ...]
    vanishing: tuple[bool, ...]
    rhs: Vector
    relations: tuple[int, ...]

    @classmethod
    def of(cls, program: Program) -> Face | None:
        """All that the null directions of a program leave; None for one that is not small.

        Second-order cones are semidefinite blocks here, after all others.
        """
        if program.cones and max(c.members.size for c in program.cones) > _LARGEST_CONE:
            return None
        program = without_second_order_cones(program).program
        if not _is_small(program):
            return None
        bases = tuple(_basis(block) for block in program.blocks)
        rows = zip(program.blocks, program.spans, bases, strict=True)
        parts = [coefficients(b, program.rows_q[:, span], basis) for b, span, basis in rows]
        linear = [rationals(row) for row in program.rows_x.toarray()]
        units = [
            _unit([a for part in parts for row in part[e] for a in row] + linear[e])
            for e in range(program.n_rows)
        ]
        return cls(
            tuple(block.size for block in program.blocks),
            units,
            bases,
            tuple(
                tuple([[u * a for a in row] for row in part[e]] for part in parts)
                for e, u in enumerate(units)
            ),
            tuple([u * a for a in row] for u, row in zip(units, linear, strict=True)),
            tuple(bool(f) for f in program.free_x),
            (False,) * program.n_auxiliary,
            [u * b for u, b in zip(units, rationals(program.rhs), strict=True)],
            tuple(int(r) for r in program.relations),
        )

    @classmethod
    def after(cls, program: Program, exposing: Sequence[Sequence[Fraction]]) -> Face | None:
        """The face that a chain of vectors exposes; None if one of them exposes none."""
        face = cls.of(program)
        for y in exposing:
            face = None if face is None else face.exposed(list(y))
        return face

    @property
    def n_rows(self) -> int:
        """m."""
        return len(self.rhs)

    def images(self, y: Vector) -> list[Rational]:
        """Aᵀ(y) per block, in the coordinates of the face."""
        return [
            _sum([rows[k] for rows in self.matrices], y, len(b)) for k, b in enumerate(self.bases)
        ]

    def reduced_costs(self, y: Vector) -> Vector:
        """A_xᵀy, zero for variables that vanish."""
        return [
            Fraction(0) if gone else dot([row[j] for row in self.linear], y)
            for j, gone in enumerate(self.vanishing)
        ]

    def _holds(self, y: Vector, r: Vector) -> bool:
        """Whether multipliers and reduced costs have their signs."""
        signs = all(e * w <= 0 for e, w in zip(self.relations, y, strict=True))
        costs = all(c == 0 if f else c >= 0 for c, f in zip(r, self.free, strict=True))
        return signs and costs

    def is_contradicted(self, y: Vector) -> bool:
        """Whether y proves that the face has no feasible point."""
        if dot(self.rhs, y) >= 0 or not self._holds(y, self.reduced_costs(y)):
            return False
        return all(kernel_of_semidefinite(image) is not None for image in self.images(y))

    def stands_out(self, y: Vector) -> bool:
        """Whether what y proves is more than the rounding of the data it is summed from.

        Rounded data may be infeasible by their last digits where the model is not: bᵀy, the
        eigenvalues of Aᵀ(y) that are not zero and reduced costs are compared with their terms.
        """
        terms = [abs(b * w) for b, w in zip(self.rhs, y, strict=True)]
        value, size = -dot(self.rhs, y), sum(terms, Fraction(0))
        if value and value <= Fraction(DATA_ROUNDING) * (self.n_rows + 4) * size:
            return False
        largest = max((abs(w) for w in y), default=Fraction(0))
        if value > 0 and largest * max(map(abs, self.rhs)) > _LONGEST * value:
            return False  # points that are not much larger than these rows suggest would meet them
        dust = _DUST * float(largest)
        r = doubles(self.reduced_costs(y))
        if np.any((r != 0) & (np.abs(r) <= dust)):
            return False
        return all(_is_clear(image, dust) for image in self.images(y))

    def exposed(self, y: Vector) -> Face | None:
        """The smaller face that y exposes; None if it exposes none."""
        r = self.reduced_costs(y)
        if dot(self.rhs, y) != 0 or not self._holds(y, r):
            return None
        kernels = []
        for image in self.images(y):
            kernel = kernel_of_semidefinite(image)
            if kernel is None:
                return None
            kernels.append(kernel)
        tight = tuple(0 if w else e for e, w in zip(self.relations, y, strict=True))
        smaller = [len(k) < len(b) for k, b in zip(kernels, self.bases, strict=True)]
        if not (any(smaller) or any(r) or tight != self.relations):
            return None
        bases = tuple(_lifted(b, k) for b, k in zip(self.bases, kernels, strict=True))
        return replace(
            self,
            bases=bases,
            matrices=tuple(
                tuple(congruence(a, k) for a, k in zip(row, kernels, strict=True))
                for row in self.matrices
            ),
            vanishing=tuple(gone or c > 0 for gone, c in zip(self.vanishing, r, strict=True)),
            relations=tight,
        )

    def by_one_row(self) -> Iterator[Vector]:
        """Multipliers of one row each, where its right-hand side lets it contradict or expose."""
        for e, b in enumerate(self.rhs):
            for sign in (1, -1):
                if sign * b <= 0 and self.relations[e] * sign <= 0:
                    yield [Fraction(sign * int(i == e)) for i in range(self.n_rows)]

    def by_equations(self) -> Iterator[Vector]:
        """Multipliers of equations that sum up to 0 = −1, if there are any."""
        equations = [e for e, relation in enumerate(self.relations) if not relation]
        if not equations:
            return
        rows = np.array([doubles(self._flat(e)) for e in equations])
        right = doubles([self.rhs[e] for e in equations])
        # Floating point first: the exact test only where it can succeed.
        left = right - rows @ np.linalg.lstsq(rows, right, rcond=1e-10)[0]
        if float(np.abs(left).max(initial=0.0)) > 1e-12 * float(np.abs(right).max(initial=0.0)):
            yield from self._near(np.zeros(self.n_rows), Fraction(-1), 0.0, whole=True)

    def _flat(self, e: int) -> Vector:
        """A row as a vector: the upper triangles of its matrices, then what it has of x."""
        upper = [a for matrix in self.matrices[e] for a in upper_triangle(matrix)]
        rest = [a for a, gone in zip(self.linear[e], self.vanishing, strict=True) if not gone]
        return upper + rest

    def independent_rows(self) -> list[int]:
        """The rows without equations that others imply exactly."""
        flat = [doubles(self._flat(e)) for e in range(self.n_rows)]
        if not flat or np.linalg.matrix_rank(np.array(flat)) == self.n_rows:
            return list(range(self.n_rows))
        equations = [e for e, relation in enumerate(self.relations) if not relation]
        found = independent([[*self._flat(e), self.rhs[e]] for e in equations])
        kept = {equations[i] for i in found}
        return [e for e, relation in enumerate(self.relations) if relation or e in kept]

    def near(self, y: Array, value: int) -> Iterator[Vector]:
        """Exact multipliers near approximate ones, with bᵀy = value."""
        size = float(np.abs(y).max(initial=0.0))
        if not 0 < size < np.inf:
            return
        if value:
            y = y * (value / float(dot(self.rhs, rationals(y))))
        for cut in _CUTS:
            yield from self._near(y, Fraction(value), cut, whole=False)

    def _near(self, y: Array, value: Fraction, cut: float, whole: bool) -> Iterator[Vector]:
        """Solutions of Aᵀ(y)N = 0, r_j = 0, bᵀy = value with the kernels N that y suggests."""
        exact = rationals(y)
        kernels = []
        for image in self.images(exact):
            kernel = identity(len(image)) if whole else _rounded_kernel(image, cut)
            if kernel is None:
                return
            kernels.append(kernel)
        rows: Rational = [list(self.rhs)]
        for k, kernel in enumerate(kernels):
            for z in kernel:
                images = [times(a[k], z) for a in self.matrices]
                rows += [[image[i] for image in images] for i in range(len(z))]
        r = doubles(self.reduced_costs(exact))
        dust = cut * max(float(np.abs(r).max(initial=0.0)), float(np.abs(y).max(initial=0.0)))
        for j, gone in enumerate(self.vanishing):
            if not gone and (self.free[j] or whole or abs(r[j]) <= dust):
                rows.append([row[j] for row in self.linear])
        for e, relation in enumerate(self.relations):
            if relation and abs(y[e]) <= cut * float(np.abs(y).max(initial=0.0)):
                rows.append([Fraction(int(i == e)) for i in range(self.n_rows)])
        right = [value] + [Fraction(0)] * (len(rows) - 1)
        yield from near_solution(rows, right, y)

    def as_program(self, rows: Sequence[int]) -> tuple[Program, bool]:
        """(these rows on the face, without costs; whether no number of them was rounded)

        Blocks whose face is {0} and variables that vanish are left out.
        """
        seen = [k for k, basis in enumerate(self.bases) if basis]
        kept = [j for j, gone in enumerate(self.vanishing) if not gone]
        blocks = [Block.of(len(self.bases[k]), _pairs(len(self.bases[k]))) for k in seen]
        measured = [[a for k in seen for a in _in_lengths(self.matrices[e][k])] for e in rows]
        linear = [[self.linear[e][j] for j in kept] for e in rows]
        right = [self.rhs[e] for e in rows]
        exact = all(Fraction(float(a)) == a for part in [*measured, *linear, right] for a in part)
        if not blocks:
            blocks, measured = [Block.of(1, [[1.0]])], [[Fraction(0)]] * len(rows)
        program = Program.of(
            blocks,
            doubles(right),
            rows_q=table(measured, sum(b.n_measurements for b in blocks)),
            rows_x=sp.csr_array(table(linear, len(kept))),
            relations=np.array([self.relations[e] for e in rows], dtype=np.int8),
            free_x=np.array([self.free[j] for j in kept], dtype=bool),
            name="on a face",
        )
        return program, exact

    def lifted(self, matrices: Sequence[Matrix], x: Array) -> tuple[tuple[Array, ...], Array]:
        """A point of `as_program` in the coordinates of the program."""
        parts = iter(matrices)
        out = []
        for n, basis in zip(self.sizes, self.bases, strict=True):
            vectors = table(basis, n)
            out.append(vectors.T @ np.asarray(next(parts)) @ vectors if basis else np.zeros((n, n)))
        full = np.zeros(len(self.vanishing))
        full[[j for j, gone in enumerate(self.vanishing) if not gone]] = x
        return tuple(out), full

    @property
    def scales(self) -> Array:
        """(m,) what turns multipliers of these rows into those of the program's."""
        return doubles(self.units)

    def multipliers(self, y: Sequence[Fraction]) -> Array:
        """(m,) of the rows as the program states them."""
        return doubles([w * u for w, u in zip(y, self.units, strict=True)])


@dataclass(frozen=True, eq=False)
class FaceProof:
    """A chain of exposing vectors, and multipliers that contradict what is left."""

    exposing: tuple[tuple[Fraction, ...], ...]
    contradiction: tuple[Fraction, ...]

    def holds(self, program: Program) -> bool:
        """Whether the chain proves, in rational arithmetic, that the program is infeasible."""
        face = Face.after(program, self.exposing)
        return face is not None and face.is_contradicted(list(self.contradiction))

    def __str__(self) -> str:
        return "rational arithmetic" + " on a face of the cone" * bool(self.exposing)


def exact_contradiction(program: Program, w: Array, clear: bool = False) -> Vector | None:
    """Fractions near multipliers w of the maximisation that prove infeasibility, or None.

    `clear`: only those whose proof is more than the rounding of the data.
    """
    try:
        return _contradiction(program, w, clear)
    except (ArithmeticError, np.linalg.LinAlgError):  # near the ends of the floating-point range
        return None


def _contradiction(program: Program, w: Array, clear: bool) -> Vector | None:
    face = Face.of(program) if np.isfinite(w).all() else None
    simple = all(has_simple_null(block) for block in program.blocks)
    if face is None or not simple or not program.rhs @ w < 0:
        return None
    try:
        found = (z for z in face.near(w / face.scales, -1) if face.is_contradicted(z))
        return next((z for z in found if not clear or face.stands_out(z)), None)
    except OverflowError:  # numbers near the ends of the floating-point range prove nothing
        return None


def has_simple_null(block: Block) -> bool:
    """Whether the null directions are simple numbers: others were computed, and their rounding is
    no reason for a contradiction."""
    return bool(_simple(block).all())


def _simple(block: Block) -> Bools:
    """Which null directions are simple numbers."""
    grid = 1024 * block.null
    return np.asarray(np.all((grid == np.round(grid)) & (np.abs(grid) < 2**30), axis=0))


def without_computed_null(program: Program) -> Program:
    """A relaxation, or the program itself: without null directions that are no simple numbers."""
    if all(has_simple_null(block) for block in program.blocks):
        return program
    blocks = tuple(replace(b, null=b.null[:, _simple(b)]) for b in program.blocks)
    return replace(program, blocks=blocks)


def _is_small(program: Program) -> bool:
    if program.family is not None or any(b.size > _LARGEST for b in program.blocks):
        return False
    entries = sum(b.size**2 for b in program.blocks) + program.n_auxiliary
    measured = sum(b.n_measurements * (b.incidence.shape[1] + b.size) for b in program.blocks)
    return program.n_rows * entries <= _ENTRIES and measured <= 10 * _ENTRIES


def _basis(block: Block) -> Rational:
    """The directions that the null conditions leave, coordinates in units of the measurements."""
    largest = np.zeros(block.size)
    for _, v in block.slabs():
        largest = np.maximum(largest, dense(abs(v).max(axis=0)).ravel())
    units = [_unit([Fraction(float(a))]) for a in largest]
    null = [[a * u for a, u in zip(rationals(z), units, strict=True)] for z in block.null.T]
    found = null_space(null, block.size)
    return [[a * u for a, u in zip(z, units, strict=True)] for z in found]


def _unit(values: Vector) -> Fraction:
    """The power of two that brings the largest of these numbers near one."""
    largest = max((abs(a) for a in values), default=Fraction(0))
    return Fraction(2) ** -int(np.frexp(float(largest))[1]) if largest else Fraction(1)


def _sum(matrices: list[Rational], y: Vector, size: int) -> Rational:
    out = [[Fraction(0)] * size for _ in range(size)]
    for a, w in zip(matrices, y, strict=True):
        if w:
            for row, given in zip(out, a, strict=True):
                for j, entry in enumerate(given):
                    if entry:
                        row[j] += w * entry
    return out


def _lifted(basis: Rational, kernel: Rational) -> Rational:
    """The vectors of a kernel, given by coordinates of a basis."""
    width = len(basis[0]) if basis else 0
    return [[dot(z, [n[i] for n in basis]) for i in range(width)] for z in kernel]


def _is_clear(image: Rational, dust: float) -> bool:
    """Whether the eigenvalues of a matrix are zero exactly, or more than dust."""
    if not image:
        return True
    small = np.abs(np.linalg.eigvalsh(table(image, len(image)))) <= dust
    return int(small.sum()) == len(null_space(image, len(image)))


def _rounded_kernel(image: Rational, cut: float) -> Rational | None:
    """Simple fractions that span the kernel of a matrix, up to eigenvalues below the cut."""
    if not image:
        return []
    values, vectors = np.linalg.eigh(table(image, len(image)))
    return rounded_span(vectors[:, values <= cut * max(float(np.abs(values).max()), TINY)])


def _pairs(n: int) -> Array:
    """e_i and e_i + e_j, i < j."""
    i, j = np.triu_indices(n, 1)
    eye = np.eye(n)
    return np.vstack([eye, eye[i] + eye[j]])


def _in_lengths(matrix: Rational) -> Vector:
    """The coefficients of a symmetric matrix in squared lengths of e_i and e_i + e_j."""
    n = len(matrix)
    diagonal = [
        matrix[i][i] - sum((matrix[i][j] for j in range(n) if j != i), Fraction(0))
        for i in range(n)
    ]
    return diagonal + [matrix[i][j] for i in range(n) for j in range(i + 1, n)]
