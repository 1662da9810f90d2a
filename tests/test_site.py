"""The built site: `make docs`, then pytest -m site.

It opens from a disk in a real browser with the network cut off.
"""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

import sdpkit

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(os.environ.get("SDPKIT_SITE", ROOT / "docs" / "_build" / "html"))
pytestmark = pytest.mark.site
# Pages of every kind: landing, guide, chapter, example, reference, search.
WIDTHS = (390, 1400)


def pages() -> list[Path]:
    return sorted(p for p in SITE.rglob("*.html") if "_static" not in p.parts)


def chapters() -> list[Path]:
    return sorted((SITE / "course").glob("[0-9][0-9]_*.html"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield chromium
        chromium.close()


class Visit:
    """A page in the browser, what it requested from elsewhere, and what it complained about."""

    def __init__(self, browser: Any, path: Path, width: int, query: str = "") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", self._request)
        self.page.on("console", self._message)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri() + query)
        self.page.wait_for_load_state("load")

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.requests.append(request.url)

    def _message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def wait_for_formulas(self) -> None:
        self.page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
        self.page.evaluate("MathJax.startup.promise")

    def close(self) -> None:
        self.page.close()


def test_the_site_was_built() -> None:
    assert (SITE / "index.html").exists(), "run 'make docs' first"
    assert len(chapters()) >= 1


def test_every_public_name_has_a_page() -> None:
    missing = [
        name
        for name in sdpkit.__all__
        if not isinstance(getattr(sdpkit, name), type(sdpkit))
        and not (SITE / "reference" / "generated" / f"sdpkit.{name}.html").exists()
    ]
    assert missing == []


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_requests_or_complains_or_overflows(browser: Any, width: int) -> None:
    reference = [p for p in pages() if "generated" in p.parts]
    # Pages of the reference share one template: every tenth stands for them.
    visited = [p for p in pages() if p not in reference] + reference[::10]
    for path in visited:
        visit = Visit(browser, path, width)
        has_formulas = visit.page.locator(".math").count() > 0
        if has_formulas:
            visit.wait_for_formulas()
        assert visit.requests == [], path
        assert visit.complaints == [], path
        scrolls = visit.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert scrolls <= 1, f"{path} is {scrolls} px too wide at {width} px"
        visit.close()


@pytest.mark.needs("chromium")
def test_formulas_are_rendered(browser: Any) -> None:
    for path in chapters():
        visit = Visit(browser, path, 1400)
        visit.wait_for_formulas()
        written = visit.page.locator(".math").count()
        drawn = visit.page.locator(".math mjx-container svg").count()
        errors = visit.page.locator("mjx-container [data-mjx-error]").count()
        assert drawn >= written > 5, path
        assert errors == 0, path
        visit.close()


# What is wrong on a page of 1400 px: code that is cut off, a scroll bar at a formula in a line,
# a computed number that is bolder than its sentence.
FLAWS = """() => {
  const all = (selector) => [...document.querySelectorAll('.bd-article ' + selector)];
  const style = (e) => getComputedStyle(e);
  const hides = (e) => style(e).overflowX !== 'visible' || style(e).overflowY !== 'visible';
  const larger = (e) => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight;
  return [
    ...all('pre').filter((e) => e.scrollWidth > e.clientWidth + 1).map(
        (e) => 'cut: ' + e.innerText),
    ...all('mjx-container:not([display])').filter((e) => hides(e) && larger(e)).map(
        (e) => 'scroll bar: ' + e.innerHTML.slice(0, 80)),
    ...all('.pasted-text').filter(
        (e) => style(e).fontWeight > style(e.parentElement).fontWeight).map(
            (e) => 'bold: ' + e.innerText),
  ];
}"""


@pytest.mark.needs("chromium")
def test_code_is_whole_and_formulas_and_numbers_flow_with_the_text(browser: Any) -> None:
    reference = [p for p in pages() if "generated" in p.parts]
    others = [p for p in pages() if p not in reference and "slides" not in p.parts]
    found = {}
    for path in others + reference[::10]:
        visit = Visit(browser, path, 1400)
        if visit.page.locator(".math").count():
            visit.wait_for_formulas()
        if flaws := visit.page.evaluate(FLAWS):
            found[str(path.relative_to(SITE))] = flaws[:3]
        visit.close()
    assert found == {}


@pytest.mark.needs("chromium")
def test_a_hundred_columns_of_code_fit_without_breaking(browser: Any) -> None:
    visit = Visit(browser, chapters()[0], 1400)
    room = visit.page.evaluate("""() => {
      const pre = document.querySelector('.bd-article pre');
      const line = document.createElement('span');
      line.style.whiteSpace = 'pre';
      line.textContent = 'x'.repeat(100);
      pre.appendChild(line);
      const { paddingLeft, paddingRight } = getComputedStyle(pre);
      return pre.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight)
        - line.getBoundingClientRect().width;
    }""")
    assert room >= 0
    visit.close()


def test_figures_are_numbered_from_one_on_every_page() -> None:
    numbered = 0
    for path in pages():
        numbers = re.findall(r'caption-number">Fig\. (\S+) ', path.read_text("utf-8"))
        if "slides" in path.parts:  # of the chapter's figures, with the chapter's numbers
            assert sorted(numbers, key=int) == numbers, path
        else:
            assert numbers == [str(k + 1) for k in range(len(numbers))], path
        numbered += bool(numbers)
    assert numbered > len(chapters()) - 2


def test_every_page_links_the_glossary() -> None:
    lacking = [
        p
        for p in pages()
        if "slides" not in p.parts
        and p.name != "glossary.html"
        and "glossary.html" not in p.read_text("utf-8")
    ]
    assert lacking == []


def test_every_example_has_a_picture_of_its_own() -> None:
    """Sphinx-Gallery puts one and the same placeholder where an example draws nothing."""
    thumbs = sorted((SITE / "_images").glob("sphx_glr_plot_*_thumb.*"))
    assert len(thumbs) >= 40
    drawn = {path.read_bytes() for path in thumbs}
    assert len(drawn) == len(thumbs)


@pytest.mark.needs("chromium")
def test_solutions_are_hidden_until_opened(browser: Any) -> None:
    visit = Visit(browser, chapters()[0], 1400)
    solution = visit.page.locator("details", has_text="Solution").first
    body = solution.locator("p").first
    assert not body.is_visible()
    solution.locator("summary").click()
    assert body.is_visible()
    visit.close()


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("elliptope", "semidefinite program"),
        ("triplets", "Large margin nearest neighbours"),
        ("neighborhood_graph", "neighborhood_graph"),
    ],
)
def test_search_finds_a_word_from_a_disk(browser: Any, word: str, title: str) -> None:
    visit = Visit(browser, SITE / "search.html", 1400, f"?q={word}")
    # Results appear one after the other.
    found = visit.page.locator("#search-results li a", has_text=re.compile(re.escape(title), re.I))
    found.first.wait_for()
    assert visit.requests == []
    assert visit.complaints == []
    visit.close()


