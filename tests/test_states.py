"""Changed checkpoints and estimator files are refused or used, and hurt nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import InputError, estimators
from sdpkit.comparison.ledger import Ledger
from sdpkit.interfaces.files import SavedMixin
from sdpkit.results.archive import read_arrays, write_arrays

FUZZER = Path(__file__).with_name("fuzz_states.py")
# Seconds for a batch: kernels may have to be compiled.
PATIENCE = 400


def fuzz(seed: int, count: int, folder: Path) -> Counter[str]:
    """How many files were refused and how many used; anything else fails."""
    here = str(Path(sdpkit.__file__).parents[1])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": here}
    command = [sys.executable, str(FUZZER), str(seed), str(count), str(folder)]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"it hangs: {(error.stdout or b'')[-300:]!r}") from error
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    faults = [line for line in lines if "fault" in line]
    assert not faults, faults[0]
    assert run.returncode == 0, (lines[-1:], run.stderr[-2000:])
    ends = Counter(line["end"] for line in lines if "end" in line)
    assert ends.total() == count
    assert ends["refused"] > count / 3
    assert ends["used"] > count / 20
    return ends


@pytest.mark.slow
def test_changed_states_are_refused_or_used(tmp_path: Path) -> None:
    fuzz(7, 110, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_changed_states_are_refused_or_used(seed: int, tmp_path: Path) -> None:
    fuzz(500 + seed, 300, tmp_path)


# -- estimators, case by case -------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((12, 3)).round(3)
Y = np.arange(12) % 2


def changed(model: Any, path: Path, **arrays: Any) -> None:
    """Save a model with other arrays and a right checksum; `head` changes words of the header."""
    model.save(path)
    found = read_arrays(path, "estimator")
    head = bytes(found["head"]).decode()
    for old, new in arrays.pop("head", {}).items():
        assert old in head
        head = head.replace(old, new)
    found["head"] = np.frombuffer(head.encode(), dtype=np.uint8)
    for name, array in arrays.items():
        assert name in found
        found[name] = array
    write_arrays(path, "estimator", found)


FITTED: dict[str, Any] = {
    "knn": estimators.LMNNClassifier(n_neighbors=2),
    "lmnn": estimators.LargeMarginNearestNeighbors(n_neighbors=2),
    "mvu": estimators.MaximumVarianceUnfolding(),
    "query": estimators.QueryMetric(n_local=6),
    "rca": estimators.RelevantComponentAnalysis(),
    "ellipsoid": estimators.CoveringEllipsoidMetric(),
}
FEATURES = '"n_features_in_": {"kind": "value", "value": 3}, '
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "labels out of range": ("query", {"labels_/entries": np.full(12, 10**9)}),
    "labels negative": ("query", {"labels_/entries": np.full(12, -(10**9))}),
    "labels real": ("query", {"labels_/entries": np.zeros(12)}),
    "points of another width": ("query", {"X_/entries": np.zeros((12, 2))}),
    "points of texts": ("query", {"X_/entries": np.full((12, 3), "x")}),
    "points complex": ("query", {"X_/entries": X + 1j}),
    "a parameter of text": ("query", {"head": {'"n_neighbors": 3': '"n_neighbors": "x"'}}),
    "more neighbours than points": ("query", {"head": {'"n_neighbors": 3': '"n_neighbors": 99'}}),
    "components of another shape": ("rca", {"components_/entries": np.zeros((2, 2))}),
    "components with NaN": ("rca", {"components_/entries": np.full((3, 3), np.nan)}),
    "no features": ("rca", {"head": {FEATURES: ""}}),
    "huge features": ("rca", {"head": {'"value": 3': '"value": 1' + "0" * 400}}),
    "blocks out of range": ("knn", {"metric_/block_of": np.full(12, 7)}),
    "targets out of range": ("knn", {"metric_/target_pairs": np.full((24, 2), 12)}),
    "a weight of NaN": ("knn", {"metric_/mu": np.array(np.nan)}),
    "classes of two axes": ("knn", {"metric_/classes": np.zeros((2, 2))}),
    "another width": ("lmnn", {"head": {'"value": 3': '"value": 4'}}),
    "inputs of another width": ("mvu", {"result_/points": np.zeros((12, 2))}),
    "edges out of range": ("mvu", {"result_/edges": np.full((3, 2), 99)}),
    "no eigenvalues": ("mvu", {"result_/eigenvalues": np.zeros(0)}),
    "coordinates too large": ("mvu", {"result_/coordinates": np.full((12, 2), 1e300)}),
    "distances for points": ("mvu", {"head": {'"euclidean"': '"precomputed"'}}),
    "an unknown metric": ("mvu", {"head": {'"euclidean"': '"evil"'}}),
    "multipliers of another size": ("mvu", {"certificate_/multipliers": np.zeros(3)}),
    "a point of another size": ("mvu", {"certificate_/matrix0": np.zeros((3, 3))}),
    "a bound of text": ("mvu", {"head": {'"relative_gap": ': '"relative_gap": "x", "was": '}}),
    "a method": ("mvu", {"head": {'"n_iter_"': '"transform"'}}),
    "a list of warnings": ("mvu", {"head": {'"warnings": []': '"warnings": [1, {}]'}}),
    "a flat ellipsoid": ("ellipsoid", {"ellipsoid_/shape": np.zeros((3, 3))}),
    "a radius below zero": ("ellipsoid", {"ellipsoid_/radius": np.array(-1.0)}),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_estimator_files_are_refused(case: str, tmp_path: Path) -> None:
    name, changes = WRONG[case]
    model = FITTED[name].fit(X, Y)
    changed(model, tmp_path / "model.npz", **changes)
    with pytest.raises(InputError, match=r"model\.npz"):
        type(model).load(tmp_path / "model.npz")


def test_files_hold_what_is_declared(tmp_path: Path) -> None:
    """All that `fit` leaves is in the file, or is made from it; the problem is left out."""
    for model in FITTED.values():
        model.fit(X, Y).save(tmp_path / "model.npz")
        back = type(model).load(tmp_path / "model.npz")
        assert vars(model).keys() - vars(back).keys() <= {"problem_", "solution_"}


def test_every_estimator_declares_what_it_saves() -> None:
    for name in estimators.__all__:
        cls = getattr(estimators, name)
        if issubclass(cls, SavedMixin):
            assert len(cls._saved) > len(SavedMixin._saved), name
            assert cls._restore is not SavedMixin._restore, name


# -- comparisons --------------------------------------------------------------------------------

HERE = {"sdpkit": "0", "python": "3", "numpy": "2", "scipy": "1", "processor": "p", "cores": "2"}


@pytest.mark.parametrize("part", ["environment", "settings"])
@pytest.mark.parametrize("value", [None, 1, "x", [1], [[1, 2]], True])
def test_a_comparison_without_its_conditions_is_refused(
    part: str, value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    head = {"record": "comparison", "format": 1, "environment": HERE, "settings": {}}
    path.write_text(json.dumps({**head, part: value}) + "\n")
    for use in (lambda: Ledger(path, HERE, {}, []), lambda: sdpkit.Comparison.load(path)):
        with pytest.raises(InputError, match=r"runs\.jsonl is not a comparison"):
            use()
