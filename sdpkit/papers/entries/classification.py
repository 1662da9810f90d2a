"""Weinberger (2007), Table 2.1 in all its rows, and figures 2.9 and 2.12 that show parts of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdpkit
from sdpkit.comparison.measuring import labelled, quiet_solve
from sdpkit.papers.entry import NO_PROGRAM, Entry, Proof, Row, Setting
from sdpkit.papers.images import deskew
from sdpkit.papers.pictures import Bars, Panel
from sdpkit.papers.sets import small_set, split
from sdpkit.papers.sources import THESIS
from sdpkit.results.metric import Metric
from sdpkit.solution.solution import Solution
from sdpkit.typing import Array

Labels = NDArray[Any]
Items = Iterator[Row | Panel]

SETS = ("mnist", "letter", "iris", "balance", "wine")
METHODS = ("PCA", "LDA", "PCA-LMNN", "LDA-LMNN", "MUL-LMNN", "MM-LMNN")
MEASURES = ("train, kNN", "test, kNN", "test, energy")
# Errors in per cent, by measure and method, of the five sets at hand in the order of SETS.
_PUBLISHED: dict[tuple[str, str], tuple[float, ...]] = {
    ("train, kNN", "PCA"): (1.93, 4.67, 4.20, 11.06, 24.36),
    ("train, kNN", "LDA"): (6.57, 4.33, 2.46, 10.65, 0.26),
    ("train, kNN", "PCA-LMNN"): (1.19, 3.54, 3.28, 9.00, 6.12),
    ("train, kNN", "LDA-LMNN"): (6.62, 3.24, 2.98, 9.69, 0.23),
    ("train, kNN", "MUL-LMNN"): (1.15, 2.58, 3.47, 7.35, 4.77),
    ("train, kNN", "MM-LMNN"): (0.04, 1.55, 3.13, 9.00, 6.12),
    ("test, kNN", "PCA"): (2.12, 4.63, 4.87, 11.97, 25.00),
    ("test, kNN", "LDA"): (6.16, 4.34, 2.58, 11.84, 1.98),
    ("test, kNN", "PCA-LMNN"): (1.72, 3.62, 4.08, 9.29, 8.39),
    ("test, kNN", "LDA-LMNN"): (6.17, 3.40, 3.79, 10.09, 2.11),
    ("test, kNN", "MUL-LMNN"): (1.69, 2.84, 3.76, 7.71, 7.30),
    ("test, kNN", "MM-LMNN"): (1.18, 3.20, 4.37, 9.29, 8.39),
    ("test, energy", "PCA"): (2.39, 3.77, 3.82, 11.71, 50.41),
    ("test, energy", "LDA"): (10.23, 3.36, 2.63, 12.23, 2.11),
    ("test, energy", "PCA-LMNN"): (1.37, 2.67, 4.00, 8.86, 7.67),
    ("test, energy", "LDA-LMNN"): (5.56, 2.33, 2.82, 10.06, 2.04),
    ("test, energy", "MUL-LMNN"): (1.27, 2.38, 3.34, 12.01, 7.85),
    ("test, energy", "MM-LMNN"): (1.23, 2.84, 3.84, 8.88, 8.04),
    ("test, SVM", "SVM"): (1.20, 1.95, 3.45, 1.92, 22.24),
}
_NEIGHBORS = (1, 3, 5, 7, 9, 11)


@dataclass
class Trials:
    """Errors in per cent over splits, by (measure, method), and the programs behind them."""

    errors: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    solutions: dict[str, list[Solution]] = field(default_factory=dict)

    def add(self, method: str, metric: Metric, X: Array, y: Labels, *used: Solution) -> None:
        """Judge a metric on new points."""
        values = (metric.leave_one_out_error(), metric.error(X, y), metric.error(X, y, "energy"))
        for measure, value in zip(MEASURES, values, strict=True):
            self.errors.setdefault((measure, method), []).append(100 * value)
        self.solutions.setdefault(method, []).extend(used)

    def proof(self, method: str) -> Proof:
        """The certificates of a method's programs."""
        found = self.solutions.get(method, [])
        return Proof.of_all(found) if found else NO_PROGRAM


def learned(problem: sdpkit.LMNN, **options: Any) -> tuple[Metric, Solution]:
    """LMNN's metric and its solution."""
    solution = quiet_solve(problem, **options)
    return problem.recover(solution), solution


