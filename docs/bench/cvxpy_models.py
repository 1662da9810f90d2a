"""cvxpy models solved by the solver that sdpkit chooses, and by others: `make bench NAME=cvxpy`.

Every solver gets the same cvxpy model and its answer the same certificate. Compiling is measured
apart: to a program here, to conic data for the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import sdpkit
from bench.judged_models import correlation_squared, robust_pca
from bench.threads import processor_time


def max_cut(n: int) -> Any:
    """The relaxation of Goemans and Williamson on a random graph with 10 edges a node."""
    import cvxpy

    rng = np.random.default_rng(0)
    w = np.triu(rng.random((n, n)) < 10 / n, 1).astype(float)
    w = w + w.T
    X = cvxpy.Variable((n, n), PSD=True)
    cut = (w.sum() - cvxpy.sum(cvxpy.multiply(w, X))) / 4
    return cvxpy.Problem(cvxpy.Maximize(cut), [cvxpy.diag(X) == 1])


def theta(n: int) -> Any:
    """Lovász's ϑ of a random graph, a fifth of all pairs joined."""
    import cvxpy

    i, j = np.nonzero(np.triu(np.random.default_rng(0).random((n, n)) < 0.2, 1))
    X = cvxpy.Variable((n, n), PSD=True)
    return cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(X)), [cvxpy.trace(X) == 1, X[i, j] == 0])


def distance_completion(n: int) -> Any:
    """A Gram matrix of least trace with the given squared distances of about four pairs a point."""
    import cvxpy

    rng = np.random.default_rng(0)
    points = rng.standard_normal((n, 3))
    i, j = np.nonzero(np.triu(rng.random((n, n)) < min(1.0, 8 / n), 1))
    d = ((points[i] - points[j]) ** 2).sum(axis=1)
    K = cvxpy.Variable((n, n), PSD=True)
    diagonal = cvxpy.diag(K)
    lengths = diagonal[i] + diagonal[j] - 2 * K[i, j]
    return cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(K)), [lengths == d])


def nearest_correlation(n: int) -> Any:
    """The correlation matrix nearest to noisy correlations, by squares."""
    return correlation_squared(np.random.default_rng(0), n)


def robust_components(n: int) -> Any:
    """A matrix as the sum of one of low rank and a sparse one."""
    return robust_pca(np.random.default_rng(0), n)


# Name, model, size, and the solvers beside ours; others need minutes or more memory than there is.
_MODELS: list[tuple[str, Callable[[int], Any], int, tuple[str, ...]]] = [
    ("max-cut", max_cut, 100, ("CLARABEL", "SCS")),
    ("max-cut", max_cut, 400, ("SCS",)),
    ("theta", theta, 50, ("CLARABEL", "SCS")),
    ("correlation", nearest_correlation, 100, ("SCS",)),
    ("correlation", nearest_correlation, 200, ("SCS",)),
    ("correlation", nearest_correlation, 400, ("SCS",)),
    ("robust pca", robust_components, 30, ("CLARABEL", "SCS")),
    ("distances", distance_completion, 60, ("CLARABEL", "SCS")),
    ("distances", distance_completion, 100, ()),
]
# All of them at the same tolerance.
_TOL = 1e-6
_FINE = {"SCS": {"eps_abs": _TOL, "eps_rel": _TOL}}


def cvxpy_models(peers: bool = True, only: str | None = None) -> None:
    """Print seconds of processor time to compile and to solve, and the certified gap."""
    print(
        f"{'model':<12}{'n':>5}  {'solver':<12}{'compile s':>10}{'solve s':>10}  {'value':>14}  gap"
    )
    for engine in ("interior", "projection"):  # compiles kernels
        max_cut(5).solve(solver=sdpkit.cvxpy_solver(engine))
    for name, build, n, others in _MODELS:
        if only is not None and only not in name:
            continue
        rows = [_ours(build(n))]
        rows += [(peer, *_peer(build(n), peer)) for peer in others if peers]
        for solver, compiled, solved, value, gap in rows:
            print(
                f"{name:<12}{n:>5}  {solver:<12}{compiled:>10.2f}{solved:>10.2f}  "
                f"{value:>14.8g}  {gap:.2e}",
                flush=True,
            )


def _ours(model: Any) -> tuple[str, float, float, float, float]:
    start = processor_time()
    program = sdpkit.from_cvxpy(model)
    compiled = processor_time()
    solution = sdpkit.solve(program, tol=_TOL)
    solved = processor_time()
    gap = solution.certificate.relative_gap
    return solution.solver, compiled - start, solved - compiled, solution.objective, gap


def _peer(model: Any, solver: str) -> tuple[float, float, float, float]:
    start = processor_time()
    model.get_problem_data(solver)  # cvxpy keeps what it compiled
    compiled = processor_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.solve(solver=solver, **_FINE.get(solver, {}))
    solved = processor_time()
    gap = sdpkit.certify_cvxpy(model).relative_gap
    return compiled - start, solved - compiled, float(model.value), gap
