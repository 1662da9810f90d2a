"""`sdpkit.look`: a table in, a picture with its diagnosis out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdpkit.errors import ConvergenceWarning, PictureWarning
from sdpkit.inputs import integer
from sdpkit.interfaces.embeddings import MaximumVarianceUnfolding
from sdpkit.looking.points import TablePoints, points_of_table
from sdpkit.results.diagnosis import Diagnosis
from sdpkit.typing import Array, Indices

# Rows that are unfolded; the others are placed among them.
_MOST_ROWS = 600


@dataclass(frozen=True, eq=False)
class Look:
    """A table unfolded, with everything that its page says.

    Attributes
    ----------
    points : TablePoints
        The points, labels and notes of the table.
    estimator : MaximumVarianceUnfolding
        The fitted estimator, with its certificate and `choices_`.
    rows : array of int, shape (m,)
        The rows that were unfolded: all, or a sample of a large table.
    coordinates : array of shape (n, n_components)
        Where every row of the table is drawn.
    diagnosis : Diagnosis
        What the picture shows and hides.
    notes : tuple of str
        What was decided on the way, one sentence each.
    source : str
        The name of the table.

    Examples
    --------
    >>> import sdpkit
    >>> seen = sdpkit.look(sdpkit.datasets.swiss_roll(60))
    >>> seen.coordinates.shape
    (60, 2)
    """

    points: TablePoints
    estimator: MaximumVarianceUnfolding
    rows: Indices
    coordinates: Array
    diagnosis: Diagnosis
    notes: tuple[str, ...]
    source: str

    @property
    def code(self) -> str:
        """The Python that makes the same picture from the points."""
        used = self.estimator
        k: Any = used.n_neighbors
        form: Any = used.form
        if "n_neighbors" in used.choices_:
            k = used.choices_["n_neighbors"].value
        if "form" in used.choices_:
            form = used.choices_["form"].value
        name = repr(self.source) if self.source else "table"
        rest = "" if len(self.rows) == len(self.coordinates) else "[seen.rows]"
        return (
            "import sdpkit\n\n"
            f"seen = sdpkit.look({name})  # the same in one step\n"
            f"X = seen.points.X{rest}\n"
            "model = sdpkit.estimators.MaximumVarianceUnfolding(\n"
            f"    n_components={used.n_components}, n_neighbors={k}, form={form!r},\n"
            f"    connect={used.connect!r}, prune={used.prune!r}, tol={used.tol:g}\n"
            ").fit(X)\n"
            "print(model.certificate_)\n"
            "print(model.diagnosis_)\n"
        )

    def write(self, path: str | Path) -> None:
        """Write the page: one HTML file that loads nothing.

        Parameters
        ----------
        path : str or Path
            The file; one that exists is replaced.
        """
        from sdpkit.files import replace_text
        from sdpkit.looking.page import page

        replace_text(Path(path), page(self))

    def __str__(self) -> str:
        chosen = [f"{name}: {one.reason}" for name, one in self.estimator.choices_.items()]
        wrong = [f"warning: {words}" for words in self.diagnosis.warnings]
        table = str(self.diagnosis).splitlines()
        numbers = table[: len(table) - len(wrong)]
        return "\n".join([*self.notes, *chosen, *numbers, *wrong])


def look(
    table: Any,
    labels: Any = None,
    *,
    n_neighbors: int | str = "auto",
    form: str = "auto",
    prune: str = "auto",
    connect: str = "auto",
    n_components: int = 2,
    max_rows: int = _MOST_ROWS,
    tol: float = 1e-3,
    time_limit: float | None = 60.0,
    verbose: int = 0,
) -> Look:
    """Unfold a table, whatever it is made of, and say what the picture is worth.

    Text columns become labels, categories or are left out; missing cells become the median of their
    column; columns of different units are scaled. Every such decision is in `notes`.

    Parameters
    ----------
    table : str, Path, DataFrame, mapping or array-like of shape (n, d)
        A file (.csv, .tsv, .npz, .npy; .xlsx and .parquet by pandas) or the table itself.
    labels : str, array-like of shape (n,) or None, default None
        The column of labels, or labels; None takes a column that looks like labels.
    n_neighbors : int or "auto", default "auto"
        Neighbours per point.
    form : {"auto", "equality", "inequality", "slack"}, default "auto"
        Whether lengths are kept or may shrink.
    prune : {"auto", "off"}, default "auto"
        Whether short-cuts are removed from the graph.
    connect : {"auto", "components", "bridge", "error"}, default "auto"
        What to do with a graph of several components.
    n_components : int, default 2
        Coordinates per point.
    max_rows : int, default 600
        So many rows of a larger table, evenly spread, are unfolded; the others are placed among
        them.
    tol : float, default 1e-3
        The certified relative gap.
    time_limit : float or None, default 60.0
        Seconds for the program.
    verbose : int, default 0
        1 shows the progress.

    Returns
    -------
    Look
        The picture, its diagnosis, and `write(path)` for a page.

    Examples
    --------
    >>> import sdpkit
    >>> roll = sdpkit.datasets.swiss_roll(80)
    >>> seen = sdpkit.look({"x": roll[:, 0], "y": roll[:, 1], "z": roll[:, 2]})
    >>> seen.points.columns
    ('x', 'y', 'z')
    """
    points = points_of_table(table, labels)
    n = len(points.X)
    limit = integer(max_rows, "max_rows", least=3)
    rows = np.arange(n) if n <= limit else np.linspace(0, n - 1, limit).round().astype(np.int64)
    notes = list(points.notes)
    if n > limit:
        notes.append(f"{limit} of {n} rows were unfolded, the others placed among them")
    model = MaximumVarianceUnfolding(
        n_components=min(n_components, len(rows)),
        n_neighbors=n_neighbors,  # type: ignore[arg-type]
        form=form,  # type: ignore[arg-type]
        prune=prune,  # type: ignore[arg-type]
        connect=connect,  # type: ignore[arg-type]
        tol=tol,
        time_limit=time_limit,
        verbose=verbose,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(points.X[rows])
    # The diagnosis and the certificate are shown as they are; other warnings become notes.
    shown = (PictureWarning, ConvergenceWarning)
    notes += [str(one.message) for one in caught if not issubclass(one.category, shown)]
    coordinates = model.embedding_
    if n > limit:
        coordinates = model.transform(points.X)
        coordinates[rows] = model.embedding_
    source = str(table) if isinstance(table, str | Path) else ""
    return Look(points, model, rows, coordinates, model.diagnosis_, tuple(notes), source)


__all__ = ["Look", "look"]
