"""The quality measures: eq. (3.27) to (3.29) by brute force, invariances, and the edges."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sdpkit.datasets import swiss_roll
from sdpkit.errors import InputError
from sdpkit.results.quality import (
    Quality,
    evaluate,
    fidelity,
    harmonic_mean,
    local_continuity,
    local_trust,
    neighborhood_intersection,
)

Floats = NDArray[np.float64]
MEASURES = (local_continuity, local_trust, neighborhood_intersection)


def data(seed: int, n: int = 25) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 4)), rng.standard_normal((n, 2))


def pairwise(X: Floats) -> Floats:
    return np.asarray(np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2)))


def lists(D: Floats, k: int) -> NDArray[np.int64]:
    return np.argsort(D + np.diag(np.full(len(D), np.inf)), axis=1)[:, :k]


def by_search(target: Floats, source: Floats, k: int) -> float:
    """Eq. (3.27) with a numerical search for s."""
    rows = np.arange(len(target))[:, None]
    near = lists(target, k)
    a, b = target[rows, near], source[rows, near]
    return 1 - float(minimize_scalar(lambda s: ((s * b - a) ** 2).sum() / (a**2).sum()).fun)


@pytest.mark.parametrize("seed", range(5))
def test_measures_are_their_definitions(seed: int) -> None:
    X, Y = data(seed)
    DX, DY = pairwise(X), pairwise(Y)
    quality = evaluate(X, Y, n_neighbors=4)
    assert quality.local_continuity == pytest.approx(by_search(DX, DY, 4), rel=1e-6)
    assert quality.local_trust == pytest.approx(by_search(DY, DX, 4), rel=1e-6)
    shared = [len(set(x) & set(y)) for x, y in zip(lists(DX, 4), lists(DY, 4), strict=True)]
    assert quality.neighborhood_intersection == pytest.approx(np.mean(shared) / 4)


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 10_000),
    st.floats(0.01, 100),
    st.floats(-100, 100),
    st.floats(0, 6.28),
    st.booleans(),
)
def test_invariant_under_similarities_of_the_output(
    seed: int, scale: float, shift: float, angle: float, mirror: bool
) -> None:
    X, Y = data(seed)
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]]) @ np.diag([-1.0 if mirror else 1.0, 1.0])
    before, after = evaluate(X, Y), evaluate(X, scale * Y @ turn + shift)
    assert after.local_continuity == pytest.approx(before.local_continuity, rel=1e-8)
    assert after.local_trust == pytest.approx(before.local_trust, rel=1e-8)
    assert after.neighborhood_intersection == before.neighborhood_intersection
    for value in (after.local_continuity, after.local_trust, after.harmonic_mean):
        assert 0 <= value <= 1


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 24))
def test_identity_is_perfect_and_roles_are_symmetric(seed: int, k: int) -> None:
    X, Y = data(seed)
    perfect = evaluate(X, X, k)
    assert perfect.neighborhood_intersection == 1.0
    assert perfect.local_continuity == pytest.approx(1.0)
    assert perfect.harmonic_mean == pytest.approx(1.0)
    assert local_continuity(X, Y, k) == pytest.approx(local_trust(Y, X, k))
    assert neighborhood_intersection(X, Y, k) == neighborhood_intersection(Y, X, k)
    assert neighborhood_intersection(X, Y, 24) == 1.0  # everybody is a neighbour


def test_distances_may_stand_for_points() -> None:
    X, Y = data(0)
    from_points, from_distances = evaluate(X, Y), evaluate(None, Y, distances=pairwise(X))
    assert from_distances.local_continuity == pytest.approx(from_points.local_continuity)
    assert from_distances.local_trust == pytest.approx(from_points.local_trust)
    for measure, value in zip(
        MEASURES,
        (
            from_points.local_continuity,
            from_points.local_trust,
            from_points.neighborhood_intersection,
        ),
        strict=True,
    ):
        assert measure(X, Y) == pytest.approx(value)
        assert measure(None, Y, distances=pairwise(X)) == pytest.approx(value)


def test_unrolled_is_better_than_projected() -> None:
    """Projections keep continuity and lose trust, as the thesis warns."""
    X, places = swiss_roll(800, noise_dims=0, return_parameters=True)
    t, h = places.T
    unrolled = np.column_stack([(t * np.sqrt(1 + t**2) + np.arcsinh(t)) / 2, h])
    good, flat = evaluate(X, unrolled), evaluate(X, X[:, [0, 1]])
    assert good.harmonic_mean > 0.95
    assert flat.local_trust < 0.5 < good.local_trust
    assert flat.neighborhood_intersection < good.neighborhood_intersection


def test_points_in_one_place() -> None:
    X, Y = data(0)
    one_place = np.ones_like(Y)
    assert local_continuity(X, one_place) == 0.0
    assert local_trust(X, one_place) == 1.0
    assert evaluate(X, one_place).harmonic_mean == 0.0
    assert local_continuity(one_place, Y) == 1.0
    assert local_trust(one_place, Y) == 0.0
    assert evaluate(one_place, one_place) == Quality(1.0, 1.0, 1.0, n_neighbors=5)


def test_no_overflow_or_underflow() -> None:
    X, Y = data(1)
    plain = evaluate(X, Y)
    for scale in (1e-140, 1e130):
        assert evaluate(X, scale * Y).local_trust == pytest.approx(plain.local_trust)


def test_harmonic_mean_and_fidelity() -> None:
    assert harmonic_mean(0.5, 0.5, 0.5) == 0.5
    assert harmonic_mean(1.0, 1.0, 0.0) == 0.0
    assert harmonic_mean(1.0, 0.5, 0.25) == pytest.approx(3 / 7)
    assert fidelity([2.0, 5.0, 1.0], 2) == pytest.approx(7 / 8)
    assert fidelity([4.0, -1.0], 1) == 1.0
    assert fidelity([0.0, 0.0], 1) == 1.0
    assert fidelity([3.0, 1.0], 7) == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: evaluate(*data(0)[:1], data(0)[1][:-1]), "the input has 25 points and Y has 24"),
        (lambda: evaluate(data(0)[0], data(0)[1][:, 0]), "Y is 1-d with 25 values"),
        (
            lambda: evaluate(data(0)[0], data(0)[1] * np.nan),
            "Y contains NaN or infinite values (50",
        ),
        (lambda: evaluate(None, data(0)[1]), "no data"),
        (lambda: evaluate(*data(0), n_neighbors=25), "n_neighbors=25, but 25 points"),
        (lambda: evaluate(data(0)[0], data(0)[1], distances=np.eye(25)), "X and distances"),
        (lambda: harmonic_mean(1.0, 2.0, 1.0), "pass numbers between 0 and 1"),
        (lambda: harmonic_mean(1.0, float("nan"), 1.0), "pass numbers between 0 and 1"),
        (lambda: fidelity([1.0], 0), "n_components=0"),
        (lambda: fidelity([1.0], 1.5), "n_components=1.5"),  # type: ignore[arg-type]
        (lambda: fidelity([[1.0]], 1), "shape (1, 1)"),
        (lambda: fidelity([np.nan], 1), "finite"),
        (lambda: fidelity(["a"], 1), "dtype <U1"),
    ],
)
def test_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        call()
