"""Results as files: named arrays in an npz with a version and a checksum, and without pickles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.files import read_npz, reading, replace_npz

VERSION = 1
"""The version of the format that is written."""


def write_arrays(path: str | Path, kind: str, arrays: Mapping[str, Any]) -> None:
    """Write named arrays as a result of this kind, for example "metric"."""
    plain: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    header = {"kind": kind, "version": VERSION, "checksum": _checksum(plain)}
    written = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    replace_npz(path, {"sdpkit_result": written, **plain})


def read_arrays(path: str | Path, kind: str) -> dict[str, NDArray[Any]]:
    """The arrays that `write_arrays` wrote; a file that differs in a bit is refused."""
    arrays = read_npz(path, f"a saved {kind}")
    with reading(path, f"a saved {kind}"):
        header = json.loads(bytes(arrays.pop("sdpkit_result")).decode())
        found = header["kind"], header["version"], header["checksum"]
    if found[0] != kind:
        raise InputError(f"{path} is not a saved {kind}; it holds the result {found[0]!r}")
    if found[1] != VERSION:
        raise InputError(
            f"{path} has version {found[1]} of the format, and this sdpkit reads version {VERSION}:"
            " write it again, or install the sdpkit that wrote it"
        )
    if found[2] != _checksum(arrays):
        raise InputError(f"{path} is damaged: its checksum does not fit its contents")
    return arrays


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
