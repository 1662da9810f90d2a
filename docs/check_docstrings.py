"""Checks the docstrings of the public names by numpydoc's validation.

python docs/check_docstrings.py [NAME ...]     (without names: every name of the reference)

A public name has a summary on one line, and its parameters, attributes and results have types and
descriptions. Classes and functions have an example too. Fields of a dataclass may be listed as its
attributes instead of its parameters.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import reference
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

# Not asked for: a summary below the quotes (GL01), an extended summary (ES01), a section See Also
# (SA01), a verb first (SS05: many summaries are plural nouns), capitals where a description begins
# with a symbol (PR08, RT04).
LEFT_OUT = {"GL01", "ES01", "SA01", "SS05", "PR08", "RT04"}


def faults(name: str, thing: Any) -> Iterator[str]:
    """What is wrong with one docstring, a line each."""
    doc = get_doc_object(thing, config={"show_class_members": False})
    fields = [item for part in ("Parameters", "Attributes") for item in doc[part]]
    for code, message in validate(doc)["errors"]:
        if code == "PR01" and not _undocumented(thing, {item.name for item in fields}):
            continue
        if code not in LEFT_OUT:
            yield f"{name}: {code} {message}"
    for item in doc["Attributes"]:
        if not item.type or not item.desc:
            yield f"{name}: attribute {item.name} has no {'description' if item.type else 'type'}"


def _undocumented(thing: Any, documented: set[str]) -> bool:
    if not inspect.isclass(thing):
        return True
    if issubclass(thing, enum.Enum) or getattr(thing, "_is_protocol", False):
        return False  # nobody calls these
    names = {n for item in documented for n in item.split(", ")}
    wanted = [n for n in inspect.signature(thing).parameters if not n.startswith("_")]
    return any(name not in names for name in wanted)


def main(names: list[str]) -> int:
    found = [
        fault
        for name, thing in reference.public_names().items()
        if not names or name in names
        for fault in faults(name, thing)
    ]
    print(*found, sep="\n")
    print(f"{len(found)} faults in the docstrings of {len(reference.public_names())} public names")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
