"""The list of sessions: filters, pages by position, bounded work, and the query plans of both engines."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.plans import explained, statements_heard
from tests.support.sessions import add_session, catch_up, multiply
from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.issues.issue import Issue, in_session
from postern.domain.lists import Count, Page, Position
from postern.domain.sessions.session import EndReason, SessionStatus, Verb
from postern.domain.sessions.words import parse_search
from postern.store.database import Database
from postern.store.ports.target_ports import SessionFacet, SessionFilter
from postern.store.sql import long_lists

OF_ISSUE = in_session(Issue("OPS-7", "https://tracker.example.com/OPS-7"))


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


async def ids(world: World, wanted: SessionFilter, page: Page | None = None) -> list[UUID]:
    found = await world.stores.sessions.find(world.org_id, wanted, page or Page())
    return [session.id for session in found.items]


async def test_facets_count_the_values_of_matching_sessions(world: World, ann: Principal) -> None:
    bob = await world.add_user("bob")
    await add_session(world, ann, at=START)
    await add_session(world, bob, at=START + timedelta(hours=1), reason=EndReason.KILLED, verb=Verb.EXEC)
    await add_session(world, bob, at=START + timedelta(hours=2), seconds=None, connection="files")

    async def facets(**wanted: Any) -> dict[str, dict[str, int]]:
        counted = await world.stores.sessions.facets(world.org_id, SessionFilter(**wanted), list(SessionFacet))
        assert not counted.is_capped
        return {name: {one.value: one.count for one in facet.values} for name, facet in counted.fields.items()}

    assert await facets() == {
        "connection": {"shop": 2, "files": 1},
        "user": {bob.email: 2, ann.email: 1},
        "type": {"database": 3},
        "subtype": {"postgres": 3},
        "verb": {"connect": 2, "exec": 1},
        "status": {"done": 2, "open": 1},
        "end_reason": {"client_closed": 1, "killed": 1},
    }
    assert (await facets(owner=bob.subject))["connection"] == {"files": 1, "shop": 1}
    assert (await facets(user=bob.email, verb=Verb.EXEC))["end_reason"] == {"killed": 1}
    assert (await facets(end=START + timedelta(minutes=1)))["user"] == {ann.email: 1}
    assert (await facets(user="nobody@example.com"))["connection"] == {}


async def test_facets_look_at_the_newest_sessions_alone_and_say_so(
    world: World, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.store.sql.sql_facets.MAX_COUNTED", 2)
    for hour, connection in enumerate(("old", "new", "new")):
        await add_session(world, ann, at=START + timedelta(hours=hour), connection=connection)
    counted = await world.stores.sessions.facets(world.org_id, SessionFilter(), [SessionFacet.CONNECTION])
    values = [(one.value, one.count) for one in counted.fields["connection"].values]
    assert (values, counted.is_capped) == ([("new", 2)], True)


async def test_facets_read_the_rows_of_the_list_and_no_other_index(world: World, ann: Principal) -> None:
    await add_session(world, await world.add_user("bob"))
    await multiply(world, many=1_000)
    await add_session(world, ann)

    async def count() -> None:
        await world.stores.sessions.facets(world.org_id, SessionFilter(owner=ann.subject), [SessionFacet.CONNECTION])

    for statement in await statements_heard(world.database, "sessions", count):
        plan = [line for line in await explained(world.database, statement) if "ix_sessions" in line]
        assert plan
        assert all("ix_sessions_org_id_user_id_" in line for line in plan), plan


async def test_beginnings_of_scripts_are_cut_and_say_so(world: World, ann: Principal) -> None:
    short = await add_session(world, ann, verb=Verb.EXEC, script="sélect 1")
    full = await add_session(world, ann, verb=Verb.EXEC, script="é" * 500)
    long = await add_session(world, ann, verb=Verb.EXEC, script="é" * 501)
    without = await add_session(world, ann)
    keys = [session.id for session in (short, full, long, without)]
    assert await world.stores.sessions.script_beginnings(keys) == {
        short.id: ("sélect 1", False),
        full.id: ("é" * 500, False),
        long.id: ("é" * 500, True),
    }


async def test_each_session_filter_finds_its_sessions(world: World, ann: Principal) -> None:
    bob = await world.add_user("bob")
    plain = await add_session(world, ann, at=START, seconds=10)
    key = uuid4()
    other = await add_session(
        world,
        bob,
        at=START + timedelta(hours=1),
        seconds=90,
        reason=EndReason.KILLED,
        metrics={"refused": 2, "data_masking": {"total_redact_count": 3, "info_types": {"EMAIL_ADDRESS": 3}}},
        connection="files",
        connection_id=key,
        connection_subtype="ssh",
        type="application",
        verb=Verb.EXEC,
        correlation_id="order 7",
        integrations_metadata=OF_ISSUE,
        labels={"ticket": "a:b"},
        metadata={'quo"te': "%"},
        connection_tags={"env": "prod"},
    )
    running = await add_session(world, ann, at=START + timedelta(hours=2), seconds=None)

    async def only(one: UUID, **wanted: Any) -> None:
        assert await ids(world, SessionFilter(**wanted)) == [one], wanted

    await only(other.id, user=bob.email)
    await only(other.id, user=bob.subject)
    await only(other.id, owner=bob.subject)
    await only(other.id, connection="files")
    await only(other.id, connection=str(key))
    await only(other.id, subtype="ssh")
    await only(other.id, type="application")
    await only(other.id, verb=Verb.EXEC)
    await only(other.id, end_reason=EndReason.KILLED)
    await only(other.id, correlation_id="order 7")
    await only(other.id, issue="OPS-7")
    await only(other.id, issue="OPS-7", user=bob.email, status=SessionStatus.DONE)
    await only(other.id, labels=[("ticket", "a:b")])
    await only(other.id, metadata=[('quo"te', "%")])
    await only(other.id, tags=[("env", "prod", True)])
    await only(other.id, refused=True)
    await only(other.id, masked=True)
    await only(other.id, min_duration=90)
    await only(plain.id, max_duration=10)
    await only(plain.id, refused=False, status=SessionStatus.DONE)
    await only(plain.id, masked=False, user=ann.email, status=SessionStatus.DONE)
    await only(running.id, status=SessionStatus.OPEN)
    await only(plain.id, end=START)
    await only(running.id, start=START + timedelta(hours=2))
    assert await ids(world, SessionFilter(tags=[("env", "prod", False)])) == [running.id, plain.id]
    assert await ids(world, SessionFilter(min_duration=10, max_duration=90)) == [other.id, plain.id]
    for nothing in (
        {"review": "APPROVED"},
        {"issue": "OPS-%"},
        {"issue": "OPS-7", "user": ann.email},
        {"user": "%"},
        {"connection": "sh_p"},
        {"labels": [("ticket", "%")]},
        {"labels": [("$", "a:b")]},
        {"metadata": [("quo", "%")]},
        {"user": bob.email, "connection": "shop"},
    ):
        assert await ids(world, SessionFilter(**nothing)) == [], nothing


async def test_user_filter_matches_subject_and_email_address(world: World, ann: Principal) -> None:
    twin = replace(await world.add_user("twin"), subject=ann.email)
    own, twins = await add_session(world, ann, at=START), await add_session(world, twin, at=START - timedelta(1))
    assert await ids(world, SessionFilter(user=ann.email)) == [own.id, twins.id]


async def test_sessions_of_another_organisation_are_not_found(world: World, ann: Principal) -> None:
    await add_session(world, ann, labels={"a": "b"}, correlation_id="x")
    for wanted in (SessionFilter(), SessionFilter(correlation_id="x"), SessionFilter(labels=[("a", "b")])):
        found = await world.stores.sessions.find(uuid4(), wanted, Page())
        assert (list(found.items), found.total) == ([], 0)


async def test_new_sessions_do_not_shift_pages_by_position(world: World, ann: Principal) -> None:
    """With an offset, the last session of a page would appear on the next one again."""
    made = [await add_session(world, ann, at=START + timedelta(minutes=n // 2)) for n in range(7)]
    expected = [one.id for one in sorted(made, key=lambda one: (one.start_date, one.id), reverse=True)]
    seen: list[UUID] = []
    page = Page(2)
    while True:
        found = await world.stores.sessions.find(world.org_id, SessionFilter(), page)
        seen += [one.id for one in found.items]
        await add_session(world, ann, at=START + timedelta(hours=1))
        if found.next is None:
            break
        page = Page(2, after=found.next)
    assert seen == expected


async def test_total_is_omitted_capped_or_exact_as_requested(
    world: World, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        await add_session(world, ann)

    async def total(count: Count, wanted: SessionFilter | None = None) -> tuple[int | None, bool]:
        page = Page(2, count=count)
        found = await world.stores.sessions.find(world.org_id, wanted or SessionFilter(), page)
        return found.total, found.total_is_capped

    assert await total(Count.EXACT) == (5, False)
    assert await total(Count.NONE) == (None, False)
    assert await total(Count.CAPPED) == (5, False)
    monkeypatch.setattr(long_lists, "COUNT_CAP", 3)
    assert await total(Count.EXACT) == (5, False)
    assert await total(Count.CAPPED) == (3, True)


async def test_rare_sessions_are_found_with_bounded_work_per_page(
    world: World, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page ends after a maximum number of rows, and returns where to continue."""
    monkeypatch.setattr(long_lists, "LOOK_AT", 4)
    made = [await add_session(world, ann, at=START + timedelta(minutes=n)) for n in range(10)]
    rare = await add_session(world, ann, at=START - timedelta(1), labels={"rare": "yes"})
    wanted = SessionFilter(labels=[("rare", "yes")])
    sessions = world.stores.sessions
    first = await sessions.find(world.org_id, wanted, Page(count=Count.CAPPED))
    assert (list(first.items), first.total, first.total_is_capped) == ([], 0, True)
    assert first.next == Position(made[6].start_date, made[6].id)
    second = await sessions.find(world.org_id, wanted, Page(after=first.next, count=Count.NONE))
    assert (list(second.items), second.next) == ([], Position(made[2].start_date, made[2].id))
    third = await sessions.find(world.org_id, wanted, Page(after=second.next, count=Count.NONE))
    assert ([one.id for one in third.items], third.next) == ([rare.id], None)
    exact = await sessions.find(world.org_id, wanted, Page(count=Count.EXACT))
    assert exact.total == 1


