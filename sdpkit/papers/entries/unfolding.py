"""Unfolding and its spectra (Weinberger 2007, section 3.1.5 on): figures 3.5 to 3.15, 3.25, 3.26,
3.31."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import quiet_solve
from sdpkit.papers.entry import Certified, Row, Setting, listed, more
from sdpkit.papers.pictures import Bars, Scatter
from sdpkit.papers.published import Items, Published
from sdpkit.papers.sets import handwritten, teapots
from sdpkit.typing import Array

PAPER = Published.of("unfolding")


@dataclass(frozen=True, eq=False)
class Unfolded:
    """Outputs in two dimensions (or three), the shares of the spectrum and the certificate."""

    coordinates: Array
    shares: Array
    variance: float
    proof: Certified


def unfold(X: Array, k: int, *, tol: float = 1e-3, dimensions: int = 3, **options: Any) -> Unfolded:
    """MVU of X with k neighbours."""
    problem = sdpkit.MVU(X, n_neighbors=k, connect="bridge", **options)
    solution = quiet_solve(problem, tol=tol)
    found = problem.recover(solution, n_components=dimensions)
    variance = float(found.variance or found.eigenvalues.sum())
    return Unfolded(
        found.coordinates, found.eigenvalues / variance, variance, Certified.of(solution)
    )


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


def isomap_shares(X: Array, k: int, dimensions: int) -> tuple[Array, Array]:
    """The outputs of scikit-learn's Isomap, and its spectrum as shares."""
    from sklearn.manifold import Isomap

    isomap = Isomap(n_neighbors=k, n_components=dimensions).fit(X)
    values = np.maximum(isomap.kernel_pca_.eigenvalues_, 0)
    return isomap.embedding_, values / values.sum()


def spectra(shares: Mapping[str, Array], count: int, title: str = "spectra") -> Bars:
    """The leading shares of some spectra side by side."""
    names = [f"λ{i}" for i in range(1, count + 1)]
    return Bars(title, {name: values[:count] for name, values in shares.items()}, names)


def ring_order(coordinates: Array) -> float:
    """The share of points whose successor around the ring is a neighbour in the given order."""
    n = len(coordinates)
    order = np.arctan2(coordinates[:, 1], coordinates[:, 0]).argsort()
    steps = np.diff(order, append=order[0]) % n
    return float(np.isin(steps, (1, n - 1)).mean())


def roll(setting: Setting) -> Items:
    X, places = sdpkit.datasets.swiss_roll(setting.points, return_parameters=True)
    found = unfold(X, 6, angles=True)
    count = significant(found.shares)
    ours = f"{count} (shares {listed(found.shares[:4])})"
    yield PAPER.claim("roll", ours, count == 2, found.proof)
    inputs = pca_shares(X)
    yield PAPER.claim("roll by PCA", f"{significant(inputs)}", significant(inputs) >= 3)
    ratio = found.shares[0] / found.shares[1]
    yield PAPER.claim("sides", f"{ratio:.1f}", ratio > 3, found.proof)
    yield Scatter("inputs", X[:, [0, 2]], places[:, 0])
    yield Scatter("unfolded", found.coordinates, places[:, 0])
    yield spectra({"PCA": inputs, "MVU": found.shares}, 5)


def knot(setting: Setting) -> Items:
    X = sdpkit.datasets.trefoil_knot(setting.points)
    found = unfold(X, 4)
    flat = float(found.shares[:2].sum()) > 0.99
    yield PAPER.claim("knot", listed(found.shares[:4]), flat, found.proof)
    order = ring_order(found.coordinates)
    yield PAPER.claim("ring", f"{order:.0%}", order == 1.0)
    yield Scatter("inputs", X, np.arange(len(X)))
    yield Scatter("unfolded", found.coordinates, np.arange(len(X)))
    yield spectra({"PCA": pca_shares(X), "MVU": found.shares}, 3)


def teapot(setting: Setting, part: float, dimensions: int) -> Items:
    X = teapots(setting.data)
    X = X[: max(6, int(part * len(X)))]
    found = unfold(X, 4)
    share = float(found.shares[:dimensions].sum())
    words = {"dimensions": dimensions, "plural": "s" * (dimensions > 1)}
    yield PAPER.claim("teapot", f"{share:.4f}", share > 0.95, found.proof, **words)
    linear = pca_shares(X)
    before, after = needed(linear), needed(found.shares)
    yield PAPER.claim("teapot by PCA", f"{before}, MVU {after}", before > after)
    if dimensions == 1:
        order = np.abs(np.diff(found.coordinates[:, 0].argsort()))
        what, kept = "images ordered by their angle", float((order == 1).mean())
    else:
        what, kept = "images in order around a circle", ring_order(found.coordinates)
    yield Row.claim(what, "yes", f"{kept:.0%}", kept > 0.9)
    yield Scatter("unfolded", found.coordinates, np.arange(len(X)))
    yield spectra({"PCA": linear, "MVU": found.shares}, 5)


