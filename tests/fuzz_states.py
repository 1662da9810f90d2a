"""Changed checkpoints and estimator files, used: `python fuzz_states.py SEED COUNT FOLDER`.

Arrays of files that are good otherwise are changed in shape, type and values, left out or added,
and the checksums are made right again; some files are cut off. Each must be refused in our words or
used without harm: no crash, no foreign exception, nothing beyond the time limit. One line of JSON
is printed before each file is used and one after it, so that the reader knows which one ended the
process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import random
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sdpkit
from sdpkit import estimators
from sdpkit.files import read_npz
from sdpkit.interfaces.tuples import TuplesMixin
from sdpkit.results.archive import read_arrays, write_arrays
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solving.registry import get_solver, known_solvers

LIMIT = 1.0
SECONDS = 10.0  # for one file, the limit and the checks of the answer included
NUMBERS = (
    np.nan,
    np.inf,
    -np.inf,
    1e308,
    -1e308,
    1e299,
    1e200,
    1e99,
    -1e49,
    5e-324,
    -1.0,
    0.0,
    0.5,
    1e9,
)
WHOLE = (-1, 0, 1, 8, 9, 12, 13, 10**6, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1)
WORDS = ("1e400", "nan", "-1", "0", "0.5", "null", "true", '"x"', "[]", "{}", "[1,2]", "1" * 400)
TYPES = ("c16", "f4", "f2", "g", "i1", "u8", "i8", "?", "U7", "S3")

X = np.random.default_rng(0).standard_normal((12, 3)).round(3)
Y = np.arange(12) % 2
NEW = X[:3] + 0.01


class Kind(NamedTuple):
    """A good file as arrays; what writes them with right checksums, and what uses the file."""

    arrays: dict[str, Any]
    write: Callable[[Path, dict[str, Any]], None]
    use: Callable[[Path], Any]


# -- the files ----------------------------------------------------------------------------------


def checkpoints(folder: Path) -> dict[str, Kind]:
    """The states of all engines that keep one, on programs of several kinds."""
    programs = {
        "roll": sdpkit.MVU(X, n_neighbors=4).program(),
        "slack": sdpkit.MVU(X, n_neighbors=3, form="slack").program(),
        "pairs": sdpkit.MMC(X, Y).program(),
    }
    out = {}
    for solver in known_solvers():
        if not get_solver(solver).capabilities.checkpoint:
            continue
        for name, program in programs.items():
            if get_solver(solver).accepts(program) is not None:
                continue
            path = folder / f"{solver}-{name}.npz"
            _resume(path, program, solver)
            found = read_npz(path)
            arrays = {n[6:]: a for n, a in found.items() if n.startswith("state/")}
            if arrays:
                out[path.stem] = _checkpoint(arrays, program, solver)
    return out


def _checkpoint(arrays: dict[str, Any], program: Any, solver: str) -> Kind:
    def write(path: Path, changed: dict[str, Any]) -> None:
        path.unlink(missing_ok=True)
        Checkpoint(path, program.fingerprint, solver).save(**changed)

    return Kind(arrays, write, lambda path: _resume(path, program, solver))


def _resume(path: Path, program: Any, solver: str) -> Any:
    settings: dict[str, Any] = {"tol": 1e-6, "max_iter": 25, "time_limit": LIMIT}
    return sdpkit.solve(program, solver=solver, checkpoint=path, **settings)


def results(folder: Path) -> dict[str, Kind]:
    """Estimators of all classes, metrics and embeddings."""
    pairs, signs = np.stack([X[:-1], X[1:]], axis=1), np.where(np.arange(11) % 2, 1, -1)
    kernel = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    fitted = {
        "lmnn": estimators.LargeMarginNearestNeighbors(n_neighbors=2).fit(X, Y),
        "knn": estimators.LMNNClassifier(n_neighbors=2).fit(X, Y),
        "energy": estimators.LMNNClassifier(n_neighbors=2, rule="energy").fit(X, Y),
        "per-class": estimators.LMNNClassifier(n_neighbors=2, metrics="per_class").fit(X, Y),
        "clusters": estimators.LMNNClassifier(n_neighbors=2, metrics=2, rule="energy").fit(X, Y),
        "mmc": estimators.MahalanobisForClustering().fit(X, Y),
        "margins": estimators.PairMarginMetric().fit(X, Y),
        "ellipsoid": estimators.CoveringEllipsoidMetric().fit(X),
        "rca": estimators.RelevantComponentAnalysis().fit(X, Y),
        "mvu": estimators.MaximumVarianceUnfolding().fit(X),
        "kernel": estimators.MaximumVarianceUnfolding(metric="precomputed_kernel").fit(kernel),
        "mve": estimators.MinimumVolumeEmbedding().fit(X),
        "vmvu": estimators.VariationalMaximumVarianceUnfolding(n_basis=5).fit(X),
        "query": estimators.QueryMetric(n_local=6).fit(X, Y),
        "pola": estimators.PseudoMetricOnlineLearning(max_iter=3).fit(pairs, signs),
        "mmc-pairs": estimators.MahalanobisForClusteringFromPairs().fit(pairs, signs),
        "triplets": estimators.LargeMarginFromTriplets().fit(X.reshape(4, 3, 3)),
    }
    out = {}
    for name, model in fitted.items():
        path = folder / f"{name}.npz"
        model.save(path)
        new = kernel[:3] if name == "kernel" else NEW
        use = _user(type(model), new)
        out[f"estimator-{name}"] = Kind(read_arrays(path, "estimator"), _writer("estimator"), use)
    saved: list[tuple[str, Any, Callable[[Any], Any]]] = [
        ("metric", fitted["energy"].metric_, _use_metric),
        ("embedding", fitted["mvu"].result_, lambda e: (repr(e), e.extend(NEW))),
    ]
    for kind, result, use_it in saved:
        result.save(folder / f"{kind}.npz")
        arrays = read_arrays(folder / f"{kind}.npz", kind)
        load = type(result).load
        out[kind] = Kind(arrays, _writer(kind), lambda p, load=load, use=use_it: use(load(p)))
    return out


def _writer(kind: str) -> Callable[[Path, dict[str, Any]], None]:
    return lambda path, arrays: write_arrays(path, kind, arrays)


def _use_metric(metric: Any) -> None:
    for rule in ("knn", "energy"):
        metric.predict(NEW, rule)
    metric.leave_one_out_error()
    repr(metric)


def _user(cls: Any, new: Any) -> Callable[[Path], Any]:
    def use(path: Path) -> None:
        model = cls.load(path)
        uses = ["transform"] if isinstance(model, TuplesMixin) else ["transform", "predict"]
        for name in uses:
            if hasattr(model, name):
                getattr(model, name)(new)
        repr(model)
        model._repr_html_()
        if hasattr(model, "certificate_"):
            repr(model.certificate_)
            model.certificate_.passes(1e-6)
            model.certificate_.verify()

    return use


# -- changes ------------------------------------------------------------------------------------


def changed(kind: Kind, place: Path, rng: random.Random) -> str:
    """Write a changed file; in words what was changed."""
    arrays = dict(kind.arrays)
    words = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        # Programs have many arrays, and are changed by `fuzz_files` too.
        own = [name for name in arrays if "program/" not in name] or list(arrays)
        name = rng.choice(own if rng.random() < 0.8 else list(arrays))
        way = rng.randrange(12)
        words.append(f"{name}:{way}")
        if way == 0 and len(arrays) > 1:
            del arrays[name]
        elif way == 1:
            arrays[f"{name}{rng.choice(['0', 'x', '/y'])}"] = arrays.get(name, np.zeros(2))
        elif name in ("head", "header") or name.endswith("/header"):
            arrays[name] = _header(arrays[name], rng)
        elif name in arrays:
            arrays[name] = _array(np.asarray(arrays[name]), rng)
    kind.write(place, arrays)
    if rng.random() < 0.03:
        content = place.read_bytes()
        place.write_bytes(content[: rng.randrange(len(content))])
        words.append("cut off")
    return " ".join(words)


def _header(header: Any, rng: random.Random) -> Any:
    """One of the values in JSON becomes another one, or any byte does."""
    text = bytes(header).decode()
    values = list(re.finditer(r'(?<=[:,\[] )("[^"]*"|[-\w.+]+)', text))
    if values and rng.random() < 0.9:
        one = rng.choice(values)
        text = text[: one.start()] + rng.choice(WORDS) + text[one.end() :]
    else:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice('{}[]",:x0') + text[place + 1 :]
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _array(array: Any, rng: random.Random) -> Any:
    way = rng.randrange(10)
    if way <= 4 and array.size and array.dtype.kind in "iuf":
        out = array.copy()
        count = rng.choice([1, 1, out.size])
        for place in rng.sample(range(out.size), count):
            with contextlib.suppress(ValueError, OverflowError):  # too large for its type
                out.flat[place] = rng.choice(NUMBERS if array.dtype.kind == "f" else WHOLE)
        return out
    if way <= 6:
        with np.errstate(all="ignore"):
            try:
                return array.astype(rng.choice(TYPES))
            except ValueError:
                return array.astype(str)
    flat = array.reshape(-1)
    shapes: list[Callable[[], Any]] = [
        lambda: flat, lambda: array[None], lambda: array.T.copy(), lambda: flat[:-1],
        lambda: np.zeros(0), lambda: np.zeros((0, 3)), lambda: np.zeros((3, 0)),
        lambda: np.repeat(np.atleast_1d(array), 2, axis=0), lambda: np.zeros((1, 1, 1)),
        lambda: np.atleast_1d(array)[:1], lambda: np.atleast_1d(array)[..., :-1],
        lambda: np.zeros((300, 300)), lambda: np.array("\x1b[31m"), lambda: np.array(7),
    ]  # fmt: skip
    return rng.choice(shapes)()


# -- the judge ----------------------------------------------------------------------------------


def examine(seed: int, count: int, folder: Path) -> None:
    """Change, use and report `count` files."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    kinds = checkpoints(folder) | results(folder)
    for name, kind in kinds.items():
        kind.write(folder / "good.npz", kind.arrays)
        kind.use(folder / "good.npz")
        print(json.dumps({"good": name}), flush=True)
    rng, names, place = random.Random(seed), sorted(kinds), folder / "changed.npz"
    for number in range(count):
        name = names[number % len(names)]
        words = changed(kinds[name], place, rng)
        kept = place.read_bytes()
        (folder / "last.npz").write_bytes(kept)
        print(json.dumps({"file": number, "of": name, "way": words}), flush=True)
        outcome: dict[str, Any] = {"file": number, "of": name, "way": words}
        started = time.monotonic()
        try:
            kinds[name].use(place)
            outcome["end"] = "used"
        except sdpkit.SdpkitError as error:
            outcome["end"] = "refused"
            outcome["words"] = str(error)[:300]
        except BaseException:
            outcome["fault"] = traceback.format_exc()[-1500:]
        taken = time.monotonic() - started
        if taken > SECONDS:
            outcome["fault"] = f"took {taken:.1f} s"
        if "fault" in outcome:
            (folder / f"fault-{seed}-{number}-{name}.npz").write_bytes(kept)
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    faulthandler.enable()
    examine(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