def test_internal_links_resolve() -> None:
    texts = {path: path.read_text("utf-8") for path in pages()}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    broken = []
    for path, text in texts.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            address, anchor = urldefrag(html.unescape(link))
            if re.match(r"[a-z]+:", address) or address.startswith("//"):
                continue
            target = (path.parent / unquote(address.split("?")[0])).resolve() if address else path
            nowhere = anchor and unquote(anchor) not in anchors.get(target, {unquote(anchor)})
            if not target.exists() or nowhere:
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


@pytest.mark.parametrize("folder", ["notebooks", "notebooks/teachers"])
def test_every_chapter_downloads_as_a_notebook(folder: str) -> None:
    import nbformat

    for path in chapters():
        notebook = nbformat.read(SITE / folder / f"{path.stem}.ipynb", as_version=4)
        nbformat.validate(notebook)
        text = "\n".join(cell.source for cell in notebook.cells)
        assert "{glue" not in text, path
        assert "myst_nb" not in text, path
        assert "{dropdown}" not in text, path
        assert "*Figure.*" in text, path
        assert ("<summary>Solution" in text) == (folder == "notebooks/teachers"), path
        assert ("*Your answer:*" in text) == (folder == "notebooks"), path
        assert f"{folder}/{path.stem}.ipynb" in path.read_text("utf-8")


def test_every_chapter_has_a_figure_that_moves() -> None:
    for path in chapters():
        assert 'class="flipbook"' in path.read_text("utf-8"), path


@pytest.mark.needs("chromium")
def test_a_slider_chooses_the_frame_and_says_its_value(browser: Any) -> None:
    visit = Visit(browser, SITE / "course" / "08_noise.html", 1400)
    book = visit.page.locator(".flipbook").first
    slider = book.locator("input[type=range]")
    visible = "[...document.querySelector('.flipbook').querySelectorAll('image')].map(" + (
        "f => getComputedStyle(f).visibility === 'visible')"
    )
    slider.focus()
    for key, frame in (("Home", 0), ("ArrowRight", 1), ("End", 4)):
        visit.page.keyboard.press(key)
        shown = visit.page.evaluate(visible)
        assert [k for k, on in enumerate(shown) if on] == [frame]
        said = slider.get_attribute("aria-valuetext")
        assert said.startswith("ω = ")
        assert said == book.locator("output").inner_text()
    book.locator("button[aria-label='next frame']").click()
    assert visit.page.evaluate(visible).index(True) == 0
    play = book.locator(".moving-play")
    assert play.get_attribute("aria-pressed") == "false"  # a parameter does not move by itself
    play.click()
    assert play.get_attribute("aria-pressed") == "true"
    visit.close()


