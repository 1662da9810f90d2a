"""Changed files, read by the command line: `python fuzz_files.py SEED COUNT FOLDER`.

Files of every kind that sdpkit reads are changed byte by byte and structure by structure. Each must
end in one of the documented exit codes, within ten seconds and a gibibyte, and never in a
traceback. One line of JSON is printed for each file before it is read and one after it, so that
whoever reads them knows which one ended the process.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sdpkit
from sdpkit.cli.main import main
from sdpkit.results.archive import read_arrays, write_arrays
from sdpkit.solution.checkpoint import Checkpoint

SECONDS, MEBIBYTES = 10, 1024
CODES = (0, 1, 2, 3, 4)
EVIL_WORDS = (
    *("1e400", "nan", "-1", "0", "99999999999", "0.5", "abc", "1_0", "inf", "-", "1e308", "-1e308"),
    *(",", ";", "\t", "5", "{}", "[]", "null", "true", "'=1+1'", "\x00", "\x1b[31m", "é", "\n", ""),
)
EVIL_NUMBERS = (0, -1, 1, 7, 2**31, -(2**31), 2**62, -(2**62), 10**9)
EVIL_FLOATS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.5, -1.0, 0.0, 1e9)
FAST = ["--time-limit", "1", "--tol", "1e-3", "--json"]


# -- the files ----------------------------------------------------------------------------------


def originals(folder: Path) -> dict[str, tuple[Path, Callable[[Path], int]]]:
    """Name → a good file and what reads it, returning an exit code."""
    X = np.random.default_rng(0).standard_normal((9, 3)).round(3)
    y = np.arange(9) % 2
    rows = [",".join(map(str, [*x, f"c{label}"])) for x, label in zip(X, y, strict=True)]
    (folder / "points.csv").write_text("\n".join(["a,b,c,class", *rows]) + "\n")
    np.save(folder / "points.npy", X)
    np.savez(folder / "data.npz", X=X, y=y)
    mvu = sdpkit.MVU(X, n_neighbors=4)
    programs = {
        "plain": mvu.program(),
        "slack": sdpkit.MVU(X, n_neighbors=3, form="slack").program(),
        "impostors": sdpkit.LMNN(X, y, n_neighbors=1).program(),
        "pairs": sdpkit.PairMargins(X, y).program(),
        "listed": sdpkit.LMNN(
            X, triplets=[[i, (i + 1) % 9, (i + 4) % 9] for i in range(9)]
        ).program(),
        "covering": sdpkit.CoveringEllipsoid(X).program(),
    }
    for name, program in programs.items():
        program.save(folder / f"{name}.npz")
    sdpkit.write_sdpa(programs["slack"], folder / "slack.dat-s")
    (folder / "blocks.dat-s").write_text(
        '"two blocks\n2 =m\n2 =blocks\n(2, -2)\n{1.0, 2.0D0}\n'
        "0 1 1 2 1.0\n1 1 1 1 1\n1 2 1 1 1\n2 1 2 2 1\n2 2 2 2 -1\n"
    )
    lmnn = sdpkit.LMNN(X, y, n_neighbors=1)
    lmnn.recover(sdpkit.solve(lmnn)).save(folder / "metric.npz")
    mvu.recover(sdpkit.solve(mvu)).save(folder / "embedding.npz")
    compared = sdpkit.compare(
        {"ring": sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))},
        ["interior"],
        [1e-3],
        path=folder / "runs.jsonl",
    )
    compared.to_csv(folder / "runs.csv")
    sdpkit.solve(programs["plain"], "lowrank", tol=1e-3, checkpoint=folder / "run.npz")
    readers: dict[str, Callable[[Path], int]] = {
        "points.csv": lambda f: main(
            ["solve", str(f), "--labels", "class", "--problem", "lmnn", *FAST]
        ),
        "points.npy": lambda f: main(["solve", str(f), "--problem", "ellipsoid", *FAST]),
        "data.npz": lambda f: main(["solve", str(f), "--labels", "y", "--problem", "mmc", *FAST]),
        **{
            name: (lambda f: main(["solve", str(f), *FAST]))
            for name in [*(f"{p}.npz" for p in programs), "slack.dat-s", "blocks.dat-s"]
        },
        "run.npz": lambda f: main(
            [
                "solve",
                str(folder / "plain.npz"),
                "--solver",
                "lowrank",
                "--checkpoint",
                str(f),
                *FAST,
            ]
        ),
        "metric.npz": lambda f: _used(lambda: sdpkit.Metric.load(f).predict(X[:2])),
        "embedding.npz": lambda f: _used(lambda: repr(sdpkit.Embedding.load(f))),
        "runs.jsonl": lambda f: main(
            ["report", str(f), "--html", str(folder / "r.html"), "--force"]
        ),
        "runs.csv": lambda f: main(["report", str(f), "--html", str(folder / "r.html"), "--force"]),
    }
    return {name: (folder / name, reader) for name, reader in readers.items()}


def _used(use: Callable[[], Any]) -> int:
    try:
        use()
    except sdpkit.SdpkitError:
        return 2
    return 0


# -- changes ------------------------------------------------------------------------------------


def changed(path: Path, place: Path, rng: random.Random) -> str:
    """Write a changed copy; the name of the change."""
    ways = [_bytes, _bytes]
    if path.suffix == ".npz":
        ways += [_structure] * 4
    elif path.suffix != ".npy":
        ways += [_words] * 4
    way = rng.choice(ways)
    way(path, place, rng)
    return way.__name__


def _bytes(path: Path, place: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 2, 5])):
        start = rng.randrange(len(content) + 1)
        stop = min(len(content), start + rng.choice([1, 1, 4, 40]))
        piece = rng.choice(
            [b"", rng.randbytes(stop - start), content[start:stop] * 2, b"\xff" * (stop - start)]
        )
        content[start:stop] = piece
    if rng.random() < 0.15:
        del content[rng.randrange(len(content) + 1) :]
    place.write_bytes(bytes(content))


def _words(path: Path, place: Path, rng: random.Random) -> None:
    lines = path.read_text().split("\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        k = rng.randrange(len(lines))
        if rng.random() < 0.3:
            lines[k : k + 1] = rng.choice([[], [lines[k]] * 2, [rng.choice(lines)], [""]])
            lines = lines or [""]
            continue
        words = re.split(r"([\s,:{}\[\]]+)", lines[k])
        words[rng.randrange(len(words))] = rng.choice(EVIL_WORDS)
        lines[k] = "".join(words)
    place.write_text("\n".join(lines))


def _structure(path: Path, place: Path, rng: random.Random) -> None:
    """Change arrays of an archive whose checksums are right."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    kind = path.stem if "sdpkit_result" in arrays else ""
    if kind:
        arrays = dict(read_arrays(path, kind))
    owner = [
        str(arrays.pop(name))
        for name in ("fingerprint", "solver", "digest", "part")
        if name in arrays
    ]
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(arrays))
        if name == "header":
            arrays[name] = _header(arrays[name], rng)
        elif rng.random() < 0.1 and len(arrays) > 1:
            del arrays[name]
        else:
            arrays[name] = _array(arrays[name], rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind:
            write_arrays(place, kind, arrays)
        elif owner:
            place.unlink(missing_ok=True)
            state = {name.removeprefix("state/"): array for name, array in arrays.items()}
            Checkpoint(place, owner[0], owner[1]).save(**state)
        else:
            np.savez(place, **arrays)


def _header(header: Any, rng: random.Random) -> Any:
    text = bytes(header).decode()
    words = re.split(r'([\s,:{}\[\]"]+)', text)
    words[rng.randrange(len(words))] = rng.choice(EVIL_WORDS)
    return np.frombuffer("".join(words).encode(), dtype=np.uint8)


def _array(array: Any, rng: random.Random) -> Any:
    way = rng.randrange(9)
    if way <= 3 and array.size and array.dtype.kind in "iufb":
        out = array.copy()
        evil = EVIL_FLOATS if array.dtype.kind == "f" else EVIL_NUMBERS
        values = [v for v in evil if array.dtype.kind in "f" or np.iinfo(np.int64).min <= v]
        with contextlib.suppress(OverflowError, ValueError):
            out.flat[rng.randrange(out.size)] = rng.choice(values)
        return out
    if way == 4:
        kinds = [str, bytes] if array.dtype.kind == "U" else [complex, float, str, np.int8, bool]
        return array.astype(rng.choice(kinds))
    if way == 5:
        return rng.choice([array.ravel(), array[None], np.zeros((0,)), array.reshape(-1)[:-1]])
    if way == 6:
        return np.repeat(np.atleast_1d(array), 2, axis=0)
    if way == 7:
        return np.array("evil\x1b[31m")
    return np.zeros(rng.choice([(1,), (3, 3), (2, 0), (9, 9, 9)]))


# -- the judge ----------------------------------------------------------------------------------


class _TooSlow(BaseException):
    """Nothing that is meant for users catches it."""


def _alarm(*_: Any) -> None:
    raise _TooSlow


def examine(seed: int, count: int, folder: Path) -> None:
    """Change, read and report `count` files."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _alarm)
    with contextlib.redirect_stdout(io.StringIO()):
        files = originals(folder)
        for path, reader in files.values():
            assert reader(path) in CODES, path
    rng = random.Random(seed)
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    names = sorted(files)
    for number in range(count):
        path, reader = files[names[number % len(names)]]
        place = folder / f"changed{path.suffix}"
        way = changed(path, place, rng)
        kept = place.read_bytes()
        print(json.dumps({"file": number, "of": path.name, "way": way}), flush=True)
        outcome: dict[str, Any] = {"file": number}
        said = io.StringIO()
        signal.alarm(SECONDS)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                outcome["code"] = reader(place)
        except _TooSlow:
            outcome["fault"] = f"more than {SECONDS} s"
        except BaseException:
            outcome["fault"] = traceback.format_exc()[-1500:]
        signal.alarm(0)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024
        if grown > MEBIBYTES:
            outcome["fault"] = f"{grown:.0f} MiB"
            start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if outcome.get("code", 0) not in CODES:
            outcome["fault"] = f"exit code {outcome['code']}"
        if "\x1b" in said.getvalue():
            outcome["fault"] = "a terminal escape was printed"
        if "fault" in outcome:
            (folder / f"fault-{seed}-{number}-{path.name}").write_bytes(kept)
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    examine(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
