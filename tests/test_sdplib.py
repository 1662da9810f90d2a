"""Published optima: SDPLIB instances (Borchers 1999), read from a folder.

The folder is the environment variable SDPKIT_SDPLIB, or else `shared/sdplib` beside the
checkout. The instances are not part of the repository.
"""

from __future__ import annotations

import functools
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from sdpkit import Program, Solution, Status, read_sdpa
from sdpkit.errors import ConvergenceWarning
from sdpkit.solving.solve import solve

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("SDPKIT_SDPLIB") or ROOT.parent / "shared" / "sdplib")
if not FOLDER.is_dir():
    pytest.skip(
        f"no SDPLIB instances in {FOLDER}: set SDPKIT_SDPLIB to their folder",
        allow_module_level=True,
    )

# As published, in SDPA's convention: max <F₀, Y>.
PUBLISHED = {
    "mcp100": "226.1574",
    "mcp250-1": "317.2643",
    "maxG11": "629.1648",
    "gpp100": "-44.9435",
    "theta1": "23.0000",
    "truss1": "-8.999996",
    "control1": "17.78463",
}
INTERIOR_POINT = ("csdp", "sdpa")
CASES = [
    *((name, "interior") for name in PUBLISHED),
    *((name, solver) for name in PUBLISHED for solver in INTERIOR_POINT if name != "maxG11"),
    *((name, "clarabel") for name in ("truss1", "theta1", "mcp100")),
    *((name, "scs") for name in ("truss1", "theta1")),
    *((name, "cvxopt") for name in ("truss1", "theta1")),
]


@functools.cache
def instance(name: str) -> Program:
    return read_sdpa(FOLDER / f"{name}.dat-s")


def unit(number: str) -> float:
    """A unit of the last digit that is written: some are rounded and some cut off."""
    return 10.0 ** -len(number.partition(".")[2])


def check_value(solution: Solution, name: str, tol: float = 1e-6) -> None:
    published = float(PUBLISHED[name])
    slack = unit(PUBLISHED[name]) + tol * abs(published)
    assert abs(solution.objective - published) <= slack
    # All of these maximise, and the bound holds from above.
    assert solution.certificate.safe_bound >= published - unit(PUBLISHED[name])
    assert solution.certificate.safe_bound <= published + slack


@pytest.mark.parametrize(("name", "solver"), CASES)
def test_published_optimum(name: str, solver: str) -> None:
    solution = solve(instance(name), solver=solver)
    assert solution.status is Status.OPTIMAL
    check_value(solution, name)


@pytest.mark.slow
@pytest.mark.needs("csdp")
def test_max_cut_of_800_nodes() -> None:
    solution = solve(instance("maxG11"), solver="csdp")
    assert solution.status is Status.OPTIMAL
    check_value(solution, "maxG11")


@pytest.mark.parametrize("solver", ["clarabel", "cvxopt", "scs"])
def test_control_is_right_or_refused(solver: str) -> None:
    """A badly scaled instance. Clarabel claims an optimum of 17.91 here; that must not pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = solve(instance("control1"), solver=solver, max_iter=20_000)
    if solution.status is Status.OPTIMAL:
        check_value(solution, "control1")
    else:
        assert not solution.certificate.passes(1e-6)
        assert "not reached" in solution.message
        # Whatever was reached, a finite bound is a bound.
        assert solution.certificate.safe_bound >= float(PUBLISHED["control1"]) - 1e-5


def test_control_by_cvxopt_to_four_digits() -> None:
    solution = solve(instance("control1"), solver="cvxopt", tol=1e-4)
    assert solution.status is Status.OPTIMAL
    check_value(solution, "control1", tol=1e-4)


@pytest.mark.parametrize("solver", ["interior", "csdp", "sdpa", "clarabel", "scs", "cvxopt"])
def test_unbounded(solver: str) -> None:
    """infp1: the LMI is infeasible, so the maximisation has no finite optimum."""
    program = instance("infp1")
    solution = solve(program, solver=solver)
    assert solution.status is Status.UNBOUNDED
    ray = solution.ray
    assert ray is not None
    assert ray.kind == "unbounded"
    assert ray.passes(1e-7)
    assert ray.matrices is not None
    assert ray.x is not None
    # By hand: Y ⪰ 0, <F_k, Y> = 0, <F₀, Y> = 1.
    (Y,) = ray.matrices
    assert np.linalg.eigvalsh(Y)[0] >= -1e-12 * np.linalg.norm(Y, 2)
    rows = program.matrix_rows.toarray().reshape(program.n_rows, *Y.shape)
    sizes = np.linalg.norm(rows, axis=(1, 2)) * np.linalg.norm(Y)
    assert np.all(np.abs(np.einsum("kij,ij->k", rows, Y)) <= 1e-6 * sizes)
    assert np.sum(program.blocks[0].cost.dense() * Y) == pytest.approx(1.0)


@pytest.mark.parametrize("solver", ["interior", "csdp", "sdpa", "clarabel", "scs", "cvxopt"])
def test_infeasible(solver: str) -> None:
    """infd1: the maximisation has no feasible point."""
    program = instance("infd1")
    solution = solve(program, solver=solver)
    assert solution.status is Status.INFEASIBLE
    ray = solution.ray
    assert ray is not None
    assert ray.kind == "infeasible"
    assert ray.passes(1e-7)
    assert ray.multipliers is not None
    # By hand: Σ w_k F_k ⪰ 0, cᵀw = −1.
    n = program.blocks[0].size
    image = (program.matrix_rows.T @ ray.multipliers).reshape(n, n)
    eigenvalues = np.linalg.eigvalsh(image)
    assert eigenvalues[0] >= -1e-7 * eigenvalues[-1]
    assert program.rhs @ ray.multipliers == pytest.approx(-1.0)


@pytest.mark.parametrize("name", ["truss1", "theta1", "gpp100"])
def test_known_structure(name: str) -> None:
    """What the instances are: a truss of small blocks, a Lovász number, a bisection."""
    program = instance(name)
    sizes = [block.size for block in program.blocks]
    if name == "truss1":
        assert sizes == [2] * 6
        assert program.n_rows == 6
        assert program.n_auxiliary == 1  # the 1 × 1 block
    elif name == "theta1":
        assert sizes == [50]
        assert program.n_rows == 104
    else:
        # The row 1ᵀY1 = 0 has become a null direction, and the other 100 rows fix the diagonal.
        assert sizes == [100]
        assert program.n_rows == 100
        assert program.blocks[0].is_centred or program.blocks[0].null.shape == (100, 1)
        assert np.ptp(program.blocks[0].null) == 0
