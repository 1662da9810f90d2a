"""`sdpkit reproduce`: every table and figure at a small size asserts a claim of its paper."""

from __future__ import annotations

import csv
import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs

import sdpkit
from sdpkit.cli.main import main
from sdpkit.errors import InputError, SdpkitError
from sdpkit.papers import page
from sdpkit.papers import reproduce as runner
from sdpkit.papers.entries.classification import validated
from sdpkit.papers.entries.measures import near_pairs
from sdpkit.papers.entry import Certified, Entry, Options, Reproduction, Row
from sdpkit.papers.published import Published
from sdpkit.papers.registry import ENTRIES
from sdpkit.papers.reproduce import reproduce, reproduce_all

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "sdpkit" / "papers" / "entries"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small stand-ins for the sets that are not bundled, with the same names and shapes."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    digits = load_digits()
    X, y = digits.data[:500], digits.target[:500]
    small = X.reshape(-1, 8, 8)
    # Light from a random side, which learning can ignore.
    large = np.pad(np.kron(small, np.ones((1, 3, 3))), ((0, 0), (2, 2), (2, 2)))
    large = large + 40 * rng.random((len(large), 1, 1)) * np.linspace(0, 1, 28)
    blobs, labels = make_blobs(300, 16, centers=5, cluster_std=4.0, random_state=0)
    blobs[:, 8:] = 60 * rng.standard_normal((300, 8))
    sets: dict[str, dict[str, Any]] = {
        "usps": {"X": np.kron(small, np.ones((1, 2, 2))).reshape(-1, 256), "y": y},
        "mnist": {"X": large.reshape(-1, 784), "y": y},
        "olivetti": {"X": X[:90], "y": y[:90]},
        "frey": {"X": X[90:180]},
        "letter": {"X": blobs, "y": labels},
        "uscities": {"X": np.c_[4000 * rng.random(250), 2000 * rng.random(250)]},
        "teapots100": {"X": _pots(24)},
        "netscience": {"X": sdpkit.datasets.star_graph(3, 4).toarray()},
    }
    for name in ("glass", "housevotes84", "ionosphere", "newthyroid", "tictactoe"):
        points, labels = make_blobs(60, 3, centers=2, cluster_std=3.0, random_state=len(name))
        sets[name] = {"X": points, "y": labels}
    for name, count in (("phylo_salamanders", 9), ("phylo_anoles", 10)):
        sets[name] = {"X": _tree_distances(count)}
    for name, arrays in sets.items():
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


def _pots(n: int) -> np.ndarray:
    """A bump that travels once around a ring of 60 pixels, (n, 60)."""
    angle = 2 * np.pi * (np.arange(60) / 60 - np.arange(n)[:, None] / n)
    return np.exp(6 * (np.cos(angle) - 1))


def _tree_distances(n: int) -> np.ndarray:
    """Tip-to-tip distances of a caterpillar tree."""
    place = np.arange(n)
    return np.where(np.eye(n, dtype=bool), 0.0, np.abs(place[:, None] - place) + 2.0)


