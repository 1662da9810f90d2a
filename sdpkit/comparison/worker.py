"""One run, one process: what may crash, hang or eat memory does so where it harms nobody.

Importing solvers takes seconds, so a `Worker` holds a process that has imported ours once and
forks for every run. The parent asks, the server forks and watches, the child works:

    parent  ── job ──▶  server (imports, then forks; supervises)  ── fork ──▶  child (one run)
            ◀─ report ─                                           ◀─ messages ─

The child is the leader of a separate session. It is killed with all that it started when it
outlives its limit, when it (and what it started) holds more memory than allowed, or when the
parent goes away. Memory is watched as resident memory through /proc, where there is one: a limit
on addresses would stop threads and compilers that only reserve them. Packages of third parties are
imported in the child alone.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from sdpkit.errors import SdpkitError, SolverError
from sdpkit.numerics.kernels import load_kernels
from sdpkit.numerics.threads import VARIABLE, one_thread_environment, workers
from sdpkit.solution.process import Child, Tell

# What takes seconds to import and some runs need.
_HEAVY = ("sklearn.datasets", "sklearn.neighbors", "cvxpy")
# Seconds between two looks at the child's memory.
_WATCH = 0.05
# The same when it has said all it had to say.
_LAST_WATCH = 0.002
_CRASHES: dict[int, str] = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGABRT: "abort",
    signal.SIGILL: "illegal instruction",
    signal.SIGFPE: "arithmetic exception",
}


@dataclass(frozen=True)
class Job:
    """What a child is to do: call `function` ("module:attribute") with `arguments` and `tell`.

    `patience` is the seconds that may pass between two of its messages, `warming` those until it
    says "loaded", `memory` the bytes that it may hold beyond what it began with.
    """

    function: str
    arguments: Mapping[str, Any]
    patience: float
    warming: float = 0.0
    memory: float = float("inf")


@dataclass(frozen=True)
class Outcome:
    """How a child ended: "" if it did its work, else "crashed", "killed", "timeout",
    "out_of_memory", in words, and everything it told until then."""

    ending: str
    words: str
    told: Mapping[str, Any]
    seconds: float
    peak: float


class Worker:
    """A warmed process that forks for every job; `heavy` imports what some jobs need, too, which
    pays when there are many. `beside` is how many workers share the cores.

    >>> with Worker() as worker:
    ...     job = Job("sdpkit.comparison.worker:echo", {"word": "hello"}, patience=60.0)
    ...     outcome = worker.run(job)
    >>> outcome.ending, outcome.told
    ('', {'echo': 'hello'})
    """

    def __init__(self, heavy: bool = False, beside: int = 1) -> None:
        self.heavy, self.beside = heavy, beside
        self._link: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Worker:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        if not hasattr(os, "fork"):
            raise SdpkitError("comparisons need a system that can fork: Linux, macOS, or WSL")
        ours, theirs = socket.socketpair()
        code = (
            "import sys; sys.path[:] = {!r}; "
            "from sdpkit.comparison.worker import serve; serve({}, {})"
        )
        path = [entry or os.getcwd() for entry in sys.path]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code.format(path, theirs.fileno(), self.heavy)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**one_thread_environment(), VARIABLE: str(workers(self.beside))},
                start_new_session=True,
            )
        self._link = ours
        if _receive(ours) != "ready":
            self.stop()
            raise SolverError(f"no worker could be started with {sys.executable}")

    def stop(self) -> None:
        """End the server and the job that it may be doing; another thread may wait for that."""
        link, self._link = self._link, None
        process, self._process = self._process, None
        if link is not None:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for an answer
            link.close()
        if process is not None:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, job: Job) -> Outcome:
        """Do one job in a new child; never raises for what the child does."""
        if self._link is None:
            self._start()
        link = self._link
        assert link is not None
        started = time.perf_counter()
        try:
            _send(link, job)
            outcome = _receive(link)
        except OSError:
            outcome = None
        if isinstance(outcome, Outcome):
            return outcome
        # The server itself is gone: the system may have chosen it when memory ran out.
        self.stop()
        seconds = time.perf_counter() - started
        return Outcome("killed", "its supervisor was killed", {}, seconds, float("nan"))


def echo(tell: Tell, word: str) -> None:
    """A job that says one word."""
    tell("echo", word)


# -- the server -----------------------------------------------------------------------------


def serve(descriptor: int, heavy: bool) -> None:
    """The server's life: import, then one child per job until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in (*_own_modules(), *(_HEAVY if heavy else ())):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if heavy:
        load_kernels()
    gc.collect()
    gc.freeze()  # the children share these pages
    with socket.socket(fileno=descriptor) as link:
        _send(link, "ready")
        while isinstance(job := _receive(link), Job):
            outcome = _supervise(link, job)
            if outcome is None:
                return
            _send(link, outcome)


