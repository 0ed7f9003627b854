"""Batches that arrive in parts: what is forwarded early, and how later denials and reviews are handled."""

from __future__ import annotations

import pytest
from tests.support.links import (
    Asks,
    Masks,
    ReadsAll,
    Words,
    links,
    operation,
    pipeline,
    playbook,
    prepare,
    refusal,
    refused,
)
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import (
    Playbook,
    from_client,
    from_target,
    pause,
    renew,
    resume,
    to_client,
    to_target,
)

from postern.interception.events import Completed
from postern.interception.pipeline import Interceptor
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.postgres.wire import postgres_messages as messages
from postern.protocols.wire_base import Side
from postern.relay.link import Close, HoldEffect

RUN = [pg.parse("insert"), pg.bind(), pg.execute()]
DONE = [pg.parse_complete(), pg.bind_complete(), pg.command_complete("INSERT 0 1")]
POISON = pg.parse("denied by the gateway")
SYNTAX = pg.error("syntax error at or near refused")
FAILED = Completed(1, error_code="42601", error="bad")
INSERTED = Completed(1, "INSERT 0 1", 1)
QUESTION = HoldEffect("t1", "may review this run?")
TOO_LATE = (
    "may review this run?; statements before it in the same batch have already run, so it cannot wait for a review "
    "and was denied together with them"
)
TOO_LATE_HINT = "Send it in a batch of its own (a Sync before it), or send the whole batch without a pause or a Flush."

UNNEEDED: dict[str, list[Interceptor]] = {"no rule": [], "masking": [Masks()], "reading": [ReadsAll()]}
NEEDED: dict[str, list[Interceptor]] = {"deny": [Words()], "review": [Asks()], "deny and masking": [Words(), Masks()]}
ALL = {**UNNEEDED, **NEEDED}


def describes(interceptors: list[Interceptor]) -> list[bytes]:
    """The messages that the gateway inserts before each Execute if an interceptor reads rows."""
    return [pg.describe_portal()] if any(isinstance(one, Masks | ReadsAll) for one in interceptors) else []


def described(interceptors: list[Interceptor]) -> list[bytes]:
    return [pg.no_data()] if describes(interceptors) else []


def begun(play: Playbook, policy: str) -> list[Interceptor]:
    """Send a statement without a Sync and wait, as a client."""
    interceptors = ALL[policy]
    sent = [*RUN[:2], *describes(interceptors), RUN[2]]
    play >> from_client(*RUN)
    if policy in NEEDED:
        play >> pause()
        sent.append(pg.flush())
    play << operation(1, "insert") << to_target(*sent)
    return interceptors


@pytest.mark.parametrize("policy", ALL)
def test_error_reaches_a_client_that_has_not_sent_its_sync(policy: str) -> None:
    with playbook(*ALL[policy]) as play:
        begun(play, policy)
        play >> from_target(pg.error("bad"))
        play << FAILED
        play.forwarded()
        play >> from_client(pg.sync())
        play.forwarded()
        play >> from_target(pg.ready())
        play.forwarded()


@pytest.mark.parametrize("policy", ALL)
def test_batch_continues_after_its_first_part(policy: str) -> None:
    with playbook(*ALL[policy]) as play:
        interceptors = begun(play, policy)
        play >> from_target(*DONE[:2], *described(interceptors), DONE[2])
        play << INSERTED << to_client(*DONE)
        play >> from_client(*RUN, pg.sync())
        play << operation(2, "insert")
        play << to_target(*RUN[:2], *describes(interceptors), RUN[2], pg.sync())
        play >> from_target(*DONE[:2], *described(interceptors), DONE[2], pg.ready())
        play << Completed(2, "INSERT 0 1", 1) << to_client(*DONE, pg.ready())


@pytest.mark.parametrize("policy", NEEDED)
def test_batch_that_is_judged_whole_is_forwarded_only_after_a_pause(policy: str) -> None:
    link = links(*NEEDED[policy])()
    assert link.receive(Side.CLIENT, b"".join(RUN)) == []
    first = link.open_batch
    assert first
    assert link.flush()
    assert not link.open_batch
    assert link.receive(Side.CLIENT, b"".join(RUN)) == []
    assert link.open_batch not in (0, first)


