"""The page of all reproductions and the table behind it: a CSV of rows, and Markdown in marks."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

from sdpkit.errors import InputError
from sdpkit.papers.entry import Reproduction

FIELDS = (
    "name", "source", "what", "published", "ours", "agrees", "seconds", "gap", "certified",
    "proven", "points", "runs", "data",
)  # fmt: skip
_MARKS = re.compile(r"(<!-- papers -->\n).*?(<!-- end of papers -->)", re.DOTALL)
_WORDS = {None: "", True: "yes", False: "no"}


def write_csv(path: Path, found: Iterable[Reproduction]) -> None:
    """One line per row of every table and figure."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for one in found:
            for row in one.rows:
                writer.writerow(
                    [
                        one.name, one.source, row.what, row.published, row.ours,
                        _WORDS[row.agrees], one.seconds,
                        "" if row.gap is None else f"{row.gap:.1e}", row.certified,
                        _WORDS[row.proven], one.setting["points"] or "",
                        one.setting["runs"] or "", _WORDS[one.setting["data"]],
                    ]
                )  # fmt: skip


def table(path: Path) -> str:
    """The Markdown table of a CSV: a line per entry."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = list(dict.fromkeys(row["name"] for row in rows))
    lines = [
        "| entry | where | n | rows that agree | largest gap | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        mine = [row for row in rows if row["name"] == name]
        judged = [row["agrees"] for row in mine if row["agrees"]]
        gaps = [float(row["gap"]) for row in mine if row["gap"]]
        gap = f"{max(gaps):.0e}" if gaps else "no program"
        if any(row["proven"] == "no" for row in mine):
            gap += ", not certified"
        first = mine[0]
        lines.append(
            f"| `{name}` | {first['source']} | {first['points']} | {judged.count('yes')} of "
            f"{len(judged)} | {gap} | {float(first['seconds']):.1f} |"
        )
    return "\n".join(lines)


def differences(path: Path) -> str:
    """The rows that do not agree, as a Markdown list by entry, with the reason if one is known."""
    from sdpkit.papers.registry import ENTRIES

    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["agrees"] == "no"]
    lines = []
    for name in dict.fromkeys(row["name"] for row in rows):
        why = ENTRIES[name].differs if name in ENTRIES else ""
        lines.append(f"- **`{name}`**{': ' + why if why else ''}")
        mine = [row for row in rows if row["name"] == name]
        for row in mine[:8]:
            lines.append(f"    - {row['what']}: {row['published']} published, {row['ours']} here")
        if len(mine) > 8:
            lines.append(f"    - and {len(mine) - 8} more rows, see the CSV")
    return "\n".join(lines)


def filled(text: str, path: Path) -> str:
    """The page with its marked part made again from the CSV."""
    if not _MARKS.search(text):
        raise InputError(
            "the page has no place for the table: put <!-- papers --> and <!-- end of papers --> "
            "on lines of their own"
        )
    body = f"{table(path)}\n\n### Where they differ\n\n{differences(path)}\n"
    return _MARKS.sub(lambda marks: marks[1] + body + marks[2], text)
