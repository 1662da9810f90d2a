"""Pairs: the family against its definition; the problem's two formulations, theorems, refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_iris

import sdpkit
from sdpkit import InputError, PairMargins, Program, Solution, Status, certify
from sdpkit.program.families import laplacians, values
from sdpkit.program.labelled_pairs import LabelledPairs
from sdpkit.program.listed_rows import ListedRows
from sdpkit.typing import Array

Pair = tuple[int, int]


# -- the family -----------------------------------------------------------------------------


def all_pairs(family: LabelledPairs) -> list[Pair]:
    """(i, j) in the order of rows: i, similar before dissimilar, j."""
    n, y = family.n_points, family.labels
    pairs = [(int(i), j) for i in family.starts for j in range(i + 1, n)]
    return sorted(pairs, key=lambda p: (p[0], y[p[0]] != y[p[1]], p[1]))


def margin(family: LabelledPairs, points: Array, pair: Pair) -> Fraction:
    """q − u or l − q, without rounding."""
    i, j = pair
    both = zip(points[i].tolist(), points[j].tolist(), strict=True)
    q = sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in both), Fraction(0))
    similar = family.labels[i] == family.labels[j]
    return q - Fraction(family.upper) if similar else Fraction(family.lower) - q


def named(family: Any, rows: Any) -> list[Pair]:
    terms = family.terms(rows)
    (i, j), (k, other) = terms.pulls[terms.pull].T, terms.pushes[terms.push].T
    assert np.array_equal(i, k)
    assert np.all((j >= 0) != (other >= 0))
    assert np.all(np.diff(terms.push) >= 0)
    assert np.all(np.diff(terms.pulls[:, 0]) >= 0)
    assert np.all(np.diff(terms.pushes[:, 0]) >= 0)
    return list(zip(i.tolist(), np.where(j >= 0, j, other).tolist(), strict=True))


@st.composite
def instances(draw: st.DrawFn) -> tuple[LabelledPairs, Array]:
    """Points on a small grid, so that duplicates and ties abound and nothing rounds."""
    n, width = draw(st.integers(2, 12)), draw(st.integers(0, 3))
    labels = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    upper = draw(st.sampled_from([0.0, 0.5, 1.0]))
    lower = draw(st.sampled_from([1.0, 2.5]))
    numbers = st.lists(st.integers(-2, 2), min_size=n * width, max_size=n * width)
    points = np.array(draw(numbers), float).reshape(n, width) / 2
    family = LabelledPairs.of(labels, upper=upper, lower=lower, weight=0.5)
    return (family.part(0.5) if draw(st.booleans()) else family), points


@settings(max_examples=100, deadline=None)
@given(instances(), st.sampled_from([-1.0, -0.25, 0.0, 0.25, 5.0]))
def test_near_and_sum_are_what_their_definition_says(
    instance: tuple[LabelledPairs, Array], slack: float
) -> None:
    family, points = instance
    pairs = all_pairs(family)
    expected = [p for p in pairs if margin(family, points, p) > -slack]
    assert named(family, family.near([points], slack)) == expected
    exact = float(sum(max(Fraction(0), margin(family, points, p)) for p in pairs))
    assert family.hinge_sum([points]) == pytest.approx(exact, rel=1e-13, abs=1e-13)
    rows = family.everything()
    assert named(family, rows) == pairs
    assert len(pairs) == family.n_rows
    assert np.all(np.diff(rows) > 0)
    z = values(family, family.terms(rows), [points])
    assert z.tolist() == [float(margin(family, points, p)) for p in pairs]
    numbers = np.arange(-5, 2 * family.n_points**2 + 5)
    assert np.array_equal(numbers[family.has(numbers)], rows)


@settings(max_examples=50, deadline=None)
@given(instances(), st.integers(0, 2**31))
def test_laplacian_is_the_gradient(instance: tuple[LabelledPairs, Array], seed: int) -> None:
    """tr(YᵀΛY) = Σ w (z − c), the adjoint identity."""
    family, points = instance
    terms = family.terms(family.everything())
    w = np.random.default_rng(seed).uniform(0, 1, terms.size)
    (graph,) = laplacians(family, terms, w, 1)
    z = values(family, terms, [points]) - terms.row_constants
    assert float(np.vdot(points, graph @ points)) == pytest.approx(float(w @ z), abs=1e-9)


@pytest.mark.parametrize("place", ["origin", "far", "an outlier", "many tiles"])
def test_search_is_exact_where_products_round(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    points = rng.standard_normal((40, 3))
    if place == "far":
        points += 1e7
    if place == "an outlier":
        points[-1] += 1e9
    if place == "many tiles":
        monkeypatch.setattr("sdpkit.program.labelled_pairs._TILE_ROWS", 7)
        monkeypatch.setattr("sdpkit.program.labelled_pairs._TILE_COLUMNS", 5)
    family = LabelledPairs.of(np.arange(40) % 3, upper=1.0, lower=4.0)
    margins = {p: margin(family, points, p) for p in all_pairs(family)}
    doubtful = {p for p, z in margins.items() if abs(float(z)) <= 1e-12 * (1 + abs(float(z)))}
    found = set(named(family, family.near([points], 0.0)))
    assert found - doubtful == {p for p, z in margins.items() if z > 0} - doubtful
    exact = float(sum(max(Fraction(0), z) for z in margins.values()))
    assert family.hinge_sum([points]) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"upper": -1.0}, "thresholds"),
        ({"upper": 3.0}, "thresholds"),
        ({"upper": 0.0, "lower": 0.0}, "thresholds"),
        ({"lower": np.inf}, "thresholds"),
        ({"weight": 0.0}, "positive"),
        ({"labels": [[0, 1]]}, "shape"),
    ],
)
def test_bad_families(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        LabelledPairs.of(**{"labels": [0, 1], "upper": 1.0, "lower": 2.0, **change})


# -- the problem ----------------------------------------------------------------------------


def blobs(seed: int, n: int = 16, d: int = 3) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.standard_normal((n, d)) + 1.2 * rng.standard_normal((2, d))[y], y


def listed(X: Array, y: NDArray[np.int64], **more: Any) -> PairMargins:
    """The same pairs, given one by one."""
    i, j = np.triu_indices(len(X), 1)
    same, pairs = y[i] == y[j], np.c_[j, i]
    return PairMargins(X, similar=pairs[same], dissimilar=pairs[~same], **more)


def problems() -> dict[str, Callable[[], PairMargins]]:
    X, y = blobs(0)
    rng = np.random.default_rng(1)
    root = rng.standard_normal((3, 3))
    few = rng.integers(0, 8, (10, 2))
    return {
        "labels": lambda: PairMargins(X, y, weight=0.1),
        "three classes": lambda: PairMargins(X, np.arange(16) % 3, weight=0.3, upper=0.0),
        "one threshold": lambda: PairMargins(X, y, weight=0.1, upper=2.0, lower=2.0),
        "other units": lambda: PairMargins(X, y, weight=0.1, upper=100.0, lower=200.0),
        "listed": lambda: listed(X, y, weight=0.1),
        "few": lambda: PairMargins(X, similar=few[few[:, 0] != few[:, 1]], dissimilar=[[8, 9]]),
        "no similar pairs": lambda: PairMargins(X, dissimilar=[[0, 1], [2, 3]]),
        "cost": lambda: PairMargins(X, y, weight=0.1, cost=root @ root.T + 0.1 * np.eye(3)),
        "duplicates": lambda: PairMargins(np.vstack([X, X[:4]]), np.r_[y, 1 - y[:4]], weight=0.1),
        "fewer points than features": lambda: PairMargins(X[:3, :1] * np.ones(5), [0, 0, 1]),
    }


@pytest.mark.parametrize("name", problems())
def test_program_and_cvxpy_agree(name: str) -> None:
    problem = problems()[name]()
    solution = sdpkit.solve(problem, tol=1e-6)
    assert solution.status is Status.OPTIMAL
    value = float(problem.to_cvxpy().solve(solver="CLARABEL"))
    scale = problem.weight * problem.lower + abs(value)
    assert solution.objective == pytest.approx(value, abs=1e-5 * scale)
    assert solution.certificate.safe_bound <= value + 1e-5 * scale
    metric = problem.recover(solution)
    assert problem.objective(metric.matrix) == pytest.approx(solution.objective, abs=1e-6 * scale)


LOOSER = {"subgradient": 1e-3, "subgradient-published": 0.05}
ENGINES = [*LOOSER, "factored", "projected", "interior", "clarabel"]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("which", ["labels", "listed", "other units"])
def test_every_engine_solves_it(name: str, which: str) -> None:
    problem = problems()[which]()
    tol = LOOSER.get(name, 1e-4)
    solution = sdpkit.solve(problem, solver=name, tol=tol)
    best = sdpkit.solve(problem, solver="interior", tol=1e-7).objective
    assert solution.status is Status.OPTIMAL
    assert best * (1 - tol) <= solution.objective <= best * (1 + tol)
    assert solution.certificate.safe_bound <= best
    verified = solution.certificate.verify()
    assert verified
    assert verified.bound <= solution.objective


def test_searched_and_listed_pairs_are_the_same_problem() -> None:
    X, y = blobs(2)
    searched, given = PairMargins(X, y, weight=0.2), listed(X, y, weight=0.2)
    assert isinstance(searched.family, LabelledPairs)
    assert isinstance(given.family, ListedRows)
    M = np.diag([0.5, 0.2, 0.1])
    assert searched.objective(M) == pytest.approx(given.objective(M), rel=1e-12)
    one, two = (sdpkit.solve(p, tol=1e-7).objective for p in (searched, given))
    assert one == pytest.approx(two, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.floats(1e-3, 10.0))
def test_on_a_line_the_optimum_is_at_a_breakpoint(seed: int, weight: float) -> None:
    """One feature: c·m + weight·Σ hinges of m·v² is convex and piecewise linear in m ≥ 0."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((9, 1)), np.r_[0, 1, rng.integers(0, 2, 7)]
    problem = PairMargins(X, y, weight=weight, upper=0.5, lower=1.5)
    i, j = np.triu_indices(9, 1)
    squares = np.square(X[i, 0] - X[j, 0])
    breaks = np.where(y[i] == y[j], 0.5, 1.5) / squares
    best = min(problem.objective([[m]]) for m in [0.0, *breaks])
    solution = sdpkit.solve(problem, tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(best, rel=3e-6, abs=3e-6 * weight)


@pytest.mark.parametrize(("weight", "value"), [(0.1, 0.2), (0.5, 2 / 9), (3.0, 2 / 9)])
def test_one_dissimilar_pair(weight: float, value: float) -> None:
    """v with ‖v‖² = 9: M = (l/‖v‖⁴)vvᵀ costs l/‖v‖² = 2/9, or M = 0 costs weight·l."""
    problem = PairMargins([[0.0, 0.0, 0.0], [1.0, 2.0, -2.0]], dissimilar=[[0, 1]], weight=weight)
    solution = sdpkit.solve(problem, tol=1e-7)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(value, rel=1e-5)
    v = np.array([1.0, 2.0, -2.0])
    expected = np.outer(v, v) * (2 / 81 if weight > 1 / 9 else 0.0)
    assert np.allclose(solution.matrix, expected, atol=1e-3 * 2 / 9)


@pytest.mark.parametrize("solver", ["factored", "interior", "auto"])
def test_pairs_that_no_metric_can_part(solver: str) -> None:
    """Dissimilar twins: every hinge is l whatever M is, and M = 0 is the best."""
    X = np.repeat(np.random.default_rng(0).standard_normal((4, 2)), 2, axis=0)
    twins = [[0, 1], [2, 3], [4, 5], [6, 7]]
    problem = PairMargins(X, similar=[[0, 2], [4, 6]], dissimilar=twins, weight=0.5)
    solution = sdpkit.solve(problem, solver=solver)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(0.5 * 2.0 * 4, rel=1e-3)


def test_classes_that_can_be_told_pay_no_hinge() -> None:
    """Two classes along one axis: the least weight of that axis that parts them all."""
    X, y = np.c_[np.r_[0.0, 0.1, 3.0, 3.1], [5.0, 1.0, 2.0, 4.0]], [0, 0, 1, 1]
    problem = PairMargins(X, y, weight=10.0)
    solution = sdpkit.solve(problem, tol=1e-6)
    gap = (3.0 - 0.1) ** 2
    assert solution.objective <= 2.0 / gap * (1 + 1e-5)
    M = problem.recover(solution).matrix
    assert problem.objective(M) - np.trace(M) <= 1e-5
    assert M[0, 0] > 100 * M[1, 1]


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31))
def test_turned_shuffled_and_scaled_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = blobs(seed, n=12)
    base = sdpkit.solve(PairMargins(X, y, weight=0.2), tol=1e-6).objective
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    order = rng.permutation(12)
    moved = PairMargins((X @ turn)[order] + 7.0, y[order], weight=0.2)
    assert sdpkit.solve(moved, tol=1e-6).objective == pytest.approx(base, rel=5e-6)
    # In units of s for the points and 1/s² for M, <C, M> needs C·s² to be the same.
    larger = PairMargins(10 * X, y, weight=0.2, cost=100 * np.eye(3))
    assert sdpkit.solve(larger, tol=1e-6).objective == pytest.approx(base, rel=5e-6)


