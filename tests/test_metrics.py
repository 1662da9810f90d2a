"""Learned metrics against literal classification rules."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_iris

import sdpkit
from sdpkit import LMNN, InputError, Status
from sdpkit.errors import ConvergenceWarning
from sdpkit.numerics.neighbors import nearest
from sdpkit.results.metric import Metric
from sdpkit.results.targets import target_neighbors
from sdpkit.typing import Array


def grid_metric(seed: int, kind: str, n: int = 14) -> tuple[Metric, Array]:
    """Whole numbers throughout, so that ties are ties; and new points."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 2)).astype(float)
    labels = np.r_[0, 0, 1, 1, 2, 2, rng.integers(0, 3, n - 6)]
    blocks = {
        "single": np.zeros(n, np.int64),
        "per class": labels,
        "clusters": np.r_[0, 1, rng.integers(0, 2, n - 2)],
    }[kind]
    parts = tuple(rng.integers(-2, 3, (2, 2)).astype(float) for _ in range(int(blocks.max()) + 1))
    metric = Metric(
        components=parts,
        X=X,
        labels=labels,
        classes=np.array(["a", "b", "c"]),
        block_of=blocks,
        target_pairs=target_neighbors(X, labels, 1),
        n_neighbors=3,
        mu=0.25,
        block_of_class=np.arange(3) if kind == "per class" else None,
    )
    return metric, rng.integers(0, 4, (9, 2)).astype(float)


def length(metric: Metric, block: int, a: Array, b: Array) -> float:
    image = metric.components[block] @ (a - b)
    return float(image @ image)


def literal_knn(metric: Metric, x: Array, k: int, without: int = -1) -> str:
    """Shrink the neighbourhood until one class leads."""
    n = len(metric.X)
    ranked = sorted(
        (o for o in range(n) if o != without),
        key=lambda o: (length(metric, int(metric.block_of[o]), x, metric.X[o]), o),
    )
    for size in range(k, 0, -1):
        votes = [int(metric.labels[o]) for o in ranked[:size]]
        counts = {label: votes.count(label) for label in votes}
        leaders = [label for label, c in counts.items() if c == max(counts.values())]
        if len(leaders) == 1:
            return str(metric.classes[leaders[0]])
    raise AssertionError("a neighbourhood of one has a leader")


def literal_energy(metric: Metric, x: Array, label: int, k: int) -> float:
    """Eq. 2.12 with (x, label) as one more training point."""
    X, labels, mu = metric.X, metric.labels, metric.mu
    n = len(X)
    to = [length(metric, int(metric.block_of[o]), x, X[o]) for o in range(n)]
    own = sorted(to[o] for o in range(n) if labels[o] == label)[:k]
    energy = (1 - mu) * sum(own)
    for near in own:
        energy += mu * sum(max(0.0, 1 + near - to[o]) for o in range(n) if labels[o] != label)
    if metric.block_of_class is not None:
        block = int(metric.block_of_class[label])
    elif len(metric.components) == 1:
        block = 0
    else:
        closest = min(range(n), key=lambda o: (float(np.square(x - X[o]).sum()), o))
        block = int(metric.block_of[closest])
    for i, j in metric.target_pairs.tolist():
        if labels[i] != label:
            reach = 1 + length(metric, int(metric.block_of[j]), X[i], X[j])
            energy += mu * max(0.0, reach - length(metric, block, X[i], x))
    return energy


KINDS = pytest.mark.parametrize("kind", ["single", "per class", "clusters"])


@KINDS
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 6))
def test_knn_with_the_thesis_rule_for_ties(kind: str, seed: int, k: int) -> None:
    metric, new = grid_metric(seed, kind)
    expected = [literal_knn(metric, x, k) for x in new]
    assert metric.predict(new, n_neighbors=k).tolist() == expected
    truth = metric.classes[np.random.default_rng(seed).integers(0, 3, len(new))]
    wrong = np.mean([a != b for a, b in zip(expected, truth, strict=True)])
    assert metric.error(new, truth, n_neighbors=k) == pytest.approx(float(wrong))
    left_out = [literal_knn(metric, x, k, without=i) for i, x in enumerate(metric.X)]
    wrong = np.mean(np.array(left_out) != metric.classes[metric.labels])
    assert metric.leave_one_out_error(k) == pytest.approx(float(wrong))


@KINDS
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 2))
def test_energies_are_those_of_the_equation(kind: str, seed: int, k: int) -> None:
    metric, new = grid_metric(seed, kind)
    expected = np.array([[literal_energy(metric, x, c, k) for c in range(3)] for x in new])
    found = metric.energies(new, n_neighbors=k)
    assert np.allclose(found, expected, rtol=1e-10, atol=1e-10)
    clear = np.sort(expected, axis=1)[:, 1] - expected.min(axis=1) > 1e-6
    labels = metric.predict(new, rule="energy", n_neighbors=k)
    assert np.array_equal(labels[clear], metric.classes[expected.argmin(axis=1)][clear])


