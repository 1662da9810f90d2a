"""Instances to compare solvers on: data, one entry of suites.toml each.

An instance is named, seeded and described, says where it comes from, and knows its optimal value
and how that was obtained: "closed form" with the formula, or "certified" with the solver and the
relative gap that its certificate proved. A program without a solution names the verdict that is
expected instead. To add one, add an entry to the file; the tests recompute the small ones.

Three tiers by size, and one suite per kind of problem (its instances in `minimal` and `fast`):

    minimal   seconds each solver, for a first look and for tests; every kind is in it
    fast      a few minutes for all solvers; `minimal` is part of it
    large     minutes per run, beyond what general solvers take
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
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


@dataclass(frozen=True)
class Instance:
    """One instance of a suite.

    Attributes
    ----------
    build : callable
        Makes the problem object or the program; no arguments, always the same.
    expected : str
        The status that counts as success.
    tier : str
        The smallest tier it belongs to.
    name : str
        Its name, unique among all instances.
    kind : str
        Its kind: "mvu", "lmnn", ….
    description : str
        What it is, in words.
    source : str
        Where it comes from.
    reference : float
        The optimal value; NaN if unknown.
    how : str
        How the optimal value was obtained.

    Examples
    --------
    >>> find("pentagon").kind, round(find("pentagon").reference, 4)
    ('mvu', 3.618)
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
        same = ("name", "kind", "description", "source", "reference", "how", "expected")
        return Described(suite=self.tier, **{field: getattr(self, field) for field in same})


def _read() -> Iterator[Instance]:
    """The instances of suites.toml, in its order."""
    file = resources.files("sdpkit.comparison").joinpath("suites.toml")
    for given in tomllib.loads(file.read_text(encoding="utf-8"))["instance"]:
        name, *arguments = given.pop("build")
        build = partial(getattr(builders, name), *arguments, **given.pop("options", {}))
        yield Instance(build=build, **given)


INSTANCES = tuple(_read())


def names() -> list[str]:
    """Names of all suites: the tiers, then one per kind.

    Returns
    -------
    list of str
        The names that `suite` takes.

    Examples
    --------
    >>> names()[:3]
    ['minimal', 'fast', 'large']
    """
    return [*TIERS, *dict.fromkeys(instance.kind for instance in INSTANCES)]


def suite(name: str) -> tuple[Instance, ...]:
    """Return the instances of a tier, or those of a kind that are not large.

    Parameters
    ----------
    name : str
        A name out of `names`.

    Returns
    -------
    tuple of Instance
        The instances, in the order of the file.

    Raises
    ------
    InputError
        If there is no such suite.

    Examples
    --------
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
    """Return the instance of that name.

    Parameters
    ----------
    name : str
        Its name, as `sdpkit compare --list` shows it.

    Returns
    -------
    Instance
        The instance.

    Raises
    ------
    InputError
        If there is no such instance.

    Examples
    --------
    >>> find("pentagon").how
    'closed form: n/(4 sin²(π/n))'
    """
    for instance in INSTANCES:
        if instance.name == name:
            return instance
    close = [one.name for one in INSTANCES if name.split("-")[0] in one.name]
    words = f"; there are {', '.join(close)}" if close else ""
    raise InputError(f"there is no instance {name!r} in the suites{words}")
