"""POLA: the two projections, the loss bound, conventions, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sdpkit import POLA, InputError
from sdpkit.typing import Array

Labels = NDArray[np.int64]


def separable(seed: int, m: int = 60, d: int = 3) -> tuple[Array, Labels, Array, float]:
    """(pairs, y, M*, b*): every pair satisfies y(b* − vᵀM*v) ≥ 1."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((2, d))
    M, b = root.T @ root, 1.0 + 3 * rng.random()
    pairs, y = [], []
    while len(pairs) < m:
        pair = rng.standard_normal((2, d)) * rng.choice([0.2, 1.5])
        v = pair[0] - pair[1]
        q = float(v @ M @ v)
        if abs(b - q) >= 1:
            pairs.append(pair)
            y.append(1 if q <= b - 1 else -1)
    return np.array(pairs), np.array(y), M, b


def bound(pairs: Array, M: Array, b: float) -> float:
    """R(‖M*‖² + (b* − 1)²), R = max ‖v‖⁴ + 1."""
    lengths = np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1)
    return float((lengths.max() ** 4 + 1) * (np.square(M).sum() + (b - 1) ** 2))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_loss_bound_holds_on_separable_pairs(seed: int) -> None:
    pairs, y, M, b = separable(seed)
    model = POLA()
    for _ in range(3):
        model.partial_fit(pairs, y)
    total = float(np.square(model.losses_).sum())
    assert len(model.losses_) == 3 * len(pairs)
    assert 0 < total <= bound(pairs, M, b)
    radius = float(np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1).max())
    assert model.loss_bound(M, b, radius) == pytest.approx(bound(pairs, M, b))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_every_pair_brings_the_metric_nearer_by_its_loss(seed: int) -> None:
    """The inequality behind the bound, pair by pair: both projections are those they should be."""
    pairs, y, M, b = separable(seed, m=25)
    model = POLA()
    model.partial_fit(pairs[:1], y[:1])
    for pair, sign in zip(pairs[1:], y[1:], strict=True):
        before = float(np.square(model.matrix_ - M).sum()) + (model.threshold_ - b) ** 2
        model.partial_fit(pair[None], [sign])
        after = float(np.square(model.matrix_ - M).sum()) + (model.threshold_ - b) ** 2
        v = pair[0] - pair[1]
        gained = model.losses_[-1] ** 2 / (float(v @ v) ** 2 + 1)
        assert after <= before - gained + 1e-9 * (1 + before)
        assert np.linalg.eigvalsh(model.matrix_)[0] >= -1e-12 * (1 + np.abs(model.matrix_).max())
        assert model.threshold_ >= 1


def test_the_first_projection_meets_the_margin_where_the_second_does_nothing() -> None:
    model = POLA()
    model.partial_fit([[[2.0, 0.0], [0.0, 0.0]]], [-1])
    # ‖v‖⁴ + 1 = 17, ℓ = 2, α = 2/17: M = α·4e₁e₁ᵀ… and b = 1 − α is raised to 1.
    np.testing.assert_allclose(model.matrix_, [[8 / 17, 0], [0, 0]])
    assert model.threshold_ == 1.0
    model.partial_fit([[[0.0, 1.0], [0.0, 0.0]]], [1])
    assert model.losses_[-1] == 0.0  # a similar pair at distance 0, b = 1: nothing to learn
    model.partial_fit([[[3.0, 1.0], [0.0, 0.0]]], [1])
    assert model.losses_[-1] == pytest.approx(9 * 8 / 17)


@pytest.mark.parametrize("seed", range(4))
def test_batch_learning_ends_and_separates(seed: int) -> None:
    pairs, y, M, b = separable(seed)
    model = POLA(beta=0.05, max_iter=20_000).fit(pairs, y)
    assert model.converged_
    assert max(model.losses_[-len(pairs) :]) <= 0.05
    assert model.score(pairs, y) == 1.0
    assert np.all(y * model.decision_function(pairs) >= 0.9)
    # A loss of more than beta occurs no more often than the bound allows.
    assert np.sum(np.array(model.losses_) > 0.05) <= bound(pairs, M, b) / 0.05**2


