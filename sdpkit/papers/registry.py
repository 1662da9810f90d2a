"""All tables and figures by name."""

from __future__ import annotations

from sdpkit.papers.entries import (
    classification,
    kernels,
    large,
    lecture,
    measures,
    metrics,
    mixtures,
    query,
    unfolding,
)
from sdpkit.papers.entry import Entry

_MODULES = (
    large, classification, metrics, unfolding, measures, kernels, lecture, mixtures, query,
)  # fmt: skip


def _order(name: str) -> tuple[int, tuple[int, ...], str]:
    """Figures and tables of Weinberger (2007) by number, then the other papers."""
    kind, _, rest = name.partition("-")
    head = rest.split("-")[0]
    if kind in ("figure", "table") and head.replace(".", "").isdigit():
        chapter, number = head.split(".")
        return (kind == "table", (int(chapter), int(number)), name)
    return (2, (), name)


ENTRIES: dict[str, Entry] = dict(
    sorted(
        ((name, entry) for module in _MODULES for name, entry in module.ENTRIES.items()),
        key=lambda pair: _order(pair[0]),
    )
)
