"""The program of an SDPA file as a proof states it: python canonical.py FILE.dat-s

prints the SHA-256 of the program, which must be the one in the theorem that `check.py` prints;
with --json the program itself. It needs Python 3.11 alone. The file states

    maximise <F_0, Y>  subject to  <F_i, Y> = c_i,  Y positive semidefinite;

diagonal blocks and blocks of size one are nonnegative variables, in the order of the file.
Decimals are read as the nearest floating-point numbers of 64 bits, and kept exactly.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

BLANKS = str.maketrans("{}(),", "     ")


def hexadecimal(value: int, power: int = 0) -> str:
    """value * 2^power with an odd value: 3/2 is 0x3p-1, zero is 0x0p+0.

    >>> hexadecimal(-12, -3), hexadecimal(0, 5)
    ('-0x3p-1', '0x0p+0')
    """
    if value == 0:
        return "0x0p+0"
    zeros = (value & -value).bit_length() - 1
    return f"{value >> zeros:#x}p{power + zeros:+d}"


def of_double(value: float) -> str:
    """The same of a floating-point number."""
    numerator, denominator = value.as_integer_ratio()
    return hexadecimal(numerator, 1 - denominator.bit_length())


def program_of(text: str) -> dict[str, object]:
    """The program that the text of an SDPA file states; ValueError if it is none.

    >>> program_of("1 = m\\n1\\n2\\n3.5\\n0 1 1 2 1.0\\n1 1 1 1 1\\n1 1 2 2 1")["rhs"]
    ['0x7p-1']
    """
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].lstrip()[0] in '"*'):
        del lines[0]
    counts = [re.search(r"[-+]?\d+", line) for line in lines[:2]]
    if len(counts) < 2 or None in counts:
        raise ValueError("the numbers of constraints and blocks are missing")
    m, n_blocks = (int(found.group()) for found in counts if found)
    given, at = _numbers(lines, 2, n_blocks)
    rhs, at = _numbers(lines, at, m)
    words = " ".join(lines[at:]).translate(BLANKS).split()
    places, sizes, n_variables = {}, [], 0
    for k, size in enumerate(map(int, given), start=1):
        if size > 1:
            sizes.append(size)
            places[k] = (len(sizes), 0)
        else:
            places[k] = (0, n_variables)
            n_variables += abs(size)
    entries: dict[tuple[int, int, int, int], float] = {}
    for e, b, i, j, v in zip(*(iter(words),) * 5, strict=True):
        block, shift = places[int(b)]
        key = (int(e), block, shift + min(int(i), int(j)), shift + max(int(i), int(j)))
        if key in entries:
            raise ValueError(f"two entries at {e} {b} {i} {j}")
        entries[key] = _number(v)
    return {
        "sense": "max",
        "constant": "0x0p+0",
        "blocks": sizes,
        "variables": "+" * n_variables,
        "rows": "=" * m,
        "rhs": [of_double(v) for v in rhs],
        "entries": [[*key, of_double(v)] for key, v in sorted(entries.items()) if v],
    }


def _number(word: str) -> float:
    return float(word.lower().replace("d", "e"))


def _numbers(lines: list[str], at: int, count: int) -> tuple[list[float], int]:
    """So many numbers, and the line after them; a remark fills the rest of a line."""
    values: list[float] = []
    while len(values) < count or (count == 0 and at < len(lines) and not lines[at].strip()):
        for word in lines[at].translate(BLANKS).split():
            try:
                values.append(_number(word))
            except ValueError:
                break
        at += 1
    if len(values) > count:
        raise ValueError(f"{len(values)} numbers where {count} were announced")
    return values, at


def sha256_of(program: object) -> str:
    """The SHA-256 of the JSON without spaces, keys in order."""
    text = json.dumps(program, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    found = program_of(Path(sys.argv[1]).read_text("utf-8-sig", errors="replace"))
    print(json.dumps(found, sort_keys=True) if "--json" in sys.argv else sha256_of(found))
