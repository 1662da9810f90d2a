"""What notebooks show: cards, plots in one style, pictures that move."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import plotting
from sdpkit.errors import InputError

mpl = pytest.importorskip("matplotlib")
mpl.use("agg")


@pytest.fixture(scope="module")
def solution() -> sdpkit.Solution:
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(30), n_neighbors=4)
    return sdpkit.solve(problem, solver="interior")


@pytest.fixture
def ax() -> Any:
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def cells(card: str) -> list[list[str]]:
    """The table of a card; parsing it shows that it is well formed."""
    table = ElementTree.fromstring(card)
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_cards_tell_what_text_tells(solution: sdpkit.Solution) -> None:
    shown = dict(cells(solution._repr_html_()))
    assert shown["objective"] == f"{solution.objective:.9g}"
    assert shown["safe bound"] == f"{solution.certificate.safe_bound:.9g}"
    rows = cells(solution.certificate._repr_html_())
    assert ["certified relative gap", f"{solution.certificate.relative_gap:.2e}"] in rows
    assert cells(solution.program._repr_html_())[0] == ["maximise", "tr K"]


def test_a_card_says_why_an_answer_is_not_optimal() -> None:
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(30), n_neighbors=4)
    with pytest.warns(sdpkit.ConvergenceWarning):
        cut = sdpkit.solve(problem, solver="interior", max_iter=3)
    assert "iteration_limit by interior" in cut._repr_html_()
    assert "was not reached" in cut._repr_html_()


def test_cards_escape_what_users_wrote() -> None:
    card = plotting.card("<b>", [("a & b", "1 < 2")])
    assert cells(card) == [["a & b", "1 < 2"]]


def test_a_comparison_shows_its_means() -> None:
    problem = sdpkit.MVU(sdpkit.datasets.swiss_roll(12), n_neighbors=4)
    comparison = sdpkit.compare(problem, ["interior"], tols=[1e-4])
    head, row = cells(comparison._repr_html_())
    assert head[:3] == ["tolerance", "solver", "certified"]
    assert row[:3] == ["1e-04", "interior", "1 of 1"]


def test_plots_draw_what_they_name(solution: sdpkit.Solution, ax: Any) -> None:
    solution.plot(ax)
    gaps = ax.lines[0].get_ydata()
    assert list(gaps) == [row["gap"] for row in solution.history if 0 < row["gap"] < np.inf]
    assert ax.get_yscale() == "log"


def test_multipliers_and_rows_are_drawn(solution: sdpkit.Solution) -> None:
    from matplotlib.figure import Figure

    left, right = Figure().subplots(1, 2)
    solution.certificate.plot(left)
    assert len(left.patches) == np.count_nonzero(solution.certificate.multipliers)
    solution.program.plot(right)
    assert len(right.lines[0].get_xdata()) == solution.program.rows_q.nnz


def test_a_solver_without_history_is_refused(solution: sdpkit.Solution, ax: Any) -> None:
    quiet = sdpkit.solve(solution.program, solver="clarabel", tol=1e-4)
    with pytest.raises(InputError, match="records no progress"):
        quiet.plot(ax)


def test_the_style_can_be_read_in_grey_and_without_colour_vision() -> None:
    # Lightness (luma) of neighbours in the cycle differs, and so do their dashes.
    luma = [np.dot(mpl.colors.to_rgb(c), (0.299, 0.587, 0.114)) for c in plotting.COLORS]
    assert np.abs(np.diff(luma)).min() > 0.08
    cycle = list(plotting.settings()["axes.prop_cycle"])
    assert all(a["linestyle"] != b["linestyle"] for a, b in pairwise(cycle))


def test_plots_without_axes_use_the_style(solution: sdpkit.Solution) -> None:
    import matplotlib.pyplot as plt

    drawn = solution.plot()
    assert drawn.lines[0].get_color() == plotting.COLORS[0]
    assert not drawn.spines["top"].get_visible()
    plt.close("all")


def test_a_flipbook_shows_each_frame_once_and_has_a_still() -> None:
    book = plotting.flipbook(
        lambda figure, k: figure.text(0.5, 0.5, str(k)), 4, seconds=2, still=1, alt="a < b"
    )
    svg = ElementTree.fromstring(book.svg())
    images = [e for e in svg.iter() if e.tag.endswith("image")]
    assert len({e.get("href") for e in images}) == 4
    assert [e.get("class") for e in images] == ["f", "f still", "f", "f"]
    delays = [re.search(r"animation-delay:([\d.]+)s", e.get("style") or "") for e in images]
    assert [float(m[1]) for m in delays if m] == [0.0, 0.5, 1.0, 1.5]
    assert "prefers-reduced-motion" in book.svg()
    with pytest.raises(InputError, match="at least one frame"):
        plotting.flipbook(lambda figure, k: None, 0, alt="nothing")


def test_frames_of_a_parameter_carry_their_labels() -> None:
    book = plotting.flipbook(
        lambda figure, k: None, 2, labels=['k = "3"', "k = 4"], alt="two", figsize=(1, 1)
    )
    page = ElementTree.fromstring(book._repr_html_())
    assert json.loads(page.get("data-labels") or "") == ['k = "3"', "k = 4"]
    assert page.get("data-still") == "1"
    with pytest.raises(InputError, match="3 labels for 2 frames"):
        plotting.flipbook(lambda figure, k: None, 2, labels="abc", alt="two")


def test_an_edge_map_says_the_tension_of_every_edge() -> None:
    problem = sdpkit.MVU(graph=sdpkit.datasets.path_graph(4))
    embedding = problem.recover(sdpkit.solve(problem), n_components=1)
    drawn = plotting.edge_map(embedding, alt="a string <4>")
    page = ElementTree.fromstring(drawn._repr_html_())
    lines = [e for e in page.iter() if e.tag.endswith("line")]
    assert [round(float(e.get("data-tension") or 0), 2) for e in lines] == [1.5, 2.0, 1.5]
    assert drawn.sentences()[1] == (
        "Edge from point 1 to point 2: tension 2, stretched; number 1 of 3 by strength."
    )
    assert {e.get("class") for e in lines} == {"stretched"}
