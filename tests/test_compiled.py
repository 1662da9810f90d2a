"""Kernels: what they compute, where they are cached, and whose time their compilation takes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import sdpkit
from sdpkit.numerics import kernels as compiled
from sdpkit.numerics.kernels import Kernel, clock, fast_kernel, proof_kernel

_ROOT = Path(sdpkit.__file__).parents[1]
_NOTICE = "compiling numerical kernels"
_LMNN = """
import sdpkit
from sklearn.datasets import load_iris
solution = sdpkit.solve(sdpkit.LMNN(*load_iris(return_X_y=True)), time_limit=5.0)
"""
_BARRIER = """
import sdpkit
X = sdpkit.datasets.swiss_roll(60, noise_dims=5, noise=0.3, random_state=0)
problem = sdpkit.MVU(X, n_neighbors=4)
solution = sdpkit.solve(problem, solver="barrier", tol=1e-3, time_limit=5.0)
"""
# The first kernel takes longer to compile than the solves may.
_SLOWLY = """
import time
from sdpkit.numerics.kernels import Kernel
compiled = Kernel._compile
def slowly(self, cache):
    Kernel._compile = compiled
    time.sleep(6.0)
    return compiled(self, cache)
Kernel._compile = slowly
"""
_KERNEL = """
from sdpkit.numerics.kernels import fast_kernel

@fast_kernel("f8[:]")
def total(values):
    out = 0.0
    for i in range(values.size):
        out += values[i]
    return out
"""


def _run(code: str, cache: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **variables}
    path = os.pathsep.join([str(_ROOT), environment.get("PYTHONPATH", "")])
    environment["PYTHONPATH"] = path.rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
@pytest.mark.parametrize("solve", [_LMNN, _BARRIER], ids=["LMNN", "barrier"])
def test_a_time_limit_is_not_spent_on_compiling(solve: str, tmp_path: Path) -> None:
    code = f"{solve}\nprint(solution.status.value)\n"
    first, second = (_run(before + code, tmp_path / "cache") for before in (_SLOWLY, ""))
    assert first.stdout.split() == second.stdout.split() == ["optimal"]
    assert first.stderr.count(_NOTICE) == 1  # it says so once, and only when it compiles
    assert _NOTICE not in second.stderr


@pytest.mark.parametrize(
    ("problem", "solver"),
    [("MVU(X, n_neighbors=4)", "interior"), ("CoveringEllipsoid(X)", "covering")],
)
def test_small_programs_compile_nothing(problem: str, solver: str, tmp_path: Path) -> None:
    code = f"""
import sys
import sdpkit
X = sdpkit.datasets.swiss_roll(60, noise_dims=5, noise=0.3, random_state=0)
print(sdpkit.solve(sdpkit.{problem}).solver, "numba" in sys.modules)
"""
    done = _run(code, tmp_path / "cache")
    assert done.stdout.split() == [solver, "False"]
    assert not (tmp_path / "cache").exists()


def test_the_folder_of_an_installed_package_stays_as_it_is(tmp_path: Path) -> None:
    """pip would leave a cache there, whose folder hides a later editable install."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "own_kernels.py").write_text(_KERNEL)
    code = "import sys, numpy as np, own_kernels\nprint(own_kernels.total(np.ones(3)))"
    variables = {"XDG_CACHE_HOME": str(tmp_path / "user"), "PYTHONPATH": str(installed)}
    done = _run(f"import sys; sys.dont_write_bytecode = True\n{code}", "", **variables)
    assert done.stdout.split() == ["3.0"]
    assert [path.name for path in installed.iterdir()] == ["own_kernels.py"]
    assert list((tmp_path / "user").rglob("*.nbi"))


def test_no_writable_cache(tmp_path: Path) -> None:
    (tmp_path / "own_kernels.py").write_text(_KERNEL)
    (tmp_path / "__pycache__").write_text("a file, where a folder would be made")
    code = "import numpy as np, own_kernels\nprint(own_kernels.total(np.ones(3)))"
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "PYTHONPATH": str(tmp_path)}
    done = _run(code, f"{os.devnull}/cache", **nowhere)
    assert done.stdout.split() == ["3.0"]
    assert "cannot cache compiled kernels" in done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr


def test_a_damaged_cache_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "own_kernels.py").write_text(_KERNEL)
    code = "import numpy as np, own_kernels\nprint(own_kernels.total(np.ones(3)))"
    cache = tmp_path / "cache"
    _run(code, cache, PYTHONPATH=str(tmp_path))
    files = list(cache.rglob("*.nb[ic]"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:40])
    assert _run(code, cache, PYTHONPATH=str(tmp_path)).stdout.split() == ["3.0"]


def _sum_twice(values: np.ndarray, out: np.ndarray) -> None:  # type: ignore[type-arg]
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] += 2 * values[i, j]


def test_other_layouts_and_precisions_are_copied() -> None:
    kernel = fast_kernel("f8[:,:]", "out f8[:,:]")(_sum_twice)
    values = np.arange(6.0).reshape(2, 3)
    readonly = values.copy()
    readonly.setflags(write=False)
    for given in (values, readonly, np.asfortranarray(values), values.astype(np.float32)):
        for out in (np.ones((2, 3)), np.ones((2, 3), order="F"), np.ones((4, 6))[::2, ::2]):
            kernel(given, out)
            np.testing.assert_array_equal(out, 1 + 2 * values)
    with pytest.raises(TypeError):
        kernel(values)


def test_a_proof_kernel_adds_in_order() -> None:
    """Reordered, the lost parts of a two-sum are simplified to zero."""

    def lost(values: np.ndarray) -> float:  # type: ignore[type-arg]
        high, low = 0.0, 0.0
        for i in range(values.size):
            total = high + values[i]
            shadow = total - high
            low += (high - (total - shadow)) + (values[i] - shadow)
            high = total
        return low

    values = np.array([1.0, 1e-20, 1e-20])
    assert proof_kernel("f8[:]")(lost)(values) == 2e-20
    assert fast_kernel("f8[:]")(lost)(values) != 2e-20


def test_what_proofs_rest_on_is_a_proof_kernel() -> None:
    from sdpkit.numerics import doubled, pattern, sparse_factor
    from sdpkit.program import smoothed, tiles

    modules = (doubled, pattern, smoothed, sparse_factor)
    found = {id(value): value for module in modules for value in vars(module).values()}
    kernels = [value for value in found.values() if isinstance(value, Kernel)]
    kernels += tiles._TILE_PAIRS.values()  # type: ignore[arg-type]
    assert len(kernels) > 10
    assert not any(kernel.reordered for kernel in kernels)


def test_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(self: Kernel, cache: bool) -> object:
        time.sleep(0.3)
        return lambda: None

    monkeypatch.setattr(Kernel, "_compile", slow)
    wall, began = time.perf_counter(), clock()
    kernels = [Kernel(_sum_twice, (), reordered=False) for _ in range(2)]
    threads = [threading.Thread(target=kernel) for kernel in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kernels[0]()
    assert time.perf_counter() - wall >= 0.6
    assert clock() - began < 0.3


def test_one_line_per_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_said", set())
    for _ in range(2):
        fast_kernel("f8")(eval("lambda x: 2 * x"))(1.0)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.records[0].name == "sdpkit"
