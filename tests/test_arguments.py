"""Problems keep what they were given: replacing one argument is constructing anew."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import MVE, MVU, Localization, OutOfSample, VariationalMVU, datasets
from sdpkit.program.form import Program

X = datasets.swiss_roll(24)
POSITIONS = np.random.default_rng(0).random((30, 2))
NETWORK = sdpkit.graphs.neighborhood_graph(POSITIONS, radius=0.5)
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
TO_CORNERS = np.linalg.norm(POSITIONS[:, None] - CORNERS, axis=2)

# Class, arguments, what is replaced.
CASES: list[tuple[type, dict[str, Any], dict[str, Any]]] = [
    (MVU, {"X": X, "n_neighbors": 4}, {"form": "slack"}),
    (MVU, {"X": X, "n_neighbors": 4, "form": "slack"}, {"n_neighbors": 5}),
    (MVU, {"X": X, "form": "slack"}, {"form": "equality"}),
    (MVE, {"X": X, "n_neighbors": 4}, {"n_components": 3}),
    (MVE, {"X": X, "n_neighbors": 4, "form": "slack"}, {"n_neighbors": 6}),
    (VariationalMVU, {"X": X, "n_basis": 4}, {"penalty": "norm"}),
    (VariationalMVU, {"X": X, "n_basis": 4}, {"n_basis": 6}),
    (VariationalMVU, {"X": X, "basis": X[:, :3]}, {"basis": "laplacian"}),
    (Localization, {"lengths": NETWORK, "n_basis": 5}, {"penalty": "norm"}),
    (
        Localization,
        {"lengths": NETWORK, "n_basis": 5},
        {"anchors": CORNERS, "anchor_lengths": TO_CORNERS},
    ),
    (
        Localization,
        {"lengths": NETWORK, "anchors": CORNERS, "anchor_lengths": TO_CORNERS, "n_basis": 5},
        {"anchors": None, "anchor_lengths": None},
    ),
    (
        OutOfSample,
        {"neighbors": CORNERS, "distances": [1.0, 1.0, 2.0]},
        {"variant": "published"},
    ),
]


def compiled(problem: Any) -> Program:
    first = getattr(problem, "first_program", problem.program)
    return first()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("kind", "given", "changes"), CASES)
def test_arguments_stay_as_passed(
    kind: type, given: dict[str, Any], changes: dict[str, Any]
) -> None:
    problem = kind(**given)
    for field in dataclasses.fields(kind):
        if field.init:
            assert getattr(problem, field.name) is given.get(field.name, field.default)


@pytest.mark.parametrize(("kind", "given", "changes"), CASES)
def test_replacing_is_constructing_anew(
    kind: type, given: dict[str, Any], changes: dict[str, Any]
) -> None:
    replaced = dataclasses.replace(kind(**given), **changes)
    fresh = kind(**{**given, **changes})
    assert compiled(replaced).fingerprint == compiled(fresh).fingerprint
    assert repr(replaced) == repr(fresh)
    assert compiled(replaced).fingerprint != compiled(kind(**given)).fingerprint


@pytest.mark.parametrize("kind", [MVU, MVE, VariationalMVU, Localization])
def test_everything_after_the_data_is_named(kind: type) -> None:
    names = list(inspect.signature(kind).parameters.values())
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in names[1:])


def test_shared_arguments_have_one_order() -> None:
    orders = [
        list(inspect.signature(kind).parameters)
        for kind in (MVU, MVE, VariationalMVU, Localization)
    ]
    for first in orders:
        for second in orders:
            shared = [name for name in first if name in second]
            assert shared == [name for name in second if name in shared]
