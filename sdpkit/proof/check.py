"""`python check.py PROOF.json.gz` prints a theorem about a semidefinite program, or what fails.

It needs Python 3.11 alone, computes with integers, and trusts no number of the proof. The format
is stated in docs/proof.md.

PROGRAM. After a slack variable x_j >= 0 for every inequality, in the unit of its row: maximise
<C, X> + c'x + constant subject to <A_i, X> + a_i'x = b_i, X a tuple of positive semidefinite
matrices, x_j >= 0 unless free. A minimisation is the maximisation of the negated objective. All
numbers are dyadic: a power of two makes them integers. A row, or the cost, is a dict
{(block, i, j): integer}, i <= j; entries of block 0 are the coefficients of x_j, at (0, j, j).
DEFINITENESS. S is positive semidefinite if S = LL' + E and, for some weights t > 0 and all i,
t_i E_ii >= sum over j != i of t_j |E_ij|; positive definite if all of these are strict.
FACES. Let W = sum y_i A_i, r = sum y_i a_i, b'y = 0, r_j >= 0 (= 0 for free x_j) and, in every
block, WN = 0 and W + sNN' positive definite for an integer matrix N. Then W is semidefinite with
kernel range N, and 0 = b'y = <W, X> + r'x. So X = NZN' with Z semidefinite, and x_j = 0 where
r_j > 0: the program in Z replaces that in X. A row may be dropped if a combination of rows in
which it occurs is 0 = 0.
UPPER END. If sum w_i A_i - C is semidefinite and sum w_i a_ij >= c_j (= c_j for free x_j), then the
optimum is at most b'w. INFEASIBLE: the same with 0 for C and c, and b'w < 0.
LOWER END. Let (X, x) miss the rows by r, AA' - sI be semidefinite, s rho^2 >= |r|^2, X - rho I
semidefinite, x_j >= rho unless free. Then a feasible point lies within rho, and the optimum is at
least <C, X> + c'x - rho |(C, c)|. If r = 0, s is not needed. DIRECTION: the same with 0 for b, and
a value above zero; without a feasible point it shows that no w as for the upper end exists.
"""

# ruff: noqa: B905
import gzip
import hashlib
import json
import math
import re
import sys
import zlib
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import product
from operator import le, mul
from typing import Any

# The budget: bytes, numbers, and lists of a file; bits of a number; rows and variables; entries of
# all matrices, and their bits; products of two integers of 256 bits.
BYTES, NUMBERS, LISTS, BITS, ROWS = 10**8, 8 * 10**6, 10**6, 2200, 10**5
ENTRIES, MEMORY, WORK = 2 * 10**7, 2 * 10**9, 10**9
NUMBER = re.compile(r"(-?0x[0-9a-f]{1,500})p([+-][0-9]{1,4})", re.ASCII)


class Refused(Exception):
    """The proof does not hold, or is beyond the budget; the text says where."""


def require(condition: Any, words: str) -> None:
    if not condition:
        raise Refused(words)


def items(values: Any, kind: type, count: int, what: str) -> Any:
    """The list `values`, if it holds `count` items of exactly this type."""
    fits = type(values) is list and len(values) == count and all(type(v) is kind for v in values)
    require(fits, f"{what}: a list of {count} {kind.__name__} expected")
    require(kind is not int or bits_of(values) <= BITS, f"{what}: more than {BITS} bits")
    return values


def get(record: Any, name: str, kind: type) -> Any:
    """A member of a JSON object; an integer must be positive."""
    value: Any = record.get(name) if type(record) is dict else None
    require(type(value) is kind, f"{name}: {kind.__name__} expected")
    require(kind is not int or 0 < value < 1 << BITS, f"{name}: out of range")
    return value


def bits_of(values: Any) -> int:
    return max(map(int.bit_length, values), default=0)


