"""Points and multipliers in many bits, where doubles end: a primal–dual interior-point method.

The method is the infeasible one of Helmberg, Rendl, Vanderbei and Wolkowicz (1996) with Mehrotra's
corrector, for the program of a proof. With numbers of 500 bits it needs no care for conditioning.
It ends with steps of full length at a fixed μ, after which all equations hold to the last bit, and
X and S are inside their cones. It needs python-flint.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from sdpkit.numerics.deadline import continue_or_raise
from sdpkit.proof.check import DyadicProgram
from sdpkit.proof.definite import Triangle

_BITS = 512
# What a method in 500 bits can do in a minute: entries of all matrices, rows, sizes of blocks.
_ENTRIES, _ROWS, _SIZE = 1_500_000, 500, 80
_ITERATIONS, _CENTRED = 150, 12
# Σ of complementarity at the end, relative to the value.
_GAP = 1e-10
_STALLED = 1e-5
# Of the way to the boundary.
_SHARE = 0.95

# A matrix of python-flint, which has no types.
Matrix = Any


@dataclass(frozen=True)
class Digits:
    """A point and multipliers as integers, in units of 2^−power.

    Attributes
    ----------
    blocks: lower triangles of X;  x: (n_x,);  w: (m,)
    """

    power: int
    blocks: list[Triangle]
    x: list[int]
    w: list[int]


def is_in_reach(program: DyadicProgram) -> bool:
    """Whether the program is small enough for so many bits."""
    sizes = program.sizes[1:]
    entries = len(program.rows) * (sum(n * n for n in sizes) + len(program.free))
    return 0 < len(program.rows) <= _ROWS and entries <= _ENTRIES and max(sizes, default=0) <= _SIZE


def more_digits(
    program: DyadicProgram, sizes: tuple[float, float], bits: int = _BITS
) -> Digits | None:
    """A point and multipliers whose equations hold to the last bit, or None.

    `sizes`: of X and of S near the optimum, roughly.
    """
    flint = importlib.import_module("flint")
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        return _Method(flint, program, *sizes).run(bits)
    except (ZeroDivisionError, OverflowError):
        return None
    finally:
        flint.ctx.prec = before


def is_installed() -> bool:
    """Whether python-flint is there."""
    return importlib.util.find_spec("flint") is not None


class _Method:
    """The iterate (X, x, w, S, r), and one Newton system at it."""

    def __init__(self, flint: Any, program: DyadicProgram, of_x: float, of_s: float) -> None:
        self.flint, self.program = flint, program
        self.n: list[int] = [n for n in program.sizes[1:] if n]
        self.signed = [j for j, free in enumerate(program.free) if not free]
        self.unsigned = [j for j, free in enumerate(program.free) if free]
        self.a, self.c = self._matrices()
        self.a_x, self.c_x = self._columns(self.signed)
        self.a_f, self.c_f = self._columns(self.unsigned)
        unit = flint.arb(2) ** -program.unit
        self.b = self._column([unit * v for v in program.b])
        self.X = [self._identity(n, of_x) for n in self.n]
        self.S = [self._identity(n, of_s) for n in self.n]
        self.x = self._column([flint.arb(of_x)] * len(self.signed))
        self.r = self._column([flint.arb(of_s)] * len(self.signed))
        self.f = self._column([flint.arb(0)] * len(self.unsigned))
        self.w = self._column([flint.arb(0)] * len(program.b))

    # -- data ---------------------------------------------------------------------------------

    def _column(self, values: list[Any]) -> Matrix:
        return self.flint.arb_mat(len(values), 1, values)

    def _identity(self, n: int, size: float) -> Matrix:
        return self.flint.arb_mat(n, n, [size * (i == j) for i in range(n) for j in range(n)])

    def _matrices(self) -> tuple[list[Matrix], list[Matrix]]:
        """Per block A, one flat matrix per row, and C."""
        unit, zero = self.flint.arb(2) ** -self.program.unit, self.flint.arb(0)
        numbers = [k for k, n in enumerate(self.program.sizes) if k and n]
        rows = [*self.program.rows, self.program.cost]
        a, c = [], []
        for k, n in zip(numbers, self.n, strict=True):
            flat = [[zero] * (n * n) for _ in rows]
            for values, row in zip(flat, rows, strict=True):
                for (block, i, j), v in row.items():
                    if block == k:
                        values[i * n + j] = values[j * n + i] = unit * v
            a.append(self.flint.arb_mat(flat[:-1]))
            c.append(self.flint.arb_mat(n, n, flat[-1]))
        return a, c

    def _columns(self, which: list[int]) -> tuple[Matrix, Matrix]:
        unit = self.flint.arb(2) ** -self.program.unit
        keys = [(0, j, j) for j in which]
        entries = [unit * row.get(key, 0) for row in self.program.rows for key in keys]
        costs = [unit * self.program.cost.get(key, 0) for key in keys]
        shape = len(self.program.rows), len(which)
        return self.flint.arb_mat(*shape, entries), self._column(costs)

    def _values(self, matrices: list[Matrix], x: Matrix) -> Matrix:
        """A(X) + A_x x, without free variables."""
        out = self.a_x * x
        for a, m in zip(self.a, matrices, strict=True):
            out += a * self._column(m.entries())
        return out

    def _images(self, w: Matrix) -> list[Matrix]:
        out = []
        for a, n in zip(self.a, self.n, strict=True):
            out.append(self.flint.arb_mat(n, n, (w.transpose() * a).entries()))
        return out

    # -- the method ---------------------------------------------------------------------------

    def run(self, bits: int) -> Digits | None:
        """Down to a small gap, then steps of full length that leave no residual."""
        for _ in range(_ITERATIONS):
            continue_or_raise()
            mu = self._mu()
            if not isfinite(mu):
                return None
            if self._gap(mu) <= _GAP:
                break
            if self._step(mu, None) < _STALLED:
                return None
        for _ in range(_CENTRED):
            continue_or_raise()
            if self._step(self._mu(), 1.0) == 1.0:
                break
        else:
            return None
        self._step(self._mu(), 1.0)
        return self._rounded(bits)

    def _mu(self) -> float:
        total = self._inner(self.x, self.r)
        for x, s in zip(self.X, self.S, strict=True):
            total += self._inner(x, s)
        return float(total) / (sum(self.n) + len(self.signed))

    @staticmethod
    def _inner(a: Matrix, b: Matrix) -> Any:
        return sum(u * v for u, v in zip(a.entries(), b.entries(), strict=True))

    def _gap(self, mu: float) -> float:
        value = abs(float(self._inner(self.b, self.w)))
        return mu * (sum(self.n) + len(self.signed)) / max(1.0, value)

    def _step(self, mu: float, centring: float | None) -> float:
        """One step; `centring` None for Mehrotra's rule. Returns the shorter of its lengths."""
        system = _System(self)
        if centring is None:
            affine = system.direction(0.0, None)
            lengths = self._lengths(affine, system)
            after = self._mu_after(affine, lengths)
            sigma = min(1.0, max(0.0, after / mu)) ** 3
            way = system.direction(max(sigma, 1e-6) * mu, affine)
        else:
            way = system.direction(centring * mu, None)
        lengths = self._lengths(way, system)
        if centring is None and min(lengths) < 0.1:
            way = system.direction(0.5 * mu, None)
            lengths = self._lengths(way, system)
        self._move(way, lengths)
        return min(lengths)

    def _lengths(self, way: _Direction, system: _System) -> tuple[float, float]:
        """How far X and S may go, at most by one."""
        primal, dual = _ratio(self.x, way.x), _ratio(self.r, way.r)
        for root, d in zip(system.roots_x, way.X, strict=True):
            primal = min(primal, _length(root, d))
        for root, d in zip(system.roots_s, way.S, strict=True):
            dual = min(dual, _length(root, d))
        return min(1.0, _SHARE * primal), min(1.0, _SHARE * dual)

    def _mu_after(self, way: _Direction, lengths: tuple[float, float]) -> float:
        p, d = lengths
        total = self._inner(self.x + p * way.x, self.r + d * way.r)
        for x, s, dx, ds in zip(self.X, self.S, way.X, way.S, strict=True):
            total += self._inner(x + p * dx, s + d * ds)
        return float(total) / (sum(self.n) + len(self.signed))

    def _move(self, way: _Direction, lengths: tuple[float, float]) -> None:
        p, d = lengths
        self.X = [(x + p * dx).mid() for x, dx in zip(self.X, way.X, strict=True)]
        self.S = [(s + d * ds).mid() for s, ds in zip(self.S, way.S, strict=True)]
        self.x, self.r = (self.x + p * way.x).mid(), (self.r + d * way.r).mid()
        self.f, self.w = (self.f + p * way.f).mid(), (self.w + d * way.w).mid()

    def _rounded(self, bits: int) -> Digits:
        power = bits - 64
        scale = self.flint.arb(2) ** power

        def whole(values: list[Any]) -> list[int]:
            return [int((scale * v).mid().floor().unique_fmpz()) for v in values]

        blocks: list[Triangle] = []
        found = iter(self.X)
        for n in self.program.sizes[1:]:
            flat = whole(next(found).entries()) if n else []
            blocks.append([flat[i * n : i * n + i + 1] for i in range(n)])
        x = [0] * len(self.program.free)
        for places, values in ((self.signed, self.x), (self.unsigned, self.f)):
            for j, v in zip(places, whole(values.entries()), strict=True):
                x[j] = v
        return Digits(power, blocks, x, whole(self.w.entries()))