@pytest.mark.needs("chromium")
def test_a_clicked_edge_says_its_tension(browser: Any) -> None:
    visit = Visit(browser, SITE / "course" / "03_unfolding.html", 1400)
    drawing = visit.page.locator(".edge-map svg")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    drawing.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    said = visit.page.locator(".edge-map output")
    assert re.match(r"Edge from point \d+ to point \d+: tension", said.inner_text())
    assert visit.page.locator(".edge-map line.chosen").count() == 1
    slider = visit.page.locator(".edge-map input")
    slider.focus()
    visit.page.keyboard.press("Home")
    assert "number 1 of" in said.inner_text()
    visit.close()


# What of the slide lies behind the buttons, and what is too wide for it.
CUT_OFF = """[
  ...[...document.querySelectorAll('.slide.shown > :not(.notes)')].filter((part) =>
    part.getBoundingClientRect().bottom > document.querySelector('.slides-bar').offsetTop),
  ...[...document.querySelectorAll('.slide.shown :is(pre, table, .math mjx-container)')].filter(
    (part) => part.scrollWidth > part.clientWidth + 1),
].map((part) => part.innerText.slice(0, 60))"""


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", WIDTHS)
def test_slides_open_and_move_by_keys(browser: Any, width: int) -> None:
    for path in chapters():
        visit = Visit(browser, SITE / "slides" / path.name, width)
        page = visit.page
        page.wait_for_selector("body.one .slide.shown")
        count = page.locator(".slide").count()
        assert count >= 12, path
        for _ in range(count - 1):
            page.keyboard.press("ArrowRight")
            scrolls = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert scrolls <= 1, f"{path}: {page.locator('.shown').first.inner_text()[:60]}"
            assert width < 800 or page.evaluate(CUT_OFF) == [], path
        assert page.locator("#place").inner_text() == f"{count} of {count}"
        assert "What to take away" in page.locator(".slide.shown").inner_text()
        assert page.locator("mjx-container [data-mjx-error]").count() == 0, path
        assert page.locator(".notes:visible").count() == 0
        page.keyboard.press("Home")
        page.keyboard.press("n")
        assert page.locator(".slide.shown .notes:visible").count() == 1
        assert "Solution" not in page.content(), path
        assert visit.requests == [], path
        assert visit.complaints == [], path
        visit.close()


NOTEBOOK_PAGE = """<!DOCTYPE html><meta charset="utf-8"><title>{title}</title>
<script>window.MathJax = {{"tex": {{"inlineMath": [["$", "$"]]}}, "svg": {{"fontCache": "global"}}}}
</script><script defer src="{site}/_static/mathjax/tex-svg-full.js"></script>{body}"""


def notebook_as_page(path: Path) -> str:
    """The cells as Jupyter would show them: Markdown with formulas, and code."""
    import nbformat
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    body = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            # Jupyter sets formulas aside before it reads Markdown.
            kept: list[str] = []
            text = re.sub(
                r"\$\$.*?\$\$|\$[^$\n]+(?:\n[^$\n]+)*\$",
                lambda m, kept=kept: kept.append(m[0]) or f"@@{len(kept) - 1}@@",
                cell.source,
                flags=re.S,
            )
            shown = markdown.render(text)
            body.append(re.sub(r"@@(\d+)@@", lambda m, k=kept: html.escape(k[int(m[1])]), shown))
        else:
            body.append(f"<pre class='code'>{html.escape(cell.source)}</pre>")
    return NOTEBOOK_PAGE.format(title=path.stem, site=SITE.as_uri(), body="\n".join(body))


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("folder", ["notebooks", "notebooks/teachers"])
def test_notebooks_open_with_formulas_and_folded_solutions(
    browser: Any, folder: str, tmp_path: Path
) -> None:
    for path in chapters():
        opened = tmp_path / f"{path.stem}.html"
        opened.write_text(notebook_as_page(SITE / folder / f"{path.stem}.ipynb"), "utf-8")
        visit = Visit(browser, opened, 1400)
        visit.wait_for_formulas()
        assert visit.page.locator("mjx-container").count() > 5, path
        assert visit.page.locator("mjx-container [data-mjx-error]").count() == 0, path
        folded = visit.page.locator("details")
        assert (folded.count() >= 3) == (folder == "notebooks/teachers"), path
        assert visit.page.locator("pre.code").count() >= 5, path
        assert visit.complaints == [], path
        visit.close()


def test_the_sheet_has_every_exercise_and_what_it_needs() -> None:
    text = (SITE / "course" / "sheet.html").read_text("utf-8")
    assert len(re.findall(r"<em>Exercise \d", text)) == 3 * len(chapters())
    assert "Solution" not in text
    assert "{code-cell}" not in text


def test_every_chapter_has_what_a_chapter_has() -> None:
    for path in chapters():
        text = path.read_text("utf-8")
        assert text.count("<figure") + text.count('class="flipbook"') >= 3, path
        assert len(re.findall(r"<h3>Exercise \d", text)) == 3, path
        assert "What to take away" in text, path
