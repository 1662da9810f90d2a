"""Figures are numbered from 1 on every page; Sphinx would count on from page to page."""

from __future__ import annotations

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def renumber(app: Sphinx, env: BuildEnvironment) -> None:
    for kinds in env.toc_fignumbers.values():
        for numbers in kinds.values():
            for k, name in enumerate(numbers, start=1):
                numbers[name] = (k,)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-updated", renumber)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
