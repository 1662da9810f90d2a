"""Proof files: enclosures of programs with known optima, and what the checker refuses."""

from __future__ import annotations

import copy
import gzip
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpkit
from sdpkit import Block, Cost, InputError, Program
from sdpkit.program.sdpa import write_sdpa
from sdpkit.proof import check as checker
from sdpkit.proof.canonical import hexadecimal, program_of, sha256_of
from sdpkit.proof.check import Refused, check, read
from sdpkit.proof.prove import Given, Proof, prove
from sdpkit.proof.statement import Approximation, statement_of

CHECKER = Path(checker.__file__)


# -- programs with rational optima ------------------------------------------------------------


def unimodular(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """An integer matrix and its inverse, which is one too."""
    p, inverse = np.eye(n, dtype=int), np.eye(n, dtype=int)
    for _ in range(2 * n):
        i, j = rng.permutation(n)[:2] if n > 1 else (0, 0)
        if i != j:
            times = int(rng.integers(-1, 2))
            p[i] += times * p[j]
            inverse[:, j] -= times * inverse[:, i]
    return p, inverse


def symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    a = rng.integers(-2, 3, (n, n))
    return np.tril(a) + np.tril(a, -1).T


def planted(seed: int) -> tuple[dict[str, Any], Approximation, Fraction]:
    """(statement, the optimal answer, the optimal value): complementary X and S, in integers."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 3)).tolist()
    n_x, m = int(rng.integers(0, 4)), int(rng.integers(1, 6))
    relations = rng.choice(list("=<>"), m, p=[0.6, 0.2, 0.2])
    free = rng.random(n_x) < 0.3
    w = rng.integers(-2, 3, m)
    w = np.where(relations == "<", np.abs(w), np.where(relations == ">", -np.abs(w), w))
    x = rng.integers(0, 3, n_x)
    reduced = np.where(free, 0, np.where(x > 0, 0, rng.integers(0, 3, n_x)))
    a_x = rng.integers(-2, 3, (m, n_x))
    blocks, points, slacks = [], [], []
    for n in sizes:
        p, inverse = unimodular(rng, n)
        rank = int(rng.integers(0, n + 1))
        d = np.where(np.arange(n) < rank, rng.integers(1, 4, n), 0)
        e = np.where(np.arange(n) >= rank, rng.integers(1, 4, n), 0)
        points.append(p @ np.diag(d) @ p.T)
        slacks.append(inverse.T @ np.diag(e) @ inverse)
        blocks.append([symmetric(rng, n) for _ in range(m)])
    b = a_x @ x + sum(
        np.array([np.sum(a * point) for a in rows])
        for rows, point in zip(blocks, points, strict=True)
    )
    # Inequalities with a zero multiplier may be loose.
    loose = np.where(w == 0, rng.integers(0, 2, m), 0)
    b = b + np.where(relations == "<", loose, np.where(relations == ">", -loose, 0))
    sign = 1 if rng.random() < 0.5 else -1
    costs = [
        sum(int(v) * a for v, a in zip(w, rows, strict=True)) - s
        for rows, s in zip(blocks, slacks, strict=True)
    ]
    c_x = a_x.T @ w - reduced
    entries = []
    for e in range(m + 1):
        for j in range(n_x):
            entries.append(([e, 0, j + 1, j + 1], sign * c_x[j] if e == 0 else a_x[e - 1, j]))
        for k, n in enumerate(sizes):
            a = sign * costs[k] if e == 0 else blocks[k][e - 1]
            for i, j in zip(*np.triu_indices(n), strict=True):
                entries.append(([e, k + 1, int(i) + 1, int(j) + 1], a[i, j]))
    statement = {
        "sense": "max" if sign == 1 else "min",
        "constant": hexadecimal(3, -1),
        "blocks": sizes,
        "variables": "".join("*" if f else "+" for f in free),
        "rows": "".join(relations),
        "rhs": [hexadecimal(int(v)) for v in b],
        "entries": [[*place, hexadecimal(int(v))] for place, v in entries if v],
    }
    answer = Approximation([p.astype(float) for p in points], x.astype(float), w.astype(float))
    return statement, answer, sign * Fraction(int(b @ w)) + Fraction(3, 2)


def shaken(answer: Approximation, rng: np.random.Generator) -> Approximation:
    """The answer with errors of a random size, as a solver would return it."""
    size = 10.0 ** rng.integers(-14, -3) * (rng.random() < 0.8)
    matrices = []
    for m in answer.matrices or []:
        noise = rng.standard_normal(m.shape)
        matrices.append(m + size * (noise + noise.T))
    w = answer.multipliers
    assert w is not None
    return Approximation(
        matrices,
        answer.x + size * rng.standard_normal(answer.x.shape),
        w + size * rng.standard_normal(w.shape),
    )


def enclose(seeds: range) -> tuple[int, int]:
    """(proofs with both ends, with one end at least), none of which is false."""
    both = some = 0
    for seed in seeds:
        statement, answer, optimum = planted(seed)
        given = shaken(answer, np.random.default_rng(seed))
        proof = prove(statement, Given(given))
        if proof is None:
            continue
        assert proof.lower is None or proof.lower <= optimum, seed
        assert proof.upper is None or proof.upper >= optimum, seed
        assert not {"infeasible", "direction"} & proof.found.keys()
        some += 1
        both += proof.lower is not None and proof.upper is not None
    return both, some


def test_enclosures_hold_the_optimum() -> None:
    both, some = enclose(range(80))
    assert both >= 24, both
    assert some >= 60, some


@pytest.mark.slow
def test_twenty_thousand_enclosures_hold_the_optimum() -> None:
    both, _ = enclose(range(1000, 21_000))
    assert both >= 6000


def test_enclosures_with_the_solver_close() -> None:
    """On programs with an interior on both sides the ends are as near as the solver's answer."""
    checked = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, m = 6, 5
        a = [symmetric(rng, n) for _ in range(m)]
        a[0] = np.eye(n, dtype=int)
        vectors = np.vstack(
            [np.eye(n), [np.eye(n)[i] + np.eye(n)[j] for i in range(n) for j in range(i)]]
        )
        rows = []
        for matrix in a:
            diagonal = [matrix[i, i] - matrix[i].sum() + matrix[i, i] for i in range(n)]
            rows.append(diagonal + [matrix[i, j] for i in range(n) for j in range(i)])
        cost = symmetric(rng, n).astype(float)
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
    """Both ends, faces with dropped rows, a ray, a direction with a point."""
    found = []
    for seed in range(40):
        statement, answer, _ = planted(seed)
        proof = prove(statement, Given(shaken(answer, np.random.default_rng(seed))))
        if proof is not None and proof.lower is not None and proof.upper is not None:
            found.append(proof)
    assert len(found) >= 10
    return [*found[:8], on_a_face(), infeasible(), unbounded()]


def on_a_face() -> Proof:
    """<11ᵀ, X> = 0 beside X_ii = 1, one of them twice."""
    n = 3
    entries = [[0, 1, 1, 2, "0x1p+0"]]
    entries += [[e, 1, e, e, "0x1p+0"] for e in (1, 2, 3)]
    entries += [[4, 1, i, j, "0x1p+0"] for i in (1, 2, 3) for j in range(i, 4)]
    entries += [[5, 1, 1, 1, "0x1p+1"]]
    statement = {
        "sense": "max",
        "constant": "0x0p+0",
        "blocks": [n],
        "variables": "",
        "rows": "=" * 5,
        "rhs": ["0x1p+0"] * 3 + ["0x0p+0", "0x1p+1"],
        "entries": entries,
    }
    x = 1.5 * np.eye(n) - 0.5
    answer = Approximation([x], np.zeros(0), np.array([-1.0, -1.0, 1.0, 0.0, 0.0]))
    proof = prove(statement, Given(answer))
    assert proof is not None
    assert proof.content["faces"]
    assert proof.content["dropped"]
    # Unit vectors at 120°: 2X₁₂ = −1.
    assert proof.lower == proof.upper == -1
    return proof


def infeasible() -> Proof:
    """tr X = −1."""
    statement = tiny([[1, 1, 1, 1, "0x1p+0"], [1, 1, 2, 2, "0x1p+0"]], "-0x1p+0")
    proof = prove(statement, Given(Approximation(None, np.zeros(0), None), ray=np.array([1.0])))
    assert proof is not None
    assert proof.found["infeasible"]
    return proof


def unbounded() -> Proof:
    """max tr X, X₁₁ = 1."""
    cost = [[0, 1, 1, 1, "0x1p+0"], [0, 1, 2, 2, "0x1p+0"]]
    statement = tiny([*cost, [1, 1, 1, 1, "0x1p+0"]], "0x1p+0")
    point = Approximation([np.eye(2)], np.zeros(0), None)
    direction = ([np.diag([0.0, 1.0])], np.zeros(0))
    proof = prove(statement, Given(point, direction=direction))
    assert proof is not None
    assert "unbounded" in str(proof)
    return proof


def tiny(entries: list[Any], rhs: str) -> dict[str, Any]:
    return {
        "sense": "max",
        "constant": "0x0p+0",
        "blocks": [2],
        "variables": "",
        "rows": "=",
        "rhs": [rhs],
        "entries": entries,
    }


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a tree are."""
    yield path
    if isinstance(node, dict):
        for key in node:
            yield from leaves(node[key], (*path, key))
    elif isinstance(node, list):
        for i, child in enumerate(node):
            yield from leaves(child, (*path, i))


STRANGE = [
    0, 1, -1, 2, True, False, None, "", "0x1p+0", "0x3p-1", "0x1p+9999", "0x2p+0", 1.5, 10**30,
    10**700, -(10**30), 1 << 2300, [], {}, [[]], [0], ["0x1p+0"], [1, 1], [True], {"over": 1},
]  # fmt: skip


def mutated(content: dict[str, Any], rng: random.Random) -> Any:
    """A copy with one or two parts changed."""
    out = copy.deepcopy(content)
    for _ in range(rng.choice([1, 1, 1, 2])):
        path = rng.choice(list(leaves(out)))
        if not path:
            return rng.choice(STRANGE)
        parent = out
        for step in path[:-1]:
            parent = parent[step]
        change(parent, path[-1], rng)
    return out


def change(parent: Any, key: Any, rng: random.Random) -> None:
    value, how = parent[key], rng.randrange(8)
    if how == 0:
        parent[key] = copy.deepcopy(rng.choice(STRANGE))
    elif how == 1 and isinstance(parent, list):
        del parent[key]
    elif how == 2 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(rng.choice(parent)))
    elif how == 3 and isinstance(parent, list):
        other = rng.randrange(len(parent))
        parent[key], parent[other] = parent[other], parent[key]
    elif how == 4 and isinstance(parent, dict):
        del parent[key]
    elif type(value) is int:
        parent[key] = rng.choice(
            [-value, value + 1, value - 1, value * 2, value ^ (1 << rng.randrange(70))]
        )
    elif isinstance(value, str) and value:
        at = rng.randrange(len(value))
        parent[key] = value[:at] + rng.choice("0123456789abcdefpx+-<>=*") + value[at + 1 :]
    elif isinstance(value, list) and value:
        rng.shuffle(value)
    else:
        parent[key] = copy.deepcopy(rng.choice(STRANGE))


def oracle(content: dict[str, Any], found: dict[str, Any]) -> None:
    """An accepted proof is true, as far as floating point sees it; faces and rows apart."""
    data = content["program"]
    if content["faces"] or content["dropped"]:
        return
    sign = 1.0 if data["sense"] == "max" else -1.0
    m, sizes = len(data["rows"]), data["blocks"]
    matrices = [[np.zeros((n, n)) for n in sizes] for _ in range(m + 1)]
    linear = np.zeros((m + 1, len(data["variables"])))
    for e, k, i, j, v in data["entries"]:
        if k:
            matrices[e][k - 1][i - 1, j - 1] = matrices[e][k - 1][j - 1, i - 1] = float.fromhex(v)
        else:
            linear[e, j - 1] = float.fromhex(v)
    b = np.array([float.fromhex(v) for v in data["rhs"]])
    constant = float.fromhex(data["constant"])
    upper, lower = ("upper", "lower")[:: int(sign)]
    for name, cost in (("multipliers", sign), ("infeasible", 0.0)):
        if name not in content:
            continue
        w = np.array([v / content[name]["over"] for v in content[name]["multipliers"]])
        scale = 1.0 + np.abs(w).max(initial=0.0)
        for k in range(len(sizes)):
            s = sum(
                (v * a[k] for v, a in zip(w, matrices[1:], strict=True)), -cost * matrices[0][k]
            )
            largest = scale * max(np.abs(a[k]).max() for a in matrices)
            assert np.linalg.eigvalsh(s)[0] >= -1e-9 * largest
        r = linear[1:].T @ w - cost * linear[0]
        assert r.min(initial=0.0) >= -1e-9 * scale * (1 + np.abs(linear).max(initial=0.0))
        value = float(b @ w)
        if name == "multipliers":
            assert np.isclose(sign * value + constant, float(found[upper]), rtol=1e-6, atol=1e-9)
        else:
            assert value < 1e-9
    for name, right in (("point", b), ("direction", 0 * b)):
        if name not in content:
            continue
        over = content[name]["over"]
        x = np.array([v / over for v in content[name]["x"]])
        point = []
        for rows, n in zip(content[name]["blocks"], sizes, strict=True):
            lower_part = np.zeros((n, n))
            for i, row in enumerate(rows):
                lower_part[i, : i + 1] = [v / over for v in row]
            point.append(lower_part + np.tril(lower_part, -1).T)
        scale = 1 + max([np.abs(p).max() for p in point] + [np.abs(x).max(initial=0.0)])
        values = np.array(
            [sum(np.sum(a * p) for a, p in zip(row, point, strict=True)) for row in matrices]
        )
        values = values + linear @ x[: linear.shape[1]]
        for row, relation, left in zip(range(m), data["rows"], values[1:] - right, strict=True):
            size = 1e-6 * scale * (1 + max(np.abs(a).max() for a in matrices[row + 1]))
            assert {"=": abs(left), "<": left, ">": -left}[relation] <= size
        assert all(np.linalg.eigvalsh(p)[0] >= -1e-9 * scale for p in point)
        if name == "point":
            assert sign * (float(found[lower]) - constant) <= sign * values[0] + 1e-6 * scale


def attack(proofs: list[Proof], count: int, seed: int) -> tuple[int, int]:
    """(accepted, refused) of so many mutated proofs, none of them false."""
    rng, accepted, refused = random.Random(seed), 0, 0
    for _ in range(count):
        proof = rng.choice(proofs)
        content = mutated(proof.content, rng)
        try:
            found = check(content)
        except Refused:
            refused += 1
            continue
        accepted += 1
        oracle(content, found)
        if found["sha256"] == proof.sha256:
            for name, true in (("lower", proof.upper), ("upper", proof.lower)):
                if name in found and true is not None:
                    assert (found[name] <= true) if name == "lower" else (found[name] >= true)
            for claim in ("infeasible", "direction"):
                assert claim not in found or claim in proof.found
    return accepted, refused


def test_no_mutated_proof_is_accepted_unless_it_is_true(proofs: list[Proof]) -> None:
    accepted, refused = attack(proofs, 600, seed=1)
    assert refused >= 300, (accepted, refused)


@pytest.mark.slow
def test_ten_thousand_mutated_proofs(proofs: list[Proof]) -> None:
    started = time.process_time()
    accepted, refused = attack(proofs, 10_000, seed=2)
    assert refused >= 5000, (accepted, refused)
    assert time.process_time() - started < 600


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
        with pytest.raises((Refused, OSError, EOFError, ValueError, RecursionError)):
            check(read(path))
    for name in ("cut", "deep"):
        ran = run_checker(tmp_path / f"{name}.json.gz")
        assert ran.returncode == 1
        assert ran.stderr.startswith("no theorem: ")
        assert "Traceback" not in ran.stderr


def test_work_is_bounded() -> None:
    """A proof beyond the budget is refused before the work is done."""
    statement, answer, _ = planted(3)
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
