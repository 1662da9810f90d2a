"""Families of comparisons against their definition, triplet by triplet."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdpkit import LMNN, Block, Cost, InputError, Program
from sdpkit.program import impostors, tiles
from sdpkit.program.families import Rows, Terms, best_scale, laplacians, values
from sdpkit.program.files import family_of
from sdpkit.program.impostors import Impostors
from sdpkit.program.listed_rows import ListedRows
from sdpkit.typing import Array

Triplet = tuple[int, int, int]


# -- the definition -------------------------------------------------------------------------


def squared(outputs: list[Array], block: int, i: int, o: int) -> Fraction:
    """‖y_i − y_o‖² in one block, without rounding."""
    pairs = zip(outputs[block][i].tolist(), outputs[block][o].tolist(), strict=True)
    return sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in pairs), Fraction(0))


def all_triplets(family: Impostors) -> list[Triplet]:
    """(i, j, l) in the order of rows: anchor, impostor, target."""
    out = []
    for i, j in family.target_pairs.tolist():
        for o in range(family.n_points):
            shared = family.groups is None or (
                family.groups[family.block_of[o], i] == family.groups[family.block_of[o], o]
            )
            if family.labels[i] != family.labels[o] and shared:
                out.append((i, j, o))
    return sorted(out, key=lambda t: (t[0], t[2], t[1]))


def margin(family: Any, outputs: list[Array], t: Triplet) -> Fraction:
    """1 + q_ij − q_il, without rounding."""
    i, j, o = t
    near = squared(outputs, int(family.block_of[j]), i, j)
    return 1 + near - squared(outputs, int(family.block_of[o]), i, o)


def named(family: Any, rows: Rows) -> list[Triplet]:
    terms = family.terms(rows)
    (i, j), other = terms.pulls[terms.pull].T, terms.pushes[terms.push, 1]
    assert np.array_equal(i, terms.pushes[terms.push, 0])
    return list(zip(i.tolist(), j.tolist(), other.tolist(), strict=True))


def hinges(family: Any, rows: Rows, outputs: list[Array]) -> Array:
    return values(family, family.terms(rows), outputs)


def hinge_sum(family: Any, outputs: list[Array], triplets: list[Triplet]) -> float:
    return float(sum(max(Fraction(0), margin(family, outputs, t)) for t in triplets))


def close(value: float) -> Any:
    """Sums are taken around the mean of the points, which rounds."""
    return pytest.approx(value, rel=1e-13, abs=1e-12)


@st.composite
def instances(draw: st.DrawFn) -> tuple[Impostors, list[Array]]:
    """Points on a small grid, so that duplicates and ties abound and nothing rounds."""
    n, classes = draw(st.integers(4, 14)), draw(st.integers(2, 3))
    blocks = draw(st.integers(1, 3))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    labels[:3] = [0, 0, 1]
    same = [(i, j) for i in range(n) for j in range(n) if i != j and labels[i] == labels[j]]
    pairs = draw(st.lists(st.sampled_from(same), min_size=1, max_size=3 * n))
    block_of = draw(st.lists(st.integers(0, blocks - 1), min_size=n, max_size=n))
    groups = None
    if draw(st.booleans()):
        row = st.lists(st.integers(0, 1), min_size=n, max_size=n)
        groups = draw(st.lists(row, min_size=blocks, max_size=blocks))
    width = draw(st.integers(1, 3))
    numbers = st.lists(st.integers(-2, 2), min_size=n * width, max_size=n * width)
    outputs = [np.array(draw(numbers), float).reshape(n, width) / 2 for _ in range(blocks)]
    family = Impostors.of(pairs, labels, weight=0.5, block_of=block_of, groups=groups)
    return family, outputs


def ways() -> Iterator[None]:
    """Every way to search: compiled or not, with all directions or with leading ones first."""
    for compiled, screened in product([False, True], repeat=2):
        with (
            patch.object(tiles, "_UNCOMPILED_POINTS", 0 if compiled else 700),
            patch.object(impostors, "_SCREENED_ANCHORS", 0 if screened else 10**9),
            patch.object(impostors, "_SCREENED_DIMENSION", 1),
        ):
            yield


SLACKS = st.sampled_from([-1.0, -0.25, 0.0, 0.25, 1.0, 5.0])


@settings(max_examples=120, deadline=None)
@given(instances(), SLACKS)
def test_near_is_exactly_what_its_definition_says(
    instance: tuple[Impostors, list[Array]], slack: float
) -> None:
    family, outputs = instance
    triplets = all_triplets(family)
    expected = [t for t in triplets if margin(family, outputs, t) > -slack]
    for _ in ways():
        assert named(family, family.near(outputs, slack)) == expected


@settings(max_examples=60, deadline=None)
@given(instances(), SLACKS)
def test_blocks_and_tree_find_the_same(
    instance: tuple[Impostors, list[Array]], slack: float
) -> None:
    family, outputs = instance
    found = {}
    for search in ("blocks", "tree"):
        other = Impostors.of(
            family.target_pairs,
            family.labels,
            block_of=family.block_of,
            groups=family.groups,
            search=search,  # type: ignore[arg-type]
        )
        found[search] = named(other, other.near(outputs, slack))
    assert found["blocks"] == found["tree"]


@settings(max_examples=120, deadline=None)
@given(instances())
def test_hinge_sum_and_everything(instance: tuple[Impostors, list[Array]]) -> None:
    family, outputs = instance
    triplets = all_triplets(family)
    assert named(family, family.everything()) == triplets
    assert family.hinge_sum(outputs) == close(hinge_sum(family, outputs, triplets))
    margins = hinges(family, family.everything(), outputs)
    assert margins.tolist() == [float(margin(family, outputs, t)) for t in triplets]
    assert len(triplets) <= family.n_rows
    assert family.groups is not None or len(triplets) == family.n_rows


@settings(max_examples=60, deadline=None)
@given(instances(), st.floats(0.01, 1.0))
def test_part_keeps_whole_anchors(instance: tuple[Impostors, list[Array]], share: float) -> None:
    family, outputs = instance
    part = family.part(share)
    anchors = np.unique(family.target_pairs[:, 0])
    kept = np.unique(part.target_pairs[:, 0])
    assert set(kept) <= set(anchors)
    assert abs(kept.size - max(1, share * anchors.size)) <= 1
    expected = [t for t in all_triplets(family) if t[0] in kept]
    assert named(part, part.everything()) == expected
    assert part.hinge_sum(outputs) == close(hinge_sum(family, outputs, expected))
    assert part.weight == family.weight


@settings(max_examples=60, deadline=None)
@given(instances())
def test_keys_name_rows_in_order(instance: tuple[Impostors, list[Array]]) -> None:
    family, _ = instance
    rows = family.everything()
    assert np.all(np.diff(rows) > 0)
    terms: Terms = family.terms(rows)
    assert np.all(np.diff(terms.push) >= 0)
    assert np.all(np.diff(terms.pulls[:, 0]) >= 0)
    assert np.all(np.diff(terms.pushes[:, 0]) >= 0)
    assert family.has(rows).all()


@settings(max_examples=60, deadline=None)
@given(instances())
def test_only_rows_of_the_family_are_recognised(
    instance: tuple[Impostors, list[Array]],
) -> None:
    family, _ = instance
    p, n = len(family.target_pairs), family.n_points
    numbers = np.arange(-n, n * n * p + n)
    known = numbers[family.has(numbers)]
    assert np.array_equal(known, family.everything())
    assert named(family, known) == all_triplets(family)
    if known.size:
        listed = ListedRows.of(named(family, known)[::2], n, block_of=family.block_of)
        assert np.array_equal(numbers[listed.has(numbers)], listed.everything())


@settings(max_examples=60, deadline=None)
@given(instances(), st.integers(0, 2**31))
def test_laplacians_are_the_gradient(instance: tuple[Impostors, list[Array]], seed: int) -> None:
    """Σ_b tr(Y_bᵀ Λ_b Y_b) = Σ_t w_t (q_ij − q_il), the adjoint identity."""
    family, outputs = instance
    rows = family.everything()
    w = np.random.default_rng(seed).uniform(0, 1, rows.size)
    graphs = laplacians(family, family.terms(rows), w, len(outputs))
    for graph in graphs:
        assert abs(graph - graph.T).max() <= 1e-12
        assert np.abs(graph.sum(axis=1)).max() <= 1e-12
    found = sum(float(np.vdot(y, g @ y)) for y, g in zip(outputs, graphs, strict=True))
    assert found == pytest.approx(float(w @ (hinges(family, rows, outputs) - 1)), abs=1e-9)


# -- where rounding is in doubt -------------------------------------------------------------


def clouds(seed: int, n: int, d: int) -> tuple[Impostors, Array]:
    """Three classes mixed together, three targets each."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    pairs = [(i, (i + 3 * s) % n) for i in range(n) for s in (1, 2, 3)]
    family = Impostors.of([(i, j) for i, j in pairs if labels[i] == labels[j]], labels)
    return family, rng.standard_normal((n, d))


