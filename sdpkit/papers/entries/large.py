"""Large sets and sensor networks (Weinberger 2007, section 3.1.8): figures 3.2, 3.3, 3.17 to 3.21,
and 1.4 on projections."""

from __future__ import annotations

import inspect
import itertools
import time
from typing import Any

import numpy as np
import scipy.optimize
from scipy.spatial.distance import cdist

import sdpkit
from sdpkit.comparison.measuring import arrays, quiet_solve, timed_solve
from sdpkit.papers.entry import Certified, Row, Setting, listed, rises
from sdpkit.papers.pictures import Bars, Curves, Scatter
from sdpkit.papers.published import Items, Published
from sdpkit.papers.sets import handwritten
from sdpkit.results.quality import evaluate, position_errors
from sdpkit.results.refinement import refine
from sdpkit.testing.programs import wedge
from sdpkit.typing import Array, Indices

PAPER = Published.of("large")


def projections(setting: Setting) -> Items:
    solution = quiet_solve(wedge(0.5), "alternating", tol=1e-6)
    stages = [(row, stage) for row in solution.history for stage in ("p0", "p1")]
    way = np.array([[row[f"{stage}[0]"], row[f"{stage}[1]"]] for row, stage in stages])
    distances = np.linalg.norm(way - 1.0, axis=1)
    away = int((np.diff(distances) > 1e-12).sum())
    ours = f"{away} of {len(distances) - 1}"
    yield PAPER.claim("moves away", ours, away == 0, Certified.of(solution))
    yield Scatter("projections", way, np.arange(len(way)))
    steps = list(range(len(distances)))
    yield Curves("distance to the feasible set", steps, {"": distances}, "projection", "", log=True)


def random_projections(setting: Setting) -> Items:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((setting.points, 100))
    x = x / np.linalg.norm(x, axis=1)[:, None]
    counts = (2, 4, 8, 16)
    norms = {k: 100 / k * np.square(x[:, :k]).sum(axis=1) for k in counts}
    means = [float(norms[k].mean()) for k in counts]
    spreads = [float(norms[k].std()) for k in counts]
    near = max(abs(m - 1) for m in means) < 5 * spreads[0] / np.sqrt(setting.points)
    yield PAPER.claim("mean norm", listed(means), near)
    falls = all(a > b for a, b in itertools.pairwise(spreads))
    yield PAPER.claim("deviation", listed(spreads), falls)
    bins = np.linspace(0, 3, 25)
    curves = {f"k = {k}": np.histogram(norms[k], bins)[0] for k in counts}
    yield Curves("histogram of squared norms", list(bins[1:]), curves, "squared norm", "points")


def roll(setting: Setting) -> Items:
    X, places = sdpkit.datasets.swiss_roll(setting.points, noise_dims=0, return_parameters=True)
    X = X + 0.05 * np.random.default_rng(1).standard_normal(X.shape)
    measured: dict[str, float] = {}
    bases: tuple[tuple[Any, str], ...] = (("laplacian", "Laplacian"), ("lle", "LLE"))
    for basis, word in bases:
        started = time.perf_counter()
        problem = sdpkit.VariationalMVU(X, n_neighbors=6, basis=basis, n_basis=10, connect="bridge")
        solution = quiet_solve(problem)
        plain = problem.recover(solution, n_components=2)
        fine = problem.refine(solution, n_components=2)
        seconds = time.perf_counter() - started
        for name, one in (("program", plain), ("refined", fine)):
            measured[f"{word}, {name}"] = evaluate(X, one.coordinates).local_continuity
            yield Scatter(f"{word}, {name}", one.coordinates, places[:, 0])
        proof, ours = Certified.of(solution), f"{seconds:.1f}"
        yield PAPER.claim("seconds", ours, seconds < 30, proof, word=word, n=len(X))
        pair = measured[f"{word}, program"], measured[f"{word}, refined"]
        yield PAPER.claim("refined roll", *rises(pair), proof, word=word)
    both = measured["LLE, program"], measured["Laplacian, program"]
    yield PAPER.claim("LLE against Laplacian", listed(both), both[0] > both[1])


