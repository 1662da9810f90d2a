"""Files from strangers end in a sentence, and files of our own are never half written."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sdpkit
from sdpkit import Block, Cost, InputError, Program
from sdpkit.cli.main import main
from sdpkit.comparison.records import RunRecord
from sdpkit.comparison.report.markdown import fill
from sdpkit.files import one_line, read_npy, read_npz, replacing, require_writable

FUZZER = Path(__file__).with_name("fuzz_files.py")


# -- programs -----------------------------------------------------------------------------------


def small_program(name: str = "program") -> Program:
    rng = np.random.default_rng(0)
    vectors = np.vstack([np.eye(4), rng.integers(-1, 2, size=(4, 4))]).astype(float)
    block = Block.of(4, vectors, cost=Cost.of(4, sparse=np.diag([1.0, 2, 3, 4])))
    return Program.of(block, np.ones(8), rows_x=np.eye(8), name=name)


def first(value: int) -> Callable[[Any], Any]:
    return lambda a: np.where(np.arange(a.size) == 0, value, a)


OUTSIDE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "index huge": ("block0/incidence/indices", first(10**9)),
    "index negative": ("block0/incidence/indices", first(-(10**7))),
    "row huge": ("rows_q/indices", first(2 * 10**9)),
    "column huge": ("rows_x/indices", first(2 * 10**9)),
    "start beyond": ("block0/incidence/indptr", lambda a: np.r_[a[:1], 10**6, a[2:]]),
    "start negative": ("rows_q/indptr", lambda a: np.r_[a[:1], -(10**6), a[2:]]),
    "cost outside": ("block0/cost/sparse/indices", first(10**9)),
    "shape huge": ("block0/incidence/shape", lambda a: np.array([a[0], 10**15])),
    "shape fractional": ("block0/incidence/shape", lambda a: a + 0.5),
    "indices of texts": ("rows_q/indices", lambda a: a.astype(str)),
    "complex numbers": ("rhs", lambda a: a.astype(complex)),
    "complex entries": ("rows_q/data", lambda a: a + 1j),
    "booleans as texts": ("free_x", lambda a: np.where(a, "True", "False")),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_indices_are_checked_before_a_matrix_is_made(case: str, tmp_path: Path) -> None:
    """They crashed the process; now the file is refused by name."""
    path = tmp_path / "program.npz"
    small_program().save(path)
    name, change = OUTSIDE[case]
    arrays = read_npz(path)
    np.savez(path, **{**arrays, name: change(arrays[name])})
    with pytest.raises(InputError, match=r"program\.npz"):
        Program.load(path)
    assert main(["solve", str(path)]) == 2


@pytest.mark.parametrize("size", [2.5, 0, -1, "2", True, 1e300])
def test_sizes_of_blocks_are_whole_numbers(size: Any, tmp_path: Path) -> None:
    path = tmp_path / "program.npz"
    small_program().save(path)
    arrays = read_npz(path)
    header = json.loads(bytes(arrays["header"]))
    header["blocks"][0][1] = size
    np.savez(path, **{**arrays, "header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    with pytest.raises(InputError, match="size"):
        Program.load(path)


def test_null_directions_are_a_matrix() -> None:
    for null in (np.zeros((9, 9, 9)), np.zeros((8, 1)), np.float64(1.0)):
        with pytest.raises(InputError, match="shape"):
            Block.of(9, np.eye(9), null=null)


def test_matrices_of_users_are_checked_too() -> None:
    wrong = sp.csr_array((np.ones(2), np.array([0, 10**9]), np.array([0, 1, 2])), shape=(2, 2))
    with pytest.raises(InputError, match="not a sparse matrix"):
        Block.of(2, wrong)
    with pytest.raises(InputError, match="pass real numbers"):
        Block.of(2, np.eye(2) * 1j)
    with pytest.raises(InputError, match="masked array"):
        sdpkit.MVU(np.ma.masked_less(np.random.default_rng(0).random((9, 2)), 0.1))
    for flag in ("true", "False", 1):
        with pytest.raises(InputError, match="pass True or False"):
            sdpkit.MVU(np.random.default_rng(0).random((9, 2)), angles=flag)


# -- archives -----------------------------------------------------------------------------------


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array: Any, **header: Any) -> bytes:
    """An array in numpy's format whose header may lie."""
    out = io.BytesIO()
    told = {**np.lib.format.header_data_from_array_1_0(np.asarray(array)), **header}
    np.lib.format.write_array_header_1_0(out, told)
    return out.getvalue() + np.asarray(array).tobytes()


