"""A process that keeps a folder, and a program that works in it, for as long as its parent lives.

It runs as a script and without the rest of sdpkit, so that it starts in a hundredth of a second:

    python -I -S keeper.py PARENT FOLDER

It makes the folder and writes "ready". A line on its standard input holds the words of a command,
separated by zero bytes: it starts that program in the folder, with what it prints in the file
`output`, and writes its exit code when it ends. An empty line kills the program. After a line with
a zero byte alone, at the end of its standard input, or when the process PARENT is no longer its
parent, it kills the program, removes the folder and ends. It has a session of its own, so that it
outlives a kill of the parent's process group.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import sys

# Seconds between two looks at the parent: copies of it may hold the standard input open.
_LOOK = 0.25
_END = b"\0"
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_NOT_STARTED = 127


def main(parent: int, folder: str) -> None:
    """Keep the folder and the program until the parent is gone."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.mkdir(folder, 0o700)
    try:
        os.chdir(folder)
        _tell("ready")
        _obey(parent)
    finally:
        import shutil  # it takes as long to import as all else

        shutil.rmtree(folder, ignore_errors=True)


def _obey(parent: int) -> None:
    heard, program = b"", 0
    try:
        while os.getppid() == parent:
            if not select.select([0], [], [], _LOOK)[0]:
                continue
            piece = os.read(0, 1 << 16)
            if not piece:
                return
            *lines, heard = (heard + piece).split(b"\n")
            for line in lines:
                if line == _END:
                    return
                _kill(program)
                program = _start(line.split(b"\0")) if line else 0
    finally:
        _kill(program)


def _start(command: list[bytes]) -> int:
    """The id of the program, which leads a process group; 0 if it cannot be started."""
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "output", writing, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        program = os.posix_spawnp(
            command[0], command, os.environ, file_actions=files, setpgroup=0, setsigdef=_IGNORED
        )
    except OSError as error:
        with open("output", "w") as output:
            output.write(str(error))
        _tell(_NOT_STARTED)
        return 0
    _thread.start_new_thread(_wait, (program,))
    return program


def _wait(program: int) -> None:
    _tell(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))


def _kill(program: int) -> None:
    """Kill the program and all that it started."""
    if program:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program, signal.SIGKILL)


def _tell(word: object) -> None:
    with contextlib.suppress(OSError):  # nobody is there any more
        os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
