"""The estimators for scikit-learn: checks, batches, pipelines, frames, warnings, files."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import sdpkit
from sdpkit import estimators
from sdpkit.datasets import swiss_roll
from sdpkit.errors import InputError
from sdpkit.typing import Array

METRICS = (
    estimators.LargeMarginNearestNeighbors(tol=0.05),
    estimators.MahalanobisForClustering(),
    estimators.PairMarginMetric(),
    estimators.CoveringEllipsoidMetric(),
    estimators.RelevantComponentAnalysis(),
)
EMBEDDINGS = (
    estimators.MaximumVarianceUnfolding(),
    estimators.MinimumVolumeEmbedding(min_gain=0.05),
    estimators.VariationalMaximumVarianceUnfolding(),
)
CLASSIFIERS = (estimators.LMNNClassifier(tol=0.05), estimators.QueryMetric())
SEARCHES = (
    estimators.WarmGridSearchCV(
        estimators.LMNNClassifier(tol=0.05), {"mu": [0.4, 0.6]}, cv=2, error_score="raise"
    ),
)
# Whose `fit` takes pairs or triplets of points: scikit-learn's checks pass matrices.
OF_TUPLES = (
    estimators.MahalanobisForClusteringFromPairs(),
    estimators.PairMarginMetricFromPairs(),
    estimators.LargeMarginFromTriplets(),
    estimators.PseudoMetricOnlineLearning(),
)
# With all defaults where the ones above are set to save time, and choices that change the problem.
CHOICES = (
    estimators.LargeMarginNearestNeighbors(),
    estimators.LMNNClassifier(),
    estimators.MinimumVolumeEmbedding(),
    estimators.MaximumVarianceUnfolding(form="inequality"),
    estimators.MaximumVarianceUnfolding(form="slack", metric="precomputed"),
    estimators.LMNNClassifier(rule="energy"),
    estimators.LMNNClassifier(metrics="per_class"),
)


def name_of(estimator: Any) -> str:
    return type(estimator).__name__


def iris() -> tuple[Array, NDArray[np.int64]]:
    X, y = load_iris(return_X_y=True)
    return X, y


def data_for(estimator: Any) -> tuple[Array, Any]:
    """Training data that the estimator is made for."""
    if estimator in EMBEDDINGS:
        return swiss_roll(80, random_state=1), None
    return iris()


# -- scikit-learn's checks ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")  # bridged graphs, few neighbours
@parametrize_with_checks([*METRICS, *EMBEDDINGS, *CLASSIFIERS, *SEARCHES])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([*CHOICES])
def test_scikit_learns_checks_of_the_choices(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_estimator_is_checked() -> None:
    checked = (*METRICS, *EMBEDDINGS, *CLASSIFIERS, *SEARCHES, *OF_TUPLES)
    assert {name_of(e) for e in checked} == set(estimators.__all__)


@pytest.mark.parametrize("estimator", OF_TUPLES, ids=name_of)
def test_estimators_of_tuples_keep_the_conventions(estimator: Any) -> None:
    tags = estimator.__sklearn_tags__()
    assert tags.input_tags.three_d_array
    assert not tags.input_tags.two_d_array
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        copy.transform([[0.0, 1.0]])
    with pytest.raises(InputError, match=r"have shape \(3, 2\)"):
        copy.fit(np.zeros((3, 2)), [1, -1, 1])


# -- one point alone and in a batch ---------------------------------------------------------------


@pytest.mark.parametrize("estimator", EMBEDDINGS, ids=name_of)
def test_an_image_does_not_depend_on_its_batch(estimator: Any) -> None:
    X = swiss_roll(80, random_state=1)
    new = np.tile(swiss_roll(100, random_state=2), (100, 1)) + 0.01 * np.random.default_rng(
        0
    ).standard_normal((10_000, X.shape[1]))
    model = clone(estimator).fit(X)
    batch = model.transform(new)
    for i in (0, 17, 9_999):
        assert np.array_equal(model.transform(new[i : i + 1])[0], batch[i])
    order = np.random.default_rng(1).permutation(10_000)[:500]
    assert np.array_equal(model.transform(new[order]), batch[order])


@pytest.mark.parametrize("estimator", [*METRICS, *OF_TUPLES], ids=name_of)
def test_metrics_map_a_point_alone_as_in_a_batch(estimator: Any) -> None:
    X, y = iris()
    model = clone(estimator).fit(*(pairs_for(estimator) if estimator in OF_TUPLES else (X, y)))
    new = X[np.random.default_rng(0).integers(0, len(X), 10_000)]
    batch = model.transform(new)
    scale = np.abs(batch).max()
    for i in (0, 17, 9_999):
        assert np.abs(model.transform(new[i : i + 1])[0] - batch[i]).max() <= 1e-12 * scale


@pytest.mark.parametrize("estimator", [*EMBEDDINGS, *METRICS], ids=name_of)
def test_training_points_map_to_their_own_images(estimator: Any) -> None:
    X, y = data_for(estimator)
    model = clone(estimator)
    images = model.fit_transform(X, y)
    assert np.abs(model.transform(X) - images).max() <= 1e-9 * np.abs(images).max()
    if estimator in EMBEDDINGS:
        assert np.array_equal(model.transform(X), model.embedding_)


# -- what was learned -----------------------------------------------------------------------------


def test_lmnn_is_the_problem_solved() -> None:
    """An estimator adds nothing: the same metric, objective and certificate as the bare solve."""
    X, y = iris()
    model = estimators.LargeMarginNearestNeighbors(n_neighbors=2, mu=0.3).fit(X, y)
    problem = sdpkit.LMNN(X, y, n_neighbors=2, mu=0.3)
    solution = sdpkit.solve(problem)
    assert np.array_equal(model.components_, problem.recover(solution).components[0])
    assert repr(model.certificate_) == repr(solution.certificate)
    assert model.n_iter_ == solution.iterations
    assert model.problem_.objective(model.metric_) == pytest.approx(solution.objective, rel=1e-9)


def test_the_words_of_metric_learn() -> None:
    X, y = iris()
    model = estimators.LargeMarginNearestNeighbors().fit(X, y)
    M = model.get_mahalanobis_matrix()
    assert np.allclose(M, model.components_.T @ model.components_)
    pairs = np.stack([X[:20], X[60:80]], axis=1)
    v = pairs[:, 0] - pairs[:, 1]
    expected = np.sqrt(np.einsum("pi,ij,pj->p", v, M, v))
    assert model.pair_distance(pairs) == pytest.approx(expected)
    assert np.array_equal(model.pair_score(pairs), -model.pair_distance(pairs))
    metric = model.get_metric()
    assert metric(X[0], X[60]) == pytest.approx(expected[0])
    assert metric(X[0], X[60], squared=True) == pytest.approx(expected[0] ** 2)
    neighbours = KNeighborsClassifier(3, metric=metric).fit(X[::3], y[::3])
    assert neighbours.score(X[1::3], y[1::3]) > 0.9
    with pytest.raises(InputError, match=r"pass 2 points each, \(m, 2, 4\)"):
        model.pair_distance(X)


@pytest.mark.parametrize("rule", ["knn", "energy"])
def test_the_classifier_predicts_as_the_metric(rule: Any) -> None:
    X, y = load_wine(return_X_y=True)
    names = np.array(["red", "white", "rose"])[y]
    X = StandardScaler().fit_transform(X)
    model = estimators.LMNNClassifier(rule=rule).fit(X[::2], names[::2])
    problem = sdpkit.LMNN(X[::2], names[::2])
    metric = problem.recover(sdpkit.solve(problem))
    assert np.array_equal(model.predict(X[1::2]), metric.predict(X[1::2], rule))
    assert model.score(X[1::2], names[1::2]) > 0.95
    assert model.classes_.tolist() == ["red", "rose", "white"]


def test_several_metrics_have_no_single_components() -> None:
    X, y = iris()
    model = estimators.LMNNClassifier(metrics="per_class").fit(X, y)
    assert len(model.metric_.components) == 3
    assert not hasattr(model, "components_")
    assert model.score(X, y) > 0.95


def test_mvu_is_the_problem_solved() -> None:
    X = swiss_roll(60, random_state=0)
    model = estimators.MaximumVarianceUnfolding(n_neighbors=5, form="inequality").fit(X)
    problem = sdpkit.MVU(X, n_neighbors=5, form="inequality")
    solution = sdpkit.solve(problem)
    embedding = problem.recover(solution, n_components=2)
    assert np.array_equal(model.embedding_, embedding.coordinates)
    assert np.array_equal(model.eigenvalues_, embedding.eigenvalues)
    assert np.array_equal(model.tensions_, embedding.tensions)
    assert repr(model.certificate_) == repr(solution.certificate)
    K = np.asarray(model.kernel_)
    assert np.trace(K) == pytest.approx(model.solution_.objective)
    assert np.linalg.eigvalsh(K)[::-1][:2] == pytest.approx(model.eigenvalues_[:2])
    assert model.quality().local_continuity > 0.5


@pytest.mark.parametrize("estimator", EMBEDDINGS, ids=name_of)
def test_distances_and_kernels_unfold_like_points(estimator: Any) -> None:
    X = swiss_roll(50, random_state=0)
    new = swiss_roll(60, random_state=0)[50:]
    of_points = clone(estimator).fit(X)
    D = pairwise_distances(X)
    of_lengths = clone(estimator).set_params(metric="precomputed").fit(D)
    size = np.abs(of_points.embedding_).max()
    assert np.abs(of_lengths.embedding_ - of_points.embedding_).max() < 1e-2 * size
    assert np.array_equal(of_lengths.transform(D), of_lengths.embedding_)
    placed = of_lengths.transform(pairwise_distances(new, X))
    assert np.abs(placed - of_points.transform(new)).max() < 1e-2 * size
    centred, away = X - X.mean(axis=0), new - X.mean(axis=0)
    of_kernel = clone(estimator).set_params(metric="precomputed_kernel").fit(centred @ centred.T)
    assert np.abs(of_kernel.embedding_ - of_points.embedding_).max() < 1e-2 * size
    own = np.square(away).sum(axis=1)
    placed = of_kernel.transform(away @ centred.T, diagonal=own)
    assert np.abs(placed - of_points.transform(new)).max() < 1e-2 * size
    alone = of_kernel.transform(away[3:4] @ centred.T, diagonal=own[3:4])
    assert np.abs(alone - placed[3]).max() < 1e-9 * size
    with pytest.raises(InputError, match=r"pass transform\(X, diagonal=…\), \(10,\)"):
        of_kernel.transform(away @ centred.T)
    with pytest.raises(InputError, match="diagonal belongs to a kernel"):
        of_points.transform(new, diagonal=own)
    with pytest.raises(InputError, match="squared distance"):
        of_kernel.transform(away @ centred.T, diagonal=0.0 * own)


def test_a_gaussian_kernel_places_new_points_without_their_diagonal() -> None:
    points = swiss_roll(70, random_state=0)
    K = rbf_kernel(points, gamma=0.01)
    model = estimators.MaximumVarianceUnfolding(metric="precomputed_kernel").fit(K[:60, :60])
    placed = model.transform(K[60:, :60])
    assert np.array_equal(placed, model.transform(K[60:, :60], diagonal=np.ones(10)))
    assert np.array_equal(model.transform(K[:60, :60]), model.embedding_)
    by_distances = estimators.MaximumVarianceUnfolding(metric="precomputed").fit(
        np.sqrt(2 - 2 * K[:60, :60].clip(max=1.0))
    )
    expected = by_distances.transform(np.sqrt(2 - 2 * K[60:, :60]))
    assert np.abs(placed - expected).max() < 1e-4 * np.abs(expected).max()


def two_rolls() -> Array:
    return np.vstack([swiss_roll(30, random_state=0), swiss_roll(30, random_state=1) + 1000.0])


def test_a_disconnected_graph_is_joined_with_a_warning() -> None:
    X = two_rolls()
    with pytest.warns(UserWarning, match=r"2 components \(sizes 30, 30\).*joined"):
        model = estimators.MaximumVarianceUnfolding().fit(X)
    side = model.component_labels_[model.edges_]
    assert (side[:, 0] != side[:, 1]).sum() == 10
    with pytest.warns(UserWarning, match="picture distorted.*hangs on one edge"):
        bridged = estimators.MaximumVarianceUnfolding(connect="bridge").fit(X)
    side = bridged.component_labels_[bridged.edges_]
    assert (side[:, 0] != side[:, 1]).sum() == 1
    with pytest.raises(sdpkit.GraphError, match="components"):
        estimators.MaximumVarianceUnfolding(connect="error").fit(X)


def test_components_lie_side_by_side_with_axes_of_their_own() -> None:
    X = two_rolls()
    model = estimators.MaximumVarianceUnfolding(connect="components").fit(X)
    assert len(model.problem_.parts) == 2
    for label in (0, 1):
        here = model.component_labels_ == label
        alone = estimators.MaximumVarianceUnfolding().fit(X[here])
        apart, expected = pdist(model.embedding_[here]), pdist(alone.embedding_)
        assert np.abs(apart - expected).max() < 1e-3 * expected.max()
    first, second = (model.embedding_[model.component_labels_ == label] for label in (0, 1))
    widest = max(pdist(first).max(), pdist(second).max())
    assert cdist(first, second).min() > 0.0
    centres = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    assert centres > widest / 2
    assert 0.5 < model.result_.fidelity <= 1


def test_joined_clusters_keep_their_neighbours() -> None:
    """Rings of images pulled apart on single edges become rays; several joins keep them open."""
    rng = np.random.default_rng(0)
    angle = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    turns = [np.linalg.qr(rng.standard_normal((12, 2)))[0] for _ in range(5)]
    X = np.vstack([ring @ turn.T + 3 * rng.standard_normal(12) for turn in turns])
    trust = {}
    for connect in ("auto", "bridge"):
        with pytest.warns(UserWarning, match="5 components"):
            model = estimators.MaximumVarianceUnfolding(connect=connect, tol=1e-3).fit(X)
        trust[connect] = trustworthiness(X, model.embedding_)
    assert trust["auto"] > trust["bridge"] + 0.01


def test_pairs_and_triplets_of_labels_agree_with_the_problems() -> None:
    X, y = iris()
    X, y = X[::5], y[::5]
    i, j = np.triu_indices(len(X), 1)
    pairs, signs = np.stack([X[i], X[j]], axis=1), np.where(y[i] == y[j], 1, -1)
    by_labels = estimators.MahalanobisForClustering(max_pairs=None).fit(X, y)
    by_pairs = estimators.MahalanobisForClusteringFromPairs(max_pairs=None).fit(pairs, signs)
    M, N = by_labels.get_mahalanobis_matrix(), by_pairs.get_mahalanobis_matrix()
    assert np.abs(M - N).max() < 1e-2 * np.abs(M).max()
    problem = sdpkit.LMNN(X, y, n_neighbors=2)
    every = problem.family.everything()
    terms = problem.family.terms(every)
    rows = np.c_[terms.pulls[terms.pull], terms.pushes[terms.push][:, 1]]
    model = estimators.LargeMarginFromTriplets().fit(X[rows])
    assert model.score(X[rows]) > 0.95


# -- pipelines, frames, parameters ----------------------------------------------------------------


def test_grid_search_in_a_pipeline() -> None:
    X, y = load_wine(return_X_y=True)
    steps = make_pipeline(
        StandardScaler(), PCA(6, random_state=0), estimators.LMNNClassifier(tol=1e-2)
    )
    grid = GridSearchCV(
        steps, {"lmnnclassifier__n_neighbors": [1, 3], "lmnnclassifier__mu": [0.3, 0.6]}, cv=3
    ).fit(X, y)
    assert grid.best_score_ > 0.93
    embed = make_pipeline(
        StandardScaler(), estimators.MaximumVarianceUnfolding(n_neighbors=6), KNeighborsClassifier()
    )
    search = GridSearchCV(embed, {"maximumvarianceunfolding__n_components": [2, 3]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.8


@pytest.mark.parametrize("estimator", [*EMBEDDINGS, *METRICS], ids=name_of)
def test_frames_go_in_and_come_out(estimator: Any) -> None:
    X, y = data_for(estimator)
    frame = pd.DataFrame(X, columns=[f"column {k}" for k in range(X.shape[1])])
    model = clone(estimator).set_output(transform="pandas")
    out = model.fit_transform(frame, y)
    assert isinstance(out, pd.DataFrame)
    prefix = name_of(estimator).lower()
    assert out.columns.tolist() == [f"{prefix}{k}" for k in range(out.shape[1])]
    assert model.get_feature_names_out().tolist() == out.columns.tolist()
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"column 0": "other"}))


def test_random_state_takes_what_scikit_learn_takes() -> None:
    X, y = iris()
    for state in (3, np.int64(3), None, np.random.RandomState(0)):
        model = estimators.LMNNClassifier(metrics=2, random_state=state).fit(X, y)
        assert model.score(X, y) > 0.9


# -- warnings, interruption, display --------------------------------------------------------------


def test_convergence_warnings_are_of_both_classes() -> None:
    X, y = iris()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = estimators.LargeMarginNearestNeighbors(max_iter=1, tol=1e-9).fit(X, y)
    (warning,) = caught
    assert issubclass(warning.category, sdpkit.ConvergenceWarning)
    assert issubclass(warning.category, sklearn.exceptions.ConvergenceWarning)
    assert model.solution_.status == sdpkit.Status.ITERATION_LIMIT


class Interruption:
    """What Ctrl-C does to a solver at work, when it reports for the third time."""

    calls = 0

    def __call__(self, state: Mapping[str, Any]) -> None:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_the_best_point_or_raises() -> None:
    X, y = iris()
    model = estimators.LargeMarginNearestNeighbors(callback=Interruption(), tol=1e-8)
    with pytest.warns(sdpkit.ConvergenceWarning, match="interrupted"):
        model.fit(X, y)
    assert model.solution_.status == sdpkit.Status.INTERRUPTED
    assert np.isfinite(model.certificate_.safe_bound)
    assert model.transform(X).shape[0] == len(X)
    model = clone(model).set_params(callback=Interruption(), on_interrupt="raise")
    with (
        pytest.warns(sdpkit.ConvergenceWarning, match="interrupted"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X, y)
    assert not hasattr(model, "solution_")


@pytest.mark.usefixtures("python_handles_ctrl_c")
@pytest.mark.parametrize("on_interrupt", ["keep", "raise"])
def test_ctrl_c_from_the_keyboard(on_interrupt: Any) -> None:
    """The real signal, while the solver works."""
    X, y = load_wine(return_X_y=True)
    model = estimators.LMNNClassifier(tol=1e-15, on_interrupt=on_interrupt)
    started = threading.Event()
    model.set_params(callback=lambda state: started.set())

    def press() -> None:
        started.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    keyboard = threading.Thread(target=press)
    keyboard.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        if on_interrupt == "raise":
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
            assert not hasattr(model, "metric_")
        else:
            model.fit(X, y)
            assert model.solution_.status == sdpkit.Status.INTERRUPTED
            assert model.certificate_.objective >= model.certificate_.safe_bound
            assert model.score(X, y) > 0.5
    keyboard.join()


@pytest.mark.skipif(
    not hasattr(estimators.LMNNClassifier, "set_callbacks"), reason="scikit-learn before 1.9"
)
def test_callbacks_of_scikit_learn() -> None:
    """Its callbacks see every iteration as a task, may stop a fit, and pass through a search."""
    X, y = iris()

    class Counting:
        def __init__(self, most: int) -> None:
            self.most, self.names = most, []  # type: tuple[int, list[str]]

        def setup(self, estimator: Any, context: Any) -> None:
            self.names.append("setup")

        def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
            self.names.append(context.task_name)

        def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
            return self.names.count("iteration") >= self.most

        def teardown(self, estimator: Any, context: Any) -> None:
            self.names.append("teardown")

    watching = Counting(10**6)
    model = estimators.LargeMarginNearestNeighbors().set_callbacks(watching).fit(X, y)
    rows = len(model.solution_.history)
    assert watching.names == ["setup", "fit", *["iteration"] * rows, "teardown"]
    model.set_params(tol=1e-9, on_interrupt="raise").set_callbacks(Counting(2))
    with pytest.warns(sdpkit.ConvergenceWarning, match="interrupted"):
        model.fit(X, y)
    assert len(model.solution_.history) == 2


def test_a_callback_may_stop_a_fit() -> None:
    """A callback that asks for the end is no Ctrl-C."""
    X, y = iris()
    model = estimators.LargeMarginNearestNeighbors(
        callback=lambda state: True, tol=1e-8, on_interrupt="raise"
    )
    with pytest.warns(sdpkit.ConvergenceWarning, match="interrupted"):
        model.fit(X, y)
    assert model.solution_.status == sdpkit.Status.INTERRUPTED


def test_the_picture_shows_the_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = iris()
    model = estimators.LMNNClassifier(verbose=1)
    assert "certified" not in model._repr_html_()
    model.fit(X, y)
    assert "certified relative gap" in model._repr_html_()
    assert "certified relative gap" in capsys.readouterr().out


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [*METRICS, *EMBEDDINGS, *CLASSIFIERS], ids=name_of)
def test_fitted_estimators_pickle(estimator: Any, tmp_path: Path) -> None:
    X, y = data_for(estimator)
    model = clone(estimator).fit(X, y)
    use = "predict" if estimator in CLASSIFIERS else "transform"
    expected = getattr(model, use)(X + 0.01)
    joblib.dump(model, tmp_path / "model.joblib")
    for back in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert np.array_equal(getattr(back, use)(X + 0.01), expected)


def pairs_for(estimator: Any) -> tuple[Array, Any]:
    """Tuples of points of iris that the estimator is made for."""
    X, y = iris()
    i, j = np.random.default_rng(0).integers(0, 150, (2, 100))
    i, j = i[i != j], j[i != j]
    if isinstance(estimator, estimators.LargeMarginFromTriplets):
        return np.stack([X[:40], X[1:41], X[60:100]], axis=1), None
    return np.stack([X[i], X[j]], axis=1), np.where(y[i] == y[j], 1, -1)


@pytest.mark.parametrize(
    "estimator", [*METRICS, *EMBEDDINGS, *CLASSIFIERS, *OF_TUPLES], ids=name_of
)
def test_fitted_estimators_save_without_pickles(estimator: Any, tmp_path: Path) -> None:
    of_tuples = estimator in OF_TUPLES
    X, y = pairs_for(estimator) if of_tuples else data_for(estimator)
    model = clone(estimator).fit(X, y)
    model.save(tmp_path / "model.npz")
    back = type(model).load(tmp_path / "model.npz")
    assert back.get_params() == model.get_params()
    new = X[:, 0] + 0.01 if of_tuples else X + 0.01
    use = "predict" if estimator in CLASSIFIERS else "transform"
    assert np.array_equal(getattr(back, use)(new), getattr(model, use)(new))
    assert back.n_features_in_ == model.n_features_in_
    if hasattr(model, "certificate_"):
        assert repr(back.certificate_) == repr(model.certificate_)
        assert back.certificate_.program.fingerprint == model.certificate_.program.fingerprint
        assert repr(back.certificate_.verify()) == repr(model.certificate_.verify())
        assert "certified relative gap" in back._repr_html_()
    if isinstance(model, estimators.PseudoMetricOnlineLearning):
        assert np.array_equal(
            back.partial_fit(X, -y).components_, model.partial_fit(X, -y).components_
        )


def test_saved_estimators_keep_names_and_labels(tmp_path: Path) -> None:
    X, y = iris()
    frame = pd.DataFrame(X, columns=list("abcd"))
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    model = estimators.LMNNClassifier(random_state=np.int64(3)).fit(frame, names)
    model.save(tmp_path / "model.npz")
    back = estimators.LMNNClassifier.load(tmp_path / "model.npz")
    assert back.feature_names_in_.tolist() == list("abcd")
    assert back.feature_names_in_.dtype == object
    assert back.score(frame, names) == model.score(frame, names)
    scaled = estimators.LargeMarginNearestNeighbors().set_output(transform="pandas").fit(frame, y)
    scaled.save(tmp_path / "scaled.npz")
    out = estimators.LargeMarginNearestNeighbors.load(tmp_path / "scaled.npz").transform(frame)
    assert isinstance(out, pd.DataFrame)


def test_what_cannot_be_saved_or_read_is_refused(tmp_path: Path) -> None:
    X, y = iris()
    path = tmp_path / "model.npz"
    with pytest.raises(sklearn.exceptions.NotFittedError):
        estimators.LMNNClassifier().save(path)
    model = estimators.LMNNClassifier(callback=lambda state: None).fit(X, y)
    with pytest.raises(InputError, match=r"use set_params\(callback=…\)"):
        model.save(path)
    model.set_params(callback=None).save(path)
    with pytest.raises(InputError, match=r"it holds a LMNNClassifier: use LMNNClassifier\.load"):
        estimators.QueryMetric.load(path)
    with pytest.raises(InputError, match="not a saved metric"):
        sdpkit.Metric.load(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a saved estimator"):
        estimators.LMNNClassifier.load(path)
    path.write_bytes(whole)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{**arrays, "metric_/components0": 2 * arrays["metric_/components0"]})
    with pytest.raises(InputError, match="checksum"):
        estimators.LMNNClassifier.load(path)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_an_embedding_saves_without_pickles(metric: Any, tmp_path: Path) -> None:
    X = swiss_roll(50, random_state=0)
    data, new = X, X[:5] + 0.1
    if metric == "precomputed":
        data, new = pairwise_distances(X), pairwise_distances(new, X)
    model = estimators.MaximumVarianceUnfolding(metric=metric).fit(data)
    model.result_.save(tmp_path / "embedding.npz")
    back = sdpkit.Embedding.load(tmp_path / "embedding.npz")
    assert repr(back) == repr(model.result_)
    placed = back.extend(new) if metric == "euclidean" else back.extend(distances=new)
    assert np.array_equal(placed, model.transform(new))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    X, y = iris()
    estimators.LargeMarginNearestNeighbors().fit(X, y).metric_.save(tmp_path / "metric.npz")
    whole = (tmp_path / "metric.npz").read_bytes()
    sdpkit.Metric.load(tmp_path / "metric.npz")
    with pytest.raises(InputError, match="not a saved embedding"):
        sdpkit.Embedding.load(tmp_path / "metric.npz")
    rng = np.random.default_rng(0)
    for k in range(40):
        place = int(rng.integers(0, len(whole)))
        broken = whole[:place] + bytes([whole[place] ^ (1 << k % 8)]) + whole[place + 1 :]
        (tmp_path / "broken.npz").write_bytes(broken)
        try:
            back = sdpkit.Metric.load(tmp_path / "broken.npz")
        except InputError:
            continue
        # A bit of the archive that carries nothing, such as a date.
        assert np.array_equal(back.X, X)
    (tmp_path / "short.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        sdpkit.Metric.load(tmp_path / "short.npz")


def test_contents_that_were_changed_are_refused(tmp_path: Path) -> None:
    X, y = iris()
    path = tmp_path / "metric.npz"
    estimators.LargeMarginNearestNeighbors().fit(X, y).metric_.save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{**arrays, "mu": np.array(0.4)})
    with pytest.raises(InputError, match="checksum"):
        sdpkit.Metric.load(path)
    header = bytes(arrays["sdpkit_result"]).replace(b'"version": 1', b'"version": 9')
    np.savez(path, **{**arrays, "sdpkit_result": np.frombuffer(header, dtype=np.uint8)})
    with pytest.raises(InputError, match="version 9"):
        sdpkit.Metric.load(path)
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        sdpkit.Metric.load(path)


def test_relevant_components_whiten_the_chunklets() -> None:
    X, y = iris()
    images = estimators.RelevantComponentAnalysis().fit_transform(X, y)
    within = np.vstack([images[y == k] - images[y == k].mean(axis=0) for k in range(3)])
    assert within.T @ within / len(X) == pytest.approx(np.eye(4), abs=1e-9)
    flat = np.c_[X, X[:, :1]]
    with pytest.raises(InputError, match="along 1 of 5 directions"):
        estimators.RelevantComponentAnalysis().fit(flat, y)
    assert estimators.RelevantComponentAnalysis(ridge=1e-3).fit(flat, y).components_.shape == (5, 5)
    with pytest.raises(InputError, match="no chunklet has two points"):
        estimators.RelevantComponentAnalysis().fit(X[:3], [0, 1, 2])


def test_any_linear_map_is_judged_by_our_rules() -> None:
    X, y = iris()
    euclidean = sdpkit.Metric.from_components(np.eye(4), X, y, n_neighbors=3)
    lmnn = sdpkit.LMNN(X, y)
    assert np.array_equal(euclidean.target_pairs, lmnn.target_pairs)
    learned = lmnn.recover(sdpkit.solve(lmnn))
    same = sdpkit.Metric.from_components(learned.components[0], X, y)
    assert np.array_equal(same.energies(X[:9]), learned.energies(X[:9]))
    assert same.leave_one_out_error() == learned.leave_one_out_error()
    with pytest.raises(InputError, match="components has 3 columns: pass 4"):
        sdpkit.Metric.from_components(np.eye(3), X, y)
    with pytest.raises(InputError, match="one label per point"):
        sdpkit.Metric.from_components(np.eye(4), X, y[:5])


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "X", "y", "words"),
    [
        (METRICS[0], [[0.0, np.nan], [1.0, 1.0]], [0, 1], "NaN"),
        (METRICS[0], [[0.0, 1.0]], [0], "1 sample"),
        (METRICS[0], [[0.0], [1.0], [2.0]], [5, 5, 5], "LMNN needs points of two classes"),
        (METRICS[0], [[0.0], [1.0], [2.0]], ["a", "b", "c"], "no class has two members"),
        (METRICS[0], [[0.0], [1.0], [2.0]], [0.1, 0.2, 0.3], "Unknown label type"),
        (CLASSIFIERS[0], [[0.0], [1.0], [2.0]], [0, 1], "inconsistent numbers of samples"),
        (METRICS[1], [[0.0], [1.0], [2.0]], [5, 5, 5], "no dissimilar pairs"),
        (METRICS[2], [[0.0], [1.0], [2.0]], [5, 5, 5], "Pass points of two classes"),
        (METRICS[3], [[1.0], [1.0], [1.0]], None, "pass gamma > 0"),
        (EMBEDDINGS[0], [[0.0, 1.0]], None, "1 sample"),
        (EMBEDDINGS[0].set_params(), pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), None, "convert"),
        (clone(EMBEDDINGS[0]).set_params(metric="cosine"), [[0.0], [1.0]], None, "metric='cosine'"),
        (
            clone(EMBEDDINGS[0]).set_params(metric="precomputed"),
            [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0]],
            None,
            "needs a square matrix",
        ),
        (clone(EMBEDDINGS[0]).set_params(n_neighbors=0), [[0.0], [1.0]], None, "n_neighbors=0"),
        (
            clone(METRICS[0]).set_params(on_interrupt="stop"),
            [[0.0], [1.0], [3.0], [4.0]],
            [0, 0, 1, 1],
            "on_interrupt='stop'",
        ),
    ],
)
def test_bad_input(estimator: Any, X: Any, y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        clone(estimator).fit(X, y)


def test_a_class_of_one_member_is_allowed() -> None:
    X, y = iris()
    model = estimators.LMNNClassifier().fit(X[:101], y[:101])
    assert model.predict(X[:3]).tolist() == [0, 0, 0]


def test_more_neighbours_than_points_are_clipped_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="n_neighbors is 9, and 4 points have 3 others each"):
        model = estimators.MaximumVarianceUnfolding(n_neighbors=9).fit(np.eye(4))
    assert model.embedding_.shape == (4, 2)


def test_signs_of_pairs() -> None:
    with pytest.raises(InputError, match="similar and −1 for dissimilar"):
        OF_TUPLES[0].fit(np.zeros((2, 2, 3)), [0, 1])
