"""`sdpkit.explain`: planted conflicts, unbounded models, problems of ours, and what it refuses."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from planted_conflicts import KINDS, planted_conflict

import sdpkit


def is_exact(seed: int) -> bool:
    """Whether exactly what is planted was found, and found to be irreducible."""
    planted = planted_conflict(seed)
    why = sdpkit.explain(planted.model)
    rows = tuple(sorted(member.row for member in why.members if member.row is not None))
    entries = {m.row: sorted(m.entries) for m in why.members if m.row in planted.entries}
    wanted = {row: sorted(places) for row, places in planted.entries.items()}
    return (
        why.kind == "infeasible"
        and why.is_irreducible
        and len(why.members) == len(rows)
        and rows == planted.planted
        and entries == wanted
    )


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_a_planted_conflict_is_found(seed: int) -> None:
    assert is_exact(seed)


@pytest.mark.slow
def test_two_hundred_planted_conflicts() -> None:
    found = [is_exact(seed) for seed in range(200)]
    assert np.mean(found) >= 0.99


def test_an_infeasible_model_in_its_own_words() -> None:
    x = cp.Variable(3, name="x", nonneg=True)
    constraints = [cp.sum(x) <= 1, x[0] >= 0.5, x[1] >= 2]
    why = sdpkit.explain(cp.Problem(cp.Minimize(x[0]), constraints))
    assert [m.row for m in why.members] == [0, 2, None]  # and x ≥ 0
    assert why.constraints == [constraints[0], constraints[2]]
    assert why.variables == [x]
    # x_1 ≤ Σx ≤ 1 and x_1 ≥ 2: all weights are 1, and the sum misses by 1.
    assert [w for m in why.members for w in m.weights] == pytest.approx([1, 1, 1, 1], abs=1e-6)
    assert why.misses == pytest.approx(1, abs=1e-6)
    assert bool(why.verify())
    text = str(why)
    assert "contradict each other" in text
    assert "constraints[2]" in text
    assert "variable x ≥ 0" in text
    assert "<table" in why._repr_html_()


@pytest.mark.skipif(not hasattr(cp.constraints.Zero, "label"), reason="labels are of cvxpy 1.7")
def test_labels_are_the_names() -> None:
    x = cp.Variable()
    low, high = x >= 2, x <= 1
    low.label, high.label = "demand", "capacity"
    text = str(sdpkit.explain(cp.Problem(cp.Minimize(x), [low, high])))
    assert text.count("demand") == text.count("capacity") == 1


def test_an_unbounded_model_names_what_runs_away() -> None:
    x, y, z = cp.Variable(2, name="x"), cp.Variable(name="y"), cp.Variable(name="z")
    model = cp.Problem(cp.Minimize(x[0] - y + z), [x[1] == 1, x[0] == y / 2, z >= 3])
    why = sdpkit.explain(model)
    assert why.kind == "unbounded"
    assert [(r.name, r.direction.tolist()) for r in why.runaways] == [
        ("x", pytest.approx([0.5, 0])),
        ("y", pytest.approx(1)),
    ]
    assert why.rate == pytest.approx(-0.5)
    assert [v.name() for v in why.variables] == ["x", "y"]
    assert "without end" in str(why)


def test_a_model_with_an_optimum() -> None:
    x = cp.Variable()
    why = sdpkit.explain(cp.Problem(cp.Minimize(x), [x >= 1]))
    assert why.kind == "solvable"
    assert "nothing to explain" in str(why)
    assert not why.verify()


def test_edges_of_a_graph_that_contradict_each_other() -> None:
    # From 1 over 2 to 3 it is 1 + 1, and the edge from 1 to 3 is 9 long.
    lengths = np.array([[0, 1, 3, 2], [1, 0, 1, 9], [3, 1, 0, 1], [2, 9, 1, 0]], dtype=float)
    why = sdpkit.explain(sdpkit.MVU(distances=lengths, n_neighbors=3, form="equality"))
    assert why.is_irreducible
    assert {m.name for m in why.members} == {
        "‖y_1 − y_2‖² = 1",
        "‖y_1 − y_3‖² = 81",
        "‖y_2 − y_3‖² = 1",
    }
    assert bool(why.verify())


def test_pairs_that_contradict_a_path() -> None:
    # The ends of a path of two unit edges can be 2 apart, and full asks for 5.
    lengths = np.array([[0, 1, 5], [1, 0, 1], [5, 1, 0]], dtype=float)
    problem = sdpkit.MVU(distances=lengths, n_neighbors=1, form="equality", full=True)
    why = sdpkit.explain(problem)
    assert sorted(m.name for m in why.members) == [
        "‖y_0 − y_1‖² = 1",
        "‖y_0 − y_2‖² ≥ 25",
        "‖y_1 − y_2‖² = 1",
    ]


@pytest.mark.parametrize("model", [3, "model", sdpkit.MVU])
def test_other_things_are_refused(model: object) -> None:
    with pytest.raises(sdpkit.InputError, match=r"explain takes a cvxpy.Problem"):
        sdpkit.explain(model)


def test_a_limit_leaves_what_was_found() -> None:
    x = cp.Variable(60)
    model = cp.Problem(cp.Minimize(0), [*(x[k] + 1 <= x[(k + 1) % 60] for k in range(60))])
    why = sdpkit.explain(model, time_limit=1e-3)
    assert why.kind in ("infeasible", "undecided")
    assert not why.is_irreducible
