"""What a solve shows while it runs: one line that updates, and the log.

Everything is told to the logger `sdpkit`: the solution at level INFO, every row of a history at
DEBUG. `verbose` lets the log be seen on the standard output.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

import numpy as np

LOG = logging.getLogger("sdpkit")

# Seconds between two changes of the line, at least.
_INTERVAL = 0.1


class Progress:
    """One line, written again and again, with the gap and the time.

    A terminal and a notebook take the carriage return; a file would keep every version, so that
    nothing is written there.

    >>> import io
    >>> class Terminal(io.StringIO):
    ...     def isatty(self):
    ...         return True
    >>> stream = Terminal()
    >>> line = Progress(stream, clock=lambda: 2.0)
    >>> line.show("interior", {"iteration": 3.0, "gap": 0.01})
    >>> line.close()
    >>> stream.getvalue()
    '\\rinterior: iteration 3, gap 1.0e-02, 0.0 s\\n'
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._started, self._written = clock(), -np.inf
        self._text = self._shown = ""
        self._updates = stream.isatty() or type(stream).__module__.startswith("ipykernel")

    def show(self, solver: str, row: Mapping[str, float]) -> None:
        """Tell of a row of the history; the line changes ten times a second at most."""
        if not self._updates:
            return
        now = self._clock()
        gap, objective = row.get("gap", np.nan), row.get("objective", np.nan)
        known = f"objective {objective:.6g}" if np.isnan(gap) else f"gap {gap:.1e}"
        seconds = f"{now - self._started:.1f} s"
        self._text = f"{solver}: iteration {row['iteration']:.0f}, {known}, {seconds}"
        if now >= self._written + _INTERVAL:
            self._write()
            self._written = now

    def close(self) -> None:
        """The last state of the line, and its end."""
        if self._text:
            self._write()
            self._stream.write("\n")
            self._stream.flush()

    def _write(self) -> None:
        if self._text != self._shown:
            self._stream.write(f"\r{self._text:<{len(self._shown)}}")
            self._stream.flush()
            self._shown = self._text


class _Display(logging.StreamHandler[TextIO]):
    """The log on the standard output."""


@contextmanager
def shown(verbose: int) -> Iterator[None]:
    """Let the log be seen during a solve: from 1 on its end, from 2 on every row."""
    if not verbose or any(isinstance(handler, _Display) for handler in LOG.handlers):
        yield
        return
    display, before = _Display(sys.stdout), LOG.level
    display.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    LOG.addHandler(display)
    LOG.setLevel(min(display.level, LOG.getEffectiveLevel()))
    try:
        yield
    finally:
        LOG.removeHandler(display)
        LOG.setLevel(before)


__all__ = ["LOG", "Progress", "shown"]
