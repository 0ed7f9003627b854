"""Access rules in force: what is hidden from whom, at what cost, and from when on. On both engines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.services.test_access import counted
from tests.support.world import World

from postern.domain.identity.credential import Grant
from postern.domain.identity.identity import Identity
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.rules.access import decide
from postern.domain.rules.access_rule import AccessRule
from postern.domain.rules.permit import Permit
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason, Verb
from postern.errors import Denied, Invalid, NotFound, Unauthenticated, Unavailable
from postern.services.admission import REFUSED_LOGIN
from postern.services.bundle import Services
from postern.services.server.organisations import OrganisationFields
from postern.services.targets.connections import ConnectionFilter
from postern.store.ports.common_ports import Topic


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dba")


async def switch(services: Services, admin: Principal, *, on: bool = True) -> None:
    await services.features.put(admin, "access-control", enabled=on)


async def give(services: Services, admin: Principal, name: str = "shop", **fields: Any) -> None:
    given = {"groups": ("dba",), "connections": ("shop",)} | fields
    await services.access_rules.create(admin, {"name": name, **given})


async def names(services: Services, principal: Principal, page: Page | None = None, **wanted: Any) -> list[str]:
    found = await services.connections.search(principal, ConnectionFilter(**wanted), page or Page())
    return [view.connection.name for view in found.items]


async def grant_of(services: Services, principal: Principal, connection: str = "shop") -> Grant:
    issued = await services.credentials.issue(principal, connection, None)
    grant = await services.access.find_grant(issued.credential.username)
    assert grant is not None
    return grant


async def permit_of(services: Services, principal: Principal) -> Permit:
    return await services.access.admit(await grant_of(services, principal), source="::1")


async def test_nothing_is_hidden_until_it_is_switched_on(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    await give(services, admin, groups=("sre",))
    assert await names(services, ann) == ["shop"]
    await switch(services, admin)
    assert await names(services, ann) == []
    await switch(services, admin, on=False)
    assert await names(services, ann) == ["shop"]


Way = Callable[[Services, Principal, str], Coroutine[Any, Any, object]]
WAYS: dict[str, Way] = {
    "get": lambda services, who, name: services.connections.get(who, name),
    "issue a credential": lambda services, who, name: services.credentials.issue(who, name, None),
    "list its credentials": lambda services, who, name: services.credentials.find(who, name, Page()),
    "revoke one of its credentials": lambda services, who, name: services.credentials.revoke(who, name, uuid4()),
    "run a script": lambda services, who, name: services.sessions.submit(who, name, "select 1", source="::1"),
    "connect by a token": lambda services, who, name: services.access.admit_principal(
        who, name, verb=Verb.CONNECT, source="::1"
    ),
    "ask why": lambda services, who, name: services.access_rules.explain(who, name, None),
}


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_hidden_is_as_if_it_were_not_there(
    world: World, services: Services, admin: Principal, ann: Principal, way: str
) -> None:
    """By its name, by its identifier, and whatever its settings are: the same words as for a made-up one."""
    connection = await world.add_connection("hidden", subtype="mysql")
    await switch(services, admin)
    for name in ("hidden", str(connection.id)):
        with pytest.raises(NotFound) as refused:
            await WAYS[way](services, ann, name)
        made_up = name.replace("h", "x").replace(str(connection.id), str(uuid4()))
        with pytest.raises(NotFound) as unknown:
            await WAYS[way](services, ann, made_up)
        assert refused.value.message.replace(name, made_up) == unknown.value.message


async def test_admins_use_all_and_auditors_see_all_and_run_nothing(
    world: World, services: Services, admin: Principal
) -> None:
    await world.add_connection()
    await switch(services, admin)
    auditor = await world.add_user("sam", "auditor")
    await give(services, admin, groups=("auditor",))
    for who in (admin, auditor):
        assert await names(services, who) == ["shop"]
        assert (await services.connections.get(who, "shop")).name == "shop"
    await services.access.admit(await grant_of(services, admin), source="::1")
    with pytest.raises(Denied, match="auditors"):
        await services.access.admit_principal(auditor, "shop", verb=Verb.EXEC, source="::1")
    with pytest.raises(Denied, match="auditors"):
        await services.credentials.issue(auditor, "shop", None)


async def test_a_list_is_filtered_by_the_store(world: World, services: Services, admin: Principal) -> None:
    """Pages are full, the total is right and the order stable for who sees a part; other filters hold, too."""
    agent = await world.add_agent()
    for number in range(30):
        tags = {"team": f"team-{number % 3}", "stage": "live" if number % 2 else "test"}
        await world.add_connection(f"c-{number:02}", agent, connection_tags=tags)
    await give(services, admin, "by tag", groups=("one",), connections=(), connection_tags={"team": "team-1"})
    both = {"team": "team-2", "stage": "live"}
    await give(services, admin, "by tags", groups=("one",), connections=("c-00",), connection_tags=both)
    await give(services, admin, "others", groups=("two",), connections=("c-03",))
    await switch(services, admin)
    ann = await world.add_user("ann", "one", "nothing")
    wanted = [f"c-{n:02}" for n in range(30) if n % 3 == 1 or (n % 3 == 2 and n % 2) or n == 0]
    assert await names(services, ann) == wanted
    for offset in range(0, len(wanted) + 4, 4):
        found = await services.connections.search(ann, ConnectionFilter(), Page(4, offset))
        assert [view.connection.name for view in found.items] == wanted[offset : offset + 4]
        assert found.total == len(wanted)
    assert await names(services, ann, search="c-0") == [name for name in wanted if name.startswith("c-0")]
    assert await names(services, ann, tags=(("stage", "live", True),)) == [n for n in wanted if int(n[2:]) % 2]
    assert await names(services, ann, name="c-03") == []


async def test_the_store_and_the_decision_agree(world: World, services: Services, admin: Principal) -> None:
    """Every principal and every set of rules of a small organisation: what is listed is what each by itself allows."""
    agent = await world.add_agent()
    tagged: tuple[dict[str, str], ...] = ({}, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "2"}, {"a.b/c-d_e": "x y+@:=.z"})
    made = [await world.add_connection(f"c{n}", agent, connection_tags=tags) for n, tags in enumerate(tagged)]
    everything = [AccessRule(uuid4(), world.org_id, "empty", groups=frozenset({"g0"}), created_at=world.clock())]
    parts = itertools.product(((), ("c0",), ("c1", "c3")), ({}, {"a": "1"}, {"a": "1", "b": "2"}, {"a.b/c-d_e": "x"}))
    for number, (listed, tags) in enumerate(parts):
        groups = (f"g{number % 3}", f"g{number % 5}")
        await give(services, admin, f"rule {number}", groups=groups, connections=listed, connection_tags=tags)
    await world.stores.access_rules.add(replace(everything[0], updated_at=world.clock()))
    await switch(services, admin)
    rules = await world.stores.access_rules.all(world.org_id)
    assert len(rules) == 13
    for number, held in enumerate(itertools.product(("g0", "g3"), ("g1", "g4"), ("g2", "x"))):
        who = await world.add_user(f"u{number}", *held)
        allowed = [one.name for one in made if decide(who, one, rules, enforced=True).visible]
        assert await names(services, who) == allowed


@pytest.mark.ci
async def test_five_hundred_rules_are_one_query(world: World, services: Services, admin: Principal) -> None:
    """The most that there may be, all for one group and all by tags."""
    agent = await world.add_agent()
    await world.add_connection("shop", agent, connection_tags={"team": "t499", "a": "1"})
    for number in range(500):
        rule = AccessRule(uuid4(), world.org_id, f"r{number}", groups=frozenset({"dba"}), created_at=world.clock())
        tags = {"team": f"t{number}", "a": "1"}
        await world.stores.access_rules.add(replace(rule, connection_tags=tags, updated_at=world.clock()))
    await switch(services, admin)
    assert await names(services, await world.add_user("ann", "dba")) == ["shop"]


async def test_opening_a_native_session_costs_no_further_statement(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    await give(services, admin)
    await switch(services, admin)
    grant = await grant_of(services, ann)
    await services.access.admit(grant, source="::1")
    async with counted(world) as statements:
        again = await services.access.find_grant(grant.username)
        assert again is not None
        permit = await services.access.admit(again, source="::1")
        await services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    assert len(statements) == 2  # the guardrails are kept, too
    async with counted(world) as statements:
        assert await services.access.still_allowed(permit) is None
    assert len(statements) == 1


async def test_a_native_login_is_told_what_a_wrong_password_is_told(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    """Also where its connection is disabled, or wants a review, which would be told otherwise."""
    await world.add_connection(reviewers=("security",))
    grant = await grant_of(services, ann)
    await switch(services, admin)
    with pytest.raises(Unauthenticated) as refused:
        await services.access.admit(grant, source="::1")
    assert refused.value.message == REFUSED_LOGIN


Deed = Callable[[World, Services, Principal, Principal], Coroutine[Any, Any, object]]


async def _rename_away(world: World, services: Services, admin: Principal, ann: Principal) -> None:
    """A group that follows a new name is still the rule's; one that ann is put into instead is not."""
    await services.groups.update(admin, "dba", {"name": "database people"})
    await services.users.update(admin, ann.email, {"groups": ("dba",)})


