"""Why a file of a store or a member of an archive is left out by its name: the rules of `nsh.core.image_files`."""

from collections.abc import Sequence

from nsh.core.image_files import FOREIGN, NO_IMAGE, Exclude, is_image

_FOREIGN = {name.casefold() for name in FOREIGN}


def reason_to_skip(parts: Sequence[str], name: str, *, exclude: Exclude, kind: str) -> str:
    """The reason why what is called `name` in the folder of `parts` is left out; empty if it is not.

    Args:
        parts: the folder's path below the root, part by part.
        name: of a folder or a file.
        exclude: the user's globs.
        kind: "folders" or "files".

    Examples:
        >>> reason_to_skip([], ".git", exclude=Exclude(), kind="folders")
        'hidden folders'
    """
    if exclude("/".join([*parts, name])):
        return f"excluded {kind}"
    if name.startswith(".") and name != "..":
        return f"hidden {kind}"
    return f"{name} folders" if kind == "folders" and name.casefold() in _FOREIGN else ""


def reason_to_skip_path(path: str, *, exclude: Exclude) -> str:
    """The reason why a path, whose folders were not walked, is left out; empty if it is not.

    Examples:
        >>> reason_to_skip_path("a/1.jpg", exclude=Exclude()), reason_to_skip_path("__MACOSX/1.jpg", exclude=Exclude())
        ('', 'files in __MACOSX folders')
    """
    *parts, name = path.split("/")
    for depth, part in enumerate(parts):
        if reason := reason_to_skip(parts[:depth], part, exclude=exclude, kind="folders"):
            return f"files in {reason}"
    return reason_to_skip(parts, name, exclude=exclude, kind="files") or ("" if is_image(name) else NO_IMAGE)
