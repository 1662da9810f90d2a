"""Executables of others, and the temporary folder that they work in.

Both end with this process, also if it is killed: a small process of its own keeps them
(`sdpkit.solution.keeper`). A signal on the parent's death would need code between fork and exec,
which is not safe where there are threads, and would leave the folder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from sdpkit.errors import SolverError
from sdpkit.numerics.interruption import is_interrupted
from sdpkit.numerics.threads import one_thread_environment
from sdpkit.solution import keeper
from sdpkit.solution.answer import Stop

# Seconds between two looks at the clock and at Ctrl-C.
_WATCH = 0.05
# The exit code of a program whose keeper was killed.
_LOST = -9


class WorkFolder:
    """A temporary folder, removed at the end of a `with` block and of this process.

    >>> with WorkFolder() as folder:
    ...     code, stopped = folder.run(["sh", "-c", "echo hello; exit 3"])
    ...     printed = (folder.path / "output").read_text()
    >>> code, stopped, printed, folder.path.exists()
    (3, None, 'hello\\n', False)
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / f"sdpkit-{secrets.token_hex(8)}"

    def __enter__(self) -> Self:
        script, parent = str(keeper.__file__), str(os.getpid())
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", script, parent, str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=one_thread_environment(),
            start_new_session=True,
        )
        if self._answer() != "ready":
            self._close()
            raise SolverError(
                f"the temporary folder {self.path} could not be made by {sys.executable}: set "
                "TMPDIR to a folder that can be written to"
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def run(self, command: Sequence[str], seconds: float | None = None) -> tuple[int, Stop | None]:
        """Run a program in the folder until it ends, the time is up or Ctrl-C is pressed.

        Returns its exit code and why it was stopped, or None. What it prints is in the file
        `output`. Ctrl-C does not reach the program; all that it started ends with it.
        """
        deadline = None if seconds is None else time.perf_counter() + seconds
        stopped, code = None, None
        self._send("\0".join(command))
        try:
            while code is None and stopped is None:
                if select.select([self._outlet], [], [], _WATCH)[0]:
                    code = self._code()
                elif is_interrupted():
                    stopped = Stop.INTERRUPTED
                elif deadline is not None and time.perf_counter() > deadline:
                    stopped = Stop.TIME_LIMIT
        except KeyboardInterrupt:
            stopped = Stop.INTERRUPTED
        if code is None:
            self._send("")
            code = self._code()
        return code, stopped

    @property
    def _outlet(self) -> int:
        assert self._keeper.stdout is not None
        return self._keeper.stdout.fileno()

    def _send(self, line: str) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # what it would have answered is missing too
            self._keeper.stdin.write(os.fsencode(line) + b"\n")

    def _answer(self) -> str:
        assert self._keeper.stdout is not None
        return self._keeper.stdout.readline().decode().strip()

    def _code(self) -> int:
        answer = self._answer()
        return int(answer) if answer else _LOST

    def _close(self) -> None:
        """Make the keeper end, which removes the folder; wait for that.

        Copies of this process that others have forked may hold its input open.
        """
        self._send("\0")
        with self._keeper:
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
        shutil.rmtree(self.path, ignore_errors=True)  # the keeper may have been killed


__all__ = ["WorkFolder"]
