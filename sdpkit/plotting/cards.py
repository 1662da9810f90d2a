"""What a notebook shows for a solution, a certificate, a program or a comparison: a small table."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

_BOX = "border:1px solid #8888;border-radius:6px;padding:0.5em 0.9em;display:inline-block;"
_CELL = "text-align:left;padding:0.1em 1.2em 0.1em 0;border:none;"


def card(title: str, rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """A titled table as HTML; colours are those of the page around it.

    Parameters
    ----------
    title : str
        The heading.
    rows : iterable of sequence of str
        The cells, row by row.
    heads : sequence of str, default ()
        The names of the columns.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> card("a & b", [("gap", "1e-6")])[-29:]
    '>1e-6</td></tr></table></div>'
    """
    head = "".join(f'<th style="{_CELL}">{html.escape(name)}</th>' for name in heads)
    lines = [f"<tr>{head}</tr>"] if heads else []
    for row in rows:
        cells = "".join(f'<td style="{_CELL}">{html.escape(text)}</td>' for text in row)
        lines.append(f"<tr>{cells}</tr>")
    return (
        f'<div class="sdpkit-card" style="{_BOX}"><strong>{html.escape(title)}</strong>'
        f'<table style="border:none;margin:0.3em 0 0 0">{"".join(lines)}</table></div>'
    )


def card_of(text: str) -> str:
    """Format a printed object as a card.

    Its first line is the title; two spaces separate a name from its value.

    Parameters
    ----------
    text : str
        The printed object.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> "<td" in card_of("certificate\\n  objective   3.0   (exact)")
    True
    """
    title, *lines = text.splitlines()
    split = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines]
    return card(title, [part if len(part) == 2 else ["", *part] for part in split])
