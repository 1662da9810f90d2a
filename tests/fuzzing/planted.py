"""Random small programs whose answer is known exactly.

All data are integers, or integers times powers of two, so that optimum and status are facts about
the floating-point numbers and can be compared with answers in rational arithmetic.

    solvable      strictly feasible on both sides, the optimum is an integer
    infeasible    strictly feasible rows and one that contradicts them
    unbounded     strictly feasible, with a direction that improves without end
    weak          infeasible, though points of any small residual exist
    gap           no interior: the optimal values of program and dual differ
    mixed         a solvable one in other units: coordinates, null directions and repeated rows
                  times powers of two, equations written as inequalities
    log_det       strictly feasible, with a weighted log det, the optimum an integer plus β·k·log 2
    hinges        a family of comparisons, some active, some violated at the optimum
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpkit.program.block import Block
from sdpkit.program.cost import Cost, dense
from sdpkit.program.families import Rows
from sdpkit.program.form import Program
from sdpkit.program.listed_rows import ListedRows
from sdpkit.solution.solution import Status
from sdpkit.typing import Array, Bools

Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Planted:
    """A program with what is true of it.

    Attributes
    ----------
    status: optimal, infeasible or unbounded
    optimum: exact where the status is optimal
    matrices, x, dual: an optimal pair, in the program's own signs, where one was planted
    rows: the comparisons that `dual` belongs to, where the program has a family
    strong: whether interior points exist on both sides
    exact: whether the optimum is that of the floating-point data, or near it by rounding
    model: the cvxpy model that the program comes from, if any
    """

    program: Program
    status: Status
    optimum: Fraction | None = None
    matrices: tuple[Array, ...] = ()
    x: Array | None = None
    dual: Array | None = None
    rows: Rows | None = None
    strong: bool = True
    exact: bool = True
    model: Any = None


@dataclass
class _Draft:
    """A maximisation under construction: integer rows and an optimal pair."""

    vectors: list[Array]
    primal: list[Array]
    slack: list[Array]
    inner: list[Array]
    x: Array
    x_inner: Array
    free: Bools
    rows_q: Array
    rows_x: Array
    relations: Array
    rhs: Array
    dual: Array


def unimodular(rng: Rng, n: int) -> tuple[Array, Array]:
    """An integer matrix of determinant ±1 and its inverse, which is one too."""
    p, inverse = np.eye(n), np.eye(n)
    for _ in range(rng.integers(0, 2 * n) if n > 1 else 0):
        i, j = rng.choice(n, 2, replace=False)
        k = float(rng.integers(-1, 2))
        p[:, j] += k * p[:, i]
        inverse[i] -= k * inverse[j]
    return p, inverse


def _pair(rng: Rng, n: int) -> tuple[Array, Array]:
    """Positive semidefinite integer M and S with MS = 0."""
    p, inverse = unimodular(rng, n)
    rank = int(rng.integers(0, n + 1))
    values = rng.integers(1, 5, n).astype(float)
    first = np.arange(n) < rank
    return (p * (values * first)) @ p.T, (inverse.T * (values * ~first)) @ inverse


def _draft(rng: Rng) -> _Draft:
    sizes = [int(rng.integers(1, 6)) for _ in range(rng.integers(1, 4))]
    pairs = [_pair(rng, n) for n in sizes]
    n_x = int(rng.choice([0, 0, 1, 2, 3]))
    free = rng.random(n_x) < 0.3
    x = np.where(free, rng.integers(-3, 4, n_x), rng.integers(0, 4, n_x) * (rng.random(n_x) < 0.6))
    x = x.astype(float)
    # Room below the planted trace for a multiple of the identity.
    primal = [m + 0.0 for m, _ in pairs]
    total = sum(np.trace(m) for m in primal) + x[~free].sum()
    room = sum(sizes) + (~free).sum()
    grow = float(np.ceil((room + 1) / total)) if total else 0.0
    if total:
        primal, x = [grow * m for m in primal], np.where(free, x, grow * x)
    inner = [np.eye(n) for n in sizes]
    x_inner = np.where(free, rng.integers(-2, 3, n_x), 1.0)
    vectors = [
        np.vstack([np.eye(n), rng.integers(-2, 3, (int(rng.integers(0, n + 2)), n))]).astype(float)
        for n in sizes
    ]
    q = measure(vectors, primal)
    q_inner = measure(vectors, inner)
    m = int(rng.integers(1, min(8, sum(sizes) + 2)))
    rows_q = rng.integers(-2, 3, (m, q.size)) * (rng.random((m, q.size)) < 0.5)
    rows_x = rng.integers(-2, 3, (m, n_x)) * (rng.random((m, n_x)) < 0.6)
    rows_q, rows_x = rows_q.astype(float), rows_x.astype(float)
    relations = np.where(rng.random(m) < 0.6, 0, rng.choice([-1, 1], m))
    dual = rng.integers(-3, 4, m).astype(float)
    rhs = np.zeros(m)
    for e in range(m):
        at, inside = rows_q[e] @ q + rows_x[e] @ x, rows_q[e] @ q_inner + rows_x[e] @ x_inner
        if relations[e] == 0 and at != inside:
            # Make both points meet the row by one more coefficient.
            change = q_inner - q
            able = np.flatnonzero(change)
            if not able.size:
                relations[e] = -1
            else:
                k = able[int(rng.integers(able.size))]
                rows_q[e], rows_x[e] = rows_q[e] * abs(change[k]), rows_x[e] * abs(change[k])
                rows_q[e, k] -= np.sign(change[k]) * (inside - at)
                at = inside = rows_q[e] @ q + rows_x[e] @ x
        if relations[e] == 0:
            rhs[e] = at
            continue
        if at != inside and rng.random() < 0.6:
            # Active at the optimum, with the interior point on the right side.
            relations[e] = -1 if inside < at else 1
            rhs[e], dual[e] = at, -relations[e] * abs(dual[e])
        else:
            side = relations[e]
            extreme = min(at, inside) if side == 1 else max(at, inside)
            rhs[e], dual[e] = extreme - side * float(rng.integers(1, 4)), 0.0
    # The sum of all that is nonnegative is limited.
    limit_q = np.concatenate([np.r_[np.ones(n), np.zeros(len(v) - n)] for n, v in _zip(vectors)])
    limit_x = np.where(free, 0.0, 1.0)
    at = float(limit_q @ q + limit_x @ x)
    inside = float(limit_q @ q_inner + limit_x @ x_inner)
    active = inside < at and rng.random() < 0.7
    return _Draft(
        vectors,
        primal,
        [s for _, s in pairs],
        inner,
        x,
        x_inner,
        free,
        np.vstack([rows_q, limit_q]),
        np.vstack([rows_x, limit_x]),
        np.r_[relations, -1.0],
        np.r_[rhs, at if active else max(at, inside) + float(rng.integers(1, 5))],
        np.r_[dual, float(rng.integers(1, 4)) if active else 0.0],
    )


def _zip(vectors: list[Array]) -> list[tuple[int, Array]]:
    return [(v.shape[1], v) for v in vectors]


def measure(vectors: list[Array], matrices: list[Array]) -> Array:
    """The squared lengths of the blocks' vectors, one after the other."""
    pairs = zip(vectors, matrices, strict=True)
    return np.concatenate([np.einsum("pi,ij,pj->p", v, m, v) for v, m in pairs])


