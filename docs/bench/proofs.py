"""Attacks on proofs: `make bench NAME=enclosures` and `make bench NAME=mutations`.

The first proves bounds of generated programs whose optima are known fractions, from answers with
errors of every size, and stops at the first bound that is false. The second changes proofs at
random, or damages their files, and stops at the first one that is accepted although it is false.
"""

from __future__ import annotations

import copy
import gzip
import random
import resource
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sdpkit.proof.canonical import hexadecimal
from sdpkit.proof.check import Refused, check, read
from sdpkit.proof.prove import Given, Proof, prove
from sdpkit.proof.statement import Approximation

# What the checker's command turns into a refusal.
REFUSALS = (Refused, OSError, EOFError, zlib.error, ValueError, RecursionError)


def enclosures(count: int | None = None) -> None:
    """Print how many of so many programs were enclosed; an AssertionError if a bound is false."""
    count = count or 20_000
    started = time.process_time()
    both, some = enclose(range(1000, 1000 + count))
    seconds = time.process_time() - started
    print(
        f"{count} programs with known rational optima: bounds on both sides of {both}, on one side "
        f"at least of {some}, none of them false ({seconds:.0f} s)"
    )


def mutations(count: int | None = None) -> None:
    """Print what became of so many changed proofs; an AssertionError if one is false."""
    count = count or 10_000
    found = attack(proofs(), count, seed=2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count} changed proofs: {found.refused} refused, {found.accepted} accepted, none of them "
        f"false; the slowest took {found.slowest:.2f} s, the process at most {peak:.0f} MiB"
    )


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


# -- proofs ------------------------------------------------------------------------------------


def proofs() -> list[Proof]:
    """Both ends, faces with dropped rows, a ray, a direction with a point."""
    found: list[Proof] = []
    seed = 0
    while len(found) < 8:
        statement, answer, _ = planted(seed)
        proof = prove(statement, Given(shaken(answer, np.random.default_rng(seed))))
        if proof is not None and proof.lower is not None and proof.upper is not None:
            found.append(proof)
        seed += 1
    return [*found, on_a_face(), infeasible(), unbounded()]


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


# -- mutations ---------------------------------------------------------------------------------


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


def damaged(packed: bytes, rng: random.Random) -> bytes:
    """A file that is cut, changed in some bytes, or holds text that no writer makes."""
    text, how = gzip.decompress(packed), rng.randrange(7)
    at = rng.randrange(len(text))
    if how == 0:
        return packed[: rng.randrange(len(packed))]
    if how == 1:
        out = bytearray(packed)
        for _ in range(rng.randint(1, 4)):
            out[rng.randrange(len(out))] = rng.randrange(256)
        return bytes(out)
    inserted = {
        2: b"[" * rng.choice([1, 100, 100_000]),
        3: b"9" * rng.choice([1, 1000, 1_000_000]),
        4: rng.choice([b"NaN", b"-", b"1e999", b"\xff", b'"', b"\\u0000", b"true"]),
        5: b"[]," * rng.choice([1, 2_000_000]),
        6: b"",
    }[how]
    cut = at + (rng.randint(1, 20) if how == 6 else 0)
    return gzip.compress(text[:at] + inserted + text[cut:], compresslevel=1, mtime=0)


@dataclass
class Attack:
    """What became of changed proofs."""

    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0


def attack(proofs: list[Proof], count: int, seed: int) -> Attack:
    """Check so many changed proofs, a tenth of them as damaged files; each accepted one is true."""
    rng, out = random.Random(seed), Attack()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.json.gz"
        for number in range(count):
            proof, content, is_file = rng.choice(proofs), None, number % 10 == 0
            if is_file:
                proof.save(path)
                path.write_bytes(damaged(path.read_bytes(), rng))
            else:
                content = mutated(proof.content, rng)
            started = time.process_time()
            try:
                content = read(path) if is_file else content
                found = check(content)
            except REFUSALS as error:
                # Only reading a file may end otherwise than with a refusal.
                if not is_file and not isinstance(error, Refused):
                    raise
                out.refused += 1
            else:
                out.accepted += 1
                judge(proof, content, found)
            out.slowest = max(out.slowest, time.process_time() - started)
    return out


def judge(proof: Proof, content: dict[str, Any], found: dict[str, Any]) -> None:
    """An AssertionError if what was accepted is false, as far as floats and the original say."""
    oracle(content, found)
    if found["sha256"] != proof.sha256:
        return
    for name, true in (("lower", proof.upper), ("upper", proof.lower)):
        if name in found and true is not None:
            assert found[name] <= true if name == "lower" else found[name] >= true
    for claim in ("infeasible", "direction"):
        assert claim not in found or claim in proof.found
