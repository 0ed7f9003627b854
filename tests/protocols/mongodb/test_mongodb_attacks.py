"""Messages by which a client would make the gateway and the target read different commands, and messages that break the
protocol."""

from __future__ import annotations

import json
from typing import Any

import bson
import pytest
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from hypothesis import given
from hypothesis import strategies as st
from tests.support.links import ReadsAll
from tests.support.mongodb_documents import DOCUMENTS
from tests.support.mongodb_links import links, playbook, recorded, runs, sent
from tests.support.protocols import mongodb_test_messages as mg
from tests.support.protocols.playbook import from_client, from_target, record, to_client, to_target

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Operation, Refusal
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link

FIND = {"find": "c", "$db": "shop"}
_OPTIONS = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_AUTO, tz_aware=True)


def _refused(request: bytes, **options: Any) -> tuple[dict[str, Any], str]:
    """Return the error that the client is sent, and the recorded text. Nothing reaches the target."""
    link = links(ReadsAll(), **options)()
    effects = link.receive(Side.CLIENT, request)
    assert sent(effects, Side.TARGET) == b""
    events = recorded(effects)
    (operation,) = [event for event in events if isinstance(event, Operation)]
    assert [event.rule for event in events if isinstance(event, Refusal)] in (["protocol"], ["size"])
    (body,) = mg.bodies(sent(effects, Side.CLIENT))
    assert body["ok"] == 0.0
    assert not link.awaiting_response
    # The link continues.
    assert sent(link.receive(Side.CLIENT, mg.request(FIND, 2)), Side.TARGET)
    return body, operation.text


def _violates(side: Side, data: bytes, *before: tuple[Side, bytes]) -> str:
    """Return why the link ends."""
    link = links(ReadsAll())()
    for each, said in before:
        link.receive(each, said)
    effects = link.receive(side, data)
    (close,) = [effect for effect in effects if isinstance(effect, Close)]
    assert close.reason is EndReason.PROTOCOL_VIOLATION
    assert sent(effects, Side.TARGET) == b""
    return close.message


# Fields that are read differently


@pytest.mark.parametrize(
    "body",
    [
        mg.pairs(("find", "c"), ("filter", {"a": 1}), ("filter", {}), ("$db", "shop")),
        mg.pairs(("find", "c"), ("find", "d"), ("$db", "shop")),
        mg.pairs(("find", "c"), ("$db", "shop"), ("$db", "admin")),
        mg.pairs(("hello", 1), ("$db", "shop"), ("$db", "admin")),
        mg.pairs(("find", "c"), ("lsid", {"id": 1}), ("lsid", {"id": 2}), ("$db", "shop")),
    ],
)
def test_repeated_fields_are_refused(body: bytes) -> None:
    error, _ = _refused(mg.request(body))
    assert error["code"] == m.FAILED_TO_PARSE[0]
    assert "more than once" in error["errmsg"]


@pytest.mark.parametrize("database", [{}, {"$db": 1}, {"$db": ""}, {"$db": None}, {"$db": ["shop"]}])
def test_command_without_one_database_is_refused(database: dict[str, Any]) -> None:
    error, _ = _refused(mg.request({"find": "c", **database}))
    assert "$db" in error["errmsg"]


@pytest.mark.parametrize(
    "body", [{}, {"$db": "shop"}, {"$db": "shop", "drop": "c"}, {"lsid": {"id": 1}, "drop": "c", "$db": "x"}, {"": 1}]
)
def test_message_that_does_not_begin_with_its_command_is_refused(body: dict[str, Any]) -> None:
    error, _ = _refused(mg.request(body))
    assert error["codeName"] == "CommandNotFound"


def test_repeated_names_in_nested_documents_stay_in_the_text() -> None:
    body = mg.pairs(("find", "c"), ("$db", "shop"))
    inner = mg.pairs(("a", 1), ("a", 2))
    element = b"\x03filter\0" + inner
    content = body[4:-1].split(b"\x02$db")[0] + element + b"\x02$db" + body[4:-1].split(b"\x02$db")[1]
    document = (len(content) + 5).to_bytes(4, "little") + content + b"\0"
    with playbook(ReadsAll()) as play:
        play >> from_client(mg.request(document))
        play.forwarded() << record(runs(1, '{"find": "c", "filter": {"a": 1, "a": 2}, "$db": "shop"}'))
        play >> from_target(mg.batch())
        play.forwarded() << record(Completed(1, "find", 0))


@pytest.mark.parametrize("name", ["saslStart", "saslContinue", "authenticate", "logout", "getnonce"])
def test_login_commands_are_refused_and_their_secrets_not_recorded(name: str) -> None:
    error, text = _refused(mg.command(name, 1, payload=b"secret", conversationId=1, db="admin"))
    assert error["code"] == m.UNAUTHORIZED[0]
    assert text == f'{{"{name}": 1, "$db": "admin"}}'


