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
