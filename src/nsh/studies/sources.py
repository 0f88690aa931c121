"""Which code a result depends on, and its digest. Imports nothing of it and knows no stage or method.

Comments, docstrings and layout do not count: hours of results stay valid when a sentence is mended.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2]
NO_RESULT = ("nsh.methods", "nsh.config", "nsh.terminal")
"""These change no result: they map methods to files, are dependencies by value, and speak to the eye."""


def code_digest(roots: Iterable[Path | str]) -> str:
    """SHA-256 over the code of `roots` and of all modules of `nsh` that they import, directly or not.

    Args:
        roots: modules by name ("nsh.methods.itq"), or scripts by path.
    """
    digest = hashlib.sha256()
    for name, tree in sorted(_closure(roots).items()):
        digest.update(f"{name}\n{ast.dump(_bare(tree))}\n".encode())
    return digest.hexdigest()


def reached(roots: Iterable[Path | str]) -> list[str]:
    """Names of the modules that `code_digest` looks at, in order; a script goes by its file's name."""
    return sorted(_closure(roots))


def _closure(roots: Iterable[Path | str]) -> dict[str, ast.Module]:
    found: dict[str, ast.Module] = {}
    waiting = list(roots)
    while waiting:
        root = waiting.pop()
        name, path = (root.name, root) if isinstance(root, Path) else (root, _file(root))
        if path is None or name in found or name in NO_RESULT:
            continue
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
        waiting += _imports(found[name])
    return found


def _imports(tree: ast.Module) -> Iterator[str]:
    """Modules of `nsh` that a file imports anywhere; `from a import b` may mean the module a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.startswith("nsh."))


def _file(module: str) -> Path | None:
    """The file of a module, None where the name is no module's."""
    base = SOURCE / Path(*module.split("."))
    candidates = (base.with_name(f"{base.name}.py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def _bare(tree: ast.Module) -> ast.Module:
    """The tree without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return tree
