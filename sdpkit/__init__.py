"""sdpkit: metric and manifold learning as semidefinite programs, fast and proven.

Data pass in one direction:

    points or distances → graph → Problem → Program → solver → Solution
                                            → Certificate → Embedding → quality, plot

>>> import sdpkit
>>> X = sdpkit.datasets.swiss_roll(30, random_state=0)
>>> problem = sdpkit.MVU(X, n_neighbors=4)
>>> solution = sdpkit.solve(problem, solver="clarabel")
>>> solution.status
<Status.OPTIMAL: 'optimal'>
>>> problem.recover(solution, n_components=2).coordinates.shape
(30, 2)
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "problems" / "__init__.py").exists() and (_checkout / "pyproject.toml").exists():
    # In a source tree the folders `problems` and `solvers` lie beside this folder, not inside it.
    __path__.append(str(_checkout))

__version__ = "0.2.0"


def _public_names() -> dict[str, tuple[str, str]]:
    """Public name → (module, name there), from the lines of `__init__.pyi`."""
    lines = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("from ") and " as " in line]
    return {public: (module, name) for _, module, _, name, _, public in words}


_EXPORTS = {**_public_names(), "extension": ("sdpkit.results", "placement")}


def __getattr__(name: str) -> Any:
    """A public name, imported on first use, so that `import sdpkit` stays fast."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sdpkit' has no attribute {name!r}")
    path, attribute = _EXPORTS[name]
    module = importlib.import_module(path)
    if path == __name__ or not hasattr(module, attribute):
        value: Any = importlib.import_module(f"{path}.{attribute}")
    else:
        value = getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_EXPORTS, "__version__"])


__all__ = list(_EXPORTS)