def test_archives_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    zeros = npy(np.zeros(1), shape=(2**26,)) + bytes(8 * (2**26 - 1))
    bomb = zipped(tmp_path / "bomb.npz", X=zeros)
    assert bomb.stat().st_size < 3 * 2**20
    with pytest.raises(InputError, match="would unfold"):
        read_npz(bomb)
    for shape in ((10**12,), (2**31, 2**31), (-1,), (3,)):
        liar = zipped(tmp_path / "liar.npz", X=npy(np.zeros(4), shape=shape))
        with pytest.raises(InputError, match=r"liar\.npz is not"):
            read_npz(liar)
        (tmp_path / "liar.npy").write_bytes(npy(np.zeros(4), shape=shape))
        with pytest.raises(InputError, match=r"liar\.npy is not"):
            read_npy(tmp_path / "liar.npy")


@pytest.mark.parametrize("order", "<>")
def test_texts_of_characters_that_do_not_exist_are_refused(tmp_path: Path, order: str) -> None:
    text = np.array([0x61, 0x110000], f"{order}u4")
    path = zipped(tmp_path / "texts.npz", y=npy(text, descr=f"{order}U2", shape=()))
    with pytest.raises(InputError, match="characters that do not exist"):
        read_npz(path)


def test_arrays_of_every_plain_kind_are_read_as_they_were_written(tmp_path: Path) -> None:
    arrays = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "texts": np.array(["a", "bc"]),
        "swapped texts": np.array("\U0010ffff", ">U1"),
        "bytes": np.array([b"a"]),
        "empty": np.zeros((0, 3), np.int8),
        "scalar": np.array(1.5),
        "flags": np.array([True, False]),
        "swapped": np.arange(3, dtype=">i4"),
    }
    np.savez_compressed(tmp_path / "all.npz", **arrays)
    found = read_npz(tmp_path / "all.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_many_pairs_are_refused_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdpkit.files.free_memory", lambda: 2.0**33)
    with pytest.raises(InputError, match=r"20000 points .* have 199990000"):
        sdpkit.MMC(np.random.default_rng(0).random((20_000, 10)), np.arange(20_000) % 2)