# Entry → sizes, and the rows whose claims must hold there: an order of methods, a monotone curve,
# a dimension. Rows are named by a part of what they say.
CLAIMS: dict[str, tuple[dict[str, int], list[str]]] = {
    "figure-1.4": ({}, ["move away from the feasible set"]),
    "figure-2.3": ({"points": 200}, ["discriminative one is stretched more"]),
    "figure-2.4": ({"runs": 1}, ["LMNN below Euclidean", "25, 50, 100, 200, 400: LMNN"]),
    "figure-2.6": ({"points": 500}, ["leading eigenimages: PCA", "LMNN", "test error"]),
    "figure-2.8": ({"points": 500}, ["nearest neighbour became right"]),
    "figure-2.9": ({"points": 200, "runs": 1}, ["training error"]),
    "figure-2.10": ({}, ["1 metric", "each further metric helps"]),
    "figure-2.11": ({"points": 200}, ["directions of the four metrics"]),
    "figure-2.12": ({"points": 200, "runs": 1}, ["training error"]),
    "figure-2.13": ({"points": 800}, ["ball trees add"]),
    "figure-2.16": ({"points": 300}, ["fewer distances"]),
    "figure-2.17": ({"points": 1797}, ["mean error from 5", "LMNN (rec) against PCA"]),
    "figure-2.20": ({"points": 300}, ["direction: PCA", "direction: RCA", "direction: LDA"]),
    "figure-3.2": ({"points": 2000}, ["mean squared norm", "standard deviation"]),
    "figure-3.3": ({"points": 120}, ["classical MDS"]),
    "figure-3.5": ({"points": 120}, ["PCA of the inputs"]),
    "figure-3.8": ({"points": 80}, ["dominant eigenvalues", "in order around the ring"]),
    "figure-3.9": ({}, ["in 2 dimensions", "in order around a circle"]),
    "figure-3.10": ({}, ["in 1 dimension", "ordered by their angle"]),
    "figure-3.11": ({"points": 60}, ["twos: dimensions", "PCA"]),
    "figure-3.13": ({"points": 60}, ["three dimensions: inequality", "three dimensions: equality"]),
    "figure-3.14": ({"points": 100}, ["k = 6, strict"]),
    "figure-3.15": ({"points": 75}, ["MVU (k = 3)", "Isomap (k = 5)", "k = 16"]),
    "figure-3.17": ({"points": 400}, ["Laplacian: local continuity", "LLE: local continuity"]),
    "figure-3.18": ({"points": 150}, ["LLE, variational MVU"]),
    "figure-3.19": ({"points": 250}, ["after refinement"]),
    "figure-3.20": ({"points": 400}, ["after refinement", "random start"]),
    "figure-3.21": ({"points": 200}, ["loss (3.26)"]),
    "figure-3.22": ({"points": 80}, ["local continuity", "local trust", "intersection"]),
    "figure-3.23": ({"points": 60, "runs": 1}, ["fives: SDP"]),
    "figure-3.24": ({"points": 60}, ["Swiss roll: local trust", "Swiss roll: intersection"]),
    "figure-3.25": ({"points": 50}, ["minimum trace", "variance of minimum trace"]),
    "figure-3.26": ({}, ["variance of minimum trace", "in order around the circle"]),
    "figure-3.28": ({"points": 100}, ["spectrum of PCA as k grows"]),
    "figure-3.29": ({"points": 200}, ["edges between layers", "variance gained"]),
    "figure-3.31": ({}, ["Isomap"]),
    "figure-3.32": ({"points": 150}, ["variance: linear", "variance: Gaussian"]),
    "figure-3.33": ({}, ["variance: MVU", "variance: Gaussian"]),
    "figure-3.34": ({"points": 200}, ["Swiss roll: pairs", "Swiss roll: dimensions"]),
    "figure-3.35": ({"points": 60}, ["variance: MVU", "variance: linear", "variance: Gaussian"]),
    "figure-3.36": ({"points": 150}, ["SVM on inputs", "SVM on MVU kernel"]),
    "figure-3.37": ({"points": 60}, ["twos: negative", "twos: MVU's least"]),
    "table-2.1": ({"runs": 1}, ["wine: LMNN against raw inputs"]),
    "table-2.1-letters": ({"points": 300, "runs": 1}, ["LMNN against raw inputs"]),
    "table-2.1-mnist": ({"points": 300}, ["LMNN against PCA, test, kNN"]),
    "table-3.2": ({"points": 150}, ["continuity: variational MVU"]),
    "table-3.2-frey": ({"points": 80}, ["continuity: variational MVU"]),
    "table-3.2-olivetti": ({"points": 80}, ["continuity: variational MVU"]),
    "table-3.2-teapots": ({}, ["a true manifold"]),
    "table-3.3": ({"points": 60, "runs": 3}, ["MVU against the best"]),
    "journal-zebra": ({"points": 300}, ["error: LMNN", "error: RCA", "error: LDA"]),
    "lecture-fidelity": ({"points": 40}, ["star: MVE against MVU", "star: SDE"]),
    "lecture-kernel-pca": ({"points": 400}, ["degree 1 against degrees"]),
    "lecture-phylogenies": ({}, ["plain: share of the variance", "FULL: closest pair"]),
    "lecture-spanning-trees": ({"points": 12}, ["plain: share", "FULL: closest pair"]),
    "min-circles": ({}, ["no kernel", "quadratic kernel", "eigenmap kernel"]),
    "min-distance-mixture": ({"points": 40}, ["sum of distances", "EM-like"]),
    "min-eigenmaps": ({"points": 50}, ["all dimensions"]),
    "min-kernel-mixture": ({"points": 40}, ["against the best kernel", "d × n"]),
    "min-width": ({}, ["iris: agreement", "wine: agreement"]),
    "query-metric": ({"points": 60, "runs": 2}, ["against LMNN"]),
}


