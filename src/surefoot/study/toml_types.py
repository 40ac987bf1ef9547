"""What the sections of `study.toml` are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _limits(value: Any) -> Any:
    numbers = isinstance(value, list | tuple) and all(type(limit) in (int, float) for limit in value)
    if not numbers or len(value) != 2 or not value[0] < value[1]:
        raise ValueError(f"{value!r} is not a range; write [lowest, highest]")
    return tuple(value)


Finite = Annotated[float, Field(allow_inf_nan=False)]
Range = Annotated[tuple[Finite, Finite], BeforeValidator(_limits)]
Probability = Annotated[float, Field(ge=0, le=1)]
Words = tuple[Annotated[str, Field(min_length=1)], ...]


class Section(BaseModel):
    """A section of the file: keys that it does not know are errors, values are not coerced, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)