def dyadic(text: Any) -> tuple[int, int]:
    """(integer, exponent) of a number such as -0x3p-1, which is -3/2."""
    found: Any = NUMBER.fullmatch(text) if type(text) is str else None
    require(found, f"not a hexadecimal number: {str(text)[:40]}")
    value, power = int(found[1], 16), int(found[2])
    require((value % 2 or text == "0x0p+0") and abs(power) <= BITS // 2, f"bad: {text[:40]}")
    return value, power


class DyadicProgram:
    """Equations in integers, all of them in units of 2^-unit; and what work may still be spent."""

    def __init__(self, data: Any, work: int) -> None:
        blocks, rhs, entries = (get(data, name, list) for name in ("blocks", "rhs", "entries"))
        sense, signs, relations = (get(data, name, str) for name in ("sense", "variables", "rows"))
        known = not signs.strip("+*") and not relations.strip("<=>") and sense in ("max", "min")
        require(known and max(len(signs), len(relations)) <= ROWS, "unknown or too many signs")
        least = min(items(blocks, int, len(blocks), "blocks"), default=1)
        require(least > 0 and sum(n * n for n in blocks) <= ENTRIES, "empty or too large blocks")
        fits = all(type(entry) is list and len(entry) == 5 for entry in entries)
        require(fits and len(rhs) == len(relations), "bad entries or rhs")
        pairs = [dyadic(v) for v in [data.get("constant"), *rhs, *(e[4] for e in entries)]]
        self.unit = max(0, *(-power for _, power in pairs))
        self.work, self.bits = work, self.unit + max(v.bit_length() + power for v, power in pairs)
        require(len(pairs) * (1000 + self.bits) <= MEMORY, "too many entries")
        constant, *numbers = [value << power + self.unit for value, power in pairs]
        self.constant, self.b = Fraction(constant, 1 << self.unit), numbers[: len(rhs)]
        self.sizes, self.sign = [len(signs), *blocks], 1 if sense == "max" else -1
        self.cost, self.rows, last = dict[Any, int](), [dict[Any, int]() for _ in rhs], list[Any]()
        for entry, value in zip(entries, numbers[len(rhs) :]):
            e, k, i, j = place = items(entry[:4], int, 4, "entry")
            inside = 0 <= e <= len(rhs) and 0 <= k <= len(blocks) and 0 < i <= j <= self.sizes[k]
            require(inside and (k or i == j) and place > last and value, f"bad entry {place}")
            last, row = place, self.rows[e - 1] if e else self.cost
            row[k, i - 1, j - 1] = value if e else self.sign * value
        self.free = [s == "*" for s in signs]
        for row, relation in zip(self.rows, relations):
            if relation != "=":
                row[0, len(self.free), len(self.free)] = 1 if relation == "<" else -1
                self.free.append(False)

    def spend(self, products: int, bits: int = 0) -> None:
        """Count products of numbers of so many bits, or steps like them."""
        self.work -= products * (1 + bits // 256) ** 2
        require(self.work >= 0, "the proof takes more work than allowed")

    def combined(self, w: Any, cost: int, what: str) -> tuple[Any, Any]:
        """The blocks of sum w_i A_i - cost * C, lower triangles, and the x_j of positive entry."""
        bits = bits_of([cost, *items(w, int, len(self.b), what)])
        area = sum(n * n for n in self.sizes[1:])
        self.spend(4 * sum(map(len, [self.cost, *self.rows])) + area, max(self.bits, bits))
        out = {key: -cost * value for key, value in self.cost.items()}
        for weight, row in zip(w, self.rows):
            for key, value in row.items() if weight else ():
                out[key] = out.get(key, 0) + weight * value
        matrices, positive = [[[0] * (i + 1) for i in range(n)] for n in self.sizes[1:]], []
        for (k, i, j), value in out.items():
            if k:
                matrices[k - 1][j][i] = value
            elif value:
                require(value > 0 and not self.free[j], f"{what}: wrong sign of a reduced cost")
                positive.append((k, i, j))
        return matrices, positive

    def gram(self, s: int, t: int) -> Any:
        """t AA' - s I, lower triangle."""
        require(len(self.rows) ** 2 <= ENTRIES, "too many rows for AA'")
        out, columns = [[0] * e + [-s] for e in range(len(self.rows))], dict[Any, list[Any]]()
        for e, row in enumerate(self.rows):
            for (k, i, j), u in row.items():
                columns.setdefault((k, i, j), []).append((e, u))
                self.spend(4 * len(columns[k, i, j]), max(self.bits, t.bit_length()))
                for f, v in columns[k, i, j]:
                    out[e][f] += t * u * v << (i < j)
        return out


def check_definite(program: Any, matrices: Any, proofs: Any, strict: bool, what: str) -> None:
    """Refuse unless matrices, given by their lower triangles, are LL' + E as above."""
    for matrix, proof in zip(matrices, items(proofs, dict, len(matrices), what)):
        n, d = len(matrix), get(proof, "over", int)
        first = items(get(proof, "first", list), int, n, what)
        weights = items(get(proof, "weights", list), int, n, what)
        rows = items(get(proof, "rows", list), list, n, what)
        bits = max((bits_of(items(row, int, len(row), what)) for row in rows), default=0)
        given = max(map(bits_of, matrix), default=0)
        program.spend(8 * n * n, max(given, bits_of(weights), 2 * d.bit_length()))
        fits = min(first, default=0) >= 0 and min(weights, default=1) > 0
        require(fits and n * n * given <= MEMORY, f"{what}: bad factor, or too many bits")
        beside, diagonal = [0] * n, [0] * n
        for i in range(n):
            program.spend((i + 1) * len(rows[i]), bits)
            for j in range(i + 1):
                low = max(first[i], first[j])
                pairs = map(mul, rows[i][low - first[i] :], rows[j][low - first[j] :])
                value = matrix[i][j] * d * d - sum(pairs)
                if i == j:
                    diagonal[i] = weights[i] * value
                else:
                    beside[i] += weights[j] * abs(value)
                    beside[j] += weights[i] * abs(value)
        require(all(a >= b + strict for a, b in zip(diagonal, beside)), f"{what}: not dominant")


def onto_face(program: DyadicProgram, face: Any) -> None:
    """Check an exposing vector, and replace the program by that on the face."""
    y, blocks = get(face, "multipliers", list), get(face, "blocks", list)
    lifted, gone = program.combined(y, 0, "face")
    require(sum(map(mul, program.b, y)) == 0, "face: b'y is not zero")
    for k, (w, block) in enumerate(zip(lifted, items(blocks, dict, len(lifted), "face")), start=1):
        n, columns, s = len(w), get(block, "columns", list), get(block, "s", int)
        bits = max(map(bits_of, [*(items(c, int, n, "N") for c in columns), *w]), default=0)
        program.spend(2 * n * n * (len(columns) + 1), bits)
        basis = [[column[i] for column in columns] for i in range(n)]
        for i in range(n):
            row = [w[max(i, j)][min(i, j)] for j in range(n)]
            require(not any(sum(map(mul, row, c)) for c in columns), "face: WN is not zero")
        for i, row in enumerate(w):
            row[:] = [v + s * sum(map(mul, basis[i], basis[j])) for j, v in enumerate(row)]
        sparse = [[(a, v) for a, v in enumerate(row) if v] for row in basis]
        for terms in [program.cost, *program.rows]:  # the matrices A become N'AN
            for (_, i, j), value in [(key, terms.pop(key)) for key in [*terms] if key[0] == k]:
                program.spend(400 * len(sparse[i]) * len(sparse[j]))  # for the memory it takes
                for p, q in {(i, j), (j, i)}:
                    for (a, u), (c, v) in product(sparse[p], sparse[q]):
                        if a <= c:
                            terms[k, a, c] = terms.get((k, a, c), 0) + value * u * v
        program.sizes[k], program.bits = len(columns), program.bits + 2 * bits + 40
    check_definite(program, lifted, [get(block, "factor", dict) for block in blocks], True, "face")
    for row, key in product([program.cost, *program.rows], gone):
        row.pop(key, None)


def upper(program: DyadicProgram, end: Any, cost: int) -> Fraction:
    """b'w for multipliers w whose combination of rows, less cost * C, is semidefinite."""
    d, w, proofs = get(end, "over", int), get(end, "multipliers", list), get(end, "factors", list)
    check_definite(program, program.combined(w, cost * d, "w")[0], proofs, False, "slack")
    return Fraction(sum(map(mul, program.b, w)), d << program.unit)


def lower(program: DyadicProgram, point: Any, b: list[int]) -> Fraction:
    """What a feasible point near the given one is worth at least."""
    d, x, given = get(point, "over", int), get(point, "x", list), get(point, "blocks", list)
    items(x, int, len(program.free), "x")
    for rows, n in zip(items(given, list, len(program.sizes) - 1, "X"), program.sizes[1:]):
        for i, row in enumerate(items(rows, list, n, "point")):
            items(row, int, i + 1, "point")
    bits = max(program.bits, *map(bits_of, [x, *(row for rows in given for row in rows)]))
    program.spend(4 * sum(map(len, [program.cost, *program.rows])), bits)

    def worth(row: Any) -> int:
        terms = row.items()
        return sum(v * (given[k - 1][j][i] << (i < j) if k else x[j]) for (k, i, j), v in terms)

    missed = sum((worth(row) - d * v) ** 2 for row, v in zip(program.rows, b))
    p, q = items(get(point, "rho", list), int, 2, "rho")
    require(p >= 0 and q > 0, "rho is no distance")
    if missed:
        s, t = items(get(point, "s", list), int, 2, "s")
        require(s > 0 and t > 0 and p * p * s * d * d >= missed * q * q * t, "rho is too small")
        check_definite(program, [program.gram(s, t)], [get(point, "gram", dict)], False, "AA'")
    for rows in (inside := [[[v * q for v in row] for row in rows] for rows in given]):
        for i, row in enumerate(rows):
            row[i] -= p * d
    check_definite(program, inside, get(point, "factors", list), False, "point")
    require(all(f or v * q >= p * d for v, f in zip(x, program.free)), "x_j is too near zero")
    norm = math.isqrt(sum(v * v << (i < j) for (_, i, j), v in program.cost.items())) + 1
    return (Fraction(worth(program.cost), d) - Fraction(p, q) * norm) / (1 << program.unit)


def check(proof: Any, work: int = WORK) -> dict[str, Any]:
    """{"sense", "sha256", and what a proof proves}; Refused if it does not hold."""
    data, found = get(proof, "program", dict), dict[str, Any]()
    program = DyadicProgram(data, work)
    for face in get(proof, "faces", list):
        onto_face(program, face)
    for row in get(proof, "dropped", list):
        e, y = get(row, "row", int) - 1, get(row, "combination", list)
        blocks, positive = program.combined(y, 0, "dropped")
        nonzero = positive or sum(map(mul, program.b, y)) or any(any(r) for m in blocks for r in m)
        require(not nonzero and e < len(y) and y[e], "dropped: the combination is not 0 = 0")
        del program.rows[e], program.b[e]
    ends, zero = ["upper", "lower"][:: program.sign], [0] * len(program.b)
    if "multipliers" in proof:
        found[ends[0]] = program.sign * upper(program, proof["multipliers"], 1) + program.constant
    if "point" in proof:
        found[ends[1]] = program.sign * lower(program, proof["point"], program.b) + program.constant
    if "infeasible" in proof:
        found["infeasible"] = upper(program, proof["infeasible"], 0) < 0
    if "direction" in proof:
        found["direction"] = lower(program, proof["direction"], zero) > 0
    require(found and all(v is not False for v in found.values()), "the proof claims nothing true")
    text = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return {"sense": data["sense"], "sha256": hashlib.sha256(text).hexdigest(), **found}


def read(path: Any) -> Any:
    """The JSON of a packed proof, within the budget."""
    with gzip.open(path) as file:
        text = file.read(BYTES + 1)
    counts = len(text), text.count(b","), text.count(b"[") + text.count(b"{")
    require(all(map(le, counts, (BYTES, NUMBERS, LISTS))), "the file is larger than allowed")
    return json.loads(text, parse_float=dyadic, parse_constant=dyadic)


def theorem(found: dict[str, Any]) -> str:
    """What was proven, as a sentence; ends of the enclosure to 17 digits, rounded outwards."""
    words = "optimum"
    for name, rounding in (("lower", ROUND_FLOOR), ("upper", ROUND_CEILING)):
        if name in found:
            value = Context(17, rounding).divide(*map(Decimal, found[name].as_integer_ratio()))
            words = f"{value} ≤ optimum" if name == "lower" else f"{words} ≤ {value}"
    if "infeasible" in found:
        words = "no feasible point"
    elif "direction" in found:
        point = {"max": "lower", "min": "upper"}[found["sense"]] in found
        words = "an unbounded objective" if point else "no feasible dual"
    return f"theorem: {words} of the program with SHA-256 {found['sha256']}"


if __name__ == "__main__":
    try:
        print(theorem(check(read(sys.argv[1]))))
    except (Refused, OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        sys.exit(f"no theorem: {error}")
