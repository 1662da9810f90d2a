"""The page of a look: one HTML file without scripts, drawn in SVG, that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sdpkit.graphs.distances import SquaredDistances
from sdpkit.plotting.style import COLORS
from sdpkit.typing import Array

if TYPE_CHECKING:
    from sdpkit.looking.look import Look

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
figure{margin:0}svg{width:100%;height:auto;background:#fff;border:1px solid #ddd}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(22rem,1fr));gap:1rem}
table{border-collapse:collapse}
td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}
pre{background:#f6f6f6;padding:.8rem;overflow-x:auto;font-size:.85rem}
.bad{border-left:.3rem solid #D55E00;padding-left:.8rem}
.good{border-left:.3rem solid #009E73;padding-left:.8rem}
svg.key{width:10px;height:10px;border:0}
figcaption{font-size:.9rem;color:#555}
@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}pre{background:#2a2a2a}}
"""
_SIZE, _MARGIN = 520.0, 20.0
# More labels share the colours and differ in shape.
_SHAPES = ("circle", "square", "triangle", "diamond")
_MOST_LABELS = len(COLORS) * len(_SHAPES)
_BARS = 10


def page(seen: Look) -> str:
    """The whole page as HTML."""
    style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    title = html.escape(seen.source or "table")
    wrong = seen.diagnosis.warnings
    verdict = (
        f'<div class="bad"><p>Read this picture with care:</p>{_list(wrong)}</div>'
        if wrong
        else '<p class="good">Nothing was found that makes this picture misleading.</p>'
    )
    n, d = seen.points.X.shape
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{title}: {n} points with {d} numbers each</h1>{verdict}{_pictures(seen)}"
        f"<h2>How good is it?</h2>{_quality(seen)}"
        f"<h2>What was chosen, and why</h2>{_list(_choices(seen))}"
        f"<h2>What was done with the table</h2>{_list(seen.notes or ('nothing',))}"
        "<h2>Certificate</h2><p>It proves that the program was solved. It says nothing of the "
        f"picture.</p><pre>{html.escape(str(seen.estimator.certificate_))}</pre>"
        f"<h2>The same in Python</h2><pre>{html.escape(seen.code)}</pre></body></html>\n"
    )


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def _choices(seen: Look) -> list[str]:
    model = seen.estimator
    given = {"n_neighbors": model.n_neighbors, "form": model.form, "connect": model.connect}
    lines = [f"{name} = {one.value}: {one.reason}" for name, one in model.choices_.items()]
    return lines + [f"{name} = {value}" for name, value in given.items() if value != "auto"]


def _quality(seen: Look) -> str:
    found = seen.diagnosis
    rows = "".join(
        f"<tr><td>{name}</td><td>{one.trust:.3f}</td><td>{one.continuity:.3f}</td></tr>"
        for name, one in found.faithfulness.items()
    )
    return (
        "<table><tr><th></th><th>trust</th><th>continuity</th></tr>" + rows + "</table>"
        "<p>Trust: are drawn neighbours neighbours in the table? Continuity: are neighbours in the "
        "table drawn as neighbours? 1 is perfect. "
        f"{found.dimensions_drawn} dimensions show {100 * found.shown:.1f} % of the variance, "
        f"{found.dimensions_needed} show 95 %; {100 * found.folded:.1f} % of the points are drawn "
        "over distant ones.</p>"
    )


def _pictures(seen: Look) -> str:
    plane = np.c_[seen.coordinates, np.zeros(len(seen.coordinates))][:, :2]
    places = _on_paper(plane)
    labels = seen.points.labels
    kinds = [] if labels is None else list(dict.fromkeys(labels.tolist()))
    if len(kinds) > _MOST_LABELS:
        kinds = []
    index = {kind: k for k, kind in enumerate(kinds)}
    first = [
        _mark(x, y, *_look_of(index[labels[i]] if kinds and labels is not None else 0), labels, i)
        for i, (x, y) in enumerate(places)
    ]
    return (
        "<div class='two'>"
        + _figure(first, "Points by label" if kinds else "Points", _legend(kinds))
        + _figure(
            [
                _mark(x, y, "circle", shade, labels, i)
                for i, ((x, y), shade) in enumerate(zip(places, _density(seen), strict=True))
            ],
            "The same by density in the table: dark points have close neighbours",
        )
        + _figure(
            _edges(seen, places[seen.rows]),
            "Edges of the graph. Orange ones carry most of the tension; red ones hold a part alone",
        )
        + _spectrum(seen)
        + "</div>"
    )


