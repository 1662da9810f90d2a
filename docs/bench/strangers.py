"""Semidefinite programs of the kinds that strangers bring, written as SDPA files.

The kinds are SDPLIB's (Borchers 1999): maximum cut, Lovász's θ, graph partitioning and quadratic
assignment (without an interior), matrix inequalities of control, trusses, infeasible programs. The
data are random and come from a seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from sdpkit.typing import Array


@dataclass
class Sdpa:
    """max <F₀, Y>, <F_i, Y> = c_i;  or  min cᵀx, Σ x_i F_i ⪰ F₀, which is its dual."""

    sizes: list[int]
    rhs: list[float]
    lines: list[str] = field(default_factory=list)

    def add(self, row: int, block: int, matrix: Array) -> None:
        """F_row in a block; rows and blocks count from one, the cost is row zero."""
        for i, j in zip(*np.nonzero(np.triu(matrix)), strict=True):
            value = float(matrix[i, j])
            self.lines.append(f"{row} {block} {i + 1} {j + 1} {value!r}")

    def constrain(self, value: float, *matrices: tuple[int, Array]) -> None:
        """One more row."""
        self.rhs.append(value)
        for block, matrix in matrices:
            self.add(len(self.rhs), block, matrix)

    def write(self, path: Path) -> Path:
        """The file."""
        head = [len(self.rhs), len(self.sizes), " ".join(map(str, self.sizes))]
        values = " ".join(repr(float(v)) for v in self.rhs)
        path.write_text("\n".join([*map(str, head), values, *self.lines]) + "\n")
        return path


def unit(n: int, i: int, j: int) -> Array:
    """The symmetric matrix whose inner product with Y is Y_ij."""
    out = np.zeros((n, n))
    out[i, j] = out[j, i] = 1.0 if i == j else 0.5
    return out


def random_laplacian(rng: np.random.Generator, n: int, share: float) -> Array:
    """Of a random graph with unit weights."""
    a = np.triu(rng.random((n, n)) < share, 1).astype(float)
    a = a + a.T
    return np.asarray(np.diag(a.sum(axis=1)) - a)


def max_cut(n: int, seed: int) -> Sdpa:
    """max <L, Y>/4, Y_ii = 1."""
    out = Sdpa([n], [])
    out.add(0, 1, random_laplacian(np.random.default_rng(seed), n, 6 / n) / 4)
    for i in range(n):
        out.constrain(1.0, (1, unit(n, i, i)))
    return out


def theta(n: int, seed: int) -> Sdpa:
    """max <11ᵀ, Y>, tr Y = 1, Y_ij = 0 on the edges."""
    out = Sdpa([n], [])
    out.add(0, 1, np.ones((n, n)))
    out.constrain(1.0, (1, np.eye(n)))
    for i, j in zip(
        *np.nonzero(random_laplacian(np.random.default_rng(seed), n, 0.2)), strict=True
    ):
        if i < j:
            out.constrain(0.0, (1, unit(n, i, j)))
    return out


def partition(n: int, seed: int) -> Sdpa:
    """max −<L, Y>, Y_ii = 1, <11ᵀ, Y> = 0: no interior."""
    out = Sdpa([n], [])
    out.add(0, 1, -random_laplacian(np.random.default_rng(seed), n, 0.2))
    out.constrain(0.0, (1, np.ones((n, n))))
    for i in range(n):
        out.constrain(1.0, (1, unit(n, i, i)))
    return out


def assignment(n: int, seed: int) -> Sdpa:
    """Zhao, Karisch, Rendl and Wolkowicz 1998 ("gangster" form): no interior."""
    rng = np.random.default_rng(seed)
    flows, distances = (np.triu(rng.integers(0, 10, (n, n)), 1) for _ in range(2))
    size = n * n + 1
    out = Sdpa([size], [])
    cost = np.zeros((size, size))
    cost[1:, 1:] = -np.kron((flows + flows.T) / 2, distances + distances.T)
    out.add(0, 1, cost)
    out.constrain(1.0, (1, unit(size, 0, 0)))
    places = np.arange(n * n).reshape(n, n) + 1
    for line in [*places, *places.T]:
        v = np.zeros(size)
        v[0], v[line] = -1.0, 1.0
        out.constrain(0.0, (1, np.outer(v, v)))
    for i in range(1, size):
        out.constrain(0.0, (1, unit(size, i, i) - unit(size, 0, i)))
    for line in [*places, *places.T]:
        for i, j in combinations(line, 2):
            out.constrain(0.0, (1, unit(size, i, j)))
    return out


def gain(n: int, seed: int) -> Sdpa:
    """min g, P ⪰ 0, [[−AᵀP − PA − C'C, −PB], [−BᵀP, gI]] ⪰ 0: a squared H∞ norm."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, n))
    a -= (0.3 + np.linalg.eigvals(a).real.max()) * np.eye(n)
    b, c = rng.standard_normal((n, 2)), rng.standard_normal((1, n))
    out = Sdpa([n + 2, n], [])
    free = np.zeros((n + 2, n + 2))
    free[:n, :n] = c.T @ c
    out.add(0, 1, free)
    for i in range(n):
        for j in range(i, n):
            p = unit(n, i, j) * (1 if i == j else 2)
            first = np.zeros((n + 2, n + 2))
            first[:n, :n] = -(a.T @ p + p @ a)
            first[:n, n:] = -p @ b
            first[n:, :n] = first[:n, n:].T
            out.constrain(0.0, (1, first), (2, p))
    out.constrain(1.0, (1, np.diag([0.0] * n + [1.0] * 2)))
    return out


def control(n: int, seed: int) -> Sdpa:
    """max λ, I ⪰ P ⪰ λI, [[−PA − AᵀP − CᵀDC, −PB], [−BᵀP, D]] ⪰ λI, D diagonal."""
    rng = np.random.default_rng(seed)
    k = max(1, n // 2)
    a, b, c = rng.standard_normal((n, n)), rng.standard_normal((n, k)), rng.standard_normal((k, n))
    a -= (1 + np.linalg.eigvals(a).real.max()) * np.eye(n)
    c *= 0.1
    size = n + k
    out = Sdpa([size, n, n], [])
    out.add(0, 3, -np.eye(n))
    for i in range(n):
        for j in range(i, n):
            p = unit(n, i, j) * (1 if i == j else 2)
            first = np.zeros((size, size))
            first[:n, :n] = -(a.T @ p + p @ a)
            first[:n, n:] = -p @ b
            first[n:, :n] = first[:n, n:].T
            out.constrain(0.0, (1, first), (2, p), (3, -p))
    for i in range(k):
        first = np.zeros((size, size))
        first[:n, :n] = -np.outer(c[i], c[i])
        first[n + i, n + i] = 1.0
        out.constrain(0.0, (1, first))
    out.constrain(-1.0, (1, -np.eye(size)), (2, -np.eye(n)))
    return out


def truss(nodes: int, seed: int) -> Sdpa:
    """min Σ t_i, [[1, fᵀ], [f, Σ t_i b_i b_iᵀ]] ⪰ 0, t ≥ 0: bars between nodes of a grid."""
    rng = np.random.default_rng(seed)
    places = [(i, j) for i in range(nodes) for j in range(2)]
    moving = [p for p in places if p[0] > 0]
    size = 2 * len(moving) + 1
    force = np.zeros((size, size))
    force[1 + 2 * moving.index((nodes - 1, 0)) + 1, 0] = 1.0
    force[1 + 2 * moving.index((nodes - 1, 1)), 0] = 0.5 * rng.random()
    bars = [(p, q) for p, q in combinations(places, 2) if p in moving or q in moving]
    out = Sdpa([size, -len(bars)], [])
    corner = np.zeros((size, size))
    corner[0, 0] = -1.0
    out.add(0, 1, corner - force - force.T)
    for k, (p, q) in enumerate(bars):
        way = np.subtract(p, q).astype(float)
        b = np.zeros(size)
        for place, sign in ((p, 1), (q, -1)):
            if place in moving:
                at = 1 + 2 * moving.index(place)
                b[at : at + 2] = sign * way / np.linalg.norm(way) ** 2
        positive = np.zeros((len(bars), len(bars)))
        positive[k, k] = 1.0
        out.constrain(1.0, (1, np.outer(b, b)), (2, positive))
    return out


def without_point(n: int, m: int, seed: int) -> Sdpa:
    """Random rows whose combination with some y is definite, and cᵀy < 0: no feasible Y."""
    rng = np.random.default_rng(seed)
    y, c = rng.standard_normal(m), rng.standard_normal(m)
    rows = [_symmetric(rng, n) for _ in range(m)]
    rows[0] += (np.eye(n) - sum(v * f for v, f in zip(y, rows, strict=True))) / y[0]
    c[0] -= (1 + c @ y) / y[0]
    out = Sdpa([n], [])
    out.add(0, 1, _symmetric(rng, n))
    for value, f in zip(c, rows, strict=True):
        out.constrain(float(value), (1, f))
    return out


def without_bound(n: int, m: int, seed: int) -> Sdpa:
    """Random rows with a feasible definite Y and a definite direction along which <F₀, Y> grows."""
    rng = np.random.default_rng(seed)
    d = np.eye(n) + 0.1 * _symmetric(rng, n)
    out = Sdpa([n], [])
    out.add(0, 1, np.eye(n))
    for _ in range(m):
        f = _symmetric(rng, n)
        f -= np.sum(f * d) / np.sum(d * d) * d
        out.constrain(float(np.trace(f)), (1, f))
    return out


def _symmetric(rng: np.random.Generator, n: int) -> Array:
    a = rng.standard_normal((n, n))
    return np.asarray(a + a.T)


def everything() -> Iterable[tuple[str, Sdpa]]:
    """Small ones of every kind."""
    for seed in (1, 2):
        yield f"maxcut-{seed}", max_cut(60, seed)
        yield f"theta-{seed}", theta(30, seed)
        yield f"partition-{seed}", partition(40, seed)
        yield f"assignment-{seed}", assignment(3 + seed, seed)
        yield f"gain-{seed}", gain(4 + 2 * seed, seed)
        yield f"control-{seed}", control(4 + 2 * seed, seed)
        yield f"truss-{seed}", truss(3 + seed, seed)
        yield f"no-point-{seed}", without_point(12, 8, seed)
        yield f"no-bound-{seed}", without_bound(12, 8, seed)


def write_all(folder: Path) -> list[Path]:
    """A file of each."""
    return [program.write(folder / f"{name}.dat-s") for name, program in everything()]