# -- SDPA files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\n1\n1000000000\n1.0\n1 1 1 1 1\n", "has size 1000000000"),
        ("1\n1\n-1000000000\n1.0\n1 1 1 1 1\n", "has size -1000000000"),
        ("1\n1\n2.5\n1.0\n1 1 1 1 1\n", "pass whole numbers"),
        ("1\n1\ninf\n1.0\n1 1 1 1 1\n", "pass whole numbers"),
        ("99999999999999999999\n1\n2\n1.0\n1 1 1 1 1\n", "the file ends after"),
        ("-1\n1\n2\n1.0\n1 1 1 1 1\n", "announces -1 constraints"),
        ('"sdpkit sense=max offset=x\n1\n1\n2\n1\n1 1 1 1 1\n', "could not convert"),
        ("\x00\x01", "ends before the numbers"),
        ("\x00\x01\nx\n", "no number"),
    ],
)
def test_sizes_are_checked_before_anything_is_allocated(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.dat-s").write_text(text)
    assert main(["solve", str(tmp_path / "x.dat-s")]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    ["sdpkit sense=min offset=99.0", "a\n1\n1\n1\n7.0\n0 1 1 1 1.0\n", "quote\" ' ", "é∂", ""],
)
def test_a_name_does_not_become_part_of_the_program(name: str, tmp_path: Path) -> None:
    block = Block.of(2, np.eye(2), cost=Cost.of(2, identity=1.0))
    program = Program.of(block, [1.0, 2.0], name=name)
    sdpkit.write_sdpa(program, tmp_path / "x.dat-s")
    back = sdpkit.read_sdpa(tmp_path / "x.dat-s")
    assert (back.sense, back.offset) == ("max", 0.0)
    assert sdpkit.solve(back, solver="interior").objective == pytest.approx(3.0, rel=1e-5)
    (tmp_path / "x.dat-s").read_text().encode("ascii")


# -- what is printed ----------------------------------------------------------------------------


def test_texts_from_files_are_printed_as_one_plain_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[31mred\nnew line\u202e"
    assert one_line(evil) == "[31mred new line"
    small_program(evil).save(tmp_path / "p.npz")
    assert Program.load(tmp_path / "p.npz").name == "[31mred new line"
    main(["solve", str(tmp_path / "p.npz")])
    main(["solve", str(tmp_path / "no\x1b[31m.csv")])
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err


def made_up(**values: Any) -> RunRecord:
    given = {"suite": "", "instance": "a", "kind": "mvu", "n": 1, "n_rows": 1, "fingerprint": "f"}
    more = {"solver": "s", "solver_version": "1", "tol": 1e-3, "repeat": 0, "start": "cold"}
    ended = {"outcome": "optimal", "success": True, "claimed": True, "total": 1.0}
    return RunRecord(**{**given, **more, **ended, **values})


def test_cells_are_no_formulas_and_no_links(tmp_path: Path) -> None:
    evil = ["=1+1", "+1", "-1", "@a", "'=1", "plain", "[x](http://example.com)", "\tx"]
    runs = tuple(made_up(instance=word, message=word) for word in evil)
    comparison = sdpkit.Comparison(runs, {}, ())
    comparison.to_csv(tmp_path / "runs.csv")
    rows = (tmp_path / "runs.csv").read_text().splitlines()[1:]
    assert not any(cell[:1] in "=+@\t" for row in rows for cell in row.split(",") if cell)
    back = sdpkit.Comparison.from_csv(tmp_path / "runs.csv")
    assert [run.message for run in back.runs] == evil
    page = fill("<!-- measured: instances -->\n<!-- end of measured -->", comparison)
    assert "\\[x\\](" in page


# -- replacing ----------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path, link = tmp_path / "answer.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    with contextlib.suppress(RuntimeError), replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "old"
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["answer.txt", "link.txt"]
    with replacing("/dev/null") as file:
        file.write(b"gone")
    assert not Path("/dev/null").is_file()


def test_places_are_checked_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    with pytest.raises(InputError, match="pass --force"):
        require_writable(tmp_path / "there", force=False)
    require_writable(tmp_path / "there", force=True)
    with pytest.raises(InputError, match="is a folder"):
        require_writable(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        require_writable(tmp_path / "nowhere" / "x")


# -- changed files ------------------------------------------------------------------------------


def fuzz(seed: int, count: int, folder: Path) -> None:
    """Every changed file ends in a documented exit code, within 10 s and 1 GiB."""
    here = str(Path(sdpkit.__file__).parents[1])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": here}
    command = [sys.executable, str(FUZZER), str(seed), str(count), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    faults = [line for line in lines if "fault" in line]
    assert not faults, faults[0]["fault"]
    assert run.returncode == 0, (lines[-1:], run.stderr[-2000:])
    codes = [line["code"] for line in lines if "code" in line]
    assert len(codes) == count
    # Most changes are found out, and some files are as good as before.
    assert codes.count(2) > count / 3
    assert codes.count(0) > count / 20


def test_changed_files_end_in_a_sentence(tmp_path: Path) -> None:
    fuzz(16, 80, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_changed_files_end_in_a_sentence(seed: int, tmp_path: Path) -> None:
    fuzz(1000 + seed, 500, tmp_path)
