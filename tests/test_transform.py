"""New points by a map that does not jump: exact at training points, continuous, one by one."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

import sdpkit
from sdpkit import Embedding, estimators
from sdpkit.datasets import swiss_roll
from sdpkit.graphs import SquaredDistances
from sdpkit.results import interpolation
from sdpkit.results.quality import relative_inconsistency
from sdpkit.typing import Array

EMBEDDINGS = {
    "mvu": estimators.MaximumVarianceUnfolding(tol=1e-4),
    "inequality": estimators.MaximumVarianceUnfolding(form="inequality", tol=1e-4),
    "slack": estimators.MaximumVarianceUnfolding(form="slack", tol=1e-4),
    "components": estimators.MaximumVarianceUnfolding(connect="components", tol=1e-4),
    "mve": estimators.MinimumVolumeEmbedding(tol=1e-4, max_steps=2),
    "variational": estimators.VariationalMaximumVarianceUnfolding(),
    "program": estimators.VariationalMaximumVarianceUnfolding(refine=False),
}
METRICS = ("euclidean", "precomputed", "precomputed_kernel")


def data(name: str) -> Array:
    """Points that lie on a sheet, and images."""
    digits = load_digits().data.astype(np.float64)
    return swiss_roll(120, random_state=0) if name == "roll" else digits[:140]


@functools.cache
def fitted(estimator: str, name: str, metric: str = "euclidean") -> Any:
    X = data(name)
    model = clone(EMBEDDINGS[estimator]).set_params(metric=metric)
    X = X - X.mean(axis=0)
    given = {"euclidean": X, "precomputed": pairwise_distances(X), "precomputed_kernel": X @ X.T}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the images' graph is bridged, with a warning
        return model.fit(given[metric]), X


def transformed(model: Any, X: Array, new: Array) -> Array:
    """Images of new points, whatever the model was fitted to."""
    if model.metric == "precomputed":
        lengths = np.sqrt(((new[:, None] - X[None]) ** 2).sum(axis=2))
        return np.asarray(model.transform(lengths))
    if model.metric == "precomputed_kernel":
        return np.asarray(model.transform(new @ X.T, diagonal=(new**2).sum(axis=1)))
    return np.asarray(model.transform(new))


def spacing(points: Array) -> float:
    lengths = pairwise_distances(points)
    np.fill_diagonal(lengths, np.inf)
    return float(np.median(lengths.min(axis=1)))


def steepest(X: Array, Y: Array) -> float:
    """The largest ratio of distances of outputs and inputs: no map through Y has less slope."""
    i, j = np.triu_indices(len(X), 1)
    lengths = np.linalg.norm(X[i] - X[j], axis=1)
    return float((np.linalg.norm(Y[i] - Y[j], axis=1) / lengths).max())


def with_outputs(X: Array, Y: Array, *, by_distances: bool = False) -> Embedding:
    """An embedding of inputs X at Y."""
    n = len(X)
    lengths = SquaredDistances.from_points(X)
    if by_distances:
        lengths = SquaredDistances.from_distances(pairwise_distances(X))
    none = np.zeros((0, 2), dtype=np.int64)
    return Embedding(Y, np.ones(n), none, None, np.zeros(n, dtype=np.int64), lengths)


# -- continuity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["roll", "images"])
@pytest.mark.parametrize("estimator", EMBEDDINGS)
def test_a_point_beside_a_training_point_lands_beside_its_image(estimator: str, name: str) -> None:
    model, X = fitted(estimator, name)
    inputs, outputs = spacing(X), spacing(model.embedding_)
    rng = np.random.default_rng(0)
    lengths = pairwise_distances(X)
    np.fill_diagonal(lengths, np.inf)
    to_next = X[lengths.argmin(axis=1)] - X
    for share in (1e-9, 1e-6, 1e-3, 0.01, 0.1):
        for way in (to_next, rng.standard_normal(X.shape), np.ones(X.shape)):
            step = share * inputs * way / np.linalg.norm(way, axis=1, keepdims=True)
            moved = np.linalg.norm(model.transform(X + step) - model.embedding_, axis=1)
            assert moved.max() <= 10 * outputs * share


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["roll", "images"])
def test_the_same_by_distances_and_kernels(metric: str, name: str) -> None:
    model, X = fitted("mvu", name, metric)
    inputs, outputs = spacing(X), spacing(model.embedding_)
    way = np.random.default_rng(1).standard_normal(X.shape)
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    # Squared distances out of a kernel are known up to rounding errors of the kernel.
    shares = (1e-4, 0.01, 0.1) if metric == "precomputed_kernel" else (1e-8, 1e-4, 0.01, 0.1)
    for share in shares:
        image = transformed(model, X, X + share * inputs * way)
        moved = np.linalg.norm(image - model.embedding_, axis=1)
        assert moved.max() <= 10 * outputs * share


def test_a_round_trip_through_single_precision_moves_no_training_point() -> None:
    model, X = fitted("mvu", "images")
    rounded = X.astype(np.float32).astype(np.float64)
    assert (rounded != X).any()
    moved = np.linalg.norm(model.transform(rounded) - model.embedding_, axis=1)
    assert moved.max() <= 1e-5 * spacing(model.embedding_)


@pytest.mark.parametrize("name", ["roll", "images"])
@pytest.mark.parametrize("estimator", EMBEDDINGS)
def test_no_jumps_between_training_points(estimator: str, name: str) -> None:
    """Along segments the slope stays close to the least that a map through the outputs can have."""
    model, X = fitted(estimator, name)
    rng, steps = np.random.default_rng(2), 400
    least = steepest(X, model.embedding_)
    shares = np.linspace(0, 1, steps + 1)[:, None]
    for _ in range(25):
        i, j = rng.choice(len(X), 2, replace=False)
        path = model.transform(X[i] + shares * (X[j] - X[i]))
        moved = np.linalg.norm(np.diff(path, axis=0), axis=1).max()
        assert moved <= 1.6 * least * np.linalg.norm(X[j] - X[i]) / steps
        assert np.array_equal(path[0], model.embedding_[i])


def test_steps_shrink_with_the_distance_everywhere() -> None:
    """Around points of all kinds: far away, between training points, at equal distances."""
    model, X = fitted("mvu", "images")
    rng = np.random.default_rng(3)
    i, j = rng.integers(0, len(X), (2, 60))
    places = np.vstack([(X[i] + X[j]) / 2, 5 * X[i], np.zeros((1, X.shape[1])), X[i] + 1e-3])
    bound = 1.6 * steepest(X, model.embedding_)
    for length in (1e-7, 1e-3, 1e-1):
        way = rng.standard_normal(places.shape)
        step = length * way / np.linalg.norm(way, axis=1, keepdims=True)
        moved = np.linalg.norm(model.transform(places + step) - model.transform(places), axis=1)
        assert moved.max() <= bound * length + 1e-9 * np.abs(model.embedding_).max()


# -- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by_distances", [False, True])
@pytest.mark.parametrize(("n", "r"), [(2, 1), (4, 2), (40, 2), (30, 3), (200, 5)])
def test_flat_data_are_continued_exactly(n: int, r: int, by_distances: bool) -> None:
    rng = np.random.default_rng(n)
    plane = np.linalg.qr(rng.standard_normal((r + 4, r)))[0].T
    turn = np.linalg.qr(rng.standard_normal((r, r)))[0]
    Z, new = rng.standard_normal((n, r)) * 3, 10 * rng.standard_normal((50, r))
    embedding = with_outputs(Z @ plane + 7, Z @ turn, by_distances=by_distances)
    given = new @ plane + 7
    if by_distances:
        placed = embedding.extend(distances=pairwise_distances(given, Z @ plane + 7))
    else:
        placed = embedding.extend(given)
    assert np.abs(placed - new @ turn).max() <= 1e-9 * np.abs(new).max()


def test_a_sheet_is_continued_far_below_its_spacing() -> None:
    X, sheet = swiss_roll(2200, noise_dims=0, return_parameters=True)
    embedding = with_outputs(X[:2000], sheet[:2000])
    error = np.linalg.norm(embedding.extend(X[2000:]) - sheet[2000:], axis=1)
    by_program = np.linalg.norm(embedding.extend(X[2000:], method="sdp") - sheet[2000:], axis=1)
    assert np.median(error) <= 0.05 * spacing(sheet)
    assert np.median(error) <= np.median(by_program)


def test_extension_is_as_consistent_as_by_the_program() -> None:
    """Eq. 3.34 on handwritten fives."""
    digits = load_digits()
    X = digits.data[digits.target == 5].astype(np.float64)
    found = []
    for seed in range(4):
        A, B, C = np.array_split(X[np.random.default_rng(seed).permutation(len(X))[:180]], 3)

        def unfold(points: Array) -> Embedding:
            problem = sdpkit.MVU(points, n_neighbors=4, connect="bridge")
            return problem.recover(sdpkit.solve(problem, tol=1e-4), n_components=2)

        embedded = tuple(unfold(np.vstack([part, C])).coordinates[60:] for part in (A, B))
        of_a, of_b = unfold(A), unfold(B)
        found.append(
            [
                relative_inconsistency(
                    (of_a.extend(C, method=way), of_b.extend(C, method=way)),  # type: ignore[arg-type]
                    (embedded[0], embedded[1]),
                )
                for way in ("interpolation", "sdp")
            ]
        )
    ours, program = 1 / (1 / np.array(found)).mean(axis=0)
    assert ours <= program


# -- special positions ---------------------------------------------------------------------------


def test_coincident_inputs_have_the_first_ones_image() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    X[[5, 9]] = X[2]
    Y = rng.standard_normal((30, 2))
    embedding = with_outputs(X, Y)
    placed = embedding.extend(X)
    kept = np.setdiff1d(np.arange(30), [5, 9])
    assert np.array_equal(placed[kept], Y[kept])
    assert np.array_equal(placed[[5, 9]], Y[[2, 2]])
    assert np.abs(embedding.extend(X + 1e-10)[[2, 5, 9]] - Y[2]).max() <= 1e-8
    alone = with_outputs(np.ones((3, 2)), Y[:3])
    assert np.array_equal(alone.extend([[1.0, 1.0], [4.0, 0.0]]), Y[[0, 0]])
    assert np.array_equal(with_outputs(X[:1], Y[:1]).extend(X[:2]), Y[[0, 0]])


def test_almost_coincident_inputs_with_different_images() -> None:
    """Steep between the two, and nowhere else."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    Y = X[:, :2].copy()
    X[1] = X[0] + 1e-12
    Y[1] = Y[0] + 0.05
    embedding = with_outputs(X, Y)
    assert np.array_equal(embedding.extend(X), Y)
    assert np.abs(embedding.extend(X[2:] + 1e-6) - Y[2:]).max() <= 1e-4
    beside = X[0] + np.array([[1e-3, 0.0, 0.0], [0.1, 0.0, 0.0]])
    assert np.abs(embedding.extend(beside) - beside[:, :2]).max() <= 0.06