STANDARD = {
    "nothing": SessionFilter(),
    "dates": SessionFilter(start=START, end=START + timedelta(days=9)),
    "user": SessionFilter(user="ann@example.com"),
    "owner": SessionFilter(owner="ann"),
    "connection": SessionFilter(connection="shop"),
    "connection's id": SessionFilter(connection=str(UUID(int=7))),
    "type": SessionFilter(type="database"),
    "subtype": SessionFilter(subtype="postgres"),
    "verb": SessionFilter(verb=Verb.EXEC),
    "status": SessionFilter(status=SessionStatus.OPEN),
    "end reason": SessionFilter(end_reason=EndReason.KILLED),
    "correlation id": SessionFilter(correlation_id="x"),
    "issue": SessionFilter(issue="OPS-7"),
    "refused": SessionFilter(refused=True),
    "masked": SessionFilter(masked=True),
    "held": SessionFilter(held=True),
    "several": SessionFilter(user="ann@example.com", status=SessionStatus.DONE, verb=Verb.CONNECT, type="database"),
    "sieved": SessionFilter(labels=[("a", "b")], min_duration=5),
}


@pytest.mark.parametrize("after", [None, Position(START, UUID(int=1))], ids=["first", "deep"])
@pytest.mark.parametrize("wanted", STANDARD.values(), ids=list(STANDARD))
async def test_standard_session_filters_never_read_or_sort_the_whole_table(
    world: World, ann: Principal, wanted: SessionFilter, after: Position | None
) -> None:
    await add_session(
        world, replace(ann, subject="ann"), correlation_id="x", verb=Verb.EXEC, reason=EndReason.KILLED, seconds=9
    )
    page = Page(20, after=after, count=Count.CAPPED)
    for statement in await statements_of(world, wanted, page):
        for line in await explained(world.database, statement):
            assert "TEMP B-TREE" not in line, (statement, line)
            assert "Sort" not in line, (statement, line)
            assert "Seq Scan on sessions" not in line, (statement, line)
            assert "SCAN sessions" not in line, (statement, line)