@pytest.mark.parametrize("slab", [2**22, 40])
def test_energies_with_targets_of_the_euclidean_metric(
    slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weinberger and Saul (2009): the k nearest of the class before learning, measured after."""
    monkeypatch.setattr(sdpkit.numerics.neighbors, "_SLAB_ENTRIES", slab)
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
    metric = Metric.from_components(np.diag([0.1, 1.0, 3.0]), X, y, n_neighbors=2)
    new = rng.standard_normal((15, 3))
    expected = np.empty((15, 2))
    for t, x in enumerate(new):
        to = np.square((X - x) @ metric.components[0].T).sum(axis=1)
        for label in (0, 1):
            own = np.flatnonzero(y == label)
            own = own[np.argsort(np.square(X[own] - x).sum(axis=1))[:2]]
            energy = 0.5 * to[own].sum()
            energy += 0.5 * sum(np.maximum(0, 1 + to[j] - to[y != label]).sum() for j in own)
            for i, j in metric.target_pairs:
                if y[i] != label:
                    reach = 1 + np.square(metric.transform(X[[i]] - X[[j]])).sum()
                    energy += 0.5 * max(0.0, reach - to[i])
            expected[t, label] = energy
    found = metric.energies(new, targets="euclidean")
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    labels = metric.predict(new, "energy", targets="euclidean")
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))
    assert not np.allclose(found, metric.energies(new))
    assert metric.error(new, labels, "energy", targets="euclidean") == 0
    with pytest.raises(InputError, match="'learned' or 'euclidean'"):
        metric.energies(new, targets="nearest")  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    k=st.integers(1, 5),
    shift=st.sampled_from([0.0, 1e3, 1e6]),
    blocks=st.integers(1, 3),
)
def test_nearest_by_distance_then_index(seed: int, k: int, shift: float, blocks: int) -> None:
    """Also where one block's points lie together, far from the rest."""
    rng = np.random.default_rng(seed)
    n = 12
    block_of = np.r_[np.arange(blocks), rng.integers(0, blocks, n - blocks)]
    points = [rng.integers(0, 3, (n, 2)) + shift * (block_of == b)[:, None] for b in range(blocks)]
    queries = [p[:5].copy() for p in points]
    found, lengths = nearest(queries, points, k, block_of=block_of)
    for q in range(5):
        far = [float(np.square(queries[b][q] - points[b][o]).sum()) for o, b in enumerate(block_of)]
        expected = sorted(range(n), key=lambda o: (far[o], o))[:k]
        assert found[q].tolist() == expected
        assert lengths[q].tolist() == [far[o] for o in expected]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    k=st.integers(1, 5),
    scale=st.sampled_from([1e-25, 1.0, 1e25]),
    shift=st.sampled_from([0.0, 1e3]),
    blocks=st.integers(1, 3),
    room=st.sampled_from([0, 60]),
    themselves=st.booleans(),
)
def test_single_precision_screens_without_a_trace(
    seed: int, k: int, scale: float, shift: float, blocks: int, room: int, themselves: bool
) -> None:
    """Ties that only (distance, index) decides, distances that single precision cannot tell apart,
    squares beyond its range, and more candidates than there is room for."""
    rng = np.random.default_rng(seed)
    n, block_of = 40, rng.integers(0, blocks, 40)
    points = [
        scale * (rng.integers(0, 3, (n, 2)) + 1e-9 * rng.integers(0, 2, (n, 2)) + shift)
        for _ in range(blocks)
    ]
    queries = points if themselves else [p[:7] + scale * 1e-9 for p in points]
    found = []
    for products in (0, 2**60):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sdpkit.numerics.neighbors, "_SCREEN_PRODUCTS", products)
            patched.setattr(sdpkit.numerics.neighbors, "_ROOM", room - 3 * k if room == 0 else room)
            found.append(nearest(queries, points, k, block_of=block_of, themselves=themselves))
    for screened, plain in zip(*found, strict=True):
        assert np.array_equal(screened, plain)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 3), scale=st.sampled_from([1e-3, 1.0, 1e4]))
