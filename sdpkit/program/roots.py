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
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.program.safe import SafeBounds

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

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
      maximise    <C, T1>,  C = sparse (2 nonzeros)
      subject to  A_q q ≤ b  (2 rows); A_q q = b  (1 row),  q_p = v_pᵀ M v_p  (5 measurements)
                  M ∈ S², M ⪰ 0
                  T1 ∈ S², T1 ⪰ 0
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
        """The program of the module's docstring."""
        count, size = self.values.shape
        blocks = [_arrow(len(group), k) for k, group in enumerate(self.groups)]
        # The measurements of a T are its ends, one per root, and then its corner.
        starts = np.cumsum([0, *(block.size for block in blocks)])
        places = zip(self.groups, starts[:-1], strict=True)
        ends = np.concatenate([group - group[0] + first for group, first in places])
        columns = np.concatenate([ends, starts[1:] - 1])
        picked = (np.ones(columns.size), (np.arange(columns.size), columns))
        rows_q: Any = sp.csr_array(picked, shape=(columns.size, columns.size))
        rows_q = sp.vstack([sp.csr_array((1, columns.size)), rows_q])
        rows_x = None
        if self.diagonal:
            rows_x = np.vstack([np.ones(size), -self.values, np.zeros((len(blocks), size))])
        else:
            vectors, every = np.vstack([np.eye(size), self.values]), sp.eye_array(size + count)
            blocks = [Block.of(size, every, name="M", features=vectors), *blocks]
            limit = np.r_[np.ones(size), np.zeros(count)][None, :]
            lengths = sp.hstack([sp.csr_array((count, size)), -sp.eye_array(count)])
            corners = sp.csr_array((len(blocks) - 1, size + count))
            rows_q = sp.hstack([sp.vstack([sp.csr_array(limit), lengths, corners]), rows_q])
        squares = self.values if self.diagonal else np.square(self.values)
        return Program.of(
            blocks,
            np.r_[1.0, np.zeros(count), np.ones(len(self.groups))],
            rows_q=sp.csr_array(rows_q),
            rows_x=rows_x,
            relations=np.r_[-np.ones(1 + count), np.zeros(len(self.groups))],
            # The value at M = I/d, of the optimum's order.
            safe=SafeBounds(value_scale=float(np.sqrt(squares.sum(axis=1) / size).sum())),
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
        if count < 1 or len(program.blocks) != -(-count // _GROUP) + (not diagonal):
            return None  # before anything dense is made of it
        first = program.blocks[0]
        if diagonal:
            values = -program.rows_x.toarray()[1 : 1 + count]
        elif first.features is not None and len(first.features) == first.size + count:
            values = first.features[first.size :]
        else:
            return None
        if np.any(np.abs(values).max(axis=1) == 0):
            return None  # the root of nothing, and nothing to divide by
        found = cls(np.asarray(values), diagonal)
        return found if found.program().fingerprint == program.fingerprint else None


def _arrow(count: int, number: int) -> Block:
    """The block T of some roots: Σ s_p is the cost, the diagonal is measured."""
    ends, corner = np.arange(count), np.full(count, count)
    arrow = (np.full(2 * count, 0.5), (np.r_[ends, corner], np.r_[corner, ends]))
    cost = Cost.of(count + 1, sparse=sp.csr_array(arrow, shape=(count + 1, count + 1)))
    every = sp.eye_array(count + 1, format="csr")
    return Block.of(count + 1, every, name=f"T{number + 1}", cost=cost)
