"""`sdpkit demo`: unfold a Swiss roll and draw it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sdpkit.cli.answers import check_picture, check_places


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser("demo", help="unfold a Swiss roll and write a picture")
    parser.add_argument("--points", type=int, default=500, help="number of points (default 500)")
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("swiss_roll.png"),
        help="draw to this file (default swiss_roll.png)",
    )
    parser.add_argument("--force", action="store_true", help="replace a picture that exists")


def run(chosen: argparse.Namespace) -> int:
    """Print program, certificate and quality, write a picture."""
    import sdpkit
    from sdpkit.plotting import plot_unfolding

    check_places(chosen.force, chosen.picture)
    check_picture(chosen.picture)
    X, parameters = sdpkit.datasets.swiss_roll(chosen.points, return_parameters=True)
    problem = sdpkit.MVU(X, n_neighbors=5)
    print(f"{problem.program()}\n")
    solution = sdpkit.solve(problem)
    print(f"{solution!r}\n\n{solution.certificate}\n{solution.certificate.verify()}\n")
    embedding = problem.recover(solution, n_components=2)
    quality = sdpkit.quality.evaluate(X, embedding.coordinates)
    print(f"{embedding}\n{quality}")
    gap = solution.certificate.relative_gap
    title = f"Swiss roll, n = {chosen.points}: {solution.status}, gap {gap:.1e}"
    plot_unfolding(X, embedding, chosen.picture, color=parameters[:, 0], title=title)
    print(f"picture written to {chosen.picture}")
    return 0 if solution.status == "optimal" else 1
