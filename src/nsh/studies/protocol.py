"""Common to all trials: k of the metrics, and a digest of the code. Imports nothing of that code."""

from nsh.system.code import code_digest

K = 1000  # of mAP@k and precision@k, as in the paper


def digest_of(method: str) -> str:
    """Digest of the code that a trial of `method` depends on."""
    return code_digest(["nsh.studies.measure", f"nsh.methods.{method}"])
