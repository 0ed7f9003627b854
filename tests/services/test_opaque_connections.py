"""Connections whose bytes are passed on unread: no rule about content, however it came about, is ever ignored."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.masking import MaskingRule
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, ConnectionType
from postern.domain.targets.connection_use import ConnectionUse
from postern.errors import Invalid, Unavailable
from postern.services.bundle import Services

REASON = "Postern passes its bytes on without reading them"


async def opaque(world: World, **fields: Any) -> Connection:
    return await world.add_connection("cache", type=ConnectionType.APPLICATION, subtype="tcp", **fields)


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dev")


async def admit(services: Services, who: Principal) -> object:
    return await services.access.admit_principal(who, "cache", verb=Verb.CONNECT, source="::1", means="login:1")


async def test_connection_without_rules_is_admitted(world: World, ann: Principal) -> None:
    await opaque(world)
    await admit(world.services(), ann)


async def test_attack_stored_types_to_mask_deny_access(world: World, ann: Principal) -> None:
    await opaque(world, redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
    with pytest.raises(Unavailable, match=f"cannot be masked, because {REASON}"):
        await admit(world.services(), ann)


async def test_attack_stored_masking_rule_denies_access(world: World, ann: Principal) -> None:
    connection = await opaque(world)
    times: dict[str, Any] = {"created_at": world.clock(), "updated_at": world.clock()}
    rule = MaskingRule(uuid4(), world.org_id, "m", columns=("email",), connection_ids=(connection.id,), **times)
    await world.stores.masking_rules.add(rule)
    with pytest.raises(Unavailable, match=f"cannot be masked, because {REASON}"):
        await admit(world.services(), ann)


async def test_attack_stored_guardrail_denies_access(world: World, ann: Principal) -> None:
    connection = await opaque(world)
    rule = Rule(RuleType.DENY_WORDS_LIST, ("drop",))
    times: dict[str, Any] = {"created_at": world.clock(), "updated_at": world.clock()}
    rail = Guardrail(uuid4(), world.org_id, "g", input=(rule,), connection_ids=(connection.id,), **times)
    await world.stores.guardrails.add(rail)
    with pytest.raises(Unavailable, match=f"'g' cannot be enforced on subtype 'tcp': {REASON}"):
        await admit(world.services(), ann)


async def test_only_connect_is_open_and_the_reasons_say_why(world: World, ann: Principal) -> None:
    connection = await opaque(world)
    services = world.services()
    services.access._enforceable |= {"tcp"}
    (access,) = (await services.access.explain_uses(ann, [connection])).values()
    uses = access.uses
    assert [use for use in ConnectionUse if uses[use].allowed] == [ConnectionUse.CONNECT]
    assert uses[ConnectionUse.EXEC].reason.startswith("no script can run on connection 'cache'")
    assert uses[ConnectionUse.EXEC].reason == uses[ConnectionUse.RUNBOOKS].reason
    assert "only databases have one" in uses[ConnectionUse.SCHEMA].reason


async def test_script_is_rejected(world: World, ann: Principal) -> None:
    await opaque(world)
    with pytest.raises(Invalid, match="use `postern connect cache` and a client of its protocol"):
        await world.services().sessions.submit(ann, "cache", "PING", source="::1", means="login:1")
