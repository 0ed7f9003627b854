"""Admission: who gets a Permit, what it holds, and at what cost in statements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, event, update
from tests.support.world import World

from postern.domain.identity.credential import Grant
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.masking import DEFAULT_TYPES, InfoType, MaskingRule, Strategy
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Toggle
from postern.errors import Denied, NotFound, Unavailable
from postern.services.admission import Access
from postern.services.bundle import Services
from postern.services.identity.client_certificates import ClientCertificates
from postern.services.identity.credentials import Credentials
from postern.services.reviews.credential_endings import CredentialEndings
from postern.store.ports.common_ports import Topic
from postern.store.ports.target_ports import ConnectionRuleSet
from postern.store.schema.identity_tables import users
from postern.store.schema.target_tables import guardrails


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
def access(services: Services) -> Access:
    return services.access


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dba", "on call")


async def _listens(_protocol: str) -> bool:
    return True


async def grant_for(world: World, access: Access, principal: Principal, seconds: int | None = None) -> Grant:
    credentials = Credentials(
        world.stores.credentials,
        world.control(),
        world.features(),
        CredentialEndings(world.stores.reviews, world.signals, world.clock),
        world.clock,
        certificates=ClientCertificates(world.stores.access),
        listens=_listens,
        enforceable=frozenset({"postgres"}),
    )
    issued = await credentials.issue(principal, "shop", seconds)
    grant = await access.find_grant(issued.credential.username)
    assert grant is not None
    return grant


def a_guardrail(org_id: UUID, *connections: UUID, name: str = "no drops", rule: Rule | None = None) -> Guardrail:
    rule = rule or Rule(RuleType.DENY_WORDS_LIST, ("drop",))
    return Guardrail(uuid4(), org_id, name, "", True, (rule,), (), connections)


async def add_guardrail(world: World, *connections: UUID, name: str = "no drops") -> Guardrail:
    guardrail = a_guardrail(world.org_id, *connections, name=name)
    guardrail = replace(guardrail, created_at=world.clock(), updated_at=world.clock())
    await world.stores.guardrails.add(guardrail)
    return guardrail


@asynccontextmanager
async def counted(world: World) -> AsyncIterator[list[str]]:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    engine = world.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    yield statements
    event.remove(engine, "before_cursor_execute", note)


async def test_a_grant_holds_all_a_login_needs(world: World, access: Access, ann: Principal) -> None:
    connection = await world.add_connection()
    guardrail = await add_guardrail(world, connection.id)
    grant = await grant_for(world, access, ann)
    assert grant.principal == ann
    place = grant.connection.place
    assert grant.connection == replace(connection, guardrail_rules=(str(guardrail.id),), place=place, version=2)
    assert grant.connection.secret == connection.secret
    assert grant.verifier.iterations == 4096
    assert await access.find_grant("nobody-shop-aaaaaa") is None


async def test_a_permit_carries_the_policy(world: World, access: Access, ann: Principal) -> None:
    connection = await world.add_connection(
        redact_enabled=True, redact_types=("EMAIL_ADDRESS", "CREDIT_CARD_NUMBER"), access_max_duration=900
    )
    guardrail = await add_guardrail(world, connection.id)
    permit = await access.admit(await grant_for(world, access, ann), source="127.0.0.1")
    assert permit.verb is Verb.CONNECT
    assert [one.id for one in permit.policy.guardrails] == [guardrail.id]
    assert permit.policy.masked_types == {InfoType.EMAIL_ADDRESS, InfoType.CREDIT_CARD}
    assert permit.policy.max_duration == 900


async def test_redacting_without_types_masks_all(world: World, access: Access) -> None:
    connection = await world.add_connection(redact_enabled=True)
    assert (await access.policy_for(connection)).masked_types == DEFAULT_TYPES


async def test_opening_a_native_session_takes_three_statements(
    world: World, services: Services, ann: Principal
) -> None:
    access = services.access
    await world.add_connection()
    await world.add_connection("other")
    # What holds for a whole organisation is kept from then on: its features, its rules.
    await access.admit_principal(ann, "other", verb=Verb.CONNECT, source="127.0.0.1")
    username = (await grant_for(world, access, ann)).username
    async with counted(world) as statements:
        grant = await access.find_grant(username)
        assert grant is not None
        permit = await access.admit(grant, source="127.0.0.1")
        await services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    assert len(statements) == 3
    async with counted(world) as statements:
        await access.admit(grant, source="127.0.0.1")
    assert statements == []  # the policy is cached


@pytest.mark.parametrize("change", ["revoked", "expired", "inactive", "disabled", "reviewed", "other org"])
async def test_who_may_not_gets_a_reason(world: World, access: Access, ann: Principal, change: str) -> None:
    await world.add_connection()
    grant = await grant_for(world, access, ann, seconds=60)
    if change == "revoked":
        grant = replace(grant, revoked_at=world.clock())
    elif change == "expired":
        world.clock.forward(seconds=60)
    elif change == "inactive":
        grant = replace(grant, principal=replace(ann, status=PrincipalStatus.INACTIVE))
    elif change == "disabled":
        grant = replace(grant, connection=replace(grant.connection, access_mode_connect=Toggle.DISABLED))
    elif change == "reviewed":
        grant = replace(grant, connection=replace(grant.connection, reviewers=("security",)))
    else:
        grant = replace(grant, principal=replace(ann, org_id=uuid4()))
    with pytest.raises(Denied) as refused:
        await access.admit(grant, source="127.0.0.1")
    assert change.split()[-1][:6] in refused.value.message.replace("organisation", "org")


async def test_exec_has_its_own_mode(world: World, access: Access, ann: Principal) -> None:
    await world.add_connection(access_mode_exec=Toggle.DISABLED)
    await access.admit_principal(ann, "shop", verb=Verb.CONNECT, source="127.0.0.1")
    with pytest.raises(Denied, match="exec is disabled"):
        await access.admit_principal(ann, "shop", verb=Verb.EXEC, source="127.0.0.1")
    with pytest.raises(NotFound, match="no connection 'other'"):
        await access.admit_principal(ann, "other", verb=Verb.CONNECT, source="127.0.0.1")


async def test_a_changed_policy_is_seen_after_its_signal(world: World, access: Access) -> None:
    connection = await world.add_connection()
    assert (await access.policy_for(connection)).guardrails == ()
    await add_guardrail(world, connection.id)
    assert (await access.policy_for(connection)).guardrails == ()
    await world.signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection.id))
    assert len((await access.policy_for(connection)).guardrails) == 1


@pytest.mark.parametrize("strategies", [[one] for one in Strategy] + [[], [Strategy.REPLACE, Strategy.HASH]], ids=str)
async def test_policy_holds_the_hash_key_where_a_rule_hashes(
    world: World, access: Access, strategies: list[Strategy]
) -> None:
    connection = await world.add_connection()
    for strategy in strategies:
        rule = MaskingRule(
            uuid4(),
            world.org_id,
            f"mask by {strategy}",
            columns=("users.email",),
            strategy=strategy,
            connection_ids=(connection.id,),
            created_at=world.clock(),
            updated_at=world.clock(),
        )
        await world.stores.masking_rules.add(rule)
    policy = await access.policy_for(connection)
    assert sorted(rule.strategy for rule in policy.masking) == sorted(strategies)
    key = await world.stores.access.masking_key(world.org_id)
    assert policy.masking_key.reveal() == (key.reveal() if Strategy.HASH in strategies else "")
    assert key.reveal()


async def test_a_lost_signal_is_made_good_by_time(world: World, access: Access) -> None:
    connection = await world.add_connection()
    await access.policy_for(connection)
    await add_guardrail(world, connection.id)
    world.clock.forward(seconds=31)
    assert len((await access.policy_for(connection)).guardrails) == 1


async def test_a_change_while_loading_is_not_cached_away(world: World, access: Access) -> None:
    connection = await world.add_connection()
    load = world.stores.access.rules_of

    async def slow(connection_id: UUID) -> ConnectionRuleSet | None:
        found = await load(connection_id)
        await add_guardrail(world, connection_id)
        await world.signals.publish(Topic.POLICY_CHANGED, connection_id="")
        return found

    world.stores.access.rules_of = slow  # type: ignore[method-assign]
    await access.policy_for(connection)
    world.stores.access.rules_of = load  # type: ignore[method-assign]
    assert len((await access.policy_for(connection)).guardrails) == 1


async def test_a_rule_that_cannot_be_loaded_refuses(world: World, access: Access) -> None:
    connection = await world.add_connection()
    await add_guardrail(world, connection.id)
    unknown: list[dict[str, object]] = [{"type": "newer_kind", "words": [], "pattern_regex": "", "name": None}]
    async with world.database.transaction() as transaction:
        await transaction.execute(update(guardrails).values(input=unknown))
    with pytest.raises(Unavailable, match="cannot be read"):
        await access.policy_for(connection)


async def test_an_unknown_redact_type_refuses(world: World, access: Access) -> None:
    connection = await world.add_connection(redact_enabled=True, redact_types=("EMAIL_ADDRESS", "SHOE_SIZE"))
    with pytest.raises(Unavailable, match="SHOE_SIZE"):
        await access.policy_for(connection)


async def test_a_deleted_connection_has_no_policy(world: World, access: Access) -> None:
    connection = await world.add_connection()
    await world.stores.connections.remove(connection)
    with pytest.raises(Unavailable, match="deleted"):
        await access.policy_for(connection)


async def test_a_live_link_is_checked_again(world: World, access: Access, ann: Principal) -> None:
    connection = await world.add_connection()
    grant = await grant_for(world, access, ann, seconds=60)
    permit = await access.admit(grant, source="127.0.0.1")
    assert await access.still_allowed(permit) is None
    world.clock.forward(seconds=61)
    assert "expired" in str(await access.still_allowed(permit))
    world.clock.forward(seconds=-61)
    await world.overwrite(connection, access_mode_connect=Toggle.DISABLED)
    assert "disabled" in str(await access.still_allowed(permit))
    await world.overwrite(connection)
    await world.stores.principals.update(Account(replace(ann, status=PrincipalStatus.INACTIVE)), world.clock())
    assert "inactive" in str(await access.still_allowed(permit))
    await world.stores.principals.update(Account(ann, version=2), world.clock())
    await world.stores.credentials.revoke(grant.credential_id, world.clock())
    assert "revoked" in str(await access.still_allowed(permit))
    async with world.database.transaction() as transaction:
        await transaction.execute(delete(users))
    assert "deleted" in str(await access.still_allowed(permit))


async def test_a_link_without_credential_is_checked_again(world: World, access: Access, ann: Principal) -> None:
    connection = await world.add_connection()
    permit = await access.admit_principal(ann, "shop", verb=Verb.CONNECT, source="127.0.0.1")
    assert await access.still_allowed(permit) is None
    await world.stores.connections.remove(connection)
    assert "deleted" in str(await access.still_allowed(permit))


async def test_a_renewed_permit_has_the_settings_of_now(world: World, access: Access, ann: Principal) -> None:
    connection = await world.add_connection()
    permit = await access.admit(await grant_for(world, access, ann), source="127.0.0.1")
    assert permit.policy.masked_types == frozenset()
    connection = await world.overwrite(connection, redact_enabled=True, access_max_duration=60)
    renewed = await access.renew(permit)
    assert (renewed.policy.masked_types, renewed.policy.max_duration) == (DEFAULT_TYPES, 60)
    assert (renewed.credential_id, renewed.expires_at) == (permit.credential_id, permit.expires_at)
    await world.stores.connections.remove(connection)
    with pytest.raises(Denied, match="deleted"):
        await access.renew(permit)
