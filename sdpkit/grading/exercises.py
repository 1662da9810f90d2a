"""Ten exercises for the first chapters of the course; `EXERCISES` has them by name.

Signs are those of each question. The multipliers of an equation are free; with the dual in the
question, a student can check by hand that a bound is one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sdpkit import datasets
from sdpkit.grading.criteria import (
    feasible,
    near_optimal,
    proves_infeasible,
    proves_unbounded,
    tight_bound,
    valid_bound,
)
from sdpkit.grading.exercise import Exercise, Point
from sdpkit.problems.lmnn import LMNN
from sdpkit.problems.mvu import MVU
from sdpkit.program.compilation import maximise, minimise
from sdpkit.program.expressions import Unknown
from sdpkit.program.form import Program
from sdpkit.typing import Array

# Both sides of an optimum: a point and its proof.
_BOTH_SIDES = ((2.0, feasible), (3.0, near_optimal), (2.0, valid_bound), (3.0, tight_bound))


def _correlations() -> Program:
    X = Unknown("X", 3)
    return minimise(
        X[0, 2], X[0, 0] == 1, X[1, 1] == 1, X[2, 2] == 1, X[0, 1] == 0.9, X[1, 2] == 0.9
    )


def _five_people() -> Program:
    X = Unknown("X", 5)
    ring = 5 * np.eye(5)[0, 0] - sum(2 * X[i, (i + 1) % 5] for i in range(5)) / 2
    return maximise(0.5 * ring, *(X[i, i] == 1 for i in range(5)))


def _theta() -> Program:
    X = Unknown("X", 5)
    edges = [X[i, (i + 1) % 5] == 0 for i in range(5)]
    return maximise(X.inner(np.ones((5, 5))), X.trace() == 1, *edges)


def _beads() -> Program:
    edges = [(i, i + 1) for i in range(6)]
    lengths = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0])
    K = Unknown("K", 7, null=np.ones(7))
    return maximise(K.trace(), K.distances(edges) == lengths**2)


def _ring() -> Program:
    return MVU(graph=datasets.cycle_graph(6)).program()


def _triangle() -> Program:
    K = Unknown("K", 3, null=np.ones(3))
    return maximise(K.trace(), K.distances([(0, 1), (0, 2), (1, 2)]) == np.array([1.0, 1.0, 9.0]))


def _two_parts() -> Program:
    K = Unknown("K", 4, null=np.ones(4))
    return maximise(K.trace(), K.distances([(0, 1), (2, 3)]) == 1)


_MATRIX = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 1.0]])


def _largest_eigenvalue() -> Program:
    M = Unknown("M", 3)
    return maximise(M.inner(_MATRIX), M.trace() == 1)


_SYSTEM = np.array([[-1.0, 2.0], [0.0, -1.0]])


def _lyapunov() -> Program:
    """min tr P, P ⪰ 0, with the block S = −(AᵀP + PA) − I ⪰ 0 linked entry by entry."""
    P, S = Unknown("P", 2), Unknown("S", 2)
    A = _SYSTEM
    links = []
    for i, j in ((0, 0), (0, 1), (1, 1)):
        entry = sum(A[k, i] * P[k, j] + A[k, j] * P[i, k] for k in range(2))
        links.append(S[i, j] + entry == -float(i == j))
    return minimise(P.trace(), *links)


def _lyapunov_point(arrays: Mapping[str, Array]) -> Point:
    P = arrays["P"]
    return [P, -(_SYSTEM.T @ P + P @ _SYSTEM) - np.eye(2)], np.zeros(0)


_POINTS = np.array([[0, 0], [1, 0.2], [2, -0.1], [0, 1.0], [1, 1.2], [2, 0.9]])
_LABELS = np.array([0, 0, 0, 1, 1, 1])


def _metric() -> Program:
    return LMNN(_POINTS, _LABELS, n_neighbors=1).program()


EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise
    for exercise in (
        Exercise(
            "correlations",
            "Three quantities have the correlations X₁₂ = X₂₃ = 0.9. Submit the matrix X of "
            "correlations with the smallest X₁₃, and multipliers w of the equations (the three "
            "of the diagonal, then X₁₂ and X₂₃) with S = C − Σ wₖAₖ ⪰ 0 that prove it: bᵀw is the "
            "bound.",
            _correlations,
            {"matrix": (3, 3), "multipliers": (5,)},
            _BOTH_SIDES,
        ),
        Exercise(
            "five-people",
            "Five people around a table, each pair of neighbours quarrels. Maximise "
            "Σ (1 − X_{i,i+1})/2 over X ⪰ 0 with ones on the diagonal. Submit X and the five "
            "multipliers of the diagonal, with S = Diag(w) − C ⪰ 0.",
            _five_people,
            {"matrix": (5, 5), "multipliers": (5,)},
            _BOTH_SIDES,
        ),
        Exercise(
            "theta",
            "The Lovász number of the pentagon: maximise <11ᵀ, X>, tr X = 1, X_{i,i+1} = 0, X ⪰ 0. "
            "Submit X and six multipliers, that of the trace first, with S = Aᵀ(w) − 11ᵀ ⪰ 0.",
            _theta,
            {"matrix": (5, 5), "multipliers": (6,)},
            _BOTH_SIDES,
        ),
        Exercise(
            "beads",
            "Seven beads on a string with the lengths 1, 2, 1, 3, 1, 2. Unfold them: submit the "
            "centred Gram matrix K of largest trace, and a tension w for each length, with "
            "L(w) − C ⪰ 0 on the vectors that sum to zero.",
            _beads,
            {"matrix": (7, 7), "multipliers": (6,)},
            _BOTH_SIDES,
        ),
        Exercise(
            "ring",
            "Six beads on a ring with lengths 1. Submit the centred Gram matrix of largest trace "
            "and the six tensions. By symmetry one number is enough for each: which?",
            _ring,
            {"matrix": (6, 6), "multipliers": (6,)},
            _BOTH_SIDES,
        ),
        Exercise(
            "triangle",
            "No triangle has the sides 1, 1, 3. Submit multipliers of the squared distances of the "
            "pairs 12, 13, 23 with L(w) ⪰ 0 and dᵀw < 0 that prove it.",
            _triangle,
            {"multipliers": (3,)},
            ((10.0, proves_infeasible),),
        ),
        Exercise(
            "two-parts",
            "Two pairs of beads, each joined by a length 1, and nothing between the pairs. Submit "
            "a direction, a Gram matrix, along which the variance grows without end.",
            _two_parts,
            {"matrix": (4, 4)},
            ((10.0, proves_unbounded),),
        ),
        Exercise(
            "largest-eigenvalue",
            "A = [[2, 1, 0], [1, 3, −1], [0, −1, 1]]. Submit the smallest t with tI − A ⪰ 0 as the "
            "only multiplier, and a matrix M ⪰ 0 of trace 1 with <A, M> = t, which proves that no "
            "smaller t will do.",
            _largest_eigenvalue,
            {"matrix": (3, 3), "multipliers": (1,)},
            _BOTH_SIDES,
        ),
        Exercise(
            "lyapunov",
            "x' = Ax with A = [[−1, 2], [0, −1]]. Submit P ⪰ 0 with AᵀP + PA ⪯ −I and the smallest "
            "trace: xᵀPx is a Lyapunov function.",
            _lyapunov,
            {"P": (2, 2)},
            ((5.0, feasible), (5.0, near_optimal)),
            point=_lyapunov_point,
        ),
        Exercise(
            "metric",
            "Six points: (0, 0), (1, 0.2), (2, −0.1) of one class and (0, 1), (1, 1.2), (2, 0.9) "
            "of another. Submit the metric M of large margin nearest neighbours with one target "
            "neighbour and μ = 0.5.",
            _metric,
            {"matrix": (2, 2)},
            ((3.0, feasible), (7.0, near_optimal)),
            tol=1e-3,
        ),
    )
}

__all__ = ["EXERCISES"]
