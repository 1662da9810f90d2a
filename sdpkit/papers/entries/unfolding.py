"""Unfolding and its spectra (Weinberger 2007, section 3.1.5 on): figures 3.5 to 3.15, 3.25, 3.26,
3.31."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.papers.entry import Proof, Row, Setting, listed
from sdpkit.papers.pictures import Bars, Panel, Scatter
from sdpkit.papers.published import Published
from sdpkit.papers.sets import handwritten, teapots
from sdpkit.typing import Array

Items = Iterator[Row | Panel]
PAPER = Published.of("unfolding")


@dataclass(frozen=True, eq=False)
class Unfolded:
    """Outputs in two dimensions (or three), the shares of the spectrum and the certificate."""

    coordinates: Array
    shares: Array
    variance: float
    proof: Proof


def unfold(X: Array, k: int, *, tol: float = 1e-3, dimensions: int = 3, **options: Any) -> Unfolded:
    """MVU of X with k neighbours."""
    problem = sdpkit.MVU(X, n_neighbors=k, connect="bridge", **options)
    solution = quiet_solve(problem, tol=tol)
    found = problem.recover(solution, n_components=dimensions)
    variance = float(found.variance or found.eigenvalues.sum())
    return Unfolded(found.coordinates, found.eigenvalues / variance, variance, Proof.of(solution))


def pca_shares(X: Array) -> Array:
    """The spectrum of PCA as shares of the variance."""
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    return np.asarray(values / values.sum())


def significant(shares: Array, least: float = 0.01) -> int:
    """How many dimensions hold more than a share of the variance."""
    return int((shares > least).sum())


def needed(shares: Array, share: float = 0.95) -> int:
    """How many leading dimensions hold a share of the variance together."""
    return int(np.searchsorted(np.cumsum(shares), share) + 1)


def ring_order(coordinates: Array) -> float:
    """The share of points whose successor around the ring is a neighbour in the given order."""
    n = len(coordinates)
    order = np.arctan2(coordinates[:, 1], coordinates[:, 0]).argsort()
    steps = np.diff(order, append=order[0]) % n
    return float(np.isin(steps, (1, n - 1)).mean())


def _roll(setting: Setting) -> Items:
    X, places = sdpkit.datasets.swiss_roll(setting.points, return_parameters=True)
    found = unfold(X, 6, angles=True)
    yield PAPER.claim(
        "roll",
        f"{significant(found.shares)} (shares {listed(found.shares[:4])})",
        significant(found.shares) == 2,
        found.proof,
    )
    inputs = pca_shares(X)
    yield PAPER.claim("roll by PCA", f"{significant(inputs)}", significant(inputs) >= 3)
    yield PAPER.claim(
        "sides",
        f"{found.shares[0] / found.shares[1]:.1f}",
        found.shares[0] > 3 * found.shares[1],
        found.proof,
    )
    yield Scatter("inputs", X[:, [0, 2]], places[:, 0])
    yield Scatter("unfolded", found.coordinates, places[:, 0])
    yield Bars("spectra", {"PCA": inputs[:5], "MVU": found.shares[:5]}, [f"λ{i}" for i in "12345"])


def _knot(setting: Setting) -> Items:
    X = sdpkit.datasets.trefoil_knot(setting.points)
    found = unfold(X, 4)
    yield PAPER.claim(
        "knot", f"{listed(found.shares[:4])}", float(found.shares[:2].sum()) > 0.99, found.proof
    )
    order = ring_order(found.coordinates)
    yield PAPER.claim("ring", f"{order:.0%}", order == 1.0)
    yield Scatter("inputs", X, np.arange(len(X)))
    yield Scatter("unfolded", found.coordinates, np.arange(len(X)))
    yield Bars(
        "spectra", {"PCA": pca_shares(X)[:3], "MVU": found.shares[:3]}, [f"λ{i}" for i in "123"]
    )


def _teapot(part: float, dimensions: int) -> Callable[[Setting], Items]:
    def make(setting: Setting) -> Items:
        X = teapots(setting.data)
        X = X[: max(6, int(part * len(X)))]
        found = unfold(X, 4)
        share = float(found.shares[:dimensions].sum())
        yield PAPER.claim(
            "teapot",
            f"{share:.4f}",
            share > 0.95,
            found.proof,
            dimensions=dimensions,
            plural="s" * (dimensions > 1),
        )
        linear = pca_shares(X)
        yield PAPER.claim(
            "teapot by PCA",
            f"{needed(linear)}, MVU {needed(found.shares)}",
            needed(linear) > needed(found.shares),
        )
        if dimensions == 1:
            order = np.abs(np.diff(found.coordinates[:, 0].argsort()))
            words, kept = "images ordered by their angle", float((order == 1).mean())
        else:
            words, kept = "images in order around a circle", ring_order(found.coordinates)
        yield Row.claim(words, "yes", f"{kept:.0%}", kept > 0.9)
        yield Scatter("unfolded", found.coordinates, np.arange(len(X)))
        names = [f"λ{i}" for i in "12345"]
        yield Bars("spectra", {"PCA": linear[:5], "MVU": found.shares[:5]}, names)

    return make


def _twos(setting: Setting) -> Items:
    X = handwritten((2,), setting.points, setting.data, "usps")
    found, linear = unfold(X, 4), pca_shares(X)
    yield PAPER.claim(
        "twos", str(needed(found.shares)), needed(found.shares) > 2, found.proof, n=len(X)
    )
    yield PAPER.claim(
        "twos by PCA", str(needed(linear)), needed(linear) >= 2 * needed(found.shares)
    )
    yield Scatter("unfolded", found.coordinates)
    yield Bars(
        "spectra", {"PCA": linear[:8], "MVU": found.shares[:8]}, [f"λ{i}" for i in range(1, 9)]
    )


def _relaxed(setting: Setting) -> Items:
    X = handwritten((3,), setting.points, setting.data, "usps")
    spectra = {"PCA": pca_shares(X)}
    proofs = {}
    for form in ("equality", "inequality"):
        found = unfold(X, 4, form=form)
        spectra[form], proofs[form] = found.shares, found.proof
    tops = {name: float(shares[:3].sum()) for name, shares in spectra.items()}
    for form in ("equality", "inequality"):
        below = tops["PCA"] if form == "equality" else tops["equality"]
        yield PAPER.claim(
            "relaxed",
            f"{tops[form]:.3f} against {below:.3f}",
            tops[form] > below,
            proofs[form],
            form=form,
            published="more than with equality" if form == "inequality" else "more than PCA",
        )
    yield Bars("leading shares", {k: v[:5] for k, v in spectra.items()}, [f"λ{i}" for i in "12345"])


def _locked(setting: Setting) -> Items:
    X, places = sdpkit.datasets.swiss_roll(setting.points, noise_dims=0, return_parameters=True)
    inputs = float(np.square(X).sum())
    spectra = {"PCA": pca_shares(X)}
    strict = unfold(X, 6, angles=True)
    slack = unfold(X, 6, angles=True, form="slack", omega=None)
    loose = unfold(X, 4, form="slack")
    for name, found in (
        ("k = 6, strict", strict),
        ("k = 6, slack", slack),
        ("k = 4, slack, no angles", loose),
    ):
        spectra[name] = found.shares
        gain = found.variance / inputs
        two = float(found.shares[:2].sum())
        is_strict = name.endswith("strict")
        yield PAPER.claim(
            "locked",
            f"{gain:.3f}; {two:.3f}",
            gain < 1.05 if is_strict else gain > 1.5 and two > 0.95,
            found.proof,
            name=name,
            published="locks up before it is unfolded" if is_strict else "unfolds",
        )
        yield Scatter(name, found.coordinates, places[:, 0])
    yield Bars("spectra", {k: v[:4] for k, v in spectra.items()}, [f"λ{i}" for i in "1234"])


def _comb(setting: Setting) -> Items:
    from sklearn.manifold import Isomap

    X = sdpkit.datasets.comb(5, max(3, (setting.points - 25) // 5))
    found = unfold(X, 3)
    count = significant(found.shares, 1e-3)
    yield PAPER.claim(
        "comb", f"{count} ({listed(found.shares[:7])})", count > 2, found.proof, n=len(X)
    )
    yield PAPER.claim("comb dimensions", str(count), count == 6, found.proof)
    isomap = Isomap(n_neighbors=5, n_components=10).fit(X)
    values = np.maximum(isomap.kernel_pca_.eigenvalues_, 0)
    shares = values / values.sum()
    dims = significant(shares, 1e-3)
    words = f"{dims} ({listed(shares[:8])})"
    yield PAPER.claim("comb by Isomap", words, dims > 2)
    yield PAPER.claim("Isomap dimensions", str(dims), dims == 8)
    large = unfold(X, 16)
    error = float(np.abs(large.shares[:2] - pca_shares(X)[:2]).max())
    yield PAPER.claim("joined strings", f"spectrum off by {error:.1e}", error < 1e-2, large.proof)
    yield Scatter("inputs", X)
    yield Scatter("MVU", found.coordinates)
    yield Scatter("Isomap", isomap.embedding_)
    yield Bars("spectra", {"MVU": found.shares[:8], "Isomap": shares[:8]}, [*"12345678"])


def _traces(which: str) -> Callable[[Setting], Items]:
    def make(setting: Setting) -> Items:
        is_pots = which == "teapots"
        X = (
            teapots(setting.data)
            if is_pots
            else handwritten((5,), setting.points, setting.data, "mnist")
        )
        most, least = (unfold(X, 4, form=form, tol=1e-4) for form in ("equality", "min_trace"))
        yield PAPER.claim(
            "minimum trace",
            f"{needed(least.shares)} against {needed(most.shares)}",
            needed(least.shares) > needed(most.shares),
            least.proof,
        )
        yield PAPER.claim(
            "variance",
            f"{least.variance / most.variance:.3f}",
            least.variance < most.variance,
            most.proof,
        )
        if is_pots:
            orders = [ring_order(found.coordinates) for found in (most, least)]
            yield PAPER.claim(
                "circle", f"{orders[0]:.0%}, {orders[1]:.0%}", orders[0] > 0.9 > orders[1]
            )
        for name, found in (("maximum trace", most), ("minimum trace", least)):
            yield Scatter(name, found.coordinates, np.arange(len(X)))
        names = [f"λ{i}" for i in "12345678"]
        yield Bars("spectra", {"max": most.shares[:8], "min": least.shares[:8]}, names)

    return make


def _isomap_pots(setting: Setting) -> Items:
    from sklearn.manifold import Isomap

    X = teapots(setting.data)
    found = unfold(X, 4)
    isomap = Isomap(n_neighbors=4, n_components=min(10, len(X) - 1)).fit(X)
    values = np.maximum(isomap.kernel_pca_.eigenvalues_, 0)
    shares = values / values.sum()
    count = significant(shares)
    yield PAPER.claim("teapot by Isomap", f"{count} ({listed(shares[:4])})", count > 2)
    yield PAPER.claim(
        "teapot by MVU",
        f"{significant(found.shares)} ({listed(found.shares[:4])})",
        significant(found.shares) == 2,
        found.proof,
    )
    yield Scatter("Isomap, dimensions 1 and 3", isomap.embedding_[:, [0, 2]], np.arange(len(X)))
    yield Bars("spectra", {"Isomap": shares[:6], "MVU": found.shares[:6]}, [*"123456"])


ENTRIES = PAPER.entries(
    {
        "figure-3.5": _roll,
        "figure-3.8": _knot,
        "figure-3.9": _teapot(1.0, 2),
        "figure-3.10": _teapot(0.5, 1),
        "figure-3.11": _twos,
        "figure-3.13": _relaxed,
        "figure-3.14": _locked,
        "figure-3.15": _comb,
        "figure-3.25": _traces("fives"),
        "figure-3.26": _traces("teapots"),
        "figure-3.31": _isomap_pots,
    }
)
