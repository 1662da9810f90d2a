"""Fitted estimators as files: parameters and arrays in an npz, without pickles.

A file holds what `transform` and `predict` need, and the certificate. The problem and the solution
are left out; `pickle` and `joblib` keep them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sdpkit.certificate.certificate import Certificate
from sdpkit.errors import InputError
from sdpkit.files import one_line, reading
from sdpkit.inputs import integer, one_of
from sdpkit.layout import Expected, read_layout
from sdpkit.problems.pola import POLA
from sdpkit.program.files import arguments_of, saved_arrays
from sdpkit.program.form import Program
from sdpkit.results.archive import read_arrays, write_arrays
from sdpkit.results.ellipsoid import Ellipsoid
from sdpkit.results.embedding import Embedding
from sdpkit.results.metric import Metric

Arrays = dict[str, NDArray[Any]]

# Results that are attributes of estimators, by the names that files know them by.
_RESULTS: dict[str, Any] = {
    "Metric": Metric,
    "Embedding": Embedding,
    "Ellipsoid": Ellipsoid,
    "POLA": POLA,
}
_PLAIN = (bool, int, float, str, type(None))
# The largest magnitude in points and multipliers of certificates, which are summed, not multiplied.
_LARGEST_SUMMED = 1e300


class SavedMixin:
    """`save` and `load` for estimators.

    >>> import tempfile, pathlib
    >>> from sdpkit.estimators import RelevantComponentAnalysis
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> X = [[0.0, 0.0], [1.0, 3.0], [5.0, 0.0], [6.0, 2.0]]
    >>> model = RelevantComponentAnalysis().fit(X, [0, 0, 1, 1])
    >>> model.save(path)
    >>> bool((RelevantComponentAnalysis.load(path).transform(X) == model.transform(X)).all())
    True
    """

    # What a file holds: name → type of the attribute. Others are made from these by `_restore`.
    _saved: ClassVar[Mapping[str, Any]] = {
        "n_features_in_": int,
        "feature_names_in_": np.ndarray,
        "_sklearn_output_config": dict,
    }

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator as npz: without pickles, with a version and a checksum."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        arrays: Arrays = {}
        known = vars(self)
        kinds = {name: _pack(name, known[name], arrays) for name in self._saved if name in known}
        head = {
            "class": type(self).__name__,
            "parameters": {name: _plain(name, value) for name, value in parameters.items()},
            "attributes": kinds,
        }
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
        write_arrays(path, "estimator", arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator written by `save` of the same class."""
        arrays = read_arrays(path, "estimator")
        with reading(path, "a saved estimator"):
            head = json.loads(bytes(arrays["head"]).decode())
            if head["class"] != cls.__name__:
                raise InputError(f"it holds a {head['class']}: use {head['class']}.load")
            for name, value in head["parameters"].items():
                if not isinstance(value, _PLAIN):
                    raise InputError(f"its parameter {name} is neither a number nor a text")
            model = cls(**head["parameters"])
            for name, kind in head["attributes"].items():
                if name not in cls._saved:
                    raise InputError(f"it has an attribute {one_line(name, 40)!r} too many")
                value = _unpack(kind, _parts(arrays, f"{name}/"), path)
                if not isinstance(value, cls._saved[name]):
                    raise InputError(f"its {name} is of type {type(value).__name__}")
                setattr(model, name, value)
            model._restore()
            return model

    def _restore(self) -> None:
        """Check what was read against each other, and make the attributes that files leave out.

        Only types have been checked before. Subclasses check that shapes agree, that indices are in
        range and that parameters are those that `fit` accepts.
        """
        features = integer(getattr(self, "n_features_in_", None), "n_features_in_")
        names = getattr(self, "feature_names_in_", None)
        texts = names is None or all(isinstance(name, str) for name in names.ravel())
        if names is not None and (names.shape != (features,) or not texts):
            raise InputError(f"feature_names_in_ are not {features} texts")
        for name, value in getattr(self, "_sklearn_output_config", {}).items():
            one_of(name, "_sklearn_output_config", ("transform",))
            one_of(value, "set_output(transform=…)", ("default", "pandas", "polars", None))


def labels_of(classes: Any, name: str = "classes_") -> NDArray[Any]:
    """The labels of classes, (c,), as a file holds them."""
    if classes.ndim != 1 or not classes.size or classes.dtype.kind == "c":
        raise InputError(f"{name} has shape {classes.shape} and dtype {classes.dtype}")
    return np.asarray(classes)


def _parts(arrays: Arrays, start: str) -> Arrays:
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON has it."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, _PLAIN):
        raise InputError(
            f"{name}={value!r} cannot be saved without pickle: use set_params({name}=…) with a "
            "number or a text first, or joblib.dump"
        )
    return value