# Their claims are about errors of a few percent, which take some time to be seen.
LONG = ("figure-2.17", "table-2.1", "query-metric")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in ENTRIES]
)
def test_claims_of_the_paper_hold_at_a_small_size(name: str, data: Path, tmp_path: Path) -> None:
    sizes, claims = CLAIMS[name]
    entry = ENTRIES[name]
    picture = tmp_path / "picture.png"
    folder = data if entry.needs else None
    found = reproduce(name, Options(folder, quick=True, picture=picture, **sizes))
    assert picture.read_bytes().startswith(b"\x89PNG")
    for part in claims:
        rows = [row for row in found.rows if part in row.what]
        assert rows, f"no row says {part!r}: {[row.what for row in found.rows]}"
        for row in rows:
            assert row.agrees, row
            assert row.proven, row
    back = Reproduction.from_json(found.to_json())
    assert back == found


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.uses and not e.needs])
def test_entries_take_data_if_there_are_some(name: str, data: Path) -> None:
    sizes, _ = CLAIMS[name]
    found = reproduce(name, Options(data, quick=True, **sizes))
    assert found.setting["data"]
    assert found.rows


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_claim_and_entry_of_a_paper_is_used(path: Path) -> None:
    paper = Published.of(path.stem)
    source = path.with_suffix(".py").read_text(encoding="utf-8")
    claims = re.findall(r'PAPER\.claim\(\s*"([^"]+)"', source)
    assert sorted(claims) == sorted(paper.claims)
    module = importlib.import_module(f"sdpkit.papers.entries.{path.stem}")
    assert set(module.ENTRIES) == set(paper.described)


# -- the command ----------------------------------------------------------------------------


def test_all_are_listed_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ENTRIES)
    assert len(ENTRIES) >= 40
    assert sum(not entry.needs for entry in ENTRIES.values()) >= 25
    assert set(CLAIMS) == set(ENTRIES)
    for entry in ENTRIES.values():
        assert entry.assumed
        assert entry.source.split(",")[0] in (ROOT / "docs" / "bibliography.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["table-9.9"], "there is no 'table-9.9'; there are figure-1.4"),
        (["table-2.1", "--runs", "0"], "--runs=0"),
        (["table-2.1", "--points", "9"], "table-2.1 does not use --points; it uses --runs"),
        (["figure-2.10", "--runs", "3"], "figure-2.10 does not use --runs; it has no such options"),
        (["figure-2.3", "--data", "."], "figure-2.3 does not use --data; it uses --points"),
        (["figure-3.9"], "figure-3.9 needs teapots100.npz: pass their folder with --data"),
        (["figure-2.3", "--csv", "x"], "--csv can only be used with --all"),
        (["--all"], "--all needs one of --quick (minutes) and --full"),
        (["--all", "--quick", "--full"], "--all needs one of"),
        (["--all", "--quick", "--points", "9"], "--points can only be used with one entry"),
        (["figure-2.3", "--all", "--quick"], "leave 'figure-2.3' or --all out"),
        (["--all", "--quick", "--page", "x.md"], "--page is filled from --csv FILE"),
    ],
)
def test_what_does_not_fit_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_one_entry_prints_published_and_ours(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "figure-3.2", "--points", "1000"]) == 0
    printed = capsys.readouterr().out
    assert "published" in printed
    assert "assumed: 100 dimensions" in printed
    assert (tmp_path / "figure-3.2.png").exists()
    assert main(["reproduce", "figure-3.2", "--points", "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["setting"]["points"] == 1000
    assert found["rows"][0]["published"] == "1"


def entry(words: str, proven: bool = True) -> Entry:
    def make(setting: Any) -> Any:
        if words == "breaks":
            raise InputError("the set is empty")
        yield Row.claim(words, "1", "1", True, Certified("by hand", proven, 1e-4))
        yield sdpkit.papers.pictures.Bars("bars", {"a": [1.0]}, ["b"])

    return Entry("a title", "Weinberger 2007", make, ("nothing",), points=(1, 10), seconds=0.1)


def test_all_resumes_and_says_how_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"one": entry("first"), "two": entry("second", proven=False)}
    monkeypatch.setattr(runner, "ENTRIES", made)
    said: list[str] = []
    found = reproduce_all(tmp_path, Options(quick=True), tell=said.append)
    assert [one.name for one in found] == ["one", "two"]
    assert "2 entries to make, 0 kept from before; about 0 s with 1 at a time" in said[0]
    assert any("two: 0 of 0 agree, NOT certified" in words for words in said)
    assert (tmp_path / "one.png").exists()
    # A run that was killed before `two` was written makes only that again.
    (tmp_path / "two.json").unlink()
    said.clear()
    again = reproduce_all(tmp_path, Options(quick=True), tell=said.append)
    assert "1 entries to make, 1 kept" in said[0]
    assert again[0] == found[0]
    # Other sizes are another result, and so is everything with `fresh`.
    said.clear()
    reproduce_all(tmp_path, Options(quick=False), tell=said.append)
    assert "2 entries to make, 0 kept" in said[0]
    said.clear()
    reproduce_all(tmp_path, Options(quick=False), fresh=True, tell=said.append)
    assert "2 entries to make" in said[0]


def test_one_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"bad": entry("breaks"), "good": entry("fine")}
    monkeypatch.setattr(runner, "ENTRIES", made)
    with pytest.raises(SdpkitError, match=r"1 entries failed \(bad: InputError: the set is empty"):
        reproduce_all(tmp_path, Options(quick=True), tell=lambda words: None)
    assert (tmp_path / "good.json").exists()
    assert not (tmp_path / "bad.json").exists()