@pytest.mark.parametrize("policy", UNNEEDED)
def test_batch_that_is_judged_in_parts_is_forwarded_at_once(policy: str) -> None:
    link = links(*UNNEEDED[policy])()
    assert link.receive(Side.CLIENT, b"".join(RUN)[:-1])
    assert not link.open_batch


@pytest.mark.parametrize(
    ("interceptors", "waits", "reviews"),
    [
        ([ReadsAll()], False, False),
        ([ReadsAll(), Words()], True, False),
        ([Asks(), Words()], True, True),
        ([Words(), Masks(), Asks()], True, True),
    ],
)
def test_batch_need_is_the_strictest_of_all_interceptors(
    interceptors: list[Interceptor], waits: bool, reviews: bool
) -> None:
    link = links(*interceptors)()
    link.receive(Side.CLIENT, b"".join(RUN))
    assert (bool(link.open_batch), link.may_review_batches) == (waits, reviews)
    link.flush()
    link.receive(Side.CLIENT, b"".join(RUN))
    assert (bool(link.open_batch), link.may_review_batches) == (waits, False)


def test_pause_without_an_open_batch_changes_nothing() -> None:
    with playbook(Words()) as play:
        play >> pause()
        play >> from_client(pg.parse("x")[:4])
        play >> pause()
        play.leave()


def test_withheld_batch_is_forwarded_after_a_policy_without_batch_need() -> None:
    with playbook(Words()) as play:
        play >> from_client(*RUN)
        play >> renew(pipeline())
        play >> from_client(pg.sync())
        play << operation(1, "insert") << to_target(*RUN, pg.sync())
        play >> from_target(*DONE, pg.ready())
        play << INSERTED
        play.forwarded()


# Refusals


@pytest.mark.parametrize("end", [pg.sync(), pg.flush(), b""])
def test_denial_rolls_back_the_part_of_the_batch_that_has_run(end: bytes) -> None:
    """The target fails at once, even before the client's Sync."""
    with playbook(Words()) as play:
        begun(play, "deny")
        play >> from_client(pg.parse("drop"), end)
        if not end:
            play >> pause()
        play << prepare(2, "drop") << refusal(2)
        play << to_target(POISON, *([pg.sync()] if end == pg.sync() else []))
        play >> from_target(*DONE, SYNTAX)
        play << INSERTED << to_client(*DONE, refused())
        if end != pg.sync():
            play >> from_client(pg.bind(), pg.execute(), pg.sync())
            play << to_target(pg.sync())
        play >> from_target(pg.ready())
        play.forwarded()


def test_denial_after_a_part_that_only_prepared_does_not_fail_the_transaction() -> None:
    """The target's answers to the first part are flushed so that the denial follows them."""
    with playbook(Words()) as play:
        play >> from_client(pg.parse("select 1", "s"))
        play >> pause()
        play << prepare(1, "select 1") << to_target(pg.parse("select 1", "s"), pg.flush())
        play >> from_client(pg.parse("drop"))
        play >> pause()
        play << prepare(1, "drop") << refusal(1) << to_target(pg.flush())
        play >> from_target(pg.parse_complete())
        play << to_client(pg.parse_complete(), refused())
        play >> from_client(pg.sync())
        play.forwarded()
        play >> from_target(pg.ready(b"T"))
        play.forwarded()


def test_denial_of_the_first_part_is_sent_at_once_and_not_to_the_target() -> None:
    with playbook(Words()) as play:
        play >> from_client(*RUN, pg.parse("drop"))
        play >> pause()
        play << prepare(1, "insert") << operation(1, "insert") << prepare(2, "drop") << refusal(1)
        play << to_client(refused())
        play >> from_client(*RUN, pg.sync())
        play << to_client(pg.ready())


def test_error_of_the_target_suppresses_a_later_denial() -> None:
    with playbook(Words()) as play:
        begun(play, "deny")
        play >> from_target(pg.error("bad"))
        play << FAILED
        play.forwarded()
        play >> from_client(pg.parse("drop"))
        play >> pause()
        play << prepare(2, "drop") << refusal(2)
        play >> from_client(pg.sync())
        play.forwarded()
        play >> from_target(pg.ready())
        play.forwarded()


