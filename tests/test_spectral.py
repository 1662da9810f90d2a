"""From Gram matrices to outputs: reconstruction, order, signs and the suggested dimension."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sdpkit import Embedding, InputError
from sdpkit.results.embedding import outputs, suggested_dimension
from sdpkit.typing import Array

some = settings(max_examples=40, deadline=None, derandomize=True)
coordinates = st.tuples(st.integers(1, 7), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-100, 100, allow_subnormal=False))
)
spectra = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=2, max_size=9)


def gram(X: Array) -> Array:
    centred = X - X.mean(axis=0)
    return centred @ centred.T


def embedding(X: Array, d: int | None = None) -> Embedding:
    y, values = outputs(gram(X), d)
    edges = np.array([[0, 1]])
    return Embedding(y, values, edges, np.ones(1), np.zeros(len(X), dtype=np.int64))


# -- outputs ----------------------------------------------------------------------------------


@some
@given(coordinates)
def test_all_dimensions_give_the_matrix_back(X: Array) -> None:
    K = gram(X)
    y, values = outputs(K, len(K))
    scale = max(np.abs(K).max(), 1e-300)
    assert np.abs(y @ y.T - K).max() <= 1e-12 * len(K) * scale
    assert values.sum() == pytest.approx(np.trace(K), rel=1e-9, abs=1e-12 * scale)
    assert np.all(np.diff(values) <= 0)
    assert values.min() >= 0


@some
@given(coordinates, st.integers(1, 7))
def test_columns_are_principal_axes(X: Array, d: int) -> None:
    """Orthogonal columns of falling length √λ: the best approximation of rank d."""
    K = gram(X)
    d = min(d, len(K))
    y, values = outputs(K, d)
    scale = max(float(np.abs(K).max()), 1e-300)
    assert np.abs(y.T @ y - np.diag(values[:d])).max() <= 1e-11 * len(K) * scale
    error = np.linalg.norm(y @ y.T - K)
    assert error == pytest.approx(np.linalg.norm(values[d:]), rel=1e-6, abs=1e-11 * scale)


@some
@given(coordinates)
def test_sign_is_fixed(X: Array) -> None:
    y, _ = outputs(gram(X), len(X))
    largest = y[np.abs(y).argmax(axis=0), np.arange(y.shape[1])]
    assert np.all(largest >= 0)


def test_output_is_the_input_up_to_a_rotation() -> None:
    X = np.random.default_rng(0).standard_normal((9, 3)) * [3.0, 2.0, 1.0]
    y, _ = outputs(gram(X), 3)
    centred = X - X.mean(axis=0)
    u, _, vt = np.linalg.svd(centred.T @ y)
    assert np.allclose(centred @ u @ vt, y)


def test_isometries_of_the_input_change_nothing() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((8, 3)) * [3.0, 2.0, 1.0]
    q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    a, values = outputs(gram(X), 3)
    b, others = outputs(gram(X @ q + 5.0), 3)
    assert np.allclose(a, b)
    assert np.allclose(values, others)
    order = rng.permutation(8)
    c, _ = outputs(gram(X[order]), 3)
    assert np.allclose(a[order], c)


def test_scaling_scales_lengths() -> None:
    X = np.random.default_rng(2).standard_normal((8, 3))
    a, values = outputs(gram(X), 2)
    b, others = outputs(gram(7.0 * X), 2)
    assert np.allclose(7.0 * a, b)
    assert np.allclose(49.0 * values, others)


def test_negative_eigenvalues_are_cut_off() -> None:
    y, values = outputs(np.diag([2.0, -1e-3, 1.0]), 3)
    assert values.tolist() == [2.0, 1.0, 0.0]
    assert np.allclose(y @ y.T, np.diag([2.0, 0.0, 1.0]))


def test_asymmetry_is_averaged() -> None:
    K = gram(np.random.default_rng(3).standard_normal((5, 3)))
    skew = np.triu(np.ones((5, 5)), 1)
    skew = skew - skew.T
    assert np.allclose(outputs(K + 0.1 * skew, 3)[0], outputs(K, 3)[0])


def test_default_is_the_suggested_dimension() -> None:
    X = np.random.default_rng(4).standard_normal((12, 5)) * [10.0, 9.0, 0.05, 0.03, 0.01]
    y, values = outputs(gram(X))
    assert suggested_dimension(values) == 2
    assert y.shape == (12, 2)


@pytest.mark.parametrize("wrong", [0, 6, -1, 2.0, True, "2"])
def test_dimension_out_of_range(wrong: object) -> None:
    with pytest.raises(InputError, match="between 1 and 5") as caught:
        outputs(np.eye(5), wrong)  # type: ignore[arg-type]
    assert repr(wrong) in str(caught.value)


def test_numpy_integers_are_integers() -> None:
    assert outputs(np.eye(5), np.int64(2))[0].shape == (5, 2)


@pytest.mark.parametrize(
    "kernel",
    [np.full((3, 3), np.nan), np.ones((3, 2)), np.ones(3), np.array([[1.0, np.inf], [0.0, 1.0]])],
)
def test_what_is_no_gram_matrix_is_refused(kernel: Array) -> None:
    with pytest.raises(InputError):
        outputs(kernel, 1)


def test_zero_matrix() -> None:
    y, values = outputs(np.zeros((4, 4)))
    assert y.shape == (4, 1)
    assert not y.any()
    assert not values.any()


# -- suggested dimension ----------------------------------------------------------------------


@some
@given(spectra)
def test_suggestion_is_a_dimension(values: list[float]) -> None:
    assert 1 <= suggested_dimension(np.array(values)) <= max(1, len(values) - 1)


@some
@given(spectra, st.floats(1e-6, 1e6), st.randoms(use_true_random=False))
def test_suggestion_ignores_units_and_order(values: list[float], scale: float, random) -> None:  # type: ignore[no-untyped-def]
    given_order = np.array(values)
    shuffled = list(values)
    random.shuffle(shuffled)
    expected = suggested_dimension(given_order)
    assert suggested_dimension(np.array(shuffled)) == expected
    # Powers of two leave every ratio as it is.
    exact = 2.0 ** np.round(np.log2(scale))
    assert suggested_dimension(exact * given_order) == expected


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_flat_spectrum_of_some_rank(rank: int) -> None:
    values = np.concatenate([np.full(rank, 3.0), np.full(4, 1e-9)])
    assert suggested_dimension(values) == rank


def test_steepest_fall_wins() -> None:
    assert suggested_dimension(np.array([100.0, 50.0, 10.0, 9.0, 8.0])) == 2
    assert suggested_dimension(np.array([100.0, 10.0, 9.0, 8.0])) == 1


def test_noise_makes_no_gap() -> None:
    """The fall from 1e-9 to 1e-15 is steeper than that from 4 to 1e-9, and means nothing."""
    assert suggested_dimension(np.array([5.0, 4.0, 1e-9, 1e-15, 0.0])) == 2


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [7.0], [0.0]])
def test_nothing_to_choose(values: list[float]) -> None:
    assert suggested_dimension(np.array(values)) == 1


def test_negative_eigenvalues_count_as_zero() -> None:
    assert suggested_dimension(np.array([5.0, 4.0, -1e-3, -4.0])) == 2


# -- the embedding ------------------------------------------------------------------------------


@some
@given(coordinates)
def test_fidelity_is_the_share_of_variance(X: Array) -> None:
    every = [embedding(X, d) for d in range(1, len(X) + 1)]
    fidelities = [e.fidelity for e in every]
    assert all(0 <= f <= 1 + 1e-12 for f in fidelities)
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(fidelities))
    assert fidelities[-1] == pytest.approx(1.0)
    total = np.trace(gram(X))
    if total > 1e-6:
        for e, f in zip(every, fidelities, strict=True):
            assert (e.coordinates**2).sum() / total == pytest.approx(f, rel=1e-6, abs=1e-9)


def test_embedding_describes_itself() -> None:
    X = np.random.default_rng(4).standard_normal((12, 5)) * [10.0, 9.0, 0.05, 0.03, 0.01]
    e = embedding(X, 3)
    assert e.n_components == 3
    assert e.suggested_dimension == 2
    assert repr(e) == (
        "<Embedding of 12 points in 3 dimensions: fidelity 1.0000, suggested dimension 2>"
    )
    with pytest.raises(AttributeError):
        e.coordinates = X  # type: ignore[misc]