def test_a_row_that_was_not_certified_is_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for made in (ENTRIES, runner.ENTRIES):
        monkeypatch.setitem(made, "doubtful", entry("x", proven=False))
    assert main(["reproduce", "doubtful"]) == 1
    assert "by hand" in capsys.readouterr().out


def test_forecasts_grow_with_the_sizes() -> None:
    one = entry("x")
    assert one.forecast(quick=True) == 0.1
    assert one.forecast(quick=False) == pytest.approx(0.1 * 10**2.5)


def test_the_page_and_its_table(tmp_path: Path) -> None:
    rows = (
        Row.number("a number", 1.0, 1.05, 0.1, " %", Certified("optimal", True, 2e-4)),
        Row.number("another", 1.0, 3.0, 0.1, " %"),
        Row.claim("no claim", "", "5", None),
    )
    assert [row.agrees for row in rows] == [True, False, None]
    setting = {"points": 7, "runs": None, "quick": True, "data": False, "version": "0"}
    one = Reproduction("figure-2.10", "t", "s", rows, ("a",), "why", "", 1.5, setting)
    path = tmp_path / "papers.csv"
    page.write_csv(path, [one])
    text = "before\n<!-- papers -->\nold\n<!-- end of papers -->\nafter\n"
    filled = page.filled(text, path)
    assert "| `figure-2.10` | s | 7 | 1 of 2 | 2e-04 | 1.5 |" in filled
    assert "another: 1 % published, 3 % here" in filled
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert page.filled(filled, path) == filled
    with pytest.raises(InputError, match="no place for the table"):
        page.filled("nothing", path)


def test_the_committed_page_is_that_of_the_committed_table() -> None:
    """If this fails: sdpkit reproduce --all --quick --csv docs/papers.csv --page docs/papers.md"""
    path = ROOT / "docs" / "papers.csv"
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert page.filled(text, path) == text
    table = path.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|work|tmp|Users)/", table)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["name"] for row in rows} <= set(ENTRIES)


SPEAK_OF = r"\bthe (thesis|lecture|journal paper)\b"


@pytest.mark.parametrize("folder", ["sdpkit", "problems", "solvers", "docs"])
def test_whoever_speaks_of_a_source_names_it_once(folder: str) -> None:
    """Author and year somewhere in the file; docs/bibliography.md has the rest."""
    places = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    nameless = [
        str(path.relative_to(ROOT))
        for path in places
        if re.search(SPEAK_OF, text := path.read_text(encoding="utf-8"))
        and not re.search(r"(Weinberger|Jebara)[^.]{0,40}(20\d\d|lecture)", text)
    ]
    assert not nameless


# -- protocols ------------------------------------------------------------------------------


def test_k_is_validated_inside_the_training_set() -> None:
    """Points and labels of the test part do not enter the choice of k."""
    X, y = (part[:60] for part in sdpkit.datasets.balance_scale())
    order = np.random.default_rng(0).permutation(len(X))
    spoiled, labels = X.copy(), y.copy()
    spoiled[order[42:]], labels[order[42:]] = 1e3, 0
    assert validated(X, y, 1) == validated(spoiled, labels, 1)


def test_k_is_the_one_that_fits() -> None:
    """Of every five points in a place one is mislabelled: the nearest alone is a bad guide."""
    rng = np.random.default_rng(1)
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 60, axis=0) + rng.standard_normal((120, 2))
    y = np.repeat([0, 1], 60)
    y[rng.permutation(120)[:24]] ^= 1
    assert validated(X, y, 3)[0] > 1


def test_pairs_far_around_the_turn_are_found() -> None:
    """A turn of 100 frames on a circle, where frame 60 looks nearly like frame 10."""
    angles = 2 * np.pi * np.arange(100) / 100
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pairs, far = near_pairs(X)
    assert pairs.shape == (2, 500)
    assert not far.any()
    X[60] = X[10] + 1e-3
    pairs, far = near_pairs(X)
    assert {(10, 60), (60, 10)} <= set(map(tuple, pairs[:, far].T.tolist()))
    assert not far[pairs[0] == 35].any()


def test_the_scales() -> None:
    X, y = sdpkit.datasets.balance_scale()
    assert len(np.unique(X, axis=0)) == 625
    assert set(np.unique(X)) == {1, 2, 3, 4, 5}
    mirrored = X[:, [2, 3, 0, 1]]
    order = np.lexsort(X.T[::-1])
    assert (X[order] == X).all()  # counted up, as the set is listed
    swapped = np.lexsort(mirrored.T[::-1])
    assert (y[swapped] == np.array([0, 2, 1])[y]).all()