# -- the certificate ------------------------------------------------------------------------


def judged(solution: Solution, **change: Any) -> sdpkit.Certificate:
    known = {"matrices": solution.matrices, "dual": solution.dual, "rows": solution.rows}
    return certify(solution.program, **{**known, **change})  # type: ignore[arg-type]


def test_certificate_refuses_what_is_perturbed() -> None:
    solution = sdpkit.solve(problems()["labels"](), tol=1e-6)
    best, (M,), alpha = solution.objective, solution.matrices, solution.dual
    assert alpha is not None
    assert judged(solution).passes(1e-6)
    for share in (0.0, 0.9, 1.1, -1.0):
        assert not judged(solution, matrices=[share * np.asarray(M)]).passes(1e-4)
    rng = np.random.default_rng(0)
    weight = solution.program.family.weight
    for wrong in (2 * alpha, -alpha, alpha[::-1].copy(), rng.uniform(0, weight, alpha.size)):
        certificate = judged(solution, dual=wrong)
        assert certificate.safe_bound <= best
        assert not certificate.passes(1e-5)
    assert judged(solution, dual=np.zeros_like(alpha)).safe_bound == 0.0
    terms = solution.program.family.terms(solution.rows)
    only_similar = np.where(terms.row_constants < 0, weight, 0.0)
    assert judged(solution, dual=only_similar).safe_bound <= best
    for rows in (np.repeat(solution.rows, 2), solution.rows + 1, -solution.rows - 1):
        refused = judged(solution, rows=rows, dual=np.resize(alpha, rows.size))
        assert refused.safe_bound == -np.inf


