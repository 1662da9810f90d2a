"""cvxpy models and files in comparisons: claimed against proven."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import sdpkit
from sdpkit.cli.main import main
from sdpkit.comparison.models import (
    ComparedModel,
    engine_of,
    native_arguments,
    solvers_of_models,
)
from sdpkit.comparison.sources import problems_in
from sdpkit.comparison.trial import Trial, attempt
from sdpkit.errors import InputError, SolverUnavailableError, UnsuitableSolverError


def models() -> dict[str, cp.Problem]:
    """One of each kind."""
    X, x, z = cp.Variable((3, 3), PSD=True), cp.Variable(2), cp.Variable(2, integer=True)
    return {
        "correlation": cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == 1, X[0, 2] <= 0.3]),
        "entropy": cp.Problem(cp.Maximize(cp.sum(cp.entr(x))), [cp.sum(x) == 1]),
        "infeasible": cp.Problem(cp.Minimize(cp.sum(x)), [x <= 1, cp.sum(x) >= 5]),
        "unbounded": cp.Problem(cp.Minimize(cp.sum(x)), [x <= 1]),
        "NaN": cp.Problem(cp.Minimize(np.array([1, np.nan]) @ x), [x >= 0]),
        "integers": cp.Problem(cp.Minimize(cp.sum(z)), [z >= 0.5]),
    }


@pytest.fixture(scope="module")
def comparison() -> sdpkit.Comparison:
    return sdpkit.compare(
        models(), ["CLARABEL", "OSQP", "ECOS", "interior"], tols=[1e-5], time_limit=20
    )


def test_each_solver_is_called_natively_and_certified(comparison: sdpkit.Comparison) -> None:
    runs = {(run.instance, run.solver): run for run in comparison.runs}
    assert len(runs) == 6 * 4
    best = runs["correlation", "CLARABEL"]
    assert (best.outcome, best.claimed, best.native_status) == ("optimal", True, "optimal")
    assert best.objective == pytest.approx(1, abs=1e-4)
    assert best.sense == "max"
    assert 0 < best.compile < best.total
    assert best.solve == pytest.approx(best.total - best.compile)
    assert runs["correlation", "interior"].success
    entropy = runs["entropy", "CLARABEL"]
    assert entropy.success
    assert entropy.objective == pytest.approx(np.log(2), abs=1e-5)
    assert runs["entropy", "interior"].outcome == "refused"
    assert runs["correlation", "OSQP"].outcome == "refused"
    assert "cannot pass it to OSQP" in runs["correlation", "OSQP"].message


def test_claims_without_a_solution_need_a_proof(comparison: sdpkit.Comparison) -> None:
    runs = {(run.instance, run.solver): run for run in comparison.runs}
    for solver in ("CLARABEL", "OSQP"):
        for name in ("infeasible", "unbounded"):
            run = runs[name, solver]
            assert (run.outcome, run.claimed, run.success) == (name, True, True)
            assert "sdpkit proves it" in run.message


def test_what_cannot_be_run_is_a_row_with_a_sentence(comparison: sdpkit.Comparison) -> None:
    for run in comparison.runs:
        if run.instance in ("NaN", "integers") or run.solver == "ECOS":
            assert run.outcome == "refused"
            assert "\n" not in run.message
    words = {(run.instance, run.solver): run.message for run in comparison.runs}
    assert "hold NaN or infinity" in words["NaN", "CLARABEL"]
    assert "is integer" in words["integers", "CLARABEL"]
    assert "the solver ECOS is not installed" in words["correlation", "ECOS"]
    assert "claimed" in comparison.table() or comparison.table()


def attempted(model: cp.Problem, solver: str, tol: float) -> dict[str, Any]:
    """What a child process would tell."""
    trial = Trial("", pickle.dumps(ComparedModel.of("m", model)), solver, b"", tol, 20.0)
    told: dict[str, Any] = {}
    attempt(lambda key, value: told.update({key: value}), trial)
    result: dict[str, Any] = told["result"]
    return result


def test_a_claim_that_is_not_true_is_seen() -> None:
    """A loose solver claims optimality, and the certificate says how far it is."""
    x, rng = cp.Variable(30), np.random.default_rng(0)
    A, b = rng.standard_normal((60, 30)), rng.standard_normal(60)
    model = cp.Problem(cp.Minimize(cp.norm(A @ x - b, 1)), [cp.norm(x) <= 0.3])
    loose, tight = attempted(model, "SCS", 1e-1), attempted(model, "CLARABEL", 1e-7)
    assert (loose["claimed"], loose["outcome"]) == (True, "inaccurate")
    assert "was not reached" in loose["message"]
    assert tight["gap"] < 1e-6 < loose["gap"] + loose["primal_residual"]


def test_models_keep_their_numbers_in_another_process() -> None:
    """A fresh process counts its variables from 1: none may take the number of a model's."""
    x = cp.Variable(2)
    model = ComparedModel.of("m", cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1]))
    problem = model.build()
    assert cp.Variable().id > max(v.id for v in problem.variables())
    assert problem.solve(solver="CLARABEL") == pytest.approx(2, abs=1e-6)


def test_options_of_solvers() -> None:
    assert native_arguments("CLARABEL", 1e-5, 7.0) == {
        "solver": "CLARABEL",
        "tol_gap_abs": 1e-5,
        "tol_gap_rel": 1e-5,
        "tol_feas": 1e-5,
        "time_limit": 7.0,
    }
    with pytest.raises(SolverUnavailableError, match="ECOS is not installed"):
        native_arguments("ECOS", 1e-5, 7.0)
    assert {"CLARABEL", "SCS", "interior"} <= set(solvers_of_models())


def test_cvxpy_names_for_problems_of_sdpkit() -> None:
    assert engine_of("CLARABEL") == "clarabel"
    with pytest.raises(UnsuitableSolverError, match="cvxpy models only"):
        engine_of("OSQP")


# -- files ----------------------------------------------------------------------------------

GOOD = """
import cvxpy as cp
def models():
    X = cp.Variable((2, 2), PSD=True)
    return {"two": cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == 1])}
"""
BAD = {
    "raises": ("import cvxpy\n1 / 0\n", "ZeroDivisionError in line 2: division by zero"),
    "raises later": ("def models():\n    return {}['a']\n", "KeyError in line 2: 'a'"),
    "no function": ("x = 1\n", "defines no function models()"),
    "a list": ("def models():\n    return [1]\n", "returned list: it must return a dict"),
    "syntax": ("def models(:\n", "SyntaxError in line 1"),
    "exit": ("raise SystemExit(3)\n", "SystemExit in line 1: 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_files_of_models_that_fail(tmp_path: Path, case: str) -> None:
    text, words = BAD[case]
    path = tmp_path / "models.py"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        problems_in(path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be used is one sentence and exit code 2; the other runs are made."""
    monkeypatch.chdir(tmp_path)
    Path("models.py").write_text(GOOD)
    Path("bad.py").write_text("1 / 0\n")
    arguments = ["--solvers", "CLARABEL", "ECOS", "--tols", "1e-4", "--quiet"]
    assert main(["compare", "models.py", "bad.py", *arguments]) == 2
    said = capsys.readouterr()
    assert "two" in said.out
    assert "optimal" in said.out
    assert "bad.py raised ZeroDivisionError in line 1" in said.err
    assert main(["compare", "bad.py"]) == 2
    assert main(["compare", "nothing.py"]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert main(["compare", "models.py", *arguments, "--csv", "runs.csv"]) == 4  # ECOS is missing
    assert "refused" in Path("runs.csv").read_text()
