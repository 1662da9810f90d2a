"""Programs that are feasible or infeasible by a hair, with the truth known exactly.

    weakly infeasible    no point meets the rows, but points of any small residual exist, far out
    on a face            feasible, without an interior
    unattained           feasible and bounded, but no point has the optimal value
    unbounded            strictly feasible, with a direction that improves without end

All of it in integers, in random coordinates (integer matrices of determinant ±1), with rows mixed
and scaled by powers of two, beside other blocks and variables. `rotated` takes a program to random
orthogonal coordinates, where rounding makes the truth of the data another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fuzzing.planted import unimodular
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.form import Program
from sdpkit.solution.solution import Status
from sdpkit.typing import Array, Bools

Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class MatrixProgram:
    """max <C, M> + cᵀx with <A_e, M> + a_eᵀx = b_e; x nonnegative or free.

    Attributes
    ----------
    matrices: (m, n, n);  linear: (m, k);  rhs: (m,)
    cost: (n, n);  cost_x: (k,);  free: (k,) booleans
    """

    matrices: Array
    linear: Array
    rhs: Array
    cost: Array
    cost_x: Array
    free: Bools

    @classmethod
    def of(cls, matrices: list[Array], rhs: list[float], cost: Array) -> MatrixProgram:
        """Without variables."""
        m, none = len(rhs), np.zeros(0)
        return cls(
            np.array(matrices, dtype=float),
            np.zeros((m, 0)),
            np.array(rhs, dtype=float),
            np.asarray(cost, dtype=float),
            none,
            none.astype(bool),
        )

    def program(self) -> Program:
        """Matrices written by squared lengths of e_i and e_i + e_j."""
        n = len(self.cost)
        i, j = np.triu_indices(n, 1)
        eye = np.eye(n)
        diagonal = 2 * np.diagonal(self.matrices, axis1=1, axis2=2) - self.matrices.sum(axis=2)
        return Program.of(
            Block.of(n, np.vstack([eye, eye[i] + eye[j]]), cost=Cost.of(n, sparse=self.cost)),
            self.rhs,
            rows_q=np.hstack([diagonal, self.matrices[:, i, j]]),
            rows_x=sp.csr_array(self.linear),
            cost_x=self.cost_x,
            free_x=self.free,
        )


def entry(n: int, i: int, j: int, value: float = 1.0) -> Array:
    """The symmetric (n, n) matrix with <A, M> = value · M_ij."""
    out = np.zeros((n, n))
    out[i, j] += value / 2
    out[j, i] += value / 2
    return out


# -- weakly infeasible ----------------------------------------------------------------------


def pair(rng: Rng) -> MatrixProgram:
    """M₁₁ = 0 and M₁₂ = 1."""
    n = int(rng.integers(3, 6))
    return MatrixProgram.of([entry(n, 0, 0), entry(n, 0, 1, 2.0)], [0, 2], entry(n, n - 1, n - 1))


def ladder(rng: Rng) -> MatrixProgram:
    """M₁₁ = 0, M_{k+1,k+1} = M_{k,k+2}, and the last entry of the diagonal is 1.

    The residual that a point of size s needs falls like s to the power of 1 − 2^steps.
    """
    steps = int(rng.integers(2, 4))
    n = steps + 3
    rows, rhs = [entry(n, 0, 0)], [0.0]
    for k in range(steps):
        rows.append(entry(n, k + 1, k + 1) - entry(n, k, k + 2))
        rhs.append(0.0)
    rows.append(entry(n, steps, steps + 1, 2.0))
    return MatrixProgram.of(rows, [*rhs, 2.0], entry(n, n - 1, n - 1))


def hankel(rng: Rng) -> MatrixProgram:
    """Moments m₀ = 0 and m₁ = 1 of a Hankel matrix, whose last moment is worth something."""
    n = int(rng.integers(3, 5))
    rows, rhs = [entry(n, 0, 0), entry(n, 0, 1, 2.0)], [0.0, 2.0]
    for i in range(n - 1):
        for j in range(i + 2, n):
            rows.append(entry(n, i, j, 2.0) - entry(n, i + 1, j - 1, 2.0))
            rhs.append(0.0)
    return MatrixProgram.of(rows, rhs, entry(n, n - 1, n - 1))


def with_slack(rng: Rng) -> MatrixProgram:
    """M₁₁ + x₁ = 0 with x₁ ≥ 0, and M₁₂ + x₂ = 1 where the free x₂ has an equation x₂ = 0."""
    n = int(rng.integers(3, 5))
    draft = MatrixProgram.of(
        [entry(n, 0, 0), entry(n, 0, 1, 2.0), np.zeros((n, n))], [0, 2, 0], entry(n, n - 1, n - 1)
    )
    return replace(
        draft,
        linear=np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]),
        cost_x=np.zeros(2),
        free=np.array([False, True]),
    )


# -- feasible -------------------------------------------------------------------------------


def on_a_face(rng: Rng) -> MatrixProgram:
    """M₁₁ = 0, M₂₂ = 1, M₂₃ = 1, M₃₃ = 2: feasible with M₁₂ = M₁₃ = 0 only; max −M₃₃."""
    n = 3
    rows = [entry(n, 0, 0), entry(n, 1, 1), entry(n, 1, 2), entry(n, 2, 2)]
    return MatrixProgram.of(rows, [0, 1, 1, float(rng.integers(2, 4))], -entry(n, 2, 2))


def unattained(rng: Rng) -> MatrixProgram:
    """max −M₁₁ with M₁₂ = c: zero is the supremum, and no point has it."""
    n = int(rng.integers(2, 5))
    return MatrixProgram.of([entry(n, 0, 1, 2.0)], [float(rng.integers(1, 5))], -entry(n, 0, 0))


def far(rng: Rng) -> MatrixProgram:
    """M₁₁ = 2^-k and M₁₂ = 1, max −M₃₃: points are as large as 2^k."""
    n = 3
    small = float(2.0 ** -int(rng.integers(4, 24)))
    return MatrixProgram.of([entry(n, 0, 0), entry(n, 0, 1, 2.0)], [small, 2], -entry(n, 2, 2))


def unbounded(rng: Rng) -> MatrixProgram:
    """tr M = n on the first n coordinates, M₁₂ = 0, and the last entry of the diagonal is free."""
    n = int(rng.integers(3, 6))
    trace = np.diag(np.r_[np.ones(n - 1), 0.0])
    return MatrixProgram.of([trace, entry(n, 0, 1, 2.0)], [n - 1.0, 0.0], entry(n, n - 1, n - 1))


def unbounded_on_a_face(rng: Rng) -> MatrixProgram:
    """M₁₁ = 0, M₂₂ = 1, max M₃₃: there is no interior."""
    n = int(rng.integers(3, 5))
    return MatrixProgram.of([entry(n, 0, 0), entry(n, 1, 1)], [0, 1], entry(n, n - 1, n - 1))


# -- the same, disguised --------------------------------------------------------------------


def disguised(draft: MatrixProgram, rng: Rng, scale: int = 0) -> MatrixProgram:
    """The rows mixed and scaled by up to 2^±scale, M in other coordinates: the truth stays."""
    m, n = len(draft.rhs), len(draft.cost)
    p, _ = unimodular(rng, n)
    mix = np.tril(rng.integers(-1, 2, (m, m)), -1) + np.eye(m) if rng.random() < 0.7 else np.eye(m)
    units = np.exp2(rng.integers(-scale, scale + 1, m)) if scale else np.ones(m)
    mix = units[:, None] * mix
    turned = p.T @ draft.matrices @ p
    return replace(
        draft,
        matrices=np.einsum("ef,fij->eij", mix, turned),
        linear=mix @ draft.linear,
        rhs=mix @ draft.rhs,
        cost=p.T @ draft.cost @ p,
    )


def embedded(draft: MatrixProgram, rng: Rng) -> MatrixProgram:
    """Beside one more row that limits a larger part of M and a variable of its own."""
    n, m = len(draft.cost), len(draft.rhs)
    larger = np.zeros((m + 1, n + 1, n + 1))
    larger[:m, :n, :n] = draft.matrices
    larger[m, n, n] = 1.0
    linear = np.zeros((m + 1, draft.linear.shape[1] + 1))
    linear[:m, :-1] = draft.linear
    linear[m, -1] = float(rng.integers(1, 4))
    cost = np.zeros((n + 1, n + 1))
    cost[:n, :n] = draft.cost
    return MatrixProgram(
        larger,
        linear,
        np.r_[draft.rhs, float(rng.integers(1, 5))],
        cost,
        np.r_[draft.cost_x, 0.0],
        np.r_[draft.free, False],
    )


def rotated(draft: MatrixProgram, rng: Rng, size: float = 1.0) -> MatrixProgram:
    """In random orthogonal coordinates and units: rounding moves the truth, a little."""
    n = len(draft.cost)
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    turned = q.T @ draft.matrices @ q
    cost = q.T @ draft.cost @ q
    return replace(
        draft,
        matrices=(turned + turned.transpose(0, 2, 1)) / 2,
        cost=(cost + cost.T) / 2,
        rhs=size * draft.rhs,
    )


INFEASIBLE: Mapping[str, Callable[[Rng], MatrixProgram]] = {
    "pair": pair,
    "ladder": ladder,
    "hankel": hankel,
    "with_slack": with_slack,
}
FEASIBLE: Mapping[str, Callable[[Rng], MatrixProgram]] = {
    "on_a_face": on_a_face,
    "unattained": unattained,
    "far": far,
}
UNBOUNDED: Mapping[str, Callable[[Rng], MatrixProgram]] = {
    "unbounded": unbounded,
    "unbounded_on_a_face": unbounded_on_a_face,
}


def complaint(status: Status, kind: str) -> str:
    """What is wrong with a status of a program of this kind, or the empty string."""
    if kind in INFEASIBLE:
        wrong = status is Status.UNBOUNDED
    elif kind in FEASIBLE:
        # A sign of the dual's infeasibility is no error here, a claim about the program is.
        wrong = status in (Status.UNBOUNDED, Status.INFEASIBLE)
    else:
        wrong = status in (Status.INFEASIBLE, Status.OPTIMAL)
    return f"{kind} ended {status}" if wrong else ""
