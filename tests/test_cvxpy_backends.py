"""Other people's solvers through cvxpy: found, asked for the right tolerance, licensed or not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import cvxpy as cp
import pytest

import sdpkit
from sdpkit.numerics.deadline import Deadline
from sdpkit.solution.answer import Settings
from sdpkit.solvers import cvxpy_backend, licences
from sdpkit.solvers.cvxpy_backend import MOSEK, discover


@pytest.fixture(autouse=True)
def _forget_licences() -> Iterator[None]:
    licences.without_licence.cache_clear()
    yield
    licences.without_licence.cache_clear()


def fake_mosek(licensed: bool) -> ModuleType:
    """As much of mosek as a licence check touches."""
    module = ModuleType("mosek")

    class Error(Exception):
        pass

    class Env:
        def __enter__(self) -> Env:
            return self

        def __exit__(self, *rest: Any) -> None:
            pass

        def checkoutlicense(self, feature: str) -> None:
            if not licensed:
                raise Error("err_missing_license_file")

    module.Error, module.Env = Error, Env  # type: ignore[attr-defined]
    module.feature = SimpleNamespace(pton="PTON")  # type: ignore[attr-defined]
    module.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    return module


@pytest.mark.parametrize(("licensed", "words"), [(True, None), (False, "no licence")])
def test_mosek_without_a_licence_is_unavailable(
    licensed: bool, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mosek", fake_mosek(licensed))
    assert MOSEK.unavailable() == words
    assert ("mosek" in sdpkit.available_solvers()) == licensed
    if not licensed:
        with pytest.raises(sdpkit.SolverUnavailableError, match="not available: no licence"):
            sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.path_graph(3)), solver="mosek")
        assert "unavailable: no licence" in sdpkit.solver_table()


@pytest.mark.parametrize(("code", "expected"), [("pass", None), ("1 / 0", "no licence")])
def test_knitro_is_asked_in_another_process(
    code: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(licences, "_KNITRO", code)
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["KNITRO"])
    try:
        found = discover()
    except KeyError:  # cvxpy without an interface to it
        found = []
    backends = found or [
        cvxpy_backend.CvxpyBackend("knitro", "KNITRO", "cvxpy", MOSEK.capabilities, max, abs)
    ]
    assert [backend.unavailable() for backend in backends] == [expected]


def test_solvers_that_take_scaled_triangles_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["CLARABEL", "DIFFCP", "OSQP", "GLPK"])
    assert [backend.name for backend in discover()] == ["diffcp"]


def test_moreau_is_asked_for_the_tolerance() -> None:
    deadline = Deadline.after(3.0, now=lambda: 0.0)
    asked = cvxpy_backend._LANGUAGE["MOREAU"](Settings(tol=1e-6, max_iter=7, deadline=deadline))
    assert asked["ipm_settings"] == dict.fromkeys(
        ("tol_gap_abs", "tol_gap_rel", "tol_feas"), pytest.approx(1e-8)
    )
    assert (asked["max_iter"], asked["time_limit"]) == (7, 3.0)


@pytest.mark.skipif("MOREAU" not in cp.installed_solvers(), reason="moreau is not installed")
def test_moreau_reaches_the_tolerance() -> None:
    solution = sdpkit.solve(
        sdpkit.MVU(sdpkit.datasets.swiss_roll(14), n_neighbors=4), solver="moreau", tol=1e-7
    )
    assert solution.certificate.passes(1e-7)
