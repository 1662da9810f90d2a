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
from typing import Any

from sdpkit.comparison import builders
from sdpkit.comparison.records import Described
from sdpkit.errors import InputError

# Tier → (seconds that a run may take, what it is).
TIERS = {
    "minimal": (2.0, "tiny instances of every kind; about a minute with all solvers"),
    "fast": (3.0, "minimal and instances of up to some hundred points; minutes"),
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
            partial(builders.roll, n, form=form),
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
        partial(builders.of_graph, "cycle", 5),
        "MVU of a ring of five unit rods: the regular pentagon",
        "geometry",
        "minimal",
        5 / (4 * math.sin(math.pi / 5) ** 2),
        "closed form: n/(4 sin²(π/n))",
    ),
    Instance(
        "string-10",
        "mvu",
        partial(builders.of_graph, "path", 10, form="inequality"),
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
        partial(builders.knot, 100),
        "MVU of a trefoil knot of 100 points, 4 neighbours: a long ring, badly conditioned",
        f"{_THESIS}, figure 3.8",
        "fast",
        2100.05691,
        _certified("interior", 3e-10),
    ),
    Instance(
        "knot-1617",
        "mvu",
        partial(builders.knot, 1617),
        "MVU of a trefoil knot of 1617 points, 4 neighbours",
        f"{_THESIS}, figure 3.8",
        "large",
        34132.697,
        _certified("barrier", 6e-7),
    ),
    Instance(
        "ring-3000",
        "mvu",
        partial(builders.of_graph, "cycle", 3000, form="inequality"),
        "MVU, inequality form, of a ring of 3000 unit rods: the regular polygon",
        "geometry",
        "large",
        3000 / (4 * math.sin(math.pi / 3000) ** 2),
        "closed form: n/(4 sin²(π/n))",
    ),
    Instance(
        "tree-full-40",
        "full",
        partial(builders.full_tree, 40),
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
        partial(builders.star, 5, 2),
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
        partial(builders.star, 8, 5),
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
        partial(builders.embedded_roll, 100),
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
        partial(builders.iris, 10, 2),
        "LMNN of every tenth iris, 2 target neighbours",
        "Fisher 1936, as bundled with scikit-learn",
        "minimal",
        5.108403,
        _certified("interior", 4e-8),
    ),
    Instance(
        "circles-20",
        "lmnn",
        partial(builders.circles, 20),
        "LMNN of two concentric circles of 20 points, 2 target neighbours: no metric helps",
        f"{_THESIS}, figure 2.10",
        "fast",
        140.52537,
        _certified("interior", 4e-08),
    ),
    Instance(
        "iris",
        "lmnn",
        builders.iris,
        "LMNN of the irises, 3 target neighbours",
        f"{_THESIS}, table 2.1; Fisher 1936",
        "fast",
        226.75779,
        _certified("factored", 3e-08),
    ),
    Instance(
        "wine",
        "lmnn",
        builders.wine,
        "LMNN of the wines, 3 target neighbours",
        f"{_THESIS}, table 2.1; bundled with scikit-learn",
        "fast",
        258.37184,
        _certified("factored", 6e-08),
    ),
    Instance(
        "digits-600",
        "lmnn",
        partial(builders.digits, 3),
        "LMNN of every third of 1797 digits of 8 × 8 pixels, 3 target neighbours",
        "bundled with scikit-learn",
        "fast",
        614.18123,
        _certified("factored", 7e-08),
    ),
    Instance(
        "digits",
        "lmnn",
        builders.digits,
        "LMNN of 1797 digits of 8 × 8 pixels, 3 target neighbours",
        "bundled with scikit-learn",
        "large",
        2061.667,
        _certified("factored", 7e-6),
    ),
    Instance(
        "clouds-10000",
        "lmnn",
        partial(builders.clouds, 10_000, 20, 10),
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
        partial(builders.network, 12, 0.5, 4),
        "12 sensors and 4 anchors, lengths off by 5 %, seed 0",
        f"{_THESIS}, section 3.1.8; Biswas and Ye 2004",
        "minimal",
        -0.65270446,
        _certified("interior", 3e-10),
    ),
    Instance(
        "sensors-200",
        "localization",
        partial(builders.network, 200, 0.25),
        "200 sensors without anchors in a basis of 10, lengths off by 5 %, seed 0",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -695.711896,
        _certified("interior", 8e-11),
    ),
    Instance(
        "sensors-anchors-200",
        "localization",
        partial(builders.network, 200, 0.25, 8),
        "200 sensors and 8 anchors in a basis of 10, lengths off by 5 %, seed 0",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -612.562395,
        _certified("interior", 4e-11),
    ),
    Instance(
        "sensors-3000",
        "localization",
        partial(builders.network, 3000, 0.06),
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
        partial(builders.covering, 200, 5),
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
        partial(builders.similar_pairs, 5),
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
        partial(builders.basis_roll, 60, 5),
        "variational MVU of 60 points of a Swiss roll in a basis of 5, squared penalty",
        f"{_THESIS}, section 3.1.8",
        "minimal",
        -97.32266017,
        _certified("interior", 6e-11),
    ),
    Instance(
        "basis-500",
        "variational",
        partial(builders.basis_roll, 500, 10),
        "variational MVU of 500 points of a Swiss roll in a basis of 10, squared penalty",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -1377.29818,
        _certified("interior", 6e-11),
    ),
    Instance(
        "basis-norm-500",
        "variational",
        partial(builders.basis_roll, 500, 10, penalty="norm"),
        "variational MVU of 500 points of a Swiss roll in a basis of 10, norm penalty",
        f"{_THESIS}, section 3.1.8",
        "fast",
        -34.3808620,
        _certified("clarabel", 4e-11),
    ),
    Instance(
        "basis-10000",
        "variational",
        partial(builders.basis_roll, 10_000, 20),
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
        partial(builders.new_point, 6, 2),
        "a new point among six neighbours in the plane, distances off by a tenth, seed 0",
        f"{_THESIS}, section 3.1.10",
        "minimal",
        1.73410076,
        _certified("interior", 3e-11),
    ),
    Instance(
        "new-point-10",
        "out-of-sample",
        partial(builders.new_point, 30, 10),
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
        builders.triangle,
        "MVU of a triangle with sides 1, 1 and 3",
        "geometry",
        "minimal",
        expected="infeasible",
        how="closed form: the triangle inequality",
    ),
    Instance(
        "two-parts",
        "no-solution",
        builders.two_parts,
        "MVU of two paths that nothing joins",
        "geometry",
        "minimal",
        expected="unbounded",
        how="closed form: the parts fly apart",
    ),
    Instance(
        "short-cut-30",
        "no-solution",
        partial(builders.short_cut, 30),
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
        raise InputError(f"there is no suite {name!r}: pass one of {', '.join(names())}")
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
