"""dvc.yaml names all code that a stage can reach: no stale result. It names none that no method of it can reach."""

from pathlib import Path

import grimp
import pytest
import yaml

from nsh.methods import METHODS

ROOT = Path(__file__).parents[2]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
# These cannot change an output: parameters are dependencies by value, tracking writes to MLflow, terminal to the eye.
NO_CACHE_KEY = ("nsh.config", "nsh.terminal", "nsh.tracking")
# Packages that give users names of other modules. What imports those modules themselves depends on nothing else here.
FRONT_DOORS = ("nsh", "nsh.serving")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("nsh", "pipeline", cache_dir=None, exclude_type_checking_imports=True)


def module_file(module: str) -> str:
    path = Path(*module.split("."))
    base = path if module.startswith("pipeline") else Path("src") / path
    package = base / "__init__.py"
    return str(package if (ROOT / package).exists() else base.with_suffix(".py"))


def is_cache_key(module: str) -> bool:
    packages = tuple(f"{name}." for name in NO_CACHE_KEY)
    return module not in (*NO_CACHE_KEY, *FRONT_DOORS, "pipeline") and not module.startswith(packages)


def uses_methods(stage: str) -> bool:
    return any("item.method" in dep for dep in code_dependencies(stage))


def reached(graph: grimp.ImportGraph, stage: str, method: str) -> set[str]:
    """Modules whose code runs in the stage; not what only tracking or config reach."""
    found: set[str] = set()
    waiting = [f"pipeline.{stage}"] + ([f"nsh.methods.{method}"] if uses_methods(stage) else [])
    while waiting:
        module = waiting.pop()
        if module in found or not is_cache_key(module):
            continue
        found.add(module)
        waiting += graph.find_modules_directly_imported_by(module)
        parent = module.rpartition(".")[0]
        waiting += [parent] if parent else []
    return found


def code_dependencies(stage: str, method: str = "${item.method}") -> list[str]:
    dependencies = [dep.replace("${item.method}", method) for dep in STAGES[stage]["deps"]]
    return [dep for dep in dependencies if dep.startswith(("src/", "pipeline/"))]


def covers(dependency: str, file: str) -> bool:
    return file == dependency or file.startswith(dependency + "/")


def is_marker(file: str) -> bool:
    """An `__init__.py` that holds a docstring at most."""
    text = (ROOT / file).read_text().strip()
    docstring_only = text.startswith('"""') and text.endswith('"""') and text.count('"""') == 2
    return file.endswith("__init__.py") and (not text or docstring_only)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stage", STAGES)
def test_every_reachable_module_is_a_dependency(graph: grimp.ImportGraph, stage: str, method: str) -> None:
    files = {module_file(module) for module in reached(graph, stage, method)}
    dependencies = code_dependencies(stage, method)
    missing = [file for file in files if not is_marker(file) and not any(covers(dep, file) for dep in dependencies)]
    assert not missing, f"add to the deps of {stage} in dvc.yaml: {sorted(missing)}"


@pytest.mark.parametrize("stage", STAGES)
def test_no_dependency_is_out_of_reach(graph: grimp.ImportGraph, stage: str) -> None:
    files = {module_file(module) for method in METHODS for module in reached(graph, stage, method)}
    idle = [dep for dep in code_dependencies(stage) if "${" not in dep and not any(covers(dep, file) for file in files)]
    assert not idle, f"take out of the deps of {stage} in dvc.yaml: {idle}"


def test_no_file_of_the_objectives_is_out_of_reach(graph: grimp.ImportGraph) -> None:
    """The folder is one dependency: a file in it that no method uses would rerun all of them."""
    used = {module_file(module) for method in METHODS for module in reached(graph, "train", method)}
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "src/nsh/objectives").rglob("*.py")}
    assert not files - used


def test_of_the_methods_a_stage_depends_on_its_own_alone() -> None:
    """The audit codes by LSH, whatever the matrix."""
    for stage in STAGES:
        own = "lsh" if stage == "audit" else "${item.method}" if uses_methods(stage) else None
        found = {dep for dep in code_dependencies(stage) if dep.startswith("src/nsh/methods")}
        assert found == ({"src/nsh/methods/__init__.py", f"src/nsh/methods/{own}.py"} if own else set()), stage


def test_no_code_of_ours_goes_through_a_front_door(graph: grimp.ImportGraph) -> None:
    """What `nsh.serving` loads is found at run time: the imports, and so dvc.yaml, would lack it."""
    assert not graph.find_modules_that_directly_import("nsh.serving")


def test_every_stage_takes_the_place_of_the_shell_that_starts_it() -> None:
    commands = {name: stage["cmd"] for name, stage in STAGES.items()}
    assert not {name for name, command in commands.items() if not command.startswith("exec python pipeline/")}
