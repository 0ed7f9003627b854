"""What all bodies have in common.

Unknown fields are refused, not ignored: a misspelt `redact_type` that was silently dropped would
leave data unmasked. Fields that only answers have are let through and ignored, so that an answer,
edited, is a valid request.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic.config import JsonDict

from postern.domain.targets.connection import SPOKEN, SUBTYPES
from postern.domain.targets.target_keys import ALIASES
from postern.protocols.registry import PROTOCOLS

# Marks a field in the OpenAPI description. Pydantic's own `deprecated` would warn at each access, also of our own.
DEPRECATED: Final[JsonDict] = {"deprecated": True}
# Every subtype, and the empty one of a connection that has none. The service checks which type has which.
SUBTYPE_NAMES: Final[list[JsonValue]] = ["", *sorted(frozenset[str]().union(*SUBTYPES.values()))]
# Requests can use an alias, too; answers have the subtype that is stored.
SPOKEN_SUBTYPES: Final = [name for name in PROTOCOLS if name in SPOKEN]
SUBTYPE_SPELLINGS: Final[list[JsonValue]] = [*SUBTYPE_NAMES, *sorted(ALIASES)]

# Values that JSON cannot express are read from their text; everything else must have its very type.
Identifier = Annotated[UUID, Field(strict=False)]


SortedNames = Annotated[list[str], BeforeValidator(sorted)]


class Body(BaseModel):
    """Of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)
    read_only: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        known = {key: value for key, value in given.items() if key not in cls.read_only}
        for key, value in known.items():
            if not storable(key):
                raise ValueError("body: the name of a field contains a NUL character or half of a surrogate pair")
            if not storable(value):
                raise ValueError(f"{key}: contains a NUL character or half of a surrogate pair")
        return known


class ResourceBody(Body):
    """Of a request to create or change a named resource: its fields have the names of the resource's, and aliases where
    the API calls them otherwise."""

    read_only = frozenset({"id", "created_at", "updated_at"})
    nullable: ClassVar[frozenset[str]] = frozenset()  # fields that null sets; other nulls are as if left out

    def fields(self) -> dict[str, Any]:
        """Return what the request gives."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: value for name, value in given.items() if value is not None or name in self.nullable}


class Answer(BaseModel):
    """Of a response."""


class AttributeAnswer(Answer):
    """Of a response that has the attributes of a value."""

    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    @classmethod
    def of(cls, resource: object) -> Self:
        return cls.model_validate(resource)


class NamedResourceAnswer(AttributeAnswer):
    """Of a response about a named resource."""

    id: UUID
    name: str


class HTTPError(Answer):
    """The body of every answer that is not a success (spec section 7)."""

    message: str = Field(description="What happened, why, and what to do next")


def storable(given: Any) -> bool:
    """No NUL and no lone surrogate in any text. Without recursion: bodies may be nested as deep as JSON allows."""
    waiting = [given]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
                return False
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
    return True