def _program(draft: _Draft, rng: Rng, costs: list[Array], cost_x: Array) -> Program:
    blocks = []
    for k, (v, c) in enumerate(zip(draft.vectors, costs, strict=True)):
        features = None
        incidence: Any = v
        if rng.random() < 0.2:
            incidence, features = sp.eye_array(len(v), format="csr"), v
        blocks.append(
            Block.of(v.shape[1], incidence, features=features, cost=_cost(rng, c), name=f"M{k + 1}")
        )
    return Program.of(
        blocks,
        draft.rhs,
        rows_q=draft.rows_q,
        rows_x=draft.rows_x,
        relations=draft.relations,
        cost_x=cost_x,
        free_x=draft.free,
        name="planted",
    )


def _cost(rng: Rng, matrix: Array) -> Cost:
    """The matrix in one of the shapes a cost may have."""
    n = len(matrix)
    kind = rng.integers(3)
    if kind == 0:
        return Cost.of(n, sparse=matrix)
    if kind == 1:
        a = float(rng.integers(-2, 3))
        return Cost.of(n, identity=a, sparse=matrix - a * np.eye(n))
    u = rng.integers(-2, 3, (n, int(rng.integers(1, 3)))).astype(float)
    s = rng.integers(-2, 3, u.shape[1]).astype(float)
    return Cost.of(n, sparse=matrix - (u * s) @ u.T, factor=u, weights=s)


