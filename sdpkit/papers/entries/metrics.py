"""Figures on LMNN (Weinberger 2007, chapter 2), and zebra stripes (Weinberger and Saul 2009)."""

from __future__ import annotations

import itertools

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import labelled, quiet_solve
from sdpkit.papers.entries.classification import learned
from sdpkit.papers.entry import Certified, Row, Setting, less, listed, more
from sdpkit.papers.pictures import Bars, Curves, Scatter
from sdpkit.papers.published import Items, Published
from sdpkit.papers.sets import Labels, small_set, split
from sdpkit.results.metric import Metric
from sdpkit.typing import Array

PAPER = Published.of("metrics")


def euclidean(X: Array, y: Labels, k: int = 3) -> Metric:
    """The plain distance."""
    return Metric.from_components(np.eye(X.shape[1]), X, y, n_neighbors=k)


def principal(X: Array, r: int) -> Array:
    """The points in their r leading principal components, or all of them."""
    centred = X - X.mean(axis=0)
    return np.asarray(centred @ np.linalg.svd(centred, full_matrices=False)[2][:r].T)


def square_sample(rng: np.random.Generator, n: int) -> tuple[Array, Labels]:
    """n points of a square whose upper half is another class, two of each at least."""
    while True:
        X = 10 * rng.random((n, 2))
        y = (X[:, 1] > 5).astype(np.int64)
        if 1 < y.sum() < n - 1:
            return X, y


def stretch(setting: Setting) -> Items:
    X, y = square_sample(np.random.default_rng(0), setting.points)
    metric, solution = learned(sdpkit.LMNN(X, y, n_neighbors=1))
    plain, useful = np.sqrt(np.diag(metric.matrix))
    proof = Certified.of(solution)
    yield Row.number("stretch of the plain direction", 1.4, float(plain), 0.2, "", proof)
    yield Row.number("stretch of the discriminative direction", 2.2, float(useful), 0.2, "", proof)
    yield PAPER.claim("stretched", f"{useful / plain:.2f} times", useful > 1.2 * plain, proof)
    yield Scatter("inputs", X, y)
    yield Scatter("after x → Lx", metric.transform(X), y)


def convergence(setting: Setting) -> Items:
    rng = np.random.default_rng(0)
    test = square_sample(rng, 5000)
    sizes = [25, 50, 100, 200, 400]
    curves: dict[str, list[float]] = {"Euclidean": [], "LMNN": []}
    solutions = []
    for n in sizes:
        errors = np.empty((setting.runs, 2))
        for run in range(setting.runs):
            X, y = square_sample(rng, n)
            metric, solution = learned(sdpkit.LMNN(X, y, n_neighbors=1))
            solutions.append(solution)
            errors[run] = euclidean(X, y, 1).error(*test), metric.error(*test)
        for name, value in zip(curves, 100 * errors.mean(axis=0), strict=True):
            curves[name].append(float(value))
    proof = Certified.of_all(solutions)
    for name, values in curves.items():
        ours, falls = f"{listed(values, 1)} %", values[-1] < values[0] / 2
        yield PAPER.claim("1-NN error", ours, falls, proof, sizes=listed(sizes, 0), name=name)
    below = sum(b < a for a, b in zip(*curves.values(), strict=True))
    ours = f"at {below} of {len(sizes)}"
    yield PAPER.claim("below Euclidean", ours, below == len(sizes), proof)
    yield Curves("misclassified test points, per cent", sizes, curves, "n", "error")


