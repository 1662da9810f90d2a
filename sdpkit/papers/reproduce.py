"""Tables and figures of the papers, next to the published numbers: `sdpkit reproduce NAME`.

Each row says what was published, what comes out here, and how that was certified. The papers do
not always describe their data; what had to be assumed is said with every table. Where a figure
shows bars without numbers, the published column holds what the text says about them.

References: K. Weinberger, Metric Learning with Convex Optimization, 2007 ("the thesis");
T. Jebara's lecture on embedding by semidefinite programs ("the lecture").
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import arrays, quiet_solve, timed_solve
from sdpkit.errors import InputError
from sdpkit.papers.bench import engines, lmnn
from sdpkit.plotting import plot_bars, plot_metrics
from sdpkit.results.metric import Metric
from sdpkit.results.quality import Quality, evaluate
from sdpkit.solution.solution import Solution, Status

__all__ = ["PAPERS", "Options", "Paper", "Reproduction", "Row", "reproduce"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One number of a paper: what it is, as published, as found here, and the proof."""

    what: str
    published: str
    ours: str
    certified: str
    proven: bool = True


@dataclass(frozen=True)
class Options:
    """What a reader may choose: a folder of data, sizes and repetitions other than the paper's,
    and a file for the picture."""

    data: Path | None = None
    points: int | None = None
    runs: int | None = None
    picture: Path | None = None


@dataclass(frozen=True)
class Paper:
    """A table or figure: where it stands, how it is made, what was assumed about its data."""

    title: str
    source: str
    make: Callable[[Options], Iterator[Row]]
    assumed: tuple[str, ...] = ()
    picture: str = ""


@dataclass(frozen=True)
class Reproduction:
    """The rows of one table or figure."""

    name: str
    title: str
    source: str
    rows: tuple[Row, ...]
    assumed: tuple[str, ...]
    picture: str

    @property
    def proven(self) -> bool:
        """Whether every program behind the rows was certified."""
        return all(row.proven for row in self.rows)

    def __str__(self) -> str:
        head = ("", "published", "ours", "certified")
        cells = [(row.what, row.published, row.ours, row.certified) for row in self.rows]
        widths = [max(len(line[k]) for line in [head, *cells]) for k in range(4)]
        lines = [f"{self.title}  ({self.source})", ""]
        for line in [head, *cells]:
            lines.append("  ".join(word.ljust(w) for word, w in zip(line, widths, strict=True)))
        lines += ["", *(f"assumed: {words}" for words in self.assumed)]
        lines += [f"picture: {self.picture}"] * bool(self.picture)
        return "\n".join(line.rstrip() for line in lines)

    def to_json(self) -> str:
        """Everything as one JSON object."""
        return json.dumps({**asdict(self), "proven": self.proven}, ensure_ascii=False)


def reproduce(name: str, options: Options = Options()) -> Reproduction:  # noqa: B008
    """Make one of the tables or figures of `PAPERS`.

    >>> print(reproduce("figure-2.10"))                                   # doctest: +SKIP
    """
    if name not in PAPERS:
        raise InputError(f"there is no {name!r}; there are {', '.join(PAPERS)}")
    paper = PAPERS[name]
    if options.picture is not None and not paper.picture:
        raise InputError(f"{name} is a table: there is no picture to write to {options.picture}")
    drawn = options.picture
    if paper.picture and drawn is None and importlib.util.find_spec("matplotlib"):
        drawn = Path(paper.picture)
    chosen = Options(options.data, options.points, options.runs, drawn)
    rows = tuple(paper.make(chosen))
    return Reproduction(name, paper.title, paper.source, rows, paper.assumed, str(drawn or ""))


def _proof(solution: Solution) -> tuple[str, bool]:
    """How a solution was certified, in words, and whether it was."""
    gap = solution.certificate.relative_gap
    words = f"{solution.status} by {solution.solver}, gap {gap:.1e}"
    return words, solution.status in (Status.OPTIMAL, Status.STATIONARY)


# -- the lecture ----------------------------------------------------------------------------------


def _lecture(options: Options) -> Iterator[Row]:
    for name, published, given in engines.lecture_sets(options.data):
        found = engines.fidelities(**given)
        proofs = [("no program", True), _proof(found.mvu[1]), _proof(found.mve[1])]
        proofs[2] = (f"{proofs[2][0]}; {100 * found.of_bound:.2f} % of MVU's bound", proofs[2][1])
        for method, theirs, share, (words, proven) in zip(
            ("kernel PCA", "SDE (MVU)", "MVE"), published, found.shares, proofs, strict=True
        ):
            yield Row(f"{name}: {method}", f"{theirs:.1f} %", f"{100 * share:.1f} %", words, proven)


