"""Which code a result depends on, and its digest. Imports none of that code.

Comments, docstrings and layout do not count: an edited sentence does not make hours of results invalid.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2]
NO_RESULT = ("nsh.methods", "nsh.config", "nsh.terminal")
"""These change no result: they map methods to files, hold values that are compared by value, and print messages."""

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_digest(roots: Iterable[Path | str]) -> str:
    """SHA-256 over the code of `roots` and of all modules of `nsh` that they import, directly or not.

    A file is read once a process: what runs is what was read when it was imported.

    Args:
        roots: modules by name ("nsh.methods.itq"), or scripts by path; a name that is no module of `nsh` has no code.
    """
    digest = hashlib.sha256()
    for name, code in sorted(_reach(roots).items()):
        digest.update(f"{name}\n{code}\n".encode())
    return digest.hexdigest()


def reached(roots: Iterable[Path | str]) -> list[str]:
    """Names of the modules that `code_digest` looks at, in order; a script goes by its file's name."""
    return sorted(_reach(roots))


def _reach(roots: Iterable[Path | str]) -> dict[str, str]:
    """The code of every module reached, by name."""
    found: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        root = waiting.pop()
        name, path = (root.name, root) if isinstance(root, Path) else (root, _file(root))
        if path is None or name in found or name in NO_RESULT:
            continue
        found[name], imports = _read(path)
        waiting += imports
    return found


@cache
def _read(path: Path) -> tuple[str, list[str]]:
    """The code of a file without comments, docstrings and layout, and the modules of `nsh` that it imports anywhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:  # `from a import b` may mean the module a.b
            imports += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    # Not `ast.dump`, which differs between versions of Python.
    return ast.unparse(tree), [name for name in imports if name.startswith("nsh.")]


def _file(module: str) -> Path | None:
    """The file of a module, None where the name is no module's."""
    base = SOURCE / Path(*module.split("."))
    candidates = (base.with_name(f"{base.name}.py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)