@pytest.mark.parametrize("search", ["blocks", "tree"])
@pytest.mark.parametrize("place", ["origin", "far", "far and apart", "an outlier", "huge", "tiny"])
def test_search_is_exact_where_single_precision_is_in_doubt(search: Any, place: str) -> None:
    family, y = clouds(1, 30, 5)
    moves = {
        "far": lambda y: y + 1e7,
        "far and apart": lambda y: y + 1e6 * (np.arange(30) % 2)[:, None],
        "an outlier": lambda y: np.vstack([y[:-1], y[-1:] + 1e9]),
        "huge": lambda y: 1e22 * y,
        "tiny": lambda y: 1e-30 * y,
    }
    y = moves.get(place, lambda y: y)(y)
    family = Impostors.of(family.target_pairs, family.labels, search=search)
    rows = family.everything()
    margins = np.array([margin(family, [y], t) for t in named(family, rows)])
    for slack in (0.0, 2.0):
        sure = margins > -slack
        # The definition in floating point may differ from it by a rounding of the distances.
        scale = np.abs(hinges(family, rows, [y])) + 1
        doubtful = np.abs((margins + Fraction(slack)).astype(float)) <= 1e-12 * scale
        for _ in ways():
            found = set(named(family, family.near([y], slack)))
            for t, yes, doubt in zip(named(family, rows), sure, doubtful, strict=True):
                assert doubt or (t in found) == yes
    exact = float(sum(max(Fraction(0), m) for m in margins))
    for _ in ways():
        assert family.hinge_sum([y]) == pytest.approx(exact, rel=1e-9)
    kept = np.maximum(hinges(family, rows, [y]), 0.0).sum()
    assert kept == pytest.approx(exact, rel=1e-9)


