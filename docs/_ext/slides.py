"""Slides for every chapter of the course, cut from its finished page: `slides/NAME.html`.

A section becomes one or more slides: the first sentences of its paragraphs, its formulas, its
figures with their captions, its code. The whole paragraphs are the speaker's notes. Exercises come
without their solutions. The slides are files of the site and need no network.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

from bs4 import BeautifulSoup, NavigableString, Tag
from sphinx.application import Sphinx

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z“])")
_LONG = 150  # characters of a paragraph that is shown whole
_SHORT = 70  # a first sentence below this brings the second one along
_ROOM = 7.0  # of a slide: one for a paragraph, more for formulas, code and figures
_FIGURE = 4.6
_CODE_LINE = 0.22
_CODE_LINES = 22


@dataclass
class Slide:
    """One slide: HTML to show, and HTML for the speaker."""

    title: str
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    weight: float = 0.0


def slides_of(article: Tag) -> list[Slide]:
    """The slides of a chapter's page, in order."""
    chapter = article.find("section")
    if not isinstance(chapter, Tag):
        return []
    slides = [_opening(chapter)]
    for section in chapter.find_all("section", recursive=False):
        title = _title(section)
        if title == "Exercises":
            slides += [_exercise(part) for part in section.find_all("section", recursive=False)]
        else:
            slides += _section(section, title)
    return [slide for slide in slides if slide.parts]


def _opening(chapter: Tag) -> Slide:
    slide = Slide(_title(chapter))
    for paragraph in chapter.find_all("p", recursive=False)[:2]:
        slide.parts.append(f'<p class="lead">{_first_sentences(paragraph, 260)}</p>')
        slide.notes.append(str(paragraph))
    return slide


def _exercise(section: Tag) -> Slide:
    slide = Slide(_title(section))
    for child in section.find_all(recursive=False):
        solution = child.name == "details" or child.select_one("details") is not None
        if child.name != "h3" and not solution:
            slide.parts.append(str(child))
    return slide


def _section(section: Tag, title: str) -> list[Slide]:
    slides = [Slide(title)]
    for child in section.find_all(recursive=False):
        if child.name == "section":
            slides += _section(child, _title(child))
            slides.append(Slide(title))
            continue
        for part, weight, alone, note in _pieces(child):
            if slides[-1].parts and (alone or slides[-1].weight + weight > _ROOM):
                slides.append(_continued(slides[-1]))
            slides[-1].parts.append(part)
            slides[-1].weight += _ROOM if alone else weight
            if note:
                slides[-1].notes.append(note)
    return slides


def _continued(full: Slide) -> Slide:
    """The slide after a full one. A last paragraph that announces what follows moves there."""
    slide = Slide(full.title)
    if len(full.parts) > 1 and re.search(r":(\s*</p>)$", full.parts[-1]):
        slide.parts.append(full.parts.pop())
        slide.weight = 1.0
    return slide


def _pieces(child: Tag) -> Iterator[tuple[str, float, bool, str]]:
    """What a block of the page gives: HTML, its weight, whether it stands alone, and the notes."""
    kinds = set(child.get("class") or [])
    if child.name == "p":
        text = _first_sentences(child, _LONG)
        yield f"<p>{text}</p>", 1 + len(child.get_text()) // 400 * 0.2, False, str(child)
    elif child.name in ("ul", "ol"):
        points = child.find_all("li", recursive=False)
        yield str(child), 1.0 * len(points), False, ""
    elif "math" in kinds:
        yield str(child), 1.6, False, ""
    elif child.name == "table" or "pst-scrollable-table-container" in kinds:
        yield str(child), _ROOM, True, ""
    elif "cell" in kinds:
        yield from _cell(child)
    elif child.name in ("figure", "blockquote") or "admonition" in kinds:
        yield str(child), 2.0, False, ""


