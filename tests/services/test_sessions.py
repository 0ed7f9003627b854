"""The life of a session's row, and who may see and end it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, update
from tests.support.spans import TRACE_ID, TRACEPARENT, Noted
from tests.support.world import World

from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.lists import Page, Stretch
from postern.domain.rules.permit import Permit
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import ConnectionType, Toggle
from postern.domain.tracing import within
from postern.errors import Denied, Invalid, NotFound
from postern.services.admission import Access
from postern.services.bundle import Services
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Topic
from postern.store.ports.target_ports import SessionFilter
from postern.store.schema.session_tables import session_starts


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
def access(services: Services) -> Access:
    return services.access


@pytest.fixture
def sessions(services: Services) -> Sessions:
    return services.sessions


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


async def permit_for(access: Access, principal: Principal, connection: str = "shop") -> Permit:
    return await access.admit_principal(principal, connection, verb=Verb.CONNECT, source="127.0.0.1")


async def open_one(sessions: Sessions, permit: Permit, worker: str = "w1") -> Session:
    return await sessions.open(permit, session_id=uuid4(), worker=worker, metadata={"application": "psql"})


async def close(sessions: Sessions, session_id: UUID, reason: EndReason = EndReason.CLIENT_CLOSED) -> None:
    await sessions.close(session_id, reason=reason, exit_code=None, metrics={"operations": 2}, event_size=99)


async def test_an_opened_session_reads_back_as_it_was(
    world: World, access: Access, sessions: Sessions, ann: Principal
) -> None:
    await world.add_connection(connection_tags={"env": "test"})
    session = await open_one(sessions, await permit_for(access, ann))
    assert await sessions.get(ann, session.id) == session
    assert session.status is SessionStatus.OPEN
    assert session.connection_tags == {"env": "test"}
    assert session.start_date == world.clock()


async def test_closing_is_idempotent_and_told_once(
    world: World, access: Access, sessions: Sessions, ann: Principal
) -> None:
    await world.add_connection()
    session = await open_one(sessions, await permit_for(access, ann))
    world.clock.forward(seconds=5)
    await close(sessions, session.id)
    world.clock.forward(seconds=5)
    await close(sessions, session.id, EndReason.KILLED)
    done = await sessions.get(ann, session.id)
    assert done.status is SessionStatus.DONE
    assert done.end_date is not None
    assert (done.end_date - done.start_date).total_seconds() == 5
    assert done.metadata == {"application": "psql", "end_reason": "client_closed"}
    assert done.metrics == {"operations": 2, "event_size": 99}
    assert done.event_size == 99
    assert world.signals.of(Topic.SESSION_DONE) == [{"session_id": str(session.id)}]


async def test_a_script_is_put_up_and_claimed_by_one_worker(world: World, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection()
    session = await sessions.submit(ann, "shop", "select 'ä'", source="127.0.0.1", metadata={"ticket": "7"})
    assert (session.status, session.script_size) == (SessionStatus.READY, 11)
    assert world.signals.of(Topic.SESSION_RUN) == [{"session_id": str(session.id)}]
    assert await sessions.waiting() == [session.id]
    outcomes = await asyncio.gather(*(sessions.claim(session.id, f"w{number}") for number in range(5)))
    claimed = [outcome for outcome in outcomes if outcome is not None]
    assert len(claimed) == 1
    running, permit, invocation = claimed[0]
    assert not invocation
    assert running.status is SessionStatus.OPEN
    assert running.script == "select 'ä'"
    assert permit.verb is Verb.EXEC
    assert permit.principal == ann
    assert await sessions.recover(str(running.worker)) == [session.id]
    assert await sessions.recover("another") == []
    assert await sessions.waiting() == []


@pytest.mark.parametrize("change", ["inactive", "disabled", "deleted"])
async def test_a_claim_asks_for_admission_again(world: World, sessions: Sessions, ann: Principal, change: str) -> None:
    connection = await world.add_connection()
    session = await sessions.submit(ann, "shop", "select 1", source="127.0.0.1")
    if change == "inactive":
        await world.stores.principals.update(Account(replace(ann, status=PrincipalStatus.INACTIVE)), world.clock())
    elif change == "disabled":
        await world.overwrite(connection, access_mode_exec=Toggle.DISABLED)
    else:
        await world.stores.connections.remove(connection)
    assert await sessions.claim(session.id, "w1") is None
    failed = await sessions.get(ann, session.id)
    assert (failed.status, failed.exit_code) == (SessionStatus.DONE, 1)
    assert failed.metadata["end_reason"] == "failed"
    assert failed.metadata["end_detail"]
    assert world.signals.of(Topic.SESSION_DONE) == [{"session_id": str(session.id)}]


async def test_submitting_where_nothing_can_run_is_refused(world: World, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection(access_mode_exec=Toggle.DISABLED)
    await world.add_connection("legacy", subtype="mysql")
    with pytest.raises(Denied):
        await sessions.submit(ann, "shop", "select 1", source="127.0.0.1")
    with pytest.raises(Invalid, match="mysql"):
        await sessions.submit(ann, "legacy", "select 1", source="127.0.0.1")
    await world.add_connection("other")
    with pytest.raises(Invalid, match="metadata"):
        await sessions.submit(ann, "other", "select 1", source="x", metadata={"k": "v" * 2_500})
    assert await sessions.waiting() == []


async def test_only_owner_admin_and_auditor_see_a_session(
    world: World, access: Access, sessions: Sessions, ann: Principal
) -> None:
    await world.add_connection()
    bob, admin = await world.add_user("bob"), await world.add_user("root", "admin")
    auditor = await world.add_user("eve", "auditor")
    session = await open_one(sessions, await permit_for(access, ann))
    for principal in (ann, admin, auditor):
        assert (await sessions.get(principal, session.id)).id == session.id
        assert (await sessions.find(principal, SessionFilter(), Page())).total == 1
    with pytest.raises(NotFound):
        await sessions.get(bob, session.id)
    assert await sessions.find(bob, SessionFilter(user=ann.subject), Page()) == Stretch([], 0)


async def test_the_beginning_of_an_identifier_is_enough_where_one_visible_session_has_it(
    world: World, access: Access, sessions: Sessions, ann: Principal
) -> None:
    await world.add_connection()
    other, auditor = await world.add_user("bob"), await world.add_user("eve", "auditor")
    named = [UUID(f"abcd{digit}000-1111-4111-8111-111111111111") for digit in "123"]
    for principal, key in zip((ann, ann, other), named, strict=True):
        permit = await permit_for(access, principal)
        await sessions.open(permit, session_id=key, worker="w1", metadata={})
    assert (await sessions.get(ann, "abcd1")).id == named[0]
    assert (await sessions.get(ann, "ABCD2000-1")).id == named[1]
    assert (await sessions.get(other, "abcd")).id == named[2], "others' sessions do not make it ambiguous"
    assert (await sessions.get(auditor, "abcd3")).id == named[2]
    for principal in (ann, auditor):
        with pytest.raises(Invalid, match="several sessions begin with 'abcd'"):
            await sessions.get(principal, "abcd")
    for unknown in ("abc", "abcd3", "abce", "abcd-1", "abcd%", "abcdg", "a" * 33, ""):
        with pytest.raises(NotFound):
            await sessions.get(ann, unknown)


async def test_lists_filter_page_and_sort(world: World, access: Access, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection()
    await world.add_connection("a%b")
    made = []
    for connection in ("shop", "shop", "a%b"):
        made.append(await open_one(sessions, await permit_for(access, ann, connection)))
        world.clock.forward(minutes=1)
    await close(sessions, made[0].id)
    ids = [session.id for session in made]

    async def found(wanted: SessionFilter, page: Page | None = None) -> tuple[list[UUID], int | None]:
        listed = await sessions.find(ann, wanted, page or Page())
        return [session.id for session in listed.items], listed.total

    assert await found(SessionFilter()) == (ids[::-1], 3)
    assert await found(SessionFilter(), Page(1, 1)) == ([ids[1]], 3)
    assert await found(SessionFilter(connection="shop")) == ([ids[1], ids[0]], 2)
    assert await found(SessionFilter(connection="%")) == ([], 0)
    assert await found(SessionFilter(status=SessionStatus.DONE)) == ([ids[0]], 1)
    assert await found(SessionFilter(verb=Verb.EXEC)) == ([], 0)
    assert await found(SessionFilter(type="database", user=ann.email)) == (ids[::-1], 3)
    assert await found(SessionFilter(start=made[1].start_date)) == ([ids[2], ids[1]], 2)
    assert await found(SessionFilter(end=made[1].start_date)) == ([ids[1], ids[0]], 2)


async def test_scripts_are_left_out_of_lists(world: World, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection()
    session = await sessions.submit(ann, "shop", "select 1", source="127.0.0.1")
    listed = (await sessions.find(ann, SessionFilter(), Page())).items
    assert (listed[0].script, listed[0].script_size) == (None, 8)
    assert (await sessions.get(ann, session.id)).script == "select 1"


async def test_killing(world: World, access: Access, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection()
    bob, auditor = await world.add_user("bob"), await world.add_user("eve", "auditor")
    session = await open_one(sessions, await permit_for(access, ann))
    with pytest.raises(NotFound):
        await sessions.kill(bob, session.id)
    with pytest.raises(Denied):
        await sessions.kill(auditor, session.id)
    await sessions.kill(ann, session.id)
    killed = [{"session_id": str(session.id), "reason": "killed"}]
    assert world.signals.of(Topic.SESSION_KILL) == killed
    await close(sessions, session.id)
    await sessions.kill(ann, session.id)
    assert world.signals.of(Topic.SESSION_KILL) == killed


async def test_killing_a_waiting_session_ends_it_here(world: World, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection()
    session = await sessions.submit(ann, "shop", "select 1", source="127.0.0.1")
    await sessions.kill(ann, session.id)
    assert (await sessions.get(ann, session.id)).status is SessionStatus.DONE
    assert await sessions.claim(session.id, "w1") is None
    assert world.signals.of(Topic.SESSION_KILL) == []


async def test_parameters_reach_the_worker_and_their_names_are_a_label(world: World) -> None:
    services, ann = world.services(), await world.add_user("ann", "dba")
    await world.add_connection()
    given = Invocation(parameters={"a": "1", "b": 2, "c": None, "d": True, "e": 0.5})
    session = await services.sessions.submit(ann, "shop", "select :a, :b, :c, :d, :e", source="::1", invocation=given)
    assert session.labels == {"scriptParameters": '["a", "b", "c", "d", "e"]'}
    claimed = await services.sessions.claim(session.id, "w1")
    assert claimed is not None
    assert claimed[2] == given
    assert [type(value) for value in claimed[2].parameters.values()] == [str, int, type(None), bool, float]


async def test_script_whose_parameters_do_not_fit_is_not_stored(world: World) -> None:
    services, ann = world.services(), await world.add_user("ann", "dba")
    await world.add_connection()
    for script, reason in (("select :b", "uses :b without a value"), ("select 1", "does not use 'a'")):
        with pytest.raises(Invalid, match=reason):
            await services.sessions.submit(
                ann, "shop", script, source="::1", invocation=Invocation(parameters={"a": 1})
            )
    with pytest.raises(Invalid, match="'scriptParameters' is reserved"):
        await services.sessions.submit(ann, "shop", "select 1", source="::1", labels={"scriptParameters": "[]"})
    assert not (await services.sessions.find(ann, SessionFilter(), Page())).items


ADDED = Invocation(("-n", "ä b"), {"MODE": Secret("dry"), "TOKEN": Secret("planted-by-the-client")})


async def starts(world: World) -> list[bytes]:
    async with world.database.statement() as connection:
        return list((await connection.execute(select(session_starts.c.content))).scalars())


async def test_what_a_command_is_run_with_is_sealed_until_it_is_claimed(
    world: World, sessions: Sessions, ann: Principal
) -> None:
    await world.add_connection(
        "tool", type=ConnectionType.CUSTOM, subtype="", command=("cat",), secret={"envvar:TOKEN": Secret("eA==")}
    )
    session = await sessions.submit(ann, "tool", "true", source="127.0.0.1", invocation=ADDED)
    (sealed,) = await starts(world)
    assert b"dry" not in sealed
    claimed = await sessions.claim(session.id, "w1")
    assert claimed is not None
    # TOKEN is a secret of the connection, which no client replaces.
    assert claimed[2] == Invocation(ADDED.arguments, {"MODE": Secret("dry")})
    assert await starts(world) == []


async def test_what_cannot_be_unsealed_is_not_run(world: World, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection("tool", type=ConnectionType.CUSTOM, subtype="", command=("cat",))
    session = await sessions.submit(ann, "tool", "true", source="127.0.0.1", invocation=ADDED)
    async with world.database.statement() as connection:
        await connection.execute(update(session_starts).values(content=b"\xffdamaged"))
    assert await sessions.claim(session.id, "w1") is None
    ended = await sessions.get(ann, session.id)
    assert (ended.status, ended.metadata["end_reason"]) == (SessionStatus.DONE, EndReason.FAILED)


async def test_what_a_killed_session_was_to_be_run_with_is_not_kept(
    world: World, sessions: Sessions, ann: Principal
) -> None:
    await world.add_connection("tool", type=ConnectionType.CUSTOM, subtype="", command=("cat",))
    session = await sessions.submit(ann, "tool", "true", source="127.0.0.1", invocation=ADDED)
    await sessions.kill(ann, session.id)
    assert await starts(world) == []


async def test_a_database_takes_no_arguments(world: World, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection()
    with pytest.raises(Invalid, match="client_args"):
        await sessions.submit(ann, "shop", "select 1", source="127.0.0.1", invocation=ADDED)


async def test_nothing_is_run_where_there_is_no_command(world: World, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection("tool", subtype="db2")
    with pytest.raises(Invalid, match="db2"):
        await sessions.submit(ann, "tool", "true", source="127.0.0.1")


async def test_events_come_from_the_recording(world: World, access: Access, sessions: Sessions, ann: Principal) -> None:
    await world.add_connection()
    session = await open_one(sessions, await permit_for(access, ann))
    world.recordings.stored[session.id] = [(0.5, "i", b"select 1"), (1.5, "o", b"1")]
    assert list(sessions.events(session)) == [(0.5, "i", b"select 1"), (1.5, "o", b"1")]
    assert list(sessions.operations(session)) == [(0.5, b"select 1")]


async def test_a_session_that_is_traced_says_by_what_and_the_worker_goes_on(
    world: World, access: Access, sessions: Sessions, ann: Principal
) -> None:
    await world.add_connection("shop")
    heard: list[Mapping[str, str]] = []
    world.signals.subscribe(Topic.SESSION_RUN, heard.append)
    with within(Noted()):
        made = await sessions.submit(ann, "shop", "select 1", source="::1", metadata={"trace_id": "theirs", "a": "b"})
        opened = await open_one(sessions, await permit_for(access, ann))
    plain = await sessions.submit(ann, "shop", "select 1", source="::1", metadata={"trace_id": "theirs"})
    kept = [(await sessions.get(ann, one.id)).metadata for one in (made, opened, plain)]
    assert kept[0] == {"trace_id": TRACE_ID, "a": "b"}
    assert kept[1] == {"trace_id": TRACE_ID, "application": "psql"}
    assert kept[2] == {"trace_id": "theirs"}
    assert [one.get("traceparent") for one in heard] == [TRACEPARENT, None]
