"""Sums of square roots of squared lengths, as a program in squared lengths.

    maximise Σ_p √q_p   over  M ⪰ 0,  tr M ≤ 1

with q_p = v_pᵀ M v_p, or q_p = Σ_j m_j v_pj² where M is diagonal.

√q_p is the entry s_p of [[t_p, s_p], [s_p, 1]] ⪰ 0 with t_p ≤ q_p. These matrices share their
entry 1: those of a group of roots are the principal minors of one T, whose other entries are free
(such a pattern can always be completed), and groups of 64 are cheaper than single roots or than
one T for all. The rows, in this order:

    tr M ≤ 1,     t_p − q_p ≤ 0  for every p,     T_corner = 1  for every T

with multipliers τ, a_p and β_T; the dual is

    minimise  τ + Σβ_T,     τI ⪰ Σ a_p v_p v_pᵀ,     β_T ≥ Σ_{p in T} 1/(4a_p)

A solver for such sums knows them by `Roots.of`, never by their problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpkit.program.compilation import maximise
from sdpkit.program.expressions import Unknown, Variable, named, stack
from sdpkit.program.form import Program
from sdpkit.program.safe import SafeBounds
from sdpkit.typing import Array, Indices

# Roots in one T. Proofs cost the cube of this, and something for every T.
_GROUP = 64


@dataclass(frozen=True, eq=False)
class Roots:
    """The data of a sum of roots.

    Attributes
    ----------
    values: (m, d) the vectors v_p; where M is diagonal, the squares of their entries
    diagonal: M is diagonal

    >>> roots = Roots(np.array([[3.0, 4.0]]), diagonal=False)
    >>> program = roots.program()
    >>> print(program)
    sum of roots
      maximise    Σ√q_p,  C = sparse (2 nonzeros)
      subject to  tr M ≤ 1  (1 constraint)
                  t_p ≤ q_p  (1 constraint)
                  corner of T = 1  (1 constraint)
                  T1 ∈ S², T1 ⪰ 0
                  M ∈ S², M ⪰ 0
    >>> Roots.of(program).values
    array([[3., 4.]])
    """

    values: Array
    diagonal: bool

    def lengths(self, matrix: Array) -> Array:
        """(m,) q_p of a matrix M, or of the vector m of a diagonal one."""
        if self.diagonal:
            return np.asarray(self.values @ matrix)
        return np.asarray(np.einsum("pi,pi->p", self.values @ matrix, self.values))

    def image(self, weights: Array) -> Array:
        """Σ_p weights_p v_p v_pᵀ, (d, d), or its diagonal, (d,)."""
        if self.diagonal:
            return np.asarray(self.values.T @ weights)
        return np.asarray(self.values.T @ (weights[:, None] * self.values))

    def largest(self, image: Array) -> float:
        """λ_max of an image."""
        if self.diagonal:
            return float(image.max())
        last = len(image) - 1
        return float(scipy.linalg.eigvalsh(image, subset_by_index=[last, last])[0])

    def bound(self, lengths: Array) -> float:
        """√(2τf), which no M with tr M ≤ 1 exceeds; from the lengths under any of them."""
        if lengths.min() <= 0:
            return np.inf
        tau = self.largest(self.image(0.5 / np.sqrt(lengths)))
        return float(np.sqrt(2 * tau * np.sqrt(lengths).sum()))

    def program(self, name: str = "sum of roots", notes: tuple[str, ...] = ()) -> Program:
        """The program that `sdpkit.program.roots` states."""
        size = self.values.shape[1]
        if self.diagonal:
            m = Variable(size, "m")
            trace, q = m.sum(), self.values @ m
        else:
            M = Unknown("M", features=np.vstack([np.eye(size), self.values]))
            nodes = M.lengths()
            trace, q = named("tr M", nodes[:size].sum()), nodes[size:]
        T = [Unknown(f"T{k + 1}", len(group) + 1) for k, group in enumerate(self.groups)]
        t = stack([each.lengths()[:-1] for each in T])
        corners = stack([each.lengths()[-1] for each in T])
        roots = sum(each.inner(_arrow(each.size - 1)) for each in T)
        squares = self.values if self.diagonal else np.square(self.values)
        # The value at M = I/d, of the optimum's order.
        scale = float(np.sqrt(squares.sum(axis=1) / size).sum())
        return maximise(
            named("Σ√q_p", roots),
            trace <= 1,
            named("t_p", t) <= named("q_p", q),
            named("corner of T", corners) == 1,
            safe=SafeBounds(value_scale=scale),
            notes=notes,
            name=name,
        )

    @property
    def groups(self) -> list[Indices]:
        """The numbers of the roots that share a T."""
        count = len(self.values)
        starts = range(0, count, _GROUP)
        return [np.arange(first, min(first + _GROUP, count)) for first in starts]

    @classmethod
    def of(cls, program: Program) -> Roots | None:
        """The sum of roots that a program is, or None."""
        if program.family is not None or program.sense != "max" or program.n_rows < 3:
            return None
        diagonal = program.n_auxiliary > 0
        count = program.n_rows - 1 - len(program.blocks) + (not diagonal)
        last = program.blocks[-1]
        # Counts and signs first: nothing is built for a program that cannot be one.
        if count < 1 or len(program.blocks) != -(-count // _GROUP) + (not diagonal):
            return None
        if diagonal:
            if not _may_be_diagonal(program, count):
                return None
            values = -program.rows_x[1 : 1 + count].toarray()
        elif last.features is not None and len(last.features) == last.size + count:
            values = last.features[last.size :]
        else:
            return None
        if np.any(np.abs(values).max(axis=1) == 0):
            return None  # the root of nothing, and nothing to divide by
        found = cls(np.asarray(values), diagonal)
        return found if found.program().fingerprint == program.fingerprint else None


def _may_be_diagonal(program: Program, count: int) -> bool:
    """Whether the first row sums all of x, and the others subtract from few enough of them."""
    trace = program.rows_x[[0]]
    sums_all = trace.nnz == program.n_auxiliary and bool(np.all(trace.data == 1))
    few = program.rows_x.nnz <= 2 * program.n_auxiliary * (count + 1)
    return sums_all and few and not bool((program.rows_x[1:].data > 0).any())


def _arrow(count: int) -> sp.csr_array:
    """The matrix of Σ s_p, the entries of the last row and column of T."""
    ends, corner = np.arange(count), np.full(count, count)
    arrow = (np.full(2 * count, 0.5), (np.r_[ends, corner], np.r_[corner, ends]))
    return sp.csr_array(arrow, shape=(count + 1, count + 1))
