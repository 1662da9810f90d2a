"""More planted programs: optima that are hard to see, and programs without an interior.

    dense         random real data, blocks up to 12 × 12, up to 15 rows and a limit on the trace
    scaled        rows, vectors, blocks or costs times powers of two up to 2^±20
    offset        a constant of 1e3 to 1e6 in the objective; half of the time it cancels the rest
    zero          multipliers of 1e2 to 1e6 that cancel, so that the optimum is nearly zero
    cones         a cvxpy model: linear rows, second-order cones and one matrix inequality
    facial        a row that only a face of the cone meets; the dual keeps its interior
    unattained    points approach the optimum and none has it
    weak_hidden   weakly infeasible, its rows written in entries of the matrix
    weak_beside   a weakly infeasible block beside a solvable program

The first five have interior points on both sides. The data of `dense` and `cones` are real
numbers: their optimum is known up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzzing.planted import (
    KINDS,
    Planted,
    Rng,
    congruent,
    infeasible,
    measure,
    negated,
    rescaled,
    solvable,
    unbounded,
    unimodular,
    weak,
)
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.cost import dense as as_dense
from sdpkit.program.form import Program
from sdpkit.solution.solution import Status
from sdpkit.typing import Array


def product(first: Sequence[float] | Array, second: Sequence[float] | Array) -> Fraction:
    """The exact inner product of two vectors of floating-point numbers."""
    terms = (Fraction(a) * Fraction(b) for a, b in zip(first, second, strict=True))
    return sum(terms, Fraction(0))


def dense(rng: Rng) -> Planted:
    """max <C, M> over random real rows, with M and S of complementary ranks."""
    sizes = [int(rng.integers(3, 13)), *rng.integers(2, 5, int(rng.integers(0, 2))).tolist()]
    vectors, primal, slack = [], [], []
    for n in sizes:
        u = np.linalg.qr(rng.standard_normal((n, n)))[0]
        positive = np.arange(n) < rng.integers(1, n)
        values = rng.uniform(0.5, 3, n)
        primal.append((u * (values * positive)) @ u.T)
        slack.append((u * (values * ~positive)) @ u.T)
        vectors.append(np.vstack([np.eye(n), rng.standard_normal((n, n))]))
    # The interior point: a multiple of the identity with half of the planted trace.
    total = sum(np.trace(m) for m in primal)
    q = measure(vectors, primal)
    inside = measure(vectors, [np.eye(n) * total / (2 * sum(sizes)) for n in sizes])
    rows = rng.standard_normal((int(rng.integers(2, 16)), q.size))
    rows = rows[: sum(n * (n + 1) // 2 for n in sizes) // 2]
    equal, active = rng.random(len(rows)) < 0.6, rng.random(len(rows)) < 0.6
    step = inside - q
    rows[equal] -= np.outer(rows[equal] @ step, step) / (step @ step)
    relations = np.where(equal, 0.0, np.sign(rows @ step))
    rhs = rows @ q - np.where(active, 0.0, relations * rng.uniform(0.5, 2, len(rows)))
    dual = np.where(equal, 1.0, active * -relations) * rng.uniform(0.3, 2, len(rows))
    dual *= np.where(equal, rng.choice([-1.0, 1.0], len(rows)), 1.0)
    trace = np.concatenate([np.r_[np.ones(n), np.zeros(n)] for n in sizes])
    rows, relations = np.vstack([rows, trace]), np.r_[relations, -1]
    rhs, dual = np.r_[rhs, total], np.r_[dual, rng.uniform(0.3, 2)]
    weights = np.split(rows.T @ dual, np.cumsum([len(v) for v in vectors])[:-1])
    blocks = [
        Block.of(n, v, cost=Cost.of(n, sparse=(v.T * w) @ v - s), name=f"M{k + 1}")
        for k, (n, v, w, s) in enumerate(zip(sizes, vectors, weights, slack, strict=True))
    ]
    program = Program.of(blocks, rhs, rows_q=rows, relations=relations, name="planted, dense")
    optimum = product(rhs, dual)
    planted = Planted(program, Status.OPTIMAL, optimum, tuple(primal), np.zeros(0), dual)
    planted = replace(planted, exact=False)
    return negated(planted) if rng.random() < 0.4 else planted


def plain(rng: Rng) -> Planted:
    """A program with interior points on both sides, of integers or of real numbers."""
    return solvable(rng) if rng.random() < 0.6 else dense(rng)


def scaled(rng: Rng) -> Planted:
    """A plain program in units that differ by up to 2^±20."""
    planted, span = plain(rng), int(rng.choice([8, 14, 20]))
    ways = (rescaled, with_other_costs, with_other_rows, with_other_blocks)
    return ways[int(rng.integers(len(ways)))](planted, rng, span)


def with_other_costs(planted: Planted, rng: Rng, span: int) -> Planted:
    """The objective times a power of two."""
    return grown(planted, int(rng.integers(-span, span + 1)))


def with_other_rows(planted: Planted, rng: Rng, span: int) -> Planted:
    """Every row times a power of two."""
    program = planted.program
    times = np.ldexp(1.0, rng.integers(-span, span + 1, program.n_rows))
    program = replace(
        program,
        rows_q=sp.csr_array(sp.diags_array(times) @ program.rows_q),
        rows_x=sp.csr_array(sp.diags_array(times) @ program.rows_x),
        rhs=times * program.rhs,
    )
    return replace(
        planted, program=program, dual=None if planted.dual is None else planted.dual / times
    )


def with_other_blocks(planted: Planted, rng: Rng, span: int) -> Planted:
    """Every block times a power of two."""
    blocks, matrices = [], []
    for block, m in zip(planted.program.blocks, planted.matrices, strict=True):
        d = float(np.ldexp(1.0, int(rng.integers(-span // 2, span // 2 + 1))))
        blocks.append(congruent(block, np.eye(block.size) / d))
        matrices.append(m * d * d)
    program = replace(planted.program, blocks=tuple(blocks))
    return replace(planted, program=program, matrices=tuple(matrices))


def offset(rng: Rng) -> Planted:
    """A plain program with a constant in the objective."""
    return with_offset(plain(rng) if rng.random() < 0.7 else scaled(rng), rng)


def with_offset(planted: Planted, rng: Rng) -> Planted:
    """Add a constant; where there is an optimum, half of the time one that cancels most of it."""
    constant = float(np.rint(rng.choice([-1, 1]) * 10 ** rng.uniform(3, 6)))
    optimum = planted.optimum
    if optimum is not None and rng.random() < 0.5:
        if rng.random() < 0.5:
            planted = grown(planted, int(np.ceil(np.log2(abs(constant)))))
            assert planted.optimum is not None
            optimum = planted.optimum
        constant = -float(optimum) + float(rng.choice([0.0, 0.0, 1e-3, 1.0]))
    program = replace(planted.program, offset=constant)
    return replace(
        planted, program=program, optimum=None if optimum is None else optimum + Fraction(constant)
    )


def grown(planted: Planted, power: int) -> Planted:
    """The objective times 2^power."""
    program, factor = planted.program, float(np.ldexp(1.0, power))
    program = replace(
        program,
        blocks=tuple(replace(b, cost=b.cost.scaled(factor)) for b in program.blocks),
        cost_q=factor * program.cost_q,
        cost_x=factor * program.cost_x,
    )
    return replace(
        planted,
        program=program,
        optimum=None if planted.optimum is None else planted.optimum * Fraction(factor),
        dual=None if planted.dual is None else planted.dual * factor,
    )


def zero(rng: Rng) -> Planted:
    """A plain program whose multipliers are shifted along equations until bᵀw vanishes."""
    while True:
        planted = plain(rng)
        program = planted.program
        equations = np.flatnonzero((program.relations == 0) & (program.rhs != 0))
        if equations.size >= 2:
            break
    b = program.rhs
    f, e = sorted(rng.choice(equations, 2, replace=False), key=lambda row: abs(b[row]))
    shift = np.zeros(program.n_rows)
    # Along (b_f, −b_e) the value stays, whatever the size of the terms.
    times = np.ceil(10 ** rng.uniform(2, 6) / abs(b[e]))
    shift[e], shift[f] = times * b[f], -times * b[e]
    assert planted.optimum is not None
    assert planted.dual is not None
    rest = float(planted.optimum + product(shift, b)) / b[e]
    shift[e] -= np.ldexp(np.rint(np.ldexp(rest, 20)), -20)
    program = replace(
        program,
        cost_q=program.cost_q + program.rows_q.T @ shift,
        cost_x=program.cost_x + program.rows_x.T @ shift,
        name="planted, optimum near zero",
    )
    return replace(
        planted,
        program=program,
        optimum=planted.optimum + product(shift, b),
        dual=planted.dual + shift,
    )


def cones(rng: Rng) -> Planted:
    """A cvxpy model with an active cone ‖Fz + f‖ ≤ gᵀz + h, active rows and X ⪰ 0."""
    import cvxpy as cp

    import sdpkit

    k, n = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    at, inwards = rng.standard_normal(k), rng.standard_normal(k)
    z, x = cp.Variable(k), cp.Variable((n, n), PSD=True)
    # The planted point and the room along `inwards`: every active constraint gains there.
    limits: list[Any] = [cp.abs(z - at) <= 4]
    cost = np.zeros(k)
    for _ in range(int(rng.integers(1, 3))):
        a, fixed = rng.standard_normal((3, k)), rng.standard_normal(3)
        norm = float(np.linalg.norm(a @ at + fixed))
        g = rng.standard_normal(k)
        wanted = np.linalg.norm(a @ inwards) + rng.uniform(0.5, 1)
        g += (wanted - g @ inwards) / (inwards @ inwards) * inwards
        limits.append(cp.norm(a @ z + fixed) <= g @ z + (norm - g @ at))
        cost += rng.uniform(0.3, 2) * (g - a.T @ (a @ at + fixed) / norm)
    row = rng.standard_normal(k)
    row *= np.sign(row @ inwards)
    limits.append(row @ z >= row @ at)
    cost += rng.uniform(0.3, 2) * row
    u = np.linalg.qr(rng.standard_normal((n, n)))[0]
    rank = np.arange(n) < rng.integers(1, n)
    primal, slack = (u * (2.0 * rank)) @ u.T, (u * (1.0 * ~rank)) @ u.T
    joint = np.linalg.qr(rng.standard_normal((n, n)))[0]
    joint = (joint + joint.T) / 2
    limits += [cp.trace(x) <= np.trace(primal) + 3]
    # One inequality couples X and z; it gains along (½I, inwards).
    line = rng.standard_normal(k)
    line += (1 - np.trace(joint) / 2 - line @ inwards) / (inwards @ inwards) * inwards
    level = np.sum(joint * primal) + line @ at
    limits.append(cp.trace(joint @ x) + line @ z >= level)
    weight = rng.uniform(0.3, 2)
    matrix, cost = slack + weight * joint, cost + weight * line
    optimum = float(np.sum(matrix * primal) + cost @ at)
    times, way = float(rng.choice([-1, 1])), rng.random()
    constant = float(np.rint(rng.choice([-1, 1]) * 10 ** rng.uniform(3, 6)))
    if way < 0.4:
        times *= 10 ** rng.uniform(0, 6)
        constant = -times * optimum
    elif way < 0.6:
        constant = 0.0
    value = cp.trace(times * matrix @ x) + times * cost @ z + constant
    model = cp.Problem(cp.Minimize(value) if times > 0 else cp.Maximize(value), limits)
    total = Fraction(times * optimum) + Fraction(constant)
    program = sdpkit.from_cvxpy(model)
    return Planted(program, Status.OPTIMAL, total, exact=False, model=model)


def facial(rng: Rng) -> Planted:
    """A block gets a coordinate more, and a row among the others that holds it at zero."""
    planted = solvable(rng)
    program = planted.program
    k = int(rng.integers(len(program.blocks)))
    block, n = program.blocks[k], program.blocks[k].size
    _, inverse = unimodular(rng, n + 1)
    v = np.zeros((block.n_measurements + 1, n + 1))
    v[:-1, :n] = as_dense(block.vectors())
    v[-1, n] = 1.0
    cost = np.zeros((n + 1, n + 1))
    cost[:n, :n] = block.cost.dense()
    cost[n] = cost[:, n] = rng.integers(-2, 3, n + 1)
    larger = Block.of(
        n + 1, v @ inverse, cost=Cost.of(n + 1, sparse=inverse.T @ cost @ inverse), name=block.name
    )
    last = program.spans[k].stop
    rows = program.rows_q.toarray()
    # The new measurement has any coefficient in the old rows, and a row of its own.
    column = rng.integers(-1, 2, program.n_rows).astype(float)
    rows = np.insert(rows, last, column, axis=1)
    rows = np.vstack([rows, np.eye(1, rows.shape[1], last)])
    program = replace(
        program,
        blocks=(*program.blocks[:k], larger, *program.blocks[k + 1 :]),
        rows_q=sp.csr_array(rows),
        rows_x=sp.csr_array(np.vstack([program.rows_x.toarray(), np.zeros(program.n_auxiliary)])),
        relations=np.r_[program.relations, 0].astype(np.int8),
        rhs=np.r_[program.rhs, 0.0],
        cost_q=np.insert(program.cost_q, last, 0.0),
        name="planted, on a face",
    )
    return Planted(program, Status.OPTIMAL, planted.optimum, strong=False)


def unattained(rng: Rng) -> Planted:
    """min M₁₁ + M₃₃, M₁₂ = b, M₃₃ ≥ c in random coordinates: c, while M₂₂ grows without end."""
    p, _ = unimodular(rng, 3)
    v = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]) @ p
    rows = np.array([[-0.5, -0.5, 0.5, 0], [0, 0, 0, 1]])
    b, c = float(rng.integers(1, 4)), float(rng.integers(0, 3))
    cost = np.outer(v[0], v[0]) + np.outer(v[3], v[3])
    program = Program.of(
        Block.of(3, v, cost=Cost.of(3, sparse=cost)),
        [b, c],
        sense="min",
        rows_q=rows,
        relations=[0, 1],
        name="optimum not attained",
    )
    planted = Planted(program, Status.OPTIMAL, Fraction(c), strong=False)
    return negated(planted) if rng.random() < 0.5 else planted


def weak_hidden(rng: Rng) -> Planted:
    """aᵀMa = 0 and aᵀMc = 1, written in entries of M, and something to maximise besides."""
    n = int(rng.integers(3, 5))
    p = np.eye(n)
    if rng.random() < 0.5:
        p[:2, :2] = unimodular(rng, 2)[0]
    else:
        p = unimodular(rng, n)[0]
    a, c, other = p[:3]
    first, second = np.outer(a, a), np.outer(a, c) + np.outer(c, a)
    second = second + float(rng.integers(-2, 3)) * first
    vectors, rows = entries(n, [first, second])
    worth = float(rng.choice([0, 1, 1, 2]))
    cost = Cost.of(n, sparse=worth * np.outer(other, other))
    program = Program.of(
        Block.of(n, vectors, cost=cost), [0.0, 2.0], rows_q=rows, name="weakly infeasible, hidden"
    )
    return Planted(program, Status.INFEASIBLE, strong=False)


def entries(n: int, matrices: Sequence[Array]) -> tuple[Array, Array]:
    """(V, rows): squared lengths of e_i and e_i + e_j, and the matrices as combinations of them."""
    i, j = np.triu_indices(n, 1)
    vectors = np.vstack([np.eye(n), np.eye(n)[i] + np.eye(n)[j]])
    rows = [np.r_[2 * np.diag(m) - m.sum(axis=1), m[i, j]] for m in matrices]
    return vectors, np.array(rows)


def weak_beside(rng: Rng) -> Planted:
    """A solvable program and a weakly infeasible one, in one."""
    kind = weak if rng.random() < 0.5 else weak_hidden
    first, second = solvable(rng).program, kind(rng).program
    if first.sense == "min":
        second = negated(Planted(second, Status.INFEASIBLE)).program
    program = replace(
        first,
        blocks=(*first.blocks, *second.blocks),
        rows_q=sp.csr_array(sp.block_diag([first.rows_q, second.rows_q])),
        rows_x=sp.csr_array(
            np.vstack([first.rows_x.toarray(), np.zeros((second.n_rows, first.n_auxiliary))])
        ),
        relations=np.r_[first.relations, second.relations].astype(np.int8),
        rhs=np.r_[first.rhs, second.rhs],
        cost_q=np.r_[first.cost_q, second.cost_q],
        name="weakly infeasible beside a solvable program",
    )
    return Planted(program, Status.INFEASIBLE, strong=False)


def _dressed(kind: Callable[[Rng], Planted]) -> Callable[[Rng], Planted]:
    """The kind, half of the time in other units or with a constant in the objective."""

    def drawn(rng: Rng) -> Planted:
        planted, way = kind(rng), rng.random()
        if way < 0.25:
            return rescaled(planted, rng, 8)
        return with_offset(planted, rng) if way < 0.5 else planted

    return drawn


# Every kind and how often it is drawn.
ALL_KINDS: dict[str, tuple[Callable[[Rng], Planted], float]] = {
    "solvable": (solvable, 0.14),
    "dense": (dense, 0.1),
    "scaled": (scaled, 0.14),
    "offset": (offset, 0.14),
    "zero": (zero, 0.14),
    "cones": (cones, 0.08),
    "mixed": (KINDS["mixed"], 0.04),
    "log_det": (KINDS["log_det"], 0.03),
    "hinges": (KINDS["hinges"], 0.03),
    "infeasible": (_dressed(infeasible), 0.03),
    "unbounded": (_dressed(unbounded), 0.03),
    "weak": (_dressed(weak), 0.01),
    "weak_hidden": (_dressed(weak_hidden), 0.015),
    "weak_beside": (weak_beside, 0.005),
    "gap": (_dressed(KINDS["gap"]), 0.02),
    "facial": (facial, 0.03),
    "unattained": (unattained, 0.02),
}