def _own_modules() -> Iterator[str]:
    from sdpkit import _EXPORTS
    from sdpkit.solving.registry import own_locations

    yield "sdpkit.comparison.trial"
    yield from (module for module, _ in _EXPORTS.values())
    for location in own_locations():
        yield location.partition(":")[0]


def _supervise(link: socket.socket, job: Job) -> Outcome | None:
    """Fork, watch, reap; None if the parent hung up meanwhile."""
    with tempfile.TemporaryFile() as log:
        with Child(partial(_work, job, log, link)) as child:
            watch = _Watch(child, job)
            if watch.until_it_ends(link):
                return None
        return watch.outcome(_tail(log))


class _Watch:
    """One child under observation."""

    def __init__(self, child: Child, job: Job) -> None:
        self.child, self.job, self.told = child, job, child.told
        self.started = time.perf_counter()
        self.base = self.peak = _memory(child.number)
        self.ending, self.status = "", 0

    def until_it_ends(self, link: socket.socket) -> bool:
        """Look at the clock, the memory and the messages until there is an end; whether it is
        that of the parent."""
        open_ends: list[Any] = [link, self.child.inlet]
        pause = _WATCH
        while True:
            ready, _, _ = select.select(open_ends, [], [], pause)
            if link in ready:
                return True  # nobody speaks while a job is done, so this is the end of the line
            if self.child.inlet in ready and not self.child.listen():
                open_ends, pause = [link], _LAST_WATCH  # it is about to end
            if (status := self.child.status()) is not None:
                self.status = status
                while select.select([self.child.inlet], [], [], 0)[0] and self.child.listen():
                    pass
                return False
            if self._beyond_limits():
                return False

    def _beyond_limits(self) -> bool:
        self.peak = max(self.peak, _memory(self.child.number))
        if self.peak - self.base > self.job.memory:
            self.ending = "out_of_memory"
        elif time.monotonic() - self.child.heard > self._patience():
            self.ending = "timeout"
        return bool(self.ending)

    def _patience(self) -> float:
        loaded = "loaded" in self.told or "started" in self.told
        return self.job.patience if loaded else max(self.job.patience, self.job.warming)

    def outcome(self, tail: str) -> Outcome:
        ending, words, status = self.ending, "", self.status
        if ending == "timeout":
            words = f"killed: silent for {self._patience():.3g} s"
        elif ending == "out_of_memory":
            words = f"killed: it took more than {self.job.memory / 2**20:.0f} MiB"
        elif os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            ending = "crashed" if number in _CRASHES else "killed"
            words = _CRASHES.get(number, f"ended by signal {number}")
        elif os.WEXITSTATUS(status):
            ending = "crashed"
            words = f"the process ended with code {os.WEXITSTATUS(status)}"
        if ending and "started" not in self.told:
            words = f"{words}, while warming up"
        if ending and tail:
            words = f"{words}: {tail}"
        seconds = time.perf_counter() - self.started
        return Outcome(ending, words, self.told, seconds, self.peak - self.base)


def _tail(log: IO[bytes]) -> str:
    """The last line that the child printed."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 2000))
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1][-200:] if lines else ""


# -- memory ---------------------------------------------------------------------------------


def _memory(process: int) -> float:
    """Resident bytes of a process and all its descendants; 0 where there is no /proc."""
    total, seen, waiting = 0.0, set(), [process]
    while waiting:
        one = waiting.pop()
        seen.add(one)
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE")
            for task in os.listdir(f"/proc/{one}/task"):
                words = Path(f"/proc/{one}/task/{task}/children").read_text().split()
                waiting += [int(word) for word in words if int(word) not in seen]
    return total


# -- the child ------------------------------------------------------------------------------


def _work(job: Job, log: IO[bytes], link: socket.socket, tell: Tell) -> None:
    """Do the job, in the forked process; what goes wrong is the last line of the log."""
    import resource  # not on every system, and only here is it needed

    try:
        link.close()
        _volunteer()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves a row, not a file
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nowhere, 0), (log.fileno(), 1), (log.fileno(), 2)):
            os.dup2(source, target)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        module, _, attribute = job.function.partition(":")
        getattr(importlib.import_module(module), attribute)(tell, **job.arguments)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise


def _volunteer() -> None:
    """Be the one that the system kills when memory runs out, not the server."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


# -- messages -------------------------------------------------------------------------------


def _send(link: socket.socket, value: Any) -> None:
    message = pickle.dumps(value)
    link.sendall(struct.pack("<q", len(message)) + message)


def _receive(link: socket.socket) -> Any:
    """The next message, or None at the end of the line."""
    head = _exactly(link, 8)
    if head is None:
        return None
    body = _exactly(link, struct.unpack("<q", head)[0])
    return None if body is None else pickle.loads(body)


def _exactly(link: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            piece = link.recv(min(size - len(parts), 1 << 20))
        except ConnectionError:
            return None
        if not piece:
            return None
        parts += piece
    return bytes(parts)
