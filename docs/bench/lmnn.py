"""The figures of LMNN: agreement and speed, with errors next to Weinberger (2007), Table 2.1.

Data come from a folder of npz files with X and y (and nothing else is read). Times are printed
with the peer of the same run; every gap is certified.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import (
    labelled,
    median,
    peak_bytes,
    quiet_solve,
    timed,
    timed_solve,
)
from sdpkit.errors import InputError
from sdpkit.papers.images import deskew
from sdpkit.papers.sets import split
from sdpkit.program.impostors import Impostors
from sdpkit.results.metric import Metric, Rule
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array

Labels = NDArray[Any]

RULES: tuple[Rule, ...] = ("knn", "energy")
SMALL = ("wine", "iris", "balance", "digits")
# Thesis, Table 2.1, test errors in per cent: (kNN, energy).
PUBLISHED = {
    "wine": (8.39, 7.67),
    "iris": (4.08, 4.00),
    "balance": (9.29, 8.86),
    "letter": (3.62, 2.67),
    "letter, multi-pass": (2.84, 2.38),
    "letter, per class": (3.20, 2.84),
    "mnist": (1.72, 1.37),
}
# Runs in a separate environment: X, y from a file, components and seconds to another.
_METRIC_LEARN = """
import json, sys, time, warnings
import numpy as np
from metric_learn import LMNN
warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
model = LMNN(n_neighbors=3, max_iter=1000)
started = time.perf_counter()
model.fit(data["X"], data["y"])
seconds = time.perf_counter() - started
np.save(sys.argv[2], model.components_)
print(json.dumps({"seconds": seconds, "iterations": int(model.n_iter_)}))
"""


def euclidean(metric: Metric) -> Metric:
    """The plain distance with the metric's training points, to compare with."""
    return replace(metric, components=(np.eye(metric.X.shape[1]),))


# -- tables ---------------------------------------------------------------------------------


def small(folder: Path) -> None:
    """Every engine on the small sets (the general ones on a part), with their bounds."""
    for name in SMALL:
        X, y, X_test, y_test = split(*labelled(folder, name), seed=0)
        problem = sdpkit.LMNN(X, y)
        print(f"{name}: {problem}")
        for solver, tol in _engines(name):
            _print_run(problem, solver, tol)
        few = 60 if name != "digits" else 40
        part = sdpkit.LMNN(X[:few, : 30 if name == "digits" else None], y[:few], n_neighbors=2)
        print(f"  the first {few} points:")
        for solver in ("factored", "interior", "clarabel", "scs"):
            _print_run(part, solver, 1e-5)
        metric = problem.recover(quiet_solve(problem))
        errors = [100 * metric.error(X_test, y_test, rule) for rule in RULES]
        print(f"  test error: 3-NN {errors[0]:.2f} %, energy {errors[1]:.2f} %")


def subgradients(folder: Path) -> None:
    """Subgradients with steps from the bound to 1e-2, on the small sets and on letters."""
    for name in (*SMALL, "vehicle", "ionosphere", "letter"):
        X, y, _, _ = split(*labelled(folder, name), seed=0)
        print(f"{name}, {X.shape[0]} × {X.shape[1]}:")
        _print_run(sdpkit.LMNN(X, y), "subgradient", 1e-2)


def _engines(name: str) -> Iterator[tuple[str, float]]:
    yield "factored", 1e-3
    yield "factored", 1e-4 if name == "digits" else 1e-5
    if name != "digits":
        yield "projected", 1e-3
        yield "interior", 1e-5
    yield "subgradient", 1e-2
    yield "subgradient", 1e-3
    yield "subgradient-published", 1e-3


def _print_run(problem: sdpkit.LMNN, solver: str, tol: float) -> None:
    run = timed_solve(problem, solver, tol=tol)
    solution, certificate = run.result, run.result.certificate
    print(
        f"  {solver:<12} tol {tol:.0e}: {solution.status:<15} {solution.objective:.8g}, bound "
        f"{certificate.safe_bound:.8g}, gap {certificate.relative_gap:.1e}, {run.seconds:.2f} s, "
        f"{solution.iterations} steps",
        flush=True,
    )


def digits(folder: Path, peer: Path | None) -> None:
    """Digits 1257×64: first call and later ones, 1e-3 and 1e-4, against metric-learn."""
    X, y, X_test, y_test = split(*labelled(folder, "digits"), seed=0)
    problem = sdpkit.LMNN(X, y)
    first = timed_solve(problem).seconds
    later = median([timed_solve(problem) for _ in range(5)])
    solution, seconds = later.result, later.seconds
    fine = timed_solve(problem, tol=1e-4)
    print(
        f"digits {X.shape}: first call in this process {first:.2f} s, then {seconds:.2f} s (median "
        f"of 5), gap {solution.certificate.relative_gap:.1e}, objective {solution.objective:.6g}\n"
        f"  to 1e-4: {fine.seconds:.2f} s, gap {fine.result.certificate.relative_gap:.1e}"
    )
    _print_errors("digits", problem.recover(solution), X_test, y_test)
    if peer is None:
        print("  metric-learn: pass --metric-learn with a Python that has it")
        return
    components, report = run_metric_learn(peer, X, y)
    theirs = problem.objective(components)
    print(
        f"  metric-learn: {report['seconds']:.1f} s, {report['iterations']} iterations: factored "
        f"is {report['seconds'] / seconds:.0f} times faster; convex objective of its answer "
        f"{theirs:.6g}, ours {solution.objective:.6g}"
    )


