"""The decision about a connection, over every combination that a small organisation can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.rules.access import Ground, Reach, decide, explain, reach
from postern.domain.rules.access_rule import AccessRule
from postern.domain.targets.connection import Connection, ConnectionType

HERE, ELSEWHERE = UUID(int=1), UUID(int=2)
GROUPS = ("dba", "sre", "admin", "auditor", "on call")
IDS = tuple(UUID(int=10 + number) for number in range(4))

orgs = st.sampled_from((HERE, HERE, HERE, ELSEWHERE))
tags = st.dictionaries(st.sampled_from(("stage", "team")), st.sampled_from(("a", "b")), max_size=2)
kinds = st.sampled_from([kind for kind in PrincipalKind if kind is not PrincipalKind.MACHINE])


@st.composite
def principals(draw: st.DrawFn) -> Principal:
    groups = draw(st.frozensets(st.sampled_from(GROUPS), max_size=3))
    return Principal(UUID(int=3), draw(orgs), "s", "s@example.com", "S", groups, draw(kinds))


@st.composite
def connections(draw: st.DrawFn) -> Connection:
    key = draw(st.sampled_from(IDS))
    return Connection(
        key, draw(orgs), f"c{key.int}", ConnectionType.DATABASE, "postgres", UUID(int=9), connection_tags=draw(tags)
    )


@st.composite
def rules(draw: st.DrawFn) -> list[AccessRule]:
    """All of one organisation, as they are kept, but for an intruder now and then."""
    return [
        AccessRule(
            UUID(int=100 + number),
            draw(orgs),
            f"rule {number}",
            groups=draw(st.frozensets(st.sampled_from(GROUPS), max_size=2)),
            connection_ids=draw(st.frozensets(st.sampled_from(IDS), max_size=2)),
            connection_tags=draw(tags),
        )
        for number in range(draw(st.integers(0, 4)))
    ]


def within(seen: Reach | None, known: Sequence[AccessRule], connection: Connection) -> bool:
    """What a store makes of a reach."""
    if seen is None:
        return True
    listed = any(rule.id in seen.rules and connection.id in rule.connection_ids for rule in known)
    return listed or any(one.items() <= dict(connection.connection_tags).items() for one in seen.tags)


@given(principals(), connections(), rules())
def test_enforced_rules_give_exactly_what_they_say(
    principal: Principal, connection: Connection, known: list[AccessRule]
) -> None:
    found = decide(principal, connection, known, enforced=True)
    if principal.org_id != connection.org_id:
        assert (found.visible, found.allowed) == (False, False)
    elif principal.is_admin:
        assert (found.visible, found.allowed) == (True, True)
    elif principal.is_auditor:
        assert (found.visible, found.allowed) == (True, False)
    else:
        given_by = [
            rule
            for rule in known
            if rule.org_id == connection.org_id
            and rule.groups & principal.groups
            and (
                connection.id in rule.connection_ids
                or (
                    rule.connection_tags != {}
                    and rule.connection_tags.items() <= dict(connection.connection_tags).items()
                )
            )
        ]
        assert found.allowed == found.visible == bool(given_by)
        if found.allowed:
            assert found.rule in given_by
            assert found.group in principal.groups & found.rule.groups
        else:
            assert all(not rule.groups & principal.groups for rule in found.would)


@given(principals(), connections(), rules())
def test_what_is_off_changes_nothing(principal: Principal, connection: Connection, known: list[AccessRule]) -> None:
    found = decide(principal, connection, known, enforced=False)
    same = principal.org_id == connection.org_id
    assert found.visible == same
    assert found.allowed == (same and not principal.is_auditor)
    assert reach(principal, known, enforced=False) is None


@given(principals(), connections(), rules(), st.booleans())
def test_a_list_shows_exactly_what_is_visible(
    principal: Principal, connection: Connection, known: list[AccessRule], enforced: bool
) -> None:
    """Lists are filtered by a store, which is handed a reach; each object is decided about by itself."""
    here = replace(connection, org_id=principal.org_id)
    seen = reach(principal, known, enforced=enforced)
    assert within(seen, known, here) == decide(principal, here, known, enforced=enforced).visible


@given(principals(), connections(), rules(), rules())
def test_more_rules_never_take_away(
    principal: Principal, connection: Connection, known: list[AccessRule], more: list[AccessRule]
) -> None:
    if decide(principal, connection, known, enforced=True).allowed:
        assert decide(principal, connection, [*more, *known], enforced=True).allowed


@given(principals(), connections())
def test_without_rules_it_is_closed_to_all_without_a_role(principal: Principal, connection: Connection) -> None:
    found = decide(principal, connection, [], enforced=True)
    assert not found.visible or principal.sees_all
    assert reach(principal, [], enforced=True) == (None if principal.sees_all else Reach())


@given(principals(), connections(), rules(), st.booleans())
def test_every_decision_is_explained(
    principal: Principal, connection: Connection, known: list[AccessRule], enforced: bool
) -> None:
    found = decide(principal, connection, known, enforced=enforced)
    text = explain(found)
    assert text
    if found.ground is Ground.RULE:
        assert found.rule is not None
        assert repr(found.rule.name) in text
        assert repr(found.group) in text
    assert all(repr(rule.name) in text for rule in found.would)
    assert found.visible or not found.allowed


def test_a_rule_without_groups_connections_or_tags_gives_nothing() -> None:
    connection = Connection(IDS[0], HERE, "shop", ConnectionType.DATABASE, "postgres", UUID(int=9))
    ann = Principal(UUID(int=3), HERE, "ann", "ann@example.com", "Ann", frozenset({"dba"}))
    empty = AccessRule(UUID(int=5), HERE, "empty", groups=frozenset({"dba"}))
    for tags_of_it in ({}, {"stage": "a"}):
        tagged = replace(connection, connection_tags=tags_of_it)
        assert decide(ann, tagged, [empty], enforced=True).ground is Ground.NO_RULE
    for_nobody = replace(empty, groups=frozenset(), connection_ids=frozenset({IDS[0]}))
    assert decide(ann, connection, [for_nobody], enforced=True).ground is Ground.OTHER_GROUPS


def test_a_machine_has_what_an_administrator_gave_it_by_name() -> None:
    connection = Connection(IDS[0], HERE, "shop", ConnectionType.DATABASE, "postgres", UUID(int=9))
    machine = Principal(UUID(int=3), HERE, "m", "backup", "backup", kind=PrincipalKind.MACHINE)
    assert decide(machine, connection, [], enforced=True).ground is Ground.GIVEN
    assert reach(machine, [], enforced=True) == Reach()
    assert not decide(replace(machine, org_id=ELSEWHERE), connection, [], enforced=True).allowed


def test_refusal_lists_the_groups_of_every_rule_that_covers_the_connection() -> None:
    connection = Connection(IDS[0], HERE, "shop", ConnectionType.DATABASE, "postgres", UUID(int=9))
    ann = Principal(UUID(int=3), HERE, "ann", "ann@example.com", "Ann")
    shop = frozenset({IDS[0]})
    for_two = AccessRule(UUID(int=5), HERE, "operations", groups=frozenset({"sre", "dba"}), connection_ids=shop)
    for_none = AccessRule(UUID(int=6), HERE, "nobody yet", connection_ids=shop)
    reason = explain(decide(ann, connection, [for_two, for_none], enforced=True))
    assert reason.endswith(": 'operations' for 'dba', 'sre'; 'nobody yet' for no group")
