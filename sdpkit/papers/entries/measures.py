"""Embeddings measured (Weinberger 2007, section 3.1.9): Table 3.2, figures 3.22 to 3.24, 3.28 and
3.29."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import arrays, quiet_solve
from sdpkit.numerics.neighbors import nearest
from sdpkit.papers.entries.unfolding import pca_shares, unfold
from sdpkit.papers.entry import NO_PROGRAM, Certified, Row, Setting, listed, more, rises
from sdpkit.papers.pictures import Bars, Curves, Scatter
from sdpkit.papers.published import Items, Published
from sdpkit.papers.sets import handwritten, small_set, teapots
from sdpkit.papers.sweep import neighbor_sweep
from sdpkit.results.embedding import Embedding
from sdpkit.results.quality import Quality, evaluate, relative_inconsistency
from sdpkit.typing import Array, Bools, Indices

PAPER = Published.of("measures")

MEASURES = ("local continuity", "local trust", "intersection")


def triple(quality: Quality) -> tuple[float, float, float]:
    """The three measures of section 3.1.9."""
    return (quality.local_continuity, quality.local_trust, quality.neighborhood_intersection)


def _variational(X: Array, k: int, r: int) -> Iterator[tuple[str, Array, Certified]]:
    bases: tuple[tuple[Any, str], ...] = (("lle", "LLE"), ("laplacian", "Laplacian"))
    for basis, word in bases:
        large = sdpkit.VariationalMVU(X, n_neighbors=k, basis=basis, n_basis=10, connect="bridge")
        answer = quiet_solve(large)
        yield (
            f"variational MVU ({word})",
            large.recover(answer, n_components=r).coordinates,
            Certified.of(answer),
        )
        fine = large.refine(answer, n_components=r).coordinates
        yield f"variational MVU, refined ({word})", fine, Certified.of(answer, ", then local")


def _others(X: Array, k: int, r: int) -> Iterator[tuple[str, Array, Certified]]:
    """The other methods of Table 3.2, by scikit-learn."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import Isomap, LocallyLinearEmbedding, SpectralEmbedding

    local: dict[str, Any] = {"n_neighbors": k, "n_components": r}
    exact = {**local, "eigen_solver": "dense", "random_state": 0}
    # Hessian LLE has no solution with fewer neighbours.
    wide = {**exact, "n_neighbors": max(k, r * (r + 3) // 2 + 1)}
    makers: dict[str, Any] = {
        "PCA": PCA(r),
        "Isomap": Isomap(**local),
        "Hessian LLE": LocallyLinearEmbedding(method="hessian", **wide),
        "Laplacian eigenmaps": SpectralEmbedding(
            affinity="nearest_neighbors", random_state=0, **local
        ),
        "LLE": LocallyLinearEmbedding(**exact),
    }
    for name, maker in makers.items():
        yield name, maker.fit_transform(X), NO_PROGRAM


def quality(setting: Setting, which: str) -> Items:
    """One column of Table 3.2."""
    k, r = 15, 2
    if which == "Swiss roll":
        X = sdpkit.datasets.swiss_roll(setting.points, noise_dims=0)
    elif which == "teapots":
        X, k = teapots(setting.data), 5
    else:
        assert setting.data is not None
        r, k = 3, 15 if which == "olivetti" else 20
        X = arrays(setting.data, which)["X"].astype(np.float64)[: setting.points]
    found = unfold(X, 5, dimensions=r)
    results = {"MVU": (found.coordinates, found.proof)}
    results |= {name: (Y, proof) for name, Y, proof in _variational(X, k, r)}
    results |= {name: (Y, proof) for name, Y, proof in _others(X, k, r)}
    measured = {name: triple(evaluate(X, Y, 15)) for name, (Y, _) in results.items()}
    for name, published in PAPER.tables["3.2"][which].items():
        ours = measured[name]
        close = max(abs(a - b) for a, b in zip(ours, published, strict=True)) <= 0.1
        yield Row.claim(name, listed(published), listed(ours), close, results[name][1])
    pair = [measured[f"variational MVU{word} (LLE)"][0] for word in ("", ", refined")]
    yield PAPER.claim("refinement", *rises(pair), results["variational MVU (LLE)"][1])
    if which in ("Swiss roll", "teapots"):
        trust = measured["MVU"][1]
        what = "a true manifold of low dimension: trust of MVU"
        yield Row.claim(what, "almost perfect", f"{trust:.3f}", trust > 0.9, found.proof)
    others = ("PCA", "Hessian LLE", "Laplacian eigenmaps", "LLE")
    best = max(measured[name][1] for name in others)
    yield PAPER.claim("trust", *more(measured["MVU"][1], best, ".3f"), found.proof)
    yield Bars("l = 15", measured, MEASURES)


def by_dimension(setting: Setting) -> Items:
    X = small_set("digits")[0][: setting.points]
    if setting.data is not None:
        X = arrays(setting.data, "olivetti")["X"].astype(np.float64)[: setting.points]
    dims = [1, 2, 3, 5, 8, 12, 20]
    found = unfold(X, 4, dimensions=max(dims))
    values = np.array([triple(evaluate(X, found.coordinates[:, :r], 15)) for r in dims])
    curves = dict(zip(MEASURES, values.T.tolist(), strict=True))
    for name, curve in curves.items():
        holds = float(np.diff(curve).min()) > -0.02 and curve[-1] > curve[0]
        words = {"name": name, "dims": listed(dims, 0)}
        yield PAPER.claim("by dimension", listed(curve, 2), holds, found.proof, **words)
    yield Curves("measures at l = 15", dims, curves, "dimensions r", "measure")
    shares = found.shares[: max(dims)]
    yield Bars("spectrum", {"MVU": shares}, [str(i + 1) for i in range(len(shares))])


def consistency_trial(X: Array, seed: int) -> tuple[Array, list[Any]]:
    """(3,) eq. 3.34 for placement by SDP, by SDP with refinement, and by LLE, and the programs."""
    third = len(X) // 3
    order = np.random.default_rng(seed).permutation(len(X))
    A, B, C = X[order[:third]], X[order[third : 2 * third]], X[order[2 * third :]]
    solutions: list[Any] = []

    def embedded(points: Array) -> Embedding:
        problem = sdpkit.MVU(points, n_neighbors=4, connect="bridge")
        solutions.append(quiet_solve(problem, tol=1e-3))
        return problem.recover(solutions[-1], n_components=2)

    whole = tuple(embedded(np.vstack([part, C])).coordinates[third:] for part in (A, B))
    parts = embedded(A), embedded(B)
    errors = []
    ways: list[dict[str, Any]] = [{"method": "sdp"}, {"method": "sdp", "refine": True}]
    for way in [*ways, {"method": "lle"}]:
        placed = parts[0].extend(C, **way), parts[1].extend(C, **way)
        errors.append(relative_inconsistency(placed, (whole[0], whole[1])))
    return np.array(errors), solutions


def out_of_sample(setting: Setting) -> Items:
    sets = {
        "Swiss roll": sdpkit.datasets.swiss_roll(setting.points),
        "fives": handwritten((5,), setting.points, setting.data, "mnist"),
    }
    if setting.data is not None and (setting.data / "teapots100.npz").exists():
        sets["teapots"] = teapots(setting.data)
    bars: dict[str, Array] = {}
    for name, X in sets.items():
        trials = [consistency_trial(X, seed) for seed in range(setting.runs)]
        errors = np.array([values for values, _ in trials])
        bars[name] = setting.runs / (1 / errors).sum(axis=0)
        proof = Certified.of_all([solution for _, used in trials for solution in used])
        mean = bars[name]
        published, holds = {
            "Swiss roll": ("far above 1", mean.min() > 2),
            "teapots": ("below 1", mean.max() < 1),
        }.get(name, ("below 2", mean.max() < 2))
        what = f"{name}: SDP, SDP refined, LLE"
        yield Row.claim(what, published, listed(mean, 2), holds, proof)
        ours, holds = listed(mean[[2, 0]], 2), mean[2] <= mean[0] + 1e-9
        yield PAPER.claim("LLE", ours, holds, proof, name=name)
    yield Bars("relative inconsistency (3.34)", bars, ("SDP", "SDP refined", "LLE"))


def near_pairs(X: Array, n_neighbors: int = 5) -> tuple[Indices, Bools]:
    """(2, m) every frame of a full turn with each of its nearest, and which of these pairs are a
    quarter of a turn apart or more."""
    near, _ = nearest([X], [X], n_neighbors, themselves=True)
    pairs = np.stack([np.repeat(np.arange(len(X)), n_neighbors), near.ravel()])
    steps = np.abs(pairs[0] - pairs[1])
    return pairs, np.minimum(steps, len(X) - steps) >= len(X) // 4


def _continuity(X: Array, Y: Array, pairs: Indices) -> float:
    """C(Y), eq. (3.27), over given pairs: the squared cosine between their distances."""
    inputs, outputs = (np.linalg.norm(Z[pairs[0]] - Z[pairs[1]], axis=1) for Z in (X, Y))
    return float((inputs @ outputs) ** 2 / ((inputs @ inputs) * (outputs @ outputs)))


def _trace_sets(setting: Setting) -> Iterator[tuple[str, Array, int]]:
    """(name, inputs, dimensions looked at)."""
    yield "Swiss roll", sdpkit.datasets.swiss_roll(setting.points, noise_dims=0), 2
    yield "fives", handwritten((5,), setting.points, setting.data, "mnist"), 10
    if setting.data is not None and (setting.data / "teapots100.npz").exists():
        yield "teapots", teapots(setting.data), 2


def max_and_min(setting: Setting) -> Items:
    bars: dict[str, tuple[float, ...]] = {}
    for name, X, dimensions in _trace_sets(setting):
        forms: tuple[Any, ...] = ("equality", "min_trace")
        found = [unfold(X, 4, form=form, tol=1e-4, dimensions=dimensions) for form in forms]
        largest, least = (triple(evaluate(X, one.coordinates)) for one in found)
        worst = max((one.proof for one in found), key=lambda proof: proof.gap or 0.0)
        bars[name] = tuple(np.divide(least, largest))
        for what, ratio in zip(MEASURES, bars[name], strict=True):
            words = {"name": name, "what": what}
            yield PAPER.claim("minimum trace", f"{ratio:.3f}", ratio < 1, worst, **words)
        if name == "teapots":
            pairs, far = near_pairs(X)
            frames = ", ".join(str(frame) for frame in pairs[0, far])
            yield PAPER.claim("half a turn", frames, None)
            high, low = (_continuity(X, one.coordinates, pairs[:, ~far]) for one in found)
            what = "teapots: local continuity without these neighbours"
            yield Row.claim(what, "below 1", f"{low / high:.3f}", low < high, worst)
    yield Bars("minimum trace relative to maximum trace", bars, MEASURES)


def by_neighbors(setting: Setting) -> Items:
    X = sdpkit.datasets.swiss_roll(setting.points, noise=0.05)
    sweep = neighbor_sweep(X, range(4, 11), connect="bridge")
    curves: dict[str, list[float]] = {"harmonic mean": [], "share of λ₃": []}
    for one in sweep:
        k = one.n_neighbors
        mean = evaluate(X, one.embedding.coordinates[:, :2]).harmonic_mean
        curves["harmonic mean"].append(mean)
        curves["share of λ₃"].append(float(one.shares[2]))
        words, holds = ("unfolds", one.shares[2] < 0.05) if k < 7 else ("locked", one.is_locked)
        ours = f"{mean:.3f}; {listed(one.shares[:3])}; {one.gain:.2f}"
        yield PAPER.claim("k", ours, holds, Certified.of(one.solution), k=k, published=words)
    first, *_, last = curves["share of λ₃"]
    ours = f"{first:.3f}, {last:.3f} (PCA {pca_shares(X)[2]:.3f})"
    yield PAPER.claim("spectrum", ours, first < 0.1 < last)
    yield Curves("Swiss roll", list(range(4, 11)), curves, "k", "")


def bad_edges(setting: Setting) -> Items:
    X, places = sdpkit.datasets.swiss_roll(setting.points, noise_dims=0, return_parameters=True)
    X = X + 0.4 * np.random.default_rng(0).standard_normal(X.shape)
    graph = sdpkit.graphs.neighborhood_graph(X, n_neighbors=7)
    t = places[:, 0]
    truly = np.abs(t[graph.edges[:, 0]] - t[graph.edges[:, 1]]) > np.pi
    marked = sdpkit.graphs.bad_edges(graph, steps=7)
    found, count = int((truly & marked).sum()), int(truly.sum())
    ours = f"{found} ({int(marked.sum())} of {graph.n_edges} edges are marked)"
    yield PAPER.claim("bad edges", ours, found >= 0.5 * count if count else None, count=count)
    cut = graph.without_edges(marked)
    variances, proofs = [], []
    for name, one in (("with bad edges", graph), ("after the cut", cut)):
        problem = sdpkit.MVU(X, graph=one.adjacency(), connect="bridge")
        solution = quiet_solve(problem, tol=1e-3)
        embedding = problem.recover(solution, n_components=2)
        variances.append(float(embedding.variance or embedding.eigenvalues.sum()))
        proofs.append(Certified.of(solution))
        yield Scatter(name, embedding.coordinates, t)
    inputs = float(np.square(X - X.mean(axis=0)).sum())
    before, after = (variance / inputs for variance in variances)
    holds = after > 1.2 * before
    yield PAPER.claim("variance", f"{before:.2f}, {after:.2f}", holds, proofs[1])
    yield Scatter("inputs and edges", X[:, [0, 2]], t, graph.edges)


ENTRIES = PAPER.entries(globals())