@dataclass(frozen=True, eq=False)
class _Direction:
    """A Newton step in all parts of the iterate."""

    X: list[Matrix]
    S: list[Matrix]
    x: Matrix
    r: Matrix
    f: Matrix
    w: Matrix


class _System:
    """The Schur complement at an iterate, factors of X and S, and the residuals."""

    def __init__(self, at: _Method) -> None:
        self.at, flint = at, at.flint
        self.roots_x = [_inverse_root(flint, x) for x in at.X]
        self.roots_s = [_inverse_root(flint, s) for s in at.S]
        self.inverses = [(li.transpose() * li).mid() for li in self.roots_s]
        self.r_p = at.b - at._values(at.X, at.x) - at.a_f * at.f
        slacks = zip(at.S, at._images(at.w), at.c, strict=True)
        self.R_d = [(s - image + c).mid() for s, image, c in slacks]
        self.r_d = at.r - at.a_x.transpose() * at.w + at.c_x
        self.f_d = at.c_f - at.a_f.transpose() * at.w
        m = len(at.program.rows)
        schur = self._scaled_columns() * at.a_x.transpose()
        for a, n, x, inverse in zip(at.a, at.n, at.X, self.inverses, strict=True):
            schur += a * self._turned(a, n, x, inverse).transpose()
        schur = ((schur + schur.transpose()) / 2).mid()
        k = len(at.unsigned)
        rows = schur.tolist() if m else []
        free = at.a_f.tolist() if k else [[] for _ in range(m)]
        whole = [row + [-v for v in more] for row, more in zip(rows, free, strict=True)]
        whole += [[free[i][j] for i in range(m)] + [flint.arb(0)] * k for j in range(k)]
        self.matrix = flint.arb_mat(whole)

    def _scaled_columns(self) -> Matrix:
        """A_x diag(x/r)."""
        at = self.at
        share = [x / r for x, r in zip(at.x.entries(), at.r.entries(), strict=True)]
        rows = [[v * t for v, t in zip(row, share, strict=True)] for row in at.a_x.tolist()]
        return at.flint.arb_mat(rows) if share else at.a_x

    def _turned(self, a: Matrix, n: int, x: Matrix, inverse: Matrix) -> Matrix:
        """(m, n²) the flat X A_i S⁻¹."""
        flint, m = self.at.flint, a.nrows()
        half = (flint.arb_mat(m * n, n, a.entries()) * x).mid().entries()
        turned = [half[(e * n + j) * n + i] for e in range(m) for i in range(n) for j in range(n)]
        whole = (flint.arb_mat(m * n, n, turned) * inverse).mid()
        return flint.arb_mat(m, n * n, whole.entries())

    def direction(self, mu: float, affine: _Direction | None) -> _Direction:
        """The step to complementarity μ, with the second-order term of an affine step."""
        at = self.at
        goals = []
        for k, (x, inverse, r_d) in enumerate(zip(at.X, self.inverses, self.R_d, strict=True)):
            goal = mu * inverse - x + _symmetric(x * r_d * inverse)
            if affine is not None:
                goal -= _symmetric(affine.X[k] * affine.S[k] * inverse)
            goals.append(goal.mid())
        goal_x = []
        for j, (x, r, d) in enumerate(
            zip(at.x.entries(), at.r.entries(), self.r_d.entries(), strict=True)
        ):
            more = 0 if affine is None else affine.x[j, 0] * affine.r[j, 0]
            goal_x.append((mu - more + x * d) / r - x)
        right = at._values(goals, at._column(goal_x)) - self.r_p
        both = at._column([*right.entries(), *self.f_d.entries()]).mid()
        solved = self.matrix.solve(both, algorithm="approx").entries()
        m = len(at.program.rows)
        w, f = at._column(solved[:m]), at._column(solved[m:])
        S = [(image - r_d).mid() for image, r_d in zip(at._images(w), self.R_d, strict=True)]
        r = (at.a_x.transpose() * w - self.r_d).mid()
        X = [
            (mu * inverse - x - _symmetric((x * ds + self._second(affine, k)) * inverse)).mid()
            for k, (x, inverse, ds) in enumerate(zip(at.X, self.inverses, S, strict=True))
        ]
        x = [
            (mu - (0 if affine is None else affine.x[j, 0] * affine.r[j, 0]) - v * dr) / s - v
            for j, (v, s, dr) in enumerate(
                zip(at.x.entries(), at.r.entries(), r.entries(), strict=True)
            )
        ]
        return _Direction(X, S, at._column(x).mid(), r, f, w)

    def _second(self, affine: _Direction | None, k: int) -> Matrix:
        n = self.at.n[k]
        return self.at._identity(n, 0.0) if affine is None else affine.X[k] * affine.S[k]


