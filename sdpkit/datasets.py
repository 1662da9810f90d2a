"""Data sets with a known shape: what the papers unfold, and graphs with known answers.

Every set is seeded and centred, and can be given further dimensions that hold only noise.

>>> swiss_roll(400).shape, spokes(5, 3).shape, comb().shape
((400, 8), (16, 2), (300, 2))
"""

from __future__ import annotations

import itertools
from typing import Literal, TypeAlias, overload

import numpy as np
from scipy import sparse

from sdpkit.inputs import integer, nonnegative
from sdpkit.typing import Array, Indices

__all__ = [
    "balance_scale",
    "comb",
    "concentric_circles",
    "cycle_graph",
    "path_graph",
    "spokes",
    "star_graph",
    "swiss_roll",
    "trefoil_knot",
]

RandomState: TypeAlias = "int | np.random.Generator | None"


@overload
def swiss_roll(
    n: int,
    noise_dims: int = 5,
    noise: float = 0.3,
    random_state: RandomState = 0,
    return_parameters: Literal[False] = False,
) -> Array: ...
@overload
def swiss_roll(
    n: int,
    noise_dims: int = 5,
    noise: float = 0.3,
    random_state: RandomState = 0,
    *,
    return_parameters: Literal[True],
) -> tuple[Array, Array]: ...
def swiss_roll(
    n: int,
    noise_dims: int = 5,
    noise: float = 0.3,
    random_state: RandomState = 0,
    return_parameters: bool = False,
) -> Array | tuple[Array, Array]:
    """Points of a rolled-up sheet in uniform random places.

    The sheet is (t cos t, h, t sin t) with t in [1.5π, 4.5π] and h in [0, 21]; every noise
    dimension is normal with standard deviation `noise`. `return_parameters` gives the places
    (t, h), (n, 2), as well. noise_dims=0 is the roll in three dimensions without noise.

    Parameters
    ----------
    n : int
        The number of points.
    noise_dims : int, default 5
        Further coordinates of pure noise.
    noise : float, default 0.3
        The standard deviation of the noise coordinates.
    random_state : int or Generator or None, default 0
        The seed or generator of the random numbers.
    return_parameters : bool, default False
        Whether to return the places on the sheet as well.

    Returns
    -------
    X : array of shape (n, 3 + noise_dims)
        The points.
    places : array of shape (n, 2)
        The places (t, h) on the sheet; only with `return_parameters`.

    Examples
    --------
    >>> X, places = swiss_roll(50, noise_dims=0, return_parameters=True)
    >>> X.shape, places.shape
    ((50, 3), (50, 2))
    """
    count = integer(n, "n")
    rng = np.random.default_rng(random_state)
    t = 1.5 * np.pi * (1 + 2 * rng.random(count))
    h = 21 * rng.random(count)
    X = _noisy(np.column_stack([t * np.cos(t), h, t * np.sin(t)]), noise_dims, noise, rng)
    return (X, np.column_stack([t, h])) if return_parameters else X


def trefoil_knot(
    n: int = 1617, noise_dims: int = 0, noise: float = 0.0, random_state: RandomState = 0
) -> Array:
    """Points along a trefoil knot, evenly spaced in its parameter.

    A closed curve that only unties in four dimensions. The default n is that of figure 3.8 of
    the thesis, which takes 4 neighbours.

    Parameters
    ----------
    n : int, default 1617
        The number of points.
    noise_dims : int, default 0
        Further coordinates of pure noise.
    noise : float, default 0.0
        The standard deviation of the noise coordinates.
    random_state : int or Generator or None, default 0
        The seed or generator of the random numbers.

    Returns
    -------
    array of shape (n, 3 + noise_dims)
        The points.

    Examples
    --------
    >>> trefoil_knot(100).shape
    (100, 3)
    """
    t = 2 * np.pi * np.arange(integer(n, "n")) / n
    knot = [np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -np.sin(3 * t)]
    return _noisy(np.column_stack(knot), noise_dims, noise, np.random.default_rng(random_state))


