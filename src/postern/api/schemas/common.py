"""Base classes of all bodies.

Unknown fields are rejected, not ignored: a misspelt `redact_type` that was silently dropped would leave data unmasked.
Fields that only answers have are accepted and ignored, so that an edited answer is a valid request.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic.config import JsonDict

from postern.domain.targets.connection import SPOKEN, SUBTYPES
from postern.domain.targets.target_keys import ALIASES
from postern.protocols.registry import PROTOCOLS

MANAGED_BY: Final = (
    "What manages it: a configuration in files, whose next `postern apply` overwrites other changes, or an agent"
)
# Marks a field in the OpenAPI description. Pydantic's own `deprecated` would warn at each access, also by our code.
DEPRECATED: Final[JsonDict] = {"deprecated": True}
# Marks a field that files of a configuration do not have: another field, or another resource, has the same value.
NOT_IN_FILES: Final[JsonDict] = {"x-not-in-files": True}


def refers_to(kind: str) -> JsonDict:
    """Mark a field with names of resources of a kind, or with their identifiers if its own name ends in `_id` or
    `_ids`. Files of a configuration always have names."""
    return {"x-refers-to": kind}


def secret(shown_in: str, *, keeps: bool = False) -> JsonDict:
    """Mark a field that is never shown. `shown_in` is the field of answers that says which values are set: the keys, or
    whether there is one; empty if no answer says it. `keeps`: keys that a request leaves out keep their values."""
    return {"x-secret": shown_in, "x-keeps": keeps}


# Every subtype, and the empty one of a connection without one. The service checks which type has which.
SUBTYPE_NAMES: Final[list[JsonValue]] = ["", *sorted(frozenset[str]().union(*SUBTYPES.values()))]
# Requests can use an alias, too; answers have the stored subtype.
SPOKEN_SUBTYPES: Final = [name for name in PROTOCOLS if name in SPOKEN]
SUBTYPE_SPELLINGS: Final[list[JsonValue]] = [*SUBTYPE_NAMES, *sorted(ALIASES)]

# Values that JSON cannot express are read from their text; all others must have the exact type.
Identifier = Annotated[UUID, Field(strict=False)]


SortedNames = Annotated[list[str], BeforeValidator(sorted)]


class Body(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)
    read_only: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        writable = {key: value for key, value in body.items() if key not in cls.read_only}
        for key, value in writable.items():
            if not storable(key):
                raise ValueError("body: the name of a field contains a NUL character or half of a surrogate pair")
            if not storable(value):
                raise ValueError(f"{key}: contains a NUL character or half of a surrogate pair")
        return writable


class ResourceBody(Body):
    """The body of a request to create or change a named resource. Its fields have the resource's names, and aliases if
    the API uses different ones."""

    read_only = frozenset({"id", "created_at", "updated_at"})
    managed_by: str | None = Field(
        None,
        description="Name of the configuration that manages it (`postern apply`); null: unchanged; empty: none",
        json_schema_extra=NOT_IN_FILES,
    )
    nullable: ClassVar[frozenset[str]] = frozenset()  # fields that null sets; in other fields null is ignored

    def fields(self) -> dict[str, Any]:
        """Return the fields that the request contains."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: value for name, value in values.items() if value is not None or name in self.nullable}


class Answer(BaseModel):
    """The body of an answer."""


class AttributeAnswer(Answer):
    """The body of an answer that has the attributes of a value."""

    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    @classmethod
    def of(cls, resource: object) -> Self:
        return cls.model_validate(resource)


class NamedResourceAnswer(AttributeAnswer):
    """The body of an answer about a named resource."""

    id: UUID
    name: str
    managed_by: str | None = Field(description=MANAGED_BY)


class HTTPError(Answer):
    """The body of every failure (spec section 7)."""

    message: str = Field(description="What happened, why, and what to do next")


def storable(document: Any) -> bool:
    """Reject NUL and lone surrogates in any text. Without recursion: bodies can be nested as deep as JSON allows."""
    waiting = [document]
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
