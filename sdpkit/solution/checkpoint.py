"""The state of a long run in a file, from which the run can be continued.

The state is named arrays that an engine supplies; the driver (`sdpkit.solution.driver`) decides
when they are written. The file names the program (by fingerprint) and the engine that it belongs
to, and is refused for any other. It is replaced in one move, so that a run that is killed while it
writes leaves the state before.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.files import read_npz, reading, replace_npz

EVERY = 30.0  # seconds between two states, by default


class Checkpoint:
    """Where an engine keeps its state of one program.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.npz"
    >>> Checkpoint(path, "f00d", "barrier").save(mu=0.5, weights=[1.0, 2.0])
    >>> found = Checkpoint(path, "f00d", "barrier").state
    >>> float(found["mu"]), found["weights"].tolist()
    (0.5, [1.0, 2.0])
    """

    def __init__(
        self,
        path: str | Path,
        fingerprint: str,
        solver: str,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`state` is what an earlier run of this engine on this program left, or None."""
        self.path, self.every, self._clock = Path(path), every, clock
        self.fingerprint, self.solver = fingerprint, solver
        if not self.path.parent.is_dir():
            raise InputError(f"checkpoint is {self.path}; there is no folder {self.path.parent}")
        self.state: Mapping[str, NDArray[Any]] | None = self._read()
        self._written = self._clock()

    @property
    def is_due(self) -> bool:
        """Whether the last state is old enough to be written anew."""
        return self._clock() - self._written >= self.every

    def save(self, **arrays: ArrayLike) -> None:
        """Replace the file by this state."""
        state = {name: np.asarray(values) for name, values in arrays.items()}
        named: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "solver": self.solver,
            "digest": _digest(state),
            **{f"state/{name}": values for name, values in state.items()},
        }
        self._written = self._clock()  # also where it fails: the next attempt is due in a while
        replace_npz(self.path, named, compressed=False)

    def _read(self) -> dict[str, NDArray[Any]] | None:
        if not self.path.exists():
            return None
        with reading(self.path, "a checkpoint"):
            found = read_npz(self.path, "a checkpoint")
        for what, mine in (("fingerprint", self.fingerprint), ("solver", self.solver)):
            if what not in found:
                raise InputError(f"{self.path} is not a checkpoint; name another file")
            if str(found[what]) != mine:
                raise InputError(
                    f"{self.path} is a checkpoint of the {what} {found[what]}, and this run's is "
                    f"{mine}: name another file, or delete this one"
                )
        state = {name[6:]: a for name, a in found.items() if name.startswith("state/")}
        if str(found.get("digest", "")) != _digest(state):
            raise InputError(f"{self.path} is a checkpoint that was damaged or changed; delete it")
        return state


def _digest(state: Mapping[str, NDArray[Any]]) -> str:
    """A hash of what an engine wrote: it trusts these numbers, and nobody else's."""
    digest = hashlib.sha256()
    for name, array in sorted(state.items()):
        values = np.ascontiguousarray(array)
        digest.update(f"{name} {values.shape} {values.dtype.str}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


__all__ = ["Checkpoint"]
