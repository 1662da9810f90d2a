"""One suite for every solver: the same programs, the same demands, judged by mathematics.

Whatever the registry offers is tested, so a new solver is held to this suite by being listed.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sdpkit
from sdpkit import MVU, Program, Solution, Status
from sdpkit.certificate.certify import certify
from sdpkit.certificate.rays import certify_infeasible, certify_unbounded
from sdpkit.errors import ConvergenceWarning
from sdpkit.solution.answer import Answer, Settings, Stop
from sdpkit.solution.solver import Capabilities
from sdpkit.solving import registry
from sdpkit.solving.registry import available_solvers, get_solver, known_solvers
from sdpkit.solving.solve import solve
from sdpkit.testing.agreement import check_agreement, check_bound
from sdpkit.testing.problems import check_problem, problem_checks
from sdpkit.testing.programs import free_and_lower, loose_string, spring, two_edges
from sdpkit.testing.solvers import check_solver, solver_checks
from sdpkit.typing import Array

REQUIRED = ("barrier", "clarabel", "cvxopt", "interior", "lowrank", "projection", "scs")
USABLE = [name for name in known_solvers() if get_solver(name).unavailable() is None]
STRING = MVU(graph=sdpkit.datasets.path_graph(3)).program()
PLAIN = [name for name in USABLE if get_solver(name).accepts(STRING) is None]
# The thesis's own methods have a suite of their own below: they are right, and slow.
CLASSIC = [name for name in PLAIN if get_solver(name).capabilities.teaching]
SOLVERS = [name for name in PLAIN if name not in CLASSIC]
FORMS = ("equality", "inequality", "slack", "min_trace")
# A first-order method may miss the certified gap; then it has to say so.
FIRST_ORDER = ("scs",)
# Minutes beyond this size: one dense block of n²(n+1)²/4 entries, steps without number, and small
# programs whose optimum has no low rank.
SLOW_BEYOND_MEDIUM = ("clarabel", "scs", "lowrank")

SMALL = 14
MEDIUM, LARGER = 40, 100
every_solver = pytest.mark.parametrize("name", SOLVERS)
with_programs = pytest.mark.may_use("csdp", "sdpa", "dsdp")
every_form = pytest.mark.parametrize("form", FORMS)


def tolerance(name: str, n: int) -> float:
    return 1e-4 if name in FIRST_ORDER and n > SMALL else 1e-6


@functools.cache
def roll(n: int, form: str) -> MVU:
    return MVU(sdpkit.datasets.swiss_roll(n, random_state=0), n_neighbors=4, form=form)


@functools.cache
def solved(n: int, form: str, name: str) -> Solution:
    with warnings.catch_warnings():
        if name in FIRST_ORDER:
            warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(roll(n, form), solver=name, tol=tolerance(name, n))


# -- who takes part -------------------------------------------------------------------------


def test_required_solvers_are_available() -> None:
    reasons = {name: get_solver(name).unavailable() for name in REQUIRED}
    assert reasons == dict.fromkeys(REQUIRED)
    assert set(REQUIRED) <= set(SOLVERS)


@with_programs
def test_suite_covers_what_the_registry_offers() -> None:
    assert set(available_solvers()) == set(USABLE)
    assert CLASSIC == ["alternating", "dykstra", "gradient-projection"]


def test_registered_solver_is_offered_and_used() -> None:
    """A third party's solver is found by name, asked, and judged by the certificate alone."""

    class Boaster:
        name = "boaster"
        capabilities = Capabilities()

        def unavailable(self) -> str | None:
            return None

        def memory(self, program: Program) -> float:
            return 0.0

        def solve(self, program: Program, settings: Settings) -> Answer:
            matrices = tuple(np.zeros((b.size, b.size)) for b in program.blocks)
            return Answer(Stop.DONE, "perfect", matrices, dual=np.zeros(program.n_rows))

    with registry.registered(Boaster()):
        assert "boaster" in available_solvers()
        with pytest.warns(ConvergenceWarning, match="perfect"):
            solution = solve(roll(SMALL, "equality"), solver="boaster")
    assert solution.status is Status.INACCURATE
    assert solution.native_status == "perfect"
    assert "boaster" not in available_solvers()


# -- the suite that is shipped ----------------------------------------------------------------

