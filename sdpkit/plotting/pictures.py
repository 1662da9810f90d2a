"""Pictures of embeddings, metrics, ellipsoids and comparisons, drawn by matplotlib.

matplotlib is imported on first use and is an extra: pip install 'sdpkit[plot]'.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdpkit.errors import InputError, SdpkitError
from sdpkit.files import replacing
from sdpkit.plotting.drawn import (
    DrawnComparison,
    DrawnEllipsoid,
    DrawnEmbedding,
    DrawnMetric,
    DrawnProgram,
    DrawnQueryMetrics,
    DrawnRun,
    DrawnSolution,
    DrawnTrajectory,
)
from sdpkit.plotting.style import COLORS, MARKERS, SIGNED, settings
from sdpkit.typing import Array


def _require_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise SdpkitError("plots need matplotlib: pip install 'sdpkit[plot]'")


def _save(figure: Any, path: str | Path) -> None:
    """Write the picture, in the format that its name ends in."""
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format=Path(path).suffix[1:] or "png")


def new_figure(width: float, height: float) -> Any:
    """A figure of that many inches that is only written to files."""
    _require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _axes(ax: Any) -> Any:
    """`ax`, or new axes in a new figure."""
    if ax is not None:
        return ax
    _require_matplotlib()
    import matplotlib
    import matplotlib.pyplot as plt

    with matplotlib.rc_context(settings()):
        return plt.figure().add_subplot()


def plot_embedding(
    embedding: DrawnEmbedding, ax: Any = None, *, color: Any = None, tension: bool = True
) -> Any:
    """Draw the first two coordinates with their edges.

    An edge's colour is the multiplier of its length: orange edges are stretched and hold the
    unfolding back, purple edges are compressed, thin pale ones could be left out.

    Parameters
    ----------
    embedding : Embedding
        What to draw.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.
    color : array-like or color, default None
        Colours of the points, as matplotlib's `scatter` takes them.
    tension : bool, default True
        Whether to colour the edges by their multipliers.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> problem = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> embedding = problem.recover(sdpkit.solve(problem), n_components=2)
    >>> ax = plot_embedding(embedding, Figure().add_subplot(), tension=False)
    >>> len(ax.collections)                     # the edges and the points
    2
    """
    _require_matplotlib()
    from matplotlib.collections import LineCollection
    from matplotlib.colors import SymLogNorm

    ax = _axes(ax)
    y = embedding.coordinates
    flat = np.c_[y, np.zeros(len(y))][:, :2]
    edges = LineCollection(list(flat[embedding.edges]), linewidths=1.0, alpha=0.7, zorder=1)
    if tension and embedding.tensions is not None and embedding.tensions.size:
        largest = float(np.abs(embedding.tensions).max()) or 1.0
        edges.set_array(embedding.tensions)
        # Edges of large tension are wide, so that they can be seen in grey print.
        widths = 0.6 + 2.4 * np.sqrt(np.abs(embedding.tensions) / largest)
        edges.set_linewidth(widths.tolist())
        edges.set_cmap(SIGNED)
        edges.set_norm(SymLogNorm(largest / 10, vmin=-largest, vmax=largest))
        ax.add_collection(edges)
        ax.figure.colorbar(edges, ax=ax, label="tension of the edge", fraction=0.05)
    else:
        edges.set_color("0.8")
        ax.add_collection(edges)
    size = 5 if tension and color is None else 12  # either the edges are shown, or the points
    ax.scatter(*flat.T, c="0.2" if color is None else color, s=size, zorder=2)
    ax.set_aspect("equal")
    ax.set_title(f"output, fidelity {embedding.fidelity:.3f}")
    return ax


def plot_labelled(
    embedding: DrawnEmbedding, labels: ArrayLike | None, ax: Any = None, *, edges: bool = True
) -> Any:
    """Draw the first two coordinates with a colour and a mark for each label.

    Labels that are many different numbers are shown by a scale of colours.

    Parameters
    ----------
    embedding : Embedding
        What to draw.
    labels : array-like of shape (n,) or None
        A label or a number for each point; None draws all points alike.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.
    edges : bool, default True
        Whether to draw the edges of the graph.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> problem = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> embedding = problem.recover(sdpkit.solve(problem), n_components=2)
    >>> ax = plot_labelled(embedding, list("aabbb"), Figure().add_subplot())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['a', 'b']
    """
    _require_matplotlib()
    from matplotlib.collections import LineCollection

    ax = _axes(ax)
    y = embedding.coordinates
    flat = np.c_[y, np.zeros(len(y))][:, :2]
    if edges:
        lines = LineCollection(list(flat[embedding.edges]), colors="0.85", linewidths=0.7, zorder=1)
        ax.add_collection(lines)
    words = np.zeros(len(y), dtype=int) if labels is None else np.asarray(labels)
    kinds = np.unique(words)
    if kinds.size > len(COLORS) * 3 and words.dtype.kind in "iuf":
        shown = ax.scatter(*flat.T, c=words, s=14, zorder=2)
        ax.figure.colorbar(shown, ax=ax, fraction=0.05)
    else:
        for k, kind in enumerate(kinds):
            style = {"color": COLORS[k % len(COLORS)], "marker": MARKERS[k % len(MARKERS)]}
            ax.scatter(*flat[words == kind].T, s=14, zorder=2, label=str(kind), **style)
        if kinds.size > 1:
            ax.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    ax.set_aspect("equal")
    ax.set_title(f"fidelity {embedding.fidelity:.3f}")
    return ax


def plot_spectrum(
    eigenvalues: ArrayLike, ax: Any = None, *, n_shown: int = 10, variance: float | None = None
) -> Any:
    """Draw eigenvalues as shares of the trace.

    Parameters
    ----------
    eigenvalues : array-like of shape (k,)
        Eigenvalues in any order; negative ones count as zero.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.
    n_shown : int, default 10
        How many are drawn.
    variance : float or None, default None
        The trace; None takes the sum of the eigenvalues.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> bars = plot_spectrum([3.0, 1.0], Figure().add_subplot()).patches
    >>> [float(bar.get_height()) for bar in bars]
    [0.75, 0.25]
    """
    ax = _axes(ax)
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1].clip(min=0)
    shares = values[:n_shown] / (variance or values.sum() or 1.0)
    ax.bar(np.arange(1, shares.size + 1), shares)
    ax.set_xticks(np.arange(1, shares.size + 1))
    ax.set(xlabel="eigenvalue", ylabel="share of the trace", ylim=(0, 1))
    return ax


def plot_unfolding(
    X: Array, embedding: DrawnEmbedding, path: str | Path, *, color: Any = None, title: str = ""
) -> None:
    """Draw input, output and both spectra to a picture file.

    Parameters
    ----------
    X : array of shape (n, D)
        The input points.
    embedding : Embedding
        The output.
    path : str or path
        The picture file; its suffix chooses the format.
    color : array-like or color, default None
        Colours of the points, as matplotlib's `scatter` takes them.
    title : str, default ""
        The title of the figure.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import sdpkit
    >>> picture = Path(tempfile.mkdtemp()) / "picture.png"
    >>> problem = sdpkit.MVU(X := sdpkit.datasets.swiss_roll(20), n_neighbors=4)
    >>> plot_unfolding(X, problem.recover(sdpkit.solve(problem)), picture)
    >>> picture.exists()
    True
    """
    figure = new_figure(11, 8)
    grid = figure.add_gridspec(3, 2, height_ratios=[1, 1, 1.4], width_ratios=[1.5, 1])
    before = figure.add_subplot(grid[:2, 0], projection="3d")
    shown = np.c_[X, np.zeros((len(X), 2))][:, :3]  # points of one or two dimensions lie flat
    before.scatter(*shown.T, c=color, s=10)
    before.set_title("input (first three dimensions)")
    centred = X - X.mean(axis=0)
    spectra = [
        ("spectrum of the input (PCA)", np.linalg.svd(centred, compute_uv=False) ** 2, None),
        ("spectrum of the output", embedding.eigenvalues, embedding.variance),
    ]
    for k, (name, values, variance) in enumerate(spectra):
        axes = figure.add_subplot(grid[k, 1])
        plot_spectrum(values, axes, variance=variance).set_title(name)
    plot_embedding(embedding, figure.add_subplot(grid[2, :]), color=color)
    figure.suptitle(title)
    _save(figure, path)


def plot_trajectory(trajectory: DrawnTrajectory, ax: Any = None, *, name: str | None = None) -> Any:
    """Plot one of the numbers that a problem follows, step by step.

    Parameters
    ----------
    trajectory : Trajectory
        The steps of a solve of several programs.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.
    name : str or None, default None
        Which number; None takes the fidelity where there is one, and else the objective.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    InputError
        If the problem does not follow a number of that name.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> problem = sdpkit.MVE(graph=sdpkit.datasets.star_graph(5, 2))
    >>> ax = plot_trajectory(sdpkit.solve(problem).trajectory, Figure().add_subplot())
    >>> ax.get_ylabel()
    'fidelity'
    """
    ax = _axes(ax)
    if name is None:
        name = "fidelity" if "fidelity" in trajectory.progress else "objective"
    if name not in trajectory.progress:
        raise InputError(
            f"there is no {name!r} to plot; there are {', '.join(trajectory.progress)}"
        )
    values = trajectory.progress[name]
    ax.plot(np.arange(1, values.size + 1), values, marker="o")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="program", ylabel=name, title=f"ended: {trajectory.reason}")
    return ax


def plot_comparison(
    embeddings: Mapping[str, DrawnEmbedding],
    path: str | Path,
    *,
    trajectory: DrawnTrajectory | None = None,
    color: Any = None,
    title: str = "",
) -> None:
    """Draw several embeddings of the same points side by side, to a picture file.

    Below each is its spectrum; with a trajectory, the fidelity of its steps follows.

    Parameters
    ----------
    embeddings : mapping
        Name → embedding, one column each.
    path : str or path
        The picture file; its suffix chooses the format.
    trajectory : Trajectory or None, default None
        The steps of a solve of several programs.
    color : array-like or color, default None
        Colours of the points, as matplotlib's `scatter` takes them.
    title : str, default ""
        The title of the figure.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import sdpkit
    >>> picture = Path(tempfile.mkdtemp()) / "picture.png"
    >>> problem = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5))
    >>> embedding = problem.recover(sdpkit.solve(problem), n_components=2)
    >>> plot_comparison({"MVU": embedding}, picture)
    >>> picture.exists()
    True
    """
    n_rows = 2 if trajectory is None else 3
    figure = new_figure(4.5 * len(embeddings), 3.5 * n_rows)
    grid = figure.add_gridspec(n_rows, len(embeddings))
    for k, (name, embedding) in enumerate(embeddings.items()):
        ax = plot_embedding(embedding, figure.add_subplot(grid[0, k]), color=color, tension=False)
        ax.set_title(f"{name}, fidelity {embedding.fidelity:.3f}")
        plot_spectrum(embedding.eigenvalues, figure.add_subplot(grid[1, k]))
    if trajectory is not None:
        plot_trajectory(trajectory, figure.add_subplot(grid[2, :]))
    figure.suptitle(title)
    _save(figure, path)


def plot_metric(metric: DrawnMetric, ax: Any = None) -> Any:
    """Draw training points and the ellipse of distance one of each metric.

    Points are shown in their first two dimensions; an ellipse is centred at the mean of its points.

    Parameters
    ----------
    metric : Metric
        A learned metric.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> import numpy as np
    >>> X, y = np.array([[0, 0], [0, 1], [3, 0], [3, 1.0]]), [0, 0, 1, 1]
    >>> metric = sdpkit.Metric.from_components([[1.0, 0.0], [0.0, 0.2]], X, y)
    >>> len(plot_metric(metric, Figure().add_subplot()).lines)     # ellipse and long axis
    2
    """
    ax = _axes(ax)
    shown = metric.X[:, :2]
    ax.scatter(*shown.T, c=metric.labels, s=12, cmap="viridis")
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.vstack([np.cos(angle), np.sin(angle)])
    for block, matrix in enumerate(metric.matrices):
        values, vectors = np.linalg.eigh(matrix[:2, :2])
        # Along a direction of weight zero the ellipse is unbounded: cut it at the picture's size.
        floor = 1.0 / max(float(np.ptp(shown)) ** 2, np.finfo(float).tiny)
        axes = vectors / np.sqrt(np.maximum(values, floor))
        centre = shown[metric.block_of == block].mean(axis=0)
        ax.plot(*(centre[:, None] + axes @ circle), color="0.3", linewidth=1.0)
        ax.plot(*np.c_[centre, centre + axes[:, 1]], color="0.3", linewidth=1.0)
    ax.set_aspect("equal")
    return ax


def plot_metrics(metrics: Sequence[DrawnMetric], path: str | Path, titles: list[str]) -> None:
    """Draw several metrics side by side to a picture file.

    Parameters
    ----------
    metrics : sequence of Metric
        Learned metrics.
    path : str or path
        The picture file; its suffix chooses the format.
    titles : list of str
        One title per metric.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import sdpkit
    >>> picture = Path(tempfile.mkdtemp()) / "picture.png"
    >>> X, y = np.array([[0, 0], [0, 1], [3, 0], [3, 1.0]]), [0, 0, 1, 1]
    >>> metric = sdpkit.Metric.from_components([[1.0, 0.0], [0.0, 0.2]], X, y)
    >>> plot_metrics([metric], picture, ["a metric"])
    >>> picture.exists()
    True
    """
    figure = new_figure(4.2 * len(metrics), 4.4)
    for k, (metric, title) in enumerate(zip(metrics, titles, strict=True)):
        plot_metric(metric, figure.add_subplot(1, len(metrics), k + 1)).set_title(title)
    _save(figure, path)


def plot_ellipses(
    ellipsoids: Iterable[DrawnEllipsoid], X: ArrayLike | None = None, ax: Any = None
) -> Any:
    """Draw ellipsoids in the first two dimensions over points.

    In more dimensions the projection of an ellipsoid is drawn, which covers the projections of the
    points.

    Parameters
    ----------
    ellipsoids : iterable of Ellipsoid
        What to draw.
    X : array-like of shape (n, d) or None, default None
        Points to draw too.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> X = [[0, 0], [2, 0], [0, 2], [2, 2.0]]
    >>> problem = sdpkit.CoveringEllipsoid(X)
    >>> ellipsoid = problem.recover(sdpkit.solve(problem))
    >>> len(plot_ellipses([ellipsoid], X, Figure().add_subplot()).lines)
    1
    """
    ax = _axes(ax)
    if X is not None:
        ax.scatter(*np.asarray(X, dtype=np.float64)[:, :2].T, s=12, color="0.2")
    for ellipsoid in ellipsoids:
        if ellipsoid.center.size < 2:
            raise InputError("the ellipsoid has one dimension: an ellipse needs at least two")
        _draw_ellipse(ax, ellipsoid.center[:2], ellipsoid.radius * ellipsoid.shape[:2, :2])
    ax.set_aspect("equal")
    return ax


def plot_query_metrics(
    metrics: DrawnQueryMetrics, X: ArrayLike, labels: ArrayLike | None = None, ax: Any = None
) -> Any:
    """Draw the queries' unit circles over the training points, in the first two dimensions.

    All circles are drawn in one scale: a tenth of the picture for the largest.

    Parameters
    ----------
    metrics : QueryMetrics
        The metrics, with their queries.
    X : array-like of shape (n, d)
        Training points.
    labels : array-like of shape (n,) or None, default None
        Numbers that colour the points.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> import numpy as np
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), [0, 1] * 20
    >>> metrics = sdpkit.QueryMetric().fit(X, y).metrics(X[:3])
    >>> len(plot_query_metrics(metrics, X, y, Figure().add_subplot()).lines)
    3
    """
    ax = _axes(ax)
    points = np.asarray(X, dtype=np.float64)[:, :2]
    ax.scatter(
        *points.T,
        c="0.6" if labels is None else labels,
        s=10,
        cmap=None if labels is None else "viridis",
    )
    floor = 1e-3 * float(metrics.weights.max())
    inverses = np.linalg.inv(metrics.matrices + floor * np.eye(metrics.queries.shape[1]))[:, :2, :2]
    largest = float(np.linalg.eigvalsh(inverses)[:, -1].max())
    scale = (0.1 * float(np.ptp(points))) ** 2 / largest
    for query, inverse in zip(metrics.queries, inverses, strict=True):
        _draw_ellipse(ax, query[:2], scale * inverse)
    ax.scatter(*metrics.queries[:, :2].T, s=14, marker="x", color=COLORS[3])
    ax.set_aspect("equal")
    return ax


def _draw_ellipse(ax: Any, center: Array, shape: Array) -> None:
    """{z : zᵀ shape⁻¹ z = 1} around the centre."""
    angle = np.linspace(0, 2 * np.pi, 200)
    values, vectors = np.linalg.eigh(shape)
    ring = (vectors * np.sqrt(values.clip(min=0.0))) @ np.vstack([np.cos(angle), np.sin(angle)])
    ax.plot(*(center[:, None] + ring), color=COLORS[3], linewidth=1.0)


def plot_positions(true: ArrayLike, inferred: ArrayLike, ax: Any = None) -> Any:
    """Draw true positions in the plane, each joined to its inferred position.

    Parameters
    ----------
    true : array-like of shape (n, 2)
        True positions.
    inferred : array-like of shape (n, 2)
        Inferred positions.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().add_subplot()
    >>> ax = plot_positions([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.1], [1.0, 0.1]], ax)
    >>> ax.get_title()
    'mean error 0.1'
    """
    _require_matplotlib()
    from matplotlib.collections import LineCollection

    x, y = np.asarray(true, dtype=np.float64), np.asarray(inferred, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 2 or x.shape[1] != 2:
        raise SdpkitError(f"positions have shapes {x.shape} and {y.shape}: pass (n, 2) twice")
    ax = _axes(ax)
    ways = LineCollection(list(np.stack([x, y], axis=1)), colors=COLORS[3], linewidths=0.8)
    ax.add_collection(ways)
    ax.scatter(*x.T, s=6, color="0.2", label="true", zorder=2)
    ax.scatter(*y.T, s=6, color=COLORS[3], label="inferred", zorder=2)
    ax.set_aspect("equal")
    ax.set_title(f"mean error {np.linalg.norm(x - y, axis=1).mean():.3g}")
    ax.legend(loc="best")
    return ax


def plot_distances(solution: DrawnSolution, ax: Any = None) -> Any:
    """Plot how far an engine that projects was from each set, round by round.

    Parameters
    ----------
    solution : Solution
        A solution by such an engine.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    InputError
        If the solver recorded no distances.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> from sdpkit.testing.programs import wedge
    >>> solution = sdpkit.solve(wedge(angle=0.5), solver="alternating")
    >>> plot_distances(solution, Figure().add_subplot()).get_xlabel()
    'iteration'
    """
    _require_matplotlib()
    names = [name for name in _columns(solution) if name.startswith("distance")]
    if not names:
        raise InputError(
            f"{solution.solver} records no distances to the sets: solve with 'projection' or "
            "another engine that projects"
        )
    ax = _axes(ax)
    for name in names:
        rows = [row for row in solution.history if row.get(name, 0.0) > 0]
        ax.plot([row["iteration"] for row in rows], [row[name] for row in rows], label=name)
    ax.set(xlabel="iteration", ylabel="distance", yscale="log", xscale="log")
    ax.set_title(f"{solution.solver}: {solution.status}")
    ax.legend(loc="best")
    return ax


def plot_convergence(solution: DrawnSolution, ax: Any = None) -> Any:
    """Plot the certified gap and the residuals of a solve, iteration by iteration.

    Parameters
    ----------
    solution : Solution
        A solution with a history.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    InputError
        If the solver recorded no progress.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> solution = sdpkit.solve(sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)), "interior")
    >>> plot_convergence(solution, Figure().add_subplot()).get_yscale()
    'log'
    """
    ax = _axes(ax)
    shown = [name for name in _PROGRESS if name in _columns(solution)]
    lines = {name: _positive(solution, name) for name in shown}
    if not any(len(iterations) for iterations, _ in lines.values()):
        raise InputError(
            f"{solution.solver} records no progress to plot: solve with one of sdpkit's engines, "
            "'interior' for example"
        )
    for k, (name, (iterations, values)) in enumerate(lines.items()):
        if len(iterations):
            marker = MARKERS[k] if len(iterations) < 60 else None
            ax.plot(iterations, values, marker=marker, label=_PROGRESS[name])
    ax.set(xlabel="iteration", yscale="log", title=f"{solution.solver}: {solution.status}")
    ax.legend(loc="best")
    return ax


_PROGRESS = {
    "gap": "certified relative gap",
    "primal_residual": "primal residual",
    "dual_residual": "dual residual",
}


def _positive(solution: DrawnSolution, name: str) -> tuple[list[float], list[float]]:
    """Iterations and values of a column of the history where a logarithm exists."""
    rows = [row for row in solution.history if 0 < row.get(name, 0.0) < np.inf]
    return [row["iteration"] for row in rows], [row[name] for row in rows]


def plot_multipliers(multipliers: ArrayLike, ax: Any = None, *, label: str = "multiplier") -> Any:
    """Plot multipliers of the constraints by size, positive and negative ones.

    The optimum would be the same without constraints of multiplier zero.

    Parameters
    ----------
    multipliers : array-like of shape (m,)
        One number per constraint.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.
    label : str, default "multiplier"
        The label of the vertical axis.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> len(plot_multipliers([2.0, -1.0, 0.0], Figure().add_subplot()).patches)
    2
    """
    ax = _axes(ax)
    w = np.sort(np.asarray(multipliers, dtype=np.float64))[::-1]
    ranks = np.arange(1, w.size + 1)
    for sign, name, style in ((1, "positive", "C0"), (-1, "negative", "C1")):
        chosen = sign * w > 0
        ax.bar(ranks[chosen], w[chosen], width=1.0, color=style, label=name)
    largest = float(np.abs(w).max()) if w.size else 0.0
    if largest > 0:
        ax.set_yscale("symlog", linthresh=1e-4 * largest)
        ax.legend(loc="best")
    ax.axhline(0.0, color="0.3", linewidth=0.8)
    ax.set(xlabel="constraints, sorted", ylabel=label)
    return ax


def plot_rows(program: DrawnProgram, ax: Any = None) -> Any:
    """Show which measurements each constraint contains, as a pattern of dots.

    Parameters
    ----------
    program : Program
        The program.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> program = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)).program()
    >>> plot_rows(program, Figure().add_subplot()).get_ylabel()
    'constraint'
    """
    ax = _axes(ax)
    rows, columns = program.rows_q.nonzero()
    size = max(0.5, min(4, 200 / max(program.n_rows, 1)))
    ax.plot(columns, rows, ls="", marker="s", markersize=size)
    ax.invert_yaxis()
    ax.set(xlabel="squared length", ylabel="constraint", title=program.name or "program")
    return ax


def plot_iterates(
    solution: DrawnSolution, ax: Any = None, *, coordinates: tuple[int, int] = (0, 1)
) -> Any:
    """Draw the path of a point between the sets, as in Weinberger (2007), figure 1.4.

    For programs of up to three numbers, solved by `alternating`, `gradient-projection` or
    `dykstra`: every round leaves the points before, between and after its projections. The lines
    of constraints in two numbers are drawn too, solid for equations, dashed for inequalities.

    Parameters
    ----------
    solution : Solution
        A solution by such an engine.
    ax : matplotlib.axes.Axes or None, default None
        Where to draw; None makes a new figure.
    coordinates : tuple of int, default (0, 1)
        The two numbers that are drawn.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import sdpkit
    >>> from matplotlib.figure import Figure
    >>> from sdpkit.testing.programs import wedge
    >>> solution = sdpkit.solve(wedge(angle=0.5), solver="alternating")
    >>> ax = plot_iterates(solution, Figure().add_subplot())
    >>> len(ax.lines) > 2                       # two constraints and the path
    True
    """
    _require_matplotlib()
    names = [name for name in _columns(solution) if name.startswith("p") and name.endswith("]")]
    if not names:
        raise InputError(
            "there are no iterates to draw: solve a program of up to three numbers with "
            "alternating, gradient-projection or dykstra"
        )
    ax = _axes(ax)
    stages = sorted({name.split("[")[0] for name in names})
    way = np.array(
        [[row[f"{s}[{j}]"] for j in coordinates] for row in solution.history for s in stages]
    )
    ax.plot(*way.T, color="0.5", linewidth=0.8, zorder=1)
    for k, stage in enumerate(stages):
        ax.scatter(*way[k :: len(stages)].T, s=14, label=_STAGES.get((stage, len(stages)), stage))
    if solution.program.matrix_rows.shape[1] + solution.program.n_auxiliary == 2:
        _draw_rows(solution.program, ax)
    ax.scatter(*way[-1], marker="*", s=90, color=COLORS[3], label="end", zorder=3)
    ax.set_aspect("equal")
    ax.legend(loc="best")
    return ax


_STAGES = {
    ("p0", 2): "on the constraints",
    ("p1", 2): "on the cone",
    ("p0", 3): "after the step",
    ("p1", 3): "on the constraints",
    ("p2", 3): "on the cone",
}


def _columns(solution: DrawnSolution) -> list[str]:
    return list(dict.fromkeys(name for row in solution.history for name in row))


def _draw_rows(program: DrawnProgram, ax: Any) -> None:
    """The lines aᵀz = b of a program in two numbers."""
    from scipy.sparse import hstack

    rows = np.asarray(hstack([program.matrix_rows, program.rows_x]).toarray())
    for a, b, relation in zip(rows, program.rhs, program.relations, strict=True):
        if a.any():
            foot, along = b * a / (a @ a), np.array([-a[1], a[0]])
            style = "-" if relation == 0 else "--"
            ax.axline(foot, foot + along, color=COLORS[0], linewidth=1.0, linestyle=style)


def draw(answer: Any, path: str | Path, labels: ArrayLike | None = None) -> None:
    """Draw an embedding, a metric or positions to a picture file.

    Parameters
    ----------
    answer : Embedding, Metric or array of shape (n, 2)
        What to draw.
    path : str or path
        The picture file; its suffix chooses the format.
    labels : array-like of shape (n,) or None, default None
        Labels or numbers by which the points of an embedding are coloured.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import sdpkit
    >>> picture = Path(tempfile.mkdtemp()) / "picture.png"
    >>> draw(np.array([[0.0, 0.0], [1.0, 1.0]]), picture)
    >>> picture.exists()
    True
    """
    figure = new_figure(6, 5)
    ax = figure.add_subplot()
    if hasattr(answer, "transform"):
        plot_metric(answer, ax)
    elif hasattr(answer, "coordinates") and labels is not None:
        plot_labelled(answer, labels, ax)
    elif hasattr(answer, "coordinates"):
        plot_embedding(answer, ax)
    else:
        positions = np.asarray(answer)
        ax.scatter(positions[:, 0], positions[:, 1], s=12)
        ax.set_aspect("equal")
    _save(figure, path)


def plot_runs(comparison: DrawnComparison, path: str | Path | None = None) -> Any:
    """Plot a comparison of solvers in three rows, one column per tolerance.

    The rows are seconds against n, the share of instances solved within a multiple of the best
    time, and gap against seconds.

    Parameters
    ----------
    comparison : Comparison
        The runs.
    path : str or path or None, default None
        A picture file to write as well.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> from sdpkit.comparison.records import RunRecord
    >>> from sdpkit.comparison.table import Comparison
    >>> words = ("", "ring", "mvu", 6, 6, "", "interior", "", 1e-6, 0, "cold", "optimal")
    >>> run = RunRecord(*words, success=True, claimed=True, gap=1e-8, total=0.02)
    >>> comparison = Comparison((run,), environment={}, instances=())
    >>> len(plot_runs(comparison).axes)
    3
    """
    runs = [run for run in comparison.runs if run.start == "cold"]
    tols = sorted({run.tol for run in runs}, reverse=True)
    solvers = list(dict.fromkeys(run.solver for run in runs))
    figure = _axes(None).figure if path is None else new_figure(5.5 * len(tols), 11)
    figure.clear()
    figure.set_size_inches(5.5 * len(tols), 11)
    axes = figure.subplots(3, len(tols), squeeze=False)
    for column, tol in enumerate(tols):
        tier = [run for run in runs if run.tol == tol]
        best = _best_times(tier)
        for k, name in enumerate(solvers):
            own = [run for run in tier if run.solver == name]
            good = [run for run in own if run.success]
            style = {"color": f"C{k % 10}", "label": name, "marker": "os^Dv"[k // 10 % 5]}
            axes[0, column].plot(
                [run.n for run in good], [run.total for run in good], ls="", **style
            )
            _plot_profile(axes[1, column], own, best, color=style["color"], label=name)
            reached = [run for run in own if 0 < run.gap < np.inf]
            axes[2, column].plot(
                [run.total for run in reached], [run.gap for run in reached], ls="", **style
            )
        axes[0, column].set(xlabel="n", ylabel="seconds, certified runs", title=f"tol {tol:g}")
        axes[1, column].set(xlabel="multiple of the best time", ylabel="share of instances")
        axes[2, column].set(xlabel="seconds", ylabel="certified relative gap")
        axes[2, column].axhline(tol, color="grey", lw=0.8)
        for row, ax in enumerate(axes[:, column]):
            if any(len(line.get_xdata()) for line in ax.lines if line.get_label() in solvers):
                ax.set_xscale("log")
                ax.set_yscale("log" if row != 1 else "linear")
    axes[1, -1].legend(fontsize="small")
    if path is not None:
        _save(figure, path)
    return figure


def _best_times(runs: list[DrawnRun]) -> dict[str, float]:
    """Instance → the least seconds in which it was solved."""
    best: dict[str, float] = {}
    for run in runs:
        if run.success:
            best[run.instance] = min(run.total, best.get(run.instance, np.inf))
    return best


def _plot_profile(ax: Any, runs: list[DrawnRun], best: dict[str, float], **style: Any) -> None:
    """The performance profile of one solver (Dolan and Moré 2002) over solved instances."""
    own = _best_times(runs)
    ratios = sorted(seconds / best[name] for name, seconds in own.items())
    if not ratios:
        return
    share = np.arange(1, len(ratios) + 1) / len(best)
    ax.step([*ratios, 10 * ratios[-1]], [*share, share[-1]], where="post", **style)


def plot_bars(
    groups: Mapping[str, Sequence[float]],
    names: Sequence[str],
    path: str | Path,
    *,
    label: str,
    line: float | None = None,
) -> None:
    """Draw groups of bars to a picture file: a group per key, a bar per name.

    Parameters
    ----------
    groups : mapping
        Group → one height per name.
    names : sequence of str
        What the bars of each group are.
    path : str or path
        The picture file; its suffix chooses the format.
    label : str
        The label of the vertical axis.
    line : float or None, default None
        A horizontal line at this height, such as a published value.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import sdpkit
    >>> picture = Path(tempfile.mkdtemp()) / "picture.png"
    >>> plot_bars({"wine": [2.6, 30.8]}, ["LMNN", "Euclidean"], picture, label="error in %")
    >>> picture.exists()
    True
    """
    figure = new_figure(1.6 * len(groups) + 3, 4.2)
    ax = figure.add_subplot()
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        places = np.arange(len(groups)) + (k - (len(names) - 1) / 2) * width
        ax.bar(places, [values[k] for values in groups.values()], 0.9 * width, label=name)
    if line is not None:
        ax.axhline(line, color="0.4", linewidth=1.0)
    ax.set_xticks(np.arange(len(groups)), list(groups))
    ax.set_title(label)
    ax.legend(fontsize="small")
    _save(figure, path)
