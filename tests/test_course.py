"""What the course promises and a site build does not show: exam questions, symbols, the sheet."""

from __future__ import annotations

import ast
import builtins
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


_GREEK = (
    "alpha|beta|gamma|delta|epsilon|varepsilon|kappa|lambda|mu|nu|xi|rho|sigma|tau|theta|varphi|phi"
    "|psi|omega|Delta|Phi"
)
_SYMBOL = re.compile(
    rf"\\math(?:cal|bb|bf)\s*\{{?\s*\w|\\(?:{_GREEK})|(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])"
)


def symbols(text: str) -> set[str]:
    """The letters of all formulas of a page, outside of its code."""
    text = re.sub(r"^(?:```.*?^```|---.*?^---)\s*$", "", text, flags=re.M | re.S)
    found = set()
    for match in re.finditer(r"\$\$(.*?)\$\$|\$([^$]+)\$", text, re.S):
        formula = re.sub(
            r"\\(?:text|operatorname|mathrm|begin|end)\{[^}]*\}", " ", match[1] or match[2]
        )
        formula = re.sub(rf"\\(?!math|{_GREEK})[A-Za-z]+", " ", formula)
        found |= {re.sub(r"[\s{]", "", symbol) for symbol in _SYMBOL.findall(formula)}
    return found


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_letter_of_the_chapters_is_in_the_table(path: Path) -> None:
    listed = symbols((COURSE / "symbols.md").read_text("utf-8"))
    used = symbols(path.read_text("utf-8"))
    assert len(used) > 5
    assert used - listed == set()


_CELL = re.compile(r"^```\{code-cell\}.*?\n(.*?)^```", re.M | re.S)
_OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|(?::\w+:[^\n]*\n)+)", re.M | re.S)


def cells(path: Path, *, solutions: bool) -> list[str]:
    """The code that a notebook of the chapter has: no cells that only serve the site."""
    found = []
    for body in _CELL.findall(path.read_text("utf-8")):
        options = _OPTIONS.match(body)
        words = options[0] if options else ""
        shows_solution = re.search(r'code_prompt_show: "[^"]*olution', words)
        if "remove-cell" not in words and (solutions or not shows_solution):
            found.append(body.removeprefix(words))
    return found


@pytest.mark.parametrize("solutions", [True, False], ids=["teachers", "students"])
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_notebooks_use_no_name_that_only_the_site_defines(path: Path, solutions: bool) -> None:
    tree = ast.parse("\n".join(cells(path, solutions=solutions)))
    defined = set(dir(builtins)) | {"__file__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            defined.add(node.id)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert len(defined) > 180
    assert used - defined == set()


def test_the_index_lists_every_chapter_once_in_order() -> None:
    listed = re.findall(r"^(\d\d_\w+)$", (COURSE / "index.md").read_text("utf-8"), re.M)
    assert listed == [path.stem for path in CHAPTERS]
    assert len(listed) == 21
