"""Files that strangers may have written, and files that nobody may lose.

Reading: sizes are checked against the file and the memory before anything is allocated, arrays of
objects are never unpickled, and whatever is wrong ends in an `InputError` that names the file.

Writing: a file appears complete or not at all. It is written beside its place, forced to the disk
and moved there, so that a full disk or a killed process leaves what was there before.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError, SdpkitError

# An archive may unfold to this many bytes, or to this many times its own size if that is more.
_UNFOLDED = 256 * 2**20
_RATIO = 100
# The share of the free memory that the contents of a file may take.
_SHARE = 0.5
# Kinds of numpy types that hold plain values: booleans, numbers, texts.
_PLAIN = "biufcSU"
_LONGEST_NAME = 200


def free_memory() -> float:
    """Bytes that can still be allocated, as far as the system tells; inf if it does not."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        return float("inf")


def require_memory(needed: float, what: str) -> None:
    """Refuse what would take more than half of the free memory.

    >>> require_memory(1e18, "a block of size 353553391")
    Traceback (most recent call last):
    sdpkit.errors.InputError: a block of size 353553391 would take 9.31e+08 GiB; ...
    """
    free = free_memory()
    if needed > _SHARE * free:
        raise InputError(
            f"{what} would take {needed / 2**30:.3g} GiB; {free / 2**30:.3g} GiB are free"
        )


def one_line(text: object, longest: int = _LONGEST_NAME) -> str:
    """A text from elsewhere as it may be printed: one line, without control characters.

    >>> one_line("roll\\n\\x1b[31mred")
    'roll [31mred'
    """
    said = str(text)
    line = " ".join("".join(c if c.isprintable() else " " for c in said[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


# -- reading ----------------------------------------------------------------------------------


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Whatever goes wrong inside, but for the system's own errors, says that `path` is not `what`.

    >>> with reading("x.npz", "a saved program"):
    ...     {}["header"]
    Traceback (most recent call last):
    sdpkit.errors.InputError: x.npz is not a saved program, or is damaged: KeyError: 'header'
    """
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    except SdpkitError:
        raise
    except Exception as error:  # damaged bytes fail in zip, numpy's header or json, each its way
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # an offset that makes no sense is the file's fault, all else the system's
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        words = one_line(f"{kind}{error}")
        raise InputError(f"{path} is not {what}, or is damaged: {words}") from error


def read_text(path: str | Path, what: str, errors: str = "strict") -> str:
    """The text of a file in UTF-8, with or without a byte-order mark; `errors` as for `decode`."""
    with reading(path, what):
        return Path(path).read_bytes().decode("utf-8-sig", errors)


def read_npz(path: str | Path, what: str = "an .npz of numbers") -> dict[str, NDArray[Any]]:
    """The arrays of an npz.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "both.npz"
    >>> np.savez(path, X=np.eye(2), y=["a", "b"])
    >>> sorted(read_npz(path))
    ['X', 'y']
    """
    with reading(path, what), open(path, "rb") as raw:
        if not zipfile.is_zipfile(raw):
            raise InputError(f"{path} is not {what}: it is not a zip archive")
        with zipfile.ZipFile(raw) as archive:
            members = archive.infolist()
            _refuse_bomb(path, members, os.fstat(raw.fileno()).st_size)
            found = {}
            for member in members:
                with archive.open(member) as file:
                    found[member.filename.removesuffix(".npy")] = _array(file, member.file_size)
            return found


def read_npy(path: str | Path) -> NDArray[Any]:
    """The array of an npy.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "X.npy"
    >>> np.save(path, np.arange(3))
    >>> read_npy(path)
    array([0, 1, 2])
    """
    with reading(path, "an .npy of numbers"), open(path, "rb") as file:
        return _array(file, os.fstat(file.fileno()).st_size)


def _refuse_bomb(path: str | Path, members: list[zipfile.ZipInfo], size: int) -> None:
    unfolded = sum(member.file_size for member in members)
    if unfolded > max(_UNFOLDED, _RATIO * size):
        raise InputError(
            f"{path} would unfold from {size / 2**20:.3g} to {unfolded / 2**20:.3g} MiB: "
            "write it again without compression if that is meant"
        )
    require_memory(unfolded, f"{path}, unfolded,")
    allowed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    other = [member.filename for member in members if member.compress_type not in allowed]
    if other:
        raise InputError(f"{path} is compressed in a way that numpy does not write ({other[0]})")


def _array(file: IO[bytes], size: int) -> NDArray[Any]:
    """One array in numpy's format that fills the `size` bytes of the file."""
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"an array has version {version} of numpy's format; pass 1.0 or 2.0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers of Python 2
        shape, in_columns, dtype = read(file)
    if dtype.kind not in _PLAIN or dtype.itemsize == 0:
        raise ValueError(f"an array has dtype {dtype}; pass numbers or texts")
    count = 1
    for length in shape:
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            raise ValueError(f"an array has shape {shape}")
        count *= length
    if count * dtype.itemsize != size - file.tell():
        raise ValueError(
            f"an array has shape {shape} of {dtype}, and {size - file.tell()} bytes follow"
        )
    array = np.frombuffer(bytearray(file.read(count * dtype.itemsize)), dtype=dtype)
    if dtype.kind == "U" and array.view(dtype.byteorder + "u4").max(initial=0) > sys.maxunicode:
        raise ValueError("an array of texts has characters that do not exist")
    return array.reshape(shape, order="F" if in_columns else "C")


# -- writing ----------------------------------------------------------------------------------


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends without an error.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"42")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('42', 1)
    """
    place = Path(os.path.realpath(path))  # a link keeps pointing where it did
    if place.exists() and not place.is_file():
        with open(place, "wb") as device:  # /dev/stdout and its kind cannot be replaced
            yield device
        return
    beside = place.with_name(f".{place.name[:200]}.{secrets.token_hex(4)}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):
            os.chmod(beside, stat.S_IMODE(place.stat().st_mode))
        os.replace(beside, place)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def replace_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8."""
    with replacing(path) as file:
        file.write(text.encode())


def replace_npz(path: str | Path, arrays: Mapping[str, Any], compressed: bool = True) -> None:
    """Write named arrays."""
    with replacing(path) as file:
        named: dict[str, Any] = dict(arrays)
        (np.savez_compressed if compressed else np.savez)(file, **named)


def require_writable(path: str | Path, force: bool = True) -> None:
    """Refuse a place that cannot be written to, before the work; with `force` false a taken one.

    >>> require_writable("no/such/folder/answer.csv")
    Traceback (most recent call last):
    sdpkit.errors.InputError: answer.csv cannot be written: there is no folder no/such/folder
    """
    place = Path(path)
    if place.is_dir():
        raise InputError(f"{place} is a folder: name a file")
    if not place.parent.is_dir():
        raise InputError(f"{place.name} cannot be written: there is no folder {place.parent}")
    if place.exists() and not place.is_file():
        return
    if place.exists() and not force:
        raise InputError(f"{place} exists: pass --force to replace it, or name another file")
    if not os.access(place.parent, os.W_OK):
        raise InputError(f"{place.name} cannot be written: the folder {place.parent} is read-only")


__all__ = [
    "free_memory",
    "one_line",
    "read_npy",
    "read_npz",
    "read_text",
    "reading",
    "replace_npz",
    "replace_text",
    "replacing",
    "require_memory",
    "require_writable",
]
