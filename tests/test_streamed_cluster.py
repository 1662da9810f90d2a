"""Passes over all comparisons on a Dask cluster: the same sums, and workers that die."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import LMNN, Status
from sdpkit.program.smoothed import Smoothed
from sdpkit.solvers import streamed
from sdpkit.solvers.hinge_program import HingeProgram
from sdpkit.solvers.streamed_cluster import ClusterPasses, SentPoints, sums_of_block
from sdpkit.typing import Array, Indices


def clouds(n: int) -> tuple[Array, Indices]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return rng.standard_t(4, (n, 5)) + 1.2 * rng.standard_normal((3, 5))[y], y


@pytest.fixture(scope="module")
def problem() -> LMNN:
    return LMNN(*clouds(1200))


def agree(one: Smoothed, other: Smoothed) -> None:
    for name in ("hinges", "worth", "inner", "masses"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)
    assert one.count == other.count
    size = max(np.abs(image).max() for image in other.images)
    np.testing.assert_allclose(one.images, other.images, rtol=0, atol=1e-12 * size)


def test_blocks_of_anchors_add_up(problem: LMNN) -> None:
    """What workers compute, here: twice, since the second pass uses what the first has kept."""
    hinges = HingeProgram.of(problem.program(), 1e-3)
    family: Any = hinges.family
    starts = [0, int(family.target_starts[500]), len(family.target_pairs)]
    sent = SentPoints("token", replace(family), hinges.features, starts, 1e6, 1.1)
    for factor in (2 * np.eye(5), 2.01 * np.eye(5)):
        whole = family.smoothed(hinges.outputs([factor]), hinges.features, 0.3)
        parts = [sums_of_block(sent, block, [factor], 0.3) for block in (0, 1)]
        added = Smoothed(
            *(sum(getattr(part, name) for part in parts) for name in ("hinges", "worth", "inner")),
            sum(part.count for part in parts),
            [parts[0].images[0] + parts[1].images[0]],
            [parts[0].masses[0] + parts[1].masses[0]],
        )
        agree(added, whole)


# -- clusters -------------------------------------------------------------------------------------


@pytest.fixture
def small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(streamed.STREAM, least_points=500, impostors=500, rows=6000)
    monkeypatch.setattr(streamed, "STREAM", settings)
    monkeypatch.setattr("sdpkit.program.families._MOST_POINTS", 500)
    monkeypatch.setattr("sdpkit.program.families._NEAR_POINTS", 64)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="3GiB"
    ) as local:
        yield local


@pytest.mark.slow
def test_a_cluster_sums_the_same(problem: LMNN, cluster: Any) -> None:
    hinges = HingeProgram.of(problem.program(), 1e-3)
    family: Any = hinges.family
    with cluster.get_client() as client:
        passes = ClusterPasses(client, hinges, 1e7, 1.06)
        for factor in (2 * np.eye(5), 2.01 * np.eye(5)):
            found = passes.smoothed([factor], 0.3)
            assert found is not None
            agree(found, family.smoothed(hinges.outputs([factor]), hinges.features, 0.3))


@pytest.mark.slow
@pytest.mark.usefixtures("small_scale")
def test_a_solve_on_a_cluster_survives_the_death_of_a_worker(problem: LMNN, cluster: Any) -> None:
    import joblib

    here = sdpkit.solve(problem, solver="factored")
    killed: list[str] = []
    passes: list[Mapping[str, Any]] = []

    def kill(state: Mapping[str, Any]) -> None:
        passes.append(state)
        if not killed:
            killed.append(next(iter(client.scheduler_info()["workers"])))
            client.run(_die, workers=killed, on_error="ignore", nanny=False)

    with cluster.get_client() as client, joblib.parallel_config("dask"):
        there = sdpkit.solve(problem, solver="factored", callback=kill)
    assert killed
    assert len(passes) > 1  # some after it died
    assert there.status is Status.OPTIMAL
    assert there.certificate.relative_gap < 1e-3
    assert there.objective == pytest.approx(here.objective, rel=1e-6)
    assert not any("failed" in note for note in there.notes)


def _die() -> None:
    import os

    os._exit(1)


@pytest.mark.slow
@pytest.mark.usefixtures("small_scale")
def test_a_cluster_that_vanishes_is_replaced_by_this_machine(problem: LMNN) -> None:
    distributed = pytest.importorskip("distributed")
    import joblib

    local = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    passes: list[Mapping[str, Any]] = []

    def close(state: Mapping[str, Any]) -> None:
        passes.append(state)
        if len(passes) == 1:
            local.close()

    with local.get_client(), joblib.parallel_config("dask"):
        found = sdpkit.solve(problem, solver="factored", callback=close)
    assert len(passes) > 1
    assert found.status is Status.OPTIMAL
    assert any("the Dask cluster failed" in note for note in found.notes)
