"""The methods' block of params.yaml: built from the methods' declarations, and written with every default."""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, create_model

from nsh.config.block import Block
from nsh.config.declarations import Parameter, declared_methods, read_declaration
from nsh.system.files import write_text

COLUMN, WIDTH = 28, 120  # where a comment begins, and a line ends
PLACE = re.compile(r"^methods:.*\n(?:(?: .*)?\n)*|\Z", re.MULTILINE)  # to the next block; where there is none, the end


def _default(method: str) -> Any:
    block = read_declaration(method).block
    return (block, Field(default_factory=block))


Methods: Any = create_model("Methods", __base__=Block, **{name: _default(name) for name in declared_methods()})
"""The parameters of every method, by name; of a method that params.yaml leaves out, its defaults."""


def write_defaults(path: Path) -> None:
    """Write every method's parameters into a params.yaml, with their defaults and meanings; all else stays as it is."""
    block = "methods:\n" + "".join(f"{line}\n" for method in declared_methods() for line in _write_method(method))
    text = PLACE.sub(lambda _: f"{block}\n", path.read_text(encoding="utf-8"), count=1)
    write_text(path, text.rstrip("\n") + "\n")


def _write_method(method: str) -> Iterator[str]:
    declaration = read_declaration(method)
    yield from _write_line(f"  {method}:" if declaration.parameters else f"  {method}: {{}}", declaration.title)
    for parameter in declaration.parameters:
        yield from _write_line(f"    {parameter.name}: {_write_value(parameter)}", parameter.meaning)


def _write_value(parameter: Parameter) -> str:
    value = ast.literal_eval(parameter.default)
    return str(value).lower() if isinstance(value, bool) else parameter.default.strip("\"'")


def _write_line(text: str, comment: str) -> list[str]:
    first, *more = textwrap.wrap(comment, WIDTH - COLUMN - 2) or [""]
    return [f"{text:<{COLUMN}}# {first}" if first else text, *(f"{'':<{COLUMN}}# {line}" for line in more)]
