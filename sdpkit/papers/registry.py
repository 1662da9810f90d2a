"""All tables and figures by name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from sdpkit.papers import entries
from sdpkit.papers.entry import Entry

_NAMES = [f"{entries.__name__}.{found.name}" for found in iter_modules(entries.__path__)]


def _order(name: str) -> tuple[int, tuple[int, ...], str]:
    """Figures and tables of Weinberger (2007) by number, then the other papers."""
    kind, _, rest = name.partition("-")
    head = rest.split("-")[0]
    if kind in ("figure", "table") and head.replace(".", "").isdigit():
        chapter, number = head.split(".")
        return (kind == "table", (int(chapter), int(number)), name)
    return (2, (), name)


_FOUND = [pair for name in _NAMES for pair in import_module(name).ENTRIES.items()]
ENTRIES: dict[str, Entry] = dict(sorted(_FOUND, key=lambda pair: _order(pair[0])))
