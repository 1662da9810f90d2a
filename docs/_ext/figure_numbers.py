"""Figures are numbered from 1 on every page; Sphinx would count on from page to page."""

from __future__ import annotations

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def renumber(app: Sphinx, env: BuildEnvironment) -> list[str]:
    for kinds in env.toc_fignumbers.values():
        for numbers in kinds.values():
            for k, name in enumerate(numbers, start=1):
                numbers[name] = (k,)
    return []


def setup(app: Sphinx) -> dict[str, bool]:
    # After Sphinx has assigned its numbers in the same event.
    app.connect("env-get-updated", renumber, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
