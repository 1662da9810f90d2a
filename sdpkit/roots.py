"""Sums of square roots of squared lengths, as a program in squared lengths.

    maximise Σ_p √q_p   over  M ⪰ 0,  tr M ≤ 1

with q_p = v_pᵀ M v_p, or q_p = Σ_j m_j v_pj² where M is diagonal.

√q_p is the entry s_p of [[t_p, s_p], [s_p, 1]] ⪰ 0 with t_p ≤ q_p. These matrices share their
entry 1; they are the principal minors of one T, whose other entries are free (a chordal pattern
can always be completed). The rows, in this order:

    tr M ≤ 1,     t_p − q_p ≤ 0  for every p,     T_corner = 1

with multipliers τ, a_p and β; the dual is  min τ + β,  τI ⪰ Σ a_p v_p v_pᵀ,  β ≥ Σ 1/(4a_p).
A solver for such sums knows them by `Roots.of`, never by their problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.program import Block, Cost, Program, SafeBounds

Array = NDArray[np.float64]


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
      maximise    <C, T>,  C = sparse (2 nonzeros)
      subject to  A_q q ≤ b  (2 rows); A_q q = b  (1 row),  q_p = v_pᵀ M v_p  (5 measurements)
                  M ∈ S², M ⪰ 0
                  T ∈ S², T ⪰ 0
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
        ends, corner = np.arange(count), np.full(count, count)
        arrow = (np.full(2 * count, 0.5), (np.r_[ends, corner], np.r_[corner, ends]))
        every = sp.eye_array(count + 1, format="csr")
        cost = Cost.of(count + 1, sparse=sp.csr_array(arrow, shape=(count + 1, count + 1)))
        roots, nothing = (
            Block.of(count + 1, every, name="T", cost=cost),
            sp.csr_array((1, count + 1)),
        )
        blocks, rows_x = [roots], None
        if self.diagonal:
            rows_q = sp.vstack([nothing, every])
            rows_x = np.vstack([np.ones(size), -self.values, np.zeros(size)])
            fair = float(np.sqrt(self.values.sum(axis=1) / size).sum())
        else:
            blocks = [Block.of(size, np.vstack([np.eye(size), self.values]), name="M"), roots]
            limit = np.r_[np.ones(size), np.zeros(count)][None, :]
            lengths: Any = sp.hstack([sp.csr_array((count, size)), -sp.eye_array(count)])
            lengths = sp.vstack([lengths, sp.csr_array((1, size + count))])
            rows_q = sp.vstack([sp.hstack([limit, nothing]), sp.hstack([lengths, every])])
            fair = float(np.sqrt(np.square(self.values).sum(axis=1) / size).sum())
        return Program.of(
            blocks,
            np.r_[1.0, np.zeros(count), 1.0],
            rows_q=sp.csr_array(rows_q),
            rows_x=rows_x,
            relations=np.r_[-np.ones(1 + count), 0],
            safe=SafeBounds(value_scale=fair),  # the value at M = I/d, of the optimum's order
            notes=notes,
            name=name,
        )

    @classmethod
    def of(cls, program: Program) -> Roots | None:
        """The sum of roots that a program is, or None."""
        count = program.n_rows - 2
        shapes = count >= 1 and program.blocks[-1].size == count + 1 and program.sense == "max"
        if not shapes or program.family is not None or len(program.blocks) > 2:
            return None
        if len(program.blocks) == 1:
            values = -program.rows_x.toarray()[1:-1]
        else:
            vectors = program.blocks[0].vectors().toarray()
            values = vectors[program.blocks[0].size :]
        if values.shape[0] != count or values.shape[1] < 1:
            return None
        found = cls(np.asarray(values), len(program.blocks) == 1)
        return found if found.program().fingerprint == program.fingerprint else None