def _cell(cell: Tag) -> Iterator[tuple[str, float, bool, str]]:
    """A cell: its code if it is shown and short, and each of its figures."""
    if "tag_hide-cell" in (cell.get("class") or []):
        return
    code = cell.select_one("div.cell_input")
    shown = code is not None and code.find_parent("details") is None
    if code is not None and shown and code.get_text().strip().count("\n") < _CODE_LINES:
        prints = "".join(str(o) for o in cell.select("div.output.stream, div.output.text_plain"))
        lines = (code.get_text() + prints).strip().count("\n")
        yield f'<div class="cell">{code}{prints}</div>', 0.6 + _CODE_LINE * lines, False, ""
    for picture in cell.select("figure, div.flipbook, div.edge-map, img"):
        if picture.name != "img" or picture.find_parent("figure") is None:
            yield str(picture), _FIGURE, False, ""


def _title(section: Tag) -> str:
    heading = section.find(["h1", "h2", "h3", "h4"])
    if not isinstance(heading, Tag):
        return ""
    heading = copy(heading)
    for link in heading.select("a.headerlink"):
        link.decompose()
    return heading.decode_contents().strip()


def _first_sentences(paragraph: Tag, enough: int) -> str:
    """The beginning of a paragraph as HTML: whole sentences, at least `_SHORT` characters."""
    if len(paragraph.get_text()) <= enough:
        return paragraph.decode_contents()
    kept, length = [], 0
    for node in paragraph.children:
        if isinstance(node, NavigableString):
            for k, sentence in enumerate(_SENTENCE_END.split(str(node))):
                if k and length >= _SHORT:
                    return "".join(kept)
                kept.append((" " if k else "") + html.escape(sentence, quote=False))
                length += len(sentence)
        else:
            kept.append(str(node))
            length += len(node.get_text())
    return "".join(kept)


_PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · slides</title>
<link rel="stylesheet" href="../_static/pygments.css">
<link rel="stylesheet" href="../_static/slides.css">
<script>window.MathJax = {{"svg": {{"fontCache": "global"}}}}</script>
<script defer src="../_static/mathjax/tex-svg-full.js"></script>
<script defer src="../_static/moving.js"></script>
<script defer src="../_static/slides.js"></script>
</head>
<body>
<main class="slides">
{slides}
</main>
<nav class="slides-bar" aria-label="Slides">
<button type="button" id="back" aria-label="previous slide">◀</button>
<output id="place" aria-live="polite"></output>
<button type="button" id="next" aria-label="next slide">▶</button>
<button type="button" id="notes" aria-pressed="false">notes (n)</button>
<a href="../course/{name}.html">the chapter</a>
</nav>
</body>
</html>
"""


def page(name: str, slides: list[Slide]) -> str:
    """The file of a chapter's slides."""
    written = []
    for k, slide in enumerate(slides):
        level = "h1" if k == 0 else "h2"
        notes = f'<aside class="notes">{"".join(slide.notes)}</aside>' if slide.notes else ""
        written.append(
            f'<section class="slide" tabindex="-1" aria-roledescription="slide">'
            f"<{level}>{slide.title}</{level}>{''.join(slide.parts)}{notes}</section>"
        )
    soup = BeautifulSoup("\n".join(written), "html.parser")
    for tag in soup.find_all(True):
        if tag.name in ("section", "figure", "span", "div", "p"):
            tag.attrs.pop("id", None)
    for link in soup.select("a.headerlink"):
        link.decompose()
    for link in soup.find_all("a", href=True):
        target = str(link["href"])
        if target.startswith("#"):
            link["href"] = f"../course/{name}.html{target}"
        elif not re.match(r"\.\./|[a-z]+:", target):
            link["href"] = f"../course/{target}"
    title = re.sub(r"<[^>]+>", "", slides[0].title)
    return _PAGE.format(title=title, name=name, slides=str(soup))


def write(app: Sphinx, exception: Exception | None) -> None:
    """After the build: the slides of every chapter."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / "slides"
    folder.mkdir(exist_ok=True)
    for path in sorted((Path(app.outdir) / "course").glob("[0-9][0-9]_*.html")):
        soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        article = soup.select_one("article.bd-article")
        if article is not None:
            text = page(path.stem, slides_of(article))
            (folder / path.name).write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
