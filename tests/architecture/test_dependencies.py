"""dvc.yaml names exactly the code each stage can reach: no stale result, no needless rerun."""

from pathlib import Path

import grimp
import pytest
import yaml

ROOT = Path(__file__).parents[2]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
# These cannot change an output: parameters are dependencies by value, and tracking writes only to MLflow.
NO_CACHE_KEY = ("nsh", "nsh.config", "nsh.tracking")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("nsh", "pipeline", cache_dir=None)


def module_file(module: str) -> str:
    path = Path(*module.split("."))
    base = path if module.startswith("pipeline") else Path("src") / path
    package = base / "__init__.py"
    return str(package if (ROOT / package).exists() else base.with_suffix(".py"))


def is_cache_key(module: str) -> bool:
    return module not in NO_CACHE_KEY and not module.startswith("nsh.tracking.") and module != "pipeline"


def reached(graph: grimp.ImportGraph, stage: str) -> set[str]:
    """Modules whose code runs in the stage; not what only tracking or config reach."""
    found: set[str] = set()
    waiting = [f"pipeline.{stage}"]
    while waiting:
        module = waiting.pop()
        if module in found or not is_cache_key(module):
            continue
        found.add(module)
        waiting += graph.find_modules_directly_imported_by(module)
        parent = module.rpartition(".")[0]
        waiting += [parent] if parent else []
    return found


def code_dependencies(stage: str) -> list[str]:
    return [dep for dep in STAGES[stage]["deps"] if dep.startswith(("src/", "pipeline/"))]


def covers(dependency: str, file: str) -> bool:
    return file == dependency or file.startswith(dependency + "/")


def is_marker(file: str) -> bool:
    """An `__init__.py` that holds a docstring at most."""
    lines = (ROOT / file).read_text().strip()
    return file.endswith("__init__.py") and (not lines or (lines.startswith('"""') and lines.count('"""') == 2 and lines.endswith('"""')))


@pytest.mark.parametrize("stage", STAGES)
def test_every_reachable_module_is_a_dependency(graph: grimp.ImportGraph, stage: str) -> None:
    files = {module_file(module) for module in reached(graph, stage)}
    missing = {
        file
        for file in files
        if not is_marker(file) and not any(covers(dep, file) for dep in code_dependencies(stage))
    }
    assert not missing, f"add to the deps of {stage} in dvc.yaml: {sorted(missing)}"


@pytest.mark.parametrize("stage", STAGES)
def test_no_dependency_is_out_of_reach(graph: grimp.ImportGraph, stage: str) -> None:
    files = {module_file(module) for module in reached(graph, stage)}
    idle = [
        dep
        for dep in code_dependencies(stage)
        if "${" not in dep and not any(covers(dep, file) for file in files)
    ]
    assert not idle, f"take out of the deps of {stage} in dvc.yaml: {idle}"
