"""A linear program in squared lengths as equations over a product of cones.

    minimise cᵀx + c_fᵀf   subject to   A x + A_f f = b,  x ∈ K,  f free
    maximise bᵀy           subject to   c − Aᵀy ∈ K,  A_fᵀy = c_f

Free variables leave the iteration: with A_f P = Q [R; 0] their equations say y = y₀ + Z v for the
last columns Z of Q, and what remains are the equations ZᵀA x = Zᵀb. Equations that others imply
are left out of them; where the others contradict one, a combination of them proves it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg import lapack

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.program.form import Program
from sdpkit.solvers.cone_algebra import Cone, Orthant, ProductCone, SemidefiniteStack
from sdpkit.solvers.lorentz import LorentzCones
from sdpkit.typing import Array, Indices

# Columns of free variables, at unit norm, that are this near to others depend on them.
_DEPENDENT_COLUMN = 1e-11
# Squared distance of an equation, at unit norm, from the others, below which it is in doubt.
_DOUBTFUL = 1e-8
# Its distance below which it depends on them.
_DEPENDENT_ROW = 1e-10
# What equations, at unit norm, may contradict each other by, beside the largest right-hand side.
_CONTRADICTION = 1e-8
# Entries of a matrix below this share of the row's largest are left by terms that cancel.
_CANCELLED = 4e-16


@dataclass(frozen=True, eq=False)
class ConicForm:
    """The equations of a program, as a minimisation.

    Attributes
    ----------
    program: a maximisation or a minimisation, reduced, without penalties and log dets
    cone: K, its first part nonnegative
    stacks: for each semidefinite part the indices of the program's blocks in it; these parts
        follow the nonnegative one, and second-order cones come last
    a: (m, N) csr array A;  a_free: (m, n_f) dense A_f;  b: (m,)
    c: (N,);  c_free: (n_f,)
    """

    program: Program
    cone: ProductCone
    stacks: tuple[tuple[int, ...], ...]
    a: sp.csr_array
    a_free: Array
    b: Array
    c: Array
    c_free: Array

    @classmethod
    def of(cls, program: Program) -> ConicForm:
        """The form of a reduced program."""
        by_order = defaultdict(list)
        for k, block in enumerate(program.blocks):
            by_order[block.size].append(k)
        stacks = tuple(tuple(blocks) for blocks in by_order.values())
        semidefinite = [SemidefiniteStack(n, len(blocks)) for n, blocks in by_order.items()]
        bounded, members = np.flatnonzero(~program.free_x), program.cone_x.members
        slack = program.slack_columns
        linear = sp.hstack([program.rows_x[:, bounded], slack])
        costs = -program.sign * program.cost_x
        parts: list[Cone] = [Orthant(bounded.size + slack.shape[1]), *semidefinite]
        if program.cones:
            parts.append(LorentzCones(np.array([c.members.size for c in program.cones])))
        order = [k for blocks in stacks for k in blocks]
        free = np.flatnonzero(program.cone_x.lines)
        return cls(
            program,
            ProductCone(tuple(parts)),
            stacks,
            sp.csr_array(
                sp.hstack([linear, _matrix_columns(program, order), program.rows_x[:, members]])
            ),
            program.rows_x[:, free].toarray(),
            program.rhs,
            np.concatenate(
                [
                    costs[bounded],
                    np.zeros(slack.shape[1]),
                    *_cost_vectors(program, stacks),
                    costs[members],
                ]
            ),
            costs[free],
        )

    @cached_property
    def transposed(self) -> sp.csr_array:
        """Aᵀ."""
        return sp.csr_array(self.a.T)

    @property
    def semidefinite(self) -> Iterator[tuple[SemidefiniteStack, slice, tuple[int, ...]]]:
        """The semidefinite parts, where their vectors are, and their blocks."""
        for number, blocks in enumerate(self.stacks, start=1):
            part = self.cone.parts[number]
            assert isinstance(part, SemidefiniteStack)
            yield part, self.cone.spans[number], blocks

    @property
    def second_order(self) -> Iterator[tuple[LorentzCones, slice]]:
        """The second-order cones and where their vectors are, if there are any."""
        last = self.cone.parts[-1]
        if isinstance(last, LorentzCones):
            yield last, self.cone.spans[-1]

    def matrices(self, x: Array) -> tuple[Array, ...]:
        """The program's matrices in a vector of the cone."""
        found: dict[int, Array] = {}
        for part, span, blocks in self.semidefinite:
            found.update(zip(blocks, part.matrices(x[span]), strict=True))
        return tuple(found[k] for k in range(len(found)))

    def auxiliary(self, x: Array, free: Array) -> Array:
        """The program's auxiliary variables."""
        out, cone = np.empty(self.program.n_auxiliary), self.program.cone_x
        bounded = ~self.program.free_x
        out[bounded], out[cone.lines] = x[: int(bounded.sum())], free
        for _, span in self.second_order:
            out[cone.members] = x[span]
        return out