def twos(setting: Setting) -> Items:
    X = handwritten((2,), setting.points, setting.data, "usps")
    found, linear = unfold(X, 4), pca_shares(X)
    before, after = needed(linear), needed(found.shares)
    yield PAPER.claim("twos", str(after), after > 2, found.proof, n=len(X))
    yield PAPER.claim("twos by PCA", str(before), before >= 2 * after)
    yield Scatter("unfolded", found.coordinates)
    yield spectra({"PCA": linear, "MVU": found.shares}, 8)


def relaxed(setting: Setting) -> Items:
    X = handwritten((3,), setting.points, setting.data, "usps")
    shares, below = {"PCA": pca_shares(X)}, "PCA"
    for form, published in (
        ("equality", "more than PCA"),
        ("inequality", "more than with equality"),
    ):
        found = unfold(X, 4, form=form)
        shares[form] = found.shares
        top, before = (float(shares[name][:3].sum()) for name in (form, below))
        words = {"form": form, "published": published}
        yield PAPER.claim("relaxed", *more(top, before, ".3f"), found.proof, **words)
        below = form
    yield spectra(shares, 5, "leading shares")


def locked(setting: Setting) -> Items:
    X, places = sdpkit.datasets.swiss_roll(setting.points, noise_dims=0, return_parameters=True)
    inputs = float(np.square(X).sum())
    shares = {"PCA": pca_shares(X)}
    for name, found in {
        "k = 6, strict": unfold(X, 6, angles=True),
        "k = 6, slack": unfold(X, 6, angles=True, form="slack", omega=None),
        "k = 4, slack, no angles": unfold(X, 4, form="slack"),
    }.items():
        shares[name] = found.shares
        gain = found.variance / inputs
        two = float(found.shares[:2].sum())
        words, holds = "unfolds", gain > 1.5 and two > 0.95
        if name.endswith("strict"):
            words, holds = "locks up before it is unfolded", gain < 1.05
        ours = f"{gain:.3f}; {two:.3f}"
        yield PAPER.claim("locked", ours, holds, found.proof, name=name, published=words)
        yield Scatter(name, found.coordinates, places[:, 0])
    yield spectra(shares, 4)


def comb(setting: Setting) -> Items:
    X = sdpkit.datasets.comb(5, max(3, (setting.points - 25) // 5))
    found = unfold(X, 3)
    count = significant(found.shares, 1e-3)
    words = f"{count} ({listed(found.shares[:7])})"
    yield PAPER.claim("comb", words, count > 2, found.proof, n=len(X))
    yield PAPER.claim("comb dimensions", str(count), count == 6, found.proof)
    isomap, shares = isomap_shares(X, 5, 10)
    dims = significant(shares, 1e-3)
    words = f"{dims} ({listed(shares[:8])})"
    yield PAPER.claim("comb by Isomap", words, dims > 2)
    yield PAPER.claim("Isomap dimensions", str(dims), dims == 8)
    large = unfold(X, 16)
    error = float(np.abs(large.shares[:2] - pca_shares(X)[:2]).max())
    yield PAPER.claim("joined strings", f"spectrum off by {error:.1e}", error < 1e-2, large.proof)
    yield Scatter("inputs", X)
    yield Scatter("MVU", found.coordinates)
    yield Scatter("Isomap", isomap)
    yield Bars("spectra", {"MVU": found.shares[:8], "Isomap": shares[:8]}, [*"12345678"])


def traces(setting: Setting, which: str) -> Items:
    if which == "teapots":
        X = teapots(setting.data)
    else:
        X = handwritten((5,), setting.points, setting.data, "mnist")
    most, least = (unfold(X, 4, form=form, tol=1e-4) for form in ("equality", "min_trace"))
    counts = more(needed(least.shares), needed(most.shares), "d")
    yield PAPER.claim("minimum trace", *counts, least.proof)
    ratio = least.variance / most.variance
    yield PAPER.claim("variance", f"{ratio:.3f}", ratio < 1, most.proof)
    if which == "teapots":
        high, low = (ring_order(found.coordinates) for found in (most, least))
        yield PAPER.claim("circle", f"{high:.0%}, {low:.0%}", high > 0.9 > low)
    for name, found in (("maximum trace", most), ("minimum trace", least)):
        yield Scatter(name, found.coordinates, np.arange(len(X)))
    yield spectra({"max": most.shares, "min": least.shares}, 8)


def isomap_pots(setting: Setting) -> Items:
    X = teapots(setting.data)
    found = unfold(X, 4)
    isomap, shares = isomap_shares(X, 4, min(10, len(X) - 1))
    count = significant(shares)
    yield PAPER.claim("teapot by Isomap", f"{count} ({listed(shares[:4])})", count > 2)
    count = significant(found.shares)
    words = f"{count} ({listed(found.shares[:4])})"
    yield PAPER.claim("teapot by MVU", words, count == 2, found.proof)
    yield Scatter("Isomap, dimensions 1 and 3", isomap[:, [0, 2]], np.arange(len(X)))
    yield Bars("spectra", {"Isomap": shares[:6], "MVU": found.shares[:6]}, [*"123456"])


ENTRIES = PAPER.entries(globals())
