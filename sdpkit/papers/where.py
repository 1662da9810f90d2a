"""Where the papers' data sets come from: what a file must hold, and who has it.

None of them is part of sdpkit. A file is made with `numpy.savez("NAME.npz", X=X, y=y)`.
"""

from __future__ import annotations

from collections.abc import Sequence

_UCI = "from the UCI Machine Learning Repository, https://archive.ics.uci.edu"

SETS: dict[str, tuple[str, str]] = {
    "mnist": ("X (n, 784) and y", "sklearn.datasets.fetch_openml('mnist_784')"),
    "usps": ("X (n, 256) and y", "sklearn.datasets.fetch_openml('USPS', version=2)"),
    "letter": ("X (20000, 16) and y", "sklearn.datasets.fetch_openml('letter')"),
    "olivetti": ("X (400, 4096)", "sklearn.datasets.fetch_olivetti_faces()"),
    "frey": ("X (n, 560), frames of a face", "https://cs.nyu.edu/~roweis/data.html, frey_rawface"),
    "teapots100": (
        "X (100, pixels), frames of one turn",
        "photographs of the papers' authors; the figures of the teapot generate frames instead",
    ),
    "uscities": ("X (n, 2), places of cities in kilometres", "the gazetteer of www.census.gov"),
    "netscience": (
        "X (n, n), an adjacency matrix",
        "M. Newman's network data, http://www-personal.umich.edu/~mejn/netdata/",
    ),
    "phylo_salamanders": (
        "X (n, n), distances between the tips of a tree",
        "Highton and Larson 1979; in R, cophenetic(salamanders) of the package phytools",
    ),
    "phylo_anoles": (
        "X (n, n), distances between the tips of a tree",
        "Mahler and others 2010; in R, cophenetic(anoletree) of the package phytools",
    ),
    "glass": ("X and y", _UCI),
    "housevotes84": ("X and y", _UCI),
    "ionosphere": ("X and y", _UCI),
    "newthyroid": ("X and y", _UCI),
    "tictactoe": ("X and y", _UCI),
}


def how_to_get(names: Sequence[str]) -> str:
    """What the files hold and where they come from, for an error.

    >>> print(how_to_get(["olivetti"]))
    olivetti.npz with X (400, 4096) (sklearn.datasets.fetch_olivetti_faces())
    """
    return "; ".join(f"{name}.npz with {SETS[name][0]} ({SETS[name][1]})" for name in names)
