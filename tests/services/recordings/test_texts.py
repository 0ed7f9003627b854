"""Search in statement texts: words, phrases and exclusions, visible sessions, and hostile searches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence, Set
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, func, select, text
from tests.support.sessions import add_session, catch_up
from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Count, Page
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.domain.sessions.words import parse_search
from postern.errors import Invalid, Unavailable
from postern.services.bundle import Services
from postern.services.recordings import texts
from postern.services.recordings.texts import AWAY
from postern.store.ports.target_ports import Piece, SessionFilter
from postern.store.schema.session_tables import session_texts, sessions
from postern.store.sql.sessions import sql_sessions


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def found(services: Services, principal: Principal, search: str, **wanted: object) -> list[UUID]:
    filters = SessionFilter(search=parse_search(search), **wanted)  # type: ignore[arg-type]
    listed = await services.sessions.find(principal, filters, Page(count=Count.CAPPED))
    return [session.id for session in listed.items]


async def unread(world: World) -> dict[UUID, set[int]]:
    """What the sweep would look at, long after."""
    found = await world.stores.session_texts.unread(START + timedelta(days=3650), None, 9)
    return {one.session.id: set(one.segments) for one in found}


async def asked(world: World, owner: Principal, *statements: str, **fields: object) -> Session:
    return await add_session(world, owner, asked=statements, **fields)  # type: ignore[arg-type]


async def test_search_finds_words_prefixes_and_phrases_and_honours_exclusions(
    world: World, services: Services, admin: Principal
) -> None:
    drop = await asked(world, admin, "DROP TABLE shop.customers", at=START)
    mail = await asked(world, admin, "select e_mail from customers", "table owners", at=START + timedelta(1))
    both = await asked(world, admin, "select 1", "drop view Bücher", at=START + timedelta(days=40))
    assert await catch_up(world, services) == 3
    for search, expected in {
        "drop": [both, drop],
        "customers": [mail, drop],
        "drop customers": [drop],
        "customers drop": [drop],
        '"drop table"': [drop],
        '"table drop"': [],
        '"shop.customers"': [drop],
        "shop.customers": [drop],
        '"customers table"': [],  # the border between two statements
        '"customers owners"': [],
        "cust*": [mail, drop],
        "custom": [],
        "büch*": [both],
        "BÜCHER": [both],
        "e_mail": [mail],
        "drop -table": [both],
        'drop -"drop table"': [both],
        "select -cust*": [both],
        "select -drop -mail": [],
        "ＤＲＯＰ": [both, drop],
        "drop drop drop": [both, drop],
    }.items():
        assert await found(services, admin, search) == [one.id for one in expected], search


async def test_search_finds_chinese_text_without_blanks(world: World, services: Services, admin: Principal) -> None:
    one = await asked(world, admin, "insert into t values ('我的数据库密码')")
    await catch_up(world, services)
    assert await found(services, admin, "数据") == [one.id]
    assert await found(services, admin, "据数") == []
    assert await found(services, admin, "密*") == [one.id]


ATTACKS = [
    "'; drop table session_texts; --",
    '" OR 1=1 --',
    "a NEAR(b c, 5)",
    "NEAR(",
    "keys : o* drop",
    "{folded keys} : drop",
    "folded:drop OR keys:o",
    "- drop",
    "^drop + pets AND NOT OR",
    "drop\x00pets",
    "drop ' & | ! <-> :* ( )",
    "drop:*",
    "drop\\",
    '"drop',
    "drop 🙂",
    "drop \ud800",
    "drop " + "(" * 500,
    "\ue000drop",
    "%_drop",
    "drop*" * 3,
]


@pytest.mark.parametrize("search", ATTACKS)
async def test_attack_search_text_is_never_syntax(
    world: World, services: Services, admin: Principal, search: str
) -> None:
    """It matches only the session with these words, never the session without them."""
    every = "drop OR 1=1 table session_texts pets a NEAR b c 5 keys o folded keys AND NOT"
    one = await asked(world, admin, every, at=START)
    await asked(world, admin, "nothing of that", at=START)
    await catch_up(world, services)
    try:
        hits = await found(services, admin, search)
    except Invalid as refused:
        assert refused.message.startswith("search: ")  # noqa: PT017 - either is right
    else:
        assert set(hits) <= {one.id}
    assert await found(services, admin, "drop") == [one.id]


@pytest.mark.parametrize(
    "search", ["", " ", '""', "-", "*", "a*", "🙂", "-drop", "\x00", "x " * 500, "y" * 5_000, "w " * 33]
)
async def test_attack_search_without_words_or_with_too_many_is_rejected(search: str) -> None:
    if search in ("x " * 500, "w " * 33):
        search = " ".join(f"w{n}" for n in range(10_000 if len(search) == 1_000 else 33))
    with pytest.raises(Invalid, match=r"^search: "):
        parse_search(search)


async def test_hostile_statements_are_indexed(world: World, services: Services, admin: Principal) -> None:
    hostile = ["\x00needle\x00", "\x1b]0;needle\x07", "needle' \\ \" \ue000", "x" * 100_000 + " needle", "🙂needle"]
    made = [await asked(world, admin, said, at=START + timedelta(minutes=n)) for n, said in enumerate(hostile)]
    world.recordings.stored[made[0].id].append((5.0, "i", b"\xff\xfe needle"))
    await catch_up(world, services)
    assert await found(services, admin, "needle") == [one.id for one in reversed(made)]


async def test_user_without_admin_or_auditor_group_finds_only_their_own_sessions(
    world: World, services: Services, admin: Principal
) -> None:
    ann, bob = await world.add_user("ann"), await world.add_user("bob")
    eve = await world.add_user("eve", "auditor")
    own = await asked(world, ann, "select secret")
    for _ in range(3):
        await asked(world, bob, "select secret")
    await catch_up(world, services)
    wanted = SessionFilter(search=parse_search("secret"))
    for principal, count in ((ann, 1), (bob, 3), (admin, 4), (eve, 4), (await world.add_user("new"), 0)):
        listed = await services.sessions.find(principal, wanted, Page(count=Count.CAPPED))
        assert (len(listed.items), listed.total, listed.next) == (count, count, None)
    assert await found(services, ann, "secret", user=bob.email) == []
    assert await found(services, ann, "secret", user=ann.email) == [own.id]


async def test_attack_search_finds_no_session_of_another_organisation(
    world: World, services: Services, admin: Principal
) -> None:
    await asked(world, admin, "select secret")
    await catch_up(world, services)
    stranger = await world.stores.sessions.find(
        uuid4(), SessionFilter(search=parse_search("secret")), Page(count=Count.CAPPED)
    )
    assert (list(stranger.items), stranger.total, stranger.next) == ([], 0, None)


async def test_search_and_filters_apply_together(world: World, services: Services, admin: Principal) -> None:
    first = await asked(world, admin, "common", at=START, labels={"a": "b"}, correlation_id="c 1")
    second = await asked(world, admin, "common", at=START + timedelta(1), connection="other", verb=Verb.EXEC)
    await catch_up(world, services)
    assert await found(services, admin, "common", labels=[("a", "b")]) == [first.id]
    assert await found(services, admin, "common", correlation_id="c 1") == [first.id]
    assert await found(services, admin, "common", connection="other") == [second.id]
    assert await found(services, admin, "common", verb=Verb.EXEC, status=SessionStatus.DONE) == [second.id]
    assert await found(services, admin, "common", status=SessionStatus.OPEN) == []
    assert await found(services, admin, "common", end=START) == [first.id]
    assert await found(services, admin, "common", start=START + timedelta(hours=1)) == [second.id]
    assert await found(services, admin, "common", min_duration=61) == []
    assert await found(services, admin, "common", tags=[("env", None, False)]) == [second.id, first.id]


@pytest.mark.parametrize("candidates", [2, 2_000])
async def test_searches_page_by_position(
    world: World, services: Services, admin: Principal, monkeypatch: pytest.MonkeyPatch, candidates: int
) -> None:
    """This includes calls that look at few candidates, most of which a filter excludes."""
    monkeypatch.setattr(sql_sessions, "CANDIDATES", candidates)
    made = [
        await asked(world, admin, "common", at=START - timedelta(days=11 * n), seconds=90 if n % 3 == 0 else 9)
        for n in range(10)
    ]
    await catch_up(world, services)
    for wanted, expected in (
        (SessionFilter(search=parse_search("common")), made),
        (SessionFilter(search=parse_search("common"), min_duration=60), made[::3]),
    ):
        seen: list[UUID] = []
        page = Page(3, count=Count.NONE)
        while True:
            listed = await services.sessions.find(admin, wanted, page)
            seen += [one.id for one in listed.items]
            if listed.next is None:
                break
            page = Page(3, after=listed.next, count=Count.NONE)
        assert seen == [one.id for one in expected]
    for page in (Page(3, 3, count=Count.NONE), Page(3)):
        with pytest.raises(Invalid, match=r"offset|count"):
            await services.sessions.find(admin, wanted, page)


async def test_matches_have_their_time_and_an_excerpt(world: World, services: Services, admin: Principal) -> None:
    long = "select " + "x, " * 100 + "needle\n from " + "y, " * 100
    session = await asked(world, admin, "begin", long, "NEEDLES", 'call "needle"', "needle", "needle")
    await catch_up(world, services)
    search = parse_search("needle -absent")
    matches = (await services.session_texts.matches([session], search))[session.id]
    assert [match.milliseconds for match in matches] == [2000.0, 4000.0, 5000.0]
    assert matches[0].text.startswith("…x, ")
    assert "needle\\n from y" in matches[0].text
    assert matches[0].text.endswith("…")
    assert [match.text for match in matches[1:]] == ['call "needle"', "needle"]


async def test_each_segment_is_indexed_once(world: World, services: Services, admin: Principal) -> None:
    """The archiver can be killed after any step and start again."""
    session = await asked(world, admin)
    index = services.session_texts.index
    assert await index(session.id, 1, [(1.0, "alpha")])
    assert not await index(session.id, 1, [(1.0, "doubled")])
    assert await index(session.id, 2, [(2.0, "beta")])
    assert await found(services, admin, "alpha beta") == [session.id]
    assert await found(services, admin, "doubled") == []
    assert await unread(world) == {session.id: {1, 2}}
    assert await index(session.id, 3, [], is_last=True)
    assert await unread(world) == {}
    assert not await index(uuid4(), 1, [(1.0, "of no session")])


async def test_texts_indexed_while_a_session_runs_are_found_by_its_later_end_reason(
    world: World, services: Services, admin: Principal
) -> None:
    session = await asked(world, admin, seconds=None)
    assert await services.session_texts.index(session.id, 1, [(1.0, "alpha")])
    await services.sessions.close(session.id, reason=EndReason.KILLED, exit_code=None, metrics={}, event_size=0)
    assert await services.session_texts.index(session.id, 2, [(2.0, "beta")], is_last=True)
    assert await found(services, admin, "alpha", end_reason=EndReason.KILLED) == [session.id]


async def test_concurrent_indexing_of_a_session_indexes_it_once(
    world: World, services: Services, admin: Principal
) -> None:
    """Each API process catches up on its own."""
    session = await asked(world, admin, "alpha")
    await asyncio.gather(*(catch_up(world, world.services()) for _ in range(4)))
    assert await found(services, admin, "alpha") == [session.id]
    index = services.session_texts.index
    other = await asked(world, admin)
    assert sum(await asyncio.gather(*(index(other.id, 1, [(1.0, "beta")]) for _ in range(4)))) == 1


async def test_text_that_the_store_rejects_does_not_block_other_texts(
    world: World, services: Services, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = await asked(world, admin, "bad"), await asked(world, admin, "good")
    store = world.stores.session_texts
    index = store.index

    async def fail(session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> bool:
        if session_id == bad.id and pieces:
            raise ValueError("not a text")
        return await index(session_id, segment, pieces, is_last=is_last)

    monkeypatch.setattr(store, "index", fail)
    assert await catch_up(world, services) == 2
    assert await unread(world) == {}
    assert await found(services, admin, "good") == [good.id]


async def test_mebibyte_of_different_words_is_searchable(world: World, services: Services, admin: Principal) -> None:
    session = await asked(world, admin, " ".join(f"{n:06x}ä" for n in range(200_000)))
    await catch_up(world, services)
    assert await found(services, admin, "000007ä") == [session.id]


async def test_segments_indexed_out_of_order_are_stored_in_order(
    world: World, services: Services, admin: Principal
) -> None:
    """The catch-up can index segments that the archiver failed to index."""
    session = await asked(world, admin)
    index = services.session_texts.index
    assert await index(session.id, 3, [(3.0, "gamma")], is_last=True)
    assert await unread(world) == {session.id: {3}}, "two are missing"
    assert await index(session.id, 1, [(1.0, "alpha")])
    assert await index(session.id, 2, [(2.0, "beta")])
    assert not await index(session.id, 3, [(3.0, "gamma")], is_last=True)
    assert await unread(world) == {}
    held = await world.stores.session_texts.pieces([session.id], 1000)
    assert held[session.id] == [(1.0, "alpha"), (2.0, "beta"), (3.0, "gamma")]


async def test_recording_indexed_by_the_archiver_is_not_read_again(
    world: World, services: Services, admin: Principal
) -> None:
    session = await asked(world, admin, "alpha")
    await services.session_texts.index(session.id, 1, [(1.0, "beta")])
    assert await catch_up(world, services) == 1
    assert await found(services, admin, "alpha") == []
    assert await found(services, admin, "beta") == [session.id]
    assert await catch_up(world, services) == 0


async def test_recording_of_another_machine_is_indexed_by_its_archiver(
    world: World, services: Services, admin: Principal
) -> None:
    """The catch-up of this machine finds no file of it, and rejects nothing that arrives later."""
    session = await asked(world, admin)
    assert await catch_up(world, services) == 1
    assert await services.session_texts.index(session.id, 1, [(1.0, "alpha")])
    assert await services.session_texts.index(session.id, 2, [(2.0, "beta")], is_last=True)
    assert await found(services, admin, "alpha beta") == [session.id]


async def test_catch_up_leaves_recently_ended_sessions_to_the_archiver(
    world: World, services: Services, admin: Principal
) -> None:
    session = await asked(world, admin, "alpha", at=world.clock(), seconds=0)
    assert await services.session_texts.catch_up() == 0
    world.clock.forward(seconds=AWAY.total_seconds() + 1)
    assert await services.session_texts.catch_up() == 1
    assert await found(services, admin, "alpha") == [session.id]


async def test_unavailable_blob_store_does_not_block_other_texts_and_loses_none(
    world: World, services: Services, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [await asked(world, admin, "away", at=START) for _ in range(3)]
    here = await asked(world, admin, "here", at=START + timedelta(hours=1))
    read = world.recordings.texts

    def fail(session: Session, without: Set[int]) -> Iterator[tuple[int, list[Piece]]]:
        if session.id in {one.id for one in away}:
            raise Unavailable("the blob store does not answer")
        yield from read(session, without)

    with monkeypatch.context() as patch:
        patch.setattr(world.recordings, "texts", fail)
        patch.setattr(texts, "ROUND", 2)
        # In which round depends on how much of one a slow machine has.
        assert sum([await catch_up(world, services) for _ in range(6)]) == 1
        assert await found(services, admin, "here") == [here.id]
    assert await catch_up(world, services) + await catch_up(world, services) == 3
    assert len(await found(services, admin, "away")) == 3


async def test_running_session_is_found_by_its_stored_segments(
    world: World, services: Services, admin: Principal
) -> None:
    session = await asked(world, admin, seconds=None)
    await services.session_texts.index(session.id, 1, [(1.0, "alpha")])
    assert await found(services, admin, "alpha") == [session.id]
    assert await found(services, admin, "alpha", status=SessionStatus.OPEN) == [session.id]
    assert await found(services, admin, "alpha", status=SessionStatus.DONE) == []
    await services.sessions.close(session.id, reason=EndReason.KILLED, exit_code=None, metrics={}, event_size=0)
    assert await found(services, admin, "alpha", status=SessionStatus.OPEN) == []
    await services.session_texts.index(session.id, 2, [], is_last=True)
    assert await found(services, admin, "alpha", status=SessionStatus.DONE) == [session.id]


async def test_last_segment_indexed_before_the_session_ends_is_found_by_the_end_reason(
    world: World, services: Services, admin: Principal
) -> None:
    session = await asked(world, admin, seconds=None)
    await services.session_texts.index(session.id, 1, [(1.0, "alpha")], is_last=True)
    await services.sessions.close(session.id, reason=EndReason.KILLED, exit_code=None, metrics={}, event_size=0)
    assert await catch_up(world, services) == 1
    assert await found(services, admin, "alpha", end_reason=EndReason.KILLED) == [session.id]


async def test_first_mebibyte_of_text_of_a_large_session_is_indexed(
    world: World, services: Services, admin: Principal
) -> None:
    session = await asked(world, admin, "alpha", "ä" * 700_000, "omega")
    empty = await asked(world, admin, *[""] * 10)
    await catch_up(world, services)
    async with world.database.statement() as connection:
        columns = select(session_texts.c.size, session_texts.c.is_cut).where(session_texts.c.session_id == session.id)
        row = (await connection.execute(columns)).one()
    assert row.is_cut
    assert 1024 * 1024 - 10 < row.size <= 1024 * 1024
    assert await found(services, admin, "alpha") == [session.id]
    assert await found(services, admin, "omega") == []
    assert await services.session_texts.matches([empty], parse_search("alpha")) == {empty.id: []}


async def test_texts_are_deleted_with_their_session(world: World, services: Services, admin: Principal) -> None:
    session = await asked(world, admin, "alpha")
    await catch_up(world, services)
    async with world.database.statement() as connection:
        await connection.execute(delete(sessions).where(sessions.c.id == session.id))
    async with world.database.statement() as connection:
        left = select(func.count()).select_from(session_texts)
        assert (await connection.execute(left)).scalar_one() == 0
        if world.database.is_sqlite:
            words = text("select count(*) from session_words where session_words match 'alpha'")
            assert (await connection.execute(words)).scalar_one() == 0
            await connection.execute(text("insert into session_words (session_words) values ('integrity-check')"))


async def test_script_that_never_ran_is_searchable(world: World, services: Services, admin: Principal) -> None:
    await world.add_connection()
    session = await services.sessions.submit(admin, "shop", "delete from pets", source="127.0.0.1")
    assert await catch_up(world, services) == 0
    await services.sessions.kill(admin, session.id)
    assert await catch_up(world, services) == 1
    assert await found(services, admin, "delete pets") == [session.id]


async def test_script_is_indexed_once_by_catch_up_and_by_the_archiver(
    world: World, services: Services, admin: Principal
) -> None:
    """The script is also the first text that its client sends."""
    script = "delete from pets"
    swept = await asked(world, admin, script, "select 1", script=script, verb=Verb.EXEC)
    assert await catch_up(world, services) == 1
    stored = await asked(world, admin, script=script, verb=Verb.EXEC)
    await services.session_texts.index(stored.id, 1, [(5.0, script), (6.0, "select 1")], is_last=True)
    held = await world.stores.session_texts.pieces([swept.id, stored.id], 1000)
    assert [said for _, said in held[swept.id]] == [said for _, said in held[stored.id]] == [script, "select 1"]
    assert set(await found(services, admin, "delete")) == {swept.id, stored.id}


async def test_unreadable_recording_does_not_block_other_recordings(
    world: World, services: Services, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = await asked(world, admin, "before", script="script of it", verb=Verb.EXEC)
    good = await asked(world, admin, "after")
    read = world.recordings.operations

    def fail(session: Session) -> Sequence[tuple[float, bytes]]:
        if session.id == bad.id:
            raise OSError("input/output error")
        return list(read(session))

    monkeypatch.setattr(world.recordings, "operations", fail)
    assert await catch_up(world, services) == 2
    assert await found(services, admin, "after") == [good.id]
    assert await found(services, admin, "script") == [bad.id]