def test_hinges_of_classes_far_from_the_middle_do_not_cancel() -> None:
    """Two classes together and a third 10⁸ away: |x|² is 10¹⁶, the distances that count are 1."""
    points = np.array([[0.0], [0.25], [0.5], [0.75], [4e8], [4e8 + 0.5]])
    family = Impostors.of([(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4)], [0, 0, 1, 1, 2, 2])
    expected = hinge_sum(family, [points], all_triplets(family))
    assert family.hinge_sum([points]) == pytest.approx(expected, rel=1e-12)
    assert family.near([points], 0.0).size == 8


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_search_over_many_tiles(n_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdpkit.program.tiles.TILE_ENTRIES", 7 * 5)
    monkeypatch.setattr("sdpkit.program.tiles.TILE_COLUMNS", 5)
    family, y = clouds(2, 45, 3)
    blocks = np.arange(45) % 2 if n_blocks == 2 else np.zeros(45, int)
    family = Impostors.of(family.target_pairs, family.labels, block_of=blocks)
    outputs = [np.round(4 * y) / 4, np.round(2 * y[:, :2]) / 4][:n_blocks]
    triplets = all_triplets(family)
    expected = [t for t in triplets if margin(family, outputs, t) > -0.5]
    for _ in ways():
        assert named(family, family.near(outputs, 0.5)) == expected
        assert family.hinge_sum(outputs) == pytest.approx(hinge_sum(family, outputs, triplets))


def test_few_anchors_are_asked_from_their_side_only() -> None:
    """With targets for a few points the tiles are not shared by both of their ends."""
    y = np.arange(20.0)[:, None] / 4
    family = Impostors.of([(0, 2), (5, 7)], np.arange(20) % 2)
    expected = [t for t in all_triplets(family) if margin(family, [y], t) > 0]
    assert named(family, family.near([y], 0.0)) == expected
    assert family.hinge_sum([y]) == close(hinge_sum(family, [y], expected))


def test_outputs_without_columns() -> None:
    """M = 0 has no factor: every hinge is 1."""
    family, y = clouds(0, 12, 2)
    assert family.hinge_sum([y[:, :0]]) == family.n_rows
    assert family.near([y[:, :0]], 0.0).size == family.n_rows
    assert family.near([y[:, :0]], -1.0).size == 0


# -- listed ---------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(instances(), st.randoms(use_true_random=False), SLACKS)
def test_listed_triplets(
    instance: tuple[Impostors, list[Array]], random: Any, slack: float
) -> None:
    family, outputs = instance
    triplets = all_triplets(family)
    chosen = [t for t in triplets if random.random() < 0.6] or triplets[:1]
    if not chosen:
        return
    shuffled = random.sample(chosen, len(chosen))
    listed = ListedRows.of(
        [*shuffled, shuffled[0]], family.n_points, weight=0.25, block_of=family.block_of
    )
    assert named(listed, listed.everything()) == chosen  # in order, and each once
    assert listed.n_rows == len(chosen)
    assert np.all(np.diff(listed.everything()) > 0)
    expected = [t for t in chosen if margin(listed, outputs, t) > -slack]
    assert named(listed, listed.near(outputs, slack)) == expected
    assert listed.hinge_sum(outputs) == close(hinge_sum(listed, outputs, chosen))
    part = listed.part(0.5)
    assert set(named(part, part.everything())) <= set(chosen)
    assert 1 <= part.n_rows <= max(1, round(0.5 * len(chosen)))
    back = family_of({f"family/{name}": a for name, a in listed.arrays().items()})
    assert isinstance(back, ListedRows)
    assert named(back, back.everything()) == chosen
    assert back.weight == 0.25


BAD_TRIPLETS = [
    ([[0, 1]], "shape"),
    ([], "shape"),
    ([[0, 1, 4]], "outside"),
    ([[-1, 1, 2]], "outside"),
    ([[0, 0, 2]], "three different"),
    ([[0, 2, 2]], "three different"),
    ([[0, 1, 0]], "three different"),
    ([[0.5, 1, 2]], "whole numbers"),
    ([[0, 1, np.nan]], "whole numbers"),
    ([["a", "b", "c"]], "whole numbers"),
]


@pytest.mark.parametrize(("triplets", "words"), BAD_TRIPLETS)
def test_bad_triplets(triplets: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ListedRows.of(triplets, n_points=4)


BAD_IMPOSTORS: list[tuple[dict[str, Any], str]] = [
    ({"target_pairs": [[0, 2]]}, "label of its anchor"),
    ({"target_pairs": [[0, 0]]}, "own target"),
    ({"target_pairs": [[0, 9]]}, "outside"),
    ({"target_pairs": [0, 1]}, "shape"),
    ({"target_pairs": [[0.5, 1]]}, "whole numbers"),
    ({"weight": 0.0}, "positive"),
    ({"weight": np.nan}, "positive"),
    ({"weight": np.inf}, "positive"),
    ({"block_of": [0, 0]}, "one entry"),
    ({"groups": [[0, 0]]}, "one entry"),
]


@pytest.mark.parametrize(("change", "words"), BAD_IMPOSTORS)
def test_bad_impostors(change: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {"target_pairs": [[0, 1], [1, 0]], "labels": [0, 0, 1, 1]}
    with pytest.raises(InputError, match=words):
        Impostors.of(**{**good, **change})


def test_target_pairs_are_put_in_order_and_once() -> None:
    family = Impostors.of([[1, 0], [0, 1], [1, 0]], [0, 0, 1])
    assert family.target_pairs.tolist() == [[0, 1], [1, 0]]


# -- in a program ---------------------------------------------------------------------------


def program_of(family: Any, outputs: list[Array]) -> Program:
    n = family.n_points
    blocks = [
        Block.of(
            y.shape[1],
            np.zeros((0, n)),
            name=f"M{k}",
            features=y,
            cost=Cost.of(y.shape[1], identity=1.0),
        )
        for k, y in enumerate(outputs)
    ]
    return Program.of(blocks, np.zeros(0), sense="min", family=family)


@settings(max_examples=25, deadline=None)
@given(instances(), st.booleans())
def test_programs_with_families_survive_a_file(
    tmp_path_factory: pytest.TempPathFactory,
    instance: tuple[Impostors, list[Array]],
    listed: bool,
) -> None:
    family, outputs = instance
    triplets = all_triplets(family)
    kept: Any = family
    if listed and triplets:
        kept = ListedRows.of(triplets, family.n_points, block_of=family.block_of)
    program = program_of(kept, outputs)
    path = tmp_path_factory.mktemp("family") / "program.npz"
    program.save(path)
    back = Program.load(path)
    assert back.fingerprint == program.fingerprint
    assert type(back.family) is type(kept)
    identities = [np.eye(y.shape[1]) for y in outputs]
    assert back.objective(identities, np.zeros(0)) == program.objective(identities, np.zeros(0))
    assert named(back.family, back.family.everything()) == named(kept, kept.everything())


def test_fingerprint_tells_families_apart() -> None:
    y = [np.arange(4.0)[:, None]]
    changes: list[dict[str, Any]] = [
        {},
        {"weight": 0.25},
        {"labels": [0, 0, 1, 2]},
        {"target_pairs": [[0, 1]]},
        {"groups": [[0, 0, 0, 1]]},
    ]
    good: dict[str, Any] = {"target_pairs": [[0, 1], [1, 0]], "labels": [0, 0, 1, 1]}
    prints = {program_of(Impostors.of(**{**good, **c}), y).fingerprint for c in changes}
    assert len(prints) == len(changes)
    by_tree = program_of(Impostors.of(**good, search="tree"), y)
    assert by_tree.fingerprint == program_of(Impostors.of(**good), y).fingerprint


@settings(max_examples=40, deadline=None)
@given(instances(), st.integers(0, 2**31))
def test_restricted_program_says_the_same(
    instance: tuple[Impostors, list[Array]], seed: int
) -> None:
    """All rows written with their best slacks cost what the family costs."""
    family, outputs = instance
    program = program_of(family, outputs)
    rows = family.everything()
    if not rows.size:
        return
    rng = np.random.default_rng(seed)
    roots = [rng.standard_normal((y.shape[1], y.shape[1])) for y in outputs]
    matrices = [root.T @ root for root in roots]
    written = program.restricted(rows)
    slacks = np.maximum(hinges(family, rows, program.outputs(matrices)), 0.0)
    assert written.objective(matrices, slacks) == pytest.approx(
        program.objective(matrices, np.zeros(0)), rel=1e-9
    )
    q = written.measure(matrices)
    assert written.violations(q, slacks).max() <= 1e-9 * (1 + np.abs(q).max())
    # The dual slack of the written program is C + Σα(v_ij v_ijᵀ − v_il v_ilᵀ).
    alpha = rng.uniform(0, family.weight, rows.size)
    images = program.family_images(family.terms(rows), alpha)
    for block, image, slack in zip(
        program.blocks, images, written.dual_slacks(-alpha), strict=True
    ):
        assert np.allclose(block.cost.dense() + image, slack, atol=1e-9)


def test_program_refuses_a_family_that_does_not_fit() -> None:
    family = Impostors.of([[0, 1]], [0, 0, 1], block_of=[0, 0, 1])
    y = np.arange(3.0)[:, None]
    with pytest.raises(InputError, match="more blocks"):
        program_of(family, [y])
    wide = Block.of(1, np.zeros((0, 4)), features=np.arange(4.0)[:, None])
    with pytest.raises(InputError, match="has 3 points"):
        Program.of([wide, wide], np.zeros(0), sense="min", family=family)
    block = Block.of(1, np.zeros((0, 3)), features=y)
    with pytest.raises(InputError, match="is a minimisation"):
        Program.of([block, block], np.zeros(0), sense="max", family=family)
    terms = family.terms(family.everything())
    with pytest.raises(InputError, match="no family"):
        Program.of(Block.of(1, [[1.0]]), [1.0]).family_images(terms, np.ones(1))
    with pytest.raises(InputError, match="family"):
        Program.of(Block.of(1, [[1.0]]), [1.0]).restricted(family.everything())


@pytest.mark.parametrize("seed", range(5))
def test_best_scale_is_the_best(seed: int) -> None:
    family, y = clouds(seed, 24, 2)
    # A coordinate that tells the classes apart, so that the best scale is not 0.
    y = np.c_[y, 3 * family.labels]
    t = best_scale(family, [y], 2.0)

    def value(t: float) -> float:
        return 2.0 * t + family.weight * family.hinge_sum([np.sqrt(t) * y])

    assert value(t) <= 1.05 * min(value(s) for s in np.geomspace(1e-4 * t, 1e4 * t, 400))


def test_no_start_at_zero() -> None:
    """Where no multiple of the identity helps, zero is the best scale and a dead end."""
    family, y = clouds(0, 24, 2)
    y[family.labels > 0] *= 0.1
    t = best_scale(family, [y], 1e6)
    assert t * np.square(y - y.mean(axis=0)).sum(axis=1).mean() == pytest.approx(0.1)


def test_ties_at_the_margin_are_found_or_not_but_never_half() -> None:
    """Whole numbers scaled by roots tie with the margin to the last digit, in any order of sums."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(1, 6, (300, 4)).astype(float), rng.integers(0, 3, 300)
    family = Impostors.of(LMNN(X, y).target_pairs, y)
    for t in (1 / 3, 0.1, 0.7, 1 / 7):
        outputs = [np.sqrt(t) * X]
        rows = family.near(outputs, 0.0)
        assert rows.size
        assert family.has(rows).all()