def solvable(rng: Rng) -> Planted:
    """A program with interior points on both sides and an optimum that is an integer."""
    draft = _draft(rng)
    u = draft.rows_q.T @ draft.dual
    reduced = draft.rows_x.T @ draft.dual
    spare = np.where(draft.free | (draft.x > 0), 0.0, rng.integers(0, 4, draft.x.size))
    costs, start = [], 0
    for v, s in zip(draft.vectors, draft.slack, strict=True):
        costs.append((v.T * u[start : start + len(v)]) @ v - s)
        start += len(v)
    program = _program(draft, rng, costs, reduced - spare)
    optimum = sum(
        (Fraction(b) * Fraction(w) for b, w in zip(draft.rhs, draft.dual, strict=True)), Fraction(0)
    )
    planted = Planted(program, Status.OPTIMAL, optimum, tuple(draft.primal), draft.x, draft.dual)
    planted = with_spare_rows(planted, rng) if rng.random() < 0.3 else planted
    return negated(planted) if rng.random() < 0.4 else planted


def infeasible(rng: Rng) -> Planted:
    """The sum of all that is nonnegative is at least more than it is at most."""
    program = solvable(rng).program
    limit = _limit_row(program)
    more = program.rhs[limit] + float(rng.integers(1, 6))
    program = replace(
        program,
        rows_q=sp.csr_array(sp.vstack([program.rows_q, program.rows_q[[limit]]])),
        rows_x=sp.csr_array(sp.vstack([program.rows_x, program.rows_x[[limit]]])),
        relations=np.r_[program.relations, 1].astype(np.int8),
        rhs=np.r_[program.rhs, more],
    )
    return Planted(program, Status.INFEASIBLE)


def _limit_row(program: Program) -> int:
    """The row that limits the sum of all that is nonnegative."""
    target = np.where(program.free_x, 0.0, 1.0)
    x = program.rows_x.toarray()
    traces = np.concatenate(
        [np.r_[np.ones(b.size), np.zeros(b.n_measurements - b.size)] for b in program.blocks]
    )
    same = (program.rows_q.toarray() == traces).all(axis=1) & (x == target).all(axis=1)
    return int(np.flatnonzero(same & (program.relations == -1))[0])


def unbounded(rng: Rng) -> Planted:
    """One more block without rows that limit it, whose trace is worth something."""
    program = solvable(rng).program
    n = int(rng.integers(1, 4))
    vectors = np.vstack([np.eye(n), -np.eye(n)])
    cost = Cost.of(n, identity=program.sign * float(rng.integers(1, 4)))
    block = Block.of(n, vectors, cost=cost, name="N")
    # Rows that compare its first entry with itself: present, and without effect.
    extra = np.zeros((program.n_rows, 2 * n))
    extra[:, 0] = rng.integers(-2, 3, program.n_rows)
    extra[:, n] = -extra[:, 0]
    program = replace(
        program,
        blocks=(*program.blocks, block),
        rows_q=sp.csr_array(sp.hstack([program.rows_q, sp.csr_array(extra)])),
        cost_q=np.r_[program.cost_q, np.zeros(2 * n)],
    )
    return Planted(program, Status.UNBOUNDED)


def weak(rng: Rng) -> Planted:
    """M₁₁ = 0 and M₁₂ = 1 in random coordinates, and something to maximise besides."""
    p, _ = unimodular(rng, 3)
    v = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]) @ p
    rows = np.array([[1.0, 0, 0, 0], [-1, -1, 1, 0]])
    mixed = np.array([[1.0, 0], [float(rng.integers(-2, 3)), 1]]) @ rows
    rhs = np.array([0.0, 2.0])
    worth = float(rng.integers(0, 2))
    cost = Cost.of(3, sparse=worth * np.outer(v[3], v[3]))
    program = Program.of(Block.of(3, v, cost=cost), rhs, rows_q=mixed, name="weakly infeasible")
    return Planted(program, Status.INFEASIBLE, strong=False)