def validated(X: Array, y: Labels, splits: int, passes: int = 1) -> tuple[int, int]:
    """The k with the least error on 30 % of the training sets, learned from the other 70 %, and
    the number of passes of LMNN with that k that does best there."""
    errors = np.zeros((len(_NEIGHBORS), passes))
    for seed in range(splits):
        X_part, y_part, X_held, y_held = split(*split(X, y, seed)[:2], seed)
        for row, k in enumerate(_NEIGHBORS):
            problem = sdpkit.LMNN(X_part, y_part, n_neighbors=k)
            metric, solution = learned(problem)
            errors[row, 0] += metric.error(X_held, y_held)
            for further in range(1, passes):
                problem = problem.next_pass(solution)
                metric, solution = learned(problem)
                errors[row, further] += metric.error(X_held, y_held)
    best = int(errors[:, 0].argmin())
    return _NEIGHBORS[best], int(errors[best].argmin()) + 1


def one_split(
    trials: Trials,
    parts: tuple[Array, Labels, Array, Labels],
    k: int,
    passes: int,
    methods: tuple[str, ...] = METHODS,
    **limits: Any,
) -> None:
    """The methods of the table on one split, or some of them."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y, X_test, y_test = parts
    lda = LinearDiscriminantAnalysis().fit(X, y)
    for before, (A, B) in {
        "PCA": (X, X_test),
        "LDA": (lda.transform(X), lda.transform(X_test)),
    }.items():
        trials.add(
            before, Metric.from_components(np.eye(A.shape[1]), A, y, n_neighbors=k), B, y_test
        )
        problem = sdpkit.LMNN(A, y, n_neighbors=k)
        metric, solution = learned(problem, **limits)
        trials.add(f"{before}-LMNN", metric, B, y_test, solution)
        if before == "LDA":
            continue
        if "MUL-LMNN" in methods:
            used, again, last = [solution], problem, solution
            for _ in range(1, passes):
                again = again.next_pass(last)
                metric, last = learned(again, **limits)
                used.append(last)
            trials.add("MUL-LMNN", metric, B, y_test, *used)
        if "MM-LMNN" in methods:
            several = sdpkit.LMNN(A, y, n_neighbors=k, metrics="per_class")
            metric, solution = learned(several, **limits)
            trials.add("MM-LMNN", metric, B, y_test, solution)


def svm_error(X: Array, y: Labels, X_test: Array, y_test: Labels) -> float:
    """Scikit-learn's SVM; kernel and C by three-fold cross-validation on the training set."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    grid = [
        {"kernel": ["linear"], "C": [1.0]},
        {"kernel": ["poly"], "degree": [2, 3], "coef0": [1.0], "C": [1.0, 100.0]},
        {"kernel": ["rbf"], "C": [1.0, 100.0]},
    ]
    # Inputs in other units would make the linear machine run for ever.
    scale = np.abs(X).max()
    model = GridSearchCV(SVC(max_iter=200_000), grid, cv=3).fit(X / scale, y)
    return 100 * float(np.mean(model.predict(X_test / scale) != y_test))


def _rows(name: str, k: int, trials: Trials) -> Iterator[Row]:
    """The rows of one set; errors agree within two deviations of our splits, and one split alone
    is shown without judgement."""
    column = SETS.index(name)
    for (measure, method), values in trials.errors.items():
        deviation = float(np.std(values))
        row = Row.number(
            f"{name}, k = {k}: {method}, {measure}",
            _PUBLISHED[measure, method][column],
            float(np.mean(values)),
            2 * deviation,
            " %",
            trials.proof(method),
            deviation if len(values) > 1 else None,
        )
        yield row if len(values) > 1 else replace(row, agrees=None)


def _learning_helps(name: str, trials: Trials) -> Row:
    """What the table shows on every set but the smallest."""
    raw, found = (
        float(np.mean(trials.errors["test, kNN", method])) for method in ("PCA", "PCA-LMNN")
    )
    return Row.claim(
        f"{name}: LMNN against raw inputs, test, kNN",
        "less",
        f"{found:.2f} against {raw:.2f} %",
        found < raw,
        trials.proof("PCA-LMNN"),
    )


def _small(setting: Setting) -> Items:
    bars: dict[str, tuple[float, ...]] = {}
    for name in ("iris", "balance", "wine"):
        X, y = small_set(name)
        k, passes = validated(X, y, min(setting.runs, 10), passes=3)
        trials = Trials()
        for seed in range(setting.runs):
            parts = split(X, y, seed)
            one_split(trials, parts, k, passes)
            key = ("test, SVM", "SVM")
            trials.errors.setdefault(key, []).append(svm_error(*parts))
        yield from _rows(name, k, trials)
        yield _learning_helps(name, trials)
        bars[name] = tuple(float(np.mean(trials.errors["test, kNN", m])) for m in METHODS)
    yield Bars("test errors of kNN, per cent", bars, METHODS)