def run_metric_learn(python: Path, X: Array, y: Labels) -> tuple[Array, dict[str, Any]]:
    """metric-learn's LMNN in a separate environment: components, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        data, answer = Path(folder) / "data.npz", Path(folder) / "components.npy"
        np.savez(data, X=X, y=y)
        command = [str(python), "-c", _METRIC_LEARN, str(data), str(answer)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise InputError(f"metric-learn failed: {run.stderr.strip().splitlines()[-1:]}")
        return np.load(answer), json.loads(run.stdout)


def letters(folder: Path, splits: int = 10, variants: int = 1) -> None:
    """Letters 14000×16: time, memory, and errors over random splits next to the published.

    Several passes and a metric per class are learned on the first `variants` splits.
    """
    X, y = labelled(folder, "letter")
    baseline = peak_bytes()
    errors: dict[str, list[list[float]]] = {}
    for seed in range(splits):
        X_train, y_train, X_test, y_test = split(X, y, seed)
        problem = sdpkit.LMNN(X_train, y_train)
        run = timed_solve(problem)
        solution = run.result
        print(
            f"split {seed}: {run.seconds:.2f} s, {solution.status}, gap "
            f"{solution.certificate.relative_gap:.1e}, "
            f"{int(max(row['rows'] for row in solution.history))} rows at most in the working set, "
            f"peak {(peak_bytes() - baseline) / 2**20:.0f} MiB above the start "
            f"(n²·k doubles: {8 * 3 * len(X_train) ** 2 / 2**20:.0f} MiB)",
            flush=True,
        )
        for name, metric in _letter_metrics(problem, solution, seed < variants):
            rules: list[tuple[Rule, int]] = [("knn", 3), ("energy", 3), ("energy", 1)]
            row = [100 * metric.error(X_test, y_test, rule, k) for rule, k in rules]
            errors.setdefault(name, []).append(row)
    for name, values in errors.items():
        mean, spread = np.mean(values, axis=0), np.std(values, axis=0)
        print(
            f"{name}: 3-NN {mean[0]:.2f} ± {spread[0]:.2f} %, energy with 3 neighbours "
            f"{mean[1]:.2f} ± {spread[1]:.2f} %, with 1 {mean[2]:.2f} ± {spread[2]:.2f} %; thesis "
            f"(k by cross-validation) {PUBLISHED[name][0]} and {PUBLISHED[name][1]} %"
        )


def _letter_metrics(
    problem: sdpkit.LMNN, solution: Solution, variants: bool
) -> Iterator[tuple[str, Metric]]:
    yield "letter", problem.recover(solution)
    if not variants:
        return
    again = problem.next_pass(solution)
    second = quiet_solve(again)
    third = again.next_pass(second)
    yield "letter, multi-pass", third.recover(quiet_solve(third))
    several = sdpkit.LMNN(problem.X, problem.classes[problem.labels], metrics="per_class")
    run = timed_solve(several, time_limit=150)
    answer = run.result
    print(
        f"  a metric per class: {run.seconds:.1f} s, {answer.status}, gap "
        f"{answer.certificate.relative_gap:.1e}",
        flush=True,
    )
    yield "letter, per class", several.recover(answer)


def mnist(folder: Path, deskewed: bool = False) -> None:
    """MNIST 60000, PCA to 164 dimensions: certified, with progress, and its test errors."""
    X, y = labelled(folder, "mnist")
    if deskewed:
        X = deskew(X)
    train, test = slice(0, 60000), slice(60000, None)
    mean = X[train].mean(axis=0)
    vectors = np.linalg.eigh((X[train] - mean).T @ (X[train] - mean))[1][:, ::-1][:, :164]
    X = (X - mean) @ vectors
    built = timed(lambda: sdpkit.LMNN(X[train], y[train]))
    print(f"target neighbours: {built.seconds:.1f} s", flush=True)
    problem, run = built.result, timed_solve(built.result, verbose=2)
    solution = run.result
    print(
        f"mnist{', deskewed' if deskewed else ''}: {run.seconds:.1f} s, {solution.status}, gap "
        f"{solution.certificate.relative_gap:.1e}, peak {peak_bytes() / 2**30:.2f} GiB, raw images "
        f"included"
    )
    _print_errors("mnist", problem.recover(solution), X[test], y[test])


def _print_errors(name: str, metric: Metric, X: Array, y: Labels) -> None:
    knn, energy = (timed(partial(metric.error, X, y, rule)) for rule in RULES)
    thesis = (
        f"; thesis {PUBLISHED[name][0]} and {PUBLISHED[name][1]} %" if name in PUBLISHED else ""
    )
    print(
        f"  test error: 3-NN {100 * knn.result:.2f} % ({knn.seconds:.1f} s), energy "
        f"{100 * energy.result:.2f} % ({energy.seconds:.1f} s){thesis}"
    )


def impostors(n: int = 20_000, dimensions: tuple[int, ...] = (2, 3, 5, 8, 16)) -> None:
    """Both ways to search, on two interleaved classes of n points: the crossover by dimension."""
    for d in dimensions:
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((n, d)), rng.integers(0, 2, n)
        seconds, rows = {}, {}
        pairs = sdpkit.LMNN(X, y).target_pairs
        # A scale at which a point has about ten impostors.
        scale = (n / 10) ** (1 / d)
        for search in ("blocks", "tree"):
            family = Impostors.of(pairs, y, search=search)
            run = timed(partial(family.near, [scale * X], 0.0))
            rows[search], seconds[search] = run.result, run.seconds
        same = all(
            np.array_equal(getattr(rows["blocks"], part), getattr(rows["tree"], part))
            for part in ("target", "impostor")
        )
        print(
            f"dimension {d}: blocks {seconds['blocks']:.2f} s, tree {seconds['tree']:.2f} s, "
            f"{rows['blocks'].size} rows, the same set: {same}"
        )