def test_no_multipliers_are_worth_more_than_bad_ones() -> None:
    """Multipliers of a negative worth that are not feasible either: the bound is 0."""
    problem = PairMargins([[0.0], [1.0], [4.0]], [0, 0, 1], weight=1.0, upper=1.9)
    program = problem.program()
    rows = program.family.everything()
    terms = program.family.terms(rows)
    alpha = np.where(terms.row_constants < 0, 1.0, 0.5)
    alpha[terms.row_constants > 0] = [0.4, 0.4]
    judged = certify(program, [np.zeros((1, 1))], dual=alpha, rows=rows)
    assert judged.safe_bound == 0.0


def test_saved_and_loaded(tmp_path: Any) -> None:
    for name in ("labels", "listed"):
        program = problems()[name]().program()
        program.save(tmp_path / "pairs.npz")
        again = Program.load(tmp_path / "pairs.npz")
        assert again.fingerprint == program.fingerprint
        assert type(again.family) is type(program.family)
        matrix = [np.eye(3)]
        assert again.objective(matrix, np.zeros(0)) == program.objective(matrix, np.zeros(0))
    assert "120 pairs" in str(problems()["labels"]().program())


# -- what comes in --------------------------------------------------------------------------


def test_arguments_stay_as_they_were_given() -> None:
    X, y = blobs(4)
    problem = PairMargins(X, y)
    assert problem.X is X
    assert problem.y is y
    changed = dataclasses.replace(problem, weight=0.3)
    assert changed.program().fingerprint == PairMargins(X, y, weight=0.3).program().fingerprint
    X[:] = 0.0
    assert problem.points.any()
    with pytest.raises(TypeError, match="positional"):
        PairMargins(X, y, [[0, 1]])  # type: ignore[call-arg, misc]