def test_denied_query_after_a_part_ends_the_batch_with_an_error() -> None:
    with playbook(Words()) as play:
        begun(play, "deny")
        play >> from_client(pg.query("drop"))
        play << operation(2, "drop") << refusal(2) << to_target(pg.query("denied by the gateway"))
        play >> from_target(*DONE, SYNTAX, pg.ready())
        play << INSERTED << to_client(*DONE, refused(), pg.ready())


def test_denial_after_a_starting_copy_fails_the_copy() -> None:
    """The target receives a message that is invalid in a copy. Its error is sent and the denial is skipped."""
    unexpected = "unexpected message type 0x50 during COPY from stdin"
    with playbook(Words()) as play:
        play >> from_client(pg.parse("copy t from stdin"), pg.bind(), pg.execute())
        play >> pause()
        play << operation(1, "copy t from stdin")
        play << to_target(pg.parse("copy t from stdin"), pg.bind(), pg.execute(), pg.flush())
        play >> from_client(pg.parse("drop"))
        play >> pause()
        play << prepare(2, "drop") << refusal(2) << to_target(POISON)
        play >> from_target(pg.parse_complete(), pg.bind_complete(), pg.copy_in(), pg.error(unexpected, "08P01"))
        play << Completed(1, error_code="08P01", error=unexpected)
        play.forwarded()
        play >> from_client(pg.sync())
        play.forwarded()
        play >> from_target(pg.ready())
        play.forwarded()


# Reviews


@pytest.mark.parametrize("approved", [True, False])
def test_review_of_the_first_part_holds_the_whole_part(approved: bool) -> None:
    batch = [*RUN, pg.parse("review this"), pg.bind(), pg.execute()]
    with playbook(Asks()) as play:
        play >> from_client(*batch)
        play >> pause()
        play << QUESTION
        play >> from_client(pg.sync())
        if approved:
            play >> resume("t1", FORWARD)
            play << QUESTION  # the Parse is reviewed first
        play >> resume("t1", FORWARD if approved else Refuse("asks", "no"))
        if approved:
            play << operation(1, "insert") << operation(2, "review this")
            play << to_target(*batch, pg.flush(), pg.sync())
            play >> from_target(*DONE, *DONE, pg.ready())
            play << INSERTED << Completed(2, "INSERT 0 1", 1)
            play.forwarded()
        else:
            play << prepare(1, "insert") << operation(1, "insert")
            play << prepare(2, "review this") << operation(2, "review this") << refusal(1, "asks", "no")
            play << to_client(refused("no"), pg.ready())


@pytest.mark.parametrize("first", ["a pause", "a flush"])
def test_review_after_a_part_that_has_run_is_denied(first: str) -> None:
    with playbook(Asks()) as play:
        if first == "a pause":
            begun(play, "review")
        else:
            play >> from_client(*RUN, pg.flush())
            play << operation(1, "insert")
            play.forwarded()
        play >> from_client(pg.parse("review this"), pg.bind(), pg.execute(), pg.sync())
        play << prepare(2, "review this") << operation(2, "review this") << refusal(2, "", TOO_LATE)
        play << to_target(POISON, pg.sync())
        play >> from_target(*DONE, SYNTAX, pg.ready())
        play << INSERTED
        play << to_client(*DONE, messages.error_response("42501", TOO_LATE, hint=TOO_LATE_HINT), pg.ready())


def test_review_after_a_part_that_only_prepared_is_held() -> None:
    with playbook(Asks("run this")) as play:
        play >> from_client(pg.parse("run this?", "s"), pg.flush())
        play << HoldEffect("t1", "may run this? run?")
        play >> resume("t1", FORWARD)
        play << prepare(1, "run this?") << to_target(pg.parse("run this?", "s"), pg.flush())
        play >> from_target(pg.parse_complete())
        play.forwarded()
        play >> from_client(pg.bind("", "s"), pg.execute(), pg.sync())
        play << HoldEffect("t1", "may run this? run?")
        play >> resume("t1", FORWARD)
        play << operation(2, "run this?") << to_target(pg.bind("", "s"), pg.execute(), pg.sync())
        play >> from_target(*DONE[1:], pg.ready())
        play << Completed(2, "INSERT 0 1", 1)
        play.forwarded()