# -- thesis, chapter 2 ----------------------------------------------------------------------------

# Table 2.1: kNN test error on the raw (PCA) inputs, leave-one-out error of LMNN on the training
# set, in per cent, and seconds of processor for one metric. Test errors of LMNN: `lmnn.PUBLISHED`.
_TABLE_2_1 = {"iris": (4.87, 3.28, 2.0), "balance": (11.97, 9.00, 6.0), "wine": (25.00, 6.12, 14.0)}


def _small_set(name: str) -> tuple[Array, NDArray[Any]]:
    from sklearn import datasets

    if name == "balance":
        return sdpkit.datasets.balance_scale()
    X, y = {"iris": datasets.load_iris, "wine": datasets.load_wine}[name](return_X_y=True)
    return X, y


def _table_2_1(options: Options) -> Iterator[Row]:
    runs = options.runs or 100
    for name, (raw, training, seconds) in _TABLE_2_1.items():
        X, y = _small_set(name)
        k = _validated_neighbors(X, y, min(runs, 10))
        splits = [_split_errors(X, y, seed, k) for seed in range(runs)]
        errors = 100 * np.array([errors for errors, _, _ in splits])
        solutions = [solution for _, solution, _ in splits]
        gaps = [solution.certificate.relative_gap for solution in solutions]
        good = sum(solution.status == Status.OPTIMAL for solution in solutions)
        words = f"optimal on {good} of {runs} splits, largest gap {max(gaps):.1e}"
        knn, energy = lmnn.PUBLISHED[name]
        published = (raw, training, knn, energy)
        for j, what in enumerate(
            ("raw inputs, kNN, test", "LMNN, kNN, training", "LMNN, kNN, test", "energy, test")
        ):
            ours = f"{errors[:, j].mean():.2f} ± {errors[:, j].std():.2f} %"
            proof = ("no program", True) if j == 0 else (words, good == runs)
            yield Row(f"{name}, k = {k}: {what}", f"{published[j]:.2f} %", ours, *proof)
        middle = float(np.median([taken for _, _, taken in splits]))
        yield Row(f"{name}: training", f"{seconds:g} s", f"{middle:.2g} s", words, good == runs)


def _validated_neighbors(X: Array, y: NDArray[Any], splits: int) -> int:
    """The k with the least error on 30 % of the training sets, learned from the other 70 %."""
    errors = dict.fromkeys((1, 3, 5, 7, 9, 11), 0.0)
    for seed in range(splits):
        X_part, y_part, X_held, y_held = lmnn.split(*lmnn.split(X, y, seed)[:2], seed)
        for k in errors:
            problem = sdpkit.LMNN(X_part, y_part, n_neighbors=k)
            metric = problem.recover(quiet_solve(problem))
            errors[k] += metric.error(X_held, y_held)
    return min(errors, key=lambda k: errors[k])


def _split_errors(
    X: Array, y: NDArray[Any], seed: int, k: int
) -> tuple[list[float], Solution, float]:
    """Errors on one split: raw kNN; LMNN leave-one-out, kNN and energy."""
    X_train, y_train, X_test, y_test = lmnn.split(X, y, seed)
    problem = sdpkit.LMNN(X_train, y_train, n_neighbors=k)
    run = timed_solve(problem)
    solution = run.result
    metric = problem.recover(solution)
    raw = lmnn.euclidean(metric)
    errors = [
        raw.error(X_test, y_test),
        metric.leave_one_out_error(),
        metric.error(X_test, y_test),
        metric.error(X_test, y_test, "energy"),
    ]
    return errors, solution, run.seconds


def _figure_2_10(options: Options) -> Iterator[Row]:
    metrics: list[Metric] = []
    titles: list[str] = []
    for count, metric, solution in lmnn.circle_metrics(lmnn.CIRCLES):
        error = f"{100 * metric.leave_one_out_error(1):.0f} %"
        metrics.append(metric)
        titles.append(f"{count} metric{'s' * (count > 1)}: error {error}")
        what = f"{count} metric{'s' * (count > 1)}: leave-one-out 1-NN error"
        yield Row(what, f"{lmnn.CIRCLES[count]:.0f} %", error, *_proof(solution))
    if options.picture is not None:
        plot_metrics(metrics, options.picture, titles)


# -- thesis, chapter 3 ----------------------------------------------------------------------------

