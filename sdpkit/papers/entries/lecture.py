"""Jebara's lecture on nonlinear embedding: shares of variance, spanning trees, phylogenies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import arrays, timed_solve
from sdpkit.papers.entry import NO_PROGRAM, Certified, Row, Setting
from sdpkit.papers.pictures import Bars, Scatter
from sdpkit.papers.published import Items, Published
from sdpkit.solution.solution import Solution

PAPER = Published.of("lecture")
METHODS = ("kernel PCA", "SDE (MVU)", "MVE")


Solved = tuple[sdpkit.MVU | sdpkit.MVE, Solution, float]


@dataclass(frozen=True)
class Fidelities:
    """One row of the lecture's table: kernel PCA's share, and (problem, solution, seconds)."""

    kernel_pca: float
    mvu: Solved
    mve: Solved

    @property
    def shares(self) -> tuple[float, float, float]:
        """The share of the variance in two dimensions: kernel PCA, MVU, MVE."""
        return (self.kernel_pca, share(self.mvu), share(self.mve))

    @property
    def of_bound(self) -> float:
        """MVE's value of MVU's bound. No MVE is worth more, so this says how far from the best
        it can be."""
        problem, solution, _ = self.mve
        assert isinstance(problem, sdpkit.MVE)
        return problem.value(solution) / self.mvu[1].certificate.safe_bound


def lecture_sets(
    folder: Path | None, n: int = 400
) -> Iterator[tuple[str, tuple[float, float, float], dict[str, Any]]]:
    """(name, published percentages of kernel PCA, SDE and MVE, arguments of `fidelities`)."""
    adjacency = None if folder is None else arrays(folder, "netscience")["X"] > 0
    X, star = sdpkit.datasets.spokes(8, 5, noise_dims=50, noise=0.11), sdpkit.datasets.star_graph()
    yield "star", (95.0, 29.9, 100.0), {"X": X, "graph": star}
    for start in ("mvu", "kernel"):
        given = {"X": sdpkit.datasets.swiss_roll(n), "n_neighbors": 4, "start": start}
        given["connect"] = "bridge"
        yield f"Swiss roll, {n} points, from {start}", (45.8, 99.9, 99.9), given
    twos = {"X": _twos(), "n_neighbors": 4, "connect": "bridge", "start": "mvu"}
    yield "twos of scikit-learn's digits", (18.4, 88.4, 97.8), twos
    if adjacency is not None:
        for form in ("inequality", "slack"):
            yield f"network, {form}", (5.9, 95.3, 99.2), {"graph": adjacency, "form": form}


def fidelities(start: Any = "kernel", tol: float | None = None, **given: Any) -> Fidelities:
    """Kernel PCA, MVU and MVE of the same graph, the latter two solved and timed."""
    mvu, mve = sdpkit.MVU(**given), sdpkit.MVE(**given, start=start)
    solved = (mvu, *_solved(mvu, tol)), (mve, *_solved(mve, tol))
    return Fidelities(mve.kernel_pca().fidelity, *solved)


def _twos() -> Any:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.data[digits.target == 2]


def _solved(problem: sdpkit.MVU | sdpkit.MVE, tol: float | None) -> tuple[Solution, float]:
    run = timed_solve(problem, tol=tol)
    return run.result, run.seconds


def share(solved: Solved) -> float:
    """The share of the variance in two dimensions."""
    return solved[0].recover(solved[1], n_components=2).fidelity


def _proofs(found: Fidelities) -> tuple[Certified, Certified, Certified]:
    bound = f"; {100 * found.of_bound:.2f} % of MVU's bound"
    return NO_PROGRAM, Certified.of(found.mvu[1]), Certified.of(found.mve[1], bound)


def fidelity(setting: Setting) -> Items:
    bars: dict[str, tuple[float, ...]] = {}
    for name, published, given in lecture_sets(setting.data, setting.points):
        found = fidelities(**given)
        shares = tuple(100 * share for share in found.shares)
        bars[name] = shares
        numbers = zip(METHODS, published, shares, _proofs(found), strict=True)
        for method, theirs, ours, proof in numbers:
            yield Row.number(f"{name}: {method}", theirs, ours, 2.0, " %", proof)
        _, mvu, mve = shares
        words = f"{mve:.1f} against {mvu:.1f} %"
        yield PAPER.claim("MVE", words, mve >= mvu - 0.1, name=name)
    yield Bars("share of the variance in two dimensions, per cent", bars, METHODS)


def _tree(name: str, bars: dict[str, tuple[float, ...]], **given: Any) -> Items:
    for full in (False, True):
        found = fidelities("mvu", tol=1e-3, **given, full=full)
        word = "FULL" if full else "plain"
        words = {"name": name, "word": word}
        bars[f"{name}, {word}"] = found.shares
        _, mvu, mve = found.shares
        _, bound, proof = _proofs(found)
        problem, solution, _ = found.mve
        closest = problem.progress(solution).get("closest pair")
        yield PAPER.claim("shares", f"{mvu:.3f}, {mve:.3f}", mve >= mvu - 1e-3, proof, **words)
        if full and closest is not None:
            yield PAPER.claim("closest pair", f"{closest:.4f}", closest > 0.99, bound, **words)
        yield Scatter(f"{name}, {word}", problem.recover(solution, 2).coordinates)


def spanning_trees(setting: Setting) -> Items:
    bars: dict[str, tuple[float, ...]] = {}
    X = np.random.default_rng(0).standard_normal((setting.points, 3))
    yield from _tree("normal points", bars, X=X, graph=sdpkit.graphs.spanning_tree(X))
    yield Bars("share of the variance in two dimensions", bars, METHODS)


def phylogenies(setting: Setting) -> Items:
    assert setting.data is not None
    bars: dict[str, tuple[float, ...]] = {}
    names = ("phylo_salamanders",) if setting.quick else ("phylo_salamanders", "phylo_anoles")
    for name in names:
        distances = arrays(setting.data, name)["X"]
        tree = sdpkit.graphs.spanning_tree(distances=distances)
        yield from _tree(name.removeprefix("phylo_"), bars, distances=distances, graph=tree)
    yield Bars("share of the variance in two dimensions", bars, METHODS)


ENTRIES = PAPER.entries(globals())
