"""What the course promises and a site build does not show: exam questions, symbols, the sheet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

COURSE = Path(__file__).resolve().parent.parent / "docs" / "course"
CHAPTERS = sorted(COURSE.glob("[0-9][0-9]_*.md"))
QUESTION = re.compile(r"^### (Question (\d+) \(([^)]*)\))\n(.*?)(?=^##|\Z)", re.M | re.S)
QUESTIONS = QUESTION.findall((COURSE / "exam.md").read_text("utf-8"))


def test_the_bank_has_thirty_questions_with_solutions() -> None:
    assert [int(number) for _, number, _, _ in QUESTIONS] == list(range(1, 31))
    for title, _, about, body in QUESTIONS:
        assert ":::{dropdown} Solution" in body, title
        assert ("computed" in about) == ("```python" in body), title
        chapter = int(re.findall(r"\d+", about)[0])
        assert any(path.name.startswith(f"{chapter:02d}_") for path in CHAPTERS), title


@pytest.mark.parametrize(
    "body", [pytest.param(q[3], id=q[0]) for q in QUESTIONS if "```python" in q[3]]
)
def test_computed_answers_are_right(body: str) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", body, re.M | re.S))
    assert "assert" in code
    exec(compile(code, "exam.md", "exec"), {})
