"""Copies MathJax, as npm installed it, into the built site."""

from __future__ import annotations

import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def copy(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    source = Path(app.confdir) / "node_modules" / "mathjax" / "es5" / "tex-svg-full.js"
    if not source.exists():
        raise ExtensionError(
            "MathJax is not installed: run 'npm ci' in docs/ (or 'make docs', which does)"
        )
    target = Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