def _on_paper(plane: Array) -> Array:
    """(n, 2) positions in the picture, the same scale on both axes."""
    low, high = plane.min(axis=0), plane.max(axis=0)
    scale = (_SIZE - 2 * _MARGIN) / (float((high - low).max()) or 1.0)
    middle = (low + high) / 2
    return np.asarray((plane - middle) * [scale, -scale] + _SIZE / 2)


def _look_of(k: int) -> tuple[str, str]:
    return _SHAPES[(k // len(COLORS)) % len(_SHAPES)], COLORS[k % len(COLORS)]


def _mark(x: float, y: float, shape: str, color: str, labels: object, i: int) -> str:
    name = f"row {i}" if labels is None else f"row {i}: {labels[i]}"  # type: ignore[index]
    title = f"<title>{html.escape(name)}</title>"
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}">{title}</circle>'
    corners = {
        "square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        "triangle": ((0, -4), (4, 3), (-4, 3)),
        "diamond": ((0, -4.5), (4.5, 0), (0, 4.5), (-4.5, 0)),
    }[shape]
    places = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in corners)
    return f'<polygon points="{places}" fill="{color}">{title}</polygon>'


def _figure(marks: list[str], caption: str, legend: str = "") -> str:
    alt = html.escape(caption, quote=True)
    return (
        f'<figure><svg viewBox="0 0 {_SIZE:.0f} {_SIZE:.0f}" role="img" aria-label="{alt}">'
        f"{''.join(marks)}</svg><figcaption>{html.escape(caption)}{legend}</figcaption></figure>"
    )


def _legend(kinds: list[str]) -> str:
    items = [
        '<svg viewBox="0 0 10 10" width="10" height="10" class="key">'
        + _mark(5, 5, *_look_of(k), None, 0)
        + f"</svg> {html.escape(kind)}"
        for k, kind in enumerate(kinds)
    ]
    return "<br>" + " · ".join(items) if items else ""


def _density(seen: Look) -> list[str]:
    """A colour per point: light where the table is thin, dark where it is dense."""
    X = seen.points.X
    k = min(5, len(X) - 1)
    among = SquaredDistances.from_points(X[seen.rows])
    far = among.nearest_to(min(k, len(seen.rows)), X)[1][:, -1]
    rank = far.argsort().argsort() / max(len(far) - 1, 1)
    light, dark = np.array([222, 200, 120]), np.array([20, 30, 90])
    return [
        f"rgb({r},{g},{b})"
        for r, g, b in (dark + rank[:, None] * (light - dark)).astype(int).tolist()
    ]


def _edges(seen: Look, places: Array) -> list[str]:
    edges, tensions = seen.estimator.edges_, seen.estimator.tensions_
    alone = {edge for edge, _ in seen.diagnosis.hanging}
    strong = np.zeros(len(edges), dtype=bool)
    if tensions is not None and len(edges) > 20:
        strong = np.abs(tensions) > np.quantile(np.abs(tensions), 0.95)
    out = []
    for (i, j), tight in zip(edges.tolist(), strong, strict=True):
        (x, y), (u, v) = places[i], places[j]
        color, width = (
            ("#CC0000", 3) if (i, j) in alone else ("#E69F00", 2) if tight else ("#999", 1)
        )
        line = f'x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}"'
        out.append(f'<line {line} stroke="{color}" stroke-width="{width}"/>')
    return out


def _spectrum(seen: Look) -> str:
    values = np.sort(seen.estimator.eigenvalues_)[::-1].clip(min=0)
    total = seen.estimator.result_.variance or float(values.sum()) or 1.0
    bars = []
    for k, share in enumerate((values[:_BARS] / total).tolist()):
        height, left = share * (_SIZE - 80), 40 + k * 45
        bars.append(
            f'<rect x="{left}" y="{_SIZE - 40 - height:.1f}" width="32" height="{height:.1f}" '
            f'fill="{COLORS[0]}"/><text x="{left + 16}" y="{_SIZE - 20:.0f}" text-anchor="middle" '
            f'font-size="13">{k + 1}</text><text x="{left + 16}" y="{_SIZE - 46 - height:.1f}" '
            f'text-anchor="middle" font-size="11">{100 * share:.0f} %</text>'
        )
    return _figure(bars, "Spectrum: the share of the variance that each dimension holds")


__all__ = ["page"]
