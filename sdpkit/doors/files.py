"""Fitted estimators as files: parameters and arrays in an npz, without pickles.

A file holds what `transform` and `predict` need, and the certificate. The problem and the solution
are left out; `pickle` and `joblib` keep them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import sdpkit
from sdpkit.certificate.certificate import Certificate
from sdpkit.errors import InputError
from sdpkit.files import reading
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
    "POLA": sdpkit.POLA,
}
_PLAIN = (bool, int, float, str, type(None))


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

    # Attributes that are left out.
    _not_saved: ClassVar[tuple[str, ...]] = ()

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator as npz: without pickles, with a version and a checksum."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        arrays: Arrays = {}
        kinds: dict[str, Any] = {}
        for name, value in vars(self).items():
            private = name.startswith("_") and name != "_sklearn_output_config"
            if name not in parameters and name not in self._not_saved and not private:
                kinds[name] = _pack(name, value, arrays)
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
            model = cls(**head["parameters"])
            for name, kind in head["attributes"].items():
                start = f"{name}/"
                parts = {k[len(start) :]: a for k, a in arrays.items() if k.startswith(start)}
                setattr(model, name, _unpack(kind, parts, path))
            return model


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
            return kind["value"]
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
    """Its arrays, the program's among them, and its numbers and words.

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
    program = {name[8:]: array for name, array in parts.items() if name.startswith("program/")}
    count = sum(name.startswith("matrix") for name in parts)
    told: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in numbers.items()}
    return Certificate(
        **told,
        program=Program.of_file(arguments_of(program, path)),
        multipliers=parts.get("multipliers"),
        rows=parts.get("rows"),
        matrices=tuple(parts[f"matrix{k}"] for k in range(count)) if count else None,
        x=parts.get("x"),
    )
