"""Bad input to MVU: a right answer, or an error of ours that has the value and a remedy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import sdpkit
from sdpkit import MVU, GraphError, InputError, SdpkitError, Solution, Status
from sdpkit.datasets import cycle_graph, path_graph
from sdpkit.results.ellipsoid import cover
from sdpkit.solving.registry import get_solver, known_solvers
from sdpkit.typing import Array

FORMS = ("equality", "inequality", "slack", "min_trace")
USABLE = [name for name in known_solvers() if get_solver(name).unavailable() is None]
STRING = MVU(graph=path_graph(3)).program()
SOLVERS = [name for name in USABLE if get_solver(name).accepts(STRING) is None]


def points(n: int = 12, dims: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, dims))


X = points()
DISTANCES = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))


def replaced(array: Array, place: tuple[int, ...], value: float) -> Array:
    out = array.copy()
    out[place] = value
    return out


# -- refused, with words ----------------------------------------------------------------------

# (what is passed, words that the message must have: the value and the remedy)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no points": ({"X": np.zeros((0, 3))}, ["X", "(0, 3)", "pass"]),
    "empty list": ({"X": []}, ["X", "(0,)", "pass"]),
    "no features": ({"X": np.zeros((5, 0))}, ["X", "(5, 0)", "pass"]),
    "one-dimensional": ({"X": np.arange(5.0)}, ["X", "1-d", "5 values", "reshape(-1, 1)"]),
    "three-dimensional": ({"X": np.zeros((2, 2, 2))}, ["X", "(2, 2, 2)", "pass a matrix"]),
    "a number": ({"X": 3.0}, ["X", "()", "pass a matrix"]),
    "ragged": ({"X": [[1.0, 2.0], [3.0]]}, ["X", "array of numbers", "one length"]),
    "NaN": ({"X": replaced(X, (2, 1), np.nan)}, ["X", "NaN", "[2, 1]", "remove or replace"]),
    "infinity": ({"X": replaced(X, (0, 2), np.inf)}, ["X", "infinite", "[0, 2]", "remove"]),
    "strings": ({"X": [["a", "b"], ["c", "d"]]}, ["X", "<U1", "real numbers"]),
    "objects": ({"X": {"a": 1}}, ["X", "object", "real numbers"]),
    "complex": ({"X": X + 1j}, ["X", "complex128", "real numbers"]),
    "too large": ({"X": 1e200 * X}, ["X", "e+200", "rescale"]),
    "k = n": ({"X": X, "n_neighbors": 12}, ["n_neighbors=12", "12 points", "≤ 11"]),
    "k > n": ({"X": X, "n_neighbors": 99}, ["n_neighbors=99", "12 points", "≤ 11"]),
    "k = 0": ({"X": X, "n_neighbors": 0}, ["n_neighbors=0", "integer of at least 1"]),
    "k < 0": ({"X": X, "n_neighbors": -2}, ["n_neighbors=-2", "integer of at least 1"]),
    "k = 2.5": ({"X": X, "n_neighbors": 2.5}, ["n_neighbors=2.5", "integer"]),
    "k = True": ({"X": X, "n_neighbors": True}, ["n_neighbors=True", "integer"]),
    "k = '4'": ({"X": X, "n_neighbors": "4"}, ["n_neighbors='4'", "integer"]),
    "radius < 0": ({"X": X, "radius": -1.0}, ["radius=-1.0", "> 0"]),
    "radius NaN": ({"X": X, "radius": float("nan")}, ["radius=nan", "> 0"]),
    "asymmetric distances": (
        {"distances": replaced(DISTANCES, (1, 4), 9.5)},
        ["distances", "not symmetric", "[1, 4]", "9.5", "(distances + distances.T) / 2"],
    ),
    "negative distances": (
        {"distances": replaced(replaced(DISTANCES, (1, 4), -2.5), (4, 1), -2.5)},
        ["distances[1, 4]", "-2.5", "lengths ≥ 0"],
    ),
    "NaN distances": (
        {"distances": replaced(replaced(DISTANCES, (1, 4), np.nan), (4, 1), np.nan)},
        ["distances", "(2,", "NaN", "[1, 4]"],
    ),
    "similarities as distances": (
        {"distances": np.exp(-DISTANCES)},
        ["distances[0, 0] = 1", "kernel="],
    ),
    "rectangular distances": ({"distances": DISTANCES[:5]}, ["distances", "(5, 12)", "square"]),
    "indefinite kernel": (
        {"kernel": np.array([[1.0, 3.0], [3.0, 1.0]]), "n_neighbors": 1},
        ["kernel", "-4", "not positive semidefinite"],
    ),
    "nothing": ({}, ["no data", "X, distances or kernel"]),
    "only k": ({"n_neighbors": 3}, ["no data", "X, distances or kernel"]),
    "X and distances": ({"X": X, "distances": DISTANCES}, ["X and distances", "exactly one"]),
    "two rules": (
        {"X": X, "n_neighbors": 3, "radius": 1.0},
        ["n_neighbors and radius", "one rule"],
    ),
    "form": ({"X": X, "form": "equalty"}, ["form", "'equalty'", "'equality'", "'min_trace'"]),
    "connect": ({"X": X, "connect": "yes"}, ["connect", "'yes'", "'bridge'", "'components'"]),
    "facial_reduction": (
        {"X": X, "facial_reduction": True},
        ["facial_reduction", "True", "'auto'", "'off'"],
    ),
    "omega elsewhere": ({"X": X, "omega": 0.9}, ["omega=0.9", "form='slack'", "'equality'"]),
    "omega = 0 elsewhere": ({"X": X, "omega": 0.0}, ["omega=0.0", "form='slack'"]),
    "omega = 0": ({"X": X, "form": "slack", "omega": 0.0}, ["omega", "0.0", "between 0 and 1"]),
    "omega = 1": ({"X": X, "form": "slack", "omega": 1.0}, ["omega", "1.0", "between 0 and 1"]),
    "omega > 1": ({"X": X, "form": "slack", "omega": 1.5}, ["omega", "1.5", "between 0 and 1"]),
    "omega < 0": ({"X": X, "form": "slack", "omega": -0.5}, ["omega", "-0.5", "between 0 and 1"]),
    "omega NaN": (
        {"X": X, "form": "slack", "omega": float("nan")},
        ["omega", "nan", "between 0 and 1"],
    ),
    "omega text": (
        {"X": X, "form": "slack", "omega": "0.9"},
        ["omega", "'0.9'", "between 0 and 1"],
    ),
    "graph too small": ({"X": X, "graph": np.ones((3, 3))}, ["graph", "3 nodes", "12 points"]),
    "rectangular graph": ({"graph": np.ones((3, 2))}, ["graph", "(3, 2)", "square"]),
    "negative graph": ({"graph": [[0, -1], [-1, 0]]}, ["graph[0, 1]", "-1", "lengths"]),
    "NaN graph": ({"graph": [[0, np.nan], [np.nan, 0]]}, ["graph", "NaN", "[0, 1]"]),
    "asymmetric lengths": (
        {"graph": [[0, 1.0, 0], [2.0, 0, 1.0], [0, 1.0, 0]]},
        ["(0, 1)", "lengths 1 and 2"],
    ),
    "edges out of range": ({"X": X, "edges": [[0, 12]]}, ["(0, 12)", "out of range", "0 to 11"]),
    "negative node": ({"X": X, "edges": [[-1, 3]]}, ["(-1, 3)", "out of range", "0 to 11"]),
    "self loop": ({"X": X, "edges": [[0, 1], [3, 3]]}, ["(3, 3)", "itself", "leave it out"]),
    "edges as floats": ({"X": X, "edges": [[0.5, 1.0]]}, ["float64", "integer pairs"]),
    "edges as triples": ({"X": X, "edges": [[0, 1, 2]]}, ["(1, 3)", "pairs"]),
    "no edges": ({"X": X, "edges": np.zeros((0, 2), int)}, ["12 components", "connect="]),
    "radius too small": ({"X": X, "radius": 1e-9}, ["12 components", "connect="]),
    "angles without points": (
        {"graph": path_graph(4), "angles": True},
        ["angles=True", "pass X, distances or kernel"],
    ),
    "bridge without points": (
        {"graph": sparse.block_diag([path_graph(2)] * 2), "connect": "bridge"},
        ["connect='bridge'", "pass X, distances or kernel"],
    ),
    "contradictory zeros": (
        {"distances": [[0, 0, 1], [0, 0, 2], [1, 2, 0]], "n_neighbors": 2},
        ["same points", "lengths 1 and 2", "make them agree"],
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_value_and_remedy(what: str) -> None:
    options, words = REFUSED[what]
    with pytest.raises(InputError) as caught:
        MVU(**options)
    assert isinstance(caught.value, SdpkitError)
    message = str(caught.value)
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    "options",
    [
        {"X": np.zeros((1, 3))},
        {"X": np.zeros((1, 3)), "n_neighbors": 1},
        {"distances": [[0.0]]},
        {"kernel": [[1.0]]},
        {"graph": [[0.0]]},
        {"X": [[1.0]], "edges": np.zeros((0, 2), dtype=int)},
    ],
)
def test_one_point(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        MVU(**options)
    message = str(caught.value)
    assert "at least two" in message or "more points" in message
    assert "≤ 0" not in message  # no remedy at all


def test_errors_are_value_errors_too() -> None:
    with pytest.raises(ValueError, match="n_neighbors=0"):
        MVU(X, n_neighbors=0)
    with pytest.raises(GraphError):
        MVU(X, edges=[[3, 3]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tol": 0}, ["tol", "0", "> 0"]),
        ({"tol": -1e-6}, ["tol", "-1e-06", "> 0"]),
        ({"tol": float("nan")}, ["tol", "nan", "> 0"]),
        ({"tol": "tight"}, ["tol", "'tight'", "> 0"]),
        ({"tol": True}, ["tol", "True", "> 0"]),
        ({"max_iter": 0}, ["max_iter", "0", "> 0"]),
        ({"max_iter": 0.5}, ["max_iter", "0.5"]),
        ({"time_limit": -1}, ["time_limit", "-1", "> 0"]),
        ({"solver": "nope"}, ["'nope'", "clarabel", "csdp", "scs", "'auto'"]),
    ],
)
def test_solve_refuses(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        sdpkit.solve(MVU(X), **options)
    for word in words:
        assert word in str(caught.value)


def test_an_infinite_tolerance_proves_nothing() -> None:
    with pytest.raises(InputError, match="tol=inf"):
        sdpkit.solve(MVU(X), solver="interior", tol=float("inf"))


def test_a_missing_solver_is_named() -> None:
    missing = [name for name in known_solvers() if get_solver(name).unavailable() is not None]
    for name in missing:
        with pytest.raises(sdpkit.SolverUnavailableError, match=name):
            sdpkit.solve(MVU(X), solver=name)


@pytest.mark.needs("csdp")
def test_too_little_memory_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what is free: an error that names the need and a solver that would do."""
    program = MVU(X).program()
    needed = {name: get_solver(name).memory(program) for name in ("clarabel", "csdp")}
    assert needed["csdp"] < needed["clarabel"]
    monkeypatch.setattr("sdpkit.solving.choice.free_memory", lambda: needed["csdp"])
    with pytest.raises(sdpkit.NotEnoughMemoryError, match=r"clarabel' would need .* Use solver='"):
        sdpkit.solve(MVU(X), solver="clarabel")
    monkeypatch.setattr("sdpkit.solving.choice.free_memory", lambda: 0.0)
    with pytest.raises(sdpkit.NotEnoughMemoryError, match="make the instance smaller"):
        sdpkit.solve(MVU(X), solver="clarabel")


