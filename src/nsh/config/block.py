"""The base of every block of params.yaml, and the type of paths."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from nsh.system.files import expand_home

Place = Annotated[Path, AfterValidator(lambda path: Path(expand_home(str(path))))]


class Block(BaseModel):
    """Base of every block: no unknown key, no change after reading; a key that Python reserves is a field's alias."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)
