"""What proves an answer: everything is recomputed from (program, primal, dual) alone.

The heart is the **safe bound**, a bound on the optimal value that holds although the returned
multipliers are inexact. For a maximisation with multipliers w, put into their box of signs
first, let S(w) be the dual slack and λ its smallest eigenvalue on the face. Then

    feasible dual      λ ≥ 0:                      bᵀw
    trace              tr M ≤ T on the feasible set: bᵀw + max(0, −λ)·T
    repair direction   Aᵀ(w₀) ⪰ κI on the face:    bᵀ(w + (max(0, −λ)/κ) w₀)
    anchor             w̄ feasible with slack λ̄:    bᵀ((1−θ)w + θw̄),  (1−θ)λ + θλ̄ = 0
    scaling            s·Aᵀ(w) ⪰ C:                s·bᵀw, for the best such s
                       (with a log det: S(sw) ≻ 0 and the linear conditions, s next to one)

each bound the optimum from above, and the smallest is taken. Where there is none, multipliers that
are feasible up to the rounding of moderate sums bound it with a price for that rounding; `verify`
grants nothing. A minimisation is the negated
maximisation. Eigenvalues are floating point here; `Certificate.verify` makes them rigorous.

The certificate of a program with a family of comparisons uses the multipliers α of *some* of them,
while its objective counts them all. The bound is  θ·Σα  for the largest θ ≤ 1 with
C + θ·Σα_t(…) ⪰ 0.

Graphs of more than 1500 nodes have no n × n matrices here. The smallest eigenvalue of their dual
slack is a proven lower bound from sparse factors (`sdpkit.numerics.sparse_factor`), and their
primal may be a `Gram`, data from which lengths, trace and positive semidefiniteness are computed.

Denominators, written down once:

    relative_gap      |bound − objective| / unit, unit = max(|objective|, |bound|, floor), offsets
                      included; with a log det: over max(Σβ, |linear part| − Σβn): a log det moves
                      by a constant with the unit of length, so that its size means nothing
    primal_residual   largest violation of a constraint, less its unavoidable rounding
                      64ε·Σ|a_ep||v_p|ᵀ|M||v_p|, over max(|b_e|, Σ|a_ep|q_p + Σ|a_ej||x_j|);
                      and ‖M N‖/(‖M‖‖N‖), ‖M − Mᵀ‖/‖M‖
    cone_residual     the same at the nearest point with M ⪰ 0, MN = 0, x ≥ 0 or in its second-order
                      cones: a change that is
                      negligible against the largest eigenvalue may be all of a small constraint
    residual_price    Σ|w_e|·violation_e over the gap's unit, w the bound's multipliers
    complementarity   Σ|<S, M>| + Σ|r_j x_j| (rᵀx of a second-order cone) + Σ|w_e|·(slack of
                      inequality e), of linear programs, over the gap's unit: without residuals it
                      is the gap, and with them neither may hide the other
    dual_residual     largest of −λ, sign, box and reduced-cost violations / max(‖C‖, |c|, |g|)

with 0/0 = 0. The floor (`Program.value_floor`) is stated by a problem, Σd/n for MVU; for programs
from files and from cvxpy, and for those you build yourself, it is 1, and less where all data are
tiny: `optimal` implies |objective − bound| ≤ tol·max(1, |objective|, |bound|) there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.certificate.bounds import SafeBound, linear_violation, safe_bound, slack_eigenvalues
from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.family import certify_family
from sdpkit.certificate.primal import PrimalSide, as_matrices, as_vector, primal_side
from sdpkit.certificate.scales import ratio, relative_gap_of, value_unit
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix, trace
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.families import Rows


# A trace of this many times n² times the size that the constraints suggest gets a warning.
_FAR = 1e3


@one_blas_thread
def certify(
    program: Program,
    matrices: Matrix | Sequence[Matrix],
    x: ArrayLike | None = None,
    dual: ArrayLike | None = None,
    rows: Rows | None = None,
    smoothing: float = 0.0,
) -> Certificate:
    """Certify a primal (matrices, x) and a dual w of a program by recomputing everything.

    Missing multipliers, NaN or infinity give infinite residuals and an infinite gap.

    Parameters
    ----------
    program : Program
        The program.
    matrices : array or Gram or sequence of array or Gram
        One (n, n) array or `Gram` per block; a single one for a single block.
    x : array-like of shape (n_x,) or None, default None
        Auxiliary variables; None if there are none.
    dual : array-like of shape (m,) or None, default None
        Multipliers w, or those of `rows`; None if there are none.
    rows : Rows or None, default None
        For a program with a family, the comparisons that `dual` belongs to.
    smoothing : float, default 0.0
        γ > 0: the multipliers are weight·clip(½ + z/γ, 0, 1) for every comparison z of the family
        at `matrices`.

    Returns
    -------
    Certificate
        Residuals, eigenvalues, objectives, the safe bound and the gap.

    Examples
    --------
    >>> from sdpkit import Block, Cost, Program
    >>> block = Block.of(2, [[1.0, -1.0]], cost=Cost.of(2, identity=1.0), null=[1.0, 1.0])
    >>> program = Program.of(block, [4.0])              # two points at distance 2
    >>> K = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> certify(program, K, dual=[0.5]).passes(1e-12)
    True
    >>> certify(program, 1.01 * K, dual=[0.5]).failures(1e-6)
    ['certified relative gap is 0.0099', 'primal residual is 0.0099',
     'cost of the residuals is 0.0099']
    """
    blocks = as_matrices(program, matrices)
    aux = as_vector(x, program.n_auxiliary, "x", default=0.0)
    if program.family is not None:
        alpha = None if dual is None or rows is None else as_vector(dual, rows.size, "dual")
        with np.errstate(over="ignore", invalid="ignore"):
            return certify_family(program, blocks, aux, rows, alpha, smoothing)
    w = None if dual is None else program.sign * as_vector(dual, program.n_rows, "dual")
    # Numbers without meaning may overflow: their residual is infinite, which needs no warning.
    with np.errstate(over="ignore", invalid="ignore"):
        return _certify(program, blocks, aux, w)


def _certify(program: Program, blocks: list[Matrix], aux: Array, w: Array | None) -> Certificate:
    primal = primal_side(program, blocks, aux)
    bound, dual_residual, smallest = _dual_side(program, w)
    dual_value = np.inf if w is None else program.dual_value(w)
    if not np.isfinite(dual_value):
        dual_value = np.inf
    sign, offset = program.sign, program.offset
    safe = sign * bound.value + offset
    if offset:
        safe = float(np.nextafter(safe, sign * np.inf))  # the sum was rounded
    linear = _linear_part(program, primal)
    unit = value_unit(program, primal.objective, safe, linear)
    price = _price(program, primal, bound)
    return Certificate(
        objective=primal.objective,
        dual_objective=sign * dual_value + offset,
        primal_residual=primal.residual,
        dual_residual=dual_residual,
        min_eigenvalue_primal=primal.smallest,
        eigenvalue_scale=primal.largest,
        min_eigenvalue_dual=smallest,
        safe_bound=safe,
        bound_source=bound.source,
        relative_gap=relative_gap_of(program, primal.objective, safe, linear),
        dimacs=_dimacs(program, primal, w, sign * dual_value + offset, smallest),
        program=program,
        multipliers=bound.multipliers,
        cone_residual=primal.inside,
        residual_price=ratio(price, unit),
        complementarity=ratio(_complementarity(program, primal, bound), unit),
        unit=unit,
        terms=_terms(program, primal, bound),
        warnings=_warnings(program, primal),
        matrices=tuple(primal.matrices),
        x=primal.x,
    )


def _linear_part(program: Program, primal: PrimalSide) -> float:
    """The objective without log dets and penalties; 0 where there are no log dets."""
    if not program.has_log_det or not np.isfinite(primal.objective):
        return 0.0
    curved = program.penalty(primal.x) - program.log_dets(primal.matrices)
    return primal.objective - program.offset + program.sign * curved


def _terms(program: Program, primal: PrimalSide, bound: SafeBound) -> float:
    """The size of the terms that the objective and the bound are sums of."""
    if not np.isfinite(primal.objective):
        return np.inf
    costs = float(np.abs(program.cost_x) @ np.abs(primal.x) + np.abs(program.cost_q) @ primal.q)
    for block, matrix in zip(program.blocks, primal.matrices, strict=True):
        costs += abs(block.cost.inner(matrix))
    w = bound.multipliers
    prices = 0.0 if w is None else float(np.abs(program.rhs) @ np.abs(w))
    return abs(program.offset) + max(costs, prices)


def _price(program: Program, primal: PrimalSide, bound: SafeBound) -> float:
    """Σ|w_e|·violation_e: what the residuals may be worth."""
    if bound.multipliers is None or not np.isfinite(primal.objective):
        return 0.0
    return float(np.abs(bound.multipliers) @ program.violations(primal.q, primal.x))


def _complementarity(program: Program, primal: PrimalSide, bound: SafeBound) -> float:
    """Σ|<S, M>| + Σ|r_j x_j| + Σ|w_e|·room_e of a linear program, without the matrices S."""
    w = bound.multipliers
    if not program.is_linear or w is None or not np.isfinite(primal.objective):
        return 0.0
    slack = program.excess(program.rhs - program.row_values(primal.q, primal.x))
    total = float(np.abs(w) @ np.where(program.relations == 0, 0.0, slack))
    total += float(np.abs(program.cone_x.products(program.reduced_costs(w), primal.x)).sum())
    weights = program.split(program.measurement_weights(w))
    lengths = program.split(primal.q)
    for block, u, q, matrix in zip(program.blocks, weights, lengths, primal.matrices, strict=True):
        total += abs(float(u @ q) - program.sign * block.cost.inner(matrix))
    return total


def _warnings(program: Program, primal: PrimalSide) -> tuple[str, ...]:
    """What makes a small backward error say little about the value."""
    if not np.isfinite(primal.objective) or not program.rhs.any():
        return ()
    largest = max(block.size for block in program.blocks)
    limit = _FAR * largest**2 * program.natural_size
    size = sum(trace(m) for m in primal.matrices) + float(np.abs(primal.x).sum())
    if size <= limit:
        return ()
    return (
        f"the point is {size / program.natural_size:.1e} times as large as its constraints "
        "suggest: the program may have no interior or not attain its optimum, and small residuals "
        "may then change the value; verify() shows an interior where there is one",
    )


# -- dual -----------------------------------------------------------------------------------


def _dual_side(program: Program, w: Array | None) -> tuple[SafeBound, float, float]:
    """(safe bound, dual residual, smallest slack eigenvalue) for the maximisation."""
    if w is None or not np.isfinite(w).all():
        return SafeBound(np.inf, "no multipliers"), np.inf, -np.inf
    eigenvalues = slack_eigenvalues(program, w)
    smallest = min(eigenvalues)
    violation = max(0.0, -smallest, linear_violation(program, w))
    costs = [block.cost.magnitude() for block in program.blocks]
    linear = np.concatenate([program.cost_x, program.cost_q])
    scale = max(*costs, float(np.abs(linear).max(initial=0.0)))
    bound = safe_bound(program, w, eigenvalues)
    return bound, ratio(violation, scale or 1.0), smallest


# -- DIMACS errors --------------------------------------------------------------------------


def _dimacs(
    program: Program, primal: PrimalSide, w: Array | None, dual_objective: float, smallest: float
) -> tuple[float, float, float, float, float, float]:
    """The errors of the 7th DIMACS challenge, with Z recomputed as the dual slack; of programs with
    penalties or a log det, which the challenge did not have, the sixth is the fifth again."""
    b = 1.0 + float(np.abs(program.rhs).max(initial=0.0))
    c = 1.0 + max(block.cost.magnitude() for block in program.blocks)
    err1, err2 = primal.row_norm / b, max(0.0, -primal.smallest) / b
    if w is None or not np.isfinite(w).all() or not np.isfinite(primal.objective):
        return err1, err2, np.inf, np.inf, np.inf, np.inf
    difference = program.sign * (dual_objective - primal.objective)
    size = 1.0 + abs(dual_objective) + abs(primal.objective)
    err3, err4 = max(0.0, linear_violation(program, w)) / c, max(0.0, -smallest) / c
    # <S, M> = uᵀq − <C, M>, without the matrix S.
    inner = float(program.measurement_weights(w) @ primal.q)
    for block, matrix in zip(program.blocks, primal.matrices, strict=True):
        inner -= program.sign * block.cost.inner(matrix)
    inner += float(program.reduced_costs(w) @ primal.x)
    if not program.is_linear:
        inner = difference  # complementarity in the challenge's sense is that of linear programs
    return err1, err2, err3, err4, difference / size, inner / size
