"""Reads the parameters that the files of methods declare: names, ranges, defaults and meanings.

The names of the data sets are read off their registry in the same way.

A method's class in `nsh.methods` annotates its parameters:

    epochs: Count = 30
    hidden: Count = 1024  # length of the hidden layer

The annotation is the range (`nsh.ranges`, or a Literal), the comment is the meaning, behind the default or on the lines
above, and `__post_init__` refuses values that do not go together. The file is read and not imported, because it would
import torch, which takes seconds: of the class, the fields and `__post_init__` alone are made. So both may use nothing
but `nsh.ranges`, Literal and Python's own names. (docs/decisions/0011)

A paragraph "Unlike the paper: ..." of the class's docstring says how the defaults differ from what was published.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as checked_dataclass

from nsh import ranges

PACKAGE = Path(ranges.__file__).parent
NAMES = vars(ranges) | {"Literal": Literal}
DEPARTURE = "Unlike the paper: "  # begins a paragraph of a class's docstring


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method."""

    name: str
    default: str  # as it is written in Python
    meaning: str  # "" where the name says it


@dataclass(frozen=True)
class Declaration:
    """The parameters that a method's file declares."""

    title: str  # the first line of the class's docstring: what was published where
    departure: str  # how the defaults differ from what was published, from the paragraph "Unlike the paper: ..."; or ""
    block: type[Any]  # a dataclass of the parameters that checks its values
    _found: ast.ClassDef
    _source: str

    @cached_property
    def parameters(self) -> list[Parameter]:
        """In the order of the file. Whoever only reads params.yaml does not wait until they are read."""
        return list(_read_parameters(self._found, self._source, self.block))


@cache
def declared_methods() -> dict[str, str]:
    """The registry, `nsh.methods.METHODS`: class by name."""
    registry = _read_registry("methods/__init__.py", "METHODS")
    return {ast.literal_eval(name): ast.literal_eval(found) for name, found in registry}


@cache
def declared_data_sets() -> list[str]:
    """The names in the registry, `nsh.data.registry.DATA_SETS`."""
    return [ast.literal_eval(name) for name, _ in _read_registry("data/registry.py", "DATA_SETS")]


def _read_registry(file: str, constant: str) -> list[tuple[ast.expr, ast.expr]]:
    """Keys and values of a dictionary in a file, which is not run."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    assigned = (node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign))
    registry = next(node.value for node in assigned if re.match(rf"{constant}\b", ast.unparse(node)))
    assert isinstance(registry, ast.Dict)
    return [(key, value) for key, value in zip(registry.keys, registry.values, strict=True) if key is not None]


@cache
def read_declaration(method: str) -> Declaration:
    """The parameters of one of `declared_methods`."""
    source = (PACKAGE / f"methods/{method}.py").read_text(encoding="utf-8")
    name = declared_methods()[method]
    found = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    title, *paragraphs = (" ".join(part.split()) for part in (ast.get_docstring(found) or "").split("\n\n"))
    departures = [part.removeprefix(DEPARTURE) for part in paragraphs if part.startswith(DEPARTURE)]
    departure = "".join(departures).removesuffix(".")
    return Declaration(title.removesuffix("."), departure, _make_block(found), found, source)


def _fields(found: ast.ClassDef) -> list[ast.AnnAssign]:
    return [node for node in found.body if isinstance(node, ast.AnnAssign) and node.value is not None]


def _make_block(found: ast.ClassDef) -> type[Any]:
    checks = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__post_init__"]
    short = ast.parse(f"class {found.name}: pass")
    assert isinstance(short.body[0], ast.ClassDef)
    short.body[0].body = [*_fields(found), *checks, ast.Pass()]
    made = dict(NAMES)
    exec(compile(ast.fix_missing_locations(short), found.name, "exec"), made)
    return checked_dataclass(made[found.name], kw_only=True, frozen=True, config=ConfigDict(extra="forbid"))


def _read_parameters(found: ast.ClassDef, source: str, block: type[Any]) -> Iterator[Parameter]:
    comments = _read_comments(source)
    end = 0
    for field in _fields(found):
        assert isinstance(field.target, ast.Name)
        assert field.value is not None
        assert field.end_lineno is not None
        lines = range(max(end, found.lineno) + 1, field.end_lineno + 1)
        meaning = " ".join(comments[line] for line in lines if line in comments)
        if meaning.endswith(":"):  # the values stand in the annotation
            meaning += " " + " | ".join(_choices(block, field.target.id))
        yield Parameter(field.target.id, ast.get_source_segment(source, field.value) or "", meaning)
        end = field.end_lineno


def _read_comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def _choices(block: type[Any], name: str) -> list[str]:
    """The values that a Literal allows, without the default."""
    return [value for value in get_args(block.__annotations__[name]) if value != getattr(block, name)]