def test_get_more_with_a_command_of_the_clients_own_is_refused() -> None:
    request = mg.command("getMore", bson.Int64(1), collection="c", originatingCommand={"find": "d"})
    error, _ = _refused(request)
    assert "originatingCommand" in error["errmsg"]


@pytest.mark.parametrize("where", ["name", "filter", "database", "field name"])
def test_text_that_is_not_utf8_is_refused(where: str) -> None:
    bad = "\U0001f600"
    body = {
        "find": bad if where == "name" else "c",
        "filter": {bad if where == "field name" else "a": bad if where == "filter" else "b"},
        "$db": bad if where == "database" else "shop",
    }
    error, text = _refused(mg.request(bson.encode(body).replace(bad.encode(), b"\xff\xfe\xff\xfe")))
    assert "UTF-8" in error["errmsg"]
    assert "\ufffd" in text


def test_too_large_message_is_dropped_and_refused() -> None:
    body = {"insert": "c", "$db": "shop"}
    request = mg.request(body, 3, sections=mg.sequence("documents", {"a": "x" * 2000}))
    hint = "Send less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."
    with playbook(ReadsAll(), max_message=1000) as play:
        play >> from_client(request, mg.command("ping", 1, 4))
        play << record(runs(1, '{"insert": "c", "$db": "shop"}', truncated=True))
        message = "a message of more than 1000 bytes is too large to be evaluated"
        play << record(Refusal(1, "size", message)) << record(runs(2, '{"ping": 1, "$db": "shop"}'))
        play << to_client(mg.refusal(message, 3, m.TOO_LARGE, hint))
        play << to_target(mg.command("ping", 1, 4))
        play.leave()


def test_too_large_message_without_a_readable_command_is_refused() -> None:
    error, text = _refused(mg.request({"insert": "c", "a": "x" * 100_000, "$db": "shop"}), max_message=1000)
    assert error["codeName"] == "BSONObjectTooLarge"
    assert text.startswith("message of 100")


def test_too_large_unacknowledged_write_is_not_answered() -> None:
    link = links(ReadsAll(), max_message=1000)()
    request = mg.request({"insert": "c", "a": "x" * 2000, "$db": "shop"}, flags=m.MORE_TO_COME)
    effects = link.receive(Side.CLIENT, request)
    assert sent(effects, Side.CLIENT) == sent(effects, Side.TARGET) == b""
    assert any(isinstance(event, Refusal) for event in recorded(effects))
    assert not link.awaiting_response


def test_text_that_grows_too_much_is_marked_as_truncated() -> None:
    request = mg.request({"insert": "c", "a": [bson.MinKey()] * 50, "$db": "shop"})
    effects = links(max_message=len(request))().receive(Side.CLIENT, request)
    (operation,) = [event for event in recorded(effects) if isinstance(event, Operation)]
    assert operation.truncated
    assert sent(effects, Side.TARGET) == request


# Sections


def _message(*sections: bytes, flags: int = 0) -> bytes:
    return mg.raw_message(flags.to_bytes(4, "little") + b"".join(sections))


BODY = b"\0" + bson.encode({"insert": "c", "$db": "shop"})


@pytest.mark.parametrize("order", ["before", "behind", "between"])
def test_sections_can_have_any_order(order: str) -> None:
    first, last = mg.sequence("ops", {"a": 1}), mg.sequence("nsInfo", {"b": 2}, {})
    request = {
        "before": _message(first, last, BODY),
        "behind": _message(BODY, first, last),
        "between": _message(first, BODY, last),
    }[order]
    with playbook(ReadsAll()) as play:
        play >> from_client(request)
        play.forwarded() << record(
            runs(1, '{"insert": "c", "ops": [{"a": 1}], "nsInfo": [{"b": 2}, {}], "$db": "shop"}')
        )
        play >> from_target(mg.ok(n=1))
        play.forwarded() << record(Completed(1, "insert", 1))


@pytest.mark.parametrize(
    "sections",
    [
        (BODY, mg.sequence("documents", {"a": 1}), mg.sequence("documents", {"b": 1})),
        (b"\0" + bson.encode({"insert": "c", "documents": [], "$db": "x"}), mg.sequence("documents", {"b": 1})),
        (BODY, mg.sequence("filter", {"b": 1})),
        (BODY, mg.sequence("$db", {"b": 1})),
        (BODY, mg.sequence("a.b", {"b": 1})),
        (BODY, mg.sequence("", {"b": 1})),
    ],
)
def test_ambiguous_sections_are_refused(sections: tuple[bytes, ...]) -> None:
    error, _ = _refused(_message(*sections))
    assert error["code"] == m.FAILED_TO_PARSE[0]


@pytest.mark.parametrize(
    "sections",
    [
        (BODY, BODY),
        (mg.sequence("documents", {"a": 1}),),
        (BODY, b"\2" + bson.encode({})),
        (BODY, b"\xff"),
        (BODY, b"\1"),
        (BODY, b"\1\4\0\0\0"),
        (BODY, b"\1\xff\xff\xff\x7f" + b"a\0"),
        (BODY, b"\1\xff\xff\xff\xff" + b"a\0"),
        (BODY, mg.sequence("documents", {"a": 1})[:-1] + b"\1"),
        (BODY, m.encode_sequence(b"documents", b"\x06\0\0\0\0")),
        (BODY, m.encode_sequence(b"documents", b"\x05\0\0\0\0\0")),
        (BODY[:-1],),
        (b"\0" + b"\xff\xff\xff\x7f" + b"\0" * 10,),
        (),
    ],
)
def test_broken_sections_end_the_link(sections: tuple[bytes, ...]) -> None:
    _violates(Side.CLIENT, _message(*sections))


@pytest.mark.parametrize("flag", range(2, 16))
def test_unknown_required_flags_end_the_link(flag: int) -> None:
    assert "flags" in _violates(Side.CLIENT, _message(BODY, flags=1 << flag))
    assert "flags" in _violates(Side.TARGET, mg.reply({"ok": 1}, flags=1 << flag), (Side.CLIENT, _message(BODY)))


def test_checksum_that_leaves_no_room_ends_the_link() -> None:
    _violates(Side.CLIENT, _message(BODY, flags=m.CHECKSUM_PRESENT))


@pytest.mark.parametrize("size", [-1, 0, 15, 16, 20, 25, m.MAX_MESSAGE + 1, (1 << 31) - 1])
def test_impossible_lengths_end_the_link(size: int) -> None:
    message = size.to_bytes(4, "little", signed=True) + _message(BODY)[4:]
    _violates(Side.CLIENT, message)
    _violates(Side.TARGET, size.to_bytes(4, "little", signed=True) + mg.ok()[4:], (Side.CLIENT, _message(BODY)))


def _nested(levels: int) -> bytes:
    document = bson.encode({})
    for _ in range(levels - 1):
        element = b"\x03a\0" + document
        document = (len(element) + 5).to_bytes(4, "little") + element + b"\0"
    return document


def test_documents_that_are_nested_too_deeply_end_the_link() -> None:
    def request(levels: int) -> bytes:
        content = bson.encode({"find": "c", "$db": "shop"})[4:-1] + b"\x03filter\0" + _nested(levels - 1)
        return mg.request((len(content) + 5).to_bytes(4, "little") + content + b"\0")

    assert sent(links(ReadsAll())().receive(Side.CLIENT, request(200)), Side.TARGET)
    assert "levels" in _violates(Side.CLIENT, request(201))
    assert "levels" in _violates(Side.CLIENT, request(5_000))


@pytest.mark.parametrize("kind", [0, 1, 2001, 2002, 2004, 2005, 2006, 2007, 2010, 2011, 2012, 2014])
def test_other_kinds_of_messages_end_the_link(kind: int) -> None:
    _violates(Side.CLIENT, mg.raw_message(bytes(40), kind=kind))
    _violates(Side.TARGET, mg.raw_message(bytes(40), 5, to=1, kind=kind), (Side.CLIENT, _message(BODY)))


# The target


@pytest.mark.parametrize(
    "answer",
    [
        mg.ok(2),
        mg.ok(0),
        mg.reply({"ok": 1}, flags=m.MORE_TO_COME),
        _message(BODY, mg.sequence("documents", {"a": 1})),
        mg.batch({"a": 1})[:-1] + b"\1",
        mg.ok(1, cursor={"firstBatch": [5], "id": 0, "ns": ""}),
    ],
)
def test_replies_that_break_the_protocol_end_the_link(answer: bytes) -> None:
    _violates(Side.TARGET, answer, (Side.CLIENT, mg.request(FIND)))


def test_reply_that_no_request_waits_for_ends_the_link() -> None:
    _violates(Side.TARGET, mg.ok(1))
    _violates(Side.TARGET, mg.ok(1), (Side.CLIENT, mg.request(FIND)), (Side.TARGET, mg.ok(1)))


def test_reply_to_an_unacknowledged_write_ends_the_link() -> None:
    _violates(Side.TARGET, mg.ok(1), (Side.CLIENT, mg.request(FIND, flags=m.MORE_TO_COME)))


def test_reply_to_a_later_request_ends_the_link() -> None:
    _violates(Side.TARGET, mg.ok(2), (Side.CLIENT, mg.request(FIND, 1) + mg.request(FIND, 2)))


def test_violation_is_reported_as_the_reply_to_the_pending_request() -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, mg.request(FIND, 7))
    (body,) = mg.bodies(sent(link.receive(Side.TARGET, mg.ok(8)), Side.CLIENT))
    assert body["codeName"] == "ProtocolError"


def test_replies_before_a_violation_are_forwarded() -> None:
    link = links()()
    link.receive(Side.CLIENT, mg.request(FIND, 7))
    effects = link.receive(Side.TARGET, mg.ok(7) + mg.ok(8))
    assert sent(effects, Side.CLIENT) == mg.ok(7)
    assert isinstance(effects[-1], Close)


@pytest.mark.parametrize("change", ["cut", "longer", "size"])
def test_large_reply_that_is_no_document_ends_the_link_though_it_passes_in_pieces(change: str) -> None:
    answer = mg.batch({"a": "x" * 200_000}, {"b": 1})
    if change == "cut":
        answer = (len(answer) - 1).to_bytes(4, "little") + answer[4:-1]
    elif change == "longer":
        answer = (len(answer) + 1).to_bytes(4, "little") + answer[4:] + b"\0"
    else:
        answer = answer[:21] + b"\x05\0\0\0" + answer[25:]
    for size in (1000, len(answer)):
        link = links()()
        link.receive(Side.CLIENT, mg.request(FIND))
        effects = [
            effect
            for start in range(0, len(answer), size)
            for effect in link.receive(Side.TARGET, answer[start : start + size])
        ]
        assert any(isinstance(effect, Close) for effect in effects)


# Anything


def _link() -> Link:
    return links(ReadsAll())()


@given(DOCUMENTS, st.data())
def test_damaged_requests_are_refused_or_end_the_link(document: bytes, data: Any) -> None:
    """No bytes of a client make the gateway fail."""
    damaged = bytearray(mg.request(document, sections=mg.sequence("documents", document)))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for effect in _link().receive(Side.CLIENT, bytes(damaged)):
        if isinstance(effect, Close):
            assert effect.reason is EndReason.PROTOCOL_VIOLATION


@given(DOCUMENTS, st.data())
def test_damaged_replies_pass_or_end_the_link(document: bytes, data: Any) -> None:
    content = document[4:-1] + bson.encode({"cursor": {"firstBatch": [{"a": 1}], "id": 5}, "ok": 1})[4:-1]
    damaged = bytearray(mg.reply((len(content) + 5).to_bytes(4, "little") + content + b"\0"))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    link = _link()
    link.receive(Side.CLIENT, mg.request({"serverStatus": 1, "$db": "admin"}))
    for effect in link.receive(Side.TARGET, bytes(damaged)):
        if isinstance(effect, Close):
            assert effect.reason is EndReason.PROTOCOL_VIOLATION


@given(st.binary(max_size=200))
def test_any_bytes_end_the_link_or_wait_for_more(data: bytes) -> None:
    for side in Side:
        link = _link()
        for effect in link.receive(side, data):
            if isinstance(effect, Close):
                assert effect.reason is EndReason.PROTOCOL_VIOLATION


def test_command_with_very_many_fields_ends_the_link() -> None:
    request = mg.request({"find": "c", "$db": "shop", **{f"f{number}": 1 for number in range(1000)}})
    assert "fields" in _violates(Side.CLIENT, request)


@given(st.lists(DOCUMENTS, max_size=3), DOCUMENTS, st.booleans(), st.booleans())
def test_text_is_that_of_what_reaches_the_target(
    inserted: list[bytes], options: bytes, is_standalone: bool, is_first: bool
) -> None:
    """The target reads the same command that was judged, as MongoDB's own library decodes it."""
    body = {"insert": "c", "options": RawBSONDocument(options), "txnNumber": bson.Int64(1), "$db": "shop"}
    section = mg.sequence("documents", *inserted)
    flags = m.EXHAUST_ALLOWED.to_bytes(4, "little")
    parts = [section, b"\0" + bson.encode(body)] if is_first else [b"\0" + bson.encode(body), section]
    link = links(ReadsAll(), parameters={"kind": "standalone" if is_standalone else "mongos"})()
    effects = link.receive(Side.CLIENT, mg.raw_message(flags + b"".join(parts)))
    (operation,) = [event for event in recorded(effects) if isinstance(event, Operation)]
    forwarded = sent(effects, Side.TARGET)
    message = m.parse_message(forwarded)
    (sequence,) = message.sequences
    decoded = bson.decode(forwarded[message.pos : message.end], _OPTIONS)
    database = decoded.pop("$db")
    decoded["documents"] = bson.decode_all(forwarded[sequence.pos : sequence.end], _OPTIONS)
    decoded["$db"] = database
    assert ("txnNumber" in decoded) is not is_standalone
    expected = json_util.dumps(decoded, json_options=json_util.RELAXED_JSON_OPTIONS)
    assert json.loads(operation.text) == json.loads(expected)
    assert list(json.loads(operation.text)) == list(decoded)