def gap(rng: Rng) -> Planted:
    """max −Z₃₃, Z₂₂ = 0, 2Z₁₂ + Z₃₃ = 1 in random coordinates: −1, while the dual says 0."""
    p, _ = unimodular(rng, 3)
    v = np.array([[0, 1.0, 0], [1, 1, 0], [1, -1, 0], [0, 0, 1]]) @ p
    rows = np.array([[1.0, 0, 0, 0], [0, 0.5, -0.5, 1]])
    rhs = np.array([0.0, 1.0])
    k = float(rng.integers(-2, 3))
    mixed = np.array([[1.0, 0], [k, 1]]) @ rows
    program = Program.of(
        Block.of(3, v, cost=Cost.of(3, sparse=-np.outer(v[3], v[3]))),
        rhs,
        rows_q=mixed,
        name="duality gap",
    )
    return Planted(program, Status.OPTIMAL, Fraction(-1), strong=False)


def with_spare_rows(planted: Planted, rng: Rng) -> Planted:
    """One row twice, and one row of zeros."""
    program = planted.program
    e, times = int(rng.integers(program.n_rows)), float(rng.choice([1, 2, -1, -3]))
    relation = program.relations[e] * (1 if times > 0 else -1)
    q = sp.vstack([program.rows_q, times * program.rows_q[[e]], 0 * program.rows_q[[e]]])
    x = sp.vstack([program.rows_x, times * program.rows_x[[e]], 0 * program.rows_x[[e]]])
    q, x = sp.csr_array(q), sp.csr_array(x)
    q.eliminate_zeros()
    x.eliminate_zeros()
    program = replace(
        program,
        rows_q=q,
        rows_x=x,
        relations=np.r_[program.relations, relation, 0].astype(np.int8),
        rhs=np.r_[program.rhs, times * program.rhs[e], 0.0],
    )
    dual = None if planted.dual is None else np.r_[planted.dual, 0.0, 0.0]
    return replace(planted, program=program, dual=dual)


def negated(planted: Planted) -> Planted:
    """The same as a minimisation."""
    program = planted.program
    program = replace(
        program,
        sense="min" if program.sense == "max" else "max",
        blocks=tuple(replace(b, cost=b.cost.scaled(-1.0)) for b in program.blocks),
        cost_q=-program.cost_q,
        cost_x=-program.cost_x,
    )
    return replace(
        planted,
        program=program,
        optimum=None if planted.optimum is None else -planted.optimum,
        dual=None if planted.dual is None else -planted.dual,
    )


