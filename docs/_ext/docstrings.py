"""Formulas in docstrings are plain text: a bar or an asterisk is a character, not markup.

An indented block after a line that ends in a colon is shown as it stands (a literal block).
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
_ENDS = re.compile(r"[\s'\")\]}>\-/:.,;!?\\–—]")
_MARKUP = re.compile(r"(?<!\\)([|*]|_(?=\W|$))")


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    # Inherited docstrings of scikit-learn refer to its glossary.
    plain = [re.sub(r":term:`([^`<]*)[^`]*`", r"\1", line) for line in lines]
    lines[:] = to_rst(plain)


def to_rst(lines: list[str]) -> list[str]:
    out: list[str] = []
    block: int | None = None  # the margin of the paragraph that a literal block belongs to
    for k, line in enumerate(lines):
        margin = len(line) - len(line.lstrip())
        if block is not None and line.strip() and margin <= block:
            block = None
        if block is not None or line.lstrip().startswith((">>>", "...", ".. ", ":")):
            out.append(line)
            continue
        line = _escaped(line) if not _follows_prompt(lines, k) else line
        if line.rstrip().endswith(":") and _opens_block(lines, k, margin):
            block, line = margin, line.rstrip() + ":"
        out.append(line)
    return out


def _escaped(line: str) -> str:
    pieces = _CODE.split(line)
    # A role ends where no letter follows: `unit`² needs an invisible break.
    pieces[1::2] = [
        code + "\\ " if text[:1] and not _ENDS.match(text) else code
        for code, text in zip(pieces[1::2], pieces[2::2], strict=True)
    ]
    pieces[::2] = [_MARKUP.sub(r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def _follows_prompt(lines: list[str], k: int) -> bool:
    """Whether line k is the output of a doctest."""
    while k >= 0 and lines[k].strip():
        if lines[k].lstrip().startswith(">>>"):
            return True
        k -= 1
    return False


def _opens_block(lines: list[str], k: int, margin: int) -> bool:
    rest = lines[k + 1 : k + 3]
    if len(rest) < 2 or rest[0].strip() or not rest[1].strip():
        return False
    return len(rest[1]) - len(rest[1].lstrip()) > margin


def skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what an estimator inherits from scikit-learn, which documents it itself."""
    inherited = getattr(obj, "__module__", None) or ""
    return True if inherited.startswith("sklearn.") or name.endswith("_request") else None


def setup(app: Sphinx) -> dict[str, bool]:
    # Before numpydoc, which looks for its sections in what we leave.
    app.connect("autodoc-process-docstring", process, priority=100)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
