"""What the first solve on a new installation costs: kernels are compiled, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import sdpkit

# What is solved, in a new process, and the seconds that compiling may add to it.
CASES = {
    "MVU, n = 200": (
        "sdpkit.solve(sdpkit.MVU(sdpkit.datasets.swiss_roll(200, random_state=0), n_neighbors=4))",
        0.0,
    ),
    "MVU, n = 2000": (
        "sdpkit.solve(sdpkit.MVU(sdpkit.datasets.swiss_roll(2000, noise_dims=5, noise=0.3, "
        "random_state=0), n_neighbors=4), tol=1e-3)",
        2.0,
    ),
    "LMNN, iris": ("sdpkit.solve(sdpkit.LMNN(*load_iris(return_X_y=True)))", 1.0),
    "covering ellipsoid": (
        "sdpkit.solve(sdpkit.CoveringEllipsoid("
        "np.random.default_rng(0).standard_normal((200, 5))))",
        1.5,
    ),
}
_PROCESS = """
import json, time
import numpy as np
from sklearn.datasets import load_iris
began, cpu = time.perf_counter(), time.process_time()
import sdpkit
solution = {command}
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
assert solution.status == "optimal", solution
print(json.dumps({{"wall": seconds, "cpu": cpu}}))
"""


def cold(rounds: int = 3) -> None:
    """First and second solve with an empty cache of kernels, the fastest of some rounds."""
    print("seconds of the first and the second process (processor in brackets), best of", rounds)
    for name, (command, goal) in CASES.items():
        pairs = [_first_and_second(command) for _ in range(rounds)]
        first, second = ({k: min(p[i][k] for p in pairs) for k in pairs[0][i]} for i in (0, 1))
        more = first["wall"] - second["wall"]
        print(
            f"{name}: first {first['wall']:.2f} ({first['cpu']:.2f}), second "
            f"{second['wall']:.2f} ({second['cpu']:.2f}), compiling adds {more:.2f} "
            f"({first['cpu'] - second['cpu']:.2f}), goal {goal:.1f}",
            flush=True,
        )


def _first_and_second(command: str) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        return [timed_process(command, Path(folder)) for _ in range(2)]


def timed_process(command: str, cache: Path) -> dict[str, float]:
    """Seconds, `wall` and `cpu`, of an expression in a new process that keeps its kernels in a
    folder."""
    package = Path(sdpkit.__file__).parents[1]
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", _PROCESS.format(command=command)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return {"wall": float(found["wall"]), "cpu": float(found["cpu"])}