async def _retag(world: World, services: Services, admin: Principal, ann: Principal) -> None:
    await services.access_rules.update(admin, "shop", {"connections": (), "connection_tags": {"stage": "test"}})
    await services.connections.update(admin, "shop", {"connection_tags": {"stage": "live"}})


async def _deprovision(world: World, services: Services, admin: Principal, ann: Principal) -> None:
    group = await world.stores.groups.get(world.org_id, "dba")
    assert group is not None
    await services.provisioning.remove_group(admin, group.id)


async def _provider_forgets(world: World, services: Services, admin: Principal, ann: Principal) -> None:
    """A login by a provider whose groups replace those that were given by hand."""
    identity = Identity("https://id.example.com", "ann", ann.email, True, "Ann", groups=frozenset({"sre"}))
    account = await world.stores.principals.get(ann.org_id, ann.id)
    assert account is not None
    provided = replace(account, principal=replace(ann, issuer=identity.issuer, subject=identity.subject))
    await world.stores.principals.update(provided, world.clock())
    await services.sign_in.account_of(ann.org_id, identity)


ENDS: dict[str, Deed] = {
    "the rule is deleted": lambda world, services, admin, ann: services.access_rules.remove(admin, "shop"),
    "the rule is for others": lambda world, services, admin, ann: services.access_rules.update(
        admin, "shop", {"groups": ("sre",)}
    ),
    "the rule lists no connection": lambda world, services, admin, ann: services.access_rules.update(
        admin, "shop", {"connections": ()}
    ),
    "the connection has other tags": _retag,
    "the user is in no group": lambda world, services, admin, ann: services.users.update(
        admin, ann.email, {"groups": ()}
    ),
    "the provider gives other groups": _provider_forgets,
    "the group is deleted by SCIM": _deprovision,
    "the group is deleted": lambda world, services, admin, ann: services.groups.remove(admin, "dba"),
    "the group has another name": _rename_away,
    "the user becomes an auditor": lambda world, services, admin, ann: services.organisations.update(
        admin, OrganisationFields(auditor_role_name="dba")
    ),
}