# What subgradients reach in the steps that they take.
LOOSER = {"subgradient": 1e-3, "subgradient-published": 2e-2}
SHIPPED = [
    pytest.param(check, id=f"{name}: {what}", marks=pytest.mark.needs(name))
    for name in USABLE
    for what, check in solver_checks(get_solver(name), LOOSER.get(name, 1e-5))
]


@pytest.mark.parametrize("check", SHIPPED)
def test_shipped_checks(check: Callable[[], None]) -> None:
    check()


X = sdpkit.datasets.swiss_roll(SMALL, random_state=0)
TURNED = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1],) * 2))[0]
OF_PROBLEMS = [
    pytest.param(check, id=f"{form}: {what}")
    for form in FORMS
    for what, check in problem_checks(
        MVU(X, n_neighbors=4, form=form),
        equivalent={
            "shifted points": MVU(X + 3.0, n_neighbors=4, form=form),
            "turned points": MVU(X @ TURNED, n_neighbors=4, form=form),
            "points in another order": MVU(X[::-1], n_neighbors=4, form=form),
        },
    )
]


CLOUD = np.random.default_rng(0).standard_normal((15, 3))
THREE = np.arange(15) % 3
GRAM = CLOUD @ CLOUD.T
SENSORS = sdpkit.graphs.neighborhood_graph(CLOUD[:, :2], radius=2.5)
OTHERS = {
    "MVE": sdpkit.MVE(X, n_neighbors=4),
    "FULL": sdpkit.MVE(X, n_neighbors=4, full=True),
    "variational": sdpkit.VariationalMVU(X, n_neighbors=4),
    "localization": sdpkit.Localization(SENSORS),
    "out of sample": sdpkit.OutOfSample(CLOUD[:4], np.linalg.norm(CLOUD[:4] - CLOUD[4], axis=1)),
    "LMNN": sdpkit.LMNN(CLOUD, THREE, n_neighbors=2),
    "LMNN, metrics": sdpkit.LMNN(CLOUD, THREE, n_neighbors=2, metrics=2),
    "pairs": sdpkit.PairMargins(CLOUD, THREE),
    "MMC": sdpkit.MMC(CLOUD, THREE),
    "MMC, diagonal": sdpkit.MMC(CLOUD, THREE, diagonal=True),
    "ellipsoid": sdpkit.CoveringEllipsoid(CLOUD),
    "ellipsoid, slack": sdpkit.CoveringEllipsoid(CLOUD, gamma=0.1),
    "distances": sdpkit.DistanceMixture([CLOUD[:, :1], CLOUD[:, 1:]], THREE, n_neighbors=1),
    "kernels": sdpkit.KernelMixture([GRAM, (1 + GRAM) ** 2], THREE, rank=2, n_neighbors=1),
}
OF_PROBLEMS += [
    pytest.param(check, id=f"{name}: {what}")
    for name, problem in OTHERS.items()
    for what, check in problem_checks(problem)
]


@pytest.mark.parametrize("check", OF_PROBLEMS)
def test_shipped_checks_of_problems(check: Callable[[], None]) -> None:
    check()


def test_checks_of_problems_find_what_is_wrong() -> None:
    class Loose:
        def program(self) -> Program:
            return two_edges()

    with pytest.raises(AssertionError, match="Loose is not a dataclass"):
        check_problem(Loose())
    checks = dict(problem_checks(MVU(X, n_neighbors=4), equivalent={"doubled": MVU(2 * X)}))
    with pytest.raises(AssertionError, match="the values are"):
        checks["same value: doubled"]()


class Wrong:
    """`interior` with one defect."""

    name = "wrong"
    capabilities = Capabilities()

    def unavailable(self) -> str | None:
        return None

    def memory(self, program: Program) -> float:
        return 0.0

    def solve(self, program: Program, settings: Settings) -> Answer:
        return get_solver("interior").solve(program, settings)


class Negated(Wrong):
    """Multipliers with the other sign."""

    def solve(self, program: Program, settings: Settings) -> Answer:
        answer = super().solve(program, settings)
        return dataclasses.replace(answer, dual=None if answer.dual is None else -answer.dual)


class Hasty(Wrong):
    """Half of the way."""

    def solve(self, program: Program, settings: Settings) -> Answer:
        return super().solve(program, dataclasses.replace(settings, tol=0.1))


class Choosy(Wrong):
    """It takes nothing."""

    def accepts(self, program: Program) -> str | None:
        return "takes nothing; this program is something"