def twos_and_threes(setting: Setting) -> Items:
    from sklearn.decomposition import PCA
    from sklearn.manifold import LocallyLinearEmbedding

    X = handwritten((2, 3), setting.points, setting.data, "mnist")
    y = np.arange(len(X)) * 2 // len(X)
    problem = sdpkit.VariationalMVU(X, n_neighbors=5, basis="lle", n_basis=10, connect="bridge")
    solution = quiet_solve(problem)
    lle = LocallyLinearEmbedding(n_neighbors=5, n_components=2, eigen_solver="dense")
    found = {
        "PCA": PCA(2).fit_transform(X),
        "LLE": lle.fit_transform(X),
        "variational MVU": problem.recover(solution, n_components=2).coordinates,
        "refined": problem.refine(solution, n_components=2).coordinates,
    }
    ink = X.sum(axis=1)
    correlation = abs(float(np.corrcoef(found["PCA"][:, 0], ink)[0, 1]))
    yield PAPER.claim("ink", f"{correlation:.2f}", None)
    continuity = {name: evaluate(X, Y).local_continuity for name, Y in found.items()}
    pair = continuity["LLE"], continuity["variational MVU"]
    yield PAPER.claim("digits", *rises(pair), Certified.of(solution))
    fine = continuity["variational MVU"], continuity["refined"]
    yield PAPER.claim("refined digits", *rises(fine), Certified.of(solution, ", then local"))
    for name, Y in found.items():
        yield Scatter(name, Y, y)


def network(true: Array, edges: Indices, noise: float) -> sdpkit.NeighborhoodGraph:
    """Lengths of the edges, off by up to a share."""
    lengths = np.linalg.norm(true[edges[:, 0]] - true[edges[:, 1]], axis=1)
    measured = lengths * (1 + noise * np.random.default_rng(0).uniform(-1, 1, lengths.size))
    return sdpkit.NeighborhoodGraph(len(true), edges, measured**2)


def _localized(true: Array, graph: Any, unit: str, scale: float) -> Items:
    problem = sdpkit.Localization(graph)
    solution = quiet_solve(problem)
    coarse, fine = problem.recover(solution), problem.refine(solution)
    before, after = (float(position_errors(one, true).mean()) for one in (coarse, fine))
    ours, size = f"{before:.3g}{unit}", {"n": len(true), "edges": graph.n_edges}
    yield PAPER.claim("program", ours, before < 0.25 * scale, Certified.of(solution), **size)
    proof = Certified.of(solution, ", then local")
    yield PAPER.claim("refined", f"{after:.3g}{unit}", after < 0.1 * before, proof)
    aligned = sdpkit.quality.aligned
    for name, one in (("program", coarse), ("refined", fine)):
        yield Scatter(name, aligned(one, true), true[:, 0])


def _city_positions(setting: Setting) -> Array:
    assert setting.data is not None
    return arrays(setting.data, "uscities")["X"][: setting.points].astype(np.float64)


def city_network(setting: Setting) -> tuple[Array, sdpkit.NeighborhoodGraph]:
    """Cities that know the distances to others nearby, up to a tenth."""
    true = _city_positions(setting)
    # Fewer cities are further apart: the radius keeps the network connected.
    radius = 500.0 * max(1.0, np.sqrt(1097 / len(true)))
    edges = sdpkit.graphs.neighborhood_graph(true, radius=radius).edges
    return true, network(true, edges, 0.1)


def cities(setting: Setting) -> Items:
    true, graph = city_network(setting)
    spread = float(np.linalg.norm(true - true.mean(axis=0), axis=1).mean())
    yield from _localized(true, graph, " km", spread)


def square_network(n: int, noise: float = 0.0) -> tuple[Array, Any]:
    """n sensors in a unit square that know up to 20 others nearby (radius 0.06 for 20,000)."""
    true = np.random.default_rng(0).random((n, 2)) - 0.5
    graph = sdpkit.graphs.neighborhood_graph(true, n_neighbors=min(20, n - 1))
    radius = 0.06 * np.sqrt(20000 / n)
    return true, network(true, graph.edges[graph.squared_lengths <= radius**2], noise)


def square(setting: Setting) -> Items:
    true, graph = square_network(setting.points)
    yield from _localized(true, graph, "", 0.38)
    start = 0.1 * np.random.default_rng(1).standard_normal((len(true), 2))
    ended = refine(start, graph.incidence(), graph.squared_lengths, max_iter=100)
    error = float(position_errors(ended.coordinates, true).mean())
    yield PAPER.claim("random start", f"{error:.3g}", error > 0.1)