def _letters(setting: Setting) -> Items:
    assert setting.data is not None
    X, y = labelled(setting.data, "letter")
    X, y = X[: setting.points], y[: setting.points]
    trials, one = Trials(), Trials()
    for seed in range(setting.runs):
        X_train, y_train, X_test, y_test = split(X, y, seed)
        metric, solution = learned(sdpkit.LMNN(X_train, y_train))
        trials.add("PCA-LMNN", metric, X_test, y_test, solution)
        error = 100 * metric.error(X_test, y_test, "energy", 1)
        one.errors.setdefault(("test, energy", "PCA-LMNN"), []).append(error)
        one.solutions.setdefault("PCA-LMNN", []).append(solution)
        if seed == 0:
            # The other methods once; several passes and a metric per class take minutes.
            single, parts = Trials(), (X_train, y_train, X_test, y_test)
            wanted = tuple(m for m in METHODS if not (setting.quick and m[:2] in ("MU", "MM")))
            one_split(single, parts, 3, 3, wanted, time_limit=600)
            for key in list(single.errors):
                if key[1] != "PCA-LMNN":
                    trials.errors[key] = single.errors[key]
                    trials.solutions[key[1]] = single.solutions[key[1]]
    yield from _rows("letter", 3, trials)
    yield from _rows("letter", 1, one)
    yield _learning_helps("letter", trials)
    made = dict.fromkeys(method for _, method in trials.errors)
    groups = {m: [float(np.mean(trials.errors[r, m])) for r in MEASURES] for m in made}
    yield Bars("letters: errors, per cent", groups, MEASURES)


