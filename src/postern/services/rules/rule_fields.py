"""The checks that rules about connections share: rules that give access, and rules that ask for reviews."""

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
    """Raises Invalid."""
    if len(description) > MAX_DESCRIPTION:
        raise Invalid(f"description: at most {MAX_DESCRIPTION} characters", field="description")


async def checked_connections(
    store: ConnectionStore,
    org_id: UUID,
    given: tuple[str, ...],
    field: str = "connection_names",
    *,
    tagged: bool = True,
) -> frozenset[UUID]:
    """The identifiers of what is given by name or identifier; `tagged`: this rule may name tags, too. Raises
    Invalid."""
    if len(given) > MAX_CONNECTIONS:
        more = "; give more of them a tag" if tagged else "; make another rule for more of them"
        raise Invalid(f"{field}: at most {MAX_CONNECTIONS}{more}", field=field)
    found = await store.ids_of(org_id, given) if given else {}
    for text in given:
        if text not in found:
            raise Invalid(f"{field}: there is no connection {text!r}", field=field)
    return frozenset(found.values())


async def with_connection_ids(
    store: ConnectionStore,
    org_id: UUID,
    fields: dict[str, Any],
    field: str = "connection_names",
    *,
    tagged: bool = True,
) -> dict[str, Any]:
    """Return the fields with `connection_ids` in the place of `connections`, where these are given. Raises Invalid."""
    if "connections" in fields:
        given = tuple(fields.pop("connections"))
        fields["connection_ids"] = await checked_connections(store, org_id, given, field, tagged=tagged)
    return fields


def printable_groups(given: Sequence[str], field: str) -> tuple[str, ...]:
    """Each once, in Unicode's form C, in the order in which they are given. Names of who reviews are read by people who
    decide: nothing in them may turn around or hide what stands beside them. Raises Invalid."""
    if len(given) > MAX_GROUPS:
        raise Invalid(f"{field}: at most {MAX_GROUPS}", field=field)
    known = checked_groups(given, field)
    for name in sorted(known):
        if not name.isprintable():
            raise Invalid(f"{field}: {name!r} must have printable characters only", field=field)
    return tuple(dict.fromkeys(unicodedata.normalize("NFC", name) for name in given))