def spokes(
    n_spokes: int = 8,
    points_per_spoke: int = 5,
    noise_dims: int = 0,
    noise: float = 0.0,
    random_state: RandomState = 0,
) -> Array:
    """A star in the plane: spokes of points around a centre.

    Row 0 is the centre; then follow the spokes, each from the inside out in steps of one.
    Unfolding a star pulls every spoke into a dimension of its own, which is what minimum volume
    embedding was made to avoid.

    Parameters
    ----------
    n_spokes : int, default 8
        The number of spokes.
    points_per_spoke : int, default 5
        Points in each spoke, without the centre.
    noise_dims : int, default 0
        Further coordinates of pure noise.
    noise : float, default 0.0
        The standard deviation of the noise coordinates.
    random_state : int or Generator or None, default 0
        The seed or generator of the random numbers.

    Returns
    -------
    array of shape (1 + n_spokes·points_per_spoke, 2 + noise_dims)
        The points, the centre first.

    Examples
    --------
    >>> X = spokes(4, 2)
    >>> (X - X[0]).round(9)[1:3] + 0.0
    array([[1., 0.],
           [2., 0.]])
    """
    rays = integer(n_spokes, "n_spokes")
    steps = np.arange(1, integer(points_per_spoke, "points_per_spoke") + 1)
    angle = 2 * np.pi * np.arange(rays) / rays
    direction = np.column_stack([np.cos(angle), np.sin(angle)])
    rim = (direction[:, None, :] * steps[None, :, None]).reshape(-1, 2)
    star = np.concatenate([np.zeros((1, 2)), rim])
    return _noisy(star, noise_dims, noise, np.random.default_rng(random_state))


def comb(
    n_teeth: int = 5,
    points_per_tooth: int = 55,
    spacing: int = 6,
    noise_dims: int = 0,
    noise: float = 0.0,
    random_state: RandomState = 0,
) -> Array:
    """A comb in the plane, whose teeth unfolding spreads into dimensions of their own.

    First come the (n_teeth − 1)·spacing + 1 points of the backbone, one apart; then the teeth, each
    from the backbone outwards in steps of one, `spacing` apart: far enough that no tooth is a
    neighbour of the next. The defaults are 300 points, as in figure 3.15 of Weinberger (2007): a
    curve almost everywhere, which unfolding spreads into more dimensions than it had.

    Parameters
    ----------
    n_teeth : int, default 5
        The number of teeth.
    points_per_tooth : int, default 55
        Points in each tooth.
    spacing : int, default 6
        Steps of the backbone from one tooth to the next.
    noise_dims : int, default 0
        Further coordinates of pure noise.
    noise : float, default 0.0
        The standard deviation of the noise coordinates.
    random_state : int or Generator or None, default 0
        The seed or generator of the random numbers.

    Returns
    -------
    array of shape (n, 2 + noise_dims)
        The points, n = (n_teeth − 1)·spacing + 1 + n_teeth·points_per_tooth.

    Examples
    --------
    >>> X = comb(2, 1, spacing=2)
    >>> X - X[0]
    array([[0., 0.],
           [1., 0.],
           [2., 0.],
           [0., 1.],
           [2., 1.]])
    """
    gap = integer(spacing, "spacing")
    along = np.arange((integer(n_teeth, "n_teeth") - 1.0) * gap + 1)
    steps = np.arange(1.0, integer(points_per_tooth, "points_per_tooth") + 1)
    backbone = np.column_stack([along, np.zeros_like(along)])
    teeth = np.column_stack([np.repeat(along[::gap], len(steps)), np.tile(steps, n_teeth)])
    shape = np.concatenate([backbone, teeth])
    return _noisy(shape, noise_dims, noise, np.random.default_rng(random_state))


def concentric_circles(n: int = 40, gap: float = 0.14) -> tuple[Array, Indices]:
    """Two circles of n points each, radii 1 and 1 + gap, each circle a class (thesis fig. 2.10).

    Points stand at the same angles on both, so that with a small gap the nearest neighbour of
    every point is on the other circle.

    Parameters
    ----------
    n : int, default 40
        Points on each circle.
    gap : float, default 0.14
        The difference of the radii.

    Returns
    -------
    X : array of shape (2n, 2)
        The points.
    y : array of int, shape (2n,)
        0 for the inner circle, 1 for the outer one.

    Examples
    --------
    >>> X, y = concentric_circles(4)
    >>> X.shape, y.tolist()
    ((8, 2), [0, 0, 0, 0, 1, 1, 1, 1])
    """
    angle = 2 * np.pi * np.arange(integer(n, "n", 2)) / n
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.concatenate([circle, (1 + gap) * circle]), np.repeat([0, 1], n)