def rescaled(planted: Planted, rng: Rng, span: int) -> Planted:
    """The same program with rows, vectors and costs times random powers of two up to 2^±span."""
    program = planted.program
    row = np.ldexp(1.0, rng.integers(-span, span + 1, program.n_rows))
    worth = int(rng.integers(-span, span + 1))
    blocks, lengths = [], []
    for block in program.blocks:
        each = rng.integers(-span // 2, span // 2 + 1, block.n_measurements)
        lengths.append(-2 * each)
        stretched = sp.csr_array(sp.diags_array(np.ldexp(1.0, each)) @ block.incidence)
        cost = block.cost.scaled(float(np.ldexp(1.0, worth)))
        blocks.append(replace(block, incidence=stretched, cost=cost))
    shrink = np.ldexp(1.0, np.concatenate(lengths))
    price = float(np.ldexp(1.0, worth))
    program = replace(
        program,
        blocks=tuple(blocks),
        rows_q=sp.csr_array(sp.diags_array(row) @ program.rows_q @ sp.diags_array(shrink)),
        rows_x=sp.csr_array(sp.diags_array(row) @ program.rows_x),
        rhs=row * program.rhs,
        cost_q=price * shrink * program.cost_q,
        cost_x=price * program.cost_x,
    )
    optimum = None if planted.optimum is None else planted.optimum * Fraction(price)
    dual = None if planted.dual is None else planted.dual * price / row
    return replace(planted, program=program, optimum=optimum, dual=dual)


def mixed(rng: Rng) -> Planted:
    """A solvable program in units that differ from coordinate to coordinate and row to row."""
    planted = solvable(rng)
    span = int(rng.choice([2, 6, 12]))
    if rng.random() < 0.5:
        planted = with_null_direction(planted, rng, span)
    if rng.random() < 0.7:
        planted = stretched(planted, rng, span)
    return with_repeated_rows(planted, rng, span)


def stretched(planted: Planted, rng: Rng, span: int) -> Planted:
    """M becomes DMD, with a power of two up to 2^±span for each coordinate."""
    blocks, matrices = [], []
    for block, m in zip(planted.program.blocks, planted.matrices, strict=True):
        d = np.ldexp(1.0, rng.integers(-span, span + 1, block.size))
        blocks.append(congruent(block, np.diag(1 / d)))
        matrices.append(m * np.outer(d, d))
    program = replace(planted.program, blocks=tuple(blocks))
    return replace(planted, program=program, matrices=tuple(matrices))


def with_null_direction(planted: Planted, rng: Rng, span: int) -> Planted:
    """One block gets a coordinate more, which a null direction of any length takes away again."""
    program = planted.program
    k = int(rng.integers(len(program.blocks)))
    block, n = program.blocks[k], program.blocks[k].size
    p, inverse = unimodular(rng, n + 1)
    v = np.hstack([dense(block.vectors()), rng.integers(-2, 3, (block.n_measurements, 1))])
    cost = np.zeros((n + 1, n + 1))
    cost[:n, :n] = block.cost.dense()
    cost[n] = cost[:, n] = rng.integers(-2, 3, n + 1)
    null = np.ldexp(1.0, int(rng.integers(-8 * span, 8 * span + 1))) * inverse.T[:, n]
    larger = Block.of(
        n + 1, v @ inverse, cost=Cost.of(n + 1, sparse=inverse.T @ cost @ inverse), null=null
    )
    m = p[:, :n] @ planted.matrices[k] @ p[:, :n].T
    blocks, matrices = list(program.blocks), list(planted.matrices)
    blocks[k], matrices[k] = replace(larger, name=block.name), m
    program = replace(program, blocks=tuple(blocks))
    return replace(planted, program=program, matrices=tuple(matrices))


def with_repeated_rows(planted: Planted, rng: Rng, span: int) -> Planted:
    """Some rows again, times powers of two; an equation as one inequality or both."""
    program = planted.program
    chosen = rng.integers(program.n_rows, size=int(rng.integers(1, 4)))
    times = np.ldexp(
        rng.choice([-1.0, 1.0], chosen.size), rng.integers(-span, span + 1, chosen.size)
    )
    relation = np.sign(times) * program.relations[chosen]
    loose = (relation == 0) & (rng.random(chosen.size) < 0.5)
    relation = np.where(loose, rng.choice([-1, 1], chosen.size), relation)
    more = sp.diags_array(times)
    program = replace(
        program,
        rows_q=sp.csr_array(sp.vstack([program.rows_q, more @ program.rows_q[chosen]])),
        rows_x=sp.csr_array(sp.vstack([program.rows_x, more @ program.rows_x[chosen]])),
        relations=np.r_[program.relations, relation].astype(np.int8),
        rhs=np.r_[program.rhs, times * program.rhs[chosen]],
    )
    dual = None if planted.dual is None else np.r_[planted.dual, np.zeros(chosen.size)]
    return replace(planted, program=program, dual=dual)


def congruent(block: Block, t: Array) -> Block:
    """The block for T⁻¹MT⁻ᵀ in place of M: measurements VT, costs TᵀCT, null directions TᵀN."""
    cost = Cost.of(
        block.size,
        sparse=t.T @ (block.cost.dense()) @ t,
    )
    null = block.null if not block.null.shape[1] else t.T @ block.null
    if block.features is not None:
        return replace(block, features=block.features @ t, cost=cost, null=null)
    return replace(block, incidence=sp.csr_array(block.incidence @ t), cost=cost, null=null)


def log_det(rng: Rng) -> Planted:
    """max <C, M> + β log det M with M = P diag(2^k) Pᵀ and S = βM⁻¹ planted."""
    n, beta = int(rng.integers(1, 5)), float(np.ldexp(1.0, int(rng.integers(-20, 3))))
    p, inverse = unimodular(rng, n)
    powers = rng.integers(-3, 4, n)
    m = (p * np.ldexp(1.0, powers)) @ p.T
    slack = beta * (inverse.T * np.ldexp(1.0, -powers)) @ inverse
    v = np.vstack([np.eye(n), rng.integers(-2, 3, (int(rng.integers(0, n + 1)), n))])
    rows = rng.integers(-2, 3, (int(rng.integers(0, n + 1)), len(v))).astype(float)
    rows = np.vstack([rows, np.r_[np.ones(n), np.zeros(len(v) - n)]])
    relations = np.where(rng.random(len(rows)) < 0.5, 0, -1)
    dual = np.where(relations == 0, rng.integers(-3, 4, len(rows)), rng.integers(0, 4, len(rows)))
    q = measure([v], [m])
    idle = (relations == -1) & (dual == 0)
    rhs = rows @ q + np.where(idle, 1.0, 0.0)
    cost = (v.T * (rows.T @ dual)) @ v - slack
    program = Program.of(
        Block.of(n, v, cost=Cost.of(n, sparse=cost), log_det=beta),
        rhs,
        rows_q=rows,
        relations=relations,
        name="planted log det",
    )
    linear = sum(
        (Fraction(a) * Fraction(b) for a, b in zip(cost.ravel(), m.ravel(), strict=True)),
        Fraction(0),
    )
    optimum = linear + Fraction(beta) * int(powers.sum()) * _LOG_2
    planted = Planted(program, Status.OPTIMAL, optimum, (m,), np.zeros(0), dual.astype(np.float64))
    return negated(planted) if rng.random() < 0.5 else planted


def hinges(rng: Rng) -> Planted:
    """min <C, M> + Σ[c + q_ij − q_il]₊, each row active, idle or violated by an integer."""
    d, n = int(rng.integers(1, 4)), int(rng.integers(4, 8))
    features = rng.integers(-3, 4, (n, d)).astype(float)
    m, slack = _pair(rng, d)
    triplets = np.array([rng.permutation(n)[:3] for _ in range(int(rng.integers(1, 8)))])
    triplets = np.unique(triplets, axis=0)
    i, j, other = triplets.T
    near, far = features[i] - features[j], features[i] - features[other]
    z = np.einsum("ti,ij,tj->t", near, m, near) - np.einsum("ti,ij,tj->t", far, m, far)
    weight = float(rng.integers(1, 4))
    kind = rng.integers(3, size=len(triplets))
    constants = -z + np.choose(kind, [np.zeros(kind.size), -rng.integers(1, 4, kind.size), 1.0])
    alpha = np.choose(kind, [0.5 * weight, 0.0, weight])
    cost = slack - (near.T * alpha) @ near + (far.T * alpha) @ far
    family = ListedRows.of(triplets, n, constants=constants, weight=weight)
    block = Block.of(d, np.zeros((0, n)), features=features, cost=Cost.of(d, sparse=cost))
    program = Program.of(block, [], sense="min", family=family, name="planted hinges")
    order = np.lexsort((constants, j, other, i))
    optimum = sum(
        (Fraction(a) * Fraction(b) for a, b in zip(constants, alpha, strict=True)), Fraction(0)
    )
    rows = family.everything()
    # Nothing makes sure that the dual has an interior: M may grow where S vanishes.
    return Planted(
        program, Status.OPTIMAL, optimum, (m,), np.zeros(0), alpha[order], rows, strong=False
    )


# log 2, of which 50 digits tell any float from a sum with it.
_LOG_2 = Fraction("0.69314718055994530941723212145817656807550013436025525412068")

KINDS: dict[str, Callable[[Rng], Planted]] = {
    "solvable": solvable,
    "infeasible": infeasible,
    "unbounded": unbounded,
    "weak": weak,
    "gap": gap,
    "mixed": mixed,
    "log_det": log_det,
    "hinges": hinges,
}
