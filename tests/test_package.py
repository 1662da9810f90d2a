"""The package as a whole: imports, their directions, and what is documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sdpkit

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"sdpkit": "sdpkit", "problems": "sdpkit.problems", "solvers": "sdpkit.solvers"}
FILES = {folder: sorted((ROOT / folder).glob("**/*.py")) for folder in FOLDERS}
HEAVY = ("cvxpy", "sklearn", "matplotlib", "pandas", "scs", "clarabel", "cvxopt")


@pytest.fixture(scope="module")
def project() -> dict:  # type: ignore[type-arg]
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


# -- what an import costs -----------------------------------------------------------------------


def modules_after(code: str) -> set[str]:
    """Top-level and dotted modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_is_light() -> None:
    loaded = modules_after("import sdpkit")
    assert "sdpkit" in loaded
    assert not loaded & {*HEAVY, "sdpkit.problems", "sdpkit.solvers"}


def test_building_a_problem_needs_no_solver() -> None:
    loaded = modules_after(
        "import sdpkit\n"
        "problem = sdpkit.MVU([[0.0], [1.0], [3.0]], n_neighbors=1)\n"
        "problem.program().fingerprint"
    )
    assert "sdpkit.problems.mvu" in loaded
    assert not loaded & {"cvxpy", "matplotlib", "pandas", "sklearn", "sdpkit.solvers"}


def test_no_folder_leaks_to_the_top() -> None:
    """`problems` and `solvers` are parts of sdpkit, never packages of their own."""
    loaded = modules_after("import sdpkit; sdpkit.MVU; sdpkit.available_solvers()")
    assert not loaded & {"problems", "solvers"}
    assert {"sdpkit.problems.mvu", "sdpkit.solvers"} <= loaded


# -- names --------------------------------------------------------------------------------------


def test_every_public_name_resolves() -> None:
    assert len(set(sdpkit.__all__)) == len(sdpkit.__all__)
    for name in sdpkit.__all__:
        assert getattr(sdpkit, name) is not None
    assert set(sdpkit.__all__) <= set(dir(sdpkit))
    assert {name for name in dir(sdpkit) if not name.startswith("_")} >= {"MVU", "solve"}


def test_star_import() -> None:
    namespace: dict[str, object] = {}
    exec("from sdpkit import *", namespace)
    assert set(sdpkit.__all__) <= set(namespace)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        sdpkit.no_such_name  # noqa: B018


def test_version(project: dict) -> None:  # type: ignore[type-arg]
    assert sdpkit.__version__ == project["project"]["version"]


def test_every_error_is_ours() -> None:
    errors = [
        value
        for value in vars(sdpkit.errors).values()
        if inspect.isclass(value) and issubclass(value, Exception)
        if not issubclass(value, Warning)
    ]
    assert len(errors) > 5
    assert all(issubclass(error, sdpkit.SdpkitError) for error in errors)


# -- which module may import which --------------------------------------------------------------


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a module imports anywhere, but for the type checker alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt) and is_type_checking(node):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imported(node)


def imports_of(path: Path) -> set[str]:
    return set(imported(ast.parse(path.read_text())))


def reaches(names: set[str], package: str) -> set[str]:
    return {name for name in names if name == package or name.startswith(f"{package}.")}


def test_the_reader_of_imports_reads() -> None:
    code = (
        "import a.b\nfrom c import d\ndef f():\n    import e\n"
        "if TYPE_CHECKING:\n    import g\ntry:\n    import h\nexcept ImportError:\n    pass\n"
    )
    assert set(imported(ast.parse(code))) == {"a.b", "c", "c.d", "e", "h"}


@pytest.mark.parametrize("path", FILES["problems"], ids=lambda path: path.stem)
def test_problems_know_no_solver(path: Path) -> None:
    names = imports_of(path)
    assert not reaches(names, "sdpkit.solvers")
    assert not reaches(names, "sdpkit.solving.registry")
    assert not reaches(names, "problems") | reaches(names, "solvers")
    assert "sdpkit.solvers" not in path.read_text()


@pytest.mark.parametrize("path", FILES["solvers"], ids=lambda path: path.stem)
def test_solvers_know_no_problem(path: Path) -> None:
    names = imports_of(path)
    assert not reaches(names, "sdpkit.problems")
    assert not reaches(names, "problems") | reaches(names, "solvers")
    # Nor through the top of the package, which hands out problems by name.
    problems = {
        name
        for name, (folder, _) in sdpkit._EXPORTS.items()
        if folder.startswith("sdpkit.problems")
    }
    assert not names & {f"sdpkit.{name}" for name in problems}
    assert "sdpkit.problems" not in path.read_text()


