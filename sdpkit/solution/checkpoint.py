"""The state of a long run in a file, from which the run can be continued.

The state is named arrays that an engine supplies; the driver (`sdpkit.solution.driver`) decides
when they are written. The file names the program (by fingerprint) and the engine that it belongs
to, and is refused for any other. It is replaced in one move, so that a run that is killed while it
writes leaves the state before.

A file may have been written by anyone: its digest has no key. So a state can only be loaded with a
layout, which says what every array must be, and is refused where it does not fit.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpkit.errors import InputError
from sdpkit.files import read_npz, reading, replace_npz
from sdpkit.layout import Layout, read_layout

EVERY = 30.0  # seconds between two states, by default


class Checkpoint:
    """Where an engine keeps its state of one program.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist.
    fingerprint : str
        `Program.fingerprint` of the program, so that a state of another one is not loaded.
    solver : str
        The name of the engine.
    every : float, default 30.0
        Seconds between two states.
    clock : callable
        Returns seconds; tests replace it.

    Examples
    --------
    >>> import tempfile
    >>> from sdpkit.layout import Expected
    >>> path = Path(tempfile.mkdtemp()) / "run.npz"
    >>> Checkpoint(path, "f00d", "barrier").save(mu=0.5, weights=[1.0, 2.0])
    >>> layout = {"mu": Expected(least=0.0), "weights": Expected((2,))}
    >>> found = Checkpoint(path, "f00d", "barrier").load(layout)
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
        """`load` finds what an earlier run of this engine on this program left there."""
        self.path, self.every, self._clock = Path(path), every, clock
        self.fingerprint, self.solver = fingerprint, solver
        if not self.path.parent.is_dir():
            raise InputError(f"checkpoint is {self.path}; there is no folder {self.path.parent}")
        self.part = ""  # the fingerprint of the part that is solved, if the program has parts
        self._layout: Layout | None = None
        self._found_part, self._found = self._read()
        self._written = self._clock()

    def of_part(self, fingerprint: str) -> Self:
        """The same file for a part of the program; states of other parts are not loaded."""
        other = copy(self)
        other.part = fingerprint
        return other

    @property
    def is_new(self) -> bool:
        """Whether there is no state that `load` could return."""
        return self._found is None or self._found_part != self.part

    def load(self, layout: Layout) -> dict[str, NDArray[Any]] | None:
        """The state of an earlier run, or None; one that does not have this layout is refused."""
        self._layout = layout
        if self._found is None or self.is_new:
            return None
        try:
            return read_layout(self._found, layout)
        except InputError as error:
            raise InputError(
                f"{self.path} holds no state that solver {self.solver!r} can resume this program "
                f"from: {error}. Delete the file, or start without checkpoint."
            ) from error

    @property
    def is_due(self) -> bool:
        """Whether the last state is old enough to be replaced."""
        return self._clock() - self._written >= self.every

    def save(self, **arrays: ArrayLike) -> None:
        """Replace the file by this state; numbers that have overflowed are no state."""
        state = {name: np.asarray(values) for name, values in arrays.items()}
        if not self._can_be_loaded(state):
            return
        named: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "solver": self.solver,
            "part": self.part,
            "digest": _digest(state),
            **{f"state/{name}": values for name, values in state.items()},
        }
        self._written = self._clock()  # also where it fails: the next attempt is due in a while
        replace_npz(self.path, named, compressed=False)

    def _can_be_loaded(self, state: Mapping[str, NDArray[Any]]) -> bool:
        if self._layout is None:
            return True
        try:
            read_layout(state, self._layout)
        except InputError:
            return False
        return True

    def _read(self) -> tuple[str, dict[str, NDArray[Any]] | None]:
        if not self.path.exists():
            return "", None
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
        return str(found.get("part", "")), state


def _digest(state: Mapping[str, NDArray[Any]]) -> str:
    """A hash of what an engine wrote, by which accidents are found."""
    digest = hashlib.sha256()
    for name, array in sorted(state.items()):
        values = np.ascontiguousarray(array)
        digest.update(f"{name} {values.shape} {values.dtype.str}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


__all__ = ["Checkpoint"]