def test_equal_distances_to_all_inputs() -> None:
    """The corners of a simplex, a cube and a lattice, from their centres."""
    rng = np.random.default_rng(2)
    cube = np.array(np.meshgrid(*[[0.0, 1.0]] * 6)).reshape(6, -1).T
    lattice = np.array(np.meshgrid(*[np.arange(4.0)] * 3)).reshape(3, -1).T
    for X in (np.eye(12), cube, lattice):
        Y = rng.standard_normal((len(X), 2))
        embedding = with_outputs(X, Y)
        for centre in (X.mean(axis=0), X[0] + 0.5, (X[0] + X[1]) / 2):
            around = centre + 1e-8 * rng.standard_normal((50, X.shape[1]))
            moved = embedding.extend(around) - embedding.extend(centre[None])
            assert np.abs(moved).max() <= 1e-6


def test_collinear_inputs_and_points_far_away() -> None:
    line = np.outer(np.arange(8.0), [1.0, 2.0, 2.0])
    Y = np.column_stack([3 * np.arange(8.0), np.zeros(8)])
    embedding = with_outputs(line, Y)
    assert np.allclose(embedding.extend([[3.5, 7.0, 7.0], [9.0, 18.0, 18.0]]), [[10.5, 0], [27, 0]])
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 5))
    noisy = with_outputs(X, rng.standard_normal((80, 2)))
    for far in (1e2, 1e5, 1e9):
        placed = noisy.extend(far * rng.standard_normal((20, 5)))
        assert np.abs(placed).max() <= 10 * far


