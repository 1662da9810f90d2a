"""The figures of kernel mixtures, mixtures of distances, MMC and POLA.

Iris and wine come with scikit-learn; a folder of npz files with X and y adds further sets. Every
value is certified, or it is printed as what it is. Seconds are those of the processor.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from bench.lmnn import euclidean
from sdpkit.comparison.measuring import labelled, timed, timed_solve
from sdpkit.papers.sets import four_kernels, split
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array

Labels = NDArray[Any]

FURTHER = ("glass", "ionosphere", "wdbc")
# Pairs up to which the peer is asked as well.
_MOST_FOR_CVXPY = 500


def _sets(folder: Path | None, further: tuple[str, ...]) -> Iterator[tuple[str, Array, Labels]]:
    """(name, X, y), every feature with mean 0 and variance 1."""
    from sklearn.datasets import load_iris, load_wine

    for name, loader in (("iris", load_iris), ("wine", load_wine)):
        X, y = loader(return_X_y=True)
        yield name, _standard(X), y
    for name in further if folder is not None else ():
        assert folder is not None
        X, y = labelled(folder, name)
        yield name, _standard(X), y


def _standard(X: Array) -> Array:
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0))[:, spread > 0] / spread[spread > 0])


def _timed(problem: Any, solver: str = "auto", **options: Any) -> tuple[Solution, float]:
    """The solution and the seconds of processor it took."""
    run = timed_solve(problem, solver, **options)
    return run.result, run.cpu_seconds


# -- kernels and mixtures -------------------------------------------------------------------


def mixtures(folder: Path | None = None) -> None:
    """Concentric circles, learned widths, mixtures of kernels and of distances."""
    _circles()
    _widths(folder)
    for name, X, y in _sets(folder, FURTHER):
        _mixture_of_kernels(name, X, y)
    for name, X, y in _sets(folder, FURTHER):
        _mixture_of_distances(name, X, y)
    _agreement()


def _circles() -> None:
    X, y = sdpkit.datasets.concentric_circles()
    inner, lap = X @ X.T, sdpkit.laplacian_kernel
    cases: list[tuple[str, Any, list[int]]] = [
        ("quadratic", (1 + inner) ** 2, [2, 5]),
        ("Gaussian, width 1", sdpkit.gaussian_weights(X, 1.0), [2, 5, 8]),
        ("eigenmap, Gaussian W, width 1", lap(sdpkit.gaussian_weights(X, 1.0)), [2, 5, 8]),
        ("eigenmap, Gaussian W, width 0.3", lap(sdpkit.gaussian_weights(X, 0.3)), [8, 12, 20]),
        ("eigenmap, 5 neighbours", lap(sdpkit.adjacency_weights(X, 5)), [8, 20, 40]),
    ]
    print(f"concentric circles, {len(X)} points, leave-one-out 1-NN errors of kernel LMNN, k = 1")
    plain = sdpkit.LMNN(X, y, n_neighbors=1)
    solution, _ = _timed(plain)
    error = plain.recover(solution).leave_one_out_error(1)
    print(f"  no kernel: error {100 * error:.0f} %, {solution.status}")
    for name, kernel, ranks in cases:
        words = []
        for rank in ranks:
            problem = sdpkit.LMNN(None, y, n_neighbors=1, kernel=kernel, rank=rank)
            solution, _ = _timed(problem)
            error = problem.recover(solution).leave_one_out_error(1)
            words.append(f"rank {rank}: {100 * error:.0f} % ({solution.status})")
        print(f"  {name}: {', '.join(words)}")


def _widths(folder: Path | None) -> None:
    print("width of Gaussian weights by eq. 5")
    circles = ("concentric circles", *sdpkit.datasets.concentric_circles())
    for name, X, y in [circles, *_sets(folder, FURTHER)]:
        run = timed(partial(sdpkit.learned_width, X, y))
        found, seconds = run.result, run.cpu_seconds
        climbs = bool(np.all(np.diff([value for _, value in found.path]) > 0))
        first = found.path[0]
        print(
            f"  {name}: width {first[0]:.3f} → {found.width:.3f}, agreement {first[1]:.4f} → "
            f"{found.agreement:.4f} of {len(np.unique(y))}, only up: {climbs}, {seconds:.2f} s"
        )


def _mixture_of_kernels(name: str, X: Array, y: Labels) -> None:
    kernels = four_kernels(X)
    problem = sdpkit.KernelMixture(list(kernels.values()), y, rank=2)
    solution, seconds = _timed(problem)
    objectives = problem.path(solution)[1]
    singles = objectives[: len(kernels)]
    best = np.minimum.accumulate(objectives)
    theta = problem.theta(solution)
    mixed = ", ".join(f"{w:.2f} {k}" for w, k in zip(theta, kernels, strict=True) if w > 0)
    alone = ", ".join(f"{k} {v:.1f}" for k, v in zip(kernels, singles, strict=True))
    errors = [
        problem.at(t).recover(step).leave_one_out_error()
        for t, step in zip(np.eye(len(kernels)), solution.trajectory or (), strict=False)
    ]
    print(f"mixture of kernels at rank 2, {name}: {alone}")
    print(
        f"  {mixed}: {solution.objective:.1f}, {100 * (1 - best[-1] / singles.min()):.1f} % below "
        f"the best of them, {solution.status}, gap {solution.certificate.relative_gap:.0e}, "
        f"{len(objectives)} programs, {seconds:.1f} s"
    )
    error = problem.recover(solution).leave_one_out_error()
    print(
        f"  objective of the steps taken never rises: {bool(np.all(np.diff(best) <= 0))}; "
        f"leave-one-out 3-NN error {100 * error:.1f} % (of the kernels "
        f"{', '.join(f'{100 * e:.1f}' for e in errors)})"
    )


def _mixture_of_distances(name: str, X: Array, y: Labels) -> None:
    kernels = four_kernels(X)
    problem = sdpkit.DistanceMixture(kernels=list(kernels.values()), y=y, rank=2)
    solution, seconds = _timed(problem)
    metric = problem.recover(solution)
    shares = ", ".join(
        f"{k} {100 * s:.0f} %" for k, s in zip(kernels, problem.shares(metric), strict=True)
    )
    alone = [_timed(part)[0].objective for part in problem.parts]
    print(
        f"mixture of distances at rank 2 each, {name}: {solution.objective:.2f} against "
        f"{', '.join(f'{v:.1f}' for v in alone)} alone, {solution.status} by {solution.solver}, "
        f"gap {solution.certificate.relative_gap:.0e}, {seconds:.2f} s; shares {shares}; "
        f"leave-one-out 3-NN error {100 * metric.leave_one_out_error():.1f} %"
    )


def _agreement() -> None:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    X = _standard(X)[::8]
    problem = sdpkit.DistanceMixture([X[:, :3], X[:, 3:6], X[:, 6:9]], y[::8], n_neighbors=2)
    truth, _ = _by_cvxpy(problem)
    print(f"{problem}: cvxpy and Clarabel {truth:.8g}")
    for solver in ("factored", "projected", "interior", "clarabel"):
        solution, seconds = _timed(problem, solver=solver, tol=1e-5)
        print(
            f"  {solver:<10} {solution.objective:.8g}, bound {solution.certificate.safe_bound:.8g},"
            f" {solution.status}, {seconds:.2f} s"
        )


# -- MMC and POLA ---------------------------------------------------------------------------


def mmc(folder: Path | None = None, picture: Path | None = None) -> None:
    """MMC against cvxpy, its engine at more pairs, errors of its metric, and POLA's bound."""
    for name, X, y in _sets(folder, ()):
        for every in (8, 5):
            for diagonal in (False, True):
                _against_cvxpy(name, sdpkit.MMC(X[::every], y[::every], diagonal=diagonal))
    for name, X, y in _sets(folder, ("wdbc",)):
        for pairs in (500, 20_000):
            _at_more_pairs(name, sdpkit.MMC(X, y, max_pairs=pairs))
    for name, X, y in _sets(folder, FURTHER):
        _errors(name, X, y)
    _pola()
    if picture is not None:
        _draw(picture)


