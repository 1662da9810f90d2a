"""Count the code lines of the wheel: `python docs/bench/lines.py`, or `make bench NAME=lines`.

A code line holds code: docstrings, comments and blank lines do not count. The script prints the
lines of every folder and of all, then the files and functions that are longer than the project
allows. A file counts with all of its lines, a function without its docstring: a public function may
be explained at length. The exit code is 1 if anything is too long.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEEL = ("problems", "sdpkit", "solvers")  # what pyproject.toml installs
# The reference is written in the docstrings of classes and functions: these are not counted.
LONGEST_FILE, LONGEST_FUNCTION = 550, 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """How many lines of a module hold code.

    >>> code_lines('"A docstring."' + chr(10) + 'x = 1  # a comment' + chr(10))
    1
    """
    docstrings = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(node):
            docstrings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def modules() -> Iterator[Path]:
    """The modules of the wheel, as paths below the checkout."""
    for folder in WHEEL:
        yield from sorted(path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py"))


def counted() -> Counter[str]:
    """Code lines per folder: problems, solvers, and each folder of sdpkit."""
    found = Counter[str]()
    for path in modules():
        found["/".join(path.parts[:-1][:2])] += code_lines((ROOT / path).read_text())
    return found


def too_long() -> list[str]:
    """The files and functions of the wheel that are too long, each with its lines of code."""
    found = []
    for path in modules():
        source = (ROOT / path).read_text()
        tree = ast.parse(source)
        nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.ClassDef, *FUNCTIONS))]
        lines = len(source.splitlines()) - sum(_docstring_lines(node) for node in nodes)
        if lines > LONGEST_FILE:
            found.append(f"{path}: {lines} lines, at most {LONGEST_FILE}")
        for node in nodes:
            if isinstance(node, FUNCTIONS):
                lines = (node.end_lineno or 0) - node.lineno + 1 - _docstring_lines(node)
                if lines > LONGEST_FUNCTION:
                    where = f"{path}:{node.lineno} {node.name}"
                    found.append(f"{where}: {lines} lines, at most {LONGEST_FUNCTION}")
    return found


def _docstring_lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1


def main() -> int:
    """Print both tables."""
    count = counted()
    for folder, lines in sorted(count.items()):
        print(f"{lines:6d} {folder}")
    print(f"{count.total():6d} in all")
    found = too_long()
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