def _symmetric(a: Matrix) -> Matrix:
    return (a + a.transpose()) / 2


def _inverse_root(flint: Any, a: Matrix) -> Matrix:
    """L⁻¹ of a = LLᵀ; ZeroDivisionError if there is none."""
    n = a.nrows()
    rows: list[list[Any]] = []
    zero = flint.arb(0)
    for i, given in enumerate(a.tolist()):
        row: list[Any] = []
        for j in range(i + 1):
            other = row if i == j else rows[j]
            left = given[j] - sum((u * v for u, v in zip(row, other, strict=False)), zero)
            if i == j:
                if not left.mid() > 0:
                    raise ZeroDivisionError
                row.append(left.mid().sqrt().mid())
            else:
                row.append((left / other[j]).mid())
        rows.append(row + [zero] * (n - i - 1))
    one = flint.arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
    return flint.arb_mat(rows).solve(one, algorithm="approx").mid()


def _length(inverse_root: Matrix, d: Matrix) -> float:
    """The largest step along d inside the cone."""
    turned = (inverse_root * d * inverse_root.transpose()).mid()
    values = np.array([[float(v) for v in row] for row in turned.tolist()])
    least = float(np.linalg.eigvalsh(values)[0])
    return -1 / least if least < 0 else np.inf


def _ratio(x: Matrix, d: Matrix) -> float:
    pairs = zip(x.entries(), d.entries(), strict=True)
    return min((float(-u / v) for u, v in pairs if v < 0), default=np.inf)
