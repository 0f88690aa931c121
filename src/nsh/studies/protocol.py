"""What all trials share: how far down a ranking is looked, and the code that they run. Imports nothing of that code."""

from nsh.system.code import code_digest

K = 1000  # ranks looked at, as in the paper


def digest_of(method: str) -> str:
    """Digest of the code that a trial of `method` depends on."""
    return code_digest(["nsh.studies.measure", f"nsh.methods.{method}"])