def illumination(setting: Setting) -> Items:
    X, y = (part[: setting.points] for part in small_set("digits"))
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:8, :8] - 3.5
    lights = np.stack([rows.ravel(), columns.ravel()]) / np.linalg.norm(rows)
    X = X + rng.standard_normal((len(X), 2)) * 40 @ lights
    X_train, y_train, X_test, y_test = split(X, y, 0)
    metric, solution = learned(sdpkit.LMNN(X_train, y_train))
    pca = np.linalg.svd(X_train - X_train.mean(axis=0), full_matrices=False)[2]
    values, vectors = np.linalg.eigh(metric.matrix)
    shares = [
        float(np.square(lights @ rows.T).sum() / 2) for rows in (pca[:2], vectors[:, ::-1].T[:2])
    ]
    proof = Certified.of(solution)
    yield PAPER.claim("illumination of PCA", f"{shares[0]:.2f}", shares[0] > 0.8)
    yield PAPER.claim("illumination of LMNN", f"{shares[1]:.2f}", shares[1] < 0.2, proof)
    errors = [100 * m.error(X_test, y_test) for m in (euclidean(X_train, y_train), metric)]
    ours = f"{listed(errors, 2)} %"
    yield PAPER.claim("illumination error", ours, errors[1] < errors[0] / 2, proof)
    names = [str(i) for i in range(1, 9)]
    yield Bars("eigenvalues of M", {"LMNN": (values[::-1] / values.sum())[:8]}, names)
    for name, image in (("PCA 1", pca[0]), ("LMNN 1", vectors[:, -1])):
        spots = np.c_[columns.ravel(), -rows.ravel()]
        yield Scatter(name, spots, image)


def neighbors_changed(setting: Setting) -> Items:
    X, y = (part[: setting.points] for part in small_set("digits"))
    if setting.data is not None:
        X, y = (part[: setting.points] for part in labelled(setting.data, "usps"))
    X = principal(X, 50)
    X_train, y_train, X_test, y_test = split(X, y, 0)
    metric, solution = learned(sdpkit.LMNN(X_train, y_train))
    before = euclidean(X_train, y_train).predict(X_test, n_neighbors=1) == y_test
    after = metric.predict(X_test, n_neighbors=1) == y_test
    better, worse = int((~before & after).sum()), int((before & ~after).sum())
    yield PAPER.claim(
        "became right", str(better), better > 0, Certified.of(solution), n=len(y_test)
    )
    yield PAPER.claim(
        "more right", f"{better} against {worse}", better > worse, Certified.of(solution)
    )
    counts = {str(d): [int((~before & after)[y_test == d].sum())] for d in range(10)}
    yield Bars("digits whose nearest neighbour became right", counts, ["digits"])


_CIRCLES = {1: 100.0, 2: 21.0, 3: 0.0}


def circles(setting: Setting) -> Items:
    X, y = sdpkit.datasets.concentric_circles()
    errors = {}
    for count, published in _CIRCLES.items():
        problem = sdpkit.LMNN(X, y, n_neighbors=1, metrics=count)
        solution = quiet_solve(problem)
        metric = problem.recover(solution)
        errors[count] = 100 * metric.leave_one_out_error(1)
        what = f"{count} metric{'s' * (count > 1)}: leave-one-out 1-NN error"
        yield Row.number(what, published, errors[count], 5, " %", Certified.of(solution))
        yield Scatter(f"{count} metrics", X, metric.block_of)
    yield PAPER.claim(
        "further metric", f"{listed(errors.values(), 0)} %", errors[1] > errors[2] > errors[3]
    )


def local_metrics(setting: Setting) -> Items:
    X, y = small_set("digits")
    wanted = np.isin(y, (0, 1, 4, 6))
    X, y = X[wanted][: setting.points], y[wanted][: setting.points]
    Z = principal(X, 2)
    single, one = learned(sdpkit.LMNN(Z, y))
    several, four = learned(sdpkit.LMNN(Z, y, metrics="per_class"))
    angles = []
    for matrix in several.matrices:
        vectors = np.linalg.eigh(matrix)[1]
        angles.append(float(np.degrees(np.arctan2(*vectors[::-1, -1])) % 180))
    spread = float(np.ptp(angles))
    yield PAPER.claim("directions", listed(angles, 0), spread > 20, Certified.of(four))
    errors = [100 * m.leave_one_out_error() for m in (single, several)]
    yield PAPER.claim(
        "four metrics",
        f"{listed(errors, 1)} %",
        errors[1] <= errors[0],
        Certified.of_all([one, four]),
    )
    yield Scatter("first two principal components of 0, 1, 4, 6", Z, y)


def _images(setting: Setting) -> tuple[Array, Labels]:
    X, y = small_set("digits") if setting.data is None else labelled(setting.data, "mnist")
    order = np.random.default_rng(0).permutation(len(X))[: setting.points]
    return principal(X[order], X.shape[1]), y[order]


