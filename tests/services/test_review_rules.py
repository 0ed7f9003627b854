"""Review rules in force: whom they ask for what, at what cost, and from when on. On both engines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.services.test_access import counted
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Principal
from postern.domain.reviews.approval_requirements import MAX_ACCESS
from postern.domain.reviews.review import ApprovalRequirement
from postern.domain.reviews.review_rule import AccessType, ReviewRule
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Denied, Invalid, Unavailable
from postern.services.bundle import Services
from postern.services.reviews.review_text import requirements_text
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


@pytest.fixture
async def shop(world: World) -> Connection:
    return await world.add_connection("shop", connection_tags={"stage": "prod", "team": "a"})


async def ask(services: Services, admin: Principal, name: str = "pairs", **fields: Any) -> ReviewRule:
    given = {"access_type": AccessType.BOTH, "reviewers_groups": ("leads",), "connections": ("shop",)} | fields
    return await services.review_rules.create(admin, {"name": name, **given})


async def asked(services: Services, who: Principal, connection: Connection, verb: Verb = Verb.EXEC) -> list[str]:
    """The names of the rules that ask for something."""
    return [demand.rule for demand in await services.review_needed.demands(who, connection, verb)]


async def test_each_rule_that_covers_a_connection_must_be_met(
    services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    await ask(services, admin, "named", access_type=AccessType.COMMAND)
    tags = {"stage": "prod", "team": "a"}
    await ask(services, admin, "tagged", access_type=AccessType.JIT, connections=(), connection_tags=tags)
    await ask(services, admin, "other-tags", connections=(), connection_tags={"stage": "prod", "team": "b"})
    await ask(services, admin, "both")
    assert await asked(services, ann, shop, Verb.EXEC) == ["both", "named"]
    assert await asked(services, ann, shop, Verb.CONNECT) == ["both", "tagged"]


async def test_however_many_rules_there_are_a_decision_looks_at_those_of_its_connection(
    world: World,
    services: Services,
    admin: Principal,
    ann: Principal,
    shop: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(5):
        await ask(services, admin, f"other-{number}", connections=(), connection_tags={"stage": f"test-{number}"})
    await ask(services, admin, "tagged", connections=(), connection_tags={"stage": "prod"})
    looked: list[str] = []
    covers = ReviewRule.covers

    def counted_covers(rule: ReviewRule, connection: Connection) -> bool:
        looked.append(rule.name)
        return covers(rule, connection)

    monkeypatch.setattr(ReviewRule, "covers", counted_covers)
    assert await asked(services, ann, shop) == ["tagged"]
    assert len(looked) == 7
    assert await asked(services, ann, shop) == ["tagged"]
    assert looked[7:] == ["tagged"]
    # With other tags it is looked at anew, and so is another rule.
    assert await asked(services, ann, replace(shop, connection_tags={"stage": "test-3"})) == ["other-3"]
    assert await asked(services, ann, shop) == ["tagged"]
    await ask(services, admin, "more")
    assert await asked(services, ann, shop) == ["more", "tagged"]


async def test_whom_a_rule_asks(world: World, services: Services, admin: Principal, shop: Connection) -> None:
    """Nobody is an exception by their role; groups are as they are at that moment."""
    await ask(services, admin, "every")
    await ask(services, admin, "interns", required_groups=("interns", "contractors"))
    await ask(services, admin, "relaxed", skip_groups=("on-call",))
    wanted = {
        (): ["every", "relaxed"],
        ("contractors",): ["every", "interns", "relaxed"],
        ("interns", "on-call"): ["every", "interns"],
        ("admin",): ["every", "relaxed"],
        ("auditor",): ["every", "relaxed"],
        ("leads",): ["every", "relaxed"],
    }
    for number, (groups, rules) in enumerate(wanted.items()):
        who = await world.add_user(f"user-{number}", *groups)
        assert await asked(services, who, shop) == rules


async def test_the_shortest_bound_holds(world: World, services: Services, admin: Principal, ann: Principal) -> None:
    shop = await world.add_connection("shop", access_max_duration=7_200)
    longest = services.review_needed.longest
    assert await longest(ann, shop, Verb.CONNECT) == 7_200
    await ask(services, admin, "long", max_duration=MAX_ACCESS)
    assert await longest(ann, shop, Verb.CONNECT) == 7_200
    await ask(services, admin, "short", max_duration=600)
    await ask(services, admin, "of-others", max_duration=60, required_groups=("interns",))
    assert await longest(ann, shop, Verb.CONNECT) == 600


async def test_asking_costs_no_statement_while_nothing_changes(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    await ask(services, admin)
    await asked(services, ann, shop)
    async with counted(world) as statements:
        assert await asked(services, ann, shop) == ["pairs"]
        await services.review_needed.longest(ann, shop, Verb.CONNECT)
    assert statements == []


Deed = Callable[[Services, Principal], Coroutine[Any, Any, object]]
CHANGES: dict[str, tuple[Deed, list[str]]] = {
    "a rule is made": (lambda services, admin: ask(services, admin, "more"), ["more", "pairs"]),
    "the rule is deleted": (lambda services, admin: services.review_rules.remove(admin, "pairs"), []),
    "the rule is about scripts no more": (
        lambda services, admin: services.review_rules.update(admin, "pairs", {"access_type": AccessType.JIT}),
        [],
    ),
    "the rule has another name": (
        lambda services, admin: services.review_rules.update(admin, "pairs", {"name": "trios"}),
        ["trios"],
    ),
}


@pytest.mark.parametrize("how", CHANGES)
async def test_a_change_holds_at_once_in_every_process(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection, how: str
) -> None:
    await ask(services, admin)
    elsewhere = world.services()
    assert await asked(elsewhere, ann, shop) == ["pairs"]
    world.signals.heard.clear()
    deed, after = CHANGES[how]
    await deed(services, admin)
    assert await asked(elsewhere, ann, shop) == after
    assert world.signals.of(Topic.POLICY_CHANGED) == [{"org_id": str(world.org_id)}]


async def test_a_new_rule_holds_for_what_is_open(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    """As live links hear of it, in another process."""
    elsewhere = world.services()
    permit = await elsewhere.access.admit_principal(ann, "shop", verb=Verb.CONNECT, source="::1")
    assert await elsewhere.access.still_allowed(permit) is None
    await ask(services, admin, access_type=AccessType.COMMAND)
    assert await elsewhere.access.still_allowed(permit) is None
    await ask(services, admin, "more", access_type=AccessType.JIT)
    assert "leads" in str(await elsewhere.access.still_allowed(permit))
    with pytest.raises(Denied):
        await elsewhere.access.renew(permit)
    with pytest.raises(Denied):
        await elsewhere.access.admit_principal(ann, "shop", verb=Verb.CONNECT, source="::1", means="login:1")


async def test_a_renamed_group_is_another_demand_and_reviews_at_once(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    await ask(services, admin)
    elsewhere = world.services()
    (before,) = await elsewhere.review_needed.demands(ann, shop, Verb.EXEC)
    await services.groups.update(admin, "leads", {"name": "chiefs"})
    (after,) = await elsewhere.review_needed.demands(ann, shop, Verb.EXEC)
    assert (before.groups, after.groups) == (("leads",), ("chiefs",))


async def test_the_same_rule_makes_the_same_demand(
    services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    """However its groups are listed: a grant holds for exactly the same demands."""
    await ask(services, admin, reviewers_groups=("b", "a"), force_groups=("d", "c"))
    before = await services.review_needed.demands(ann, shop, Verb.CONNECT)
    fields = {"reviewers_groups": ("a", "b", "a"), "force_groups": ("c", "d"), "description": "new words"}
    await services.review_rules.update(admin, "pairs", fields)
    assert await services.review_needed.demands(ann, shop, Verb.CONNECT) == before
    assert before == (ApprovalRequirement("pairs", ("a", "b"), 1, False, ("c", "d")),)


async def test_a_lost_signal_is_made_good_by_time(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    rule = await ask(services, admin)
    assert await asked(services, ann, shop) == ["pairs"]
    await world.stores.review_rules.remove(rule)
    assert await asked(services, ann, shop) == ["pairs"]
    world.signals.deliver(Topic.POLICY_CHANGED, {"connection_id": str(shop.id)})
    assert await asked(services, ann, shop) == ["pairs"]  # of a connection's own settings; no rule is another
    world.clock.forward(seconds=30)
    assert await asked(services, ann, shop) == []


async def test_whoever_finds_the_hub_again_reads_the_rules_again(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    rule = await ask(services, admin)
    assert await asked(services, ann, shop) == ["pairs"]
    await world.stores.review_rules.remove(rule)
    world.signals.deliver(Topic.RESUMED, {})
    assert await asked(services, ann, shop) == []


async def test_attack_a_change_while_rules_are_read_is_not_kept_from_anybody(
    world: World,
    services: Services,
    admin: Principal,
    ann: Principal,
    shop: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was read before a rule was made is not kept after it."""
    read = world.stores.review_rules.all

    async def slowly(org_id: UUID) -> list[ReviewRule]:
        found = await read(org_id)
        monkeypatch.setattr(world.stores.review_rules, "all", read)
        await ask(services, admin)
        return found

    monkeypatch.setattr(world.stores.review_rules, "all", slowly)
    assert await asked(services, ann, shop) == []
    assert await asked(services, ann, shop) == ["pairs"]