async def test_index_of_the_rarest_session_filter_is_used(world: World, ann: Principal) -> None:
    """SQLite would use any matching index, and one value of `status` matches nearly all rows."""
    if not world.database.is_sqlite:
        pytest.skip("PostgreSQL knows how rare a value is")
    await add_session(world, ann)
    wanted = replace(STANDARD["several"], user=ann.email)
    *_, statement = await statements_of(world, wanted, Page(20, count=Count.NONE))
    plan = await explained(world.database, statement)
    assert any("ix_sessions_org_id_user_start_date_id" in line for line in plan), plan


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (SessionFilter(issue="OPS-7"), "ix_sessions_issue_key (org_id=? AND issue_key=?)"),
        (SessionFilter(masked=True), "ix_sessions_masked (org_id=?)"),
        (SessionFilter(refused=True), "ix_sessions_refused (org_id=?)"),
        (SessionFilter(end_reason=EndReason.KILLED), "ix_sessions_end_reason (org_id=? AND end_reason=?)"),
        (SessionFilter(start=START), "ix_sessions_org_id_start_date_id (org_id=? AND start_date>?)"),
    ],
)
async def test_total_is_counted_with_the_index_of_the_page(
    sqlite_database: Database, wanted: SessionFilter, index: str
) -> None:
    """SQLite would use any index of the organisation, however many rows it matches."""
    world = await World.make(sqlite_database)
    ann = await world.add_user("ann")
    metrics = {"refused": 2, "data_masking": {"total_redact_count": 3}}
    for _ in range(3):
        await add_session(world, ann, reason=EndReason.KILLED, metrics=metrics, integrations_metadata=OF_ISSUE)
    page, count = await statements_of(world, wanted, Page(2, count=Count.CAPPED))
    for statement in (page, count):
        plan = await explained(sqlite_database, statement)
        assert any(index in line for line in plan), plan