def balance_scale() -> tuple[Array, Indices]:
    """Return all 625 states of a pair of scales and where they tip (the UCI set of that name).

    Columns are left weight, left distance, right weight, right distance, each 1 to 5; the class is
    0 in balance, 1 if the left side goes down, 2 if the right one does.

    Returns
    -------
    X : array of shape (625, 4)
        The states.
    y : array of int, shape (625,)
        The classes.

    Examples
    --------
    >>> X, y = balance_scale()
    >>> X.shape, np.bincount(y).tolist()
    ((625, 4), [49, 288, 288])
    """
    X = np.array(list(itertools.product(range(1, 6), repeat=4)), dtype=np.float64)
    torque = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    return X, np.where(torque == 0, 0, np.where(torque > 0, 1, 2))


def path_graph(n: int) -> sparse.csr_array:
    """Adjacency matrix of the path 0 – 1 – … – n−1 with unit lengths.

    Parameters
    ----------
    n : int
        The number of nodes.

    Returns
    -------
    csr_array of shape (n, n)
        Ones where nodes are joined.

    Examples
    --------
    >>> path_graph(3).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    return _successive(np.arange(integer(n, "n") - 1), n)


def cycle_graph(n: int) -> sparse.csr_array:
    """Adjacency matrix of the cycle of n ≥ 3 nodes with unit lengths.

    Parameters
    ----------
    n : int
        The number of nodes, at least 3.

    Returns
    -------
    csr_array of shape (n, n)
        Ones where nodes are joined.

    Examples
    --------
    >>> cycle_graph(4).toarray()[0]
    array([0., 1., 0., 1.])
    """
    return _successive(np.arange(integer(n, "n", 3)), n)


def star_graph(n_spokes: int = 8, points_per_spoke: int = 5) -> sparse.csr_array:
    """Adjacency matrix of a star with unit lengths.

    Node 0 is the centre, then follow the spokes from the inside out: the points of `spokes`,
    joined along the spokes only.

    Parameters
    ----------
    n_spokes : int, default 8
        The number of spokes.
    points_per_spoke : int, default 5
        Nodes in each spoke, without the centre.

    Returns
    -------
    csr_array of shape (n, n)
        Ones where nodes are joined, n = 1 + n_spokes·points_per_spoke.

    Examples
    --------
    >>> star_graph(2, 1).toarray()
    array([[0., 1., 1.],
           [1., 0., 0.],
           [1., 0., 0.]])
    """
    rays = integer(n_spokes, "n_spokes")
    steps = integer(points_per_spoke, "points_per_spoke")
    outer = np.arange(1, rays * steps + 1)
    inner = np.where((outer - 1) % steps == 0, 0, outer - 1)
    ends = (np.concatenate([inner, outer]), np.concatenate([outer, inner]))
    return sparse.csr_array((np.ones(2 * outer.size), ends), shape=(outer.size + 1,) * 2)


def _successive(nodes: Indices, n: int) -> sparse.csr_array:
    """Join each of these nodes to its successor modulo n."""
    after = (nodes + 1) % n
    ends = (np.concatenate([nodes, after]), np.concatenate([after, nodes]))
    return sparse.csr_array((np.ones(2 * len(nodes)), ends), shape=(n, n))


def _noisy(shape: Array, noise_dims: int, noise: float, rng: np.random.Generator) -> Array:
    """The shape with noise dimensions beside it, centred."""
    extra = integer(noise_dims, "noise_dims", 0)
    nonnegative(noise, "noise")
    X = np.column_stack([shape, noise * rng.standard_normal((len(shape), extra))])
    return np.asarray(X - X.mean(axis=0))