@example(seed=4591, k=1, scale=1.0)
def test_labels_of_least_energy_are_those_of_the_energies(seed: int, k: int, scale: float) -> None:
    """Points on a grid, so that energies tie: then the first label counts."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 4, (40, 3)), np.arange(40) % 4
    metric = Metric.from_components(scale * np.eye(3), X, y, n_neighbors=k)
    new = rng.integers(0, 4, (25, 3)) + 0.0
    energies = metric.energies(new)
    tied = energies <= energies.min(axis=1, keepdims=True) * (1 + 1e-10)  # to rounding
    assert np.array_equal(metric.predict(new, "energy"), tied.argmax(axis=1))
    alone = [metric.predict(point[None], "energy")[0] for point in new[:3]]
    assert np.array_equal(alone, tied.argmax(axis=1)[:3])


def test_single_precision_decides_most_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the queries that it leaves open are measured in double precision."""
    X, y = load_iris(return_X_y=True)
    metric = Metric.from_components(np.eye(4), X[::2], y[::2])
    expected = metric.energies(X[1::2]).argmin(axis=1)
    asked: list[int] = []
    energies = Metric._energies

    def counted(self: Metric, points: Array, *rest: Any) -> Array:
        asked.append(len(points))
        return energies(self, points, *rest)

    monkeypatch.setattr(Metric, "_energies", counted)
    assert np.array_equal(metric.predict(X[1::2], "energy"), expected)
    assert sum(asked) < 10


@pytest.mark.parametrize("rule", ["knn", "energy"])
def test_a_metric_prepares_its_points_once(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_iris(return_X_y=True)
    metric = Metric.from_components(np.eye(4), X, y)
    size = len(pickle.dumps(metric))
    first = metric.predict(X[:1], rule)

    def refused(*_: Any) -> None:
        raise AssertionError("prepared again")

    monkeypatch.setattr(sdpkit.numerics.neighbors.Points, "__init__", refused)
    assert np.array_equal(metric.predict(X[:1], rule), first)
    # What was prepared is not written into pickles.
    assert len(pickle.dumps(metric)) == size


def test_nearest_refuses_too_many() -> None:
    line = np.arange(3.0)[:, None]
    assert nearest([line], [line], 3)[0].shape == (3, 3)
    for k, themselves in ((4, False), (3, True), (0, False)):
        with pytest.raises(InputError, match=f"n_neighbors={k}: "):
            nearest([line], [line], k, themselves=themselves)


def test_transform_distance_and_matrix() -> None:
    metric, new = grid_metric(0, "single")
    (L,) = metric.components
    assert np.allclose(metric.matrix, L.T @ L)
    assert np.allclose(metric.transform(new), new @ L.T)
    difference = new[:4] - new[4:8]
    expected = np.sqrt(np.einsum("ij,jk,ik->i", difference, L.T @ L, difference))
    assert np.allclose(metric.distance(new[:4], new[4:8]), expected)
    assert metric.transform(new[0]).shape == (1, 2)
    several, _ = grid_metric(0, "per class")
    for use in (lambda: several.matrix, lambda: several.transform(new)):
        with pytest.raises(InputError, match="needs a single metric, and there are 3"):
            use()
    assert len(several.matrices) == 3
    assert "3 metrics of rank 2, 2, 2" in repr(several)


def test_truncated_is_pca_of_the_images() -> None:
    """LMNN-S: what varies most after x → Lx, not the longest rows of L."""
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4)) * [10.0, 3.0, 1.0, 0.1]
    metric = Metric.from_components(rng.standard_normal((4, 4)), X, np.arange(40) % 2)
    for r in (1, 2, 3):
        images = metric.truncated(r).transform(X)
        by_pca = PCA(r).fit_transform(metric.transform(X))
        np.testing.assert_allclose(np.abs(images - images.mean(axis=0)), np.abs(by_pca), atol=1e-9)
    values, vectors = np.linalg.eigh(metric.matrix)
    longest = values[-1] * np.outer(vectors[:, -1], vectors[:, -1])
    assert not np.allclose(metric.truncated(1).matrix, longest, rtol=0.1)
    assert np.allclose(metric.truncated(9).matrix, metric.matrix)
    with pytest.raises(InputError, match="at least 1"):
        metric.truncated(0)


def test_lmnn_s_keeps_what_few_dimensions_can_keep() -> None:
    """Directions without variation may have the longest rows of L; they classify nothing."""
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    X = np.c_[8.0 * y + rng.standard_normal(60), 1e-3 * rng.standard_normal(60)]
    metric = Metric.from_components(np.diag([1.0, 50.0]), X, y)
    assert metric.truncated(1).leave_one_out_error() == 0


@KINDS
@pytest.mark.parametrize("classes", [["a", "b", "c"], [1.5, 2.5, 3.5], [True, False, None]])
def test_save_and_load(kind: str, classes: list[Any], tmp_path: Path) -> None:
    metric, new = grid_metric(1, kind)
    metric = sdpkit.results.metric.replace(metric, classes=np.array(classes))
    metric.save(tmp_path / "metric.npz")
    back = Metric.load(tmp_path / "metric.npz")
    assert repr(back) == repr(metric)
    assert np.array_equal(back.energies(new, 1), metric.energies(new, 1))
    words = [str(label) for label in metric.predict(new)]
    assert [str(label) for label in back.predict(new)] == words


