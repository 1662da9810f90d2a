"""Figures, measured: what the README and the docs say about speed comes from here.

Timings are ratios within one run, against a peer on the same instance or against one `eigh` of
the same size, because machines differ and are never idle. Every time counts only if the answer
was certified.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison import builders
from sdpkit.comparison.hosts import isolated
from sdpkit.comparison.measuring import arrays, timed, timed_solve
from sdpkit.comparison.parallel import in_parallel
from sdpkit.numerics.threads import one_blas_thread
from sdpkit.papers.entries.lecture import Fidelities, fidelities, lecture_sets, share
from sdpkit.program.form import Program
from sdpkit.results.embedding import gram
from sdpkit.results.quality import fidelity
from sdpkit.solution.solution import Solution

# Points of a first run before large ones: enough for every compiled kernel to be loaded.
_WARMING_SIZE = 650

# What a peer is given, where it knows a time limit.
_PEER_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Measurement:
    """One certified (or refused) solve: seconds, bytes above the import baseline, the answer;
    of sparse engines, products with the Hessian and entries per column of the factor."""

    seconds: float
    peak: float
    status: str
    objective: float
    gap: float
    iterations: int | None
    cpu: float = 0.0
    products: float = np.nan
    fill: float = np.nan


def roll_program(n: int, n_neighbors: int = 4, seed: int = 0, **options: Any) -> Program:
    """The reference instance: the 8-dimensional Swiss roll, d divided by its mean."""
    return builders.roll(n, n_neighbors, seed, **options).program()


def measure(program: Program, solver: str, **options: Any) -> Measurement:
    """Solve once, certificate included; times include all but building the program."""
    run = timed_solve(program, solver, **options)
    solution = run.result
    patterns = [block.pattern for block in program.blocks if block.is_large_graph]
    return Measurement(
        run.seconds,
        run.peak_bytes,
        str(solution.status),
        solution.objective,
        solution.certificate.relative_gap,
        solution.iterations,
        cpu=run.cpu_seconds,
        products=solution.history[-1].get("products", np.nan) if solution.history else np.nan,
        fill=sum(p.rows.size for p in patterns) / max(1, sum(p.n for p in patterns)),
    )


def measure_alone(n: int, solver: str, repeats: int = 1, **options: Any) -> Measurement:
    """The roll of n points in a separate process, so that its peak memory is known; the median."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        runs = pool.apply(_alone, (n, solver, repeats, options))
    median = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
    # The first run raises the peak; the others find the memory in place.
    return replace(median, peak=max(run.peak for run in runs))


def _alone(n: int, solver: str, repeats: int, options: dict[str, Any]) -> list[Measurement]:
    # Imports and first calls are not what is measured.
    measure(roll_program(_WARMING_SIZE if n > _WARMING_SIZE else 12), solver)
    program = roll_program(n, **options)
    return [measure(program, solver, time_limit=_PEER_LIMIT_SECONDS) for _ in range(repeats)]


@one_blas_thread
def eigh_seconds(n: int, repeats: int = 5) -> float:
    """Median CPU seconds of one `numpy.linalg.eigh` of a random n × n matrix, one thread."""
    a = np.random.default_rng(0).standard_normal((n, n))
    a = a + a.T
    runs = [timed(lambda: np.linalg.eigh(a)).cpu_seconds for _ in range(repeats)]
    return float(np.median(runs))


# -- tables ---------------------------------------------------------------------------------


def interior(sizes: Iterable[int] | None = None, peers: bool = True) -> None:
    """The `interior` engine on the Swiss roll, k = 4, equality, against its peers."""
    rows = []
    for n in sizes or (100, 400, 1000):
        unit = eigh_seconds(n)
        program = roll_program(n)
        repeats = 5 if n <= 200 else 3 if n <= 1000 else 1
        ours = measure_alone(n, "interior", repeats)
        m = program.n_rows
        allowed = 6 * n**2 + 3 * m**2
        rows.append((n, ours))
        print(
            f"n = {n}, {m} rows: interior {ours.seconds:.3g} s ({ours.cpu:.3g} s of CPU "
            f"= {ours.cpu / unit:.1f} × one numpy.linalg.eigh, one thread), "
            f"{ours.iterations} iterations, {ours.status}, gap {ours.gap:.1e}, "
            f"trace {ours.objective:.8g}, peak {ours.peak / 2**20:.0f} MiB "
            f"= {ours.peak / 8 / allowed:.2f} of 6n² + 3m² doubles",
            flush=True,
        )
        names = [*["csdp"] * (n <= 400), *["clarabel", "cvxopt"] * (n <= 100)]
        for name in names if peers else []:
            theirs = measure_alone(n, name, 1 if name == "clarabel" or n > 200 else repeats)
            print(
                f"    {name}: {theirs.seconds:.3g} s, {theirs.status}, gap {theirs.gap:.1e}: "
                f"interior is {theirs.seconds / ours.seconds:.0f} times faster",
                flush=True,
            )
    _print_growth(rows)


