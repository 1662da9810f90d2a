"""Pictures that move: frames of matplotlib in one animated SVG, for notebooks and pages.

The site adds buttons and a slider (docs/_static/moving.js); elsewhere the frames follow one
another.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdpkit.errors import InputError


@dataclass(frozen=True)
class Flipbook:
    """Frames that are shown one after the other.

    A notebook shows it as it is (`_repr_html_`); `save` writes an SVG file. The animation stops
    under the mouse, and a printer or a reader who prefers less motion gets the still. On the pages
    of the documentation buttons and a slider choose the frame.

    Attributes
    ----------
    frames : tuple of bytes
        PNG files, as bytes.
    size : tuple of int
        Width and height in pixels.
    seconds : float
        For one round.
    still : int
        The frame that is printed.
    alt : str
        The text for screen readers.
    labels : tuple of str
        What each frame shows, such as "k = 5", or empty.

    Examples
    --------
    >>> book = flipbook(lambda figure, k: figure.text(0.5, 0.5, str(k)), 2, alt="counts to one")
    >>> len(book.frames), book.seconds
    (2, 8.0)
    """

    frames: tuple[bytes, ...]
    size: tuple[int, int]
    seconds: float
    still: int
    alt: str
    labels: tuple[str, ...] = ()

    def svg(self) -> str:
        """The animated SVG as text."""
        width, height = self.size
        n = len(self.frames)
        # Styles of an SVG inside a page hold for the whole page: each book has a name of its own.
        name = "flip" + hashlib.sha256(b"".join(self.frames)).hexdigest()[:12]
        images = "".join(
            f'<image class="{"f still" if k == self.still else "f"}" width="{width}" '
            f'height="{height}" style="animation-delay:{k * self.seconds / n:.3f}s" '
            f'href="data:image/png;base64,{base64.b64encode(frame).decode()}"/>'
            for k, frame in enumerate(self.frames)
        )
        rules = (
            f"@keyframes {name}{{0%{{visibility:visible}}{100 / n:.4f}%{{visibility:hidden}}"
            "100%{visibility:hidden}}"
            f".{name} .f{{visibility:hidden;animation:{name} {self.seconds:g}s step-end infinite}}"
            f".{name}:hover .f{{animation-play-state:paused}}"
            "@media print,(prefers-reduced-motion:reduce)"
            f"{{.{name} .f{{animation:none}}.{name} .still{{visibility:visible}}}}"
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" role="img" '
            f'viewBox="0 0 {width} {height}" width="{width}" style="max-width:100%;height:auto">'
            f"<title>{html.escape(self.alt)}</title><style>{rules}</style>{images}</svg>"
        )

    def save(self, path: str | Path) -> None:
        """Write the animated SVG to a file."""
        Path(path).write_text(self.svg(), encoding="utf-8")

    def _repr_html_(self) -> str:
        labels = html.escape(json.dumps(list(self.labels)), quote=True)
        data = f'data-seconds="{self.seconds:g}" data-still="{self.still}" data-labels="{labels}"'
        return f'<div class="flipbook" {data}>{self.svg()}</div>'

    def __repr__(self) -> str:
        return f"<Flipbook of {len(self.frames)} frames, {self.seconds:g} s: {self.alt}>"


def flipbook(
    draw: Callable[[Any, int], object],
    n_frames: int,
    *,
    figsize: tuple[float, float] = (6.0, 3.6),
    seconds: float = 8.0,
    still: int = -1,
    alt: str,
    labels: Sequence[str] = (),
    dpi: int = 80,
) -> Flipbook:
    """Draw an animation frame by frame.

    `draw(figure, k)` draws frame k on an empty figure.

    Parameters
    ----------
    draw : callable
        Called with an empty figure and the number of the frame.
    n_frames : int
        How many frames.
    figsize : tuple of float, default (6.0, 3.6)
        Width and height in inches.
    seconds : float, default 8.0
        The time of one round.
    still : int, default -1
        The frame that is printed; −1 is the last.
    alt : str
        The text for screen readers.
    labels : sequence of str, default ()
        One text per frame, such as "k = 5": the frames are those of a parameter, which a slider
        chooses, and nothing moves until it is used.
    dpi : int, default 80
        Pixels per inch.

    Returns
    -------
    Flipbook
        The frames, which a notebook shows.

    Examples
    --------
    >>> book = flipbook(lambda figure, k: figure.text(0.5, 0.5, str(k)), 3, alt="counts to two")
    >>> book
    <Flipbook of 3 frames, 8 s: counts to two>
    """
    if n_frames < 1:
        raise InputError(f"n_frames is {n_frames}; a flipbook needs at least one frame")
    if labels and len(labels) != n_frames:
        raise InputError(f"{len(labels)} labels for {n_frames} frames; give one text per frame")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    frames = []
    for k in range(n_frames):
        figure = Figure(figsize=figsize, layout="constrained", dpi=dpi)
        FigureCanvasAgg(figure)
        draw(figure, k)
        frames.append(_png(figure))
    size = (round(figsize[0] * dpi), round(figsize[1] * dpi))
    return Flipbook(tuple(frames), size, seconds, still % n_frames, alt, tuple(labels))


def _png(figure: Any) -> bytes:
    """A figure in 64 colours: drawings need no more, and the page stays small."""
    from PIL import Image

    figure.canvas.draw()
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB").quantize(64)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
