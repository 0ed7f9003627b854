"""Each list either is short by nature, or refuses deep offsets and has a cursor. A new list has to be put here."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Api, message

from postern.api.paging import cursor_of, position_of
from postern.domain.lists import MAX_LONG_OFFSET, MAX_OFFSET, Position

# Lists that grow with use.
LONG = (
    "/audit/logs",
    "/connections/{nameOrID}/credentials",
    "/credentials",
    "/holds",
    "/integrations/tracker/issues",
    "/recordings/checkpoints",
    "/retention/purges",
    "/reviews",
    "/sessions",
    "/sinks/{nameOrID}/deliveries",
)

# Lists that do not, and what bounds each of them.
SHORT = {
    "/access-requests/rules": "administrators write each one",
    "/access-rules": "administrators write each one",
    "/network-rules": "administrators write each one",
    "/agents": "administrators make each one",
    "/api-keys": "administrators make each one",
    "/api-keys/{nameOrID}/credentials": "the live credentials of one key",
    "/chat/accounts": "a few for each user",
    "/connection-tags": "the tags of connections",
    "/connections": "administrators make each one",
    "/connections/{nameOrID}/hostkeys": "a few for each connection",
    "/datamasking-rules": "administrators write each one",
    "/feature-flags": "the gateway has a fixed number",
    "/federation-rules": "administrators write each one",
    "/guardrails": "administrators write each one",
    "/integrations/tracker/assets/objects": "the tracker answers each page",
    "/integrations/tracker/issuetemplates": "administrators write each one",
    "/logins": "the live logins of one user",
    "/machineidentities": "administrators make each one",
    "/orgs": "administrators make each one",
    "/reports/sessions": "a report has a bounded number of lines",
    "/resources": "the resources of connections",
    "/runbooks/configurations": "an organisation has a bounded number",
    "/runbooks/rules": "administrators write each one",
    "/runbooks/schedules": "people write each one",
    "/serviceaccounts": "administrators make each one",
    "/sinks": "an organisation has a bounded number",
    "/sshauthorities": "administrators make each one",
    "/sshkeys": "a user has a bounded number",
    "/users": "the people of an organisation",
    "/users/groups": "administrators make each one",
    "/users/{nameOrID}/logins": "the live logins of one user",
    "/users/{nameOrID}/sshkeys": "a user has a bounded number",
}


def parameters(api: Api) -> dict[str, dict[str, Any]]:
    """The query parameters of each list that takes an offset, by path."""
    found = {}
    for path, methods in api.app.openapi()["paths"].items():
        given = methods.get("get", {}).get("parameters", ())
        named = {one["name"]: one for one in given if one["in"] == "query"}
        if "offset" in named:
            found[path.removeprefix("/api")] = named
    return found


async def test_each_list_is_in_one_of_the_tables(api: Api) -> None:
    assert sorted(parameters(api)) == sorted([*LONG, *SHORT])


@pytest.mark.parametrize("path", LONG)
async def test_growing_list_refuses_deep_offset_and_names_the_cursor(api: Api, path: str) -> None:
    said = message(await api.as_admin.get(path, params={"offset": MAX_LONG_OFFSET + 1}), 422)
    assert said.startswith(f"offset: at most {MAX_LONG_OFFSET:,}")
    assert "`cursor`" in said
    both = {"offset": "1", "cursor": cursor_of(Position(api.world.clock(), uuid4()))}
    assert message(await api.as_admin.get(path, params=both), 422).startswith("cursor: cannot be combined with offset")
    assert message(await api.as_admin.get(path, params={"cursor": "nonsense"}), 422).startswith("cursor: ")
    assert {"cursor", "count"} <= parameters(api)[path].keys()


@pytest.mark.parametrize("path", sorted({*LONG} - {"/sinks/{nameOrID}/deliveries"}))
async def test_growing_list_answers_each_way_of_counting_and_paging(api: Api, path: str) -> None:
    await api.make_connection()
    path = path.format(nameOrID="shop")
    place = cursor_of(Position(api.world.clock(), uuid4(), 1))
    queries: list[dict[str, str]] = [{}, {"count": "exact"}, {"count": "none"}, {"cursor": place}]
    queries.append({"offset": str(MAX_LONG_OFFSET)})
    for query in queries:
        answer = await api.as_admin.get(path, params=query)
        assert answer.status_code == 200, (query, answer.text)
        assert {"data", "total", "total_is_capped", "has_next_page", "next_cursor"} <= answer.json().keys()
        assert (answer.json()["total"] is None) == (query.keys() == {"cursor"} or query.get("count") == "none")


@pytest.mark.parametrize("path", SHORT)
async def test_short_list_refuses_offset_beyond_its_bound(api: Api, path: str) -> None:
    assert message(await api.as_admin.get(path, params={"offset": MAX_OFFSET + 1}), 422).startswith("offset: ")


@pytest.mark.parametrize("section", [0, 1])
def test_cursor_gives_the_position_it_was_made_of(section: int, api: Api) -> None:
    position = Position(api.world.clock(), uuid4(), section)
    assert position_of(cursor_of(position)) == position
