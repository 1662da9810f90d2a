"""Methods as printed, and the sweep over k: what they are, and where they fail."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

import sdpkit
from sdpkit import LMNN, DistanceMixture, InputError, Status
from sdpkit.papers.baselines import em_mixture, kernel_columns


@pytest.mark.slow
def test_a_matrix_on_the_columns_of_a_kernel_learns_nothing() -> None:
    """Min (2008), eq. 6 with a d × n matrix A: labels at random are fitted as well as true ones."""
    X, y = sdpkit.datasets.concentric_circles(10)
    kernel = sdpkit.gaussian_weights(X, 0.5)
    rng = np.random.default_rng(0)
    for labels in (y, rng.permutation(y)):
        problem = kernel_columns(kernel, labels, 2, n_neighbors=1)
        assert sdpkit.solve(problem).objective < 0.01
    stated = LMNN(None, rng.permutation(y), kernel=kernel, rank=3, n_neighbors=1)
    assert sdpkit.solve(stated).objective > 1


def test_em_drops_kernels_and_loses_by_it() -> None:
    X, y = load_wine(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[::4]
    y = y[::4]
    grams = [X[:, :4] @ X[:, :4].T, X[:, 4:] @ X[:, 4:].T]
    em = em_mixture(grams, y, rank=4)
    whole = sdpkit.solve(DistanceMixture(kernels=grams, y=y, rank=4))
    assert whole.status is Status.OPTIMAL
    assert em.objectives[0] == pytest.approx(whole.objective, rel=2e-3)
    # θ is a distribution over kernels, and the loss never falls below the convex optimum.
    np.testing.assert_allclose(em.thetas.sum(axis=1), 1.0)
    assert np.all(em.objectives >= whole.certificate.safe_bound * (1 - 1e-9))
    dropped = (em.thetas == 0).any(axis=1)
    assert np.all(np.diff(dropped.astype(int)) >= 0)


def test_the_sweep_marks_what_locks() -> None:
    """Few neighbours unfold a roll without noise, many with angles lock it (figure 3.14)."""
    X = sdpkit.datasets.swiss_roll(60, noise_dims=0)
    free = sdpkit.neighbor_sweep(X, [4])
    locked = sdpkit.neighbor_sweep(X, [8, 7], angles=True)
    assert [one.n_neighbors for one in locked] == [7, 8]
    assert not any(one.is_locked for one in free)
    assert all(one.is_locked for one in locked)
    inputs = np.linalg.svd(X, compute_uv=False) ** 2
    np.testing.assert_allclose(locked.unfoldings[0].shares[:3], inputs / inputs.sum(), atol=1e-3)
    assert "locked" in str(locked)
    assert "locked" not in str(free)
    with pytest.raises(InputError, match="n_neighbors is empty"):
        sdpkit.neighbor_sweep(X, [])