def layers_above_problems() -> set[str]:
    """The modules of sdpkit that may import problems, by the contract of import-linter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    above = layers[: layers.index("problems")]
    return {name.strip() for layer in above for name in layer.split("|")}


@pytest.mark.parametrize("path", FILES["sdpkit"], ids=lambda path: path.stem)
def test_only_layers_above_problems_import_them(path: Path) -> None:
    """Below, only the top of the package names problems, and only the registry names solvers; both
    as strings."""
    names = imports_of(path)
    constants = {
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not reaches(names, "sdpkit.solvers")
    assert not reaches(names, "problems") | reaches(names, "solvers")
    if path.name not in ("registry.py", "__init__.py"):
        assert not {text for text in constants if text.startswith("sdpkit.solvers")}
    module = path.relative_to(ROOT / "sdpkit").parts[0].removesuffix(".py")
    if module not in layers_above_problems():
        assert not reaches(names, "sdpkit.problems")
        named = {text for text in constants if text.startswith("sdpkit.problems")}
        assert not named or path.name in ("registry.py", "__init__.py")


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    """At the top of a module of sdpkit or problems: numpy, scipy and the standard library only."""
    interfaces = [ROOT / "sdpkit" / name for name in ("interfaces", "conic")]
    for path in FILES["sdpkit"] + FILES["problems"]:
        if any(path.is_relative_to(folder) for folder in interfaces):
            continue  # imported only by those who use that library
        tree = ast.parse(path.read_text())
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = set(imported(ast.Module(body=list(top), type_ignores=[])))
        for package in HEAVY:
            assert not reaches(names, package), f"{path.name} imports {package} at its top"


# -- layout -------------------------------------------------------------------------------------


def test_top_level_layout() -> None:
    required = {"pyproject.toml", "README.md", "sdpkit", "problems", "solvers", "tests", "docs"}
    usual = {"LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Makefile"}
    usual |= {"MANIFEST.in", "SECURITY.md"}
    made = {"build", "dist", "__pycache__"}
    found = {
        path.name
        for path in ROOT.iterdir()
        if not path.name.startswith(".") and not path.name.endswith(".egg-info")
        # What the commands write where they are run.
        if path.suffix not in (".jsonl", ".png", ".html")
    }
    assert found - made - usual == required


def test_folders_are_mapped_into_the_package(project: dict) -> None:  # type: ignore[type-arg]
    setuptools = project["tool"]["setuptools"]
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).glob("**/__init__.py")
    }
    wanted = {folder.replace("/", ".") for folder in folders}
    wanted = {name if name.startswith("sdpkit") else f"sdpkit.{name}" for name in wanted}
    assert set(setuptools["packages"]) == wanted
    assert setuptools["package-dir"]["sdpkit.problems"] == "problems"
    assert setuptools["package-dir"]["sdpkit.solvers"] == "solvers"
    assert (ROOT / "sdpkit" / "py.typed").exists()


def test_scripts_exist(project: dict) -> None:  # type: ignore[type-arg]
    for target in project["project"].get("scripts", {}).values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


# Solvers that are asked for their licence where they are installed.
LICENSED = ("mosek", "knitro", "copt", "coptpy")


def test_required_packages_are_declared(project: dict) -> None:  # type: ignore[type-arg]
    """Whatever the sources import is a dependency, an extra, or in the standard library."""
    declared = list(project["project"]["dependencies"])
    for extra in project["project"]["optional-dependencies"].values():
        declared += extra
    text = " ".join(declared).lower().replace("scikit-learn", "sklearn")
    for paths in FILES.values():
        for path in paths:
            for name in {n.split(".")[0] for n in imports_of(path)}:
                ours = name in sys.stdlib_module_names or name in ("sdpkit", *LICENSED)
                assert ours or name.lower() in text, f"{path.name} imports {name}"


# -- documentation ------------------------------------------------------------------------------


def modules() -> list[ModuleType]:
    names = ["sdpkit"]
    for folder, package in FOLDERS.items():
        names += [f"{package}.{m.name}" for m in pkgutil.iter_modules([str(ROOT / folder)])]
    skipped = {"sdpkit.__main__"}
    return [importlib.import_module(name) for name in sorted({*names} - skipped)]


def undocumented(module: ModuleType) -> Iterator[str]:
    """Public functions and classes defined here, and their public methods, without a docstring."""
    if not inspect.getdoc(module):
        yield module.__name__
    for name, value in vars(module).items():
        here = getattr(value, "__module__", None) == module.__name__
        if name.startswith("_") or not here:
            continue
        if inspect.isfunction(value) and not value.__doc__:
            yield f"{module.__name__}.{name}"
        if inspect.isclass(value):
            yield from undocumented_members(value, f"{module.__name__}.{name}")


def undocumented_members(owner: type, path: str) -> Iterator[str]:
    # A dataclass without a docstring is given its signature as one: that is none.
    if not owner.__doc__ or owner.__doc__.startswith(f"{owner.__name__}("):
        yield path
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "func", member))
        function = getattr(function, "__func__", function)
        if inspect.isfunction(function) and not function.__doc__:
            yield f"{path}.{name}"


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_everything_public_is_documented(module: ModuleType) -> None:
    assert list(undocumented(module)) == []


def test_the_search_for_docstrings_finds_what_is_missing() -> None:
    module = ModuleType("bare")
    code = (
        "class A:\n    def f(self): pass\n    @property\n    def g(self): pass\n"
        "    @classmethod\n    def h(cls): 'Here.'\n"
        "def k(): pass\ndef _private(): pass\n"
    )
    exec(code, vars(module))
    found = set(undocumented(module))
    assert found == {"bare", "bare.A", "bare.A.f", "bare.A.g", "bare.k"}
