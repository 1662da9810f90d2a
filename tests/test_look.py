"""`sdpkit look`: awkward tables, the choices made by the data, what is wrong with a drawing."""

from __future__ import annotations

import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.manifold import trustworthiness
from sklearn.metrics import roc_auc_score

import sdpkit
from sdpkit.cli.main import main
from sdpkit.datasets import swiss_roll
from sdpkit.errors import InputError
from sdpkit.estimators import MaximumVarianceUnfolding
from sdpkit.graphs.build import neighborhood_graph
from sdpkit.graphs.chosen import choose_form, choose_neighbors, short_cuts
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.graph import NeighborhoodGraph
from sdpkit.graphs.repair import traverse_probability
from sdpkit.looking.points import points_of_table
from sdpkit.results.diagnosis import _trust, diagnose
from sdpkit.typing import Array


def spiral(n: int = 120, seed: int = 0) -> tuple[Array, Array]:
    """A noisy spiral in the plane, and the angle of each point."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(1.5 * np.pi, 4.5 * np.pi, n)
    X = np.column_stack([t * np.cos(t), t * np.sin(t)])
    return X + 0.3 * rng.standard_normal((n, 2)), t


# -- choices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_planted_short_cuts_are_found_and_clean_edges_stay(seed: int) -> None:
    X, places = swiss_roll(400, random_state=seed, return_parameters=True)
    graph = neighborhood_graph(X, n_neighbors=4)
    rng = np.random.default_rng(seed)
    turn = np.abs(places[:, :1] - places[:, 0])
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    pairs = np.argwhere((squared < 9.0**2) & (turn > 5) & (turn < 8))
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    pairs = pairs[rng.permutation(len(pairs))[:5]]
    mixed = graph.with_edges(pairs, squared[pairs[:, 0], pairs[:, 1]])
    crossing = np.abs(places[mixed.edges[:, 0], 0] - places[mixed.edges[:, 1], 0]) > 4
    assert crossing.sum() >= 5
    assert roc_auc_score(crossing, -traverse_probability(mixed)) > 0.95
    cut = short_cuts(mixed)
    assert cut[crossing].mean() >= 0.6
    assert cut[~crossing].sum() <= 1


def test_an_edge_that_holds_two_parts_together_is_no_short_cut() -> None:
    ring = [[k, (k + 1) % 20] for k in range(20)]
    pairs = [*ring, *([a + 20, b + 20] for a, b in ring), [0, 20]]
    graph = NeighborhoodGraph.from_pairs(40, pairs, [*[1.0] * 40, 400.0])
    assert not short_cuts(graph).any()


def test_neighbors_are_the_fewest_that_connect() -> None:
    X, _ = spiral(200, seed=0)
    choice = choose_neighbors(SquaredDistances.from_points(X))
    assert neighborhood_graph(X, n_neighbors=int(choice.value)).is_connected
    fewer = neighborhood_graph(X, n_neighbors=int(choice.value) - 1)
    assert not fewer.is_connected
    assert f"{choice.value - 1} leave {len(fewer.component_sizes)} parts" in choice.reason
    far = np.vstack([swiss_roll(40), swiss_roll(40) + 500.0])
    clusters = choose_neighbors(SquaredDistances.from_points(far))
    assert clusters.value == 4
    assert "clusters: 2 components" in clusters.reason


def test_the_form_follows_the_noise() -> None:
    flat = choose_form(SquaredDistances.from_points(swiss_roll(300, noise_dims=0)))
    assert flat.value == "equality"
    ball = np.random.default_rng(0).standard_normal((200, 2))
    noisy = np.column_stack([30 * ball[:, :1], 0.45 * np.random.default_rng(1).random((200, 6))])
    assert choose_form(SquaredDistances.from_points(noisy)).reason.startswith("neighbourhoods")
    corners = np.ones((9, 9)) - np.eye(9)
    corners[0, 1:] = corners[1:, 0] = 0.3  # a hub nearer to all than half of their distance
    assert choose_form(SquaredDistances.from_distances(corners)).value == "inequality"


def test_an_estimator_keeps_the_reasons() -> None:
    X, t = spiral(150)
    model = MaximumVarianceUnfolding(
        n_neighbors="auto", form="auto", prune="auto", tol=1e-3, n_components=1
    ).fit(X)
    assert set(model.choices_) == {"n_neighbors", "form", "prune"}
    assert model.problem_.form == model.choices_["form"].value
    assert abs(spearmanr(model.embedding_[:, 0], t)[0]) > 0.99  # a line


# -- what is wrong with a drawing -----------------------------------------------------------------


def test_trust_is_that_of_scikit_learn() -> None:
    X = np.random.default_rng(0).standard_normal((40, 4))
    tables = [np.linalg.norm(Y[:, None] - Y[None], axis=2) for Y in (X, X[:, :2])]
    assert _trust(*tables, k=5) == pytest.approx(trustworthiness(X, X[:, :2], n_neighbors=5))


def test_a_diagnosis_names_what_is_wrong() -> None:
    ball = np.random.default_rng(0).standard_normal((60, 6))
    with pytest.warns(sdpkit.PictureWarning, match="2 dimensions show"):
        model = MaximumVarianceUnfolding(n_neighbors=10).fit(ball)
    found = model.diagnosis_
    assert found.shown == pytest.approx(model.result_.fidelity)
    assert found.variance_gain < 1.05
    assert found.dimensions_needed > 2
    rings = np.vstack([ball[:30, :2], ball[:30, :2] + 50.0])
    problem = sdpkit.MVU(rings, n_neighbors=5, connect="bridge", form="inequality")
    bridged = diagnose(problem.recover(sdpkit.solve(problem, tol=1e-3), 2))
    assert max(size for _, size in bridged.hanging) == 30


def test_a_clean_roll_is_not_complained_about() -> None:
    for seed in (0, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            MaximumVarianceUnfolding(tol=1e-3).fit(swiss_roll(300, random_state=seed))


# -- tables ---------------------------------------------------------------------------------------

ROWS = [f"{k % 7},{k * k % 11},{'ab'[k % 2]}" for k in range(40)]
READABLE = {
    "label": "x,y,kind\n" + "\n".join(ROWS),
    "duplicate headers": "x,x,x\n" + "\n".join(ROWS),
    "constant": "x,c,y\n" + "\n".join(f"{k % 7},5,{k * k % 11}" for k in range(40)),
    "missing": "x,y,z\n" + "\n".join(f"{k},{k * k % 9 if k % 3 else ''},?" for k in range(40)),
    "dates": "day,v\n" + "\n".join(f"2024-{1 + k % 12:02d}-03,{k**0.5:.3f}" for k in range(40)),
    "decimal commas": "x;y\n" + "\n".join(f"{k % 7},5;{k * k % 11},25" for k in range(40)),
    "ragged": "x,y\n1\n" + "\n".join(f"{k % 7},{k * k % 11}" for k in range(40)),
    "no header": "\n".join(f"{k % 7}\t{k * k % 11}" for k in range(40)),
    "latin": "größe,art\n" + "\n".join(f"{k * k % 31},{'äö'[k % 2]}" for k in range(40)),
}
REFUSED = {
    "one row": ("a,b\n1,2\n", "1 row"),
    "all equal": ("a,b\n" + "1,2\n" * 9, "no column of the table varies"),
    "only text": ("name\nanna\nbob\ncarl\n", "no column of the table varies"),
    "empty": ("", "is empty"),
    "bytes": ("a\0b,\0", "is not a text"),
}


@pytest.mark.parametrize("name", READABLE)
def test_awkward_tables_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(READABLE[name], encoding="latin-1" if name == "latin" else "utf-8")
    read = points_of_table(path)
    assert len(read.X) == 40
    assert np.isfinite(read.X).all()
    assert (np.ptp(read.X, axis=0) > 0).all()
    said = " ".join(read.notes)
    for word in {
        "duplicate headers": ["two columns are named x"],
        "constant": ["column c is constant"],
        "missing": ["column z is empty", "y: 14 missing cells"],
        "dates": ["day holds dates"],
        "ragged": ["1 of 42 rows"],
        "latin": ["Latin-1"],
        "label": ["kind is taken as the labels"],
    }.get(name, []):
        assert word in said
    if name == "decimal commas":
        scaled = np.array([[k % 7 + 0.5, k * k % 11 + 0.25] for k in range(40)])
        assert abs(np.corrcoef(read.X[:, 1], scaled[:, 1])[0, 1]) > 1 - 1e-12


@pytest.mark.parametrize("name", REFUSED)
def test_hopeless_tables_get_one_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words = REFUSED[name]
    path = tmp_path / "t.csv"
    path.write_text(content)
    assert main(["look", str(path)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "t.csv.html").exists()


def test_frames_arrays_and_labels() -> None:
    frame = pd.DataFrame(
        {"x": [1.0, 2, 4], "when": pd.to_datetime(["2024-01-01"] * 2 + ["2025-01-01"])}
    )
    read = points_of_table(frame, labels=["a", "b", "a"])
    assert read.columns == ("x", "when")
    assert read.labels is not None
    assert read.labels.tolist() == ["a", "b", "a"]
    with pytest.raises(InputError, match="2 labels for 3 rows"):
        points_of_table(frame, labels=["a", "b"])
    with pytest.raises(InputError, match="no column 'z'; there are x, when"):
        points_of_table(frame, labels="z")
    with pytest.raises(InputError, match="no file"):
        points_of_table("nothing.csv")


class Tags(HTMLParser):
    """Counts tags, and keeps what could load something."""

    def __init__(self) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.loads: list[Any] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.loads += [pair for pair in attributes if pair[0] in ("src", "href", "style")]


def test_a_spiral_with_a_text_label_becomes_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    X, t = spiral()
    label = np.array(["<in>", "middle", "out"])[((t - 4.7) / 3.2).astype(int)]
    pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "part": label}).to_csv("s.csv", index=False)
    assert main(["look", "s.csv"]) == 0
    assert "column part is taken as the labels" in capsys.readouterr().out
    tags = Tags()
    page = Path("s.csv.html").read_text()
    tags.feed(page)
    assert tags.loads == []
    assert "script" not in tags.count
    assert tags.count["svg"] == 4 + 3
    assert "row 0: &lt;in&gt;" in page or "&lt;in&gt;" in page
    assert main(["look", "s.csv"]) == 2  # the page exists
    assert "--force" in capsys.readouterr().err
    seen = sdpkit.look("s.csv")
    assert abs(spearmanr(seen.coordinates[:, 0], t)[0]) > 0.99
    assert seen.estimator.result_.eigenvalues[0] > 0.9 * seen.estimator.result_.eigenvalues.sum()
    run = {"sdpkit": sdpkit}
    exec(seen.code, run)
    assert np.allclose(run["model"].embedding_, seen.coordinates)  # type: ignore[attr-defined]


def test_many_rows_are_placed_among_a_sample() -> None:
    X = swiss_roll(150, random_state=0)
    seen = sdpkit.look(X, max_rows=100)
    assert seen.coordinates.shape == (150, 2)
    assert np.array_equal(seen.coordinates[seen.rows], seen.estimator.embedding_)
    assert "100 of 150 rows were unfolded" in " ".join(seen.notes)
