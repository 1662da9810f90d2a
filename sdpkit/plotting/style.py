"""One style for all pictures: colour-blind safe, and readable when printed in grey."""

from __future__ import annotations

from typing import Any

# Okabe and Ito (2008), ordered so that neighbours in the cycle differ in lightness as well.
COLORS = ("#0072B2", "#E69F00", "#000000", "#D55E00", "#56B4E9", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# Map of signed numbers, such as the tensions of edges: blue, white, brown.
SIGNED = "PuOr_r"

_SETTINGS: dict[str, Any] = {
    "figure.figsize": (6.0, 3.6),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.grid": False,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "image.cmap": "viridis",
    "savefig.dpi": 110,
    "svg.hashsalt": "sdpkit",
}


def settings() -> dict[str, Any]:
    """Return matplotlib's settings for the style, for `matplotlib.rc_context`.

    Returns
    -------
    dict
        Name of a setting → its value.

    Examples
    --------
    >>> settings()["image.cmap"]
    'viridis'
    """
    from matplotlib.rcsetup import cycler

    cycle = cycler(color=COLORS) + cycler(linestyle=["-", "--", "-.", ":", "-", "--", "-."])
    return {**_SETTINGS, "axes.prop_cycle": cycle}


def use_style() -> None:
    """Use the style for every figure from now on.

    Its colours can be told apart by readers with any colour vision, its lines differ in their
    dashes too, so that a page printed in grey loses nothing.

    Examples
    --------
    >>> import matplotlib
    >>> with matplotlib.rc_context():
    ...     use_style()
    ...     matplotlib.rcParams["image.cmap"]
    'viridis'
    """
    import matplotlib

    matplotlib.rcParams.update(settings())
