"""More parameters than a 16-bit count allows: the target rejects them, and the client receives its error."""

from __future__ import annotations

import struct

import pytest
from tests.support.links import Masks, ReadsAll, Words, links, playbook, prepare, refusal, refused
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import from_client, from_target, record, to_client, to_target

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Operation, Phase
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.wire_base import Side
from postern.relay.link import Send

TEXT = "select 1 where 1 in ($1, …)"
SAID = 'bind message supplies 0 parameters, but prepared statement "" requires 65536'
FAILED = pg.error(SAID, "08P01")
COMPLETED = Completed(1, error_code="08P01", error=SAID)


def wrapped(count: int, value: bytes = b"1", portal: bytes = b"", statement: bytes = b"") -> bytes:
    """Return a Bind as written by drivers that do not check the number of values."""
    values = b"".join([struct.pack("!I", len(value)) + value] * count)
    counts = struct.pack("!HH", 0, count & 0xFFFF)
    return m.message(b"B", portal + b"\0", statement + b"\0", counts, values, b"\0\0")


def pipelined_operation(exchange: int, text: str, *, truncated: bool = False) -> Operation:
    """Return an operation that follows others in a pipeline."""
    return Operation(exchange, text, Phase.RUN, (), truncated, pipelined=True)


def cut(count: int, portal: bytes = b"", statement: bytes = b"") -> bytes:
    return m.message(b"B", portal + b"\0", statement + b"\0", struct.pack("!HH", 0, count & 0xFFFF))


@pytest.mark.parametrize("who", [(), (ReadsAll(),), (Masks(),)], ids=["no interceptor", "reading", "masking"])
@pytest.mark.parametrize("count", [65_536, 65_537, 70_000])
def test_bind_with_too_many_values_is_forwarded_without_values(count: int, who: tuple[ReadsAll, ...]) -> None:
    link = links(*who)()
    parse, rest = pg.parse(TEXT), pg.describe_portal() + pg.execute() + pg.sync()
    effects = link.receive(Side.CLIENT, parse + wrapped(count) + rest)
    sent = b"".join([one.data for one in effects if isinstance(one, Send) and one.side is Side.TARGET])
    assert sent == parse + cut(count) + rest
    answer = pg.parse_complete() + FAILED + pg.ready()
    effects = link.receive(Side.TARGET, answer)
    assert b"".join([one.data for one in effects if isinstance(one, Send)]) == answer
    assert not link.awaiting_response
    assert any(isinstance(one, Send) for one in link.receive(Side.CLIENT, pg.query("select 7")))


MALFORMED = {
    "more values than the count": m.message(b"B", b"\0\0\0\0\0\0" + b"\0\0\0\1x" * 2 + b"\0\0"),
    "a value of length -2": m.message(b"B", b"\0\0\0\0\0\1\xff\xff\xff\xfe\0\0\0\0"),
    "extra bytes": m.message(b"B", bytes(9)),
    "missing result formats": m.message(b"B", bytes(6)),
    "too few formats": m.message(b"B", b"\0\0\0\0\0\0\xff\xff\0\0"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bind_is_shortened_and_rejected_by_the_target(name: str) -> None:
    bind = MALFORMED[name]
    count = bind[9:11]
    with playbook() as play:
        play >> from_client(pg.parse(TEXT), bind, pg.execute(), pg.sync(), pg.query("select 7"))
        play << pipelined_operation(1, TEXT, truncated=True) << pipelined_operation(2, "select 7")
        play << to_target(
            pg.parse(TEXT), m.message(b"B", bytes(4), count), pg.execute(), pg.sync(), pg.query("select 7")
        )
        play >> from_target(pg.parse_complete(), FAILED, pg.ready(), pg.command_complete("SELECT 1"), pg.ready())
        play.forwarded() << record(COMPLETED) << record(Completed(2, "SELECT 1", 1))


def test_describe_for_masking_is_injected_after_a_shortened_bind() -> None:
    """The Describe that masking needs has the right position."""
    bind = MALFORMED["more values than the count"]
    with playbook(Masks()) as play:
        play >> from_client(pg.parse(TEXT), bind, pg.execute(), pg.bind(), pg.execute(), pg.sync())
        play.leave()
        whole = pg.parse(TEXT) + m.message(b"B", bytes(6)) + pg.describe_portal() + pg.execute()
        play << pipelined_operation(1, TEXT, truncated=True) << pipelined_operation(2, TEXT)
        play << to_target(whole, pg.bind(), pg.describe_portal(), pg.execute(), pg.sync())


def test_word_rule_denies_a_malformed_bind() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.parse(TEXT), MALFORMED["extra bytes"], pg.execute(), pg.sync())
        play << prepare(1, TEXT) << pipelined_operation(1, TEXT, truncated=True) << refusal(1)
        play << to_client(refused(), pg.ready())


@pytest.mark.parametrize("types", [b"", b"\0\1", b"\0\0\0\0\0\x17"], ids=["none", "too few", "too many"])
def test_parse_with_malformed_types_is_rejected_by_the_target(types: bytes) -> None:
    failed = pg.error("invalid message format", "08P01")
    parse = m.message(b"P", b"s\0select 1\0", types)
    with playbook() as play:
        play >> from_client(parse, pg.sync())
        play << prepare(1, "select 1") << to_target(m.message(b"P", b"s\0select 1\0\0\0\0"), pg.sync())
        play >> from_target(failed, pg.ready())
        play.forwarded() << record(Completed(1, error_code="08P01", error="invalid message format"))


@pytest.mark.parametrize("count", [0, 1, 65_535, 65_536, 70_000, 131_072])
def test_description_of_more_parameters_than_a_16_bit_count_is_forwarded(count: int) -> None:
    body = struct.pack("!H", count & 0xFFFF) + struct.pack("!I", 23) * count
    assert m.parse_parameter_types(body, 0, len(body)) == (23,) * count
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, pg.parse(TEXT) + pg.describe_statement() + pg.sync())
    answer = pg.parse_complete() + m.message(b"t", body) + pg.no_data() + pg.ready()
    effects = link.receive(Side.TARGET, answer)
    assert b"".join([one.data for one in effects if isinstance(one, Send)]) == answer


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\1", b"\0\0\0\0\0\x17", b"\0\1\0\0\0"], ids=bytes.hex)
def test_parameter_description_with_a_wrong_count_is_a_protocol_violation(body: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        m.parse_parameter_types(body, 0, len(body))