def _against_cvxpy(name: str, problem: sdpkit.MMC) -> None:
    truth, peer = _by_cvxpy(problem)
    words = []
    for solver in ("ascent", "interior"):
        solution, seconds = _timed(problem, solver=solver)
        difference = abs(solution.objective / truth - 1)
        words.append(
            f"{solver} {solution.objective:.8g} ({solution.status}, gap "
            f"{solution.certificate.relative_gap:.0e}, off by {difference:.0e}, {seconds:.2f} s)"
        )
    print(f"{name} {problem}: cvxpy {truth:.8g} ({peer:.2f} s); {'; '.join(words)}")


def _at_more_pairs(name: str, problem: sdpkit.MMC) -> None:
    solution, seconds = _timed(problem)
    count, times = len(problem.dissimilar_pairs), solution.times
    words = (
        f"{name}, {count} dissimilar pairs in {problem.points.shape[1]} dimensions: "
        f"{solution.solver} {solution.objective:.8g}, {solution.status}, gap "
        f"{solution.certificate.relative_gap:.0e}, {seconds:.2f} s, of which the engine takes "
        f"{100 * times.solve / times.total:.0f} %"
    )
    if count <= _MOST_FOR_CVXPY:
        truth, peer = _by_cvxpy(problem)
        words += f"; cvxpy {truth:.8g}, {peer:.2f} s"
    print(words)


