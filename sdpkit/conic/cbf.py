"""Files of the Conic Benchmark Format (.cbf), read as cvxpy models.

    minimise or maximise   <F⁰, X> + a⁰ᵀx + b⁰
    subject to             <F_i, X> + a_iᵀx + b_i  in linear, second-order, exponential, power cones
                           Σ x_j H_ij + D_i ⪰ 0,   x in such cones,   X ⪰ 0

Reference: H. Friberg, CBLIB 2014: a benchmark library for conic mixed-integer and continuous
optimization, Math. Prog. Comp. 8 (2016). Versions 1 to 4 are read. Integer variables are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpkit.errors import InputError

if TYPE_CHECKING:
    import cvxpy

# Most entries of a matrix variable or constraint, and of all vectors together, that are read.
_MOST = 100_000_000
_PLAIN = ("F", "L+", "L-", "L=", "Q", "QR", "EXP", "EXP*")
_COORDINATES = {
    "OBJACOORD": 1,
    "OBJFCOORD": 3,
    "ACOORD": 2,
    "BCOORD": 1,
    "FCOORD": 4,
    "HCOORD": 4,
    "DCOORD": 3,
}


def read_cbf(path: str | Path) -> cvxpy.Problem:
    """Read a .cbf file as a cvxpy model.

    Linear, second-order (also rotated), semidefinite, exponential and power cones are read. The
    variables are called x, X0, X1, …

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    cvxpy.Problem
        The model, for `problem.solve`, `sdpkit.certify_cvxpy` and `sdpkit.compare`.

    Raises
    ------
    InputError
        If the file has integers, counts that do not fit or numbers that are not finite; the message
        names the line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tiny.cbf"
    >>> text = "VER\\n3\\n\\nOBJSENSE\\nMIN\\n\\nVAR\\n1 1\\nL+ 1\\n\\nOBJACOORD\\n1\\n0 1.0\\n"
    >>> _ = path.write_text(text)                # min x, x ≥ 0
    >>> model = read_cbf(path)
    >>> round(float(model.solve(solver="CLARABEL")), 6) + 0.0
    0.0
    """
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"there is no file {place}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{place} is not a .cbf file: it is not text") from error
    try:
        return _model(_content(_NumberedLines(text)))
    except _Malformed as error:
        raise InputError(f"{place}: {error}") from error


class _Malformed(Exception):
    """What is wrong with a file."""


@dataclass(frozen=True)
class _NamedCone:
    name: str
    size: int


@dataclass
class _Content:
    """What a file states; triplets as lists of indices and a number."""

    sense: str = ""
    variables: list[_NamedCone] = field(default_factory=list)
    constraints: list[_NamedCone] = field(default_factory=list)
    matrices: list[int] = field(default_factory=list)
    inequalities: list[int] = field(default_factory=list)
    powers: dict[str, list[list[float]]] = field(default_factory=dict)
    coordinates: dict[str, list[tuple[tuple[int, ...], float]]] = field(default_factory=dict)
    constant: float = 0.0

    @property
    def n(self) -> int:
        return sum(cone.size for cone in self.variables)

    @property
    def m(self) -> int:
        return sum(cone.size for cone in self.constraints)


class _NumberedLines:
    """The lines with something on them, and their numbers."""

    def __init__(self, text: str) -> None:
        every = enumerate((line.partition("#")[0].strip() for line in text.splitlines()), start=1)
        self._rest: Iterator[tuple[int, str]] = iter([(k, line) for k, line in every if line])
        self.number = 0

    def next(self, what: str) -> str:
        line = self.keyword()
        if line is None:
            raise _Malformed(f"the file ends where {what} should follow")
        return line

    def keyword(self) -> str | None:
        self.number, line = next(self._rest, (self.number, None))
        return line

    def integers(self, count: int, what: str) -> list[int]:
        return [self._integer(word, what) for word in self._words(count, what)]

    def _words(self, count: int, what: str) -> list[str]:
        words = self.next(what).split()
        if len(words) != count:
            raise _Malformed(
                f"line {self.number} has {len(words)} entries where {what} needs {count}"
            )
        return words

    def _integer(self, word: str, what: str) -> int:
        if not word.isascii() or not word.isdigit() or len(word) > 10:
            raise _Malformed(f"line {self.number}: {word!r} in {what} is not a whole number")
        return int(word)

    def entry(self, count: int, what: str) -> tuple[tuple[int, ...], float]:
        """`count` indices and a number."""
        words = self._words(count + 1, what)
        indices = tuple(self._integer(word, what) for word in words[:-1])
        return indices, self.to_number(words[-1], what)

    def number_alone(self, what: str) -> float:
        return self.to_number(self._words(1, what)[0], what)

    def to_number(self, word: str, what: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise _Malformed(f"line {self.number}: {word!r} in {what} is not a number") from None
        if not math.isfinite(value):
            raise _Malformed(f"line {self.number}: {what} holds {word}, which is not finite")
        return value


# -- reading --------------------------------------------------------------------------------


def _content(lines: _NumberedLines) -> _Content:
    out, seen = _Content(), set[str]()
    while (keyword := lines.keyword()) is not None:
        if keyword in seen:
            raise _Malformed(f"line {lines.number}: there is a second section {keyword}")
        seen.add(keyword)
        _section(keyword, lines, out)
    if not out.sense:
        raise _Malformed("there is no section OBJSENSE")
    _check_ranges(out)
    return out


def _section(keyword: str, lines: _NumberedLines, out: _Content) -> None:
    if keyword == "VER":
        (version,) = lines.integers(1, "the version")
        if not 1 <= version <= 4:
            raise _Malformed(f"it has version {version} of the format; 1 to 4 can be read")
    elif keyword == "OBJSENSE":
        out.sense = lines.next("the sense")
        if out.sense not in ("MIN", "MAX"):
            raise _Malformed(f"line {lines.number}: the sense is {out.sense!r}, not MIN or MAX")
    elif keyword == "VAR":
        out.variables = _cones(lines, "VAR")
    elif keyword == "CON":
        out.constraints = _cones(lines, "CON")
    elif keyword == "PSDVAR":
        out.matrices = _sizes(lines, "PSDVAR")
    elif keyword == "PSDCON":
        out.inequalities = _sizes(lines, "PSDCON")
    elif keyword == "OBJBCOORD":
        out.constant = lines.number_alone("OBJBCOORD")
    elif keyword == "POWCONES":
        out.powers["POW"] = _exponents(lines)
    elif keyword in _COORDINATES:
        (count,) = lines.integers(1, f"the count of {keyword}")
        _require_size(count, keyword)
        width = _COORDINATES[keyword]
        out.coordinates[keyword] = [lines.entry(width, keyword) for _ in range(count)]
    elif keyword == "INT":
        raise _Malformed("it has integer variables (INT); only continuous models can be read")
    elif keyword == "CHANGE":
        raise _Malformed("it states a sequence of models (CHANGE); only a single one can be read")
    else:
        raise _Malformed(f"line {lines.number}: the section {keyword[:40]!r} cannot be read")


def _cones(lines: _NumberedLines, what: str) -> list[_NamedCone]:
    total, count = lines.integers(2, f"the counts of {what}")
    _require_size(total + count, what)
    cones = []
    for _ in range(count):
        words = lines._words(2, f"a cone of {what}")
        if words[0] not in _PLAIN and not words[0].startswith("@"):
            raise _Malformed(
                f"line {lines.number}: the cone {words[0]} cannot be read; linear, second-order, "
                "semidefinite, exponential and power cones can"
            )
        cones.append(_NamedCone(words[0], lines._integer(words[1], what)))
    found = sum(cone.size for cone in cones)
    if found != total:
        raise _Malformed(f"the cones of {what} have {found} entries together, not {total}")
    return cones


def _sizes(lines: _NumberedLines, what: str) -> list[int]:
    (count,) = lines.integers(1, f"the count of {what}")
    _require_size(count, what)
    sizes = [lines.integers(1, f"a size of {what}")[0] for _ in range(count)]
    if any(size < 1 for size in sizes):
        raise _Malformed(f"a matrix of {what} has size 0")
    _require_size(sum(size**2 for size in sizes), what)
    return sizes


def _exponents(lines: _NumberedLines) -> list[list[float]]:
    count, total = lines.integers(2, "the counts of POWCONES")
    _require_size(count + total, "POWCONES")
    out = []
    for _ in range(count):
        (length,) = lines.integers(1, "the length of a power cone")
        _require_size(length, "POWCONES")
        out.append([lines.number_alone("an exponent") for _ in range(length)])
        if any(a <= 0 for a in out[-1]) or length < 2:
            raise _Malformed(
                f"line {lines.number}: power cones have two positive exponents or more"
            )
    if sum(len(one) for one in out) != total:
        raise _Malformed(f"POWCONES have {sum(map(len, out))} exponents, not {total}")
    return out


def _require_size(count: int, what: str) -> None:
    if count > _MOST:
        raise _Malformed(f"{what} has {count} entries, more than the {_MOST} that can be read")


def _check_ranges(content: _Content) -> None:
    """Indices within the counts."""
    n, m = content.n, content.m
    of_matrix = content.matrices
    for keyword, entries in content.coordinates.items():
        for indices, _ in entries:
            limits: tuple[int, ...]
            if keyword == "OBJACOORD":
                limits = (n,)
            elif keyword == "ACOORD":
                limits = (m, n)
            elif keyword == "BCOORD":
                limits = (m,)
            else:
                limits = _matrix_limits(keyword, indices, content, of_matrix)
            if any(k >= limit for k, limit in zip(indices, limits, strict=True)):
                raise _Malformed(
                    f"{keyword} has the indices {indices}, which must be below {limits}"
                )


def _matrix_limits(
    keyword: str, indices: tuple[int, ...], content: _Content, sizes: list[int]
) -> tuple[int, ...]:
    """The limits of an entry of a matrix, whose size is that of its number."""
    lead: tuple[int, ...] = ()
    if keyword == "FCOORD":
        lead = (content.m,)
    elif keyword in ("HCOORD", "DCOORD"):
        sizes = content.inequalities
    number = indices[len(lead)]
    size = sizes[number] if number < len(sizes) else 0
    middle = (content.n,) if keyword == "HCOORD" else ()
    return (*lead, len(sizes), *middle, size, size)


# -- the model ------------------------------------------------------------------------------


def _model(content: _Content) -> Any:
    import cvxpy

    n, m = content.n, content.m
    x = cvxpy.Variable(n, name="x") if n else None
    matrices = [
        cvxpy.Variable((k, k), name=f"X{j}", PSD=True) for j, k in enumerate(content.matrices)
    ]
    constraints: list[Any] = []
    if x is not None:
        constraints += _in_cones(x, content.variables, content, "VAR")
    if m:
        maps = _maps(content, x, matrices)
        constraints += _in_cones(maps, content.constraints, content, "CON")
    constraints += _inequalities(content, x)
    goal: Any = content.constant
    if x is not None:
        goal = goal + _vector(content, "OBJACOORD", n) @ x
    for j, matrix in enumerate(matrices):
        entries = [(i[1:], v) for i, v in content.coordinates.get("OBJFCOORD", []) if i[0] == j]
        if entries:
            goal = goal + cvxpy.sum(cvxpy.multiply(_symmetric(entries, matrix.shape[0]), matrix))
    if not isinstance(goal, cvxpy.Expression):
        goal = cvxpy.Constant(goal)
    sense = cvxpy.Minimize if content.sense == "MIN" else cvxpy.Maximize
    if x is None and not matrices:
        raise _Malformed("it has no variables")
    return cvxpy.Problem(sense(goal), constraints)


def _vector(content: _Content, keyword: str, size: int) -> Any:
    out = np.zeros(size)
    for indices, value in content.coordinates.get(keyword, []):
        out[indices[0]] += value
    return out


def _symmetric(entries: list[tuple[tuple[int, ...], float]], size: int) -> Any:
    """The symmetric matrix of which a triangle is given."""
    out = np.zeros((size, size))
    for (i, j), value in entries:
        out[i, j] += value
        if i != j:
            out[j, i] += value
    return out


def _maps(content: _Content, x: Any, matrices: list[Any]) -> Any:
    """<F_i, X> + a_iᵀx + b_i."""
    import cvxpy

    m = content.m
    total: Any = _vector(content, "BCOORD", m)
    entries = content.coordinates.get("ACOORD", [])
    if x is not None and entries:
        (i, j), v = np.array([k for k, _ in entries]).T, [value for _, value in entries]
        total = total + sp.csr_array((v, (i, j)), shape=(m, content.n)) @ x
    for number, matrix in enumerate(matrices):
        k = matrix.shape[0]
        mine = [(i, v) for i, v in content.coordinates.get("FCOORD", []) if i[1] == number]
        if not mine:
            continue
        rows, left, right = np.array([(i[0], i[2], i[3]) for i, _ in mine]).T
        values = np.array([v for _, v in mine])
        off = left != right
        places = np.r_[left * k + right, (right * k + left)[off]]
        table = sp.csr_array(
            (np.r_[values, values[off]], (np.r_[rows, rows[off]], places)), shape=(m, k * k)
        )
        total = total + table @ cvxpy.vec(matrix, order="C")
    return total if isinstance(total, cvxpy.Expression) else cvxpy.Constant(total)


def _inequalities(content: _Content, x: Any) -> list[Any]:
    """Σ x_j H_j + D ⪰ 0."""
    out = []
    for number, k in enumerate(content.inequalities):
        mine = [(i, v) for i, v in content.coordinates.get("DCOORD", []) if i[0] == number]
        total: Any = _symmetric([(i[1:], v) for i, v in mine], k)
        held = [(i, v) for i, v in content.coordinates.get("HCOORD", []) if i[0] == number]
        if x is not None and held:
            import cvxpy

            columns, left, right = np.array([i[1:] for i, _ in held]).T
            values, off = np.array([v for _, v in held]), left != right
            places = np.r_[left * k + right, (right * k + left)[off]]
            table = sp.csr_array(
                (np.r_[values, values[off]], (places, np.r_[columns, columns[off]])),
                shape=(k * k, content.n),
            )
            total = total + cvxpy.reshape(table @ x, (k, k), order="C")
            out.append(total >> 0)
        elif np.linalg.eigvalsh(total)[0] < 0:
            raise _Malformed(f"the matrix {number} of PSDCON is constant and not semidefinite")
    return out


def _in_cones(vector: Any, cones: list[_NamedCone], content: _Content, what: str) -> list[Any]:
    """One constraint or none per cone."""
    out, start = [], 0
    for cone in cones:
        part = vector[start : start + cone.size]
        start += cone.size
        out += _in_cone(part, cone, content, what)
    return out


def _in_cone(part: Any, cone: _NamedCone, content: _Content, what: str) -> list[Any]:
    import cvxpy

    size = cone.size
    if cone.name == "F" or not size:
        return []
    if cone.name in ("L+", "L-", "L="):
        return [{"L+": part >= 0, "L-": part <= 0, "L=": part == 0}[cone.name]]
    if cone.name == "Q":
        return [cvxpy.SOC(part[0], part[1:])] if size > 1 else [part >= 0]
    if cone.name == "QR":
        _require(size >= 2, cone, what)
        # 2ab ≥ ‖z‖² is (a + b)² ≥ (a − b)² + 2‖z‖².
        tail = [part[0] - part[1]] + [math.sqrt(2) * part[k] for k in range(2, size)]
        return [cvxpy.SOC(part[0] + part[1], cvxpy.hstack(tail))]
    if cone.name in ("EXP", "EXP*"):
        _require(size == 3, cone, what)
        z, y, x = part[0], part[1], part[2]
        if cone.name == "EXP":
            return [cvxpy.ExpCone(x, y, z)]
        # (u, v, w) is dual to the cone iff (u − v, −u, w) is in it.
        return [cvxpy.ExpCone(x - y, -x, z)]
    return _in_power_cone(part, cone, content, what)


def _in_power_cone(part: Any, cone: _NamedCone, content: _Content, what: str) -> list[Any]:
    """x₁^α₁ … x_k^α_k ≥ ‖(x_{k+1}, …)‖ with α/Σα for α."""
    import cvxpy

    number, _, kind = cone.name[1:].partition(":")
    listed = content.powers.get(kind, [])
    if kind != "POW" or not number.isdigit() or int(number) >= len(listed):
        raise _Malformed(
            f"the cone {cone.name} of {what} cannot be read: it is no cone of POWCONES"
        )
    alpha = np.array(listed[int(number)])
    alpha = alpha / alpha.sum()
    k = alpha.size
    _require(cone.size > k, cone, what)
    if cone.size == k + 1:
        bound, out = part[k], []
    else:
        bound = cvxpy.Variable()
        out = [cvxpy.SOC(bound, part[k:])]
    if k == 2:
        return [*out, cvxpy.PowCone3D(part[0], part[1], bound, float(alpha[0]))]
    stacked = cvxpy.reshape(part[:k], (k, 1), order="F")
    one = cvxpy.reshape(bound, (1,), order="F")
    return [*out, cvxpy.PowConeND(stacked, one, alpha[:, None])]


def _require(fits: bool, cone: _NamedCone, what: str) -> None:
    if not fits:
        raise _Malformed(f"the cone {cone.name} of {what} cannot have {cone.size} entries")
