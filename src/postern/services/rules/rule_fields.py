"""The checks that rules about connections share: access rules and review rules."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from postern.errors import Invalid
from postern.services.identity.users import checked_groups
from postern.store.ports.target_ports import ConnectionStore

MAX_RULES = 500  # of an organisation: each is looked at for every decision
MAX_GROUPS, MAX_CONNECTIONS, MAX_DESCRIPTION = 100, 500, 10_000


def check_description(description: str) -> None:
    """Raise Invalid for a description that is too long."""
    if len(description) > MAX_DESCRIPTION:
        raise Invalid(f"description: at most {MAX_DESCRIPTION} characters", field="description")


async def checked_connections(
    store: ConnectionStore,
    org_id: UUID,
    names: tuple[str, ...],
    field: str = "connection_names",
    *,
    tagged: bool = True,
) -> frozenset[UUID]:
    """Return the identifiers of connections given by name or identifier. Raises Invalid.

    `tagged`: this rule can name tags, too.
    """
    if len(names) > MAX_CONNECTIONS:
        more = "; give more of them a tag" if tagged else "; make another rule for more of them"
        raise Invalid(f"{field}: at most {MAX_CONNECTIONS}{more}", field=field)
    ids = await store.ids_of(org_id, names) if names else {}
    for text in names:
        if text not in ids:
            raise Invalid(f"{field}: there is no connection {text!r}", field=field)
    return frozenset(ids.values())


async def with_connection_ids(
    store: ConnectionStore,
    org_id: UUID,
    fields: dict[str, Any],
    field: str = "connection_names",
    *,
    tagged: bool = True,
) -> dict[str, Any]:
    """Return the fields with `connection_ids` instead of `connections`, where these are given. Raises Invalid."""
    if "connections" in fields:
        names = tuple(fields.pop("connections"))
        fields["connection_ids"] = await checked_connections(store, org_id, names, field, tagged=tagged)
    return fields


def printable_groups(groups: Sequence[str], field: str) -> tuple[str, ...]:
    """Return each name once, in Unicode's form C, in the given order. Raises Invalid.

    Reviewers read these names, so characters that hide or reverse the text beside them are rejected.
    """
    if len(groups) > MAX_GROUPS:
        raise Invalid(f"{field}: at most {MAX_GROUPS}", field=field)
    valid_groups = checked_groups(groups, field)
    for name in sorted(valid_groups):
        if not name.isprintable():
            raise Invalid(f"{field}: {name!r} must have printable characters only", field=field)
    return tuple(dict.fromkeys(unicodedata.normalize("NFC", name) for name in groups))