class Silent(Wrong):
    """It refuses without words."""

    def accepts(self, program: Program) -> str | None:
        return None if program.is_linear else ""


class Deaf(Wrong):
    """It ignores options."""

    def solve(self, program: Program, settings: Settings) -> Answer:
        return super().solve(program, dataclasses.replace(settings, options={}))


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (Wrong, "Wrong is a class"),
        (Negated(), "not solved"),
        (Hasty(), "not solved"),
        (Choosy(), "refuses every program"),
        (Silent(), "in words why it refuses"),
        (Deaf(), "no_such_option"),
    ],
)
def test_checks_of_solvers_find_what_is_wrong(solver: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_solver(solver)


# -- optimal programs -----------------------------------------------------------------------


def check_solution(solution: Solution, problem: MVU, name: str, tol: float) -> None:
    """Status, provenance and the certificate, the latter against the papers' own formulas."""
    assert solution.solver == name
    assert solution.reason == "as asked"
    assert solution.native_status.strip()
    assert solution.iterations is None or solution.iterations > 0
    t = solution.times
    assert min(t.compile, t.setup, t.solve, t.certify) >= 0
    assert t.solve > 0
    assert t.total == pytest.approx(t.compile + t.setup + t.solve + t.certify)

    again = certify(solution.program, solution.matrices, solution.x, solution.dual)
    assert again.objective == solution.objective == solution.certificate.objective
    assert again.relative_gap == solution.certificate.relative_gap
    granted = solution.status is Status.OPTIMAL
    assert granted == again.passes(tol)
    assert granted or (name in FIRST_ORDER and "not reached" in solution.message)
    check_by_hand(solution, problem)


def check_by_hand(solution: Solution, problem: MVU) -> None:
    """The certificate's numbers from edges and Laplacians, without the program."""
    K, w = solution.matrix, solution.dual
    assert w is not None
    (part,) = problem.parts
    n, (i, j), d = part.graph.n_points, part.graph.edges.T, part.graph.squared_lengths
    lengths = K[i, i] + K[j, j] - 2 * K[i, j]
    ones = np.ones(n)
    certificate = solution.certificate
    assert np.abs(K @ ones).max() <= 1e-9 * np.abs(K).max()
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * np.linalg.norm(K, 2)

    form, omega = problem.form, problem.omega_used or 0.0
    off = lengths - d
    value = np.trace(K)
    violated = np.maximum(off, 0) if form == "inequality" else np.abs(off)
    residual = (violated / np.maximum(lengths, d)).max()
    if form == "slack":
        value = (1 - omega) * value - omega * np.abs(off).sum()
        residual = 0.0  # the slacks take it up
    assert solution.objective == pytest.approx(value, rel=1e-9)
    # A length is a difference of entries of K: what rounding makes unavoidable is not counted.
    entries = np.abs(K[i, i]) + np.abs(K[j, j]) + 2 * np.abs(K[i, j]) + d
    rounding = (64 * np.finfo(float).eps * entries / np.maximum(lengths, d)).max()
    assert residual - rounding - 1e-11 <= certificate.primal_residual <= residual + 1e-11

    # L(w) ⪰ (1−ω)C, for the minimum trace C ⪰ L(w), on 1⊥; w in its box.
    C = np.eye(n) - 1 / n
    S = part.graph.laplacian(w).toarray() - (1 - omega) * C
    if form == "min_trace":
        S = -S
    smallest = np.linalg.eigvalsh(S + 1e3 * np.ones((n, n)))[0]
    assert certificate.min_eigenvalue_dual == pytest.approx(smallest, abs=1e-7)
    if form == "inequality":
        assert w.min() >= 0
    if form == "slack":
        assert np.abs(w).max() <= omega
    assert certificate.dual_objective == pytest.approx(d @ w, rel=1e-12)


@every_form
@every_solver
def test_small_rolls(name: str, form: str) -> None:
    solution = solved(SMALL, form, name)
    assert solution.status is Status.OPTIMAL
    check_solution(solution, roll(SMALL, form), name, 1e-6)


@with_programs
@every_form
def test_all_agree_on_small_rolls(form: str) -> None:
    check_agreement([solved(SMALL, form, name) for name in SOLVERS])


@pytest.mark.slow
@every_form
@every_solver
def test_medium_rolls(name: str, form: str) -> None:
    check_solution(solved(MEDIUM, form, name), roll(MEDIUM, form), name, tolerance(name, MEDIUM))


@pytest.mark.slow
@with_programs
@every_form
def test_all_agree_on_medium_rolls(form: str) -> None:
    check_agreement([solved(MEDIUM, form, name) for name in SOLVERS])


@pytest.mark.slow
@with_programs
@every_form
def test_all_agree_on_larger_rolls(form: str) -> None:
    solutions = []
    for name in SOLVERS:
        if name not in SLOW_BEYOND_MEDIUM:
            solutions.append(solved(LARGER, form, name))
            check_solution(solutions[-1], roll(LARGER, form), name, tolerance(name, LARGER))
    check_agreement(solutions)


@every_solver
def test_two_blocks(name: str) -> None:
    """Two strings of unit rods, one unknown each: (n³ − n)/12 apiece."""
    graph = sp.block_diag([sdpkit.datasets.path_graph(4), sdpkit.datasets.path_graph(6)])
    solution = solve(MVU(graph=graph, connect="components"), solver=name)
    assert solution.status is Status.OPTIMAL
    assert len(solution.matrices) == 2
    assert np.trace(solution.matrices[0]) == pytest.approx(5.0, rel=1e-5)
    assert np.trace(solution.matrices[1]) == pytest.approx(17.5, rel=1e-5)


@every_solver
def test_facial_reduction(name: str) -> None:
    """A complete graph on a plane: nothing moves, and no K of the face is interior without it."""
    X = np.random.default_rng(3).standard_normal((8, 2))
    problem = MVU(X, n_neighbors=7)
    if get_solver(name).accepts(problem.program()) is not None:
        assert name == "barrier"
        with pytest.raises(sdpkit.SolverError, match="is not that of a graph"):
            solve(problem, solver=name)
        return
    solution = solve(problem, solver=name)
    assert problem.facial_reduction_used
    assert solution.status is Status.OPTIMAL
    centred = X - X.mean(axis=0)
    assert np.abs(solution.matrix - centred @ centred.T).max() <= 1e-5 * np.abs(centred).max() ** 2


@every_solver
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(name: str, scale: float) -> None:
    base = solved(SMALL, "equality", name)
    X = scale * sdpkit.datasets.swiss_roll(SMALL, random_state=0)
    solution = solve(MVU(X, n_neighbors=4), solver=name)
    assert solution.status is Status.OPTIMAL
    assert solution.objective / scale**2 == pytest.approx(base.objective, rel=2e-6)


@every_solver
def test_free_variables_and_lower_limits(name: str) -> None:
    """Rows ≥ and ≤ and a free variable, at a tolerance of 1e-5: signs are at stake, not digits.

    q is the squared length of the one rod, 1 ≤ q ≤ 4, x free with q − x = 0; max 3q − 2x = q.
    """
    program = free_and_lower()
    if get_solver(name).accepts(program) is not None:
        assert name == "barrier"
        with pytest.raises(sdpkit.SolverError, match="rows that are not single measurements"):
            solve(program, solver=name)
        return
    solution = solve(program, solver=name, tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(4.0, rel=1e-5)
    assert solution.x == pytest.approx([4.0], rel=1e-4)
    # L: 3 − w₁ − w₂ − w₃ = 0, −2 + w₃ = 0: the limit at 4 is worth one per unit.
    assert solution.dual == pytest.approx([0.0, 1.0, 2.0], abs=1e-4)
    smallest = Program.of(program.blocks[0], [1.0], relations=">=", sense="min", cost_q=[3.0])
    solution = solve(smallest, solver=name, tol=1e-5)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(3.0, rel=1e-5)
    assert solution.dual == pytest.approx([3.0], rel=1e-4)


@every_solver
def test_quadratic_penalties(name: str) -> None:
    """max tr K − ½h x², q − x = d: two points joined by a spring instead of a rod.

    tr K = q/2, so x = 1/(2h), and the value is d/2 + 1/(8h). At a tolerance of 1e-5: conic
    solvers see the square as a cone, where digits of x are worth half.
    """
    if not get_solver(name).capabilities.quadratic:
        with pytest.raises(sdpkit.SolverError, match="quadratic"):
            solve(spring(1.0, 2.0), solver=name)
        return
    for d, h in [(1.0, 2.0), (100.0, 0.05)]:
        solution = solve(spring(d, h), solver=name, tol=1e-5)
        assert solution.status is Status.OPTIMAL
        assert solution.objective == pytest.approx(d / 2 + 1 / (8 * h), rel=2e-5)
        assert solution.x == pytest.approx([1 / (2 * h)], rel=1e-3)
        assert solution.dual == pytest.approx([0.5], rel=1e-3)


# -- programs without an optimum --------------------------------------------------------------


def triangle(a: float, b: float, c: float) -> Array:
    return np.array([[0.0, a, b], [a, 0.0, c], [b, c, 0.0]])


@every_solver
@pytest.mark.parametrize("form", ["equality", "min_trace"])
def test_infeasible(name: str, form: str) -> None:
    """1 + 1 < 3: weights w with L(w) ⪰ 0 and dᵀw < 0, such as (2, 2, −1)."""
    problem = MVU(graph=triangle(1.0, 1.0, 3.0), form=form)
    solution = solve(problem, solver=name)
    assert solution.status is Status.INFEASIBLE
    assert solution.native_status.strip()
    assert "infeasible" in solution.message
    check_infeasibility_ray(solution, problem)


@every_solver
def test_barely_infeasible(name: str) -> None:
    """1 + 1 < 2.02: every proof is close to (2, 2, −1).

    For w = (2 + s, 2 − s + t, −1): L(w) ⪰ 0 needs s² ≤ t up to higher order, dᵀw < 0 needs
    t < 2.02² − 4 = 0.0804.
    """
    problem = MVU(graph=triangle(1.0, 1.0, 2.02))
    solution = solve(problem, solver=name)
    assert solution.status is Status.INFEASIBLE
    w = check_infeasibility_ray(solution, problem)
    assert w[2] < 0
    assert np.abs(w / -w[2] - [2.0, 2.0, -1.0]).max() <= 0.4


def check_infeasibility_ray(solution: Solution, problem: MVU) -> Array:
    """L(w) ⪰ 0 on 1⊥ and dᵀw = −1 (negated for a minimisation)."""
    ray = solution.ray
    assert ray is not None
    assert ray.kind == "infeasible"
    assert ray.passes(1e-7)
    assert ray.multipliers is not None
    w = solution.program.sign * ray.multipliers
    graph = problem.neighborhood
    assert graph.squared_lengths @ w == pytest.approx(-1.0)
    eigenvalues = np.linalg.eigvalsh(graph.laplacian(w).toarray())
    assert eigenvalues[0] >= -1e-7 * eigenvalues[-1]
    assert w[0] > 0
    assert w[1] > 0
    return w


def test_the_textbook_ray_is_a_proof() -> None:
    program = MVU(graph=triangle(1.0, 1.0, 3.0)).program()
    ray = certify_infeasible(program, [2.0, 2.0, -1.0])
    assert ray.passes(1e-12)
    assert ray.multipliers == pytest.approx([0.4, 0.4, -0.2])
    assert not certify_infeasible(program, [-2.0, -2.0, 1.0]).passes(1e-7)
    # An inexact ray counts if its violation is paid for: dᵀw < −max(0, −λ₂(L(w)))·T.
    inexact = certify_infeasible(program, [2.0, 2.0, -1.1])
    assert inexact.violation > 0.01
    assert "trace bound" in inexact.proof


@pytest.mark.parametrize("longest", [1.0, 1.9, 2.0])
def test_no_weights_prove_a_feasible_program_infeasible(longest: float) -> None:
    program = MVU(graph=triangle(1.0, 1.0, longest)).program()
    rng = np.random.default_rng(0)
    near = np.array([2.0, 2.0, -1.0]) + 0.3 * rng.standard_normal((300, 3))
    for w in np.vstack([near, rng.standard_normal((300, 3))]):
        assert not certify_infeasible(program, w).passes(1e-7)


@pytest.mark.parametrize("reduction", ["auto", "off"])
@pytest.mark.parametrize("longest", [2.0, 2.0 - 1e-9])
def test_no_ray_is_believed_by_its_size(longest: float, reduction: str) -> None:
    """1 + 1 ≥ longest, so these lengths exist. A ray that gains δ and is off by δ proves nothing,
    however large it becomes when its gain is scaled to one."""
    graph = triangle(1.0, 1.0, longest)
    program = MVU(graph=graph, facial_reduction=reduction).program()
    for delta in np.logspace(-10, -2, 33):
        assert not certify_infeasible(program, [2.0, 2.0, -1.0 - delta]).passes(1e-7), delta


@every_solver
@pytest.mark.parametrize("relations", ["==", "<="])
def test_unbounded_disconnected(name: str, relations: str) -> None:
    """The only way out is to move the rods apart: K → K + t·uuᵀ, u = (1, 1, −1, −1)."""
    solution = solve(two_edges(relations), solver=name)
    assert solution.status is Status.UNBOUNDED
    ray = solution.ray
    assert ray is not None
    assert ray.kind == "unbounded"
    assert ray.passes(1e-7)
    assert ray.matrices is not None
    u = np.array([1.0, 1.0, -1.0, -1.0]) / 2
    # Squared lengths off by 1e-7 are lengths, and entries of K, off by their root.
    assert np.abs(ray.matrices[0] - np.outer(u, u)).max() <= 1e-3


def test_the_textbook_direction_is_a_proof() -> None:
    """An exact and a slightly rounded direction count; one that stretches a rod does not."""
    u = np.array([1.0, 1.0, -1.0, -1.0])
    program = two_edges("==")
    assert certify_unbounded(program, [np.outer(u, u)], []).passes(1e-12)
    rounded = u + 1e-9 * np.array([1.0, -1.0, 0.0, 0.0])
    assert certify_unbounded(program, [np.outer(rounded, rounded)], []).passes(1e-7)
    stretched = u + 1e-2 * np.array([1.0, -1.0, 0.0, 0.0])
    assert not certify_unbounded(program, [np.outer(stretched, stretched)], []).passes(1e-7)
    assert not certify_unbounded(two_edges("=="), [np.zeros((4, 4))], []).passes(1e-7)


@every_solver
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_unbounded_slack(name: str, scale: float) -> None:
    """A ray stretches the string: A(K) = ξ, (1−ω) tr K > ω Σ|ξ|."""
    omega = 0.3
    solution = solve(loose_string(omega, scale), solver=name)
    assert solution.status is Status.UNBOUNDED
    ray = solution.ray
    assert ray is not None
    assert ray.passes(1e-7)
    assert ray.matrices is not None
    K = ray.matrices[0]
    stretch = np.array([K[0, 0] - 2 * K[0, 1] + K[1, 1], K[1, 1] - 2 * K[1, 2] + K[2, 2]])
    assert np.linalg.eigvalsh(K)[0] >= -1e-12
    assert np.abs(K.sum(axis=0)).max() <= 1e-9
    assert (1 - omega) * np.trace(K) - omega * stretch.sum() > 0
    assert ray.x is not None
    assert ray.x[:2] - ray.x[2:] == pytest.approx(stretch, abs=1e-6)


@every_solver
def test_slack_at_its_threshold_is_bounded(name: str) -> None:
    """Just above 1/2 the same string has an optimum: both rods stay, (1−ω)·tr K."""
    omega = 0.9
    solution = solve(loose_string(omega), solver=name)
    positions = np.array([0.0, 2.0, 5.0])
    trace = ((positions - positions.mean()) ** 2).sum()
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx((1 - omega) * trace, rel=2e-6)


@every_solver
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_rays_in_the_answer_are_rays_of_the_program(name: str, scale: float) -> None:
    """What a solver hands over as a proof is one in the program's own rows and units."""
    settings = Settings(tol=1e-8)
    program = loose_string(0.3, scale)
    answer = get_solver(name).solve(program, settings)
    if answer.matrix_ray is not None:
        assert certify_unbounded(program, *answer.matrix_ray).passes(1e-6)
    program = MVU(graph=scale * triangle(1.0, 1.0, 3.0)).program()
    answer = get_solver(name).solve(program, settings)
    if answer.multiplier_ray is not None:
        assert certify_infeasible(program, answer.multiplier_ray).passes(1e-6)


# -- limits -----------------------------------------------------------------------------------


@every_solver
def test_two_iterations_are_not_an_optimum(name: str) -> None:
    with pytest.warns(ConvergenceWarning, match="tol 1e-06 was not reached"):
        solution = solve(roll(SMALL, "equality"), solver=name, max_iter=2)
    # cvxpy throws CVXOPT's last iterate away and keeps no word about why it stopped.
    expected = Status.INACCURATE if name == "cvxopt" else Status.ITERATION_LIMIT
    assert solution.status is expected
    # What it reached is still bounded: the safe bound holds for any multipliers.
    best = solved(SMALL, "equality", "interior")
    assert solution.certificate.safe_bound >= best.objective * (1 - 1e-8)


@every_solver
def test_callback_is_called(name: str) -> None:
    seen: list[float] = []
    solution = solve(
        roll(SMALL, "equality"), solver=name, callback=lambda state: seen.append(state["objective"])
    )
    assert seen
    assert seen[-1] == pytest.approx(solution.objective, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "cvxopt"])
def test_unknown_option_is_named(name: str) -> None:
    """An option that the solver does not know is an error of ours that names it.

    (cvxpy drops those of CVXOPT without a word.)
    """
    with pytest.raises(sdpkit.SdpkitError, match="no_such_option"):
        solve(roll(SMALL, "equality"), solver=name, no_such_option=3)


# -- the methods of the thesis ------------------------------------------------------------------
# What is granted to them: rounds enough for two digits instead of six (`dykstra` four), and to
# `alternating`, which has neither an objective nor a dual, that it stops at a feasible point.

every_classic = pytest.mark.parametrize("name", CLASSIC)


def classic(problem: MVU | Program, name: str, **options: object) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, solver=name, **{"tol": 1e-4, "max_iter": 4000, **options})