async def test_rules_that_cannot_be_read_let_nobody_in(
    world: World, services: Services, ann: Principal, shop: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_org_id: object) -> list[ReviewRule]:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr(world.stores.review_rules, "all", silent)
    for verb in Verb:
        with pytest.raises(Unavailable):
            await services.review_needed.demands(ann, shop, verb)
        with pytest.raises(Unavailable):
            await services.access.admit_principal(ann, "shop", verb=verb, source="::1")


async def test_rules_of_another_organisation_ask_nobody(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    theirs = replace(admin, id=uuid4(), org_id=other.id)
    await ask(services, theirs, connections=(), connection_tags={"stage": "prod"})
    with pytest.raises(Invalid, match="no connection 'shop'"):
        await ask(services, theirs, "named")
    assert await asked(services, ann, shop) == []


async def test_there_are_so_many_rules_and_no_more(
    world: World, services: Services, admin: Principal, shop: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.stores.review_rules, "most", 2)
    await ask(services, admin, "first")
    await ask(services, admin, "second")
    with pytest.raises(Invalid, match="an organisation can have at most 2 review rules"):
        await ask(services, admin, "third")


async def test_a_rule_whose_connections_are_gone_asks_nobody(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    """One that is made again by the same name is another; tags cover it, and names do not."""
    await ask(services, admin, "named")
    await ask(services, admin, "tagged", connections=(), connection_tags={"stage": "prod"})
    await services.connections.remove(admin, "shop")
    again = await world.add_connection("shop", await world.add_agent(), connection_tags={"stage": "prod"})
    assert (await services.review_rules.get(admin, "named")).connection_names == ()
    assert await asked(services, ann, again) == ["tagged"]
    with pytest.raises(Invalid, match="list at least one connection"):
        await services.review_rules.update(admin, "named", {"min_approvals": 2})


async def test_attack_a_group_that_must_agree_is_not_removed_by_anybody(
    world: World, services: Services, admin: Principal, ann: Principal, shop: Connection
) -> None:
    await ask(services, admin)
    group = await world.stores.groups.get(world.org_id, "leads")
    assert group is not None
    for removal in (services.groups.remove(admin, "leads"), services.provisioning.remove_group(admin, group.id)):
        with pytest.raises(Conflict, match="review rule 'pairs' needs the group 'leads'"):
            await removal
    assert await asked(services, ann, shop) == ["pairs"]
    await services.review_rules.update(admin, "pairs", {"reviewers_groups": ("leads", "sre")})
    await services.groups.remove(admin, "leads")
    (demand,) = await services.review_needed.demands(ann, shop, Verb.EXEC)
    assert demand.groups == ("sre",)


async def test_a_provisioned_group_that_is_refused_leaves_a_connections_reviewers(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    """A connection may name a group before there is one; making it with a member that is not there is refused."""
    shop = await world.add_connection("shop", reviewers=("owners",))
    with pytest.raises(Invalid, match="there is no user"):
        await services.provisioning.create_group(admin, "owners", None, frozenset({uuid4()}))
    (demand,) = await services.review_needed.demands(ann, shop, Verb.EXEC)
    assert demand.groups == ("owners",)


WORDS = {
    "1 member of the group 'a' must approve (rule 'r')": ApprovalRequirement("r", ("a",)),
    "1 member of the groups 'a' or 'b' must approve (rule 'r')": ApprovalRequirement("r", ("a", "b")),
    "3 members of the group 'a' must approve (rule 'r')": ApprovalRequirement("r", ("a",), 3, all_groups=True),
    "one member of each of the groups 'a' and 'b' must approve (the connection's reviewers)": ApprovalRequirement(
        "", ("a", "b"), 2, all_groups=True
    ),
    "one member of each of the groups 'a' and 'b' must approve, 3 members in total, or force it as a member of 'c' or "
    "'d' (rule 'r')": ApprovalRequirement("r", ("a", "b"), 3, True, ("c", "d")),
    "no eligible approver remains (rule 'r')": ApprovalRequirement("r", ()),
}


@pytest.mark.parametrize("says", WORDS)
def test_what_is_asked_for_in_words(says: str) -> None:
    assert requirements_text([WORDS[says]]) == says
    assert (
        requirements_text([WORDS[says], ApprovalRequirement("z", ("x",))])
        == f"{says}, and 1 member of the group 'x' must approve (rule 'z')"
    )