# -- accepted, with the right answer ------------------------------------------------------------


def value(**options: Any) -> float:
    solution = sdpkit.solve(MVU(**options), solver="interior")
    assert solution.status is Status.OPTIMAL
    return solution.objective


WHOLE = np.random.default_rng(1).integers(-9, 10, (10, 3))
SHAPES: dict[str, Any] = {
    "float32": WHOLE.astype(np.float32),
    "float16": WHOLE.astype(np.float16),
    "int64": WHOLE,
    "int8": WHOLE.astype(np.int8),
    "Fortran order": np.asfortranarray(WHOLE.astype(float)),
    "strided": np.repeat(WHOLE.astype(float), 2, axis=0)[::2],
    "big-endian": WHOLE.astype(">f8"),
    "list": WHOLE.tolist(),
    "tuple": tuple(map(tuple, WHOLE.tolist())),
    "DataFrame": pd.DataFrame(WHOLE, columns=["a", "b", "c"]),
    "mixed DataFrame": pd.DataFrame(WHOLE).astype({0: float, 1: np.int8}),
    "shuffled index": pd.DataFrame(WHOLE, index=range(10, 0, -1)),
    "sparse": sparse.csr_array(WHOLE.astype(float)),
    "read-only": np.frombuffer(WHOLE.astype(float).tobytes()).reshape(10, 3),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_containers_and_types_do_not_matter(kind: str) -> None:
    plain = MVU(np.ascontiguousarray(WHOLE, dtype=np.float64), n_neighbors=4)
    other = MVU(SHAPES[kind], n_neighbors=4)
    assert other.program().fingerprint == plain.program().fingerprint


@pytest.mark.parametrize("kind", ["float32", "int64", "Fortran order", "list", "DataFrame"])
def test_containers_of_distances_do_not_matter(kind: str) -> None:
    whole = np.array([[0, 3, 4, 5], [3, 0, 5, 4], [4, 5, 0, 3], [5, 4, 3, 0]])
    given = {
        "float32": whole.astype(np.float32),
        "int64": whole,
        "Fortran order": np.asfortranarray(whole.astype(float)),
        "list": whole.tolist(),
        "DataFrame": pd.DataFrame(whole),
    }[kind]
    plain = MVU(distances=whole.astype(float), n_neighbors=2).program().fingerprint
    assert MVU(distances=given, n_neighbors=2).program().fingerprint == plain


def test_bool_graph_is_a_pattern() -> None:
    pattern = np.zeros((12, 12), dtype=bool)
    for i in range(12):
        pattern[i, (i + 1) % 12] = True  # one direction is enough
    a, b = MVU(X, graph=pattern), MVU(X, graph=cycle_graph(12))
    assert a.program().fingerprint == b.program().fingerprint


def test_data_are_not_changed() -> None:
    mine = points()
    distances = DISTANCES.copy()
    MVU(mine, n_neighbors=3).program()
    MVU(distances=distances, n_neighbors=3).program()
    assert np.array_equal(mine, points())
    assert np.array_equal(distances, DISTANCES)


def all_equal(form: str, **options: Any) -> MVU:
    return MVU(np.ones((5, 3)), form=form, **options)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_all_points_equal(name: str, form: str) -> None:
    """K = 0 is the only answer, and it is optimal."""
    problem = all_equal(form, n_neighbors=2)
    solution = sdpkit.solve(problem, solver=name)
    check_zero(problem, solution)


@pytest.mark.parametrize("form", FORMS)
def test_all_points_equal_and_auto(form: str) -> None:
    problem = all_equal(form, n_neighbors=4)
    check_zero(problem, sdpkit.solve(problem))


def check_zero(problem: MVU, solution: Solution) -> None:
    assert solution.status is Status.OPTIMAL
    assert abs(solution.objective) <= 1e-6
    embedding = problem.recover(solution)
    assert embedding.coordinates.shape == (5, 1)
    assert np.abs(embedding.coordinates).max() <= 1e-3
    assert 0 <= embedding.fidelity <= 1


@pytest.mark.parametrize("form", FORMS)
def test_duplicate_points_are_no_error(form: str) -> None:
    twice = np.vstack([X, X[:3]])
    problem = MVU(twice, n_neighbors=4, form=form)
    solution = sdpkit.solve(problem, solver="interior")
    assert solution.status is Status.OPTIMAL
    y = problem.recover(solution, 15).coordinates
    if form != "slack":  # there, the zero length may give
        assert np.linalg.norm(y[12:] - y[:3], axis=1).max() <= 1e-6
    if form in ("equality", "min_trace"):
        i, j = problem.neighborhood.edges.T
        wanted = ((twice[i] - twice[j]) ** 2).sum(axis=1)
        assert ((y[i] - y[j]) ** 2).sum(axis=1) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e100])