def ball_trees(setting: Setting) -> Items:
    from sklearn.neighbors import BallTree

    Z, _ = _images(setting)
    n, d = len(Z), Z.shape[1]
    queries = Z[: n // 5]
    dims = [2, 5, 10, 15, 20, 30]
    speedups: dict[str, list[float]] = {"naive": [], "ball tree": []}
    for r in dims:
        tree = BallTree(np.ascontiguousarray(Z[n // 5 :, :r]), leaf_size=10)
        tree.reset_n_calls()
        tree.query(queries[:, :r], k=3)
        calls = tree.get_n_calls() / len(queries)
        speedups["naive"].append(d / r)
        speedups["ball tree"].append((n - n // 5) * d / (calls * r))
    gains = [a / b for a, b in zip(speedups["ball tree"], speedups["naive"], strict=True)]
    falls = all(a > b for a, b in itertools.pairwise(gains))
    ours = f"{listed(gains, 1)} times"
    yield PAPER.claim("ball trees", ours, gains[0] > 2 and falls, dims=listed(dims, 0))
    yield Curves("speed-up of 3-NN search", dims, speedups, "dimensions", "times", log=True)


def hinge_trees(setting: Setting) -> Items:
    from sklearn.neighbors import BallTree

    Z, y = _images(setting)
    dims = [2, 5, 10, 15, 20, 30]
    gains = []
    for r in dims:
        points = np.ascontiguousarray(Z[:, :r])
        problem = sdpkit.LMNN(points, y)
        i, j = problem.target_pairs.T
        reach = np.sqrt(np.square(points[i] - points[j]).sum(axis=1) + 1)
        furthest = np.zeros(len(points))
        np.maximum.at(furthest, i, reach)
        calls = 0
        for label in np.unique(y):
            tree = BallTree(points[y == label], leaf_size=10)
            tree.reset_n_calls()
            tree.query_radius(points[y != label], furthest[y != label])
            calls += tree.get_n_calls()
        pairs = sum(int((y == c).sum() * (y != c).sum()) for c in np.unique(y))
        gains.append(pairs / calls)
    ours, holds = f"{listed(gains, 1)} times", gains[0] > max(gains[-1], 1.5)
    yield PAPER.claim("hinge trees", ours, holds, dims=listed(dims, 0))
    yield Curves("search for hinge losses", dims, {"ball trees": gains}, "dimensions", "times")


def few_dimensions(setting: Setting) -> Items:
    X, y = small_set("digits") if setting.data is None else labelled(setting.data, "mnist")
    order = np.random.default_rng(0).permutation(len(X))[: setting.points]
    X, y = X[order], y[order]
    X = principal(X, 100)
    X_train, y_train, X_test, y_test = split(X, y, 0)
    full, solution = learned(sdpkit.LMNN(X_train, y_train))
    base = 100 * euclidean(X_train, y_train).error(X_test, y_test)
    dims = [2, 5, 10, 15, 25]
    curves: dict[str, list[float]] = {"PCA": [], "LMNN (sq)": [], "LMNN (rec)": []}
    solutions = [solution]
    for r in dims:
        rectangular, found = learned(sdpkit.LMNN(X_train, y_train, n_components=r))
        solutions.append(found)
        metrics = (euclidean(X_train, y_train).truncated(r), full.truncated(r), rectangular)
        for name, metric in zip(curves, metrics, strict=True):
            curves[name].append(100 * metric.error(X_test, y_test))
    proof = Certified.of_all(solutions)
    for name, values in curves.items():
        what = f"3-NN error in {listed(dims, 0)} dimensions: {name}"
        yield Row.claim(what, "", f"{listed(values, 1)} %", None, proof)
    means = {name: float(np.mean(values[1:])) for name, values in curves.items()}
    pair = more(means["PCA"], means["LMNN (sq)"], ".1f", " %")
    yield PAPER.claim("few dimensions", *pair, proof)
    plain, square, narrow = curves.values()
    yield PAPER.claim("two dimensions", *less(narrow[0], plain[0], ".1f", " %"), proof)
    wins = sum(a <= b for a, b in zip(plain, narrow, strict=True))
    what = "dimensions in which PCA is as good as LMNN (rec) or better"
    yield Row.claim(what, "none", f"{wins} of {len(dims)}", wins == 0, proof)
    yield PAPER.claim("square and rectangular", *less(narrow[0], square[0], ".1f", " %"), proof)
    reached = [r for r, error in zip(dims, narrow, strict=True) if error <= base]
    ours = str(reached[0]) if reached else "none"
    yield PAPER.claim("baseline", ours, bool(reached), proof, base=base)
    curves["all dimensions"] = [base] * len(dims)
    yield Curves("3-NN test error, per cent", dims, curves, "dimensions", "error")


def whitening(X: Array, y: Labels) -> Array:
    """The root of the inverse of the variance within classes 0 and 1: RCA."""
    values, vectors = np.linalg.eigh(np.mean([np.cov(X[y == c].T) for c in (0, 1)], axis=0))
    return np.asarray(vectors @ np.diag(values**-0.5) @ vectors.T)


def traditional(setting: Setting) -> Items:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(0)
    n = setting.points // 2
    noise = rng.standard_normal((2 * n, 2)) @ np.array([[6.0, 0.0], [0.0, 0.7]])
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    y = np.repeat([0, 1], n)
    X = (noise + np.where(y[:, None] == 0, [0.0, -2.0], [0.0, 2.0])) @ turn
    X = X - X.mean(axis=0)
    maps = {
        "PCA": np.linalg.svd(X, full_matrices=False)[2],
        "LDA": LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_.T,
    }
    white = whitening(X, y)
    maps["RCA"] = np.linalg.svd(X @ white, full_matrices=False)[2] @ white
    errors = {
        name: 100 * Metric.from_components(L[:1], X, y).leave_one_out_error()
        for name, L in maps.items()
    }
    for name, words, holds in (
        ("PCA", "the classes overlap", errors["PCA"] > 20),
        ("RCA", "separated: within-class variance is whitened", errors["RCA"] < 5),
        ("LDA", "separated", errors["LDA"] < 5),
    ):
        ours = f"{errors[name]:.1f} %"
        yield PAPER.claim("first direction", ours, holds, name=name, published=words)
    for name in ("PCA", "RCA", "LDA"):
        yield Scatter(name, X @ maps[name][:2].T, y)


def zebra(n: int, seed: int = 0) -> tuple[Array, Labels]:
    """Stripes of two classes in turn, in two sets far apart horizontally."""
    rng = np.random.default_rng(seed)
    stripe = rng.integers(0, 6, n)
    side = rng.integers(0, 2, n)
    X = np.c_[stripe + 0.6 * rng.random(n) + 30.0 * side, 12 * rng.random(n)]
    return X, (stripe + side) % 2


def zebra_stripes(setting: Setting) -> Items:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    X, y = zebra(setting.points)
    X_train, y_train, X_test, y_test = split(X, y, 0)
    metric, solution = learned(sdpkit.LMNN(X_train, y_train))
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X_train, y_train)
    nca = NeighborhoodComponentsAnalysis(random_state=0, max_iter=100).fit(X_train, y_train)
    pairs = sdpkit.MMC(X_train[:150], y_train[:150])
    answer = quiet_solve(pairs)
    found = {
        "Euclidean": euclidean(X_train, y_train),
        "LMNN": metric,
        "NCA": Metric.from_components(nca.components_, X_train, y_train),
        "LDA": Metric.from_components(lda.scalings_.T[:1], X_train, y_train),
        "RCA": Metric.from_components(whitening(X_train, y_train), X_train, y_train),
        "MMC": Metric.from_components(pairs.recover(answer).components[0], X_train, y_train),
    }
    proofs = {"LMNN": Certified.of(solution), "MMC": Certified.of(answer)}
    errors = {name: 100 * m.error(X_test, y_test) for name, m in found.items()}
    base = errors["Euclidean"]
    for name, error in errors.items():
        below = name in ("LMNN", "NCA")
        words = "" if name == "Euclidean" else "below Euclidean" if below else "above Euclidean"
        holds = None if name == "Euclidean" else error < base if below else error > base
        extra = [proofs[name]] if name in proofs else []
        yield PAPER.claim("zebra", f"{error:.1f} %", holds, *extra, name=name, published=words)
    yield Scatter("inputs", X, y)
    yield Scatter("after LMNN", metric.transform(X), y)
    yield Bars("3-NN test error, per cent", {k: [v] for k, v in errors.items()}, ["error"])


ENTRIES = PAPER.entries(globals())