@pytest.mark.parametrize("how", ENDS)
async def test_who_loses_access_may_not_go_on(
    world: World, services: Services, admin: Principal, ann: Principal, how: str
) -> None:
    """Asked by another process, which has kept rules and features, and hears the signals as live links do."""
    await world.add_connection(connection_tags={"stage": "test"})
    await give(services, admin)
    await switch(services, admin)
    elsewhere = world.services()
    permit = await permit_of(elsewhere, ann)
    assert await elsewhere.access.still_allowed(permit) is None
    assert (await elsewhere.access.renew(permit)).principal == ann
    world.signals.heard.clear()
    await ENDS[how](world, services, admin, ann)
    reason = await elsewhere.access.still_allowed(permit)
    assert reason is not None
    assert ("auditors" in reason) if "auditor" in how else ("has ended" in reason)
    with pytest.raises(Denied):
        await elsewhere.access.renew(permit)
    about_ann = {"principal_id": str(ann.id)} in world.signals.of(Topic.PRINCIPAL_CHANGED)
    assert about_ann or world.signals.of(Topic.POLICY_CHANGED)  # what live links listen to


async def test_switching_it_on_ends_what_no_rule_allows(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    elsewhere = world.services()
    permit = await permit_of(elsewhere, ann)
    await switch(services, admin)
    assert "has ended" in str(await elsewhere.access.still_allowed(permit))
    assert world.signals.of(Topic.POLICY_CHANGED)[-1] == {"org_id": str(world.org_id)}


async def test_a_script_that_waits_is_not_run_for_who_lost_access(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    session = await services.sessions.submit(ann, "shop", "select 1", source="::1")
    await switch(services, admin)
    assert await services.sessions.claim(session.id, "w1") is None
    ended = await services.sessions.get(ann, session.id)
    assert ended.metadata["end_reason"] == EndReason.FAILED


async def test_a_rule_follows_its_group_when_it_is_renamed_and_loses_it_when_it_is_deleted(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    """A group that is made again by the same name, by a provider perhaps, is not the one that the rule was for."""
    await world.add_connection()
    await give(services, admin, groups=("dba", "sre"))
    await switch(services, admin)
    await services.groups.update(admin, "dba", {"name": "database people"})
    assert (await services.access_rules.get(admin, "shop")).groups == {"database people", "sre"}
    renamed = await services.users.get(admin, ann.email)
    assert await names(services, renamed.principal) == ["shop"]
    await services.groups.remove(admin, "sre")
    await services.groups.remove(admin, "database people")
    assert (await services.access_rules.get(admin, "shop")).groups == set()
    again = await world.add_user("eve", "database people")
    assert await names(services, again) == []


async def test_a_deleted_connection_leaves_its_rules(world: World, services: Services, admin: Principal) -> None:
    agent = await world.add_agent()
    await world.add_connection("shop", agent)
    await world.add_connection("other", agent)
    await give(services, admin, connections=("shop", "other"))
    await services.connections.remove(admin, "shop")
    assert (await services.access_rules.get(admin, "shop")).connection_names == ("other",)
    again = await world.add_connection("shop", agent)
    await switch(services, admin)
    ann = await world.add_user("ann", "dba")
    assert await names(services, ann) == ["other"]
    with pytest.raises(NotFound):
        await services.connections.get(ann, str(again.id))


async def test_rules_of_another_organisation_give_nothing(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection(connection_tags={"stage": "test"})
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    theirs = replace(admin, id=uuid4(), org_id=other.id)
    given = {"name": "all", "groups": ("dba",), "connection_tags": {"stage": "test"}}
    await services.access_rules.create(theirs, given)
    with pytest.raises(NotFound):
        await services.access_rules.get(admin, "all")
    await switch(services, admin)
    assert await names(services, ann) == []


async def test_a_machine_keeps_what_it_was_given_by_name(world: World, services: Services, admin: Principal) -> None:
    await world.add_connection()
    await switch(services, admin)
    made = await services.machines.create(admin, {"name": "backup", "connection_names": ("shop",)})
    grant = await services.access.find_grant(made.issued[0].credential.username)
    assert grant is not None
    permit = await services.access.admit(grant, source="::1")
    assert await services.access.still_allowed(permit) is None


async def test_rules_that_cannot_be_read_let_nobody_in(
    world: World, services: Services, admin: Principal, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_connection()
    grant = await grant_of(services, ann)
    await switch(services, admin)

    async def silent(_org_id: object) -> list[AccessRule]:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr(world.stores.access_rules, "all", silent)
    with pytest.raises(Unavailable):
        await services.access.admit(grant, source="::1")


async def test_a_lost_signal_is_made_good_by_time(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    await give(services, admin)
    await switch(services, admin)
    assert await names(services, ann) == ["shop"]
    await world.stores.access_rules.remove(await services.access_rules.get(admin, "shop"))
    assert (await services.connections.get(ann, "shop")).name == "shop"
    world.clock.forward(seconds=30)
    with pytest.raises(NotFound):
        await services.connections.get(ann, "shop")


async def test_a_refused_password_leaves_the_groups_as_they_were(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    """Else they were changed, and live sessions would never hear of it."""
    world.signals.heard.clear()
    with pytest.raises(Invalid):
        await services.users.update(admin, ann.email, {"groups": (), "password": Secret("ann@example.com")})
    found = (await services.users.get(admin, ann.email)).principal
    assert found.groups == frozenset({"dba"})