def test_load_refuses_what_is_not_a_metric(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", a=1)
    for name in ("text.npz", "other.npz"):
        with pytest.raises(InputError, match="not a saved metric"):
            Metric.load(tmp_path / name)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda m: m.predict([[1.0, 2.0, 3.0]]), r"pass one row per point, \(b, 2\)"),
        (lambda m: m.predict([[np.nan, 1.0]]), "NaN"),
        (lambda m: m.predict(np.zeros((1, 2)), rule="vote"), "'knn' or 'energy'"),
        (
            lambda m: m.predict(np.zeros((1, 2)), n_neighbors=99),
            "n_neighbors=99: pass",
        ),
        (lambda m: m.predict(np.zeros((1, 2)), n_neighbors=0), "n_neighbors=0"),
        (lambda m: m.energies(np.zeros((1, 2)), n_neighbors=12), "in every class"),
    ],
)
def test_bad_use(use: Any, words: str) -> None:
    metric, _ = grid_metric(0, "single")
    with pytest.raises(InputError, match=words):
        use(metric)


# -- what is learned ------------------------------------------------------------------------


def halves() -> tuple[Array, NDArray[Any], Array, NDArray[Any]]:
    X, y = load_iris(return_X_y=True)
    X = np.c_[X, 5 * np.random.default_rng(0).standard_normal((150, 2))]
    return X[::2], y[::2], X[1::2], y[1::2]


def test_learning_helps_where_noise_hides_the_classes() -> None:
    X, y, new, truth = halves()
    problem = LMNN(X, y)
    metric = problem.recover(sdpkit.solve(problem))
    plain = sdpkit.results.metric.replace(metric, components=(np.eye(6),))
    assert metric.error(new, truth) < 0.1 < 0.25 < plain.error(new, truth)
    assert metric.error(new, truth, rule="energy") < 0.1


@pytest.mark.parametrize("metrics", ["single", "per_class"])
def test_next_pass_takes_the_nearest_under_the_metric(metrics: str) -> None:
    X, y, _, _ = halves()
    first = LMNN(X, y, n_neighbors=2, metrics=metrics)  # type: ignore[arg-type]
    solution = sdpkit.solve(first, tol=1e-2)
    metric = first.recover(solution)
    second = first.next_pass(solution)
    assert np.array_equal(second.X, first.X)
    assert np.array_equal(second.block_of, first.block_of)
    for i in range(0, len(X), 7):
        same = [o for o in np.flatnonzero(y == y[i]) if o != i]
        ranked = sorted(same, key=lambda o: length(metric, int(metric.block_of[o]), X[i], X[o]))
        mine = second.target_pairs[second.target_pairs[:, 0] == i, 1]
        assert set(mine) == set(ranked[:2])
    again = sdpkit.solve(second, tol=1e-2, warm_start=solution)
    assert again.status is Status.OPTIMAL
    # The old metric with nearer targets is a candidate of the new problem.
    assert again.objective <= second.objective(metric) * (1 + 1e-4)
    assert second.recover(again).matrices[0].shape == (6, 6)


def test_next_pass_of_a_kernel() -> None:
    X, y, _, _ = halves()
    problem = LMNN(None, y, kernel=X @ X.T, rank=4, n_neighbors=2)
    second = problem.next_pass(sdpkit.solve(problem))
    assert np.array_equal(second.features, problem.features)
    assert len(second.target_pairs) == len(problem.target_pairs)


def test_early_stopping() -> None:
    X, y, new, truth = halves()
    problem = LMNN(X, y)
    watch = problem.early_stopping(new, truth, patience=2)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = sdpkit.solve(problem, tol=1e-9, callback=watch)
    assert solution.status is Status.INTERRUPTED
    assert watch.best is not None
    assert watch.best.error(new, truth) == min(watch.errors)
    # It stopped because the last two looks brought nothing, and not before.
    assert min(watch.errors[-2:]) > min(watch.errors)
    assert all(
        min(watch.errors[: k + 1]) >= min(watch.errors[max(0, k - 1) : k + 1])
        for k in range(len(watch.errors) - 1)
    )
    with pytest.raises(InputError, match="passes its matrices"):
        watch({"objective": 1.0})


def test_positions_are_taken_for_one_more_release() -> None:
    """A metric of nine arguments is made by their names."""
    metric, new = grid_metric(0, "single")
    values = {f.name: getattr(metric, f.name) for f in dataclasses.fields(Metric)}
    with pytest.warns(DeprecationWarning, match="components=…, X=…, labels=…"):
        same = Metric(*values.values())
    assert np.array_equal(same.predict(new), metric.predict(new))
    with pytest.raises(TypeError, match="takes 10 arguments, not 11"):
        Metric(*values.values(), 0)
    with pytest.warns(match="keyword"), pytest.raises(TypeError, match="multiple values"):
        Metric(metric.components, components=metric.components)
