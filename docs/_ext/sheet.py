"""The directive `exercise-sheet`: the exercises of all chapters on one page, without solutions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_SOLUTION = re.compile(r"^(:{3,}|`{3,})\{(?:dropdown|code-cell)\}.*?^\1\s*$", re.M | re.S)
_FIGURE = re.compile(r"\{(?:numref|ref|eq)\}`[^`]+`")
_GLUE = re.compile(r"\{glue:text\}`[^`]+`")


def exercises(text: str) -> list[tuple[str, str]]:
    """Heading and question of each exercise of a chapter's source."""
    parts = re.split(r"^### (Exercise .*)$", _SOLUTION.sub("", text), flags=re.M)[1:]
    questions = zip(parts[::2], parts[1::2], strict=True)
    return [(title, _before_next_heading(body)) for title, body in questions]


def needed(text: str) -> str:
    """What the exercises of a chapter take from it: the text between the two headings."""
    parts = re.split(r"^## Exercises$", text, flags=re.M)
    return _before_next_heading(parts[1]) if len(parts) > 1 else ""


def _before_next_heading(body: str) -> str:
    return re.split(r"^#{1,3} ", body, maxsplit=1, flags=re.M)[0].strip()


def _without_references(text: str) -> str:
    return _FIGURE.sub("the figure in the chapter", text)


class ExerciseSheet(SphinxDirective):
    """All exercises of the chapters beside the page, and what they take from their chapter."""

    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        lines: list[str] = []
        for path in sorted(folder.glob("[0-9][0-9]_*.md")):
            text = path.read_text(encoding="utf-8")
            title = re.search(r"^# (.*)$", text, flags=re.M)
            self.env.note_dependency(str(path))
            lines += [f"**[{title[1] if title else path.stem}]({path.name})**", ""]
            lines += [_without_references(needed(text)), ""]
            for heading, question in exercises(text):
                if _GLUE.search(question):
                    raise self.error(f"{path.name}, {heading}: a question cannot quote a result")
                lines += [f"*{heading}.* {_without_references(question)}", ""]
        holder = nodes.container(classes=["exercise-sheet"])
        self.state.nested_parse(StringList(lines, source="exercises"), self.content_offset, holder)
        return [holder]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("exercise-sheet", ExerciseSheet)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
