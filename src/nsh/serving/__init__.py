"""Production: images to codes, and codes to the nearest images. Imports no torch.

    from nsh.serving import Encoder, Filter, Hit, Index, ScoredHit

A name is imported at its first use, so that encoding does not wait for the imports of searching.
"""

TYPE_CHECKING = False  # typing's constant of this name costs the import of typing; type checkers read both alike

if TYPE_CHECKING:
    from nsh.serving.encoder import Encoder
    from nsh.serving.index import Filter, Hit, Index, ScoredHit
else:  # hidden from type checkers, which take a module with `__getattr__` to have every name

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("nsh.serving.encoder" if name == "Encoder" else "nsh.serving.index"), name)


__all__ = ["Encoder", "Filter", "Hit", "Index", "ScoredHit"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
