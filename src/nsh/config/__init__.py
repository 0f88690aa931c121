"""params.yaml as checked values: one model per block; unknown keys are errors, and all errors are reported together.

It knows names, types and ranges; what the values do is written where they are used.
"""

from nsh.config.params import Params, change, read_params

__all__ = ["Params", "change", "read_params"]
