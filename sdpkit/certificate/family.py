"""Certificates of programs with a family of comparisons that are searched, not listed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from sdpkit.certificate.bounds import EPS, beyond_rounding
from sdpkit.certificate.certificate import Certificate
from sdpkit.certificate.primal import primal_side
from sdpkit.certificate.rounding import slack_roundings, sum_rounding
from sdpkit.certificate.scales import ratio, relative_gap_of, value_unit
from sdpkit.certificate.smoothed_dual import smoothed_sums
from sdpkit.program.form import Program
from sdpkit.program.gram import Matrix
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.program.families import Rows


def certify_family(
    program: Program,
    blocks: list[Matrix],
    aux: Array,
    rows: Rows | None,
    alpha: Array | None,
    smoothing: float = 0.0,
) -> Certificate:
    primal = primal_side(program, blocks, aux)
    dual = _NO_FAMILY_DUAL
    if smoothing:
        dual = _smoothed_dual(program, primal.matrices, smoothing)
    elif rows is not None and alpha is not None and np.isfinite(alpha).all():
        dual = _family_dual(program, rows, alpha) if _are_rows(program, rows) else _NOT_ROWS
    scale = max(block.cost.magnitude() for block in program.blocks)
    safe = dual.bound + program.offset
    if program.offset:
        safe = float(np.nextafter(safe, -np.inf))  # the sum was rounded
    difference = primal.objective - dual.value
    errors = (primal.residual, max(0.0, -primal.smallest), dual.outside, max(0.0, -dual.smallest))
    size = 1.0 + abs(primal.objective) + abs(dual.value)
    return Certificate(
        objective=primal.objective,
        dual_objective=dual.value + program.offset,
        primal_residual=primal.residual,
        dual_residual=ratio(max(0.0, -dual.smallest, dual.outside), scale or 1.0),
        min_eigenvalue_primal=primal.smallest,
        eigenvalue_scale=primal.largest,
        min_eigenvalue_dual=dual.smallest,
        safe_bound=safe,
        bound_source=dual.source,
        relative_gap=relative_gap_of(program, primal.objective, safe),
        unit=value_unit(program, primal.objective, safe),
        dimacs=(*errors, difference / size, difference / size),
        program=program,
        multipliers=_counted(program, dual, alpha),
        rows=rows,
        smoothing=smoothing,
        matrices=tuple(primal.matrices),
        x=primal.x,
    )


@dataclass(frozen=True)
class _FamilyDual:
    """Σcα, its safe part, and by how much α misses its box and the cone."""

    value: float
    bound: float
    share: float
    outside: float
    smallest: float
    source: str


_NO_FAMILY_DUAL = _FamilyDual(-np.inf, -np.inf, 0.0, np.inf, -np.inf, "no multipliers")


_NOT_ROWS = replace(
    _NO_FAMILY_DUAL, source="some multipliers do not belong to comparisons of the family"
)


def _are_rows(program: Program, rows: Rows) -> bool:
    """Whether the multipliers belong to comparisons of the family, each named once."""
    family = program.family
    if family is None or rows.dtype.kind != "i" or not family.has(rows).all():
        return False
    ascends = bool(np.all(np.diff(rows) > 0))  # as ours do
    return ascends or len(np.unique(rows)) == len(rows)


def _counted(program: Program, dual: _FamilyDual, alpha: Array | None) -> Array | None:
    """The multipliers that give the bound, in the signs of the maximisation."""
    if alpha is None or dual.bound == -np.inf:
        return None
    return np.asarray(-dual.share * np.clip(alpha, 0.0, _weight(program)))


def _family_dual(program: Program, rows: Rows, alpha: Array) -> _FamilyDual:
    assert program.family is not None
    terms = program.family.terms(rows)
    inside = np.clip(alpha, 0.0, _weight(program))
    outside = float(np.abs(alpha - inside).max(initial=0.0))
    images = program.family_images(terms, inside)
    costs = [block.cost.dense() for block in program.blocks]
    sums = [cost + image for cost, image in zip(costs, images, strict=True)]
    # The blocks of the family have no measurements, and directions without a cost count as unseen.
    restricted, w = program.restricted(rows), -inside
    eigenvalues = [b.smallest_on_face(s) for b, s in zip(restricted.blocks, sums, strict=True)]
    smallest = min(eigenvalues)
    value = float(terms.row_constants @ inside)
    least = value - sum_rounding(restricted, w)
    roundings = slack_roundings(restricted, w)
    if min(beyond_rounding(restricted, w, eigenvalues, roundings)) >= 0:
        return _FamilyDual(value, least, 1.0, outside, smallest, "feasible dual")
    parts = zip(costs, images, roundings, strict=True)
    share = min(_largest_share(*part) for part in parts)
    if share >= 0 and value < 0:
        share = 0.0  # no multipliers at all are worth more
    bound = share * least if share >= 0 else -np.inf
    return _FamilyDual(value, bound, max(share, 0.0), outside, smallest, "scaled dual")


def _smoothed_dual(program: Program, matrices: list[Matrix], width: float) -> _FamilyDual:
    """The same for multipliers of a formula, summed over all comparisons and never listed."""
    sums = smoothed_sums(program, matrices, width)
    if sums is None:
        return replace(_NO_FAMILY_DUAL, source="the multipliers cannot be summed")
    costs = [block.cost.dense() for block in program.blocks]
    slacks = [cost + image for cost, image in zip(costs, sums.images, strict=True)]
    smallest = min(float(scipy.linalg.eigvalsh(s, subset_by_index=[0, 0])[0]) for s in slacks)
    share = min(
        _largest_share(*part) for part in zip(costs, sums.images, sums.roundings, strict=True)
    )
    bound = share * sums.least if share >= 0 else -np.inf
    source = "feasible dual" if share == 1 else "scaled dual"
    return _FamilyDual(sums.value, bound, max(share, 0.0), 0.0, smallest, source)


def _largest_share(cost: Array, image: Array, rounding: float) -> float:
    """The largest θ ∈ [0, 1] with C + θA ⪰ 0, less what rounding can hide; −1 if C is not ⪰ 0."""
    weakest = float(scipy.linalg.eigvalsh(cost, subset_by_index=[0, 0])[0])
    if weakest <= 1e-12 * float(np.linalg.norm(cost)):
        return 0.0 if weakest >= 0 else -1.0
    try:
        smallest = float(scipy.linalg.eigvalsh(image, cost, subset_by_index=[0, 0])[0])
    except np.linalg.LinAlgError:
        return 0.0  # near the ends of the floating-point range
    smallest -= (10 * EPS * float(np.linalg.norm(image)) + 2 * rounding) / weakest
    return 1.0 if smallest >= -1 else -1.0 / smallest


def _weight(program: Program) -> float:
    return 0.0 if program.family is None else program.family.weight
