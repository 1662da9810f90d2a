"""Tests pass with and without csdp, sdpa, dsdp, chromium and npm, and CI shows both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import PROGRAMS, path_without_programs

HERE = Path(__file__).parent
TESTS = """
import shutil

import numpy as np
import pytest
from programs import PROGRAMS

import sdpkit

def seen():
    return {name for name, command in PROGRAMS.items() if shutil.which(command)}

def test_calls_without_naming():
    sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), solver="csdp", time_limit=1)

@pytest.fixture(scope="session")
def early():
    return seen()

def test_fixture_looks_without_naming(early):
    assert early

def test_loops_over_what_there_is():
    assert seen() == set()
    assert "csdp" not in sdpkit.available_solvers()

@pytest.mark.needs("csdp")
def test_needs():
    assert seen() == {"csdp"}
    assert "csdp" in sdpkit.available_solvers()

@pytest.mark.parametrize("name", ["csdp", "dsdp"])
def test_parameter(name):
    assert seen() == {name}

@pytest.mark.may_use("csdp", "sdpa", "npm")
def test_may_use():
    assert seen() == {"csdp", "npm"}

@pytest.mark.needs("sdpa")
def test_absent():
    raise AssertionError("sdpa is not there")
"""


@pytest.fixture
def path_with_fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with fakes of all programs except sdpa, next to another command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for command in {*PROGRAMS.values(), "another"} - {"sdpa"}:
        (folder / command).write_text("#!/bin/sh\nexit 0\n")
        (folder / command).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    return folder


def test_a_path_without_the_programs(path_with_fakes: Path, tmp_path: Path) -> None:
    path = path_without_programs(tmp_path / "links")
    for command in PROGRAMS.values():
        assert shutil.which(command, path=path) is None
    assert shutil.which("another", path=path) == str(tmp_path / "links" / "0" / "another")
    for command in ("python3", "sh", "git"):
        assert (shutil.which(command) is None) == (shutil.which(command, path=path) is None)


def test_a_test_that_does_not_name_its_program_fails_where_it_is_installed(
    path_with_fakes: Path, tmp_path: Path
) -> None:
    for name in ("conftest.py", "programs.py"):
        shutil.copy(HERE / name, tmp_path)
    shutil.copy(HERE.parent / "pyproject.toml", tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "test_it.py"]
    environment = {k: v for k, v in os.environ.items() if k != "SDPKIT_REQUIRE"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))]
    results = {line.partition("::")[2].split(" ")[0]: line.split(" ")[0] for line in lines}
    assert results == {
        "test_calls_without_naming": "FAILED",
        "test_fixture_looks_without_naming": "FAILED",
        "test_loops_over_what_there_is": "PASSED",
        "test_needs": "PASSED",
        "test_parameter[csdp]": "PASSED",
        "test_parameter[dsdp]": "PASSED",
        "test_may_use": "PASSED",
    }, done.stdout
    assert "no sdpa on the PATH" in done.stdout
    assert "if it uses them: @pytest.mark.needs('csdp')" in done.stdout


def test_ci_runs_the_commands_of_the_readme() -> None:
    """It takes them from the README by the words that only they have."""
    lines = (HERE.parent / "README.md").read_text().splitlines()
    ci = (HERE.parent / ".ci" / "run").read_text()
    for words in ("sdpkit demo", "pytest -n auto"):
        commands = [line for line in lines if line.startswith("python3") and words in line]
        assert len(commands) == 1
        assert commands[0].endswith(words)
        assert f"grep '^python3 .*{words}$' README.md" in ci