@pytest.mark.slow
@every_form
@every_classic
def test_classic_methods_on_small_rolls(name: str, form: str) -> None:
    """They never claim what they did not reach, their bounds hold, their points are feasible."""
    solution = classic(roll(SMALL, form), name)
    certificate, best = solution.certificate, solved(SMALL, form, "interior")
    again = certify(solution.program, solution.matrices, solution.x, solution.dual)
    assert again.relative_gap == certificate.relative_gap
    assert (solution.status is Status.OPTIMAL) == again.passes(1e-4)
    # All sets touch at the rank-deficient solutions, so that rows are met to two digits of the
    # largest only.
    program = solution.program
    violations = program.violations(program.measure(list(solution.matrices)), solution.x)
    assert violations.max() <= 0.05 * program.rhs.max()
    if name == "alternating":
        assert solution.dual is None
        assert certificate.relative_gap == np.inf
        assert solution.status is not Status.OPTIMAL
        return
    sign = solution.program.sign
    assert sign * certificate.safe_bound >= sign * best.objective * (1 - sign * 1e-7)
    check_bound(solution, best)
    if name == "dykstra":
        assert certificate.relative_gap <= 2e-2
        assert solution.status is Status.OPTIMAL or form == "min_trace"


@every_classic
def test_classic_methods_see_infeasibility(name: str) -> None:
    """Algorithm 2's rays are rough: the trace bound may have to pay for them."""
    problem = MVU(graph=triangle(1.0, 1.0, 3.0))
    solution = classic(problem, name)
    assert solution.status is Status.INFEASIBLE
    assert solution.ray is not None
    assert solution.ray.kind == "infeasible"
    assert solution.ray.passes(1e-7)
    if name != "gradient-projection":
        check_infeasibility_ray(solution, problem)