# Table 3.2, column Swiss roll: local continuity, trust and intersection, l = 15.
_TABLE_3_2 = {
    "MVU": (1.000, 0.990, 0.990),
    "variational MVU, refined (LLE)": (0.956, 0.600, 0.824),
    "variational MVU, refined (Laplacian)": (0.989, 0.208, 0.607),
    "variational MVU (LLE)": (0.958, 0.672, 0.828),
    "variational MVU (Laplacian)": (0.784, 0.290, 0.665),
    "PCA": (0.836, 0.389, 0.397),
    "Isomap": (0.978, 0.964, 0.916),
    "Hessian LLE": (0.865, 0.873, 0.581),
    "Laplacian eigenmaps": (0.659, 0.282, 0.274),
    "LLE": (0.844, 0.173, 0.417),
}


def _table_3_2(options: Options) -> Iterator[Row]:
    X = sdpkit.datasets.swiss_roll(options.points or 2000, noise_dims=0)
    found: dict[str, tuple[Array, str, bool]] = {}
    problem = sdpkit.MVU(X, n_neighbors=5, connect="bridge")
    solution = quiet_solve(problem, tol=1e-3)
    found["MVU"] = (problem.recover(solution, n_components=2).coordinates, *_proof(solution))
    for basis, word in (("lle", "LLE"), ("laplacian", "Laplacian")):
        large = sdpkit.VariationalMVU(X, n_neighbors=15, basis=basis, n_basis=10)
        answer = quiet_solve(large)
        words, proven = _proof(answer)
        plain = large.recover(answer, n_components=2).coordinates
        fine = large.refine(answer, n_components=2).coordinates
        found[f"variational MVU ({word})"] = (plain, words, proven)
        found[f"variational MVU, refined ({word})"] = (fine, f"{words}, then local", proven)
    for name, coordinates in _by_scikit_learn(X):
        found[name] = (coordinates, "no semidefinite program", True)
    for name, published in _TABLE_3_2.items():
        coordinates, words, proven = found[name]
        yield Row(
            name,
            ", ".join(f"{value:.3f}" for value in published),
            ", ".join(f"{value:.3f}" for value in _measures(evaluate(X, coordinates, 15))),
            words,
            proven,
        )


def _measures(quality: Quality) -> tuple[float, float, float]:
    return (quality.local_continuity, quality.local_trust, quality.neighborhood_intersection)