def _by_cvxpy(problem: Any) -> tuple[float, float]:
    """The value of the paper's model by Clarabel, and the seconds it took."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        run = timed(lambda: float(problem.to_cvxpy().solve(solver="CLARABEL")))
    return run.result, run.cpu_seconds


def _errors(name: str, X: Array, y: Labels) -> None:
    X_train, y_train, X_test, y_test = split(X, y, seed=0)
    words = []
    for title, diagonal in (("MMC", False), ("diagonal MMC", True)):
        problem = sdpkit.MMC(X_train, y_train, diagonal=diagonal, max_pairs=1000)
        solution, _ = _timed(problem)
        error = problem.recover(solution).error(X_test, y_test, n_neighbors=3)
        words.append(f"{title} {100 * error:.1f} ({solution.status})")
    margin = sdpkit.LMNN(X_train, y_train)
    metric = margin.recover(_timed(margin)[0])
    words.append(f"LMNN {100 * metric.error(X_test, y_test):.1f}")
    words.append(f"Euclidean {100 * euclidean(metric).error(X_test, y_test):.1f}")
    print(f"{name}, 3-NN test errors in per cent, one split: {', '.join(words)}")


def _pola(runs: int = 10) -> None:
    """Pairs that some metric tells apart: the sum of squared losses against its bound."""
    shares, held, ended = [], 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        root = rng.standard_normal((2, 5))
        M, b = root.T @ root, 3.0
        drawn = rng.standard_normal((600, 2, 5)) * rng.choice([0.15, 1.0], (600, 1, 1))
        v = drawn[:, 0] - drawn[:, 1]
        q = np.einsum("pi,pi->p", v @ M, v)
        kept = np.abs(q - b) >= 1
        pairs, signs = drawn[kept], np.where(q[kept] < b, 1, -1)
        model = sdpkit.POLA(beta=0.1, max_iter=200).fit(pairs, signs)
        radius = float(np.linalg.norm(v[kept], axis=1).max())
        shares.append(float(np.square(model.losses_).sum()) / model.loss_bound(M, b, radius))
        held += shares[-1] <= 1
        ended += model.converged_
    print(
        f"POLA on separable pairs: Σℓ² is at most {max(shares):.2e} of its bound in {runs} runs "
        f"(holds in {held} of {runs}); batch learning to β = 0.1 ended in {ended} of {runs} "
        "within 200 passes"
    )


def _draw(path: Path) -> None:
    from sklearn.datasets import load_iris

    from sdpkit.plotting import plot_metrics

    X, y = load_iris(return_X_y=True)
    X = X[:, [0, 2]]
    metrics, titles = [], []
    for diagonal in (False, True):
        problem = sdpkit.MMC(X, y, diagonal=diagonal, max_pairs=1000)
        solution, _ = _timed(problem)
        metric = problem.recover(solution)
        # In units of the similar pairs' mean squared distance, so that there is something to see.
        scale = np.sqrt(len(problem.similar_pairs))
        metrics.append(replace(metric, components=(scale * metric.components[0],)))
        titles.append(f"{'diagonal ' * diagonal}MMC: {solution.status}")
    plot_metrics(metrics, path, titles)
    print(f"picture written to {path}")
