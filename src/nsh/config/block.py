"""What every block of params.yaml is made of: its base, and numbers with their ranges."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Bits = Annotated[int, Field(ge=1, le=512)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Block(BaseModel):
    """Base of every block: no unknown key, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
