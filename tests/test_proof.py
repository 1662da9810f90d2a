"""Proof files: enclosures of programs with known optima, and what the checker refuses."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import proofs as attacks
from bench import strangers

import sdpkit
from sdpkit import Block, Cost, InputError, Program
from sdpkit.program.sdpa import write_sdpa
from sdpkit.proof import check as checker
from sdpkit.proof import digits
from sdpkit.proof.canonical import program_of, sha256_of
from sdpkit.proof.check import Refused, check, read
from sdpkit.proof.prove import Given, Proof, prove
from sdpkit.proof.statement import statement_of
from sdpkit.solving.proving import ProgramFile, prove_file

CHECKER = Path(checker.__file__)


def test_enclosures_hold_the_optimum() -> None:
    both, some = attacks.enclose(range(60))
    assert both >= 25, both
    assert some >= 50, some


@pytest.mark.slow
def test_twenty_thousand_enclosures_hold_the_optimum() -> None:
    both, _ = attacks.enclose(range(1000, 21_000))
    assert both >= 6000


def test_enclosures_with_the_solver_close() -> None:
    """On programs with an interior on both sides the ends are as near as the solver's answer."""
    checked = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, m = 6, 5
        a = [attacks.symmetric(rng, n) for _ in range(m)]
        a[0] = np.eye(n, dtype=int)
        vectors = np.vstack(
            [np.eye(n), [np.eye(n)[i] + np.eye(n)[j] for i in range(n) for j in range(i)]]
        )
        rows = []
        for matrix in a:
            diagonal = [matrix[i, i] - matrix[i].sum() + matrix[i, i] for i in range(n)]
            rows.append(diagonal + [matrix[i, j] for i in range(n) for j in range(i)])
        cost = attacks.symmetric(rng, n).astype(float)
        block = Block.of(n, vectors, cost=Cost.of(n, sparse=cost))
        rhs = [float(np.trace(matrix)) for matrix in a]  # X = I is feasible
        program = Program.of(block, rhs, rows_q=np.array(rows, dtype=float))
        solution = sdpkit.solve(program)
        proof = solution.certificate.prove()
        assert proof is not None
        assert proof.lower is not None
        assert proof.upper is not None
        assert proof.lower <= proof.upper
        assert float(proof.upper - proof.lower) <= 3e-6 * max(1.0, abs(float(proof.upper)))
        checked += 1
    assert checked == 12


# -- mutated proofs ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proofs() -> list[Proof]:
    return attacks.proofs()


def test_no_mutated_proof_is_accepted_unless_it_is_true(proofs: list[Proof]) -> None:
    found = attacks.attack(proofs, 600, seed=1)
    assert found.refused >= 300
    assert found.accepted >= 50


@pytest.mark.slow
def test_ten_thousand_mutated_proofs(proofs: list[Proof]) -> None:
    found = attacks.attack(proofs, 10_000, seed=2)
    assert found.refused >= 5000
    assert found.slowest < 60