@pytest.mark.parametrize("status", [SessionStatus.OPEN, SessionStatus.READY])
@pytest.mark.ci
async def test_worker_finds_its_sessions_at_start_by_the_index_of_unfinished_ones(
    world: World, ann: Principal, status: SessionStatus
) -> None:
    await add_session(world, ann)
    await multiply(world)
    own = await add_session(world, ann, seconds=None, status=status, worker="w7")
    await add_session(world, ann, seconds=None, status=status, worker="w8", at=START + timedelta(days=1))
    assert (await world.stores.sessions.ids(status, None))[0] == own.id
    assert await world.stores.sessions.ids(status, "w7") == [own.id]
    wanted = SessionFilter(status=status)
    (statement,) = await statements_of(world, wanted, Page(20, count=Count.NONE))
    looks = await statements_heard(world.database, "sessions", lambda: world.stores.sessions.ids(status, "w7"))
    for one in (statement, *looks):
        plan = await explained(world.database, one)
        assert any("ix_sessions_not_done" in line for line in plan), plan


async def statements_of(world: World, wanted: SessionFilter, page: Page) -> list[tuple[str, Any]]:
    """What is run for a page, with its parameters."""
    return await statements_heard(
        world.database, "sessions", lambda: world.stores.sessions.find(world.org_id, wanted, page)
    )


async def test_session_search_never_reads_a_whole_table(world: World, ann: Principal) -> None:
    await add_session(world, ann, asked=["drop table pets"])
    await catch_up(world, world.services())
    wanted = SessionFilter(search=parse_search("drop"), owner=ann.subject)
    statements = await statements_of(world, wanted, Page(20, count=Count.CAPPED))
    assert statements
    for statement in statements:
        for line in await explained(world.database, statement):
            assert "Seq Scan" not in line, (statement, line)
            assert not line.startswith("SCAN session_texts"), (statement, line)
            assert not line.startswith("SCAN sessions"), (statement, line)
            if world.database.is_sqlite:
                assert "ix_sessions" not in line, (statement, line)  # the candidates are found by their keys