def _print_growth(rows: list[tuple[int, Measurement]]) -> None:
    """Fitted exponents of time and memory in n."""
    large = [(n, run) for n, run in rows if n >= 400]
    if len(large) < 2:
        return
    logs = np.log([n for n, _ in large])
    seconds = np.polyfit(logs, np.log([run.seconds for _, run in large]), 1)[0]
    memory = np.polyfit(logs, np.log([run.peak for _, run in large]), 1)[0]
    print(
        f"growth from n = {large[0][0]}: time ~ n^{seconds:.2f} (Cholesky of the m × m Schur "
        f"matrix, m ≈ 2.5 n, is cubic; iterations grow slowly), memory ~ n^{memory:.2f} (a handful "
        f"of n × n and m × m matrices)"
    )


def barrier(
    sizes: Iterable[int] | None = None,
    neighbors: Iterable[int] = (4,),
    seeds: Iterable[int] = (0,),
    tol: float = 1e-3,
    time_limit: float | None = None,
) -> None:
    """The `barrier` engine on the Swiss roll: against interior in all forms to a gap of 1e-4, and
    beyond 2000 points alone, equality and inequality, to `tol`, with the growth in n."""
    alone: dict[tuple[str, int], list[tuple[int, Measurement]]] = {}
    for k, seed, n in itertools.product(neighbors, seeds, sizes or (400, 1000, 2000, 5000, 10_000)):
        options = {"n_neighbors": k, "seed": seed, "connect": "components"}
        if n <= 2000:
            _against_interior(n, options)
            continue
        for form in ("equality", "inequality"):
            run = _barrier_alone(n, form, options, tol, time_limit)
            alone.setdefault((form, k), []).append((n, run))
    for (form, k), rows in alone.items():
        _print_sparse_growth(f"{form}, k = {k}", rows)


def _against_interior(n: int, options: dict[str, Any]) -> None:
    for form in ("equality", "inequality", "slack", "min_trace"):
        program = roll_program(n, form=form, **options)
        ours, theirs = (measure(program, name, tol=1e-4) for name in ("barrier", "interior"))
        apart = abs(ours.objective - theirs.objective) / abs(theirs.objective)
        agree = "agree" if apart <= ours.gap + theirs.gap else "DISAGREE"
        print(
            f"n = {n}, k = {options['n_neighbors']}, seed {options['seed']}, {form}: barrier "
            f"{ours.seconds:.3g} s ({ours.cpu:.3g} s of CPU), {ours.status}, gap {ours.gap:.1e}; "
            f"interior {theirs.seconds:.3g} s ({theirs.cpu:.3g}), {theirs.status}, gap "
            f"{theirs.gap:.1e}: ratio {theirs.cpu / ours.cpu:.2g}; values {agree} ({apart:.1e})",
            flush=True,
        )


def _barrier_alone(
    n: int, form: str, options: dict[str, Any], tol: float, time_limit: float | None
) -> Measurement:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        run: Measurement = pool.apply(_barrier_process, (n, form, options, tol, time_limit))
    print(
        f"n = {n}, k = {options['n_neighbors']}, seed {options['seed']}, {form}: barrier "
        f"{run.seconds:.3g} s ({run.cpu:.3g} s of CPU), {run.status}, gap {run.gap:.1e}, "
        f"peak {run.peak / 2**20:.0f} MiB; {run.iterations} Newton steps, {run.products:.0f} "
        f"products with the Hessian, {run.fill:.1f} entries a column of the factor",
        flush=True,
    )
    return run


def _barrier_process(
    n: int, form: str, options: dict[str, Any], tol: float, time_limit: float | None
) -> Measurement:
    measure(
        roll_program(20), "barrier", tol=1e-4
    )  # imports and first calls are not what is measured
    program = roll_program(n, form=form, **options)
    return measure(program, "barrier", tol=tol, time_limit=time_limit)


def _print_sparse_growth(what: str, rows: list[tuple[int, Measurement]]) -> None:
    """Fitted exponents in n of what a run costs, and of what explains it."""
    done = [(n, run) for n, run in rows if run.status == "optimal"]
    if len({n for n, _ in done}) < 2:
        return
    logs = np.log([n for n, _ in done])
    measures = {
        "time": [run.cpu for _, run in done],
        "memory": [run.peak for _, run in done],
        "products": [run.products for _, run in done],
        "fill": [run.fill for _, run in done],
    }
    power = {name: np.polyfit(logs, np.log(v), 1)[0] for name, v in measures.items()}
    print(
        f"growth, {what}: CPU time ~ n^{power['time']:.2f}, memory ~ n^{power['memory']:.2f}; "
        f"products ~ n^{power['products']:.2f}, each on ~ n^{1 + power['fill']:.2f} entries",
        flush=True,
    )


