"""Hot loops, compiled to machine code by numba, and the clock that stands still meanwhile.

A kernel is compiled on its first call, for the one list of argument types that it declares, and
cached on disk: in a checkout next to the module, of an installed package in the user's cache
folder. Later processes only load it. Where no folder is writable it is compiled once per process.

There are two kinds, and only one of them may carry a proof:

    proof_kernel   adds in the order in which it is written, so that error bounds and the exact
                   tricks of floating point (two-sum, Dekker's product) hold in machine code
    fast_kernel    the compiler may reorder sums, which makes them vectors; nothing that a
                   certificate claims may depend on the last digits of its results

Compiling takes numba about 0.1 s for plain loops over arrays, and seconds for what looks harmless:
assigning one slice to another (2 s, for its error message), sorting (1 s), whole-array
expressions. So kernels are written as plain loops, and their callers allocate all arrays.
"""

from __future__ import annotations

import gc
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger("sdpkit")
# All kernels of the modules that are imported.
_kernels: list[Kernel] = []
_lock = threading.RLock()
# Sums may be reordered, which vectors need; NaN and infinity keep their meaning.
_REORDERED = frozenset({"contract", "reassoc", "nsz"})
# What goes wrong with a cache that is full, read-only or damaged.
_CACHE_ERRORS = (OSError, EOFError, pickle.PickleError, RuntimeError)
_NOTICE = "compiling numerical kernels; this happens once per installation and takes a few seconds"
_NO_CACHE = (
    "cannot cache compiled kernels (%s), so every new process compiles them again; "
    "set NUMBA_CACHE_DIR to a writable folder"
)


def proof_kernel(*types: str) -> Callable[[Function], Function]:
    """A kernel that adds in the order in which it is written: bounds and proofs may rest on it.

    `types` are those of the arguments, as numba writes them: "i8" and "f8" for numbers, "f8[:]" and
    "f8[:,:]" for arrays, whose entries are contiguous. "out f8[:]" is an array that is written to.

    >>> @proof_kernel("f8[:]")
    ... def total(values):
    ...     out = 0.0
    ...     for value in values:
    ...         out += value
    ...     return out
    >>> import numpy as np
    >>> total(np.array([1e16, 1.0, -1e16]))      # in this order 1.0 is lost, every time
    0.0
    """

    def decorated(function: Function) -> Function:
        return cast(Function, Kernel(function, types, reordered=False))

    return decorated


def fast_kernel(*types: str) -> Callable[[Function], Function]:
    """A kernel whose sums the compiler may reorder; no proof may rest on it.

    >>> @fast_kernel("f8[:]", "out f8[:]")
    ... def add(values, to):
    ...     for i in range(values.size):
    ...         to[i] += values[i]
    >>> import numpy as np
    >>> sums = np.ones(2)
    >>> add(np.ones(2), sums)
    >>> sums
    array([2., 2.])
    """

    def decorated(function: Function) -> Function:
        return cast(Function, Kernel(function, types, reordered=True))

    return decorated


def kernel_part(function: Function) -> Function:
    """A function that kernels call: its text is copied into each of them, under their rules."""
    from numba import njit

    return cast(Function, njit(inline="always", error_model="numpy")(function))


