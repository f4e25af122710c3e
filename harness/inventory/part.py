"""The base of every part of an inventory: frozen, strict, and silent about what is absent."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """Base of every part: frozen, no unknown keys, camelCase in YAML.

    What is absent stays absent in a dump: it never turns into null or an empty list.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
    )

    @model_serializer(mode="wrap")
    def _absence_is_absence(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if value is not None}