def _mnist(setting: Setting) -> Items:
    assert setting.data is not None
    X, y = labelled(setting.data, "mnist")
    train = np.arange(setting.points)
    test = np.arange(60000, 60000 + max(500, setting.points // 6))
    if len(X) < 70000:  # a part of the set: the first six sevenths are for training
        cut = 6 * len(X) // 7
        train, test = np.arange(cut), np.arange(cut, len(X))
    X, y = deskew(X[np.r_[train, test]]), y[np.r_[train, test]]
    n = len(train)
    mean = X[:n].mean(axis=0)
    directions = np.linalg.eigh((X[:n] - mean).T @ (X[:n] - mean))[1][:, ::-1]
    X = (X - mean) @ directions[:, :164]
    metric, solution = learned(sdpkit.LMNN(X[:n], y[:n]))
    raw = Metric.from_components(np.eye(X.shape[1]), X[:n], y[:n])
    rules: dict[str, Any] = {"test, kNN": "knn", "test, energy": "energy"}
    errors: dict[tuple[str, str], float] = {}
    for method, judged, proof in (
        ("PCA", raw, NO_PROGRAM),
        ("PCA-LMNN", metric, Proof.of(solution)),
    ):
        for measure, rule in rules.items():
            error = 100 * judged.error(X[n:], y[n:], rule)
            published = _PUBLISHED[measure, method][0]
            what = f"mnist, k = 3, {n} for training: {method}, {measure}"
            row = Row.number(what, published, error, 0.2, " %", proof)
            # Fewer points are another experiment: the published number is only shown.
            yield row if n == 60000 else replace(row, agrees=None)
            errors[method, measure] = error
    for measure in rules:
        pair = errors["PCA", measure], errors["PCA-LMNN", measure]
        words = f"{pair[1]:.2f} against {pair[0]:.2f} %"
        yield Row.claim(f"LMNN against PCA, {measure}", "less", words, pair[1] < pair[0])
    methods = ("PCA", "PCA-LMNN")
    groups = {measure: [errors[m, measure] for m in methods] for measure in rules}
    yield Bars("MNIST: errors, per cent", groups, methods)


def _relative(method: str) -> Callable[[Setting], Items]:
    """Figures 2.9 and 2.12: an extension's error over that of one metric, one pass."""

    def make(setting: Setting) -> Items:
        bars: dict[str, tuple[float, ...]] = {}
        sets: dict[str, tuple[Array, Labels]] = {
            name: small_set(name) for name in ("iris", "balance", "wine", "digits")
        }
        if setting.data is not None:
            sets["letter"] = labelled(setting.data, "letter")
        for name, (X, y) in sets.items():
            trials = Trials()
            for seed in range(setting.runs):
                order = np.random.default_rng(100 + seed).permutation(len(X))[: setting.points]
                few = X[order], y[order]
                one_split(trials, split(*few, seed), 3, 3, (method,), time_limit=60)
            mean = {key: float(np.mean(values)) for key, values in trials.errors.items()}
            ratios = tuple(
                mean[measure, method] / max(mean[measure, "PCA-LMNN"], 1e-9) for measure in MEASURES
            )
            bars[name] = ratios
            published: tuple[float, ...] = ()
            if name in SETS:
                at = SETS.index(name)
                published = tuple(
                    _PUBLISHED[m, method][at] / _PUBLISHED[m, "PCA-LMNN"][at] for m in MEASURES
                )
            for measure, ours, theirs in zip(
                MEASURES, ratios, published or (None,) * 3, strict=True
            ):
                yield Row.claim(
                    f"{name}: {measure}, relative to one metric and one pass",
                    "" if theirs is None else f"{theirs:.2f}",
                    f"{ours:.2f}",
                    None,
                    trials.proof(method),
                )
        training = [ratios[0] for ratios in bars.values()]
        yield Row.claim(
            "training error, geometric mean of the ratios",
            "below 1: improves or stays",
            f"{np.exp(np.mean(np.log(np.maximum(training, 1e-2)))):.2f}",
            float(np.mean(np.log(np.maximum(training, 1e-2)))) < 0,
        )
        yield Bars("errors relative to LMNN", bars, MEASURES)

    return make


_PROTOCOL = (
    "k from 1, 3, …, 11 and one to three passes by validation on 30 % of the training sets of up "
    "to ten splits, μ = 0.5; 70/30 splits of all points (the thesis counts six sevenths of each)"
)
_AGREES = "errors agree if they differ by no more than two standard deviations over our splits"

ENTRIES = {
    "table-2.1": Entry(
        "Small sets: PCA, LDA, LMNN by kNN and by energy, several passes, several metrics, SVM",
        f"{THESIS}, Table 2.1",
        _small,
        (
            _PROTOCOL,
            _AGREES,
            "the thesis does not give its range of k; kernels and C of the SVM by three-fold "
            "cross-validation, inputs divided by their largest entry",
        ),
        runs=(10, 100),
        seconds=111,
        differs="the reasons have not been found: on wine, leave-one-out errors of LMNN on the "
        "training set are near zero here (certified optima) and those of the raw inputs "
        "are higher than published. A polynomial kernel separates the classes of "
        "balance exactly, hence no errors of the SVM",
    ),
    "table-2.1-letters": Entry(
        "Letters: all rows but the SVM",
        f"{THESIS}, Table 2.1",
        _letters,
        (
            "k = 3; for the energy rule k = 1 was added after test errors had been seen, and both "
            "are shown (the thesis chose k by cross-validation)",
            "all methods but LMNN itself on the first split only; three passes and a metric per "
            "class in the full version only",
            "errors agree within two deviations of our splits; two splits estimate these badly",
        ),
        points=(20000, 20000),
        runs=(2, 10),
        needs=("letter",),
        seconds=51,
        growth=1.7,
        differs="energy rule: 3.2 % with k = 3 and 2.8 % with k = 1 on two splits, whose "
        "deviation is small by chance; ten splits in docs/lmnn.md have 2.69 ± 0.20 % "
        "with k = 1, which agrees, and 3.14 ± 0.20 % with k = 3, which does not",
    ),
    "table-2.1-mnist": Entry(
        "MNIST, deskewed, 164 dimensions",
        f"{THESIS}, Table 2.1",
        _mnist,
        (
            "deskewed by moments, PCA to 164 dimensions, k = 3, μ = 0.5; the quick version has "
            "10,000 points for training",
            "errors agree within 0.2 points",
        ),
        points=(10000, 60000),
        needs=("mnist",),
        seconds=15,
        growth=1.2,
        differs="not judged with fewer than 60,000 points. docs/lmnn.md has all of them: kNN "
        "1.35 % against 1.72 % published, energy 1.33 % against 1.37 %, deskewed by "
        "moments; the thesis does not say how it deskewed. As the images are, both are "
        "at 2.0 %",
    ),
    "figure-2.9": Entry(
        "Several passes of LMNN relative to one",
        f"{THESIS}, figure 2.9",
        _relative("MUL-LMNN"),
        (
            "k = 3 and three passes on every set; digits of scikit-learn in addition",
            "ratios below 0.01 count as 0.01 in the mean",
        ),
        points=(300, 2000),
        runs=(1, 5),
        uses=("letter",),
        seconds=2.5,
        growth=1.7,
    ),
    "figure-2.12": Entry(
        "A metric per class relative to one metric",
        f"{THESIS}, figure 2.12",
        _relative("MM-LMNN"),
        (
            "k = 3 on every set; digits of scikit-learn in addition",
            "ratios below 0.01 count as 0.01 in the mean",
        ),
        points=(300, 2000),
        runs=(1, 5),
        uses=("letter",),
        seconds=3.6,
        growth=1.7,
    ),
}