class Kernel:
    """A function that is compiled when it is called first, in one version, without Python's lock.

    Attributes
    ----------
    function: as it is written;  types: of its arguments;  reordered: whether sums may be
    """

    def __init__(self, function: Callable[..., Any], types: tuple[str, ...], reordered: bool):
        self.function, self.types, self.reordered = function, types, reordered
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__wrapped__, self.__module__ = function, function.__module__
        self._machine_code: Callable[..., Any] | None = None
        _kernels.append(self)

    def __call__(self, *arguments: Any) -> Any:
        run = self._machine_code or self.compiled()
        try:
            return run(*arguments)
        except TypeError:  # another layout or precision than is declared: copies do
            if len(arguments) != len(self.types):
                raise
            fitted = [_fitted(*each) for each in zip(self.types, arguments, strict=True)]
            result = run(*fitted)
        for text, given, used in zip(self.types, arguments, fitted, strict=True):
            if text.startswith("out ") and used is not given:
                given[...] = used
        return result

    def compiled(self) -> Callable[..., Any]:
        """The machine code: loaded from the cache, or else compiled."""
        with _lock, _stopped_clock:
            if self._machine_code is None:
                try:
                    self._machine_code = self._compile(Path(_file(self.function)).is_file())
                except _CACHE_ERRORS as error:
                    _say_once(_NO_CACHE, error)
                    self._machine_code = self._compile(cache=False)
            return self._machine_code

    def _compile(self, cache: bool) -> Callable[..., Any]:
        from numba import njit

        decorator = njit(
            cache=cache,
            nogil=True,
            error_model="numpy",
            fastmath=set(_REORDERED) if self.reordered else False,
            no_cfunc_wrapper=True,
            no_rewrites=True,
        )
        with _outside_of_installed_packages(_file(self.function)):
            kind = "fast" if self.reordered else "proof"
            dispatcher: Any = decorator(_named(self.function, kind))
        with _announced(), _without_garbage_collection():
            dispatcher.compile(tuple(_type(text) for text in self.types))
        dispatcher.disable_compile()  # other arguments are converted or refused
        return cast(Callable[..., Any], dispatcher)


def load_kernels() -> None:
    """Load or compile all kernels of the modules that are imported, for processes that are forked
    from this one. What cannot be compiled fails where it is needed."""
    for kernel in _kernels:
        with suppress(Exception):
            kernel.compiled()


@contextmanager
def _outside_of_installed_packages(file: str) -> Iterator[None]:
    """Where numba decides on the folder of its cache: never that of an installed package.

    pip leaves files there that it has not written. The folder that stays behind when a package is
    uninstalled would hide a later editable install.
    """
    from numba import config
    from numba.misc.appdirs import AppDirs

    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    if config.CACHE_DIR or not installed:
        yield
        return
    config.CACHE_DIR = AppDirs(appname="sdpkit", appauthor=False).user_cache_dir
    try:
        yield
    finally:
        config.CACHE_DIR = ""


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The compiler makes so many objects that looking for garbage takes a tenth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _named(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """A copy with its kind in its name: numba's cache tells functions apart by their names and
    types, and would take a fast kernel for a proof kernel of the same function."""
    f = cast(FunctionType, function)
    copy = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    copy.__qualname__ = f"{f.__qualname__}.{kind}"
    copy.__module__ = f.__module__
    return copy


def _file(function: Callable[..., Any]) -> str:
    return function.__code__.co_filename


def _fitted(text: str, argument: Any) -> Any:
    """An argument as the array that is declared, itself where it is one."""
    name, bracket, _ = text.removeprefix("out ").partition("[")
    return np.ascontiguousarray(argument, dtype=np.dtype(name)) if bracket else argument


def _type(text: str) -> Any:
    """The numba type of an argument; arrays that are only read may be read-only."""
    from numba import types

    written = text.startswith("out ")
    name, bracket, dimensions = text.removeprefix("out ").partition("[")
    scalar = getattr(types, name)
    if not bracket:
        return scalar
    return types.Array(scalar, dimensions.count(":"), "C", readonly=not written)


# -- time ------------------------------------------------------------------------------------


class _StoppedClock:
    """Adds up the seconds inside of it; entered again before it is left, it counts once."""

    def __init__(self) -> None:
        self.total, self.depth, self.since = 0.0, 0, 0.0

    def __enter__(self) -> None:
        if not self.depth:
            self.since = time.perf_counter()
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth:
            self.total += time.perf_counter() - self.since

    def now(self) -> float:
        """The time outside of it."""
        return (self.since if self.depth else time.perf_counter()) - self.total


_stopped_clock = _StoppedClock()


def clock() -> float:
    """`time.perf_counter()` without the seconds in which kernels were compiled: a time limit is
    for solving.

    >>> began = clock()
    >>> 0 <= clock() - began < 1
    True
    """
    return _stopped_clock.now()


# -- notices ---------------------------------------------------------------------------------

_said: set[str] = set()


def _say_once(words: str, *arguments: object) -> None:
    """One line per process, visible unless logging is set up otherwise."""
    if words not in _said:
        _said.add(words)
        _log.warning(words, *arguments)


@contextmanager
def _announced() -> Iterator[None]:
    """Log a notice if something is really compiled in here, and not only loaded."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            _say_once(_NOTICE)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield
