"""The link itself: held requests, ends, recording, and behaviour when something fails."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from tests.support.links import (
    Asks,
    Breaks,
    Masks,
    ReadsAll,
    Words,
    interpreted_only,
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
    Does,
    OrderCheck,
    PlaybookError,
    client_finishes,
    from_client,
    from_target,
    renew,
    resume,
    target_finishes,
    to_client,
    to_target,
)

from postern.domain.sessions.results import Mask
from postern.domain.sessions.session import EndReason
from postern.interception.events import ClientOutput, Completed, Event, Mark, Masked, Operation, Refusal, Rows
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Hold, Refuse, Verdict, Work
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Side
from postern.relay import link as link_module
from postern.relay.link import MAX_FILLED, Close, HoldEffect, Link, Record, Send

QUESTION = HoldEffect("t1", "may review this run?")
DONE = pg.command_complete("SELECT 1")
ANSWER = [DONE, pg.ready()]


def end(reason: EndReason, text: str) -> Does:
    return Does(f"end: {text}", lambda link: link.end(reason, text, "57P01"))


def test_held_request_is_sent_once_it_is_approved() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review this"))
        play << QUESTION
        play >> resume("t1", FORWARD)
        play << operation(1, "review this") << to_target(pg.query("review this"))
        play >> from_target(*ANSWER)
        play << Completed(1, "SELECT 1", 1)
        play.forwarded()


def test_held_request_that_is_rejected_gets_an_error() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review this"))
        play << QUESTION
        play >> resume("t1", Refuse("review", "the reviewers said no"))
        play << operation(1, "review this") << refusal(1, "review", "the reviewers said no")
        play << to_client(refused("the reviewers said no"), pg.ready())


def test_data_that_arrives_while_a_request_is_held_is_processed_in_order() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("select 0"), pg.query("review this"), pg.query("select 1"))
        play << operation(1, "select 0") << to_target(pg.query("select 0")) << QUESTION
        play >> from_client(pg.query("select 2"))
        play >> from_target(*ANSWER)
        play << Completed(1, "SELECT 1", 1) << to_client(*ANSWER)
        play >> resume("t1", FORWARD)
        play << operation(2, "review this") << operation(3, "select 1") << operation(4, "select 2")
        play << to_target(pg.query("review this"), pg.query("select 1"), pg.query("select 2"))
        play >> from_target(*ANSWER, *ANSWER, *ANSWER)
        play << Completed(2, "SELECT 1", 1) << Completed(3, "SELECT 1", 1) << Completed(4, "SELECT 1", 1)
        play.forwarded()


def test_request_before_a_held_one_is_sent_before_the_hold() -> None:
    effects = links(Asks())().receive(Side.CLIENT, pg.query("select 0") + pg.query("review this"))
    assert [type(effect) for effect in effects] == [Record, Send, HoldEffect]


def test_decision_with_an_unknown_ticket_is_ignored() -> None:
    with playbook(Asks()) as play:
        play >> resume("t1", FORWARD)
        play >> from_client(pg.query("review this"))
        play << QUESTION
        play >> resume("t2", FORWARD)
        play >> from_client(pg.query("select 1"))
        play.leave()


def test_deny_rule_blocks_a_batch_before_an_earlier_statement_of_it_is_held() -> None:
    batch = [pg.parse("review this"), pg.bind(), pg.execute(), pg.parse("drop"), pg.bind(), pg.execute(), pg.sync()]
    link = links(Asks(), Words())()
    effects = link.receive(Side.CLIENT, b"".join(batch))
    assert [type(event) for event in recorded(effects)] == [Operation] * 4 + [Refusal]
    assert sent(effects, Side.TARGET) == b""
    assert not link.held_request  # nobody is asked about what is refused anyway


def test_denial_by_any_interceptor_wins_over_a_hold() -> None:
    for first, second in ((Asks(), Words("this")), (Words("this"), Asks())):
        with playbook(first, second) as play:
            play >> from_client(pg.query("review this"))
            play << operation(1, "review this") << refusal(1, message="the word this is not allowed")
            play << to_client(refused("the word this is not allowed"), pg.ready())


def test_holds_of_several_interceptors_are_decided_one_after_the_other() -> None:
    with playbook(Asks(ticket="t2"), Asks()) as play:  # operations pass them in the opposite order
        play >> from_client(pg.query("review this"))
        play << QUESTION
        play >> resume("t1", FORWARD)
        play << HoldEffect("t2", QUESTION.question)
        play >> resume("t2", FORWARD)
        play << operation(1, "review this") << to_target(pg.query("review this"))
        play >> from_target(*ANSWER)
        play << Completed(1, "SELECT 1", 1)
        play.forwarded()


def test_held_statements_of_one_batch_are_decided_one_after_the_other() -> None:
    batch = [pg.bind("", "s"), pg.parse("review 1"), pg.parse("review 2"), pg.sync()]
    with playbook(Asks()) as play:
        play >> from_client(*batch)
        play << HoldEffect("t1", "may review 1 run?")
        play >> resume("t1", FORWARD)
        play << HoldEffect("t1", "may review 2 run?")
        play >> resume("t1", Refuse("review", "no"))
        play << prepare(1, "review 1") << prepare(1, "review 2")
        play << refusal(1, "review", "no") << to_client(refused("no"), pg.ready())


@dataclass
class Parses:
    """Holds what is to be parsed elsewhere; counts how often it was asked."""

    asked: int = 0
    name: str = "parses"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.DENY

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        self.asked += 1
        return Hold("t1", "this is parsed", work=Work(None, lambda _: FORWARD)) if "long" in event.text else FORWARD


def test_rest_of_a_batch_is_not_judged_while_one_statement_of_it_is_parsed() -> None:
    """Otherwise a batch of thousands would be judged again for each of its statements."""
    parses = Parses()
    batch = [pg.parse(f"long {number}") for number in range(100)]
    link = links(parses)()
    effects = link.receive(Side.CLIENT, b"".join([*batch, pg.sync()]))
    while link.held_request is not None:
        assert link.held_request.hold.work is not None
        assert sent(effects, Side.TARGET) == b""
        effects = link.resume("t1", link.held_request.hold.work())
    assert sent(effects, Side.TARGET).startswith(batch[0])
    assert parses.asked == 100


@pytest.mark.parametrize("texts", [["long", "drop"], ["long", "review", "drop"], ["review", "long", "drop"]])
def test_denied_statement_after_a_parsed_one_blocks_the_whole_batch(texts: list[str]) -> None:
    link = links(Parses(), Asks(), Words())()
    batch = [message for text in texts for message in (pg.parse(text), pg.bind(), pg.execute())]
    effects = link.receive(Side.CLIENT, b"".join([*batch, pg.sync()]))
    while link.held_request is not None:
        assert sent(effects, Side.TARGET) == b""
        effects = link.resume("t1", FORWARD)
    assert sent(effects, Side.TARGET) == b""
    assert [type(event) for event in recorded(effects)][-1] is Refusal


def test_policy_renewed_during_a_hold_judges_the_whole_request_again() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review drop"))
        play << HoldEffect("t1", "may review drop run?")
        play >> renew(pipeline(Words()))
        play >> resume("t1", FORWARD)
        play << operation(1, "review drop") << refusal(1) << to_client(refused(), pg.ready())


def test_attack_rule_added_during_a_hold_applies_to_statements_before_the_held_one() -> None:
    batch = [pg.bind("", "s"), pg.parse("drop"), pg.parse("review this"), pg.sync()]
    with playbook(Asks()) as play:
        play >> from_client(*batch)
        play << QUESTION
        play >> renew(pipeline(Words()))
        play >> resume("t1", FORWARD)
        play << prepare(1, "drop") << prepare(1, "review this") << refusal(1)
        play << to_client(refused(), pg.ready())


def test_interceptor_that_changes_a_request_blocks_it() -> None:
    class Changes(ReadsAll):
        def see(self, event: Event, session: SessionView) -> Verdict:
            return REPLACE

    message = "an interceptor tried to change a request, which this protocol does not support"
    with playbook(Changes(wants=frozenset({Operation}))) as play:
        play >> from_client(pg.query("select 1"))
        play << operation(1, "select 1") << refusal(1, "pipeline", message) << to_client(refused(message), pg.ready())
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review this"))
        play << QUESTION
        play >> resume("t1", REPLACE)
        (
            play
            << operation(1, "review this")
            << refusal(1, "pipeline", message)
            << to_client(refused(message), pg.ready())
        )


def test_interceptor_that_holds_an_answer_blocks_it() -> None:
    class Waits(Masks):
        def see(self, event: Event, session: SessionView) -> Verdict:
            return Hold("t1", "may this be shown?")

    message = "output cannot wait for a decision, so it was blocked"
    with playbook(Waits()) as play:
        play >> from_client(pg.query("select s"))
        play << operation(1, "select s")
        play.forwarded()
        play >> from_target(pg.row_description("s"), pg.data_row("x"), *ANSWER)
        play << refusal(1, "pipeline", message) << Completed(1, "SELECT 1", 1)
        play << to_client(pg.row_description("s"), refused(message), pg.ready())


def test_answer_is_blocked_if_an_interceptor_raises() -> None:
    link = links(Breaks(wants=frozenset(Masks().wants)))()
    link.receive(Side.CLIENT, pg.query("select s"))
    effects = link.receive(Side.TARGET, pg.row_description("s") + pg.data_row("secret-1") + b"".join(ANSWER))
    assert b"secret" not in sent(effects, Side.CLIENT)
    assert b"breaks failed to evaluate this" in sent(effects, Side.CLIENT)


def test_malformed_data_received_during_a_hold_ends_the_link_after_the_decision() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review this"))
        play << QUESTION
        play >> from_client(b"~~~~~")
        play >> resume("t1", FORWARD)
        text = "client broke the protocol: the client sent a message of type 0x7e and length 2122219134"
        play << operation(1, "review this") << to_target(pg.query("review this"))
        play << to_client(pg.error(text, "08P01", "FATAL")) << Close(EndReason.PROTOCOL_VIOLATION)


def test_session_killed_during_a_hold_ignores_the_later_decision() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review this"))
        play << QUESTION
        play >> end(EndReason.KILLED, "this session was killed")
        play << to_client(pg.error("this session was killed", "57P01", "FATAL")) << Close(EndReason.KILLED)
        play >> resume("t1", FORWARD)
        play >> from_client(pg.query("select 1"))
        play >> from_target(pg.notice("x"))
        play >> end(EndReason.IDLE, "again")


def test_client_gets_an_error_when_the_target_closes_the_connection() -> None:
    with playbook() as play:
        play >> from_client(pg.query("select 1"))
        play << operation(1, "select 1")
        play.forwarded()
        play >> target_finishes()
        play << to_client(pg.error("the target closed the connection", "08006", "FATAL"))
        play << Close(EndReason.TARGET_CLOSED)


def test_fatal_error_of_the_target_is_not_followed_by_another_error() -> None:
    fatal = pg.error("terminating connection", "57P01", "FATAL")
    with playbook() as play:
        play >> from_target(fatal)
        play << Completed(0, error_code="57P01", error="terminating connection") << to_client(fatal)
        play >> target_finishes()
        play << Close(EndReason.TARGET_CLOSED)


def test_client_that_closes_its_sending_side_terminates_the_target_session_once() -> None:
    with playbook() as play:
        play >> client_finishes()
        play << to_target(pg.terminate())
        play >> client_finishes()


def test_client_lost_in_a_partly_forwarded_message_does_not_terminate_the_target_session() -> None:
    with playbook() as play:
        play >> from_client(pg.copy_data("half")[:-1])
        play.forwarded()
        play >> client_finishes()


def test_client_lost_in_an_unforwarded_query_terminates_the_target_session() -> None:
    with playbook() as play:
        play >> from_client(pg.query("drop everything")[:-3])
        play >> client_finishes()
        play << to_target(pg.terminate())


def test_duration_of_a_request_is_counted_until_its_completion() -> None:
    now = 100
    link = Link(PostgresWire(), pipeline(), clock=lambda: now)
    link.receive(Side.CLIENT, pg.query("select 1") + pg.query("select 2"))
    now = 350
    first = recorded(link.receive(Side.TARGET, b"".join(ANSWER)))
    now = 400
    second = recorded(link.receive(Side.TARGET, b"".join(ANSWER)))
    assert [event.micros for event in first + second if isinstance(event, Completed)] == [250, 300]


def test_session_counts_operations_and_denied_requests() -> None:
    chain = pipeline(Words())
    link = Link(PostgresWire(), chain, clock=lambda: 0)
    link.receive(Side.CLIENT, pg.query("select 1") + pg.query("drop") + pg.parse("x") + pg.sync())
    assert (chain.session.metrics.operations, chain.session.metrics.refused) == (2, 1)


def test_link_that_could_not_be_recorded_accepts_and_sends_no_more_data() -> None:
    link = links(Asks())()
    link.receive(Side.CLIENT, pg.query("select 1") + pg.query("review this"))
    farewell = link.end_unrecorded("this session cannot be recorded", "58030")
    assert farewell == pg.error("this session cannot be recorded", "58030", "FATAL")
    assert link.held_request is None
    assert link.receive(Side.CLIENT, pg.query("select 2")) == []
    assert link.receive(Side.TARGET, b"".join(ANSWER)) == []
    assert link.resume("t1", FORWARD) == []
    assert link.flush() == link.client_finished() == link.target_finished() == []
    assert link.end(EndReason.KILLED, "an admin killed this session", "57P01") == []
    assert link.end_unrecorded("this session cannot be recorded", "58030") == b""
    assert (link.open_batch, link.has_buffered_output, link.input_paused, link.discarding_response) == (
        0,
        False,
        False,
        False,
    )


def test_fatal_error_that_could_not_be_recorded_is_not_repeated() -> None:
    link = links()()
    link.end(EndReason.KILLED, "an admin killed this session", "57P01")
    assert link.end_unrecorded("this session cannot be recorded", "58030") == b""


@pytest.mark.parametrize("owed", [0, 1, MAX_FILLED, MAX_FILLED + 1])
def test_fatal_error_after_a_partial_message_fills_that_message_with_zeros(owed: int) -> None:
    link = links()()
    link.receive(Side.CLIENT, pg.query("select 1"))
    message = pg.data_row("x" * (MAX_FILLED + 100))
    shown = sent(link.receive(Side.TARGET, message[: len(message) - owed]), Side.CLIENT)
    assert len(shown) == len(message) - owed
    last = sent(link.end(EndReason.KILLED, "an admin killed this session", "57P01"), Side.CLIENT)
    error = pg.error("an admin killed this session", "57P01", "FATAL")
    assert last == (bytes(owed) + error if owed <= MAX_FILLED else b"")


def test_fatal_error_after_an_unrecorded_part_fills_all_that_the_client_lacks() -> None:
    link = links()()
    link.receive(Side.CLIENT, pg.query("select 1"))
    message = pg.data_row("x" * 100)
    link.receive(Side.TARGET, message[:-50])
    link.receive(Side.TARGET, message[-50:-10])  # was not recorded, so the client does not have it
    assert link.end_unrecorded("no", "58030") == bytes(50) + pg.error("no", "58030", "FATAL")


@interpreted_only
def test_wire_that_raises_ends_the_link_without_showing_the_error(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(PostgresWire):
        def feed_target(self, data: bytes) -> None:
            raise RuntimeError("a bug")

    effects = Link(Broken(), pipeline(), clock=lambda: 0).receive(Side.TARGET, b"x")
    assert isinstance(effects[-1], Close)
    assert effects[-1].reason is EndReason.FAILED
    assert b"a bug" not in sent(effects, Side.CLIENT)
    assert "could not be handled" in caplog.text


def test_playbook_with_missing_or_wrong_effects_fails() -> None:
    sent_query, forwarded = from_client(pg.query("select 1")), to_target(pg.query("select 1"))
    with pytest.raises(PlaybookError, match="whole: client sends"), playbook() as play:
        play >> sent_query << operation(1, "select 2") << forwarded
    with pytest.raises(PlaybookError, match="an answer is due"), playbook() as play:
        play >> sent_query << operation(1, "select 1") << forwarded
    with pytest.raises(PlaybookError, match="a request is parked"), playbook(Asks()) as play:
        play >> from_client(pg.query("review this")) << QUESTION
    with pytest.raises(PlaybookError, match="empty"):
        playbook().run()
    with pytest.raises(PlaybookError, match="begins with"), playbook() as play:
        play << operation(1, "x")
    with pytest.raises(PlaybookError, match="inside its `with` block"):
        playbook() >> sent_query


def test_order_check_requires_that_data_is_recorded_before_it_is_sent() -> None:
    unrecorded = Send(Side.CLIENT, b"x")
    with pytest.raises(PlaybookError, match="the client is sent"):
        OrderCheck().check([unrecorded])
    with pytest.raises(PlaybookError, match="the client is sent"):
        OrderCheck().check([unrecorded, Record([ClientOutput(b"x")], 0)])
    with pytest.raises(PlaybookError, match="but not sent"):
        OrderCheck().check([Record([ClientOutput(b"xy")], 0), unrecorded])
    with pytest.raises(PlaybookError, match="after bytes were sent"):
        OrderCheck().check([Send(Side.TARGET, b"x"), Record([operation(1, "x")], 0)])


def recorded(effects: list[Record | Send | HoldEffect | Close]) -> list[Event]:
    events = [event for effect in effects if isinstance(effect, Record) for event in effect.events]
    return [event for event in events if not isinstance(event, ClientOutput)]


def sent(effects: list[Record | Send | HoldEffect | Close], side: Side) -> bytes:
    return b"".join(effect.data for effect in effects if isinstance(effect, Send) and effect.side is side)


@dataclass
class MarksRows(Masks):
    """Marks the second column, and refuses rows in which `top` stands."""

    def see(self, event: Event, session: SessionView) -> Verdict:
        super().see(event, session)
        session.marks.append(Mark(Mask("people", "hash"), (1,), whole=True))
        return Refuse("marks", "no") if self.seen and self.seen[-1] == b"top" else FORWARD


def asked(link: Link) -> None:
    link.receive(Side.CLIENT, pg.query("select a; select b"))


def test_marks_are_recorded_before_the_output_with_the_position_of_their_rows() -> None:
    link = links(MarksRows())()
    asked(link)
    described = pg.row_description(("a", 25, 0))
    first, second = pg.data_row("x") * 2, pg.data_row("yy")
    data = described + first + pg.command_complete("SELECT 2") + described + second + pg.command_complete("SELECT 1")
    (record, _) = link.receive(Side.TARGET, data + pg.ready())
    assert isinstance(record, Record)
    one, other, output, *_ = record.events
    assert isinstance(one, Masked)
    assert isinstance(other, Masked)
    assert isinstance(output, ClientOutput)
    assert output.data[one.at : one.at + one.size] == first
    assert output.data[other.at : other.at + other.size] == second
    assert (one.exchange, one.rows, other.rows) == (1, 2, 1)
    assert one.marks == other.marks == [Mark(Mask("people", "hash"), (1,), whole=True)]


def test_denied_rows_leave_no_marks() -> None:
    link = links(MarksRows())()
    asked(link)
    data = pg.row_description(("a", 25, 0)) + pg.data_row("top") + pg.command_complete("SELECT 1") + pg.ready()
    effects = link.receive(Side.TARGET, data)
    assert not any(isinstance(event, Masked) for event in recorded(effects))
    asked(link)
    data = pg.row_description(("a", 25, 0)) + pg.data_row("x") + pg.command_complete("SELECT 1") + pg.ready()
    assert [len(event.marks) for event in recorded(link.receive(Side.TARGET, data)) if isinstance(event, Masked)] == [1]


@interpreted_only
def test_marks_are_recorded_with_the_names_of_columns_that_readers_number_differently() -> None:
    class Documents(Rows):
        exchange, count = 3, 2

        def recorded_names(self, columns: tuple[int, ...]) -> tuple[str, ...]:
            return tuple(f"path.{column}" for column in columns)

    mark = Mark(Mask("people", "hash"), (1, 4), b"\x02", whole=True)
    found = link_module._collect_marks(Documents(), 5, 9, [mark])
    assert found == Masked(3, 5, 9, 2, [replace(mark, names=("path.1", "path.4"))])
    assert mark.names == ()  # it belongs to a plan for many rows
