"""What a solve shows while it runs: the updating line, the log, verbose."""

from __future__ import annotations

import io
import logging
import sys
from typing import Any

import pytest

import sdpkit
from sdpkit.datasets import swiss_roll
from sdpkit.solution.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def roll() -> sdpkit.MVU:
    return sdpkit.MVU(swiss_roll(40, random_state=0))


def test_verbose_updates_one_line_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    solution = sdpkit.solve(roll(), solver="interior", verbose=1)
    line, rest = screen.getvalue().split("\n", 1)
    versions = line.split("\r")
    assert versions[0] == ""
    first, last = versions[1], versions[-1].rstrip()
    assert first.startswith("interior: iteration ")
    assert f"iteration {solution.iterations}, gap " in last
    assert last.endswith(" s")
    assert rest == f"{solution!r}\n"


def test_a_search_over_several_programs_keeps_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    solution = sdpkit.solve(sdpkit.MVE(swiss_roll(30, random_state=0)), verbose=1)
    assert len(solution.trajectory) > 1
    assert screen.getvalue().count("iteration") >= 1
    assert all("iteration " not in line for line in screen.getvalue().split("\n")[1:2])


def test_files_get_no_updates(capsys: pytest.CaptureFixture[str]) -> None:
    solution = sdpkit.solve(roll(), verbose=1)
    assert capsys.readouterr().out == f"{solution!r}\n"


def test_a_notebook_counts_as_a_terminal() -> None:
    class OutStream(io.StringIO):
        """What Jupyter's kernel calls its output."""

    OutStream.__module__ = "ipykernel.iostream"
    stream = OutStream()
    line = Progress(stream)
    line.show("barrier", {"iteration": 1.0, "gap": float("nan"), "objective": 2.0})
    line.close()
    assert stream.getvalue().startswith("\rbarrier: iteration 1, objective 2, 0.0 s")


def test_the_line_changes_ten_times_a_second_at_most() -> None:
    now = [0.0]
    stream = Terminal()
    line = Progress(stream, clock=lambda: now[0])
    for k in range(100):
        now[0] = k / 100
        line.show("interior", {"iteration": float(k), "gap": 10.0 ** -(k % 3)})
    line.close()
    assert stream.getvalue().count("\r") <= 12
    assert "iteration 99" in stream.getvalue()


def test_shorter_texts_wipe_longer_ones() -> None:
    now = [0.0]
    stream = Terminal()
    line = Progress(stream, clock=lambda: now[0])
    line.show("a long name", {"iteration": 1.0, "gap": 0.1})
    now[0] = 1.0
    line.show("b", {"iteration": 1.0, "gap": 0.1})
    _, first, second = stream.getvalue().split("\r")
    assert len(second) == len(first)


def test_the_logger_gets_solutions_and_rows(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="sdpkit"):
        solution = sdpkit.solve(roll())
    (record,) = caplog.records
    assert record.getMessage() == repr(solution)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="sdpkit"):
        solution = sdpkit.solve(roll())
    assert len(caplog.records) == len(solution.history) + 1
    assert capsys.readouterr().out == ""


def test_verbose_leaves_the_logger_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("sdpkit")
    before = (logger.level, list(logger.handlers))

    def broken(state: Any) -> None:
        raise RuntimeError("from the callback")

    sdpkit.solve(roll(), verbose=2)
    assert " s  objective " in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="from the callback"):
        sdpkit.solve(roll(), verbose=2, callback=broken)
    assert (logger.level, list(logger.handlers)) == before