GOOD_X, GOOD_Y = blobs(4)
BAD: list[tuple[dict[str, Any], str]] = [
    ({"X": GOOD_X[0]}, "n ≥ 2"),
    ({"X": np.nan * GOOD_X}, "NaN"),
    ({"y": None}, "neither was given"),
    ({"dissimilar": [[0, 1]]}, "both were given"),
    ({"y": GOOD_Y[:5]}, "one label per point"),
    ({"y": np.zeros(16)}, "two classes"),
    ({"y": np.full(16, np.nan)}, "NaN"),
    ({"y": None, "similar": [[0, 1]]}, "no dissimilar pairs"),
    ({"y": None, "dissimilar": [[0, 16]]}, "outside"),
    ({"y": None, "dissimilar": [[3, 3]]}, "twice"),
    ({"y": None, "dissimilar": [[0.5, 1]]}, "whole numbers"),
    ({"y": None, "similar": [[1, 0]], "dissimilar": [[0, 1]]}, "similar and as dissimilar"),
    ({"upper": 3.0}, "thresholds"),
    ({"upper": -1.0}, "upper is -1.0"),
    ({"lower": "2"}, "lower is '2'"),
    ({"weight": 0.0}, "weight is 0"),
    ({"weight": np.nan}, "weight is nan"),
    ({"cost": "covariance"}, "'identity'"),
    ({"cost": np.eye(2)}, r"symmetric \(3, 3\)"),
    ({"cost": np.diag([1.0, 1.0, 0.0])}, "positive definite"),
    ({"cost": np.triu(np.ones((3, 3)))}, "symmetric"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_input(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        PairMargins(**{"X": GOOD_X, "y": GOOD_Y, **change})


def test_all_pairs_of_iris_are_searched() -> None:
    X, y = load_iris(return_X_y=True)
    solution = sdpkit.solve(PairMargins(X, y, weight=0.01), solver="factored")
    assert solution.status is Status.OPTIMAL
    assert solution.program.family.n_rows == 150 * 149 // 2
    assert solution.rows is not None
    assert solution.rows.size < 150 * 149 // 4
