"""docs/architecture.md is right: a problem and a solver are one file and one line each."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from bench.lines import too_long

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
DIFFS = re.findall(r"```diff\n(.*?)```", PAGE, flags=re.DOTALL)

TRIED = """
import numpy as np
import sdpkit
from sdpkit.solving.registry import get_solver
from sdpkit.testing.problems import check_problem
from sdpkit.testing.solvers import check_solver

problem = sdpkit.LargestEigenvalue(np.diag([1.0, 3.0]) + 0.5)
check_problem(problem)
check_solver(get_solver("rayleigh"))
solution = sdpkit.solve(problem)
assert solution.solver == "rayleigh", solution.reason
assert abs(solution.objective - np.linalg.eigvalsh(problem.C)[-1]) < 1e-9
print(sdpkit.__file__)
"""


def changes(diff: str) -> dict[str, list[str]]:
    """File → the lines that a diff adds to it; it takes none away."""
    out: dict[str, list[str]] = {}
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            out[line.removeprefix("+++ b/")] = []
        elif line.startswith("+"):
            out[list(out)[-1]].append(line[1:])
        else:
            assert line.startswith(("diff ", "new file ", "--- ", "@@ ", " ")), line
    return out


def test_each_diff_is_one_new_file_and_one_line() -> None:
    problem, solver = (changes(diff) for diff in DIFFS)
    for added, folder in ((problem, "problems/"), (solver, "solvers/")):
        (new, lines), (old, line) = added.items()
        assert new.startswith(folder)
        assert not (ROOT / new).exists()
        assert len(lines) > 10
        assert (ROOT / old).exists()
        assert len(line) == 1


def test_the_diffs_apply_and_run(tmp_path: Path) -> None:
    for folder in ("sdpkit", "problems", "solvers"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for diff in DIFFS:
        apply = ["git", "apply", "-"]
        subprocess.run(apply, cwd=tmp_path, input=diff, text=True, check=True)
    run = subprocess.run(
        [sys.executable, "-c", TRIED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(tmp_path / "sdpkit" / "__init__.py")


def test_the_table_of_layers_is_the_contract() -> None:
    """The page names the layers in the order in which import-linter checks them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    table = PAGE.split("| layer |")[1].split("\n\n")[0]
    named = [re.findall(r"`(\w+)/?`", row.split(" | ")[0]) for row in table.splitlines()[2:]]
    written = [re.split(r" [|:] ", layer) for layer in layers]
    merged = [*written[:-2], [*written[-2], *written[-1]]]  # inputs, errors share a row
    assert [sorted(row) for row in named] == [sorted(layer) for layer in merged]


def test_every_module_has_a_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    named = {folder for layer in layers for folder in re.split(r" [|:] ", layer)}
    folders = {path.parent.name for path in (ROOT / "sdpkit").glob("*/__init__.py")}
    files = {path.stem for path in (ROOT / "sdpkit").glob("*.py") if path.stem[0] != "_"}
    assert named == {*folders, *files, "problems", "solvers"}


@pytest.mark.parametrize("folder", sorted((ROOT / "sdpkit").glob("*/__init__.py")))
def test_every_folder_has_a_docstring(folder: Path) -> None:
    assert folder.read_text().startswith('"""')


def test_no_two_classes_share_a_name() -> None:
    """A name means one thing across the package."""
    places: dict[str, list[str]] = {}
    for folder in ("sdpkit", "problems", "solvers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in re.findall(r"^class (\w+)", path.read_text(), flags=re.MULTILINE):
                places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_files_and_functions_are_short() -> None:
    """`make bench NAME=lines` prints what is too long, and counts the lines of code."""
    assert too_long() == []
