"""Large margins with kernels (Min 2008): eigenmaps, learned widths, mixtures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.papers.baselines import em_mixture, kernel_columns
from sdpkit.papers.entry import Proof, Row, Setting, listed
from sdpkit.papers.pictures import Bars, Curves, Panel, Scatter
from sdpkit.papers.published import Published
from sdpkit.papers.sets import four_kernels, small_set
from sdpkit.results.targets import target_table
from sdpkit.typing import Array

Labels = NDArray[Any]
Items = Iterator[Row | Panel]
PAPER = Published.of("mixtures")


def _part(setting: Setting) -> tuple[Array, Labels]:
    """Standardised wine, every other point or fewer."""
    X, y = small_set("wine")
    step = max(1, len(X) // setting.points)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::step], y[::step]


def _eigenmaps(setting: Setting) -> Items:
    X, y = small_set("iris")
    step = max(1, len(X) // setting.points)
    X, y = X[::step], y[::step]
    # Weights of low rank: the eigenmap of all its dimensions can be computed.
    features = np.c_[np.ones(len(X)), X - X.min(axis=0)]
    weights = features @ features.T
    curves: dict[str, list[float]] = {"kernel": [], "eigenmap": []}
    dims = [1, 2, 3, 4]
    solutions = []
    for d in dims:
        by_kernel = sdpkit.LMNN(None, y, kernel=sdpkit.laplacian_kernel(weights), rank=d)
        targets = target_table(by_kernel.target_pairs, len(y))
        by_map = sdpkit.LMNN(sdpkit.laplacian_eigenmap(weights, d), y, targets=targets)
        for name, problem in (("kernel", by_kernel), ("eigenmap", by_map)):
            solutions.append(quiet_solve(problem, tol=1e-4))
            curves[name].append(solutions[-1].objective)
    proof = Proof.of_all(solutions)
    ratios = [a / b for a, b in zip(curves["kernel"], curves["eigenmap"], strict=True)]
    yield PAPER.claim("kernel and eigenmap", f"{ratios[-1]:.4f}", abs(ratios[-1] - 1) < 1e-3, proof)
    yield PAPER.claim("fewer dimensions", listed(ratios[:-1]), None, proof)
    yield Curves("optimal loss", dims, curves, "dimensions", "loss")


def _circles(setting: Setting) -> Items:
    X, y = sdpkit.datasets.concentric_circles()
    lap = sdpkit.laplacian_kernel(sdpkit.gaussian_weights(X, 1.0))
    cases = {
        "no kernel": sdpkit.LMNN(X, y, n_neighbors=1),
        "quadratic kernel": sdpkit.LMNN(None, y, kernel=(1 + X @ X.T) ** 2, rank=5, n_neighbors=1),
        "eigenmap kernel": sdpkit.LMNN(None, y, kernel=lap, rank=8, n_neighbors=1),
    }
    for name, problem in cases.items():
        solution = quiet_solve(problem)
        error = 100 * problem.recover(solution).leave_one_out_error(1)
        linear = name == "no kernel"
        yield PAPER.claim(
            "circles",
            f"{error:.0f} %",
            error > 90 if linear else error < 5,
            Proof.of(solution),
            name=name,
            published="linear maps cannot separate" if linear else "separated",
        )
    yield Scatter("two classes", X, y)


def _width(setting: Setting) -> Items:
    for name in ("iris", "wine"):
        X, y = small_set(name)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        found = sdpkit.learned_width(X, y)
        values = [value for _, value in found.path]
        yield PAPER.claim(
            "width",
            f"{values[0]:.3f} → {found.agreement:.3f} of {len(np.unique(y))}",
            all(b >= a for a, b in itertools.pairwise(values))
            and found.agreement <= len(np.unique(y)) + 1e-9,
            name=name,
        )
        steps = list(range(len(values)))
        yield Curves(name, steps, {"agreement": values}, "step", "J of eq. 5")


def _kernel_mixture(setting: Setting) -> Items:
    X, y = _part(setting)
    grams = four_kernels(X)
    problem = sdpkit.KernelMixture(list(grams.values()), y, rank=2)
    solution = quiet_solve(problem)
    objectives = problem.path(solution)[1]
    alone = objectives[: len(grams)]
    theta = problem.theta(solution)
    mixed = ", ".join(f"{w:.2f} {k}" for w, k in zip(theta, grams, strict=True) if w > 0)
    yield PAPER.claim(
        "kernel mixture",
        f"{solution.objective:.1f} against {alone.min():.1f} ({mixed})",
        solution.objective <= alone.min() * (1 + 1e-6),
        Proof.of(solution),
    )
    columns = kernel_columns(grams["Gaussian"], y, 2)
    answer = quiet_solve(columns)
    yield PAPER.claim(
        "columns",
        f"{answer.objective:.2g}",
        answer.objective < 0.05 * solution.objective,
        Proof.of(answer),
    )
    groups = {name: [float(v)] for name, v in zip(grams, alone, strict=True)}
    groups["mixture"] = [solution.objective]
    yield Bars("loss", groups, ["loss"])


def _distance_mixture(setting: Setting) -> Items:
    X, y = _part(setting)
    grams = list(four_kernels(X).values())
    problem = sdpkit.DistanceMixture(kernels=grams, y=y, rank=2)
    solution = quiet_solve(problem)
    alone = [quiet_solve(part).objective for part in problem.parts]
    yield PAPER.claim(
        "distance mixture",
        f"{solution.objective:.2f} against {min(alone):.2f}",
        solution.objective < min(alone),
        Proof.of(solution),
    )
    em = em_mixture(grams, y, rank=2)
    bound = float(solution.certificate.safe_bound)
    yield PAPER.claim(
        "EM",
        f"{listed(em.objectives, 2)}, {'settled' if em.converged else 'not settled'}",
        bool(np.all(em.objectives >= bound * (1 - 1e-6))),
        Proof.of_all(em.solutions),
    )
    steps = list(range(len(em.objectives)))
    convex = [solution.objective] * len(steps)
    yield Curves("loss", steps, {"EM": em.objectives, "convex": convex}, "step", "loss")


ENTRIES = PAPER.entries(
    {
        "min-eigenmaps": _eigenmaps,
        "min-circles": _circles,
        "min-width": _width,
        "min-kernel-mixture": _kernel_mixture,
        "min-distance-mixture": _distance_mixture,
    }
)