def _matrix_columns(program: Program, order: list[int]) -> sp.csr_array:
    """(m, N) the rows' matrices as vectors, block after block in the given order."""
    rows, starts = program.matrix_rows, np.cumsum([0] + [b.size**2 for b in program.blocks])
    wide = sp.csc_array(rows)
    parts = []
    for k in order:
        n = program.blocks[k].size
        i, j = np.triu_indices(n)
        part = sp.csc_array(wide[:, starts[k] : starts[k + 1]])[:, i * n + j]
        parts.append(part @ sp.diags_array(np.where(i == j, 1.0, np.sqrt(2.0))))
    out = sp.csr_array(sp.hstack(parts))
    largest = np.asarray(abs(out).max(axis=1).todense()).ravel()
    small = np.abs(out.data) <= _CANCELLED * np.repeat(largest, np.diff(out.indptr))
    out.data[small] = 0.0
    out.eliminate_zeros()
    return out


def _cost_vectors(program: Program, stacks: tuple[tuple[int, ...], ...]) -> list[Array]:
    """The costs of the minimisation, stack after stack."""
    weights = program.split(program.cost_q)
    out = []
    for blocks in stacks:
        matrices = []
        for k in blocks:
            cost = program.blocks[k].cost.dense()
            if weights[k].any():
                image = program.blocks[k].adjoint(weights[k])
                cost = cost + (image if isinstance(image, np.ndarray) else image.toarray())
            matrices.append(-program.sign * cost)
        cone = SemidefiniteStack(program.blocks[blocks[0]].size, len(blocks))
        out.append(cone.vector(np.array(matrices)))
    return out