def test_distances_that_no_points_have() -> None:
    rng = np.random.default_rng(4)
    D = rng.uniform(1, 2, (25, 25))
    D = (D + D.T) / 2
    np.fill_diagonal(D, 0.0)
    lengths = SquaredDistances.from_distances(D)
    f = interpolation.Interpolant.through(lengths, rng.standard_normal((25, 2)))
    assert np.array_equal(f(distances=D), f.outputs)
    assert np.abs(f(distances=D + 1e-9) - f.outputs).max() <= 1e-7


@pytest.mark.parametrize("scale", [1e-120, 1e-9, 1e9, 1e100])
def test_the_unit_of_length_does_not_matter(scale: float) -> None:
    rng = np.random.default_rng(5)
    X, Y, new = (rng.standard_normal(shape) for shape in ((50, 4), (50, 2), (20, 4)))
    placed = with_outputs(X, Y).extend(new)
    assert np.allclose(with_outputs(scale * X, scale * Y).extend(scale * new), scale * placed)


# -- one by one ----------------------------------------------------------------------------------


@pytest.mark.parametrize("centres", [40, 2000])
@pytest.mark.parametrize("dimension", [2, 40])
def test_more_inputs_than_centres(
    centres: int, dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Residuals carry what the spline leaves out: exact, continuous, one point at a time."""
    monkeypatch.setattr(interpolation, "_CENTRES", centres)
    rng = np.random.default_rng(6)
    X = rng.standard_normal((300, dimension))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2])
    embedding = with_outputs(X, Y)
    assert np.array_equal(embedding.extend(X), Y)
    unit = spacing(X)
    limit = 10 * spacing(Y) / unit + 3 * steepest(X, Y)
    for share in (1e-9, 1e-4, 0.1):
        way = rng.standard_normal(X.shape)
        step = share * unit * way / np.linalg.norm(way, axis=1, keepdims=True)
        moved = np.linalg.norm(embedding.extend(X + step) - Y, axis=1)
        assert moved.max() <= limit * share * unit
    new = np.vstack([rng.standard_normal((400, dimension)), X[:50] + 0.01 * unit])
    together = embedding.extend(new)
    for i in range(0, 450, 7):
        assert np.array_equal(embedding.extend(new[i : i + 1])[0], together[i])
    order = rng.permutation(450)
    assert np.array_equal(embedding.extend(new[order]), together[order])


def test_a_loaded_model_transforms_the_same(tmp_path: Path) -> None:
    model, X = fitted("mvu", "roll")
    model.save(tmp_path / "model.npz")
    new = X + 0.3 * np.random.default_rng(7).standard_normal(X.shape)
    loaded = type(model).load(tmp_path / "model.npz")
    assert np.array_equal(loaded.transform(new), model.transform(new))
