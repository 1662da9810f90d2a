"""Numbers in the README and in docs/how_fast.md are those of the committed runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from bench.__main__ import TABLES

import sdpkit
from sdpkit.cli.main import main
from sdpkit.comparison.records import RunRecord
from sdpkit.comparison.report.markdown import BLOCKS, fill
from sdpkit.comparison.table import Comparison
from sdpkit.papers.registry import ENTRIES

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "docs" / "measured.csv"
PAGES = (ROOT / "README.md", ROOT / "docs" / "how_fast.md")


@pytest.fixture(scope="module")
def measured() -> Comparison:
    return Comparison.from_csv(MEASURED)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_agree_with_the_runs(measured: Comparison, path: Path) -> None:
    """If this fails: sdpkit report docs/measured.csv --markdown docs/how_fast.md README.md"""
    text = path.read_text(encoding="utf-8")
    assert fill(text, measured) == text
    assert text.count("<!-- measured:") >= 1


def test_every_number_is_marked(measured: Comparison) -> None:
    """Outside of the marks the page has no figure that a run could contradict."""
    text = PAGES[1].read_text(encoding="utf-8")
    words = re.sub(r"<!-- measured: .*?<!-- end of measured -->", "", text, flags=re.DOTALL)
    assert not re.search(r"\d+(\.\d+)? (s|times|%|MiB)\b", words)


def _quoted(text: str) -> list[tuple[str, str]]:
    """(page, figure) wherever a sentence quotes "a ± b" from a page: "… docs/lmnn.md has …"."""
    found = []
    for match in re.finditer(r"docs/(\w+\.md) (?:has|have)\b([^;\n]*)", text):
        figures = re.findall(r"\d+(?:\.\d+)? ± \d+(?:\.\d+)?", match[2])
        found += [(match[1], figure) for figure in figures]
    return found


def test_pages_that_quote_a_figure_have_it_as_its_page_has_it() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    quoted = [(name, *one) for name, text in pages.items() for one in _quoted(text)]
    assert len(quoted) >= 2  # the letters, in papers.md
    wrong = [one for one in quoted if one[2] not in " ".join(pages[one[1]].split())]
    assert wrong == []


def test_peers_are_in_the_same_run(measured: Comparison) -> None:
    solvers = {run.solver for run in measured.runs}
    assert {"interior", "scs", "clarabel", "cvxopt", "csdp", "sdpa"} <= solvers
    assert {run.kind for run in measured.runs} >= {"mvu", "mve", "lmnn", "localization"}
    assert measured.environment["processor"]


def test_the_committed_runs_name_no_folder_of_a_machine() -> None:
    assert not re.search(r"/(home|root|work|tmp|Users)/", MEASURED.read_text(encoding="utf-8"))


def _run(solver: str, **more: object) -> RunRecord:
    first = RunRecord(
        suite="minimal",
        instance="ring",
        kind="mvu",
        n=5,
        n_rows=5,
        fingerprint="",
        solver=solver,
        solver_version="1.0",
        tol=1e-6,
        repeat=0,
        start="cold",
        outcome="optimal",
        success=True,
        claimed=True,
        gap=2e-7,
        reference_error=3e-8,
        total=0.25,
        time_limit=3.0,
    )
    return replace(first, **more)  # type: ignore[arg-type]


def made_up() -> Comparison:
    """Two solvers, one of which is wrong about itself and then dies."""
    runs = (
        _run("good"),
        _run("good", instance="path", total=0.75, n=9),
        _run("bad", success=False, outcome="inaccurate", gap=0.1),
        _run("bad", success=False, claimed=False, outcome="crashed", instance="path", n=9),
    )
    return Comparison(runs, {"processor": "abacus", "command": "sdpkit compare"}, ())


def test_blocks_say_what_the_runs_say() -> None:
    blocks = {name: make(made_up()) for name, make in BLOCKS.items()}
    assert "| `good` 1.0 | 2 of 2 | 0 | 0 | 0.48 | 1.0 |" in blocks["summary"]  # √(1.25·1.75) − 1
    assert "| `bad` 1.0 | 0 of 2 | 1 | 0 | 3.0 | 6.3 |" in blocks["summary"]
    assert "| `good` | 2 of 2 | 0.48 |" in blocks["readme"]
    assert "| mvu | **0.48** | 0 of 2 |" in blocks["kinds"]
    assert "| ring | 5 | **0.25** | not as claimed |" in blocks["instances"]
    assert "| path | 9 | **0.75** | crashed |" in blocks["instances"]
    assert "| `good` | 2e-07 | 3e-08 |" in blocks["exactness"]
    assert "| `bad` | – | – |" in blocks["exactness"]
    assert "abacus" in blocks["machine"]


def test_filling_twice_is_filling_once() -> None:
    page = "a\n<!-- measured: summary -->\nold\n<!-- end of measured -->\nb\n"
    once = fill(page, made_up())
    assert "old" not in once
    assert once.startswith("a\n")
    assert once.endswith("\nb\n")
    assert fill(once, made_up()) == once


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("no marks", "no block"),
        ("<!-- measured: speed -->\n<!-- end of measured -->", "no block 'speed'"),
        (
            "<!-- measured: summary -->\n<!-- end of measured -->\n<!-- measured: summary -->\n",
            "not closed",
        ),
    ],
)
def test_bad_marks_are_named(page: str, words: str) -> None:
    with pytest.raises(sdpkit.InputError, match=words):
        fill(page, made_up())


def test_the_command_fills_checks_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, page = tmp_path / "runs.csv", tmp_path / "page.md"
    made_up().to_csv(runs)
    page.write_text("<!-- measured: readme -->\n<!-- end of measured -->\n", encoding="utf-8")
    assert main(["report", str(runs), "--markdown", str(page), "--check"]) == 1
    assert "2 of 2" not in page.read_text(encoding="utf-8")
    html = tmp_path / "report.html"
    assert main(["report", str(runs), "--markdown", str(page), "--html", str(html)]) == 0
    assert "2 of 2" in page.read_text(encoding="utf-8")
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["report", str(runs), "--markdown", str(page), "--check"]) == 0
    capsys.readouterr()
    assert main(["report", str(runs)]) == 2
    assert "nothing to write" in capsys.readouterr().err
    assert main(["report", str(runs), "--html", str(html)]) == 2
    assert "pass --force" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none.csv"), "--html", str(html), "--force"]) == 2
    assert "no file" in capsys.readouterr().err


def test_tables_that_pages_name_exist() -> None:
    """`make bench NAME=TABLE` and `sdpkit reproduce ENTRY`, wherever pages or docstrings say so."""
    places = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("sdpkit/**/*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in places)
    tables = set(re.findall(r"make\s+bench\s+NAME=([a-z][\w-]*)", text))
    assert len(tables) > 20
    assert tables <= set(TABLES)
    entries = set(re.findall(r"sdpkit\s+reproduce\s+([a-z][\w.-]*\w)", text))
    assert len(entries) > 3
    assert entries <= set(ENTRIES)
