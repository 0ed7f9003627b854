"""The common grammar of resource names. Connections and credentials have a stricter one."""

from __future__ import annotations

from uuid import UUID

from postern.errors import Invalid

MAX_NAME = 128


def check_resource_name(name: str) -> None:
    """Check a name. It is looked up beside identifiers and is part of API paths, so it must not look like either.
    Raises Invalid."""
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or name != name.strip() or "/" in name:
        raise Invalid(
            f"name: must have 1 to {MAX_NAME} printable characters, without '/' and without spaces at its ends",
            field="name",
        )
    if name in (".", "..") or as_identifier(name) is not None:
        raise Invalid("name: must not look like an identifier or a path", field="name")


def as_identifier(text: str) -> UUID | None:
    """Return the identifier in a text, None where it is not one."""
    try:
        return UUID(text)
    except ValueError:
        return None
