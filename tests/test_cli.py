"""The command line is what a new user meets first."""

import io
import json
import os
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from bench import __main__ as bench
from sklearn.datasets import load_iris

import sdpkit
import sdpkit.cli.main as commands
from sdpkit.cli.main import main
from sdpkit.cli.solve import PROBLEMS
from sdpkit.files import read_npz
from sdpkit.solving.registry import get_solver, registered


def test_demo_prints_a_certificate_and_writes_a_picture(tmp_path, capsys):
    picture = tmp_path / "roll.png"
    assert main(["demo", "--points", "40", "--picture", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "certified relative gap" in printed
    assert "verified: " in printed
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
    from bench import embeddings

    rows = embeddings._trial(embeddings.sdpkit.datasets.swiss_roll(90), 0)
    assert rows.shape == (2, 4)
    assert (rows > 0).all()
    assert (rows < 20).all()
    embeddings._extension_speed(t=100)
    embeddings._published_against_centred()
    embeddings._slopes("roll", embeddings.sdpkit.datasets.swiss_roll(60), segments=3)
    embeddings.variational(n=400)
    printed = capsys.readouterr().out
    assert "the same to the last bit: True" in printed
    assert "a = 100" in printed
    assert "roll " in printed
    assert printed.count("local continuity") == 4


def test_networks_are_printed(capsys):
    import numpy as np
    from bench import embeddings

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
    assert bench.main(arguments) == 2
    assert words in capsys.readouterr().err


def test_every_option_of_a_table_has_a_default():
    used = {name for _, _, names in bench.TABLES.values() for name in names}
    assert used == set(bench._DEFAULTS)


def test_a_table_says_which_file_it_misses(tmp_path, capsys):
    assert bench.main(["localization", "--data", str(tmp_path)]) == 2
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
    picture, output = roll.with_name("roll.png"), roll.with_name("unfolded.csv")
    files = ["--picture", str(picture), "--output", str(output)]
    assert main(["solve", str(roll), "--components", "2", *files]) == 0
    printed = capsys.readouterr().out
    assert "certified relative gap" in printed
    assert "answer written to" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(25))
    expected = problem.recover(sdpkit.solve(problem), n_components=2).coordinates
    found = np.loadtxt(output, delimiter=",", skiprows=1)
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
    for number, arguments in enumerate(
        (
            [str(roll), *options],
            [str(tmp_path / "X.npy"), *options],
            [str(tmp_path / "both.npz"), *options],
            [str(tmp_path / "both.npz"), "--key", "D", "--as", "distances", *options],
            [str(tmp_path / "D.tsv"), "--as", "distances", *options],
            [str(tmp_path / "program.npz"), "--json"],
        )
    ):
        output = tmp_path / f"answer{number}.npz"
        assert main(["solve", *arguments, "--output", str(output)]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["status"] == "optimal"
        assert answer["gap"] <= 1e-6
        assert answer["output"] == str(output)
        values.append(answer["objective"])
    assert values == pytest.approx([values[0]] * 6, rel=2e-6)
    saved = np.load(output)
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
        files = ["--output", str(output), "--picture", str(tmp_path / "m.png"), "--force"]
        assert main([*command, *files]) == 0
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
    beyond_rounding = ["--tol", "1e-16", "--time-limit", "0.2"]
    assert main(["solve", str(roll), "--solver", "scs", *beyond_rounding]) == 1
    assert main(["solve", str(roll), "--solver", "factored"]) == 4
    assert "Use --solver interior" in capsys.readouterr().err
    assert main(["solve", str(roll), "--solver", "mosek"]) == 4
    assert main(["solve", str(roll), "--checkpoint", str(tmp_path / "c"), "--solver", "scs"]) == 2
    assert "cannot write checkpoints" in capsys.readouterr().err


def test_a_program_without_a_finite_optimum_ends_with_3(tmp_path, capsys):
    free = sdpkit.Block.of(2, [[1.0, 0.0]], cost=sdpkit.Cost.of(2, identity=1.0))
    sdpkit.Program.of(free, [1.0]).save(tmp_path / "unbounded.npz")
    assert main(["solve", str(tmp_path / "unbounded.npz"), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["status"] == "unbounded"


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (sdpkit.SolverError("the factor is singular"), "the factor is singular"),
        (MemoryError("8 TiB"), "ran out of memory (8 TiB)"),
    ],
)
def test_a_solver_that_breaks_down_ends_with_4(roll, capsys, failure, words):
    class Broken(type(get_solver("interior"))):
        def solve(self, program, settings):
            raise failure

    with registered(Broken(name="broken")):
        assert main(["solve", str(roll), "--solver", "broken"]) == 4
    said = capsys.readouterr()
    assert said.err.startswith("sdpkit: ")
    assert words in said.err
    assert "Traceback" not in said.err


def test_what_a_time_limit_leaves_is_certified_and_printed(tmp_path, capsys):
    data, output = tmp_path / "roll.npy", tmp_path / "so_far.csv"
    np.save(data, sdpkit.datasets.swiss_roll(60))
    limited = ["--solver", "alternating", "--tol", "1e-12", "--time-limit", "0.3"]
    assert main(["solve", str(data), *limited, "--output", str(output)]) == 1
    said = capsys.readouterr()
    assert "time_limit by alternating" in said.out
    assert "certified relative gap" in said.out
    assert f"answer written to {output}" in said.out
    assert output.exists()


def test_a_checkpoint_is_kept_and_resumed_from(roll, tmp_path, capsys):
    """It is the one file that is replaced without --force; that of another program is refused."""
    state = tmp_path / "state.npz"
    command = ["solve", str(roll), "--solver", "projection", "--checkpoint", str(state), "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert state.exists()
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert first["iterations"] <= again["iterations"] < 1.5 * first["iterations"]  # it counts on
    assert again["objective"] == pytest.approx(first["objective"], rel=1e-5)
    assert main([*command, "--neighbors", "5"]) == 2
    assert "checkpoint" in capsys.readouterr().err


def test_a_parameter_is_read_from_a_file(tmp_path, capsys):
    """NAME=@FILE.npz:KEY takes one array of several, which has to be there."""
    anchors = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    lengths = np.linalg.norm(anchors - [0.3, 0.4], axis=1)
    np.savetxt(tmp_path / "anchors.csv", anchors, delimiter=",")
    np.savez(tmp_path / "both.npz", near=lengths, far=9 * lengths)
    output = tmp_path / "point.npz"
    command = ["solve", str(tmp_path / "anchors.csv"), "--problem", "out-of-sample"]
    near, none = (f"distances=@{tmp_path / 'both.npz'}:{key}" for key in ("near", "none"))
    assert main([*command, "--set", near, "--output", str(output)]) == 0
    assert read_npz(output)["coordinates"] == pytest.approx(np.array([[0.3, 0.4]]), abs=1e-2)
    assert main([*command, "--set", none]) == 2
    assert "none" in capsys.readouterr().err


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
        ("1,2\n3,4\n5,6\n", ["--form", "best"], "--form best"),
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


# -- what is written, and how it ends -------------------------------------------------------


def test_nothing_is_written_that_was_not_asked_for(roll, capsys):
    before = sorted(roll.parent.iterdir())
    assert main(["solve", str(roll)]) == 0
    assert main(["solve", str(roll), "--json"]) == 0
    assert sorted(roll.parent.iterdir()) == before


def test_nothing_is_replaced_without_force(roll, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "there.csv"
    there.write_text("precious")
    picture = tmp_path / "swiss_roll.png"
    picture.write_text("precious")
    for command in (
        ["solve", str(roll), "--output", str(there)],
        ["solve", str(roll), "--picture", str(picture)],
        ["demo", "--points", "40"],
        ["compare", "--instances", "pentagon", "--csv", str(there)],
    ):
        assert main(command) == 2
        assert "exists: pass --force" in capsys.readouterr().err
    assert there.read_text() == picture.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "roll.csv",
        "swiss_roll.png",
        "there.csv",
    ]
    assert main(["solve", str(roll), "--output", str(there), "--force"]) == 0
    assert there.read_text().startswith("y1,")
    assert main(["solve", str(roll), "--output", str(roll), "--force"]) == 2
    assert "is the file that is read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--output", "nowhere/a.csv"], "there is no folder"),
        (["--output", "."], "is a folder"),
        (["--output", "a.txt"], "must end in .csv or .npz"),
        (["--picture", "a.xyz"], "--picture a.xyz: the name must end in"),
        (["--output", "a.npz", "--picture", "a.npz"], "same file"),
        (["--problem", "ellipsoid", "--output", "a.csv"], "write it to an .npz"),
        (["--problem", "ellipsoid", "--picture", "a.png"], "leave --picture out"),
    ],
)
def test_places_are_checked_before_the_work(roll, tmp_path, capsys, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sdpkit, "solve", lambda *_, **__: pytest.fail("it was solved"))
    assert main(["solve", str(roll), *options]) == 2
    assert words in capsys.readouterr().err


