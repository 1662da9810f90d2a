"""`sdpkit prove FILE.dat-s --proof P`: a theorem about a program, and a file that anyone checks."""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

from sdpkit.cli.answers import check_places
from sdpkit.errors import ConvergenceWarning, InputError


def add_parser(commands: Any) -> None:
    """The options of the command."""
    parser = commands.add_parser(
        "prove",
        help="enclose the optimum of an SDPA file, and write the proof to a file",
        description="Solve the program of an SDPA file, prove bounds on its optimal value (or that "
        "it is infeasible or unbounded) in exact arithmetic, and write the proof. A checker of 300 "
        "lines that needs nothing but Python reads it.",
    )
    parser.add_argument("file", type=Path, help="a program in SDPA sparse format (.dat-s)")
    parser.add_argument(
        "--proof", type=Path, required=True, help="write the proof to this .json.gz"
    )
    parser.add_argument(
        "--solver", default="auto", help="one of `sdpkit solvers` (default auto: the cheapest)"
    )
    parser.add_argument("--tol", type=float, default=1e-8, help="of the solve (default 1e-8)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="limit of the solve")
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(chosen: argparse.Namespace) -> int:
    """Solve, prove, write, and say how to check."""
    from sdpkit.proof import check
    from sdpkit.solving.proving import prove_file

    check_places(chosen.force, chosen.proof, read=chosen.file)
    if not chosen.proof.name.endswith(".json.gz"):
        raise InputError(f"--proof {chosen.proof}: the name must end in .json.gz")
    if chosen.file.suffix != ".dat-s":
        raise InputError(
            f"{chosen.file}: expected an SDPA file .dat-s; for other programs use "
            "solution.certificate.save_proof in Python"
        )
    if not chosen.file.is_file():
        raise InputError(f"there is no file {chosen.file}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the theorem says what was reached
        proven = prove_file(chosen.file, chosen.solver, chosen.tol, chosen.time_limit)
    proof = proven.proof
    if proof is not None:
        proof.save(chosen.proof)
    if chosen.json:
        print(json.dumps(_as_data(proven, chosen.proof), ensure_ascii=False))
    elif proof is None:
        print(f"nothing was proven; the solver's answer: {proven.solution.message}")
    else:
        print(f"{proof}\nproof written to {chosen.proof}; check it with")
        print(f"  python {check.__file__} {chosen.proof}")
    return 1 if proof is None else 0


def _as_data(proven: Any, path: Path) -> dict[str, Any]:
    proof = proven.proof
    if proof is None:
        return {"theorem": None, "status": str(proven.solution.status)}
    ends = {name: None if v is None else float(v) for name, v in proof.ends.items()}
    return {
        "theorem": str(proof),
        "sha256": proof.sha256,
        "status": str(proven.solution.status),
        **ends,
        "proof": str(path),
    }
