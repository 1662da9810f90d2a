"""MVU as a kernel (Weinberger 2007, section 3.2.2): figures 3.32 to 3.37, Table 3.3; kernel PCA of
Jebara's lecture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import labelled, quiet_solve
from sdpkit.papers.entries.unfolding import needed, spectra
from sdpkit.papers.entry import NO_PROGRAM, Certified, Setting, listed, more
from sdpkit.papers.pictures import Bars, Scatter
from sdpkit.papers.published import Items, Published
from sdpkit.papers.sets import handwritten, small_set, teapots
from sdpkit.typing import Array

PAPER = Published.of("kernels")


def width_of_neighborhoods(X: Array, k: int = 4) -> float:
    """σ of the thesis: the standard deviation within neighbourhoods of size k."""
    from sklearn.neighbors import NearestNeighbors

    lengths = NearestNeighbors(n_neighbors=k).fit(X).kneighbors()[0]
    return float(np.sqrt(np.mean(lengths**2)))


def kernels(X: Array, degree: int = 4, width: float | None = None) -> dict[str, Array]:
    """Linear, polynomial and Gaussian Gram matrices of X."""
    from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

    sigma = width_of_neighborhoods(X) if width is None else width
    return {
        "linear": np.asarray(X @ X.T),
        "polynomial": polynomial_kernel(X, degree=degree, gamma=1.0, coef0=1.0),
        "Gaussian": rbf_kernel(X, gamma=1 / (2 * sigma**2)),
    }


def mvu_kernel(X: Array, k: int = 4, tol: float = 1e-3) -> tuple[Array, Certified]:
    """The Gram matrix that MVU learns, and its certificate."""
    problem = sdpkit.MVU(X, n_neighbors=k, connect="bridge")
    solution = quiet_solve(problem, tol=tol)
    return np.asarray(problem.gram_matrix(solution)), Certified.of(solution)


def kernel_pca(kernel: Array) -> tuple[Array, Array]:
    """(n, 3) components and the shares of the centred kernel's spectrum."""
    n = len(kernel)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centre @ kernel @ centre)
    values = np.maximum(values[::-1], 0)
    return vectors[:, ::-1][:, :3] * np.sqrt(values[:3]), values / values.sum()


def four_kernels(setting: Setting, which: str) -> Items:
    """Kernel PCA with four kernels: figures 3.32 (roll), 3.33 (teapots), 3.35 (digits)."""
    color: Any = None
    if which == "roll":
        X, places = sdpkit.datasets.swiss_roll(setting.points, noise_dims=0, return_parameters=True)
        X = X + 0.05 * np.random.default_rng(0).standard_normal(X.shape)
        color = places[:, 0]
    elif which == "teapots":
        X = teapots(setting.data)
        color = np.arange(len(X))
    else:
        X = handwritten((2, 3), setting.points, setting.data, "usps")
    grams = kernels(X - X.mean(axis=0))
    grams["MVU"], proof = mvu_kernel(X)
    found = {name: kernel_pca(gram) for name, gram in grams.items()}
    counts = {name: needed(shares) for name, (_, shares) in found.items()}
    for name, count in counts.items():
        if which == "digits":
            published = "fewest" if name == "MVU" else "more than MVU"
            holds = count == min(counts.values()) if name == "MVU" else count > counts["MVU"]
        else:
            published = "2 at most" if name == "MVU" else "3 or more"
            holds = count <= 2 if name == "MVU" else count > 2
        ours = f"{count} ({listed(found[name][1][:3])})"
        certified = proof if name == "MVU" else NO_PROGRAM
        yield PAPER.claim("dimensions", ours, holds, certified, name=name, published=published)
    for name, (points, _) in found.items():
        yield Scatter(name, points, color)
    yield spectra({name: shares for name, (_, shares) in found.items()}, 5)