def run_checker(path: Path) -> subprocess.CompletedProcess[str]:
    """The checker as a referee runs it: isolated, without any package."""
    command = [sys.executable, "-I", "-S", str(CHECKER), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_damaged_files_are_refused_in_a_sentence(proofs: list[Proof], tmp_path: Path) -> None:
    text = json.dumps(proofs[0].content).encode()
    packed = gzip.compress(text)
    cases = {
        "cut": packed[: len(packed) // 2],
        "not packed": text,
        "cut text": gzip.compress(text[:-20]),
        "deep": gzip.compress(b"[" * 200_000),
        "huge": gzip.compress(b'{"program": ' + b"9" * 1_000_000 + b"}"),
        "constant": gzip.compress(text.replace(b'"faces": []', b'"faces": NaN')),
        "many": gzip.compress(b"[" + b"[]," * 2_000_000 + b"[]]"),
        "empty": b"",
        "bomb": gzip.compress(b" " * 200_000_000, compresslevel=9),
    }
    for name, content in cases.items():
        path = tmp_path / f"{name}.json.gz"
        path.write_bytes(content)
        with pytest.raises(attacks.REFUSALS):
            check(read(path))
    for name in ("cut", "deep"):
        ran = run_checker(tmp_path / f"{name}.json.gz")
        assert ran.returncode == 1
        assert ran.stderr.startswith("no theorem: ")
        assert "Traceback" not in ran.stderr


def test_work_is_bounded() -> None:
    """A proof beyond the budget is refused before the work is done."""
    statement, answer, _ = attacks.planted(3)
    proof = prove(statement, Given(answer))
    assert proof is not None
    with pytest.raises(Refused, match="more work"):
        check(proof.content, work=10)
    large = copy.deepcopy(proof.content)
    large["program"]["blocks"] = [100_000]
    with pytest.raises(Refused, match="too large"):
        check(large)


# -- the checker as a referee finds it ----------------------------------------------------------


def test_the_checker_is_one_file_that_needs_nothing() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= 300
    imported = {
        line.split()[1].split(".")[0]
        for line in text.splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported <= set(sys.stdlib_module_names)


def test_one_digit_breaks_a_proof(tmp_path: Path) -> None:
    program = sdpkit.MVU(graph=sdpkit.datasets.cycle_graph(5)).program()
    proof = sdpkit.solve(program).certificate.save_proof(tmp_path / "pentagon.json.gz")
    ran = run_checker(tmp_path / "pentagon.json.gz")
    assert ran.stdout == f"{proof}\n"
    assert "3.618" in ran.stdout
    content = json.loads(gzip.decompress((tmp_path / "pentagon.json.gz").read_bytes()))
    rows = content["multipliers"]["factors"][0]["rows"]
    rows[0][0] += 10 ** (len(str(rows[0][0])) - 2)
    (tmp_path / "broken.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    ran = run_checker(tmp_path / "broken.json.gz")
    assert ran.returncode == 1
    assert "not dominant" in ran.stderr


def test_files_and_programs_have_the_same_name(tmp_path: Path) -> None:
    """A program written as SDPA and read by the stand-alone reader has the same SHA-256."""
    block = Block.of(
        2, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], name="M", cost=Cost.of(2, identity=0.5)
    )
    program = Program.of(block, [1.5, -0.25], rows_q=[[1.0, 2.0, 0.0], [0.0, 0.0, 0.1]])
    write_sdpa(program, tmp_path / "p.dat-s")
    of_file = program_of((tmp_path / "p.dat-s").read_text())
    assert sha256_of(of_file) == sha256_of(statement_of(program))


def test_features_and_costs_are_multiplied_out_exactly() -> None:
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((4, 2)), rng.standard_normal((2, 1))
    block = Block.of(
        2,
        [[1.0, -1.0, 0, 0], [0, 1.0, 0, -1.0]],
        features=x,
        cost=Cost.of(2, factor=u, weights=[0.3]),
    )
    program = Program.of(block, [1.0], rows_q=[[0.1, 0.7]], cost_q=[0.0, 0.9])
    found = {tuple(place): v for *place, v in statement_of(program)["entries"]}

    def exact(text: str) -> Fraction:
        mantissa, power = text.split("p")
        return Fraction(int(mantissa, 16)) * Fraction(2) ** int(power)

    v = [
        [Fraction(a) - Fraction(b) for a, b in zip(x[i], x[j], strict=True)]
        for i, j in ((0, 1), (1, 3))
    ]
    a, b = Fraction(0.1), Fraction(0.7)
    assert exact(found[1, 1, 1, 2]) == a * v[0][0] * v[0][1] + b * v[1][0] * v[1][1]
    c = Fraction(0.3) * Fraction(u[0, 0]) * Fraction(u[1, 0]) + Fraction(0.9) * v[1][0] * v[1][1]
    assert exact(found[0, 1, 1, 2]) == c


@pytest.mark.parametrize(
    ("block", "options", "words"),
    [
        (Block.of(1, [[1.0]], log_det=1.0), {}, "log det"),
        (Block.of(1, [[1.0]]), {"rows_x": [[1.0]], "quadratic_x": [1.0]}, "penalties"),
        (Block.of(2, [[1.0, 0.0]], max_rank=1), {}, "rank"),
    ],
)
def test_what_is_outside_says_so(block: Block, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        statement_of(Program.of(block, [1.0], **options))


def test_the_command_proves_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sdpkit.cli.main import main

    file, proof = tmp_path / "tiny.dat-s", tmp_path / "p.json.gz"
    # X₁₁ = X₂₂ = X₃₃ = 1, <11ᵀ, X> = 0: no interior.
    rows = ["1 1 1 1 1", "2 1 2 2 1", "3 1 3 3 1"]
    rows += [f"4 1 {i} {j} 1" for i in (1, 2, 3) for j in range(i, 4)]
    file.write_text("4\n1\n3\n1 1 1 0\n0 1 1 2 0.5\n" + "\n".join(rows) + "\n")
    assert main(["prove", str(file), "--proof", str(proof)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("theorem: -0.5")
    assert sha256_of(program_of(file.read_text())) in said
    assert run_checker(proof).stdout.strip() == said.splitlines()[0]
    assert main(["prove", str(file), "--proof", str(proof)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["prove", str(file), "--proof", str(tmp_path / "p.txt")]) == 2
    assert ".json.gz" in capsys.readouterr().err


def test_a_point_stays_inside_where_doubles_miss_its_rows(tmp_path: Path) -> None:
    """A gain problem: the shortest step onto the rows is longer than the least eigenvalue."""
    file = ProgramFile.read(strangers.control(6, 1).write(tmp_path / "control.dat-s"))
    solution = sdpkit.solve(file.program, tol=1e-8)
    answer = file.in_its_terms(solution.matrices, solution.x, solution.dual)
    proof = prove(file.statement, Given(answer), many_bits=False)
    assert proof is not None
    assert proof.upper is not None
    assert proof.lower is not None
    assert proof.upper - proof.lower <= 5e-8 * max(1, abs(proof.upper))


def test_a_face_is_sought_before_many_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """<I + 11ᵀ, X> = tr X = 2 leaves no interior; the face is cheaper than 512 bits."""

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(digits, "more_digits", refuse)
    path = tmp_path / "no_interior.dat-s"
    rows = [f"1 1 {i} {j} {1 + (i == j)}" for i in (1, 2, 3) for j in range(i, 4)]
    rows += [f"2 1 {i} {i} 1" for i in (1, 2, 3)]
    path.write_text("2\n1\n3\n2 2\n0 1 1 1 1\n" + "\n".join(rows) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        proof = prove_file(path, solver="interior").proof
    assert proof is not None
    assert proof.content["faces"]
    assert proof.upper is not None
    assert proof.lower is not None
    assert proof.upper - proof.lower <= 1e-6


def test_null_directions_that_were_computed_are_left_out() -> None:
    """A grid without noise: the theorem is about its rods alone, and has one end."""
    grid = np.array([[i, j, 0.0] for i in range(4) for j in range(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdpkit.ConvergenceWarning)
        solution = sdpkit.solve(sdpkit.MVU(grid, n_neighbors=8))
    proof = solution.certificate.prove()
    assert proof is not None
    assert proof.lower is None
    assert proof.upper is not None
    assert 40 <= proof.upper <= 41  # the grid itself has 40


def test_an_infeasible_graph_has_a_proof_file(tmp_path: Path) -> None:
    """Rods of random points, one of them too long; small cliques give rounded null directions."""
    points = np.random.default_rng(0).standard_normal((20, 3))
    graph = sdpkit.MVU(points, n_neighbors=5).neighborhood
    lengths = np.array(graph.squared_lengths)
    lengths[3] *= 40
    graph = sdpkit.graphs.NeighborhoodGraph(20, graph.edges, lengths)
    ray = sdpkit.solve(sdpkit.MVU(graph=graph)).ray
    assert ray is not None
    ray.save_proof(tmp_path / "ray.json.gz")
    assert "no feasible point" in run_checker(tmp_path / "ray.json.gz").stdout
