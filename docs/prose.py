"""Finds phrases that readers stumble over, in pages, docstrings and messages.

python docs/prose.py [FILE ...]     (without files: everything that the repository tracks)
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# What was found in earlier texts, and what to write instead.
PHRASES = {
    r"\bno (?:(?!is |are |was )\w+ ){1,3}but (?!also|its|the)": "say 'only …'",
    r"\b(?:goes|go|going|gone|went) on (?:with|under|from)\b": "say 'continues' or 'resumes'",
    r"\bwithout a home\b": "say 'programs you build yourself'",
    r"\bfor free\b(?! variables|,| x_j| in )": "say 'at no cost', or what it costs",
    r"\bis one no longer\b": "say what is lost",
    r"\bby the same words\b": "say 'in the same steps'",
    r"\bas slow as theory says\b": "say 'slowly, as theory predicts'",
    r"\btakes no options, not\b": "say which option is unknown",
    r"\banew\b": "say 'again', 'restarted' or 'recomputed'",
    r"\bpaid for\b": "say what covers it",
    r"\bsuch programs\b": "say 'these programs', or which",
    r"\bspeaks? of numbers\b": "say what can be used",
    r"\bis bothered\b": "say what happens",
    r"\b(?:rows|programs|residuals) (?:ask|want|speak)\b": "only people do; say what is computed",
    r"\b(?:stop then|a process each)\b": "say the noun",
    r"\bthe module states\b": "list the values where they are needed",
    r"\bwho judges?\b": "say which check",
}
SUFFIXES = {".md", ".py", ".rst", ".pyi", ".toml"}
# This file and the tests quote the phrases.
EXEMPT = ("docs/prose.py", "tests/")


def findings(path: Path) -> list[str]:
    """Each banned phrase of a file, with its line and the advice."""
    text = path.read_text(encoding="utf-8")
    out = []
    for pattern, advice in PHRASES.items():
        # A phrase may be broken over two lines, and over the hash of a comment.
        spaced = pattern.replace(" ", r"(?:\s|\n\s*#\s)+")
        for match in re.finditer(spaced, text, flags=re.I):
            line = text.count("\n", 0, match.start()) + 1
            out.append(f"{path}:{line}: {' '.join(match[0].split())!r}: {advice}")
    return out


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    paths = [Path(n) for n in names.splitlines() if not n.startswith(EXEMPT)]
    return [p for p in paths if p.suffix in SUFFIXES and p.exists()]


if __name__ == "__main__":
    found = [line for path in list(map(Path, sys.argv[1:])) or tracked() for line in findings(path)]
    print(*found, sep="\n")
    sys.exit(f"{len(found)} phrases to rewrite" if found else 0)
