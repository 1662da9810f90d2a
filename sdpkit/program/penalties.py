"""The curved terms of an objective: its penalties and log dets, checked for convexity.

A penalty is written on auxiliary variables. One of any other expression e gets new
variables and the constraint that makes them equal to e.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError
from sdpkit.program.atoms import Auxiliary, LogDet, Penalty
from sdpkit.program.expressions import Constraint, Expression, Unknown, Variable
from sdpkit.program.form import Sense
from sdpkit.program.measurements import VariableColumns
from sdpkit.program.printing import written
from sdpkit.program.safe import NormPenalty
from sdpkit.typing import Array


@dataclass(frozen=True, eq=False)
class WeightedPenalty:
    """weight · ‖e‖² or weight · ‖e‖ of auxiliary variables e.

    Attributes
    ----------
    kind: "squares" or "norm";  weight: positive
    variable: the variables and `scales`, (k,) what each is multiplied by
    residual: the constraint that makes the variables equal to an expression, or None
    """

    kind: str
    weight: float
    variable: Auxiliary
    scales: Array
    residual: Constraint | None


def penalties_of(sense: Sense, goal: Expression) -> list[WeightedPenalty]:
    """The penalties of an objective. Terms that would make it non-convex are refused."""
    out: list[WeightedPenalty] = []
    taken: set[int] = set()  # variables that have a penalty which no other may join
    for atom, a in goal.terms:
        weight = float(a.sum())
        if isinstance(atom, LogDet) and (weight < 0) == (sense == "max") and weight:
            verb = "subtracted from" if sense == "max" else "added to"
            raise InputError(
                f"log det {atom.unknown.name} is concave, and here it is {verb} what is {sense}"
                "imised, which is not convex: add it to what is maximised, or subtract it from "
                "what is minimised"
            )
        if not isinstance(atom, Penalty) or not weight:
            continue
        if (weight > 0) == (sense == "max"):
            text = f"‖{written(atom.expression.words)}‖" + "²" * (atom.kind == "squares")
            raise InputError(
                f"the penalty {text} is convex and cannot be maximised: subtract it from what is "
                "maximised, or add it to what is minimised"
            )
        out.append(_weighted(atom, abs(weight), taken))
        taken.add(id(out[-1].variable))
    return out


def _weighted(penalty: Penalty, weight: float, taken: set[int]) -> WeightedPenalty:
    e = penalty.expression
    if len(e.terms) == 1 and not e.constant.any():
        atom, a = e.terms[0]
        columns = sp.csc_array(a)
        alone = np.diff(columns.indptr).max(initial=0) <= 1 >= np.diff(a.indptr).max(initial=0)
        if isinstance(atom, Auxiliary) and alone and id(atom) not in taken:
            scales = np.asarray(abs(columns).sum(axis=0), dtype=np.float64).ravel()
            plain = atom.free and bool((scales == scales[:1]).all()) and bool(scales.all())
            if penalty.kind == "squares" or plain:
                return WeightedPenalty(penalty.kind, weight, atom, scales, None)
    residual = Variable(e.size, "", free=True)
    (atom, _) = residual.terms[0]
    assert isinstance(atom, Auxiliary)
    return WeightedPenalty(penalty.kind, weight, atom, np.ones(e.size), e == residual)


def curvature(
    penalties: list[WeightedPenalty], columns: VariableColumns
) -> tuple[Array, list[NormPenalty]]:
    """The quadratic penalty h_j of every column, and the norm penalties."""
    h, norms = np.zeros(columns.size), []
    for penalty in penalties:
        start, k = columns.starts[id(penalty.variable)], penalty.variable.size
        if penalty.kind == "squares":
            h[start : start + k] += 2 * penalty.weight * penalty.scales**2
        elif k:
            group = tuple(range(start, start + k))
            norms.append(NormPenalty(penalty.weight * float(penalty.scales[0]), group))
    return h, norms


def log_det_weight(goal: Expression, unknown: Unknown) -> float:
    """β of the unknown: the absolute weight of its log det in the objective."""
    mine = [a for atom, a in goal.terms if isinstance(atom, LogDet) and atom.unknown is unknown]
    return abs(sum(float(a.sum()) for a in mine))
