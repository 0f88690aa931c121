"""What every block of params.yaml is made of: its base, and numbers and places with what they may be."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from nsh.system.files import expand_home


def _refuse_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"found {str(value).lower()}; a number is wanted")
    return value


# YAML's types are taken at their word: DVC puts 16.0 and true into commands and hashes as they are written. Text that
# is a number is let through where a fraction is wanted, since PyYAML reads 3e-4 as text.
Truth = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Real = Annotated[float, BeforeValidator(_refuse_truth)]

Bits = Annotated[Whole, Field(ge=1, le=512)]
Count = Annotated[Whole, Field(ge=1)]
Positive = Annotated[Real, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[Real, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[Real, Field(ge=0, le=1)]
Seed = Annotated[Whole, Field(ge=0, lt=2**32)]
Place = Annotated[Path, AfterValidator(lambda path: Path(expand_home(str(path))))]


class Block(BaseModel):
    """Base of every block: no unknown key, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
