"""Copies MathJax, which a Python package brings, into the built site."""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

# Its fonts are inside of this one file: no request leaves the machine.
_FILE = "sphinx-mathjax-offline/static/mathjax/tex-svg-full.js"


def copy(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    try:
        source = Path(str(distribution("sphinx-mathjax-offline").locate_file(_FILE)))
    except PackageNotFoundError:
        raise ExtensionError(
            "MathJax is not installed: run 'pip install sphinx-mathjax-offline' (or 'make docs', "
            "which does)"
        ) from None
    target = Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
