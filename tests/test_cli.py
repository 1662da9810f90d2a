"""The command line is what a new user meets first."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sdpkit
from sdpkit.cli.main import main


def test_demo_prints_a_certificate_and_writes_a_picture(tmp_path, capsys):
    picture = tmp_path / "roll.png"
    assert main(["demo", "--points", "40", "--picture", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "certified relative gap" in printed
    assert "verified bound" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_solvers_are_listed_with_the_reason_why_some_are_missing(capsys):
    assert main(["solvers"]) == 0
    printed = capsys.readouterr().out
    for name in ("interior", "scs", "clarabel", "csdp"):
        assert name in printed


def test_errors_are_sentences_not_tracebacks(tmp_path, capsys):
    assert main(["demo", "--points", "3", "--picture", str(tmp_path / "p.png")]) == 2
    assert capsys.readouterr().err.startswith("sdpkit: ")


def test_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["unfold"])


def test_tables_of_embeddings_are_printed(capsys):
    """The commands' own functions on instances that take a second."""
    from sdpkit.papers.bench import embeddings

    rows = embeddings._trial(embeddings.sdpkit.datasets.swiss_roll(90), 0)
    assert rows.shape == (2, 3)
    assert (rows > 0).all()
    assert (rows < 20).all()
    embeddings._extension_speed(t=100)
    embeddings._published_against_centred()
    embeddings.variational(n=400)
    printed = capsys.readouterr().out
    assert "the same to the last bit: True" in printed
    assert "a = 100" in printed
    assert printed.count("local continuity") == 4


def test_networks_are_printed(capsys):
    import numpy as np

    from sdpkit.papers.bench import embeddings

    points = np.random.default_rng(0).random((150, 2))
    edges = embeddings._up_to(points, 12, 0.4)
    embeddings._network("a small one", points, edges, 0.0, " m")
    assert "refined" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["forms", "--sizes", "10"], "'forms' does not use --sizes; it uses no option"),
        (["cold", "--no-peers"], "does not use --no-peers"),
        (["mve", "--tol", "1e-3"], "does not use --tol; it uses --data"),
        (["interior", "--deskewed"], "does not use --deskewed; it uses --sizes, --no-peers"),
    ],
)
def test_a_table_refuses_options_it_does_not_use(arguments, words, capsys):
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_every_option_of_a_table_has_a_default():
    from sdpkit.cli import bench

    used = {name for _, _, names in bench.TABLES.values() for name in names}
    assert used == set(bench._DEFAULTS)


def test_a_table_says_which_file_it_misses(tmp_path, capsys):
    assert main(["bench", "localization", "--data", str(tmp_path)]) == 2
    assert "uscities.npz is missing" in capsys.readouterr().err


# -- sdpkit solve ---------------------------------------------------------------------------


@pytest.fixture
def roll(tmp_path):
    """A file of 25 points with a line of names."""
    path = tmp_path / "roll.csv"
    X = sdpkit.datasets.swiss_roll(25)
    names = ",".join(f"x{k}" for k in range(8))
    np.savetxt(path, X, delimiter=",", header=names, comments="", fmt="%.17g")
    return path