def _pack(name: str, value: Any, arrays: Arrays) -> dict[str, Any]:
    """Put an attribute among the arrays; returns how to read it."""
    if isinstance(value, (*_PLAIN, dict)):
        return {"kind": "value", "value": value}
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        texts = array.dtype == object
        if texts and not all(isinstance(entry, str) for entry in array.ravel()):
            raise InputError(f"{name} holds objects other than numbers and text: use joblib.dump")
        arrays[f"{name}/entries"] = array.astype(str) if texts else array
        return {"kind": "texts" if texts else "array"}
    if isinstance(value, Certificate):
        parts, numbers = _certificate_parts(value)
        kind = {"kind": "Certificate", "value": numbers}
    else:
        parts, kind = value.arrays(), {"kind": type(value).__name__}
    arrays.update({f"{name}/{part}": array for part, array in parts.items()})
    return kind


def _unpack(kind: Mapping[str, Any], parts: Arrays, path: str | Path) -> Any:
    match kind["kind"]:
        case "value":
            return kind["value"]  # of a plain type, as everything in JSON
        case "array":
            return parts["entries"]
        case "texts":
            return parts["entries"].astype(object)
        case "Certificate":
            return _certificate(kind["value"], parts, path)
        case result:
            return _RESULTS[result].from_arrays(parts)


# Fields of a certificate that are arrays, or are made of them.
_OF_ARRAYS = ("program", "multipliers", "rows", "matrices", "x")


def _certificate_parts(certificate: Certificate) -> tuple[Arrays, dict[str, Any]]:
    """Its arrays, the program's among them, and its numbers and texts.

    A point that is an operator, on graphs of thousands of points, is left out.
    """
    parts = {f"program/{k}": a for k, a in saved_arrays(certificate.program).items()}
    for name in ("multipliers", "rows", "x"):
        if getattr(certificate, name) is not None:
            parts[name] = np.asarray(getattr(certificate, name))
    matrices = certificate.matrices or ()
    if all(isinstance(matrix, np.ndarray) for matrix in matrices):
        parts.update({f"matrix{k}": np.asarray(matrix) for k, matrix in enumerate(matrices)})
    names = [part.name for part in fields(certificate) if part.name not in _OF_ARRAYS]
    return parts, {name: _number(getattr(certificate, name)) for name in names}


def _number(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_number(entry) for entry in value]
    return _plain("certificate_", value)


def _certificate(numbers: dict[str, Any], parts: Arrays, path: str | Path) -> Certificate:
    program = Program.of_file(arguments_of(_parts(parts, "program/"), path))
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in numbers.items()}
    for part in fields(Certificate):
        if part.name in plain and not _is_of_type(plain[part.name], str(part.type)):
            raise InputError(f"certificate_.{part.name} is {one_line(plain[part.name], 40)}")
    arrays = _certificate_arrays(parts, program)
    return Certificate(**plain, program=program, **arrays)


def _certificate_arrays(parts: Arrays, program: Program) -> dict[str, Any]:
    """The point and the multipliers, in the shapes of the program."""
    number: dict[str, Any] = {"least": -_LARGEST_SUMMED, "most": _LARGEST_SUMMED}
    layout = {f"matrix{k}": Expected((b.size,) * 2, **number) for k, b in enumerate(program.blocks)}
    if "matrix0" not in parts:
        layout = {}  # a point that is an operator is left out
    m = program.n_rows
    if program.family is not None and "rows" in parts:
        m = parts["rows"].size
        layout["rows"] = Expected((m,), whole=True, least=0)
    for name, size in (("multipliers", m), ("x", program.n_auxiliary)):
        if name in parts:
            layout[name] = Expected((size,), **number)
    own = {name: array for name, array in parts.items() if not name.startswith("program/")}
    found: dict[str, Any] = read_layout(own, layout)
    if "rows" in found and not (program.family and program.family.has(found["rows"]).all()):
        raise InputError(
            "certificate_.rows holds numbers of constraints that its program does not have"
        )
    matrices = tuple(found.pop(f"matrix{k}") for k in range(len(found)) if f"matrix{k}" in found)
    return {"multipliers": None, **found, "matrices": matrices or None}


def _is_of_type(value: Any, words: str) -> bool:
    """Whether a value from JSON has the type of a field, as it is written there."""
    if words.endswith(" | None"):
        return value is None or _is_of_type(value, words.removesuffix(" | None"))
    if words.startswith("tuple["):
        kinds = words.removeprefix("tuple[").removesuffix("]").split(", ")
        if not isinstance(value, tuple) or (kinds[-1] != "..." and len(value) != len(kinds)):
            return False
        return all(_is_of_type(entry, kinds[0]) for entry in value)
    if words == "str":
        return isinstance(value, str)
    if isinstance(value, bool) or words == "bool":
        return isinstance(value, bool) and words == "bool"
    is_number = isinstance(value, int | float) and not abs(value) > sys.float_info.max
    return is_number or (isinstance(value, float) and words == "float")