# -- what is left of the equations ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FreeVariables:
    """A_f P = Q [R; 0], Q as Householder vectors.

    Attributes
    ----------
    factor, tau: of LAPACK's QR factorisation;  order: (n_f,) P;  rank: of A_f
    scale: (n_f,) norms that the columns were divided by
    """

    factor: Array
    tau: Array
    order: Indices
    rank: int
    scale: Array

    @classmethod
    def of(cls, a_free: Array) -> FreeVariables:
        """The factorisation of A_f."""
        scale = np.linalg.norm(a_free, axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        if not a_free.size:
            m, n = a_free.shape
            return cls(np.zeros((m, 0)), np.zeros(0), np.arange(n), 0, scale)
        continue_or_raise()
        factor, order, tau, _, _ = lapack.dgeqp3(np.asfortranarray(a_free / scale))
        diagonal = np.abs(np.diag(factor))
        rank = int(np.sum(diagonal > _DEPENDENT_COLUMN))
        return cls(factor, tau, np.asarray(order - 1, dtype=np.int64), rank, scale)

    @property
    def _r(self) -> Array:
        return np.triu(self.factor[: self.rank, : self.rank])

    def turned(self, values: Array, back: bool = False) -> Array:
        """Qᵀ times a vector or a matrix of as many rows as equations, or Q times it."""
        if not self.tau.size or not values.size:
            return values
        columns = np.asfortranarray(values.reshape(len(values), -1))
        trans = "N" if back else "T"
        vectors = self.factor[:, : self.tau.size]  # there may be more columns than equations
        work = lapack.dormqr("L", trans, vectors, self.tau, columns, -1)[1][0]
        out = lapack.dormqr("L", trans, vectors, self.tau, columns, int(work))[0]
        return np.asarray(out.reshape(values.shape))

    def multipliers(self, costs: Array) -> tuple[Array, Array | None]:
        """(y₀ with A_fᵀy₀ = c_f, None), or a direction d with A_f d = 0 and c_fᵀd < 0."""
        m, scaled = len(self.factor), costs / self.scale
        head = np.zeros(m)
        pivots, others = self.order[: self.rank], self.order[self.rank :]
        if self.rank:
            solve = scipy.linalg.solve_triangular
            head[: self.rank] = solve(self._r, scaled[pivots], trans="T")
        y = self.turned(head, back=True)
        off = (
            scaled[others]
            - self.factor[: self.rank, self.rank : self.order.size].T @ head[: self.rank]
        )
        worst = int(np.abs(off).argmax()) if off.size else 0
        if not off.size or np.abs(off[worst]) <= 1e-9 * max(1.0, float(np.abs(scaled).max())):
            return y, None
        direction = np.zeros(self.order.size)
        direction[others[worst]] = 1.0
        if self.rank:
            column = self.factor[: self.rank, self.rank + worst]
            direction[pivots] = -scipy.linalg.solve_triangular(self._r, column)
        return y, -np.sign(off[worst]) * direction / self.scale

    def values(self, rest: Array) -> Array:
        """The f with the least ‖A_f f − rest‖."""
        out = np.zeros(self.order.size)
        if self.rank:
            head = self.turned(rest)[: self.rank]
            out[self.order[: self.rank]] = scipy.linalg.solve_triangular(self._r, head)
        return out / self.scale


class Equations:
    """ZᵀA x = Zᵀb without equations that are implied; their multipliers v give y = Z v.

    Attributes
    ----------
    form: where they come from;  free: its free variables
    kept: (m',) which of the rows of Qᵀ[A b] they are
    contradiction: (m,) y with Aᵀy = 0, A_fᵀy = 0 and bᵀy > 0, or None
    """

    def __init__(self, form: ConicForm, free: FreeVariables) -> None:
        self.form, self.free = form, free
        self.kept = np.arange(free.rank, form.b.size)
        gram = self.within((form.a @ form.transposed).toarray())
        self.contradiction: Array | None = None
        if self.kept.size:
            self.kept, self.contradiction = self._independent(gram)

    @property
    def size(self) -> int:
        """m'."""
        return int(self.kept.size)

    def reduced(self, values: Array) -> Array:
        """(m', …) what is left of values for all equations, (m, …)."""
        return np.asarray(self.free.turned(values)[self.kept])

    def multipliers(self, v: Array) -> Array:
        """y = Z v."""
        out = np.zeros(self.form.b.size)
        out[self.kept] = v
        return self.free.turned(out, back=True)

    def within(self, square: Array) -> Array:
        """(m', m') from a symmetric matrix over all equations."""
        if self.free.rank == 0 and self.kept.size == self.form.b.size:
            return square
        return self.reduced(np.ascontiguousarray(self.reduced(square).T))

    def values(self, x: Array) -> Array:
        """(m',) of a vector of the cone."""
        return self.reduced(self.form.a @ x)

    def adjoint(self, v: Array) -> Array:
        """The vector of the cone Aᵀ Z v."""
        return np.asarray(self.form.transposed @ self.multipliers(v))

    def _independent(self, gram: Array) -> tuple[Indices, Array | None]:
        """The equations that no others imply, and what shows a contradiction."""
        continue_or_raise()
        lengths = _nonzero(np.sqrt(np.diag(gram).clip(min=0.0)))
        correlation = gram / np.outer(lengths, lengths)
        factor, _, rank, _ = lapack.dpstrf(correlation, tol=0.0, lower=1)
        if rank == self.kept.size and factor.diagonal().min() ** 2 > _DOUBTFUL:
            return self.kept, None
        # A Gram matrix holds squares: what is in doubt is compared as it is.
        rows = self._sketch()
        lengths = _nonzero(np.linalg.norm(rows, axis=1))
        continue_or_raise()
        r, order = scipy.linalg.qr((rows / lengths[:, None]).T, mode="r", pivoting=True)
        rank = int(np.sum(np.abs(np.diag(r)) > _DEPENDENT_ROW))
        head, rest = order[:rank], order[rank:]
        if not rest.size:
            return self.kept, None
        combined = scipy.linalg.solve_triangular(r[:rank, :rank], r[:rank, rank:])
        right = self.reduced(self.form.b) / lengths
        off = right[rest] - combined.T @ right[head]
        worst = int(np.abs(off).argmax())
        scale = max(float(np.abs(self.form.b).max(initial=0.0)), float(np.finfo(float).tiny))
        if np.abs(off[worst]) <= _CONTRADICTION * scale * (1 + np.abs(combined[:, worst]).sum()):
            return self.kept[np.sort(head)], None
        v = np.zeros(self.kept.size)
        v[rest[worst]], v[head] = 1.0, -combined[:, worst]
        return self.kept, np.sign(off[worst]) * self.multipliers(v / lengths)

    def _sketch(self) -> Array:
        """(m', k) the equations, mapped at random to little more dimensions than there are of
        them, which keeps their dependences."""
        n, width = self.form.c.size, self.size + 20
        if n <= 2 * width:
            return self.reduced(self.form.a.toarray())
        sketch = np.random.default_rng(0).standard_normal((n, width)) / np.sqrt(width)
        return self.reduced(self.form.a @ sketch)


def _nonzero(lengths: Array) -> Array:
    """Lengths of rows, 1 for those that are rounding alone."""
    return np.where(lengths > 1e-12, lengths, 1.0)


__all__ = ["ConicForm", "Equations", "FreeVariables"]
