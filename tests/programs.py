"""Programs that are no Python packages, and a PATH on which they are not found.

    python3 tests/programs.py FOLDER

prints a PATH with the commands of the present one except these programs. Whatever searches the
PATH, in the library, in the tests or in a shell, then finds none of them.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

# Name in tests → command: three solvers, a browser that opens reports, and what builds the site.
PROGRAMS = {"csdp": "csdp", "sdpa": "sdpa", "dsdp": "dsdp5", "chromium": "chromium", "npm": "npm"}


def installed() -> set[str]:
    """The programs on the PATH, by their names in tests."""
    return {name for name, command in PROGRAMS.items() if shutil.which(command) is not None}


def path_without_programs(folder: Path) -> str:
    """The PATH, with links in `folder` instead of those of its folders that hold a program."""
    commands = set(PROGRAMS.values())
    parts = []
    for k, part in enumerate(os.environ["PATH"].split(os.pathsep)):
        if any(shutil.which(command, path=part) for command in commands):
            links = folder / str(k)
            links.mkdir(parents=True)
            for entry in Path(part).resolve().iterdir():
                if entry.name not in commands:
                    (links / entry.name).symlink_to(entry)
            part = str(links)
        parts.append(part)
    return os.pathsep.join(parts)


def link_to(name: str, folder: Path) -> str:
    """A folder with one program, to be put on the PATH."""
    command = PROGRAMS[name]
    links = folder / name
    links.mkdir(parents=True)
    (links / command).symlink_to(os.path.abspath(str(shutil.which(command))))
    return str(links)


if __name__ == "__main__":
    print(path_without_programs(Path(sys.argv[1]).resolve()))
