"""Every public function of core shows an example in its docstring, and every example is right."""

import doctest
import inspect
import pkgutil
from importlib import import_module
from typing import Any

import pytest

import nsh.core

MODULES = [import_module(module.name) for module in pkgutil.walk_packages(nsh.core.__path__, "nsh.core.")]
PUBLIC = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if inspect.isroutine(value) or inspect.isclass(value)
    if value.__module__ == module.__name__ and not name.startswith("_")
}


def find_examples(name: str) -> list[doctest.DocTest]:
    """The examples in the docstring of a function, or of a class and its methods."""
    value: Any = PUBLIC[name]
    module = inspect.getmodule(value)
    found = doctest.DocTestFinder().find(value, name, module, globs=dict(vars(module)))
    return [one for one in found if one.examples]


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isroutine(value)])
def test_a_function_has_an_example(name: str) -> None:
    assert find_examples(name)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_examples_are_right(name: str) -> None:
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed = sum(runner.run(one, out=report.append).failed for one in find_examples(name))
    assert not failed, "".join(report)
