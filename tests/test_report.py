"""The report is opened in a real browser: what a reader does with it must work."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sdpkit
from sdpkit.cli.main import main
from sdpkit.comparison.records import Described, RunRecord
from sdpkit.comparison.report import VERDICTS, inline_json, page_data, verdict, write_report
from sdpkit.comparison.table import Comparison

EVIL = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>{{script}}"
SOLVERS = ("interior", "scs", "clarabel")
SIZES = {"roll-30": 30, "roll-100": 100, "roll-9": 9, EVIL: 4}


def made_up() -> Comparison:
    """24 runs: interior is right, scs claims too much, clarabel dies, hangs and is refused."""
    runs = []
    for instance, n in SIZES.items():
        for solver in SOLVERS:
            for tol in (1e-3, 1e-6):
                runs.append(_run(instance, n, solver, tol))
    instances = tuple(Described(name, "minimal", "mvu", f"about {name}", EVIL) for name in SIZES)
    return Comparison(tuple(runs), {"processor": "2 cores", "note": EVIL}, instances)


def _run(instance: str, n: int, solver: str, tol: float) -> RunRecord:
    seconds = n**1.5 * {"interior": 1e-3, "scs": 9e-3, "clarabel": 4e-3}[solver]
    run = RunRecord(
        suite="minimal",
        instance=instance,
        kind="mvu",
        n=n,
        n_rows=3 * n,
        fingerprint="f00d",
        solver=solver,
        solver_version="1.2.3",
        tol=tol,
        repeat=0,
        start="cold",
        outcome="optimal",
        success=True,
        claimed=True,
        message=EVIL,
        native_status="solved",
        objective=10.0,
        bound=10.0 + tol,
        gap=tol / 2,
        primal_residual=1e-9,
        dual_residual=0.0,
        iterations=12,
        compile=0.1 * seconds,
        setup=0.1 * seconds,
        solve=0.7 * seconds,
        certify=0.1 * seconds,
        total=seconds,
        peak=float(n * 2**20),
        time_limit=60.0,
        history=tuple({"iteration": k, "gap": 10.0**-k} for k in range(8)),
        coordinates=tuple((math.cos(k), math.sin(k)) for k in range(n)),
    )
    if solver == "scs" and tol == 1e-6:
        return replace(run, outcome="inaccurate", success=False, gap=1e-2)
    lost = {"roll-30": "crashed", "roll-100": "timeout", "roll-9": "refused"}
    if solver == "clarabel" and instance in lost:
        return replace(
            run,
            outcome=lost[instance],
            success=False,
            claimed=False,
            gap=math.nan,
            objective=math.nan,
            history=(),
            coordinates=None,
        )
    return run


# -- without a browser --------------------------------------------------------------------------


def test_verdicts_tell_a_lie_from_a_death() -> None:
    run = _run("roll-30", 30, "interior", 1e-3)
    assert verdict(run) == "certified"
    refuted = replace(run, success=False, outcome="inaccurate")
    assert verdict(refuted) == "lied"
    assert verdict(replace(refuted, claimed=False)) == "inaccurate"
    assert verdict(replace(refuted, claimed=False, outcome="timeout")) == "timeout"


def test_every_status_and_every_end_has_a_word() -> None:
    ends = ("crashed", "killed", "out_of_memory", "timeout", "refused", "error")
    unusual = {"optimal", "infeasible", "unbounded", "stationary", "interrupted"}
    statuses = {status.value for status in sdpkit.Status}
    assert (statuses - unusual) | set(ends) <= set(VERDICTS)
    marks = [(value.mark, value.label) for value in VERDICTS.values()]
    assert len(set(marks)) == len(marks)


def test_json_cannot_leave_its_script() -> None:
    text = inline_json({"a": EVIL, "b": [math.inf, -math.inf, math.nan, 1.5], "c": "\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": EVIL, "b": [None, None, None, 1.5], "c": "\u2028"}


def test_the_page_is_complete_and_loads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(made_up(), path)
    text = path.read_text(encoding="utf-8")
    assert "{{" not in re.sub(r"\\u[0-9a-f]{4}", "", text).replace("{{script}}", "")
    assert text.count("<script") == 2
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)
    data = page_data(made_up())
    assert len(data["runs"]) == 24
    assert [tier["certified"] for tier in data["summary"] if tier["solver"] == "scs"] == [4, 0]


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    with pytest.raises(sdpkit.InputError, match="no runs"):
        write_report(Comparison((), {}, ()), tmp_path / "report.html")


# -- in a browser -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    made_up().report(path)
    return path.as_uri()


class Reader:
    """A page, and everything that it complained about or asked for."""

    def __init__(self, browser: Any, address: str, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)

    def cells(self, column: int, table: str = "#runs-table") -> list[str]:
        found = self.page.locator(f"{table} tbody tr > :nth-child({column})").all_inner_texts()
        return [text.strip() for text in found]

    def column(self, title: str, table: str = "#runs-table") -> int:
        titles = self.page.locator(f"{table} thead th").all_inner_texts()
        return 1 + [text.strip() for text in titles].index(title)


@pytest.fixture
def reader(browser: Any, address: str) -> Iterator[Reader]:
    found = Reader(browser, address, viewport={"width": 1280, "height": 900})
    yield found
    assert found.complaints == []
    assert [url.split("#")[0] for url in found.requests] == [address]
    assert found.page.evaluate("window.pwned") is None
    found.context.close()


in_a_browser = pytest.mark.needs("chromium")


@in_a_browser
def test_everything_is_there(reader: Reader) -> None:
    page = reader.page
    assert page.locator("#runs-table tbody tr").count() == 24
    assert page.locator("#summary table").count() == 2
    assert page.locator("#instances li").count() == 4
    assert "sdpkit compare" in page.locator("#command").inner_text()
    assert "2 cores" in page.locator("#rerun").inner_text()
    assert "1.2.3" in page.locator("#rerun").inner_text()
    for name in ("time", "profile", "gap"):
        assert page.locator(f"#chart-{name} .dot").count() > 5
    assert page.locator("#chart-profile .curve").count() == 3


@in_a_browser
def test_failures_are_shown_as_what_they_are(reader: Reader) -> None:
    outcomes = [" ".join(text.split()) for text in reader.cells(reader.column("outcome"))]
    shown = {"✓ certified", "! not as claimed", "✗ crashed", "◷ timeout", "– not attempted"}
    assert set(outcomes) == shown
    assert outcomes.count("! not as claimed") == 4
    # Ten runs failed, on as many marks in the strip of failures.
    assert reader.page.locator("#chart-time .dot.open").count() == 10


@in_a_browser
@pytest.mark.parametrize(
    ("select", "value", "left"),
    [
        ("#filter-tol", "0.001", 12),
        ("#filter-instance", "roll-100", 6),
        ("#filter-outcome", "lied", 4),
        ("#filter-outcome", "crashed", 2),
        ("#filter-kind", "mvu", 24),
    ],
)
def test_selects_filter(reader: Reader, select: str, value: str, left: int) -> None:
    reader.page.select_option(select, value)
    assert reader.page.locator("#runs-table tbody tr").count() == left
    reader.page.click("#reset")
    assert reader.page.locator("#runs-table tbody tr").count() == 24


@in_a_browser
def test_solvers_and_words_filter_tables_and_charts(reader: Reader) -> None:
    page = reader.page
    page.click(".chip[data-solver=scs]")
    assert page.get_attribute(".chip[data-solver=scs]", "aria-pressed") == "false"
    assert set(reader.cells(reader.column("solver"))) == {"interior", "clarabel"}
    assert page.locator("#chart-profile .curve").count() == 2
    page.fill("#filter-text", "TIMEOUT clarabel")
    assert reader.cells(1) == ["roll-100", "roll-100"]
    assert page.locator("#count").inner_text() == "2 of 24 runs."
    page.fill("#filter-text", "no such word")
    assert page.locator("#runs-table tbody tr").count() == 0
    assert "No run passes" in page.locator("#charts").inner_text()


@in_a_browser
def test_sorting_is_numerical_and_said(reader: Reader) -> None:
    column = reader.column("n")
    head = reader.page.locator(f"#runs-table thead th:nth-child({column})")
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").focus()
    reader.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [int(text) for text in reader.cells(column)] == sorted(list(SIZES.values()) * 6)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert [int(text) for text in reader.cells(column)][:6] == [100] * 6
    assert reader.page.locator("#runs-table th[aria-sort=descending]").count() == 1


@in_a_browser
def test_unknown_numbers_sort_last_both_ways(reader: Reader) -> None:
    column = reader.column("gap")
    button = reader.page.locator(f"#runs-table thead th:nth-child({column}) button")
    for _ in range(2):
        button.click()
        assert reader.cells(column)[-6:] == ["–"] * 6
        assert "–" not in reader.cells(column)[:-6]


@in_a_browser
@pytest.mark.parametrize("name", ["time", "profile", "gap"])
def test_charts_answer_the_mouse_and_the_keyboard(reader: Reader, name: str) -> None:
    page = reader.page
    tip = page.locator("#tip")
    assert tip.is_hidden()
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    dot = page.locator(f"#chart-{name} .dot").first
    dot.scroll_into_view_if_needed()
    # Scrolling hides the tip, and says so a frame later.
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    dot.hover(force=True)
    assert tip.is_visible()
    assert any(solver in tip.inner_text() for solver in SOLVERS)
    assert re.search(r"\d", tip.inner_text())
    page.mouse.move(2, 2)
    assert tip.is_hidden()
    page.locator(f"#chart-{name}").focus()
    page.keyboard.press("ArrowRight")
    assert tip.is_visible()
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() != first
    page.keyboard.press("Escape")
    assert tip.is_hidden()


@in_a_browser
def test_an_instance_has_a_page_with_history_and_embeddings(reader: Reader) -> None:
    page = reader.page
    page.click("#instances a:has-text('roll-30')")
    page.wait_for_selector("h1:text-is('roll-30')")  # the page follows its address a moment later
    assert page.locator("h1").inner_text() == "roll-30"
    assert page.locator("#chart-history .curve").count() == 4
    assert page.locator("#embeddings figure").count() == 2
    assert page.locator("#embeddings figure").first.locator("circle").count() == 30
    assert "f00d" in page.locator("main").inner_text()
    page.go_back()
    assert page.locator("#runs-table tbody tr").count() == 24


@in_a_browser
def test_malicious_words_are_words(reader: Reader) -> None:
    page = reader.page
    assert page.locator(f"#instances h3 >> text={EVIL}").count() == 1
    page.locator("#instances a").first.click()
    page.wait_for_selector("#instance")
    page.locator("details").first.locator("summary").click()
    assert EVIL in page.locator("details p").first.inner_text()
    assert page.locator("main img, main script").count() == 0


@in_a_browser
@pytest.mark.parametrize("place", ["", "#instance/roll-100", "#instance/" + EVIL])
def test_a_phone_scrolls_one_way_only(browser: Any, address: str, place: str) -> None:
    phone = Reader(
        browser,
        address
        + place.replace(" ", "%20").replace("/", "%2F").replace("#instance%2F", "#instance/"),
        viewport={"width": 390, "height": 844},
        is_mobile=True,
        has_touch=True,
        color_scheme="dark",
    )
    width = phone.page.evaluate("document.documentElement.scrollWidth")
    assert width == 390
    assert phone.page.evaluate("window.innerWidth") == 390
    assert phone.page.locator("table").count() > 0
    assert phone.complaints == []
    phone.context.close()


@in_a_browser
def test_paper_shows_tables_and_no_controls(reader: Reader) -> None:
    page = reader.page
    page.emulate_media(media="print")
    assert page.locator("#filters").is_hidden()
    assert page.locator("header.top").is_hidden()
    assert page.locator("#runs-table tbody tr").last.is_visible()
    box, table = page.locator("#runs-table").bounding_box(), page.locator("#runs-table table")
    assert box is not None
    assert box["height"] >= (table.bounding_box() or {"height": math.inf})["height"] - 1
    assert page.pdf(format="A4").startswith(b"%PDF")


@in_a_browser
def test_colours_follow_the_system_and_the_button(browser: Any, address: str) -> None:
    reader = Reader(browser, address, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = reader.page.evaluate(colour)
    reader.page.click("#theme")
    light = reader.page.evaluate(colour)
    assert dark != light
    reader.page.click("#theme")
    assert reader.page.evaluate(colour) == dark
    reader.context.close()


def test_runs_that_were_all_warm_have_a_report(tmp_path: Path) -> None:
    comparison = sdpkit.compare(sdpkit.MVU(sdpkit.datasets.swiss_roll(12)), ["interior"])
    warm = replace(comparison, runs=tuple(replace(run, start="warm") for run in comparison.runs))
    warm.report(tmp_path / "report.html")
    assert "did best" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_start_that_there_is_not_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = sdpkit.compare(sdpkit.MVU(sdpkit.datasets.swiss_roll(12)), ["interior"])
    path = tmp_path / "runs.csv"
    comparison.to_csv(path)
    path.write_text(path.read_text().replace("cold", "tepid"))
    assert main(["report", str(path), "--html", str(tmp_path / "r.html")]) == 2
    assert "start 'tepid'" in capsys.readouterr().err
