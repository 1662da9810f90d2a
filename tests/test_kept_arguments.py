"""Metric problems keep the arguments that they were given, and `replace` starts from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sdpkit import LMNN, MMC, CoveringEllipsoid, DistanceMixture, InputError, KernelMixture

RNG = np.random.default_rng(0)
X = RNG.standard_normal((15, 3))
Y = np.arange(15) % 3
GRAM = X @ X.T
PAIRS = [[3, 0], [1, 4], [5, 2]]
CASES: list[tuple[type[Any], dict[str, Any], dict[str, Any]]] = [
    (LMNN, {"X": X.tolist(), "y": Y.tolist(), "n_neighbors": 2}, {"mu": 0.3}),
    (LMNN, {"y": Y, "kernel": GRAM, "rank": 2, "n_neighbors": 2}, {"rank": 1}),
    (LMNN, {"X": X, "y": Y, "metrics": 2}, {"metrics": 3}),
    (LMNN, {"X": X, "triplets": [[0, 3, 1], [3, 6, 4]], "ridge": 0.2}, {"ridge": 0.1}),
    (
        DistanceMixture,
        {"views": [X[:, :1], X[:, 1:]], "y": Y, "n_neighbors": 1},
        {"n_neighbors": 2},
    ),
    (MMC, {"X": X, "y": Y, "max_pairs": 20}, {"max_pairs": 30}),
    (
        MMC,
        {"X": X, "similar": [[3, 0], [1, 4], [5, 2]], "dissimilar": [[0, 1]]},
        {"diagonal": True},
    ),
    (CoveringEllipsoid, {"X": X.tolist(), "gamma": 0.1}, {"center": [0.0, 0.0, 0.0]}),
]


@pytest.mark.parametrize(("kind", "given", "change"), CASES)
def test_arguments_are_kept_and_replaced(
    kind: type[Any], given: dict[str, Any], change: dict[str, Any]
) -> None:
    problem = kind(**given)
    for name, value in given.items():
        assert getattr(problem, name) is value
    replaced = dataclasses.replace(problem, **change)
    fresh = kind(**{**given, **change})
    assert replaced.program().fingerprint == fresh.program().fingerprint
    assert replaced.program().fingerprint != problem.program().fingerprint


def test_a_kernel_mixture_keeps_its_kernels_and_has_no_single_program() -> None:
    kernels = [GRAM.tolist(), (1 + GRAM) ** 2]
    problem = KernelMixture(kernels, Y, rank=2, n_neighbors=1)
    assert problem.kernels is kernels
    assert problem.targets is None
    other = dataclasses.replace(problem, n_neighbors=2)
    fresh = KernelMixture(kernels, Y, rank=2, n_neighbors=2)
    assert np.array_equal(other.target_table, fresh.target_table)
    assert other.target_table.shape != problem.target_table.shape
    one = other.at([0.5, 0.5]).program().fingerprint
    assert one == fresh.at([0.5, 0.5]).program().fingerprint
    with pytest.raises(InputError, match=r"at\(theta\)"):
        problem.program()


POSITIONAL: list[Callable[[], Any]] = [
    lambda: LMNN(X, Y, 2),  # type: ignore[misc]
    lambda: MMC(X, Y, [[0, 1]]),  # type: ignore[misc]
    lambda: CoveringEllipsoid(X, np.zeros(3)),  # type: ignore[misc]
    lambda: KernelMixture([GRAM], Y, 2),  # type: ignore[misc, call-arg]
    lambda: DistanceMixture([X], Y, None),  # type: ignore[misc]
]


@pytest.mark.parametrize("build", POSITIONAL)
def test_what_follows_the_data_is_named(build: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="positional"):
        build()


def test_a_limited_rank_has_no_cvxpy_model() -> None:
    with pytest.raises(InputError, match="limited rank"):
        LMNN(X, Y, n_components=2).to_cvxpy()
