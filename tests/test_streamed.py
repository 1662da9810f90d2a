"""Comparisons that are summed and never listed, and points that are stored in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine

import sdpkit
from sdpkit import LMNN, InputError, Status
from sdpkit.certificate.certify import certify
from sdpkit.errors import ConvergenceWarning
from sdpkit.program import cells, tiles
from sdpkit.program.families import laplacians, values
from sdpkit.program.impostors import Impostors
from sdpkit.solution.checkpoint import Checkpoint
from sdpkit.solvers import factored, streamed
from sdpkit.typing import Array, Indices


def clouds(n: int, d: int, classes: int, seed: int = 0) -> tuple[Array, Indices]:
    rng = np.random.default_rng(seed)
    y = np.sort(rng.choice(classes, n, p=np.arange(1, classes + 1) / sum(range(classes + 1))))
    X = rng.standard_t(4, (n, d)) + 1.2 * rng.standard_normal((classes, d))[y]
    X[rng.integers(0, n, n // 20)] = X[rng.integers(0, n, n // 20)]
    return X, y


def family_of(n: int, n_blocks: int = 1, grouped: bool = False) -> tuple[Impostors, Array]:
    X, y = clouds(n, 4, 3)
    blocks = np.arange(n) % n_blocks
    groups = np.tile(np.arange(n) % 2, (n_blocks, 1)) if grouped else None
    pairs = LMNN(X, y).target_pairs
    return Impostors.of(pairs, y, weight=0.5, block_of=blocks, groups=groups), X


# -- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "n_blocks", "grouped"), [(60, 1, False), (60, 2, True), (900, 1, False)]
)
def test_sums_are_those_of_all_rows(n: int, n_blocks: int, grouped: bool) -> None:
    family, X = family_of(n, n_blocks, grouped)
    rng = np.random.default_rng(1)
    outputs = [X @ rng.standard_normal((4, 3)) / 3 for _ in range(n_blocks)]
    features, width = [X, 2 * X][:n_blocks], 0.4
    found = family.smoothed(outputs, features, width)
    rows = family.everything()
    terms = family.terms(rows)
    z = values(family, terms, outputs)
    alpha = np.clip(0.5 + z / width, 0, 1)
    images = [
        x.T @ (graph @ x)
        for x, graph in zip(features, laplacians(family, terms, alpha, n_blocks), strict=True)
    ]
    assert found.hinges == pytest.approx(np.maximum(z, 0).sum(), rel=1e-12)
    assert found.worth == pytest.approx(alpha.sum(), rel=1e-12)
    assert found.inner == pytest.approx(alpha @ z, rel=1e-10)
    assert found.count == np.count_nonzero(alpha)
    for mine, theirs in zip(found.images, images, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())


@pytest.mark.parametrize("change", [0.0, 0.01, 0.2, 3.0])
def test_kept_pairs_leave_nothing_out(change: float) -> None:
    """Whatever the outputs became, a search says the same as one that has kept nothing."""
    family, X = family_of(900)
    plain, _ = family_of(900)
    rng = np.random.default_rng(2)
    L = rng.standard_normal((4, 4)) / 2
    family.keeping.start(1e9, 1.3)
    family.smoothed([X @ L], [X], 0.2)
    assert family.keeping.pairs is not None
    for shape in ((4, 4), (4, 2)):
        moved = L[:, : shape[1]] + change * rng.standard_normal(shape) / 2
        np.testing.assert_array_equal(family.near([X @ moved], 0.1), plain.near([X @ moved], 0.1))
        assert family.hinge_sum([X @ moved]) == pytest.approx(
            plain.hinge_sum([X @ moved]), rel=1e-12
        )


def test_kept_pairs_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search after a small change does not look at all pairs."""
    family, X = family_of(900)
    L = np.eye(4)
    family.keeping.start(1e9, 1.3)
    family.smoothed([X @ L], [X], 0.2)

    def search(*_: Any) -> Any:
        raise AssertionError("all pairs are searched")

    monkeypatch.setattr(Impostors, "_over_tiles", search)
    assert family.hinge_sum([X @ (1.01 * L)]) > 0
    family.keeping.stop()
    with pytest.raises(AssertionError, match="all pairs"):
        family.hinge_sum([X @ L])


def test_too_many_pairs_are_not_kept() -> None:
    family, X = family_of(900)
    family.keeping.start(1e3, 1.3)
    value = family.hinge_sum([X])
    assert family.keeping.pairs is None
    assert value == family_of(900)[0].hinge_sum([X])


def with_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells for a few hundred points, as for a hundred thousand."""
    for name, number in (
        ("_MANY_POINTS", 200),
        ("_CELL_POINTS", 16),
        ("_STRIP_POINTS", 64),
        ("_MOST_PAIRS", 2),
    ):
        monkeypatch.setattr(cells, name, number)


@pytest.mark.parametrize("width", [0, 4])
def test_a_metric_of_zero_has_no_cells(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit may end a solve where the metric is still zero: all points are at one place."""
    family, X = family_of(300)
    value = family.hinge_sum([np.zeros((len(X), 4))])
    with_cells(monkeypatch)
    assert family_of(300)[0].hinge_sum([np.zeros((len(X), width))]) == value