def patches(setting: Setting) -> Items:
    sets = {"Swiss roll": sdpkit.datasets.swiss_roll(setting.points, noise_dims=0)}
    if setting.data is not None:
        sets["teapots"] = teapots(setting.data)
    for name, X in sets.items():
        gram = kernels(X)["Gaussian"]
        far = np.abs(np.corrcoef(gram))  # rows that overlap look alike
        orthogonal = float((gram < 1e-3).mean())
        yield PAPER.claim("patches", f"{orthogonal:.1%}", orthogonal > 0.5, name=name)
        points, shares = kernel_pca(gram)
        count = needed(shares)
        yield PAPER.claim("patch dimensions", f"{count} of {len(X)}", count > 10, name=name)
        yield Scatter(f"{name}: Gaussian kernel", points, far[0])


_TABLE_3_3 = {
    (1, 2): (0.00, 0.00, 0.14, 0.59),
    (1, 3): (0.23, 0.00, 0.35, 1.73),
    (2, 8): (2.18, 1.12, 0.63, 3.37),
    (8, 9): (1.00, 0.54, 0.29, 1.27),
}


def svm(setting: Setting) -> Items:
    from sklearn.svm import SVC

    X, y = small_set("digits") if setting.data is None else labelled(setting.data, "usps")
    X = X / np.abs(X).max()
    bars: dict[str, tuple[float, ...]] = {}
    totals = np.zeros(4)
    for pair, published in _TABLE_3_3.items():
        chosen = np.concatenate([np.flatnonzero(y == d)[: setting.points // 2] for d in pair])
        inputs, labels = X[chosen], y[chosen]
        grams = kernels(inputs, degree=2, width=1.0 if setting.data else None)
        grams["MVU"], proof = mvu_kernel(inputs)
        errors = {name: _svm_error(SVC, gram, labels, setting.runs) for name, gram in grams.items()}
        totals += list(errors.values())
        bars[f"{pair[0]} vs {pair[1]}"] = tuple(errors.values())
        for (name, error), theirs in zip(errors.items(), published, strict=True):
            words = {"first": pair[0], "second": pair[1], "name": name, "theirs": theirs}
            certified = proof if name == "MVU" else NO_PROGRAM
            yield PAPER.claim("pair", f"{error:.2f} %", None, certified, **words)
    best = totals[:3].min()
    ours = f"{totals[3] / 4:.2f} % against {best / 4:.2f} %"
    yield PAPER.claim("MVU is worse", ours, totals[3] > best)
    yield PAPER.claim("MVU is the worst", listed(totals / 4, 2), totals[3] > totals[:3].max())
    yield Bars("test errors, per cent", bars, ("linear", "polynomial", "Gaussian", "MVU"))


def _svm_error(machine: Any, gram: Array, y: NDArray[Any], runs: int) -> float:
    """The mean error in per cent over 90/10 splits; C as scikit-learn has it, scaled kernel."""
    scaled = gram / np.mean(np.diag(gram))
    wrong = []
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: int(0.9 * len(y))], order[int(0.9 * len(y)) :]
        model = machine(kernel="precomputed", C=10.0).fit(scaled[np.ix_(train, train)], y[train])
        wrong.append(np.mean(model.predict(scaled[np.ix_(test, train)]) != y[test]))
    return 100 * float(np.mean(wrong))


def boundary(setting: Setting) -> Items:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    X = sdpkit.datasets.swiss_roll(setting.points, noise_dims=0)
    y = (X[:, 0] > 0).astype(int)
    gram, proof = mvu_kernel(X)
    flat, folded = (_svm_error(SVC, one, y, 10) for one in (X @ X.T, gram))
    for name, words, error, holds, certified in (
        ("inputs", "linearly separable", flat, flat < 5, NO_PROGRAM),
        ("MVU kernel", "worse", folded, folded > flat + 5, proof),
    ):
        ours = f"{error:.1f} %"
        yield PAPER.claim("linear SVM", ours, holds, certified, name=name, published=words)
    points, _ = kernel_pca(gram)
    model = KNeighborsClassifier(3)
    wrong = [
        100 * float(1 - np.mean(model.fit(Z[::2], y[::2]).predict(Z[1::2]) == y[1::2]))
        for Z in (X, points[:, :2])
    ]
    yield PAPER.claim("nearest neighbours", f"{wrong[0]:.1f} and {wrong[1]:.1f} %", None)
    yield Scatter("inputs", X[:, [0, 2]], y)
    yield Scatter("unfolded", points, y)


def negative(setting: Setting) -> Items:
    from sklearn.manifold import Isomap

    sets = {"twos": handwritten((2,), setting.points, setting.data, "usps")}
    if setting.data is not None and (setting.data / "teapots100.npz").exists():
        sets["teapots"] = teapots(setting.data)
    for name, X in sets.items():
        gram, proof = mvu_kernel(X)
        lengths = Isomap(n_neighbors=4).fit(X).dist_matrix_ ** 2
        centre = np.eye(len(X)) - 1 / len(X)
        values = np.linalg.eigvalsh(-0.5 * centre @ lengths @ centre)
        largest = values[np.argsort(-np.abs(values))[:20]]
        count = int((largest < 0).sum())
        ours = f"{count}, the least {values[0] / values[-1]:.3f} of the largest"
        yield PAPER.claim("Isomap", ours, count > 0, name=name)
        least = float(np.linalg.eigvalsh(gram)[0]) / float(np.trace(gram))
        yield PAPER.claim("MVU", f"{least:.1e}", least > -1e-8, proof, name=name)
        leading = np.linalg.eigvalsh(gram)[::-1][:20]
        groups = {"Isomap": largest / values[-1], "MVU": leading / leading[0]}
        yield Bars(name, groups, [str(i) for i in range(1, 21)])


# Table 2 of the lecture: USPS, linear SVM on components of kernel PCA; degrees 1, 2, 3, 4.
_LECTURE = {32: (9.6, 8.8, 8.1, 8.5), 64: (8.8, 7.3, 6.8, 6.7), 128: (8.6, 5.8, 5.9, 6.1)}


def components(setting: Setting) -> Items:
    from sklearn.decomposition import KernelPCA
    from sklearn.svm import LinearSVC

    X, y = small_set("digits") if setting.data is None else labelled(setting.data, "usps")
    order = np.random.default_rng(0).permutation(len(X))[: setting.points]
    X, y = X[order] / np.abs(X).max(), y[order]
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.square(X).sum(axis=1).mean())
    cut = int(0.7 * len(X))
    curves: dict[str, list[float]] = {str(degree): [] for degree in (1, 2, 3, 4)}
    for count, published in _LECTURE.items():
        for degree in (1, 2, 3, 4):
            # New points are projected by scikit-learn.
            model = KernelPCA(
                min(count, X.shape[1] if degree == 1 else count),
                kernel="poly",
                degree=degree,
                gamma=1.0,
                coef0=0.0,
                eigen_solver="dense",
            ).fit(X[:cut])
            train, test = (model.transform(part) for part in (X[:cut], X[cut:]))
            scale = train.std(axis=0).max()
            machine = LinearSVC(C=10.0, dual=False, tol=1e-3).fit(train / scale, y[:cut])
            error = 100 * float(np.mean(machine.predict(test / scale) != y[cut:]))
            curves[str(degree)].append(error)
            words = {"count": count, "degree": degree, "theirs": published[degree - 1]}
            yield PAPER.claim("components", f"{error:.1f} %", None, **words)
    linear, *others = (min(errors) for errors in curves.values())
    yield PAPER.claim("degree 1", *more(linear, min(others), ".1f", " %"))
    groups = {f"degree {degree}": errors for degree, errors in curves.items()}
    yield Bars("test errors, per cent", groups, [f"{count} components" for count in _LECTURE])


ENTRIES = PAPER.entries(globals())
