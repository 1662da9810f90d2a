"""Pictures of programs' answers, drawn by matplotlib in one style.

matplotlib is imported on first use and is an extra: pip install 'sdpkit[plot]'.
"""

from sdpkit.plotting.cards import card, card_of
from sdpkit.plotting.clickable import EdgeMap, edge_map
from sdpkit.plotting.flipbook import Flipbook, flipbook
from sdpkit.plotting.pictures import (
    draw,
    plot_bars,
    plot_comparison,
    plot_convergence,
    plot_distances,
    plot_ellipses,
    plot_embedding,
    plot_iterates,
    plot_labelled,
    plot_metric,
    plot_metrics,
    plot_multipliers,
    plot_positions,
    plot_query_metrics,
    plot_rows,
    plot_runs,
    plot_spectrum,
    plot_trajectory,
    plot_unfolding,
)
from sdpkit.plotting.style import COLORS, MARKERS, SIGNED, settings, use_style

__all__ = [
    "COLORS",
    "MARKERS",
    "SIGNED",
    "EdgeMap",
    "Flipbook",
    "card",
    "card_of",
    "draw",
    "edge_map",
    "flipbook",
    "plot_bars",
    "plot_comparison",
    "plot_convergence",
    "plot_distances",
    "plot_ellipses",
    "plot_embedding",
    "plot_iterates",
    "plot_labelled",
    "plot_metric",
    "plot_metrics",
    "plot_multipliers",
    "plot_positions",
    "plot_query_metrics",
    "plot_rows",
    "plot_runs",
    "plot_spectrum",
    "plot_trajectory",
    "plot_unfolding",
    "settings",
    "use_style",
]