@pytest.mark.parametrize(("n_blocks", "grouped"), [(1, False), (2, True)])
def test_cells_leave_nothing_out(
    n_blocks: int, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search by cells finds the same, near the origin and far from it."""
    family, X = family_of(900, n_blocks, grouped)
    rng = np.random.default_rng(3)
    shape = rng.standard_normal((n_blocks, 4, 4))
    for size, centre in ((0.3, 0.0), (1.0, 1e4), (5.0, 0.0)):
        outputs = [size * (X @ L) + centre for L in shape]
        rows, hinges = family.near(outputs, 0.1), family.hinge_sum(outputs)
        with monkeypatch.context() as patch:
            with_cells(patch)
            np.testing.assert_array_equal(family.near(outputs, 0.1), rows)
            assert family.hinge_sum(outputs) == pytest.approx(hinges, rel=1e-12)


def test_cells_skip_most_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    family, X = family_of(900)
    compared, found = [], tiles.TilePairs.found

    def counted(
        self: tiles.TilePairs, tile: slice, both: bool = False, chosen: Indices | None = None
    ) -> tuple[Indices, Indices]:
        left = self.rows if chosen is None else chosen
        compared.append(left.size * len(self.screen.members[tile]))
        return found(self, tile, both, chosen)

    monkeypatch.setattr(tiles.TilePairs, "found", counted)
    family.near([4 * X], 0.0)
    all_pairs = sum(compared)
    compared.clear()
    with_cells(monkeypatch)
    family.near([4 * X], 0.0)
    assert 0 < sum(compared) < 0.4 * all_pairs


def test_no_cells_where_everything_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    family, X = family_of(900)
    with_cells(monkeypatch)
    monkeypatch.setattr(cells, "_MOST_PAIRS", 0.42)
    made: list[Any] = []
    strips = cells.CelledScreen.strips
    monkeypatch.setattr(
        cells.CelledScreen, "strips", lambda *given: made.append(given) or strips(*given)
    )
    family.near([0.01 * X], 0.0)
    assert not made
    family.near([8 * X], 0.0)
    assert made


def test_kept_pairs_stay_within_the_limit() -> None:
    """What a problem may take is what its searches may keep, and parts of it."""
    X, y = clouds(300, 3, 3)
    assert LMNN(X, y).family.memory == np.inf
    family = LMNN(X, y, memory_limit="1MiB").family
    assert family.memory == family.with_impostors(0.5).memory == 2**20


# -- certificates ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wine() -> sdpkit.Solution:
    X, y = load_wine(return_X_y=True)
    return sdpkit.solve(LMNN(X, y), tol=1e-6)


def test_a_smoothed_dual_bounds_the_optimum(wine: sdpkit.Solution) -> None:
    """At the optimum its bound tends to the optimum with the width; anywhere it is a bound."""
    optimum, gaps = wine.objective, []
    for width in (0.3, 0.1, 0.03):
        found = certify(wine.program, wine.matrices, smoothing=width)
        assert found.objective == wine.objective
        assert found.safe_bound <= optimum
        gaps.append(found.relative_gap)
        proof = found.verify()
        assert proof.bound is not None
        assert proof.bound <= optimum
        assert proof.bound == pytest.approx(found.safe_bound, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(5):
        root = rng.standard_normal(np.shape(wine.matrix)) * 10 ** rng.uniform(-2, 2)
        assert certify(wine.program, [root @ root.T], smoothing=0.1).safe_bound <= optimum


@pytest.mark.parametrize("width", [np.nan, np.inf, 1e-300, 1e300])
def test_widths_without_meaning_prove_nothing_wrong(wine: sdpkit.Solution, width: float) -> None:
    found = certify(wine.program, wine.matrices, smoothing=width)
    assert not found.safe_bound > wine.objective


def test_points_without_meaning_prove_nothing(wine: sdpkit.Solution) -> None:
    broken = np.full(np.shape(wine.matrix), np.nan)
    assert not certify(wine.program, [broken], smoothing=0.1).passes(1e-1)


# -- the engine -----------------------------------------------------------------------------------


@pytest.fixture
def small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(streamed.STREAM, least_points=500, impostors=500, rows=6000)
    monkeypatch.setattr(streamed, "STREAM", settings)
    monkeypatch.setattr("sdpkit.program.families._MOST_POINTS", 500)
    monkeypatch.setattr("sdpkit.program.families._NEAR_POINTS", 64)


@pytest.mark.usefixtures("small_scale")
def test_streamed_and_listed_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = clouds(1200, 6, 3)
    problem = LMNN(X, y)
    found = sdpkit.solve(problem, solver="factored")
    assert found.status is Status.OPTIMAL
    assert found.smoothing > 0
    assert found.rows is None
    assert problem.objective(problem.recover(found)) == pytest.approx(found.objective, rel=1e-9)
    monkeypatch.setattr(factored, "is_streamed", lambda _: False)
    listed = sdpkit.solve(problem, solver="factored", tol=1e-4)
    assert found.certificate.safe_bound <= listed.objective * (1 + 1e-12)
    assert listed.certificate.safe_bound <= found.objective * (1 + 1e-12)
    assert found.objective == pytest.approx(listed.objective, rel=2e-3)


@pytest.mark.usefixtures("small_scale")
def test_a_streamed_run_that_is_cut_short_is_certified() -> None:
    X, y = clouds(1200, 6, 3)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        found = sdpkit.solve(LMNN(X, y), solver="factored", max_iter=5)
    assert found.status is Status.ITERATION_LIMIT
    assert np.isfinite(found.objective)
    assert found.certificate.safe_bound <= found.objective


# -- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_large", [False, True])
def test_a_run_that_was_cut_short_goes_on(
    is_large: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if is_large:
        request.getfixturevalue("small_scale")
    problem, path = LMNN(*clouds(1200, 6, 3)), tmp_path / "run.npz"
    whole = sdpkit.solve(problem, solver="factored")
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        sdpkit.solve(
            problem, solver="factored", checkpoint=path, max_iter=whole.iterations * 3 // 4
        )
    rest = sdpkit.solve(problem, solver="factored", checkpoint=path)
    assert rest.status is Status.OPTIMAL
    assert rest.objective == pytest.approx(whole.objective, rel=2e-3)
    assert rest.iterations - whole.iterations * 3 // 4 < whole.iterations // 2
    assert path.exists()


def test_states_of_another_form_are_refused(tmp_path: Path) -> None:
    problem, path = LMNN(*clouds(120, 4, 3)), tmp_path / "run.npz"
    good = {"factor0": np.eye(4), "steps": 3, "width": 0.0, "share": 0.0}
    wrong: list[dict[str, Any]] = [
        {"factor0": np.eye(5)},
        {"factor0": np.full((4, 4), np.nan)},
        {"factor0": 1e80 * np.eye(4)},
        {"steps": -1},
        {"width": -1.0},
        {"share": 2.0},
        {"more": 1.0},
    ]
    for change in wrong:
        path.unlink(missing_ok=True)
        Checkpoint(path, problem.program().fingerprint, "factored").save(**{**good, **change})
        with pytest.raises(InputError, match="no state that solver 'factored' can resume"):
            sdpkit.solve(problem, solver="factored", checkpoint=path)
    path.unlink(missing_ok=True)
    Checkpoint(path, problem.program().fingerprint, "factored").save(**good)
    assert sdpkit.solve(problem, solver="factored", checkpoint=path).status is Status.OPTIMAL


# -- stored points --------------------------------------------------------------------------------


def test_points_in_parts_give_the_same_problem(tmp_path: Path) -> None:
    X, y = clouds(200, 3, 3)
    whole = LMNN(X, y)
    paths = []
    for k, part in enumerate(np.array_split(X, 3)):
        paths.append(tmp_path / f"{k}.npy")
        np.save(paths[-1], part)
    np.save(tmp_path / "all.npy", X)
    given = [paths, [str(p) for p in paths], np.load(tmp_path / "all.npy", mmap_mode="r")]
    array = pytest.importorskip("dask.array")
    given.append(array.from_array(X, chunks=(70, 2)))
    for points in given:
        problem = LMNN(points, y, memory_limit=2000)
        assert isinstance(problem.features, np.memmap)
        np.testing.assert_array_equal(problem.target_pairs, whole.target_pairs)
        np.testing.assert_allclose(problem.features, whole.features, atol=1e-12)
    solution = sdpkit.solve(problem)
    assert solution.objective == pytest.approx(sdpkit.solve(whole).objective, rel=1e-3)


def test_bad_parts_are_named(tmp_path: Path) -> None:
    X, y = clouds(60, 3, 3)
    good, narrow, broken = (tmp_path / f"{name}.npy" for name in ("good", "narrow", "broken"))
    np.save(good, X)
    np.save(narrow, X[:, :2])
    spoilt = X.copy()
    spoilt[7, 1] = np.nan
    np.save(broken, spoilt)
    with pytest.raises(InputError, match=r"narrow.npy has 2 columns, and .*good.npy has 3"):
        LMNN([good, narrow], np.r_[y, y])
    with pytest.raises(InputError, match=r"broken.npy holds nan in row 7, column 1"):
        LMNN([good, broken], np.r_[y, y])
    with pytest.raises(InputError, match=r"X, rows 0 to 59 holds nan in row 7, column 1"):
        LMNN(np.load(broken, mmap_mode="r"), y)
    with pytest.raises(InputError, match=r"y has shape \(60,\), expected \(120,\)"):
        LMNN([good, good], y)
    with pytest.raises(InputError, match=r"missing.npy cannot be read"):
        LMNN([tmp_path / "missing.npy"], y)
    with pytest.raises(InputError, match=r"has no files \*.parquet"):
        LMNN(tmp_path, y)
    with pytest.raises(InputError, match=r"memory_limit is '4 apples'"):
        LMNN(X, y, memory_limit="4 apples")
