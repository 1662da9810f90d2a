"""The command line is what a new user meets first."""

import pytest

from sdpkit.cli import main


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
    from sdpkit.bench import embeddings

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

    from sdpkit.bench import embeddings

    points = np.random.default_rng(0).random((150, 2))
    edges = embeddings._up_to(points, 12, 0.4)
    embeddings._network("a small one", points, edges, 0.0, " m")
    assert "refined" in capsys.readouterr().out


def test_a_table_says_which_file_it_misses(tmp_path, capsys):
    assert main(["bench", "localization", "--data", str(tmp_path)]) == 2
    assert "uscities.npz is missing" in capsys.readouterr().err
