"""Figures of the extensions of MVU: new points, large sets, sensor networks.

Like `bench.engines`, these print what the docs quote. Data that the package does not
hold come from a folder of npz files with an array X.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sdpkit
from sdpkit.comparison.measuring import Timed, arrays, median, quiet_solve, timed, timed_solve
from sdpkit.results.embedding import Embedding
from sdpkit.results.placement import place
from sdpkit.results.quality import relative_inconsistency
from sdpkit.typing import Array, Indices


def _seconds(action: Callable[[], object], repeats: int = 5) -> float:
    return median([timed(action) for _ in range(repeats)]).seconds


def _unfold(X: Array, n_components: int = 2) -> Embedding:
    problem = sdpkit.MVU(X, n_neighbors=4, connect="bridge")
    return problem.recover(quiet_solve(problem), n_components=n_components)


# -- new points ---------------------------------------------------------------------------------


def extension(data: Path | None = None, trials: int = 10) -> None:
    """Out-of-sample extension: speed, exactness, and consistency by eq. 3.34."""
    _extension_speed()
    _published_against_centred()
    print(
        "\ninconsistency relative to a new embedding (eq. 3.34), harmonic mean of", trials, "trials"
    )
    print(f"{'data':<22}{'map':<8}{'interp.':>8}{'sdp':>9}{'refined':>9}{'lle':>8}")
    for name, X in _extension_data(data):
        rows = np.array([_trial(X, seed) for seed in range(trials)])  # (trials, map, method)
        for k, kind in enumerate(("linear", "affine")):
            means = 1 / (1 / rows[:, k]).mean(axis=0)
            print(f"{name:<22}{kind:<8}" + "".join(f"{v:>8.2f} " for v in means), flush=True)
    print("\nslopes of the interpolation, in spacings of outputs per spacing of inputs")
    print(f"{'data':<22}{'beside inputs':>14}{'on segments':>13}{'least possible':>16}")
    for name, X in _extension_data(data):
        _slopes(name, X)


def _extension_speed(t: int = 20_000, k: int = 5, r: int = 2) -> None:
    rng = np.random.default_rng(0)
    anchors = rng.standard_normal((t, k, r))
    points = 3 * rng.standard_normal((t, r))
    exact = ((anchors - points[:, None]) ** 2).sum(axis=2)
    noisy = exact * rng.uniform(0.8, 1.2, exact.shape)
    found = place(anchors, noisy)
    gap = float(((found.objectives - found.bounds) / found.objectives).max())
    seconds = _seconds(lambda: place(anchors, noisy))
    print(f"{t} points at once, r = {r}, k = {k}: {t / seconds:.0f} points a second")
    print(f"    largest certified relative gap {gap:.1e}")
    alone = [place(anchors[i : i + 1], noisy[i : i + 1]).coordinates[0] for i in range(100)]
    same = np.array_equal(alone, found.coordinates[:100])
    print(f"    alone and in the batch the same to the last bit: {same}")
    error = float(np.abs(place(anchors, exact).coordinates - points).max())
    print(f"    exact distances: largest error {error:.1e}")
    problem = sdpkit.OutOfSample(anchors[0], np.sqrt(noisy[0]))
    for name in sorted({"interior", "csdp", "clarabel", "scs"} & {*sdpkit.available_solvers()}):
        solution = sdpkit.solve(problem, solver=name)
        once = _seconds(lambda name=name: sdpkit.solve(problem, solver=name))  # type: ignore[misc]
        apart = abs(solution.objective - found.objectives[0]) / found.objectives[0]
        print(
            f"    one point by {name}: {1e3 * once:.1f} ms, {solution.status}, objective "
            f"{apart:.1e} from the batch's, {once * t / seconds:.0f} times slower"
        )
    X = sdpkit.datasets.swiss_roll(1000 + t)
    embedding = Embedding(
        X[:1000, :2],
        np.ones(1000),
        np.zeros((0, 2), dtype=np.int64),
        None,
        np.zeros(1000, dtype=np.int64),
        sdpkit.graphs.SquaredDistances.from_points(X[:1000]),
    )
    for method in ("sdp", "interpolation"):
        whole = _seconds(lambda method=method: embedding.extend(X[1000:], method=method), 3)  # type: ignore[misc]
        print(f"    extend by {method!r}, 1000 inputs: {t / whole:.0f} points a second")


def _published_against_centred() -> None:
    """Exact distances, ever further from the origin: what each program returns."""
    rng = np.random.default_rng(1)
    print("\nexact distances, 5 neighbours around (a, 0): error of the new point")
    for far in (0.0, 1.0, 10.0, 100.0):
        centre = np.array([far, 0.0])
        anchors = centre + rng.standard_normal((5, 2))
        point = centre + 0.5 * rng.standard_normal(2)
        lengths = np.linalg.norm(anchors - point, axis=1)
        errors = []
        for variant in ("centred", "published"):
            problem = sdpkit.OutOfSample(anchors, lengths, variant=variant)
            solution = quiet_solve(problem, "clarabel", tol=1e-8)
            errors.append(float(np.linalg.norm(problem.recover(solution) - point)))
        print(f"    a = {far:<5g} centred {errors[0]:.1e}, as published {errors[1]:.1e}")


def _extension_data(data: Path | None) -> list[tuple[str, Array]]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    sets = [
        ("Swiss roll", sdpkit.datasets.swiss_roll(450)),
        ("digits, fives", digits.data[digits.target == 5].astype(np.float64)),
    ]
    if data is not None:
        mnist = arrays(data, "mnist")
        fives = mnist["X"][mnist["y"] == 5][:450]
        sets.append(("MNIST, fives", fives.astype(np.float64)))
        sets.append(("teapots", arrays(data, "teapots100")["X"].astype(np.float64)))
    return sets


def _trial(X: Array, seed: int) -> Array:
    """(2, 4): eq. 3.34 by linear and affine maps, for the four ways to extend."""
    third = len(X) // 3
    order = np.random.default_rng(seed).permutation(len(X))
    A, B, C = X[order[:third]], X[order[third : 2 * third]], X[order[2 * third :]]
    embedded = tuple(_unfold(np.vstack([part, C])).coordinates[third:] for part in (A, B))
    of_a, of_b = _unfold(A), _unfold(B)
    ways: tuple[dict[str, object], ...] = (
        {},
        {"method": "sdp"},
        {"method": "sdp", "refine": True},
        {"method": "lle"},
    )
    out = np.empty((2, len(ways)))
    for j, way in enumerate(ways):
        extended = tuple(e.extend(C, **way) for e in (of_a, of_b))  # type: ignore[arg-type]
        for i, affine in enumerate((False, True)):
            out[i, j] = relative_inconsistency(extended, embedded, affine=affine)  # type: ignore[arg-type]
    return out


def _slopes(name: str, X: Array, segments: int = 100, steps: int = 300) -> None:
    """The largest slopes of `extend` from inputs to points up to a tenth of a spacing away, and
    along segments between inputs; and the largest between inputs, which no map can avoid."""
    embedding = _unfold(X)
    inputs = embedding.inputs
    assert inputs is not None
    Y, n, rng = embedding.coordinates, len(X), np.random.default_rng(0)
    outputs = sdpkit.graphs.SquaredDistances.from_points(Y)
    spacing, scale = (
        float(np.median(np.sqrt(of.between(np.arange(n), of.neighbors(1)[:, 0]))))
        for of in (inputs, outputs)
    )
    beside = [0.0]
    for share in (1e-9, 1e-6, 1e-3, 0.1):
        way = rng.standard_normal(X.shape)
        step = share * spacing * way / np.linalg.norm(way, axis=1, keepdims=True)
        moved = np.linalg.norm(embedding.extend(X + step) - Y, axis=1)
        beside.append(float(moved.max()) / (share * scale))
    along = [0.0]
    for i, j in (rng.choice(n, 2, replace=False) for _ in range(segments)):
        path = embedding.extend(X[i] + np.linspace(0, 1, steps + 1)[:, None] * (X[j] - X[i]))
        moved = np.linalg.norm(np.diff(path, axis=0), axis=1) / np.linalg.norm(X[j] - X[i])
        along.append(float(moved.max()) * steps * spacing / scale)
    rows, columns = np.triu_indices(n, 1)
    squares = outputs.between(rows, columns) / inputs.between(rows, columns)
    least = float(np.sqrt(squares.max())) * spacing / scale
    print(f"{name:<22}{max(beside):>14.1f}{max(along):>13.1f}{least:>16.1f}", flush=True)


# -- large sets ---------------------------------------------------------------------------------


def variational(n: int = 10_000, n_neighbors: int = 6, n_basis: int = 10) -> None:
    """Variational MVU of a Swiss roll with little noise, as in figure 3.17."""
    X = sdpkit.datasets.swiss_roll(n, noise_dims=0)
    X = X + 0.05 * np.random.default_rng(1).standard_normal(X.shape)
    sizes: dict[str, Any] = {"n_neighbors": n_neighbors, "n_basis": n_basis}
    for basis in ("laplacian", "lle"):
        built = timed(partial(sdpkit.VariationalMVU, X, basis=basis, **sizes))
        problem = built.result
        solved = timed_solve(problem)
        solution = solved.result
        embedding = problem.recover(solution, n_components=2)
        fine = timed(partial(problem.refine, solution, n_components=2))
        total, cpu = _sums(built, solved, fine)
        print(
            f"{problem!r}\n    basis {basis}: graph and basis {built.seconds:.2f} s, program "
            f"{solved.seconds:.2f} s ({solution.status}, gap "
            f"{solution.certificate.relative_gap:.1e}), refinement {fine.seconds:.2f} s, "
            f"total {total:.2f} s ({cpu:.2f} s of processor)"
        )
        for name, outputs in (("program", embedding), ("refined", fine.result)):
            q = sdpkit.quality.evaluate(X, outputs.coordinates)
            print(
                f"    {name}: local continuity {q.local_continuity:.4f}, trust "
                f"{q.local_trust:.4f}, intersection {q.neighborhood_intersection:.4f}",
                flush=True,
            )


def _sums(*runs: Timed[Any]) -> tuple[float, float]:
    """Seconds by the clock and of processor of all runs together."""
    return sum(run.seconds for run in runs), sum(run.cpu_seconds for run in runs)


# -- sensor networks ----------------------------------------------------------------------------


def localization(data: Path | None, radius: float = 500.0) -> None:
    """The two networks of figures 3.19 and 3.20: cities (from `data`) and uniform points."""
    if data is not None:
        cities = arrays(data, "uscities")["X"][:1097].astype(np.float64)
        _network(f"1097 cities, radius {radius:g} km", cities, _within(cities, radius), 0.1, " km")
    points = np.random.default_rng(0).random((20_000, 2)) - 0.5
    near = _up_to(points, 20, 0.06)
    for noise in (0.0, 0.1):
        _network("20000 points in a unit square, up to 20 within 0.06", points, near, noise, "")


def _within(points: Array, radius: float) -> Indices:
    return sdpkit.graphs.neighborhood_graph(points, radius=radius).edges


def _up_to(points: Array, n_neighbors: int, radius: float) -> Indices:
    """The edges of the neighbourhood graph that are no longer than `radius`."""
    graph = sdpkit.graphs.neighborhood_graph(points, n_neighbors=n_neighbors)
    return graph.edges[graph.squared_lengths <= radius**2]


def _network(name: str, true: Array, edges: Indices, noise: float, unit: str) -> None:
    lengths = np.linalg.norm(true[edges[:, 0]] - true[edges[:, 1]], axis=1)
    measured = lengths * (1 + noise * np.random.default_rng(0).uniform(-1, 1, lengths.size))
    graph = sdpkit.NeighborhoodGraph(len(true), edges, measured**2)
    built = timed(lambda: sdpkit.Localization(graph))
    problem = built.result
    solved = timed_solve(problem)
    solution = solved.result
    refined = timed(lambda: problem.refine(solution))
    total, cpu = _sums(built, solved, refined)
    coarse = sdpkit.quality.position_errors(problem.recover(solution), true)
    fine = sdpkit.quality.position_errors(refined.result, true)
    print(
        f"{name}, {len(edges)} lengths, noise {noise:.0%}:\n"
        f"    program {built.seconds + solved.seconds:.2f} s "
        f"({solution.status}, gap {solution.certificate.relative_gap:.1e}), refinement "
        f"{refined.seconds:.2f} s, total {total:.2f} s ({cpu:.2f} s of processor)\n"
        f"    mean error "
        f"{coarse.mean():.3g}{unit}, refined {fine.mean():.3g}{unit} (largest {fine.max():.3g}"
        f"{unit})",
        flush=True,
    )
