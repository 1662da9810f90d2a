"""Every chapter of the course as two notebooks that run in Jupyter: for students and for teachers.

A chapter is a text notebook of MyST-NB. What Jupyter does not know is translated: computed numbers
(`{glue:text}`) become their values, captions become text below their figures, cells that only serve
the site are left out, links point to files of the site. A teacher's notebook has the solutions
(`{dropdown}` and cells that show one), folded; in a student's there is space for an answer.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx

_GLUE = re.compile(r"\{glue:text\}`([^`:]+)(?::([^`]*))?`")
_ROLE = re.compile(r"\{(?:class|func|meth|mod|attr|doc|py:\w+)\}`~?([^`]+)`")
_NUMREF = re.compile(r"\{(?:numref|eq|ref)\}`([^`]+)`")
_DROPDOWN = re.compile(r"^(:{3,}|`{3,})\{dropdown\} (.*?)\n(.*?)^\1\s*$", re.M | re.S)
_ADMONITION = re.compile(r"^(:{3,}|`{3,})\{(\w+)\}(.*?)\n(.*?)^\1\s*$", re.M | re.S)
_OPTION = re.compile(r"^:\w+:.*\n", re.M)
_PAGE = re.compile(r"\]\((?!https?:|#)([^)\s]+)\.md(#[^)]*)?\)")
_SERVES_THE_SITE = {"remove-cell"}
_ANSWER_IN_WORDS = "*Your answer:*"
_ANSWER_IN_CODE = "# Your code"


def convert(notebook: Any, values: dict[str, str], solutions: bool) -> Any:
    """An executed notebook of MyST-NB → one for Jupyter, without outputs."""
    out = nbformat.v4.new_notebook(metadata={"kernelspec": notebook.metadata["kernelspec"]})
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type == "markdown":
            text = plain_markdown(cell.source, values, solutions)
            out.cells.append(nbformat.v4.new_markdown_cell(text))
        elif cell.cell_type == "code" and not tags & _SERVES_THE_SITE:
            options = cell.metadata.get("mystnb", {})
            shown = solutions or "olution" not in options.get("code_prompt_show", "")
            folded = {"jupyter": {"source_hidden": True}} if tags & {"hide-cell"} and shown else {}
            source = cell.source if shown else _ANSWER_IN_CODE
            out.cells.append(nbformat.v4.new_code_cell(source, metadata=folded))
            caption = options.get("figure", {}).get("caption", "")
            if caption and shown:
                text = f"*Figure.* {plain_markdown(caption, values, solutions)}"
                out.cells.append(nbformat.v4.new_markdown_cell(text))
    for cell in out.cells:
        cell.pop("id", None)
    out.nbformat_minor = 4  # cells without random names: the same text, the same file
    return out


def plain_markdown(text: str, values: dict[str, str], solutions: bool) -> str:
    """MyST's Markdown → what Jupyter shows."""
    text = _DROPDOWN.sub(_folded if solutions else _ANSWER_IN_WORDS, text)
    text = _GLUE.sub(lambda m: _formatted(values[m[1]], m[2]), text)
    text = _ADMONITION.sub(lambda m: f"**{m[3].strip() or m[2].capitalize()}**\n\n{m[4]}", text)
    text = _NUMREF.sub(r"the figure (*\1*)", text)
    text = _ROLE.sub(r"`\1`", text)
    return _PAGE.sub(lambda m: f"](../course/{m[1]}.html{m[2] or ''})", text)


def _folded(match: re.Match[str]) -> str:
    """A dropdown as HTML that Jupyter folds."""
    body = _OPTION.sub("", match[3])
    return f"<details><summary>{match[2]}</summary>\n\n{body}\n</details>\n"


def _glued(path: Path) -> dict[str, str]:
    """Name → text of every value that the chapter glued."""
    glued = path.with_suffix(".glue.json")
    if not glued.exists():
        return {}
    outputs = json.loads(glued.read_text(encoding="utf-8"))
    return {name: output["data"]["text/plain"] for name, output in outputs.items()}


def _formatted(text: str, form: str | None) -> str:
    if form:
        return format(float(text) if not re.fullmatch(r"-?\d+", text) else int(text), form)
    return text.strip("'\"")


def write(app: Sphinx, exception: Exception | None) -> None:
    """After the build, for every chapter: `notebooks/NAME.ipynb` for students in the site, and the
    one with solutions in `notebooks/teachers/`."""
    if exception is not None or app.builder.format != "html":
        return
    students = Path(app.outdir) / "notebooks"
    for folder, solutions in ((students, False), (students / "teachers", True)):
        folder.mkdir(exist_ok=True)
        for path in chapters(app):
            converted = convert(nbformat.read(path, as_version=4), _glued(path), solutions)
            (folder / path.name).write_text(nbformat.writes(converted) + "\n", encoding="utf-8")


def chapters(app: Sphinx) -> list[Path]:
    """The executed chapters, as MyST-NB keeps them."""
    return sorted((Path(app.outdir).parent / "jupyter_execute" / "course").glob("*.ipynb"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