def _by_scikit_learn(X: Array) -> Iterator[tuple[str, Array]]:
    """The other methods of Table 3.2, 15 neighbours, two dimensions."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import Isomap, LocallyLinearEmbedding, SpectralEmbedding

    local = {"n_neighbors": 15, "n_components": 2}
    exact = {**local, "eigen_solver": "dense", "random_state": 0}
    yield "PCA", PCA(2).fit_transform(X)
    yield "Isomap", Isomap(**local).fit_transform(X)
    yield "Hessian LLE", LocallyLinearEmbedding(method="hessian", **exact).fit_transform(X)
    laplacian = SpectralEmbedding(affinity="nearest_neighbors", random_state=0, **local)
    yield "Laplacian eigenmaps", laplacian.fit_transform(X)
    yield "LLE", LocallyLinearEmbedding(**exact).fit_transform(X)


def _figure_3_24(options: Options) -> Iterator[Row]:
    bars: dict[str, tuple[float, ...]] = {}
    for name, X, dimensions in _trace_sets(options):
        measured, solutions = [], []
        for form in ("equality", "min_trace"):
            problem = sdpkit.MVU(X, n_neighbors=4, form=form, connect="bridge")
            solution = quiet_solve(problem, tol=1e-4)
            outputs = problem.recover(solution, n_components=dimensions).coordinates
            measured.append(_measures(evaluate(X, outputs)))
            solutions.append(solution)
        most, least = (_proof(solution) for solution in solutions)
        bars[name] = tuple(low / high for high, low in zip(*measured, strict=True))
        for what, ratio in zip(("continuity", "trust", "intersection"), bars[name], strict=True):
            words = f"max: {most[0]}; min: {least[0]}"
            yield Row(f"{name}: {what}", "below 1", f"{ratio:.3f}", words, most[1] and least[1])
    if options.picture is not None:
        names = ("local continuity", "local trust", "intersection")
        label = "minimum trace relative to maximum trace"
        plot_bars(bars, names, options.picture, label=label, line=1.0)


def _trace_sets(options: Options) -> Iterator[tuple[str, Array, int]]:
    """(name, inputs, dimensions looked at) of figure 3.24."""
    yield "Swiss roll", sdpkit.datasets.swiss_roll(options.points or 300, noise_dims=0), 2
    if options.data is None:
        from sklearn.datasets import load_digits

        digits = load_digits()
        yield "fives (scikit-learn)", digits.data[digits.target == 5].astype(np.float64), 10
        return
    mnist = arrays(options.data, "mnist")
    fives = mnist["X"][mnist["y"] == 5][: options.points or 500]
    yield "fives (MNIST)", fives.astype(np.float64), 10
    frames = arrays(options.data, "teapots100")["X"]
    yield "teapots", frames.astype(np.float64), 2


def _figure_3_28(options: Options) -> Iterator[Row]:
    n = options.points or 300
    X = sdpkit.datasets.swiss_roll(n, noise=0.05)
    spectrum = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    inputs = spectrum / spectrum.sum()
    bars: dict[str, tuple[float, ...]] = {}
    for k in (4, 5, 6, 7, 8, 9, 10):
        problem = sdpkit.MVU(X, n_neighbors=k, connect="bridge")
        solution = quiet_solve(problem, tol=1e-3)
        found = problem.recover(solution, n_components=2)
        shares = found.eigenvalues[:3] / (found.variance or found.eigenvalues.sum())
        mean = evaluate(X, found.coordinates).harmonic_mean
        bars[f"k = {k}"] = (mean, *shares)
        published = {4: "among the best, two dimensions", 5: "among the best", 6: "among the best"}
        yield Row(
            f"k = {k}: harmonic mean; shares of λ₁, λ₂, λ₃",
            published.get(k, "locked, spectrum as PCA's"),
            f"{mean:.3f}; " + ", ".join(f"{share:.3f}" for share in shares),
            *_proof(solution),
        )
    yield Row("PCA of the inputs: shares", "almost equal", _list(inputs[:3]), "no program")
    if options.picture is not None:
        names = ("harmonic mean of the measures", "share of λ₁", "share of λ₂", "share of λ₃")
        plot_bars(bars, names, options.picture, label=f"Swiss roll, n = {n}")


def _list(values: Array) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


_ROLL = "the roll is sdpkit.datasets.swiss_roll, without noise, equality form"
_NO_FREY = "the Frey faces are not included; bars are read as the text says: all below 1"

PAPERS: dict[str, Paper] = {
    "lecture-fidelity": Paper(
        "Share of the variance in two dimensions, by kernel PCA, SDE and MVE",
        "the lecture, last table",
        _lecture,
        (
            "the lecture describes neither noise nor sizes: ours are a star of 8 spokes of 5 with "
            "50 dimensions of noise, a roll of 400 points, scikit-learn's 177 twos, and with "
            "--data a collaboration network of 379 nodes",
            "the lecture's faces are not included",
        ),
    ),
    "table-2.1": Paper(
        "LMNN on the small sets: errors and times",
        "thesis, Table 2.1",
        _table_2_1,
        (
            "k from 1, 3, …, 11 by validation on 30 % of the training sets of ten splits, μ = 0.5; "
            "70/30 splits of all points (the thesis counts about six sevenths of each set)",
            "the thesis does not give its range of k; with k = 3 throughout, errors on balance are "
            "about twice the published ones",
            "± is the standard deviation over splits; times are by the clock, the program included",
        ),
    ),
    "figure-2.10": Paper(
        "Two concentric circles with one, two and three metrics",
        "thesis, figure 2.10",
        _figure_2_10,
        ("40 points on each circle, radii 1 and 1.14; clusters by k-means",),
        "figure-2.10.png",
    ),
    "table-3.2": Paper(
        "Swiss roll: local continuity, trust and intersection, l = 15",
        "thesis, Table 3.2, column Swiss roll",
        _table_3_2,
        (
            f"{_ROLL}; MVU with k = 5, the others with k = 15, two dimensions",
            "variational MVU with 10 eigenvectors; the other methods are scikit-learn's",
        ),
    ),
    "figure-3.24": Paper(
        "Minimum trace relative to maximum trace embeddings",
        "thesis, figure 3.24",
        _figure_3_24,
        (
            f"{_ROLL}, 300 points unless --points says otherwise; k = 4, measures at l = 5, ten "
            "dimensions for the fives",
            _NO_FREY,
        ),
        "figure-3.24.png",
    ),
    "figure-3.28": Paper(
        "A Swiss roll unfolded with varying k",
        "thesis, figure 3.28",
        _figure_3_28,
        (
            "not the published setting: 1000 points of the roll without noise do not lock at k = 7 "
            "here (certified for k = 4 to 7); 300 points with noise of 0.05 were chosen after that "
            "because the lock is seen there and every k is certified",
            "(--points asks for others); 300 points without noise lock at k = 8 too, but k = 7 and "
            "8 are not certified; equality form, measures at l = 5",
        ),
        "figure-3.28.png",
    ),
}
