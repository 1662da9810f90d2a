"""Programs as named arrays: the one source of files (npz) and fingerprints."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.files import one_line, read_npz, replace_npz
from sdpkit.inputs import integer
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.printing import Wording
from sdpkit.program.safe import NormPenalty, SafeBounds
from sdpkit.program.second_order import SecondOrderCone

if TYPE_CHECKING:
    # Families compile kernels; programs of plain rows do not wait for that.
    from sdpkit.program.families import RowFamily
    from sdpkit.program.form import Program


# What numpy and zipfile raise on a file with changed bytes.
_DAMAGE = (
    ValueError,
    AttributeError,
    EOFError,
    KeyError,
    RuntimeError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)


# Arrays that a program takes and keeps by the same name.
_PLAIN = ("rhs", "relations", "cost_q", "cost_x", "free_x", "quadratic_x")


def arrays_of(program: Program) -> dict[str, NDArray[Any]]:
    """Every number of the program as named plain arrays; the single source of save and hash."""
    out: dict[str, NDArray[Any]] = {name: getattr(program, name) for name in _PLAIN}
    out["offset"] = np.array(program.offset)
    scale = program.safe.value_scale
    out["value_scale"] = np.array(np.nan if scale is None else scale)  # NaN: by the data
    pack(out, "rows_q", program.rows_q)
    pack(out, "rows_x", program.rows_x)
    for k, penalty in enumerate(program.norms):
        out[f"norm{k}/weight"] = np.array(penalty.weight)
        out[f"norm{k}/group"] = np.array(penalty.group, dtype=np.int64)
    if program.cones:
        out["cones/members"] = program.cone_x.members
        out["cones/starts"] = program.cone_x.starts
    for name in ("trace", "direction", "anchor"):
        if getattr(program.safe, name) is not None:
            out[f"safe/{name}"] = np.asarray(getattr(program.safe, name), dtype=np.float64)
    for k, block in enumerate(program.blocks):
        pack(out, f"block{k}/incidence", block.incidence)
        pack(out, f"block{k}/cost/sparse", block.cost.sparse)
        out[f"block{k}/cost/identity"] = np.array(block.cost.identity)
        out[f"block{k}/cost/factor"] = block.cost.factor
        out[f"block{k}/cost/weights"] = block.cost.weights
        out[f"block{k}/null"] = block.null
        if block.max_rank is not None:
            out[f"block{k}/max_rank"] = np.array(block.max_rank)
        if block.log_det:
            out[f"block{k}/log_det"] = np.array(block.log_det)
        if block.features is not None:
            out[f"block{k}/features"] = block.features
    if program.family is not None:
        out.update({f"family/{name}": a for name, a in program.family.arrays().items()})
    return out


def _header(program: Program) -> dict[str, Any]:
    return {
        "format": 1,
        "name": program.name,
        "sense": program.sense,
        "blocks": [[block.name, block.size] for block in program.blocks],
        "norms": len(program.norms),
        "notes": list(program.notes),
        "sentences": None if program.wording is None else asdict(program.wording),
    }


def fingerprint_of(program: Program) -> str:
    """A hash of the mathematics: equal data give equal fingerprints, names do not count."""
    digest = hashlib.sha256(f"{program.sense} {[b.size for b in program.blocks]}".encode())
    # What is known about a program is not part of it. Its place is kept: fingerprints last.
    arrays = arrays_of(replace(program, safe=SafeBounds())) | {"value_scale": np.array(1.0)}
    for name, array in sorted(arrays.items()):
        values = np.ascontiguousarray(array)
        digest.update(f"{name} {values.shape} {values.dtype.str}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()[:16]


def save_program(program: Program, path: str | Path) -> None:
    """Write a program as npz, without pickles."""
    replace_npz(path, saved_arrays(program))


def saved_arrays(program: Program) -> dict[str, NDArray[Any]]:
    """All that a file of the program holds: its numbers, and its texts in a header."""
    header = np.frombuffer(json.dumps(_header(program)).encode(), dtype=np.uint8)
    return {"header": header, **arrays_of(program)}


def read_program(path: str | Path) -> dict[str, Any]:
    """The arguments of `Program.of` that a file written by `save_program` holds."""
    return arguments_of(read_arrays(path), path)


def arguments_of(arrays: dict[str, NDArray[Any]], path: str | Path) -> dict[str, Any]:
    """The arguments of `Program.of` in the arrays of the file `path`."""
    try:
        return _arguments(path, arrays)
    except InputError:
        raise
    except (*_DAMAGE, TypeError, IndexError) as error:
        words = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is damaged ({words}); save the program again") from error


def _arguments(path: str | Path, a: dict[str, NDArray[Any]]) -> dict[str, Any]:
    header = json.loads(bytes(a["header"]).decode())
    if header.get("format") != 1:
        raise InputError(f"{path} has format {header.get('format')}; this reads format 1")
    sizes = [integer(size, "a block's size") for _, size in header["blocks"]]
    blocks = [
        Block.of(
            size,
            unpack(a, f"block{k}/incidence"),
            name=one_line(name),
            features=a.get(f"block{k}/features"),
            cost=Cost.of(
                size,
                identity=float(a[f"block{k}/cost/identity"]),
                sparse=unpack(a, f"block{k}/cost/sparse"),
                factor=a[f"block{k}/cost/factor"],
                weights=a[f"block{k}/cost/weights"],
            ),
            null=a[f"block{k}/null"],
            max_rank=int(a[f"block{k}/max_rank"]) if f"block{k}/max_rank" in a else None,
            log_det=float(a.get(f"block{k}/log_det", 0.0)),
        )
        for k, ((name, _), size) in enumerate(zip(header["blocks"], sizes, strict=True))
    ]
    trace = a.get("safe/trace")
    return {
        "blocks": blocks,
        **{name: a[name] for name in _PLAIN},
        "sense": header["sense"],
        "rows_q": unpack(a, "rows_q"),
        "rows_x": unpack(a, "rows_x"),
        "norms": [
            NormPenalty(float(a[f"norm{k}/weight"]), tuple(int(j) for j in a[f"norm{k}/group"]))
            for k in range(integer(header["norms"], "the number of norms", least=0))
        ],
        "cones": _cones(a),
        "offset": float(a["offset"]),
        "safe": SafeBounds(
            None if trace is None else tuple(float(t) for t in trace),
            a.get("safe/direction"),
            a.get("safe/anchor"),
            None if np.isnan(a["value_scale"]) else float(a["value_scale"]),
        ),
        "notes": [one_line(note) for note in header["notes"]],
        "family": family_of(a),
        "name": one_line(header["name"]),
        "wording": _wording(header.get("sentences")),
    }


def _cones(a: dict[str, NDArray[Any]]) -> list[SecondOrderCone]:
    """The second-order cones; files without any do not mention them."""
    if "cones/members" not in a:
        return []
    members, starts = a["cones/members"], a["cones/starts"]
    if not starts.size or starts[0] != 0 or np.any(np.diff(starts) <= 0):
        raise InputError("the second-order cones of the file do not begin one after the other")
    return [SecondOrderCone.of(part) for part in np.split(members, starts[1:])]


def _wording(kept: dict[str, Any] | None) -> Wording | None:
    """How the program was written; files of earlier versions do not hold it."""
    if kept is None:
        return None
    rows = tuple((one_line(text), int(count)) for text, count in kept["rows"])
    variables = tuple((one_line(v), int(count), bool(free)) for v, count, free in kept["variables"])
    shown = tuple((one_line(v), int(c), bool(free)) for v, c, free in kept.get("shown", ()))
    n_blocks = kept.get("n_blocks")
    return Wording(
        one_line(kept["objective"]),
        rows,
        variables,
        sense=kept.get("sense", "") if kept.get("sense", "") in ("max", "min") else "",
        lines=tuple((one_line(a), one_line(b)) for a, b in kept.get("lines", ())),
        shown=shown,
        n_blocks=None if n_blocks is None else int(n_blocks),
    )


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of a saved program; anything else is refused by name."""
    arrays = read_npz(path, "a saved sdpkit program")
    if "header" not in arrays:
        raise InputError(f"{path} is not a saved sdpkit program: it has no header")
    return arrays


