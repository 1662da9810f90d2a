"""Large margins with kernels (Min 2008): eigenmaps, learned widths, mixtures."""

from __future__ import annotations

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.papers.baselines import em_mixture, kernel_columns
from sdpkit.papers.entry import Certified, Setting, less, listed
from sdpkit.papers.pictures import Bars, Curves, Scatter
from sdpkit.papers.published import Items, Published
from sdpkit.papers.sets import Labels, four_kernels, small_set
from sdpkit.results.targets import target_table
from sdpkit.typing import Array

PAPER = Published.of("mixtures")


def _part(setting: Setting) -> tuple[Array, Labels]:
    """Standardised wine, every other point or fewer."""
    X, y = small_set("wine")
    step = max(1, len(X) // setting.points)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::step], y[::step]


def eigenmaps(setting: Setting) -> Items:
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
    proof = Certified.of_all(solutions)
    ratios = [a / b for a, b in zip(curves["kernel"], curves["eigenmap"], strict=True)]
    yield PAPER.claim("kernel and eigenmap", f"{ratios[-1]:.4f}", abs(ratios[-1] - 1) < 1e-3, proof)
    yield PAPER.claim("fewer dimensions", listed(ratios[:-1]), None, proof)
    yield Curves("optimal loss", dims, curves, "dimensions", "loss")


def circles(setting: Setting) -> Items:
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
        words, holds = "separated", error < 5
        if name == "no kernel":
            words, holds = "linear maps cannot separate", error > 90
        proof, ours = Certified.of(solution), f"{error:.0f} %"
        yield PAPER.claim("circles", ours, holds, proof, name=name, published=words)
    yield Scatter("two classes", X, y)


def width(setting: Setting) -> Items:
    for name in ("iris", "wine"):
        X, y = small_set(name)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        found = sdpkit.learned_width(X, y)
        values = [value for _, value in found.path]
        classes = len(np.unique(y))
        ours = f"{values[0]:.3f} → {found.agreement:.3f} of {classes}"
        holds = values == sorted(values) and found.agreement <= classes + 1e-9
        yield PAPER.claim("width", ours, holds, name=name)
        steps = list(range(len(values)))
        yield Curves(name, steps, {"agreement": values}, "step", "J of eq. 5")


def kernel_mixture(setting: Setting) -> Items:
    X, y = _part(setting)
    grams = four_kernels(X)
    problem = sdpkit.KernelMixture(list(grams.values()), y, rank=2)
    solution = quiet_solve(problem)
    objectives = problem.path(solution)[1]
    alone = objectives[: len(grams)]
    theta = problem.theta(solution)
    mixed = ", ".join(f"{w:.2f} {k}" for w, k in zip(theta, grams, strict=True) if w > 0)
    loss, best = solution.objective, alone.min()
    ours, holds = f"{loss:.1f} against {best:.1f} ({mixed})", loss <= best * (1 + 1e-6)
    yield PAPER.claim("kernel mixture", ours, holds, Certified.of(solution))
    answer = quiet_solve(kernel_columns(grams["Gaussian"], y, 2))
    ours, holds = f"{answer.objective:.2g}", answer.objective < 0.05 * loss
    yield PAPER.claim("columns", ours, holds, Certified.of(answer))
    groups = {name: [float(v)] for name, v in zip(grams, alone, strict=True)}
    groups["mixture"] = [loss]
    yield Bars("loss", groups, ["loss"])


def distance_mixture(setting: Setting) -> Items:
    X, y = _part(setting)
    grams = list(four_kernels(X).values())
    problem = sdpkit.DistanceMixture(kernels=grams, y=y, rank=2)
    solution = quiet_solve(problem)
    alone = [quiet_solve(part).objective for part in problem.parts]
    pair = less(solution.objective, min(alone), ".2f")
    yield PAPER.claim("distance mixture", *pair, Certified.of(solution))
    em = em_mixture(grams, y, rank=2)
    bound = float(solution.certificate.safe_bound)
    ours = f"{listed(em.objectives, 2)}, {'settled' if em.converged else 'not settled'}"
    holds = bool(np.all(em.objectives >= bound * (1 - 1e-6)))
    yield PAPER.claim("EM", ours, holds, Certified.of_all(em.solutions))
    steps = list(range(len(em.objectives)))
    convex = [solution.objective] * len(steps)
    yield Curves("loss", steps, {"EM": em.objectives, "convex": convex}, "step", "loss")


ENTRIES = PAPER.entries(globals())