def test_standard_input_is_a_dash(roll, tmp_path, capsys, monkeypatch):
    np.save(tmp_path / "X.npy", sdpkit.datasets.swiss_roll(25))
    sdpkit.write_sdpa(
        sdpkit.MVU(graph=sdpkit.datasets.path_graph(4)).program(), tmp_path / "p.dat-s"
    )
    values = []
    for content, options in (
        (roll.read_bytes(), []),
        ((tmp_path / "X.npy").read_bytes(), []),
        ((tmp_path / "p.dat-s").read_bytes(), ["--format", "dat-s"]),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert main(["solve", "-", "--json", *options]) == 0
        values.append(json.loads(capsys.readouterr().out)["objective"])
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert values[2] == pytest.approx(5.0, rel=1e-5)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,x\n")))
    assert main(["solve", "-"]) == 2
    assert capsys.readouterr().err.startswith("sdpkit: standard input holds text")


def test_the_index_of_pandas_is_no_feature(roll, tmp_path, capsys):
    import pandas as pd

    X = sdpkit.datasets.swiss_roll(25)
    values = []
    for name, index in (("with.csv", True), ("without.csv", False)):
        pd.DataFrame(X, columns=[f"x{k}" for k in range(8)]).to_csv(tmp_path / name, index=index)
        assert main(["solve", str(tmp_path / name), "--json"]) == 0
        said = capsys.readouterr()
        values.append(json.loads(said.out)["objective"])
        assert ("taken as an index" in said.err) == index
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_json_has_numbers_or_null(tmp_path, capsys):
    np.save(tmp_path / "triangle.npy", [[0.0, 1, 1], [1, 0, 3], [1, 3, 0]])
    assert main(["solve", str(tmp_path / "triangle.npy"), "--as", "graph", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    for name in ("objective", "bound", "gap", "primal_residual", "dual_residual"):
        assert answer[name] is None or isinstance(answer[name], float)


def test_every_problem_can_be_solved(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    X, y = X[::6], y[::6]
    gram = X @ X.T
    corners = np.array([[10.0, 0.0], [11.0, 0.0], [10.0, 1.0]])
    roll = sdpkit.datasets.swiss_roll(40)
    lengths = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.savez(tmp_path / "iris.npz", X=X, y=y)
    np.savez(tmp_path / "kernels.npz", linear=gram, square=(1 + gram) ** 2, y=y)
    np.savez(tmp_path / "views.npz", length=X[:, ::2], width=X[:, 1::2], y=y)
    np.save(tmp_path / "roll.npy", roll)
    np.save(tmp_path / "lengths.npy", lengths)
    np.savetxt(tmp_path / "corners.csv", corners, delimiter=",")
    np.savetxt(tmp_path / "far.csv", np.linalg.norm(corners - [13.0, 2.0], axis=1))
    far = f"distances=@{tmp_path / 'far.csv'}"
    ways = {
        "mvu": ["roll.npy"],
        "mve": ["roll.npy"],
        "variational": ["roll.npy", "--set", "n_basis=8"],
        "lmnn": ["iris.npz", "--labels", "y"],
        "localization": ["lengths.npy"],
        "mmc": ["iris.npz", "--labels", "y"],
        "pairs": ["iris.npz", "--labels", "y"],
        "ellipsoid": ["iris.npz"],
        "out-of-sample": ["corners.csv", "--set", far],
        "kernel-mixture": ["kernels.npz", "--labels", "y", "--set", "rank=2"],
        "distance-mixture": ["views.npz", "--labels", "y"],
    }
    assert set(ways) == set(PROBLEMS)
    for problem, (file, *options) in ways.items():
        output = tmp_path / f"{problem}.npz"
        command = ["solve", str(tmp_path / file), "--problem", problem, "--output", str(output)]
        assert main([*command, "--tol", "1e-3", *options]) == 0, (problem, capsys.readouterr())
        assert read_npz(output)
    assert read_npz(tmp_path / "out-of-sample.npz")["coordinates"] == pytest.approx(
        np.array([[13.0, 2.0]]), abs=0.1
    )


def test_too_many_points_name_the_problem_that_takes_them(roll, capsys, monkeypatch):
    monkeypatch.setattr("sdpkit.solving.choice.free_memory", lambda: 0.0)
    assert main(["solve", str(roll)]) == 4
    assert "--problem variational" in capsys.readouterr().err


def test_words_for_booleans_are_understood_or_refused(roll, capsys):
    for word in ("False", "false"):
        assert main(["solve", str(roll), "--set", f"angles={word}", "--json"]) == 0
    capsys.readouterr()
    assert main(["solve", str(roll), "--set", "angles=no"]) == 2
    assert "pass True or False" in capsys.readouterr().err


def test_verbose_goes_to_standard_error(roll, capsys):
    assert main(["solve", str(roll), "--solver", "interior", "--verbose", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["status"] == "optimal"
    assert "objective" in said.err


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_ends_with_130_and_the_answer(tmp_path, capsys):
    """What was found is printed; without anything found, the word alone."""
    np.save(tmp_path / "roll.npy", sdpkit.datasets.swiss_roll(300))
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    command = ["solve", str(tmp_path / "roll.npy"), "--solver", "projection", "--tol", "1e-12"]
    assert main(command) == 130
    said = capsys.readouterr()
    assert "interrupted" in said.out + said.err


def test_listings_fit_eighty_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in (["solvers"], ["compare", "--list"]):
        assert main(command) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    for command in ([], ["solve"], ["compare"], ["report"], ["demo"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_documented_exit_codes_are_those_of_the_program():
    """The table of the docs and the help say the same; each code has a test above."""
    page = (Path(__file__).parents[1] / "docs" / "command_line.md").read_text()
    table = re.findall(r"^\| (\d+) \| (.*?) \|$", page, re.MULTILINE)
    assert [code for code, _ in table] == ["0", "1", "2", "3", "4", "130"]
    told = " ".join((commands.__doc__ or "").split())
    for code, words in table:
        assert f"{code} {words}" in told


def test_limits_are_measured(capsys):
    assert bench.main(["limits", "--solvers", "alternating", "--time-limit", "0.5"]) == 0
    solver, *_, taken, beyond, status = capsys.readouterr().out.splitlines()[1].split()
    assert (solver, status) == ("alternating", "time_limit")
    assert float(beyond) == pytest.approx(float(taken) - 0.5, abs=0.02)
    assert float(beyond) < 2.0
    assert bench.main(["limits", "--solvers", "nobody"]) == 2


def test_labels_of_an_embedding_colour_its_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels were an unknown parameter y of MVU."""
    X = sdpkit.datasets.swiss_roll(30, random_state=0)
    path, picture = tmp_path / "roll.csv", tmp_path / "roll.svg"
    rows = [",".join([*map(str, row), "ab"[k % 2]]) for k, row in enumerate(X)]
    path.write_text("\n".join([",".join([*map(chr, range(97, 97 + X.shape[1])), "kind"]), *rows]))
    arguments = ["solve", str(path), "--labels", "kind", "--tol", "1e-3"]
    assert main([*arguments, "--neighbors", "6", "--picture", str(picture)]) == 0
    assert picture.exists()
    capsys.readouterr()
    assert main([*arguments, "--neighbors", "1"]) == 2
    error = capsys.readouterr().err
    assert "raise --neighbors, or pass --set connect=auto" in error
    assert "n_neighbors" not in error
