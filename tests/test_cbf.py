"""Files of the conic benchmark format."""

from __future__ import annotations

import math
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import sdpkit
from sdpkit.errors import InputError

MATRICES = """# all kinds of coordinates
VER
1
OBJSENSE
MIN
VAR
3 1
F 3
PSDVAR
1
2
PSDCON
1
2
CON
5 3
L= 1
Q 3
L= 1
OBJACOORD
1
2 1.0
OBJFCOORD
2
0 0 0 1.0
0 1 1 1.0
OBJBCOORD
10
ACOORD
5
0 0 1
0 1 1
1 2 1
2 0 1
3 1 1
BCOORD
2
0 -1
4 -1.0
FCOORD
1
4 0 1 0 1.0
HCOORD
2
0 2 0 0 1
0 2 1 1 1
DCOORD
1
0 1 0 0.9
"""
CONES = """VER
3
OBJSENSE
MAX
POWCONES
1 2
2
1.0
3.0
VAR
9 3
EXP 3
@0:POW 3
QR 3
CON
6 1
L= 6
OBJACOORD
3
2 1.0
5 1.0
8 1.0
ACOORD
6
0 0 1
1 1 1
2 3 1
3 4 1
4 6 1
5 7 1
BCOORD
6
0 -2
1 -1
2 -2
3 -3
4 -2
5 -4
"""
DUAL = """VER
3
OBJSENSE
MIN
VAR
3 1
EXP* 3
CON
2 1
L= 2
OBJACOORD
1
0 1.0
ACOORD
2
0 2 1
1 1 1
BCOORD
2
0 1
1 -0.5
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.cbf"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # t ≥ ‖(x₀, x₁)‖, x₀ + x₁ = 1, t ≥ 0.9 by the 2 × 2 inequality; tr X with X₀₁ = ½.
        (MATRICES, max(math.sqrt(0.5), 0.9) + 1 + 10),
        # e^{x/1} ≤ 2; 2^¼ 3^¾; √(2·2·4).
        (CONES, math.log(2) + 2**0.25 * 3**0.75 + 4),
        # w ≥ −u e^{v/u − 1} with u = −1, v = ½.
        (DUAL, math.exp(-0.5 - 1)),
    ],
    ids=["matrices", "cones", "dual exponential"],
)
def test_values(tmp_path: Path, text: str, value: float) -> None:
    model = sdpkit.read_cbf(written(tmp_path, text))
    model.solve(solver="CLARABEL")
    assert model.value == pytest.approx(value, rel=1e-6)
    assert sdpkit.certify_cvxpy(model).passes(1e-5)


def test_a_power_cone_of_several_dimensions(tmp_path: Path) -> None:
    text = (
        "VER\n3\nOBJSENSE\nMAX\nPOWCONES\n1 3\n3\n1\n1\n2\nVAR\n5 1\n@0:POW 5\n"
        "CON\n4 1\nL= 4\nOBJACOORD\n1\n4 1\nACOORD\n4\n0 0 1\n1 1 1\n2 2 1\n3 3 1\n"
        "BCOORD\n4\n0 -1\n1 -16\n2 -4\n3 -3\n"
    )
    model = sdpkit.read_cbf(written(tmp_path, text))
    model.solve(solver="CLARABEL")
    assert model.value == pytest.approx(math.sqrt(16 - 9), rel=1e-5)  # 1^¼ 16^¼ 4^½ = 4


BROKEN = {
    "counts of cones": (MATRICES.replace("VAR\n3 1", "VAR\n4 1"), "3 entries together, not 4"),
    "index": (MATRICES.replace("0 1 1\n1 2 1\n", "0 1 1\n1 7 1\n"), "must be below"),
    "count of entries": (MATRICES.replace("ACOORD\n5", "ACOORD\n6"), "entries where|cannot be"),
    "integers": (MATRICES + "INT\n1\n0\n", "integer variables"),
    "change": (MATRICES + "CHANGE\n", "sequence of models"),
    "NaN": (MATRICES.replace("0 1 0 0.9", "0 1 0 nan"), "not finite"),
    "words": (MATRICES.replace("0 1 0 0.9", "0 1 0 a"), "not a number"),
    "cone": (MATRICES.replace("Q 3", "SVECPSD 3"), "SVECPSD cannot be read"),
    "exponents": (CONES.replace("1.0\n3.0", "1.0\n-3.0"), "positive exponents"),
    "no power cone": (CONES.replace("@0:POW", "@1:POW"), "no cone of POWCONES"),
    "size": (CONES.replace("EXP 3", "EXP 4").replace("9 3", "10 3"), "cannot have 4 entries"),
    "section": (MATRICES + "WRONG\n", "section 'WRONG'"),
    "twice": (MATRICES + "VER\n1\n", "second section VER"),
    "version": (MATRICES.replace("VER\n1", "VER\n9"), "version 9"),
    "end": (MATRICES + "EXTRA", "section"),
    "cut short": (MATRICES[: MATRICES.index("0 1 0 0.9")], "the file ends"),
    "sense": (MATRICES.replace("MIN", "LEAST"), "not MIN or MAX"),
    "empty": ("", "no section OBJSENSE"),
    "huge": (MATRICES.replace("VAR\n3 1", "VAR\n9999999999 1"), "more than"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_in_a_sentence(tmp_path: Path, case: str) -> None:
    text, words = BROKEN[case]
    with pytest.raises(InputError, match=words) as refused:
        sdpkit.read_cbf(written(tmp_path, text))
    assert "a.cbf" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.cbf"
    path.write_bytes(bytes([0, 255, 254, 7]))
    with pytest.raises(InputError, match="not text"):
        sdpkit.read_cbf(path)
    with pytest.raises(InputError, match="no file"):
        sdpkit.read_cbf(tmp_path / "b.cbf")


def test_the_matrices_are_symmetric(tmp_path: Path) -> None:
    """<F, X> counts an entry off the diagonal twice."""
    model = sdpkit.read_cbf(written(tmp_path, MATRICES))
    (matrix,) = [v for v in model.variables() if v.name() == "X0"]
    model.solve(solver="CLARABEL")
    np.testing.assert_allclose(matrix.value, np.full((2, 2), 0.5), atol=1e-5)
    assert isinstance(model, cp.Problem)
