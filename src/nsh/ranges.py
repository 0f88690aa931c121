"""Types of parameters: numbers with their ranges. Knows no parameter.

Methods annotate their fields with these types, and so do the blocks of params.yaml (`nsh.config`), which checks them.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict


def _refuse_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"found {str(value).lower()}; a number is wanted")
    return value


# YAML's types are strict, because DVC puts 16.0 and true into commands and hashes as they are written. A real number
# may be text, because PyYAML reads 3e-4 as text.
Truth = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Real = Annotated[float, BeforeValidator(_refuse_truth)]

Bits = Annotated[Whole, Field(ge=1, le=512)]
Count = Annotated[Whole, Field(ge=1)]
CountOrNone = Annotated[Whole, Field(ge=0)]
Several = Annotated[Whole, Field(ge=2)]
Seed = Annotated[Whole, Field(ge=0, lt=2**32)]
Positive = Annotated[Real, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[Real, Field(ge=0, allow_inf_nan=False)]
OneOrMore = Annotated[Real, Field(ge=1, allow_inf_nan=False)]
Share = Annotated[Real, Field(ge=0, le=1)]
PositiveShare = Annotated[Real, Field(gt=0, le=1)]
InnerShare = Annotated[Real, Field(gt=0, lt=1)]