@pytest.mark.parametrize("relations", ["==", "<="])
@every_classic
def test_classic_methods_see_that_rods_come_apart(name: str, relations: str) -> None:
    """All but Algorithm 1, which has no objective that could be unbounded."""
    solution = classic(two_edges(relations), name)
    if name == "alternating":
        assert solution.status is Status.INACCURATE
        assert "does not optimise" in solution.native_status
        return
    assert solution.status is Status.UNBOUNDED
    assert solution.ray is not None
    assert solution.ray.passes(1e-7)


@every_classic
def test_classic_methods_have_limits_callbacks_and_no_options(name: str) -> None:
    problem = roll(SMALL, "equality")
    seen: list[float] = []
    solution = classic(
        problem, name, max_iter=3, callback=lambda row: seen.append(row["iteration"])
    )
    assert solution.status is Status.ITERATION_LIMIT
    assert seen == [1.0, 2.0, 3.0]
    with pytest.raises(sdpkit.SdpkitError, match="no_such_option"):
        classic(problem, name, no_such_option=3)
    with pytest.raises(sdpkit.SolverError, match="quadratic"):
        classic(spring(1.0, 2.0), name)


def test_auto_says_what_it_chose_and_why() -> None:
    solution = solve(roll(SMALL, "equality"))
    assert solution.status is Status.OPTIMAL
    assert solution.solver in SOLVERS
    assert solution.reason.startswith("auto")
    assert solution.objective == pytest.approx(
        solved(SMALL, "equality", "interior").objective, rel=2e-6
    )
