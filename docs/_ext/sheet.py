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
    parts = re.split(r"^### (Exercise .*)$", text, flags=re.M)[1:]
    questions = zip(parts[::2], parts[1::2], strict=True)
    return [(title, _question(body)) for title, body in questions]


def _question(body: str) -> str:
    body = re.split(r"^#{1,3} ", body, maxsplit=1, flags=re.M)[0]
    return _SOLUTION.sub("", body).strip()


class ExerciseSheet(SphinxDirective):
    """All exercises of the chapters beside the page, in order."""

    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        lines: list[str] = []
        for path in sorted(folder.glob("[0-9][0-9]_*.md")):
            text = path.read_text(encoding="utf-8")
            title = re.search(r"^# (.*)$", text, flags=re.M)
            self.env.note_dependency(str(path))
            lines += [f"**[{title[1] if title else path.stem}]({path.name})**", ""]
            for heading, question in exercises(text):
                if _GLUE.search(question):
                    raise self.error(f"{path.name}, {heading}: a question cannot quote a result")
                lines += [f"*{heading}.* {_FIGURE.sub('the figure in the chapter', question)}", ""]
        holder = nodes.container(classes=["exercise-sheet"])
        self.state.nested_parse(StringList(lines, source="exercises"), self.content_offset, holder)
        return [holder]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("exercise-sheet", ExerciseSheet)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
