"""What reading connections costs: secrets that are decrypted, and rows of agents that are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.services.test_access import counted
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.targets.connection import ConnectionType
from postern.services.bundle import Services
from postern.store.ports.target_ports import ConnectionFilter, SecretUse

Read = Callable[[Services, Principal], Awaitable[Any]]
READS: dict[str, Read] = {
    "get a database": lambda services, who: services.connections.get(who, "shop"),
    "get a server": lambda services, who: services.connections.get(who, "web"),
    "list": lambda services, who: services.connections.search(who, ConnectionFilter(), Page()),
    "credentials of a server": lambda services, who: services.credentials.find(who, "web", Page()),
    "explain access": lambda services, who: services.access_rules.explain(who, "shop", None),
}


@pytest.fixture
async def services(world: World) -> Services:
    await world.add_connection("shop")
    await world.add_connection("web", type=ConnectionType.APPLICATION, subtype="ssh")
    return world.services()


@pytest.mark.parametrize(
    ("read", "group", "decryptions"),
    [
        # Users see `default_database` of a database, and nothing of a server's secret.
        ("get a database", "dba", 1),
        ("get a database", "admin", 1),
        ("get a server", "dba", 0),
        ("get a server", "auditor", 0),
        ("get a server", "admin", 1),
        ("list", "dba", 1),
        ("list", "auditor", 1),
        ("list", "admin", 2),
        ("credentials of a server", "admin", 0),
        ("explain access", "admin", 0),
    ],
)
async def test_a_read_decrypts_only_secrets_of_which_the_caller_sees_something(
    world: World, services: Services, monkeypatch: pytest.MonkeyPatch, read: str, group: str, decryptions: int
) -> None:
    caller = await world.add_user("ann", group)
    opened: list[str] = []
    decrypt = world.encryption.open

    async def note(sealed: bytes, *, row: str, org_id: Any) -> bytes:
        opened.append(row)
        return await decrypt(sealed, row=row, org_id=org_id)

    monkeypatch.setattr(world.encryption, "open", note)
    await READS[read](services, caller)
    assert len([row for row in opened if row.startswith("connections/")]) == decryptions


async def test_a_secret_that_was_not_decrypted_cannot_be_read_or_stored(world: World, services: Services) -> None:
    connection = await world.stores.connections.get(world.org_id, "web", SecretUse.NONE)
    assert connection is not None
    for read in (dict, len, lambda secret: secret.get("envvar:HOST"), lambda secret: "envvar:HOST" in secret):
        with pytest.raises(LookupError, match="read without its secret"):
            read(connection.secret)
    with pytest.raises(LookupError, match="read without its secret"):
        await world.stores.connections.update(connection)
    stored = await world.stores.connections.get(world.org_id, "web")
    assert stored is not None
    assert stored.secret["envvar:HOST"].reveal() == "ZGIuZXhhbXBsZQ=="


async def test_the_status_of_one_connection_reads_one_agent(world: World, services: Services) -> None:
    for number in range(3):
        await world.add_agent(f"other-{number}")
    ann = await world.add_user("ann", "dba")
    shop = await services.connections.get(ann, "shop")
    view = await services.connections.view(shop)
    assert (view.agent_name, view.status.value) == ("agent-of-shop", "online")
    async with counted(world) as statements:
        await services.connections.view(shop)
    (agent,) = [statement for statement in statements if "FROM agents" in statement]
    assert "agents.id = " in agent
