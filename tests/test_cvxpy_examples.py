"""The gallery's cvxpy models: every script runs, and its own assertions hold."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "examples" / "cvxpy"
SCRIPTS = sorted(FOLDER.glob("plot_*.py"))


def test_there_are_twelve() -> None:
    assert len(SCRIPTS) == 12


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem.removeprefix("plot_"))
def test_example_runs(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib.use("Agg")
    names = runpy.run_path(str(script))
    plt.close("all")
    certificate = names.get("certificate") or names["certificates"][0]
    assert certificate.relative_gap < 1e-4
    assert "sdpkit" in capsys.readouterr().out
    # A title, its rule, and a number or a figure that the text speaks of.
    title, rule = (names["__doc__"] or "").strip().splitlines()[:2]
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert "assert" in script.read_text()
