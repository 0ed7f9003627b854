"""The filters of the list of connections, as query parameters."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query

from postern.domain.targets.connection import ConnectionStatus, ConnectionType
from postern.domain.targets.target_keys import canonical_subtype
from postern.errors import Invalid
from postern.services.targets.connections import ConnectionFilter

MOST = 100  # entries of one filter
_LONGEST = 5_000  # characters of one filter that is a list
_TEXT = 256

Text = Annotated[str | None, Query(max_length=_TEXT)]
Many = Annotated[str | None, Query(max_length=_LONGEST, description="Separated by commas")]


async def filters(
    name: Text = None,
    type: ConnectionType | None = None,  # noqa: A002 - the API's name
    subtype: Text = None,
    agent_id: UUID | None = None,
    managed_by: Text = None,
    resource_name: Text = None,
    status: ConnectionStatus | None = None,
    connection_ids: Many = None,
    tags: Annotated[
        str | None,
        Query(
            max_length=_LONGEST,
            deprecated=True,
            description="Only connections with all of these entries of `tags`, separated by commas; use tag_selector "
            "instead",
        ),
    ] = None,
    search: Annotated[
        str | None,
        Query(
            max_length=_TEXT,
            description="Only with this text in name, description, type, subtype or resource; or `online`, `offline`",
        ),
    ] = None,
    tag_selector: Annotated[
        str | None,
        Query(
            max_length=_LONGEST,
            description="Only connections with these tags: `key=value`, `key!=value`, `key` (present) or `!key` "
            "(absent), separated by commas; all must match",
        ),
    ] = None,
) -> ConnectionFilter:
    return ConnectionFilter(
        name=name,
        type=type,
        subtype=None if subtype is None else canonical_subtype(subtype),
        agent_id=agent_id,
        search=search,
        tags=tag_conditions(tag_selector),
        managed_by=managed_by,
        resource_name=resource_name,
        ids=None if connection_ids is None else tuple(map(_identifier, _parts("connection_ids", connection_ids))),
        labels=_parts("tags", tags),
        online=None if status is None else status is ConnectionStatus.ONLINE,
    )


Filters = Annotated[ConnectionFilter, Depends(filters)]


def tag_conditions(selector: str | None) -> tuple[tuple[str, str | None, bool], ...]:
    """Parse the selector, see ConnectionFilter.tags. Raises Invalid."""
    return tuple(map(_condition, _parts("tag_selector", selector)))


def _parts(field: str, text: str | None) -> tuple[str, ...]:
    parts = tuple(filter(None, (part.strip() for part in (text or "").split(","))))
    if len(parts) > MOST:
        raise Invalid(f"{field}: contains {len(parts)} entries; the maximum is {MOST}", field=field)
    return parts


def _condition(part: str) -> tuple[str, str | None, bool]:
    """Parse an entry: `a=1` → ("a", "1", True); `a!=1` → ("a", "1", False); `a` → ("a", None, True); `!a` → ("a", None,
    False)."""
    left, equals, value = part.partition("=")
    if equals:
        key, value_text, holds = left.removesuffix("!").strip(), value.strip(), not left.endswith("!")
    else:
        key, value_text, holds = left.removeprefix("!").strip(), None, not left.startswith("!")
    if not key or "!" in key:
        raise Invalid(
            f"tag_selector: {part!r} is invalid; write key=value, key!=value, key or !key", field="tag_selector"
        )
    return key, value_text, holds


def _identifier(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(f"connection_ids: {text!r} is not an identifier", field="connection_ids") from None
