"""Programs as named arrays: the one source of files (npz) and fingerprints."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpkit.errors import InputError
from sdpkit.program.block import Block
from sdpkit.program.cost import Cost
from sdpkit.program.printing import Sentences
from sdpkit.program.safe import NormPenalty, SafeBounds

if TYPE_CHECKING:
    # Families compile kernels; programs of plain rows do not wait for that.
    from sdpkit.program.families import RowFamily
    from sdpkit.program.form import Program


def arrays_of(program: Program) -> dict[str, NDArray[Any]]:
    """Every number of the program as named plain arrays; the single source of save and hash."""
    out: dict[str, NDArray[Any]] = {
        "relations": program.relations,
        "rhs": program.rhs,
        "cost_q": program.cost_q,
        "cost_x": program.cost_x,
        "free_x": program.free_x,
        "quadratic_x": program.quadratic_x,
        "offset": np.array(program.offset),
        "value_scale": np.array(program.safe.value_scale),
    }
    pack(out, "rows_q", program.rows_q)
    pack(out, "rows_x", program.rows_x)
    for k, penalty in enumerate(program.norms):
        out[f"norm{k}/weight"] = np.array(penalty.weight)
        out[f"norm{k}/group"] = np.array(penalty.group, dtype=np.int64)
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
        "sentences": None if program.sentences is None else asdict(program.sentences),
    }


def fingerprint_of(program: Program) -> str:
    """A hash of the mathematics: equal data give equal fingerprints, names do not count."""
    digest = hashlib.sha256(f"{program.sense} {[b.size for b in program.blocks]}".encode())
    for name, array in sorted(arrays_of(program).items()):
        values = np.ascontiguousarray(array)
        digest.update(f"{name} {values.shape} {values.dtype.str}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()[:16]


def save_program(program: Program, path: str | Path) -> None:
    """Write a program as npz, without pickles."""
    arrays: dict[str, Any] = saved_arrays(program)
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays)


def saved_arrays(program: Program) -> dict[str, NDArray[Any]]:
    """All that a file of the program holds: its numbers, and its words in a header."""
    header = np.frombuffer(json.dumps(_header(program)).encode(), dtype=np.uint8)
    return {"header": header, **arrays_of(program)}


def read_program(path: str | Path) -> dict[str, Any]:
    """The arguments of `Program.of` that a file written by `save_program` holds."""
    return arguments_of(read_arrays(path), path)


def arguments_of(a: dict[str, NDArray[Any]], path: str | Path) -> dict[str, Any]:
    """The arguments of `Program.of` in the arrays of the file `path`."""
    header = json.loads(bytes(a["header"]).decode())
    if header.get("format") != 1:
        raise InputError(f"{path} has format {header.get('format')}; this reads format 1")
    blocks = [
        Block.of(
            size,
            unpack(a, f"block{k}/incidence"),
            name=name,
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
        for k, (name, size) in enumerate(header["blocks"])
    ]
    trace = a.get("safe/trace")
    return {
        "blocks": blocks,
        "rhs": a["rhs"],
        "sense": header["sense"],
        "rows_q": unpack(a, "rows_q"),
        "rows_x": unpack(a, "rows_x"),
        "relations": a["relations"],
        "cost_q": a["cost_q"],
        "cost_x": a["cost_x"],
        "free_x": a["free_x"],
        "quadratic_x": a["quadratic_x"],
        "norms": [
            NormPenalty(float(a[f"norm{k}/weight"]), tuple(int(j) for j in a[f"norm{k}/group"]))
            for k in range(header["norms"])
        ],
        "offset": float(a["offset"]),
        "safe": SafeBounds(
            None if trace is None else tuple(float(t) for t in trace),
            a.get("safe/direction"),
            a.get("safe/anchor"),
            float(a["value_scale"]),
        ),
        "notes": header["notes"],
        "family": family_of(a),
        "name": header["name"],
        "sentences": _sentences(header.get("sentences")),
    }


def _sentences(said: dict[str, Any] | None) -> Sentences | None:
    """The words of a program; files of earlier versions have none."""
    if said is None:
        return None
    rows = tuple((str(text), int(count)) for text, count in said["rows"])
    variables = tuple((str(v), int(count), bool(free)) for v, count, free in said["variables"])
    return Sentences(said["objective"], rows, variables)


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of a saved program; anything else is refused by name."""
    try:
        file = np.load(path, allow_pickle=False)
        arrays = {name: file[name] for name in file.files}
    except (ValueError, AttributeError, EOFError) as error:
        raise InputError(f"{path} is not a saved sdpkit program: {error}") from error
    if "header" not in arrays:
        raise InputError(f"{path} is not a saved sdpkit program: it has no header")
    return arrays


def pack(out: dict[str, NDArray[Any]], name: str, matrix: sp.csr_array) -> None:
    out[f"{name}/data"] = matrix.data
    out[f"{name}/indices"] = matrix.indices.astype(np.int64)
    out[f"{name}/indptr"] = matrix.indptr.astype(np.int64)
    out[f"{name}/shape"] = np.array(matrix.shape, dtype=np.int64)


def unpack(arrays: dict[str, NDArray[Any]], name: str) -> sp.csr_array:
    parts = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
    rows, columns = (int(k) for k in arrays[f"{name}/shape"])
    return sp.csr_array(parts, shape=(rows, columns))


def family_of(arrays: dict[str, NDArray[Any]]) -> RowFamily | None:
    parts = {name[7:]: a for name, a in arrays.items() if name.startswith("family/")}
    if not parts:
        return None
    if "target_pairs" in parts:
        from sdpkit.program.comparisons import Impostors

        return Impostors.from_arrays(parts)
    if "thresholds" in parts:
        from sdpkit.program.pairs import LabelledPairs

        return LabelledPairs.from_arrays(parts)
    from sdpkit.program.listed import ListedRows

    return ListedRows.from_arrays(parts)