def test_no_review_is_requested_for_statements_that_the_target_skips() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.parse("bad"), pg.flush())
        play << prepare(1, "bad")
        play.forwarded()
        play >> from_target(pg.error("bad"))
        play << FAILED
        play.forwarded()
        play >> from_client(pg.parse("review this"), pg.bind(), pg.execute(), pg.sync())
        play << prepare(2, "review this") << operation(2, "review this") << refusal(2, "", TOO_LATE)
        play << to_target(pg.sync())
        play >> from_target(pg.ready())
        play.forwarded()


def test_review_is_requested_in_the_batch_after_a_complete_one() -> None:
    with playbook(Asks()) as play:
        play >> from_client(*RUN, pg.sync(), pg.query("review this"))
        play << operation(1, "insert") << to_target(*RUN, pg.sync()) << QUESTION
        play.leave()


# What a cut must not change


@pytest.mark.parametrize("policy", ALL)
def test_name_redefined_by_the_first_part_means_only_the_new_statement(policy: str) -> None:
    """If a Bind runs, the Parse of its batch succeeded: otherwise the target skips both."""
    interceptors = ALL[policy]
    with playbook(*interceptors) as play:
        play >> from_client(pg.parse("drop" if policy == "review" else "select 1"), pg.sync())
        old = "drop" if policy == "review" else "select 1"
        play << prepare(1, old)
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.ready())
        play.forwarded()
        play >> from_client(pg.parse("insert"))
        if policy in NEEDED:
            play >> pause()
        play << prepare(2, "insert") << to_target(pg.parse("insert"), *([pg.flush()] if policy in NEEDED else []))
        play >> from_client(pg.bind(), pg.execute(), pg.sync())
        play << operation(2, "insert") << to_target(pg.bind(), *describes(interceptors), pg.execute(), pg.sync())
        play >> from_target(*DONE[:2], *described(interceptors), DONE[2], pg.ready())
        play << Completed(2, "INSERT 0 1", 1) << to_client(*DONE, pg.ready())


@pytest.mark.parametrize("answered", [True, False])
def test_describe_of_the_client_applies_to_an_execute_in_the_next_part(answered: bool) -> None:
    head = [pg.parse("select s"), pg.bind(), pg.describe_portal()]
    answer = [pg.parse_complete(), pg.bind_complete(), pg.row_description("s")]
    with playbook(Masks()) as play:
        play >> from_client(*head)
        play << prepare(1, "select s")
        play.forwarded()
        if answered:
            play >> from_target(*answer)
            play.forwarded()
        play >> from_client(pg.execute(), pg.sync())
        play << operation(1, "select s")
        play.forwarded()
        if not answered:
            play >> from_target(*answer)
            play.forwarded()
        play >> from_target(pg.data_row("secret-1"), pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(1, "SELECT 1", 1)
        play << to_client(pg.data_row("***"), pg.command_complete("SELECT 1"), pg.ready())


def test_statement_names_of_an_endless_batch_are_bounded() -> None:
    """The target skips the messages after its error, so no other limit applies."""
    link = links()()
    link.receive(Side.CLIENT, pg.parse("bad"))
    link.receive(Side.TARGET, pg.error("bad"))
    parses = b"".join(pg.parse("select 1", f"s{n}") for n in range(60_000))
    assert not any(isinstance(effect, Close) for effect in link.receive(Side.CLIENT, parses))
    more = b"".join(pg.parse("select 1", f"t{n}") for n in range(60_000))
    assert any(isinstance(effect, Close) for effect in link.receive(Side.CLIENT, more))


def test_preparing_batch_is_one_exchange_in_any_number_of_parts() -> None:
    with playbook() as play:
        play >> from_client(pg.parse("select 1", "a"))
        play << prepare(1, "select 1")
        play.forwarded()
        play >> from_client(pg.parse("select 2", "b"))
        play << prepare(1, "select 2")
        play.forwarded()
        play >> from_client(pg.sync(), pg.query("select 3"))
        play << operation(2, "select 3")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.parse_complete(), pg.ready())
        play.forwarded()
        play >> from_target(pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(2, "SELECT 1", 1)
        play.forwarded()
