"""Instances to compare solvers on: data, one entry each.

An instance is named, seeded and described, says where it comes from, and knows its optimal value
and how that was obtained: "closed form" with the formula, or "certified" with the solver and the
relative gap that its certificate proved. A program without a solution names the verdict that is
expected instead. To add one, add an entry to `INSTANCES`; the tests recompute the small ones.

Three tiers by size, and one suite per kind of problem (its instances in `minimal` and `fast`):

    minimal   seconds each solver, for a first look and for tests; every kind is in it
    fast      a few minutes for all solvers; `minimal` is part of it
    large     minutes per run, beyond what general solvers take
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpkit.comparison.records import Described
from sdpkit.errors import InputError

if TYPE_CHECKING:
    from sdpkit.problems.mvu import MVU

# Tier → (seconds that a run may take, what it is).
TIERS = {
    "minimal": (2.0, "tiny instances of every kind; about a minute with all solvers"),
    "fast": (10.0, "minimal and instances of up to some hundred points; minutes"),
    "large": (600.0, "thousands of points; hours with all solvers"),
}

_THESIS = "Weinberger 2007"
_LECTURE = "Jebara, lecture on embedding by semidefinite programs"


@dataclass(frozen=True)
class Instance:
    """One instance of a suite.

    Attributes
    ----------
    build: makes the problem object or the program; no arguments, always the same
    reference, how: the optimal value, NaN if unknown, and how it was obtained
    expected: the status that counts as success
    tier: the smallest tier it belongs to
    """

    name: str
    kind: str
    build: Callable[[], Any]
    description: str
    source: str
    tier: str = "fast"
    reference: float = math.nan
    how: str = ""
    expected: str = "optimal"

    def described(self) -> Described:
        """The instance in words, as comparisons keep it."""
        return Described(
            self.name,
            self.tier,
            self.kind,
            self.description,
            self.source,
            self.reference,
            self.how,
            self.expected,
        )


# -- how they are made ----------------------------------------------------------------------


def roll(n: int, n_neighbors: int = 4, seed: int = 0, **options: Any) -> MVU:
    """MVU of the 8-dimensional Swiss roll, in units in which the mean squared length is one."""
    import sdpkit

    return sdpkit.MVU(_scaled_roll(n, n_neighbors, seed), n_neighbors=n_neighbors, **options)


def _scaled_roll(n: int, n_neighbors: int, seed: int) -> Any:
    import sdpkit

    X = sdpkit.datasets.swiss_roll(n, random_state=seed)
    graph = sdpkit.graphs.neighborhood_graph(X, n_neighbors=n_neighbors)
    return X / np.sqrt(graph.squared_lengths.mean())


def _graph(name: str, *sizes: int, **options: Any) -> Any:
    import sdpkit

    return sdpkit.MVU(graph=getattr(sdpkit.datasets, f"{name}_graph")(*sizes), **options)


def _knot(n: int) -> Any:
    import sdpkit

    return sdpkit.MVU(sdpkit.datasets.trefoil_knot(n), n_neighbors=4)


def _star(n_spokes: int, points: int) -> Any:
    import sdpkit

    return sdpkit.MVE(graph=sdpkit.datasets.star_graph(n_spokes, points))


def _roll_embedding(n: int) -> Any:
    import sdpkit

    return sdpkit.MVE(_scaled_roll(n, 4, 0), n_neighbors=4, start="mvu")


def _full(n: int) -> Any:
    """FULL over a spanning tree of the roll."""
    import sdpkit

    X = _scaled_roll(n, 4, 0)
    return sdpkit.MVU(X, graph=sdpkit.graphs.spanning_tree(X), full=True)


def _iris(step: int = 1, n_neighbors: int = 3) -> Any:
    from sklearn.datasets import load_iris

    import sdpkit

    X, y = load_iris(return_X_y=True)
    return sdpkit.LMNN(X[::step], y[::step], n_neighbors=n_neighbors)


def _circles(n: int) -> Any:
    import sdpkit

    X, y = sdpkit.datasets.concentric_circles(n)
    return sdpkit.LMNN(X, y, n_neighbors=2)


def _wine() -> Any:
    from sklearn.datasets import load_wine

    import sdpkit

    X, y = load_wine(return_X_y=True)
    return sdpkit.LMNN(X, y, n_neighbors=3)


def _digits(step: int = 1) -> Any:
    from sklearn.datasets import load_digits

    import sdpkit

    X, y = load_digits(return_X_y=True)
    return sdpkit.LMNN(X[::step], y[::step], n_neighbors=3)


def _mixture(n: int, d: int, n_classes: int) -> Any:
    """Classes that overlap: normal clouds around normal centres, features of unequal scale."""
    import sdpkit

    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    centres = 1.5 * rng.standard_normal((n_classes, d))
    X = (centres[y] + rng.standard_normal((n, d))) * np.geomspace(0.3, 3.0, d)
    return sdpkit.LMNN(X, y, n_neighbors=3)


def _network(n: int, radius: float, n_anchors: int = 0, noise: float = 0.05) -> Any:
    """Sensors in the unit square, lengths measured up to a relative error."""
    import scipy.sparse as sp
    from scipy.spatial.distance import cdist

    import sdpkit

    rng = np.random.default_rng(0)
    true = rng.random((n, 2))
    graph = sdpkit.graphs.neighborhood_graph(true, radius=radius)
    errors = 1 + noise * rng.standard_normal(graph.n_edges)
    i, j = graph.edges.T
    lengths = np.sqrt(graph.squared_lengths) * errors
    measured = sp.csr_array((np.tile(lengths, 2), (np.r_[i, j], np.r_[j, i])), shape=(n, n))
    if not n_anchors:
        return sdpkit.Localization(measured)
    anchors = rng.random((n_anchors, 2))
    heard = cdist(true, anchors) * (1 + noise * rng.standard_normal((n, n_anchors)))
    heard[heard > 2 * radius] = 0.0
    return sdpkit.Localization(measured, anchors, heard, n_basis=None if n <= 30 else 10)


def _new_point(k: int, r: int) -> Any:
    """A point among k neighbours in r dimensions, distances off by a tenth."""
    import sdpkit

    rng = np.random.default_rng(0)
    neighbors, point = rng.standard_normal((k, r)), 0.5 * rng.standard_normal(r)
    lengths = np.linalg.norm(neighbors - point, axis=1) * (1 + 0.1 * rng.standard_normal(k))
    return sdpkit.OutOfSample(neighbors, np.abs(lengths))


def _basis(n: int, n_basis: int, **options: Any) -> Any:
    import sdpkit

    X = sdpkit.datasets.swiss_roll(n, noise_dims=0)
    return sdpkit.VariationalMVU(X, n_neighbors=6, n_basis=n_basis, **options)


def _covering(n: int, d: int) -> Any:
    import sdpkit

    return sdpkit.CoveringEllipsoid(np.random.default_rng(0).standard_normal((n, d)))


def _pairs(step: int) -> Any:
    from sklearn.datasets import load_iris

    import sdpkit

    X, y = load_iris(return_X_y=True)
    return sdpkit.MMC(X[::step], y[::step])


def _triangle() -> Any:
    """Sides 1, 1, 3."""
    import sdpkit

    return sdpkit.MVU(graph=np.array([[0.0, 1, 1], [1, 0, 3], [1, 3, 0]]))


def _short_cut(n: int) -> Any:
    """A ring of unit lengths with a chord longer than half of the way around."""
    import sdpkit

    ring = sdpkit.datasets.cycle_graph(n).tolil()
    ring[0, n // 2] = ring[n // 2, 0] = 0.75 * n
    return sdpkit.MVU(graph=ring.tocsr())


def _two_parts() -> Any:
    """MVU of two paths that nothing joins: the parts fly apart."""
    import scipy.sparse as sp

    import sdpkit
    from sdpkit.program.block import Block
    from sdpkit.program.cost import Cost
    from sdpkit.program.form import Program

    parts = sp.block_diag([sdpkit.datasets.path_graph(3), sdpkit.datasets.path_graph(4)])
    i, j = sp.triu(parts).coords
    incidence = np.zeros((i.size, 7))
    incidence[np.arange(i.size), i], incidence[np.arange(i.size), j] = 1.0, -1.0
    block = Block.of(7, incidence, name="K", cost=Cost.of(7, identity=1.0), null=np.ones((7, 1)))
    return Program.of(block, np.ones(i.size), name="MVU of two paths, not joined")


# -- the instances --------------------------------------------------------------------------

NAN = math.nan


def _certified(solver: str, gap: float) -> str:
    """How an optimum without a formula was obtained."""
    return f"certified: {solver}, relative gap {gap:.2g}"


_ROLL = "the 8-dimensional Swiss roll, 4 neighbours, mean squared length one, seed 0"


def _rolls(n: int, tier: str, optima: dict[str, tuple[float, str]]) -> list[Instance]:
    """The roll of n points in the given forms: form → (optimum, how)."""
    return [
        Instance(
            f"roll-{n}-{form.replace('_', '-')}",
            "mvu",
            partial(roll, n, form=form),
            f"MVU, {form.replace('_', ' ')} form, {n} points: {_ROLL}",
            f"{_THESIS}, section 3.1",
            tier,
            value,
            how,
        )
        for form, (value, how) in optima.items()
    ]


INSTANCES: tuple[Instance, ...] = (
    # Maximum variance unfolding
    Instance(
        "pentagon",
        "mvu",
        partial(_graph, "cycle", 5),
        "MVU of a ring of five unit rods: the regular pentagon",
        "geometry",
        "minimal",
        5 / (4 * math.sin(math.pi / 5) ** 2),
        "closed form: n/(4 sin²(π/n))",
    ),
    Instance(
        "string-10",
        "mvu",
        partial(_graph, "path", 10, form="inequality"),
        "MVU, inequality form, of ten points on a string: a straight line",
        "geometry",
        "minimal",
        82.5,
        "closed form: (n³ − n)/12",
    ),
    *_rolls(
        15,
        "minimal",
        {
            "equality": (17.9071025, _certified("interior", 3e-10)),
            "slack": (4.9059715, _certified("interior", 2e-10)),
            "min_trace": (7.9902913, _certified("interior", 3e-10)),
        },
    ),
    *_rolls(
        60,
        "fast",
        {
            "equality": (414.9155033, _certified("interior", 2e-10)),
            "inequality": (442.9739729, _certified("interior", 2e-10)),
            "slack": (14.8318750, _certified("interior", 2e-12)),
            "min_trace": (31.0419535, _certified("interior", 3e-10)),
        },
    ),
    *_rolls(100, "fast", {"equality": (1187.8345486, _certified("interior", 2e-10))}),
    *_rolls(
        400,
        "fast",
        {
            "equality": (81842.801590, _certified("interior", 3e-10)),
            "inequality": (85795.30350, _certified("interior", 9e-10)),
        },
    ),
    *_rolls(
        1000,
        "large",
        {
            "equality": (437775.597, _certified("interior", 9e-9)),
            "inequality": (467053.895, _certified("interior", 7e-9)),
        },
    ),
    *_rolls(2000, "large", {"equality": (1608958.3, _certified("interior", 1.4e-7))}),
    *_rolls(
        10_000,
        "large",
        {"equality": (1.90873e7, _certified("barrier", 8.7e-4)), "inequality": (NAN, "")},
    ),
    Instance(
        "knot-100",
        "mvu",
        partial(_knot, 100),
        "MVU of a trefoil knot of 100 points, 4 neighbours: a long ring, badly conditioned",
        f"{_THESIS}, figure 3.8",
        "fast",
        2100.05691,
        _certified("interior", 3e-10),
    ),
    Instance(
        "knot-1617",
        "mvu",
        partial(_knot, 1617),
        "MVU of a trefoil knot of 1617 points, 4 neighbours",
        f"{_THESIS}, figure 3.8",
        "large",
        34132.697,
        _certified("barrier", 6e-7),
    ),
    Instance(
        "ring-3000",
        "mvu",
        partial(_graph, "cycle", 3000, form="inequality"),
        "MVU, inequality form, of a ring of 3000 unit rods: the regular polygon",
        "geometry",
        "large",
        3000 / (4 * math.sin(math.pi / 3000) ** 2),
        "closed form: n/(4 sin²(π/n))",
    ),
    Instance(
        "tree-full-40",
        "full",
        partial(_full, 40),
        f"MVU over a spanning tree, no pair may come closer (FULL), 40 points: {_ROLL}",
        _LECTURE,
        "fast",
        384.279165,
        _certified("interior", 2e-10),
    ),
    # Minimum volume embedding
    Instance(
        "star-5",
        "mve",
        partial(_star, 5, 2),
        "MVE of a star of five spokes of two points, in two dimensions",
        _LECTURE,
        "minimal",
        25.0,
        "closed form: Σ of squared distances to the centre (the steps end 1e-4 below it)",
        "stationary",
    ),
    Instance(
        "star-8",
        "mve",
        partial(_star, 8, 5),
        "MVE of a star of eight spokes of five points, in two dimensions",
        _LECTURE,
        "fast",
        440.0,
        "closed form: Σ of squared distances to the centre (the steps end 1e-4 below it)",
        "stationary",
    ),
    Instance(
        "roll-mve-100",
        "mve",
        partial(_roll_embedding, 100),
        f"MVE in two dimensions from MVU's answer, 100 points: {_ROLL}",
        _LECTURE,
        "fast",
        1143.58461,
        _certified("interior", 2e-10),
        expected="stationary",
    ),
    # Large margin nearest neighbours
    Instance(
        "iris-15",
        "lmnn",
        partial(_iris, 10, 2),
        "LMNN of every tenth iris, 2 target neighbours",
        "Fisher 1936, as bundled with scikit-learn",
        "minimal",
        5.108403,
        _certified("interior", 4e-8),
    ),
    Instance(
        "circles-20",
        "lmnn",
        partial(_circles, 20),
        "LMNN of two concentric circles of 20 points, 2 target neighbours: no metric helps",
        f"{_THESIS}, figure 2.10",
        "fast",
        140.52537,
        _certified("interior", 4e-08),
    ),
    Instance(
        "iris",
        "lmnn",
        _iris,
        "LMNN of the irises, 3 target neighbours",
        f"{_THESIS}, table 2.1; Fisher 1936",
        "fast",
        226.75779,
        _certified("factored", 3e-08),
    ),
    Instance(
        "wine",
        "lmnn",
        _wine,
        "LMNN of the wines, 3 target neighbours",
        f"{_THESIS}, table 2.1; bundled with scikit-learn",
        "fast",
        258.37184,
        _certified("factored", 6e-08),
    ),
    Instance(
        "digits-600",
        "lmnn",
        partial(_digits, 3),
        "LMNN of every third of 1797 digits of 8 × 8 pixels, 3 target neighbours",
        "bundled with scikit-learn",
        "fast",
        614.18123,
        _certified("factored", 7e-08),
    ),
    Instance(
        "digits",
        "lmnn",
        _digits,
        "LMNN of 1797 digits of 8 × 8 pixels, 3 target neighbours",
        "bundled with scikit-learn",
        "large",
        2061.667,
        _certified("factored", 7e-6),
    ),
    Instance(
        "clouds-10000",
        "lmnn",
        partial(_mixture, 10_000, 20, 10),
        "LMNN of 10,000 points in ten overlapping normal clouds in 20 dimensions, seed 0",
        "made here",
        "large",
        13494.45,
        _certified("factored", 6e-6),
    ),
    # Localisation
    Instance(
        "sensors-12",
        "localization",
        partial(_network, 12, 0.5, 4),
        "12 sensors and 4 anchors, lengths off by 5 %, seed 0",
        f"{_THESIS}, section 3.1.8; Biswas and Ye 2004",
        "minimal",
        -0.65270446,
        _certified("interior", 3e-10),
    ),
    Instance(
        "sensors-200",
        "localization",
        partial(_network, 200, 0.25),
        "200 sensors without anchors in a basis of 10, lengths off by 5 %, seed 0",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -695.711896,
        _certified("interior", 8e-11),
    ),
    Instance(
        "sensors-anchors-200",
        "localization",
        partial(_network, 200, 0.25, 8),
        "200 sensors and 8 anchors in a basis of 10, lengths off by 5 %, seed 0",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -612.562395,
        _certified("interior", 4e-11),
    ),
    Instance(
        "sensors-3000",
        "localization",
        partial(_network, 3000, 0.06),
        "3000 sensors without anchors in a basis of 10, lengths off by 5 %, seed 0",
        f"{_THESIS}, section 3.1.8",
        "large",
        -23456.20839,
        _certified("interior", 2e-10),
    ),
    # Covering ellipsoids
    Instance(
        "covering-200",
        "ellipsoid",
        partial(_covering, 200, 5),
        "the smallest ellipsoid over 200 normal points in 5 dimensions, seed 0",
        "Titterington 1975; Todd and Yildirim 2007",
        "fast",
        3.64271901754,
        _certified("covering", 3e-12),
    ),
    # MMC
    Instance(
        "mmc-iris-30",
        "mmc",
        partial(_pairs, 5),
        "MMC of every fifth iris, 300 dissimilar pairs",
        f"Xing et al. 2003; {_THESIS}, section 2.2.2",
        "fast",
        206.4733494,
        _certified("ascent", 1e-10),
    ),
    # Variational MVU
    Instance(
        "basis-60",
        "variational",
        partial(_basis, 60, 5),
        "variational MVU of 60 points of a Swiss roll in a basis of 5, squared penalty",
        f"{_THESIS}, section 3.1.8",
        "minimal",
        -97.32266017,
        _certified("interior", 6e-11),
    ),
    Instance(
        "basis-500",
        "variational",
        partial(_basis, 500, 10),
        "variational MVU of 500 points of a Swiss roll in a basis of 10, squared penalty",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -1377.29818,
        _certified("interior", 6e-11),
    ),
    Instance(
        "basis-norm-500",
        "variational",
        partial(_basis, 500, 10, penalty="norm"),
        "variational MVU of 500 points of a Swiss roll in a basis of 10, norm penalty",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -34.3808620,
        _certified("clarabel", 4e-11),
    ),
    Instance(
        "basis-10000",
        "variational",
        partial(_basis, 10_000, 20),
        "variational MVU of 10,000 points of a Swiss roll in a basis of 20, squared penalty",
        f"{_THESIS}, section 3.1.8",
        "large",
        -32814.0356,
        _certified("interior", 7e-9),
    ),
    # Out of sample
    Instance(
        "new-point",
        "out-of-sample",
        partial(_new_point, 6, 2),
        "a new point among six neighbours in the plane, distances off by a tenth, seed 0",
        f"{_THESIS}, section 3.1.10",
        "minimal",
        1.73410076,
        _certified("interior", 3e-11),
    ),
    Instance(
        "new-point-10",
        "out-of-sample",
        partial(_new_point, 30, 10),
        "a new point among 30 neighbours in ten dimensions, distances off by a tenth, seed 0",
        f"{_THESIS}, section 3.1.10",
        "fast",
        50.0544113,
        _certified("interior", 8e-11),
    ),
    # No solution
    Instance(
        "triangle",
        "no-solution",
        _triangle,
        "MVU of a triangle with sides 1, 1 and 3",
        "geometry",
        "minimal",
        expected="infeasible",
        how="closed form: the triangle inequality",
    ),
    Instance(
        "two-parts",
        "no-solution",
        _two_parts,
        "MVU of two paths that nothing joins",
        "geometry",
        "minimal",
        expected="unbounded",
        how="closed form: the parts fly apart",
    ),
    Instance(
        "short-cut-30",
        "no-solution",
        partial(_short_cut, 30),
        "MVU of a ring of 30 unit rods with a chord of length 22.5",
        "geometry",
        "fast",
        expected="infeasible",
        how="closed form: the chord is longer than the way around",
    ),
)


def names() -> list[str]:
    """Names of all suites: the tiers, then one per kind."""
    return [*TIERS, *dict.fromkeys(instance.kind for instance in INSTANCES)]


def suite(name: str) -> tuple[Instance, ...]:
    """The instances of a tier, or those of a kind that are not large.

    >>> [instance.name for instance in suite("no-solution")]
    ['triangle', 'two-parts', 'short-cut-30']
    """
    if name in TIERS:
        tiers = ("minimal", "fast") if name == "fast" else (name,)
        return tuple(one for one in INSTANCES if one.tier in tiers)
    found = tuple(one for one in INSTANCES if one.kind == name and one.tier != "large")
    if not found:
        raise InputError(f"there is no suite {name!r}; known are {', '.join(names())}")
    return found


def find(name: str) -> Instance:
    """The instance of that name.

    >>> find("pentagon").how
    'closed form: n/(4 sin²(π/n))'
    """
    for instance in INSTANCES:
        if instance.name == name:
            return instance
    close = [one.name for one in INSTANCES if name.split("-")[0] in one.name]
    words = f"; there are {', '.join(close)}" if close else ""
    raise InputError(f"there is no instance {name!r} in the suites{words}")