def basis_size(setting: Setting) -> Items:
    has_cities = setting.data is not None
    _, graph = city_network(setting) if has_cities else square_network(setting.points, 0.1)
    sizes = [3, 5, 7, 10, 14, 18]
    losses, runs = [], []
    for m in sizes:
        problem = sdpkit.Localization(graph, n_basis=m)
        runs.append(timed_solve(problem))
        at = problem.recover(runs[-1].result)
        i, j = graph.edges.T
        residuals = np.square(at[i] - at[j]).sum(axis=1) - graph.squared_lengths
        losses.append(float(np.square(residuals).mean()))
    proof, seconds = (
        Certified.of_all([run.result for run in runs]),
        [run.cpu_seconds for run in runs],
    )
    relative = [loss / losses[0] for loss in losses]
    words = {"sizes": listed(sizes, 0)}
    yield PAPER.claim("loss", listed(relative), relative[-1] < 1, proof, **words)
    yield PAPER.claim("seconds of the basis", listed(seconds, 3), seconds[-1] > seconds[0], proof)
    yield Curves("loss", sizes, {"loss": relative}, "m", "relative to m = 3")
    yield Bars("seconds", {str(m): [s] for m, s in zip(sizes, seconds, strict=True)}, ["seconds"])


def sammon(D: Array, start: Array) -> Array:
    """Sammon's mapping: least Σ (d_ij − ‖y_i − y_j‖)²/d_ij, from a start, (n, r).

    >>> D = np.array([[0, 3, 4], [3, 0, 5], [4, 5, 0.0]])
    >>> Y = sammon(D, np.random.default_rng(0).standard_normal((3, 2)))
    >>> bool(np.allclose(cdist(Y, Y), D, atol=1e-3))
    True
    """
    i, j = np.triu_indices(len(D), 1)
    known = D[i, j]

    def stress(flat: Array) -> tuple[float, Array]:
        Y = flat.reshape(start.shape)
        difference = Y[i] - Y[j]
        lengths = np.maximum(np.linalg.norm(difference, axis=1), 1e-12)
        error = lengths - known
        pull = (2 * error / (known * lengths))[:, None] * difference
        gradient = np.zeros_like(Y)
        np.add.at(gradient, i, pull)
        np.subtract.at(gradient, j, pull)
        return float((error**2 / known).sum()), gradient.ravel()

    found = scipy.optimize.minimize(stress, start.ravel(), jac=True, method="L-BFGS-B")
    return np.asarray(found.x.reshape(start.shape))


def scaling(setting: Setting) -> Items:
    from sklearn.manifold import MDS

    true = _city_positions(setting)
    D = cdist(true, true)
    n = len(D)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ D**2 @ centre)
    classical = vectors[:, ::-1][:, :2] * np.sqrt(values[::-1][:2])
    error = float(position_errors(classical, true).mean())
    yield PAPER.claim("classical", f"{error:.2g} km", error < 1, n=n)
    few = D[:: max(1, n // 100)][:, :: max(1, n // 100)]
    for name, metric in (("metric", True), ("non-metric", False)):
        names = inspect.signature(MDS).parameters
        # Scikit-learn 1.8 renamed both.
        given: dict[str, Any] = (
            {"metric_mds": metric, "metric": "precomputed"}
            if "metric_mds" in names
            else {"metric": metric, "dissimilarity": "precomputed"}
        )
        model = MDS(2, n_init=1, random_state=0, normalized_stress=not metric, **given)
        found = model.fit_transform(few)
        off = float(np.corrcoef(cdist(found, found).ravel(), few.ravel())[0, 1])
        yield PAPER.claim("other scaling", f"{off:.4f}", None, name=name, n=len(few))
    start = np.random.default_rng(0).standard_normal((len(few), 2)) * few.std()
    mapped = sammon(few, start)
    off = float(np.corrcoef(cdist(mapped, mapped).ravel(), few.ravel())[0, 1])
    what = f"Sammon's mapping of {len(few)} cities: correlation of distances"
    yield Row.claim(what, "(not in the thesis)", f"{off:.4f}", None)
    yield Scatter("classical MDS", classical, true[:, 0])


ENTRIES = PAPER.entries(globals())