def forms(n: int = 400, n_angles: int = 200) -> None:
    """All four forms at n, and with angle closure, in multiples of the equality form's time."""
    for size, angles in ((n, False), (n_angles, True)):
        base = None
        for form in ("equality", "inequality", "slack", "min_trace"):
            program = roll_program(size, form=form, angles=angles)
            runs = [measure(program, "interior") for _ in range(3)]
            run = sorted(runs, key=lambda r: r.seconds)[1]
            base = base or run.seconds
            print(
                f"n = {size}{', angles' if angles else ''}, {program.n_rows} rows, {form}: "
                f"{run.seconds:.3g} s = {run.seconds / base:.2f} × equality, {run.iterations} "
                f"iterations, {run.status}, gap {run.gap:.1e}",
                flush=True,
            )


# -- minimum volume embedding ---------------------------------------------------------------


def mve(folder: Path | None = None) -> None:
    """Fidelity at d = 2 of kernel PCA, MVU and MVE, as in the last table of Jebara's
    lecture (topic 2 of his course; docs/bibliography.md).

    The star and the Swiss roll are made here, the twos are bundled with scikit-learn; the rest
    needs a folder with `netscience.npz` (X adjacency), `teapots100.npz` (X frames),
    `phylo_salamanders.npz` and `phylo_anoles.npz` (X tip-to-tip distances).
    """
    names = ("netscience", "teapots100", "phylo_salamanders", "phylo_anoles")
    data = {} if folder is None else {name: arrays(folder, name)["X"] for name in names}
    for name, published, given in lecture_sets(folder):
        words = ", ".join(f"{value:.1f}" for value in published)
        _print_fidelities(f"{name} (lecture {words} %)", **given)
    if not data:
        return
    adjacency = (data["netscience"] > 0).astype(np.float64)
    affinity = np.linalg.eigvalsh(gram(-2.0 * adjacency))[::-1]  # the centred adjacency matrix
    explained = fidelity(affinity.clip(min=0), 2)
    print(f"    kernel PCA of the network's adjacency matrix: {100 * explained:.1f} %", flush=True)
    for form in ("equality", "inequality"):
        frames = {"X": data["teapots100"], "n_neighbors": 4, "form": form}
        found = _print_fidelities(f"teapots, {form}", start="mvu", **frames)
        for word, (problem, solution, _) in (("MVU", found.mvu), ("MVE", found.mve)):
            coordinates = problem.recover(solution, 2).coordinates
            print(f"    {word}: order of the frames {_ring_order(coordinates)}")
    for name in ("phylo_salamanders", "phylo_anoles"):
        distances = data[name]
        tree = sdpkit.graphs.spanning_tree(distances=distances)
        for full in (False, True):
            words = f"{name}, spanning tree{', full' if full else ''}"
            _print_fidelities(words, distances=distances, graph=tree, full=full)


def _print_fidelities(name: str, **given: Any) -> Fidelities:
    """Print one row of the table and what the solves said."""
    found = fidelities(**given)
    print(f"{name}\n    kernel PCA {100 * found.kernel_pca:.1f} %")
    for word, solved in (("MVU", found.mvu), ("MVE", found.mve)):
        problem, solution, seconds = solved
        closest = problem.progress(solution).get("closest pair")
        print(
            f"    {word} {100 * share(solved):.2f} %, {solution.status}, {_programs(solution)}, "
            f"{seconds:.2g} s, gap {solution.certificate.relative_gap:.1e}"
            + ("" if closest is None else f", closest pair {closest:.9f} of its input")
            + "".join(f"; {note}" for note in solution.notes)
        )
    print(f"        {100 * found.of_bound:.2f} % of MVU's bound", flush=True)
    return found


def _programs(solution: Solution) -> str:
    n = 1 if solution.trajectory is None else len(solution.trajectory)
    return f"{n} program{'' if n == 1 else 's'}"


def _ring_order(coordinates: Any) -> str:
    """Whether the points run around the origin in the order of their indices."""
    n = len(coordinates)
    order = np.arctan2(coordinates[:, 1], coordinates[:, 0]).argsort()
    steps = np.unique(np.diff(order, append=order[0]) % n)
    return "exact" if steps.size == 1 and steps[0] in (1, n - 1) else "not kept"


def each(function: Callable[..., Any], items: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """The function's value for each of the arguments, in their order, by joblib."""
    from joblib import delayed

    tasks = (delayed(isolated)(function, *item) for item in items)
    return in_parallel(tasks, None, ordered=True)