def test_points_become_an_embedding(roll, capsys):
    picture = roll.with_name("roll.png")
    assert main(["solve", str(roll), "--components", "2", "--picture", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "certified relative gap" in printed
    assert "answer written to" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(25))
    expected = problem.recover(sdpkit.solve(problem), n_components=2).coordinates
    found = np.loadtxt(roll.with_name("roll.embedding.csv"), delimiter=",", skiprows=1)
    assert np.abs(found) == pytest.approx(np.abs(expected), rel=1e-6)


def test_the_same_from_every_kind_of_file(roll, tmp_path, capsys):
    X = sdpkit.datasets.swiss_roll(25)
    lengths = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.save(tmp_path / "X.npy", X)
    np.savez(tmp_path / "both.npz", X=X, D=lengths)
    np.savetxt(tmp_path / "D.tsv", lengths, delimiter="\t", fmt="%.17g")
    sdpkit.MVU(X, n_neighbors=5, form="inequality").program().save(tmp_path / "program.npz")
    options = ["--neighbors", "5", "--form", "inequality", "--json"]
    values = []
    for arguments in (
        [str(roll), *options],
        [str(tmp_path / "X.npy"), *options],
        [str(tmp_path / "both.npz"), *options],
        [str(tmp_path / "both.npz"), "--key", "D", "--as", "distances", *options],
        [str(tmp_path / "D.tsv"), "--as", "distances", *options],
        [str(tmp_path / "program.npz"), "--json"],
    ):
        assert main(["solve", *arguments]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["status"] == "optimal"
        assert answer["gap"] <= 1e-6
        assert tmp_path.joinpath(answer["output"]).exists()
        values.append(answer["objective"])
    assert values == pytest.approx([values[0]] * 6, rel=2e-6)
    saved = np.load(tmp_path / "program.solution.npz")
    assert np.trace(saved["matrix0"]) == pytest.approx(values[0], rel=1e-9)
    assert saved["dual"].shape == (sdpkit.MVU(X, n_neighbors=5).neighborhood.n_edges,)


def test_labelled_points_become_a_metric(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    X, species = X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]
    rows = [",".join([*map(str, x), name]) for x, name in zip(X, species, strict=True)]
    (tmp_path / "iris.csv").write_text("\n".join(["a,b,c,d,species", *rows]))
    np.savez(tmp_path / "iris.npz", X=X, species=species)
    (tmp_path / "X.txt").write_text("\n".join(" ".join(map(str, x)) for x in X))
    (tmp_path / "y.txt").write_text("\n".join(species))
    ways = (
        ["iris.csv", "--labels", "species"],
        ["iris.csv", "--labels", "-1"],
        ["iris.npz", "--labels", "species"],
        ["X.txt", "--labels", str(tmp_path / "y.txt")],
    )
    learned = []
    for file, *more in ways:
        output = tmp_path / "metric.npz"
        command = ["solve", str(tmp_path / file), "--problem", "lmnn", "--set", "mu=0.3", *more]
        assert main([*command, "--output", str(output), "--picture", str(tmp_path / "m.png")]) == 0
        learned.append(sdpkit.Metric.load(output))
        capsys.readouterr()
    for metric in learned:
        assert metric.mu == 0.3
        assert metric.matrix == pytest.approx(learned[0].matrix)
        assert set(metric.predict(X[:1])) == {"setosa"}
    assert main([*command, "--output", str(tmp_path / "L.csv")]) == 0
    L = np.loadtxt(tmp_path / "L.csv", delimiter=",")
    assert pytest.approx(learned[0].matrix) == L.T @ L


def test_lengths_become_positions_and_sdpa_files_are_solved(tmp_path, capsys):
    true = np.random.default_rng(0).random((30, 2))
    graph = sdpkit.graphs.neighborhood_graph(true, radius=0.5)
    np.save(tmp_path / "lengths.npy", graph.adjacency(lengths=True).toarray())
    command = ["solve", str(tmp_path / "lengths.npy"), "--problem", "localization"]
    output, picture = tmp_path / "positions.npz", tmp_path / "positions.png"
    assert main([*command, "--output", str(output), "--picture", str(picture)]) == 0
    assert np.load(output)["coordinates"].shape == (30, 2)
    assert picture.exists()
    sdpkit.write_sdpa(
        sdpkit.MVU(graph=sdpkit.datasets.path_graph(4)).program(), tmp_path / "p.dat-s"
    )
    capsys.readouterr()
    assert main(["solve", str(tmp_path / "p.dat-s"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["objective"] == pytest.approx(5.0, rel=1e-5)


def test_exit_codes_tell_how_it_ended(roll, tmp_path, capsys):
    np.save(tmp_path / "triangle.npy", [[0.0, 1, 1], [1, 0, 3], [1, 3, 0]])
    triangle = ["solve", str(tmp_path / "triangle.npy"), "--as", "graph"]
    assert main([*triangle, "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["output"]) == ("infeasible", None)
    assert (
        main(["solve", str(roll), "--solver", "scs", "--tol", "1e-12", "--time-limit", "0.2"]) == 1
    )
    assert main(["solve", str(roll), "--solver", "factored"]) == 4
    assert "Use solver='interior'" in capsys.readouterr().err
    assert main(["solve", str(roll), "--solver", "mosek"]) == 4
    assert main(["solve", str(roll), "--checkpoint", str(tmp_path / "c"), "--solver", "scs"]) == 2
    assert "cannot write checkpoints" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (None, [], "there is no file"),
        ("", [], "is empty"),
        ("1,2\n3\n", [], "row 2 has 1 columns, the first has 2"),
        ("a,b\n1,x\n2,y\n", [], "name the column of labels by --labels"),
        ("1,2,3\n4,5,6\n", ["--labels", "species"], "has no column 'species'; it has 3"),
        ("1,2,3\n4,5,6\n", ["--labels", "3"], "has no column '3'"),
        ("1,2,3\n4,5,6\n", ["--problem", "lmnn"], "lmnn needs --labels"),
        ("1,2\n3,4\n5,6\n", ["--set", "angle=1"], "mvu has no parameter angle; it has X, angles"),
        ("1,2\n3,4\n5,6\n", ["--set", "angles"], "write NAME=VALUE"),
        ("1,2\n3,4\n5,6\n", ["--form", "best"], "form='best'"),
        ("1,2\n3,4\n5,6\n6,7\n1,1\n2,2\n", ["--output", "a.txt"], "must end in .csv or .npz"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path, capsys, content, options, words):
    path = tmp_path / "data.csv"
    if content is not None:
        path.write_text(content)
    assert main(["solve", str(path), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sdpkit: ")
    assert words in error


def test_a_checkpoint_does_not_cut_a_sequence_short(roll, tmp_path, capsys):
    options = ["--problem", "mve", "--solver", "barrier", "--tol", "1e-4", "--json"]
    found = []
    for more in ([], ["--checkpoint", str(tmp_path / "run.npz")]):
        assert main(["solve", str(roll), *options, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [answer["status"] for answer in found] == ["stationary"] * 2
    assert found[0]["objective"] == pytest.approx(found[1]["objective"], rel=1e-3)
