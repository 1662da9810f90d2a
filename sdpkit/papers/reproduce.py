"""`sdpkit reproduce`: tables and figures of the papers, next to the published numbers.

Each row says what was published, what comes out here, whether the two agree, and how that was
certified. The papers do not always describe their data; what had to be assumed is said with every
entry. Where a figure shows bars without numbers, the published column holds what the text says.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import sdpkit
from sdpkit.comparison.hosts import host, isolated
from sdpkit.comparison.parallel import in_parallel, runs_at_a_time
from sdpkit.errors import InputError, SdpkitError
from sdpkit.files import replace_text, replacing
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.papers.entry import Entry, Options, Reproduction, Row
from sdpkit.papers.pictures import draw
from sdpkit.papers.registry import ENTRIES
from sdpkit.papers.where import how_to_get

Tell = Callable[[str], None]


@one_blas_thread
def reproduce(name: str, options: Options = Options()) -> Reproduction:  # noqa: B008
    """Make one of the tables or figures of `ENTRIES`.

    >>> found = reproduce("figure-3.2", Options(points=1000))
    >>> [row.agrees for row in found.rows]
    [True, True]
    """
    if name not in ENTRIES:
        raise InputError(f"there is no {name!r}; there are {', '.join(ENTRIES)}")
    entry = ENTRIES[name]
    setting = entry.setting(name, options)
    rows, panels = [], []
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn's methods, on graphs in several pieces
        for item in entry.make(setting):
            if isinstance(item, Row):
                rows.append(item)
            else:
                panels.append(item)
    seconds = time.perf_counter() - started
    if options.picture is not None:
        draw(panels, options.picture, f"{entry.source}: {entry.title}")
    return Reproduction(
        name,
        entry.title,
        entry.source,
        tuple(rows),
        entry.assumed,
        entry.differs,
        "" if options.picture is None else options.picture.name,
        round(seconds, 2),
        {
            "points": setting.points or None,
            "runs": setting.runs or None,
            "quick": setting.quick,
            "data": setting.data is not None,
            "version": sdpkit.__version__,
        },
    )


def pictured(name: str, folder: Path) -> Path | None:
    """The picture's file, None without matplotlib."""
    return folder / f"{name}.png" if importlib.util.find_spec("matplotlib") else None


def chosen_for(entry: Entry, options: Options) -> Options:
    """The options an entry can use, where all entries share them."""
    files = entry.needs or entry.uses
    folder = options.data
    has = folder is not None and all((folder / f"{file}.npz").exists() for file in files)
    return Options(folder if has and files else None, quick=options.quick)


def runnable(options: Options) -> tuple[list[str], dict[str, str]]:
    """The entries that have their data, and for the others the files they miss."""
    names, missing = [], {}
    for name, entry in ENTRIES.items():
        lost = [
            file
            for file in entry.needs
            if options.data is None or not (options.data / f"{file}.npz").exists()
        ]
        if lost:
            missing[name] = ", ".join(f"{file}.npz" for file in lost)
        else:
            names.append(name)
    return names, missing


def reproduce_all(
    folder: Path,
    options: Options,
    *,
    names: Sequence[str] | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    tell: Tell = lambda words: print(words, file=sys.stderr, flush=True),
) -> list[Reproduction]:
    """Every entry, each kept in `folder` as JSON and picture as soon as it is made.

    Entries that `folder` has with the same settings are not made again, so that a killed run
    continues where it was. `jobs` of them run at a time, by joblib (by default 1, or what
    `joblib.parallel_config` says); the longest start first. Only this process writes.
    """
    from joblib import delayed

    jobs = runs_at_a_time(jobs)
    known, missing = runnable(options)
    wanted = [name for name in known if names is None or name in names]
    folder.mkdir(parents=True, exist_ok=True)
    done = {} if fresh else _finished(folder, wanted, options)
    left = [name for name in wanted if name not in done]
    seconds = {name: ENTRIES[name].forecast(options.quick) for name in left}
    left.sort(key=lambda name: -seconds[name])
    for name, files in missing.items():
        tell(f"{name}: left out, it needs {files} in the folder of --data")
    if missing:
        wanted_files = sorted({file for name in missing for file in ENTRIES[name].needs})
        tell(f"where these data are: {how_to_get(wanted_files)}")
    total = max(sum(seconds.values()) / jobs, max(seconds.values(), default=0.0))
    tell(
        f"{len(left)} entries to make, {len(done)} kept from before; about {_words(total)} with "
        f"{jobs} at a time"
    )
    tasks = (delayed(_made)(name, chosen_for(ENTRIES[name], options)) for name in left)
    failed = {}
    for number, (name, found, drawn) in enumerate(in_parallel(tasks, jobs), start=1):
        if isinstance(found, str):
            failed[name] = found
            tell(f"{number}/{len(left)} {name}: failed, {found}")
            continue
        done[name] = found
        _keep(folder, found, drawn)
        agreed = [row.agrees for row in found.rows if row.agrees is not None]
        tell(
            f"{number}/{len(left)} {found.name}: {sum(agreed)} of {len(agreed)} agree, "
            f"{'certified' if found.proven else 'NOT certified'}, {found.seconds:.1f} s"
        )
    if failed:
        words = "; ".join(f"{name}: {error}" for name, error in failed.items())
        raise SdpkitError(f"{len(failed)} entries failed ({words}); the others are in {folder}")
    return [done[name] for name in wanted]


def _made(name: str, options: Options) -> tuple[str, Reproduction | str, bytes]:
    """An entry and its picture. If one fails, the others are still made: the second part of the
    answer is then the error."""
    try:
        found, drawn = isolated(_drawn, name, options)
    except Exception as error:
        return name, f"{type(error).__name__}: {error}", b""
    where = {"host": host()} if host() else {}
    return name, replace(found, setting={**found.setting, **where}), drawn


def _drawn(name: str, options: Options) -> tuple[Reproduction, bytes]:
    """An entry and the bytes of its picture, wherever this is called."""
    with tempfile.TemporaryDirectory() as folder:
        picture = pictured(name, Path(folder))
        found = reproduce(name, Options(options.data, quick=options.quick, picture=picture))
        return found, b"" if picture is None else picture.read_bytes()


def _keep(folder: Path, found: Reproduction, drawn: bytes) -> None:
    """Write an entry and its picture; the files appear whole or not at all, the entry last."""
    if drawn:
        with replacing(folder / found.picture) as file:
            file.write(drawn)
    replace_text(folder / f"{found.name}.json", found.to_json())


def _finished(folder: Path, names: Sequence[str], options: Options) -> dict[str, Reproduction]:
    """What the folder has with these settings and this version."""
    out = {}
    for name in names:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        found = Reproduction.from_json(path.read_text(encoding="utf-8"))
        entry = ENTRIES[name]
        setting = asdict(entry.setting(name, chosen_for(entry, options)))
        same = found.setting["version"] == sdpkit.__version__ and all(
            found.setting[word] == (setting[word] or None) for word in ("points", "runs")
        )
        if same and found.setting["data"] == (setting["data"] is not None):
            out[name] = found
    return out


def _words(seconds: float) -> str:
    """Seconds as a person would say them.

    >>> _words(45), _words(600), _words(7300)
    ('45 s', '10 min', '2.0 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