def test_pairs_that_contradict_each_other_reach_the_limit() -> None:
    pairs = np.array([[[1.0], [0.0]], [[0.0], [1.0]]])
    model = POLA(max_iter=7).fit(pairs, [1, -1])
    assert not model.converged_
    assert model.n_iter_ == 7
    assert len(model.losses_) == 14


def test_pieces_are_as_good_as_the_whole_and_fit_begins_anew() -> None:
    pairs, y, _, _ = separable(1)
    whole, pieces = POLA().partial_fit(pairs, y), POLA()
    for start in range(0, len(pairs), 7):
        pieces.partial_fit(pairs[start : start + 7], y[start : start + 7])
    np.testing.assert_array_equal(whole.matrix_, pieces.matrix_)
    assert whole.threshold_ == pieces.threshold_
    once = POLA(max_iter=1).fit(pairs, y)
    again = once.fit(pairs, y)
    np.testing.assert_array_equal(again.matrix_, whole.matrix_)
    assert len(again.losses_) == len(pairs)


def test_a_rotation_rotates_the_metric() -> None:
    pairs, y, _, _ = separable(2)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    one, other = POLA().partial_fit(pairs, y), POLA().partial_fit(pairs @ turn, y)
    np.testing.assert_allclose(other.matrix_, turn.T @ one.matrix_ @ turn, atol=1e-9)
    assert other.threshold_ == pytest.approx(one.threshold_)


def test_the_images_have_the_learned_distances() -> None:
    pairs, y, _, _ = separable(3)
    model = POLA().partial_fit(pairs, y)
    images = [model.transform(pairs[:, k]) for k in (0, 1)]
    lengths = np.square(images[0] - images[1]).sum(axis=1)
    np.testing.assert_allclose(model.threshold_ - lengths, model.decision_function(pairs))


def test_it_is_an_estimator() -> None:
    model = POLA(beta=0.2, max_iter=5)
    twin = clone(model)
    assert twin.get_params() == {"beta": 0.2, "max_iter": 5}
    assert repr(twin.set_params(beta=0.3)) == "POLA(beta=0.3, max_iter=5)"
    assert model.beta == 0.2
    pairs, y, _, _ = separable(0)
    assert model.fit(pairs, y) is model
    assert model.n_features_in_ == 3
    assert not hasattr(twin, "matrix_")
    for ask in (twin.predict, twin.transform, twin.decision_function):
        with pytest.raises(NotFittedError):
            ask(pairs)


PAIRS, SIGNS = separable(0)[:2]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: POLA().fit(PAIRS[:, 0], SIGNS), "two points each"),
        (lambda: POLA().fit(PAIRS[:0], []), "two points each"),
        (lambda: POLA().fit(np.full((1, 2, 2), np.nan), [1]), "NaN"),
        (lambda: POLA().fit([[["a"], ["b"]]], [1]), "numbers"),
        (lambda: POLA().fit(PAIRS, SIGNS[:2]), "one sign per pair"),
        (lambda: POLA().fit(PAIRS, 2 * SIGNS), "also holds"),
        (lambda: POLA().set_params(gamma=1), "no parameter"),
        (lambda: POLA(beta=0.0).fit(PAIRS, SIGNS), "beta"),
        (lambda: POLA(max_iter=0).fit(PAIRS, SIGNS), "max_iter"),
        (lambda: POLA().fit(PAIRS, SIGNS).partial_fit(PAIRS[:, :, :2], SIGNS), "fitted to 3"),
        (lambda: POLA().fit(PAIRS, SIGNS).predict(PAIRS[:, :, :2]), "fitted to 3"),
        (lambda: POLA().fit(PAIRS, SIGNS).transform(np.ones((2, 2))), "fitted to 3"),
        (lambda: POLA().fit(PAIRS, SIGNS).transform([[np.nan] * 3]), "finite"),
    ],
)
def test_bad_input_is_named(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