def pack(out: dict[str, NDArray[Any]], name: str, matrix: sp.csr_array) -> None:
    out[f"{name}/data"] = matrix.data
    out[f"{name}/indices"] = matrix.indices.astype(np.int64)
    out[f"{name}/indptr"] = matrix.indptr.astype(np.int64)
    out[f"{name}/shape"] = np.array(matrix.shape, dtype=np.int64)


def unpack(arrays: dict[str, NDArray[Any]], name: str) -> sp.csr_array:
    """A sparse matrix, checked before scipy sees it: its kernels follow any index."""
    data, indices, indptr, shape = (
        arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr", "shape")
    )
    if shape.shape != (2,) or any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
        raise InputError(f"{name} has indices that are not whole numbers")
    rows, columns = (int(k) for k in shape)
    same = data.ndim == indices.ndim == indptr.ndim == 1 and data.size == indices.size
    if not same or rows < 0 or indptr.size != rows + 1:
        raise InputError(f"{name} has arrays that do not belong to a matrix of shape {shape}")
    rises = indptr[0] == 0 and indptr[-1] == data.size and bool((indptr[1:] >= indptr[:-1]).all())
    if not rises or indices.min(initial=0) < 0 or indices.max(initial=-1) >= columns:
        raise InputError(f"{name} has indices outside of its shape {shape}")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def family_of(arrays: dict[str, NDArray[Any]]) -> RowFamily | None:
    parts = {name[7:]: a for name, a in arrays.items() if name.startswith("family/")}
    if not parts:
        return None
    if "target_pairs" in parts:
        from sdpkit.program.impostors import Impostors

        return Impostors.from_arrays(parts)
    if "thresholds" in parts:
        from sdpkit.program.labelled_pairs import LabelledPairs

        return LabelledPairs.from_arrays(parts)
    from sdpkit.program.listed_rows import ListedRows

    return ListedRows.from_arrays(parts)