def test_extreme_units(scale: float) -> None:
    assert value(X=scale * X) == pytest.approx(scale**2 * value(X=X), rel=2e-6)


def test_far_from_the_origin() -> None:
    """A large common offset costs digits of the distances, nothing else."""
    assert value(X=X + 1e6, n_neighbors=4) == pytest.approx(value(X=X, n_neighbors=4), rel=1e-6)


def test_constant_and_zero_columns_change_nothing() -> None:
    wide = np.column_stack([X, np.zeros(12), np.full(12, 7.0)])
    assert MVU(wide).program().fingerprint == MVU(X).program().fingerprint


def test_non_euclidean_distances() -> None:
    """No points have them: equality says so with a proof, slack and inequality still answer."""
    lengths = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 3.0], [1.0, 3.0, 0.0]])
    solution = sdpkit.solve(MVU(distances=lengths, n_neighbors=2), solver="interior")
    assert solution.status is Status.INFEASIBLE
    with pytest.raises(InputError, match="infeasible"):
        MVU(distances=lengths, n_neighbors=2).recover(solution)
    # The long edge is no limit: a straight string of 1, 0, 1.
    assert value(distances=lengths, n_neighbors=2, form="inequality") == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_refusing_is_silent(form: str) -> None:
    """Building a problem raises or returns; it never warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MVU(np.vstack([X, X[:3]]), n_neighbors=5, form=form).program()
    assert not caught


@pytest.mark.parametrize("gamma", [10**400, -(10**400), np.inf, np.nan])
def test_numbers_that_no_float_holds_are_refused(gamma: Any) -> None:
    with pytest.raises(InputError, match="gamma"):
        cover(np.eye(3)[None], np.zeros((1, 3)), gamma=gamma)


def test_a_model_whose_constraints_are_empty_is_solved() -> None:
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable()
    model = cp.Problem(cp.Minimize(0), [np.array([]) + x <= 0])
    assert model.solve(solver=sdpkit.cvxpy_solver("interior")) == 0
    assert x.value is not None


def test_a_proof_of_infeasibility_does_not_need_the_squares_of_the_cost() -> None:
    """Without them more variables fold into one, and multipliers have other places."""
    cp = pytest.importorskip("cvxpy")
    places, x = np.eye(100)[:, [1, 15, 45, 67, 89]], cp.Variable(5)
    model = cp.Problem(cp.Minimize(cp.sum_squares(places @ x)), [x[1] >= 10, x[1] <= 1])
    model.solve(solver=sdpkit.cvxpy_solver("interior"))
    assert model.status == cp.INFEASIBLE
    larger, smaller = (float(c.dual_value) for c in model.constraints)
    assert larger == pytest.approx(smaller)
    assert 10 * larger - smaller == pytest.approx(1.0)


def test_cones_whose_violation_cvxpy_does_not_know_are_refused() -> None:
    cp = pytest.importorskip("cvxpy")
    X, T = cp.Variable((1, 1), symmetric=True), cp.Variable((1, 1), symmetric=True)
    cone = cp.constraints.OpRelEntrConeQuad(X, cp.Constant(np.eye(1)), T, 1, 1)
    model = cp.Problem(cp.Minimize(cp.trace(T)), [cone, X == 2])
    for variable in (X, T):
        variable.value = np.full((1, 1), 2.0)
    with pytest.raises(InputError, match="OpRelEntrConeQuad"):
        sdpkit.certify_cvxpy(model)
