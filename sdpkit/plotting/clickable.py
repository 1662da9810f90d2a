"""An embedding whose edges can be chosen: click one, or step through them, to read its tension."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from sdpkit.errors import InputError
from sdpkit.plotting.drawn import DrawnEmbedding
from sdpkit.typing import Array, Indices

_WIDTH = 760.0
_MARGIN = 12.0


@dataclass(frozen=True)
class EdgeMap:
    """A drawing of points and edges; each edge carries a sentence about its tension.

    Attributes
    ----------
    coordinates : array of shape (n, 2)
        The points.
    edges : array of int, shape (m, 2)
        Pairs of points.
    tensions : array of shape (m,)
        Positive where the edge is stretched.
    alt : str
        The text for screen readers.

    Examples
    --------
    >>> import numpy as np
    >>> EdgeMap(np.eye(2), np.array([[0, 1]]), np.array([0.5]), alt="one edge")
    <EdgeMap of 1 edges: one edge>
    """

    coordinates: Array
    edges: Indices
    tensions: Array
    alt: str

    def sentences(self) -> list[str]:
        """What is said about each edge, in the order of `edges`."""
        largest = float(np.abs(self.tensions).max()) or 1.0
        place = np.empty(len(self.tensions), dtype=int)
        place[np.argsort(-np.abs(self.tensions), kind="stable")] = np.arange(len(self.tensions))
        return [
            f"Edge from point {i} to point {j}: tension {w:.3g}, {_state(w, largest)}; "
            f"number {k + 1} of {len(self.tensions)} by strength."
            for (i, j), w, k in zip(self.edges, self.tensions, place, strict=True)
        ]

    def svg(self) -> str:
        """The drawing; browsers show the sentence of an edge under the mouse."""
        spots, height = _on_paper(self.coordinates)
        largest = float(np.abs(self.tensions).max()) or 1.0
        lines = []
        for (i, j), w, sentence in zip(self.edges, self.tensions, self.sentences(), strict=True):
            (x1, y1), (x2, y2) = spots[i], spots[j]
            lines.append(
                f'<line class="{_state(w, largest)}" data-tension="{w:.6g}" '
                f'stroke-width="{0.8 + 3.2 * np.sqrt(abs(w) / largest):.2f}" '
                f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}">'
                f"<title>{sentence}</title></line>"
            )
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in spots)
        style = (
            ".edgemap line{stroke:#999}.edgemap .stretched{stroke:#b35806}"
            ".edgemap .compressed{stroke:#542788}.edgemap circle{fill:#222}"
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="edgemap" role="img" '
            f'aria-label="{html.escape(self.alt, quote=True)}" '
            f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}" '
            f'width="{_WIDTH:.0f}" style="max-width:100%;height:auto;background:#fff">'
            f"<style>{style}</style>{''.join(lines)}{dots}</svg>"
        )

    def _repr_html_(self) -> str:
        return f'<div class="edge-map">{self.svg()}</div>'

    def __repr__(self) -> str:
        return f"<EdgeMap of {len(self.edges)} edges: {self.alt}>"


def edge_map(embedding: DrawnEmbedding, *, alt: str) -> EdgeMap:
    """A drawing of an embedding in the plane in which a click on an edge shows its tension.

    Parameters
    ----------
    embedding : Embedding
        The result of `problem.recover(solution)` with tensions.
    alt : str
        The text for screen readers.

    Returns
    -------
    EdgeMap
        The drawing, which a notebook shows.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpkit
    >>> problem = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> embedding = problem.recover(sdpkit.solve(problem), n_components=2)
    >>> edge_map(embedding, alt="a ring")
    <EdgeMap of 5 edges: a ring>
    """
    if embedding.tensions is None:
        raise InputError("this embedding has no tensions; recover it from a solution with a dual")
    coordinates = np.asarray(embedding.coordinates, dtype=float)
    if coordinates.shape[1] < 2:
        coordinates = np.c_[coordinates, np.zeros(len(coordinates))]
    return EdgeMap(
        coordinates[:, :2], np.asarray(embedding.edges), np.asarray(embedding.tensions), alt
    )


def _state(tension: float, largest: float) -> str:
    if abs(tension) < 1e-3 * largest:
        return "idle"
    return "stretched" if tension > 0 else "compressed"


def _on_paper(coordinates: Array) -> tuple[Array, float]:
    """Coordinates in a drawing of fixed width, and its height; the second axis points upwards."""
    low, span = coordinates.min(axis=0), np.ptp(coordinates, axis=0)
    scale = (_WIDTH - 2 * _MARGIN) / max(float(span[0]), float(span[1]) / 2, 1e-300)
    height = 2 * _MARGIN + scale * float(span[1])
    x = _MARGIN + scale * (coordinates[:, 0] - low[0])
    y = height - _MARGIN - scale * (coordinates[:, 1] - low[1])
    return np.c_[x, y], max(height, 4 * _MARGIN)
