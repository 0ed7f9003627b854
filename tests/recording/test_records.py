from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import cross

from postern.domain.sessions.results import Mask
from postern.errors import Malformed
from postern.interception.events import (
    RECORDED,
    ClientOutput,
    Completed,
    End,
    Event,
    Mark,
    Masked,
    Note,
    Operation,
    Phase,
    Refusal,
    Resized,
)
from postern.recording import record_format
from postern.recording.record_format import (
    CRC,
    FILE_PREFIX,
    PREFIX,
    Header,
    decode,
    decode_header,
    encode,
    encode_header,
)


def short(value: object) -> str:
    """Return a test id of bounded length."""
    return repr(value)[:30]


U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**63 - 1)  # stored in 64 bits, of which the first is not used
# Surrogates are part of it: they stand for bytes that the client's encoding does not explain.
TEXT = st.text(st.characters(codec=None, exclude_categories=()))
U16 = st.integers(0, 2**16 - 1)
NAME = st.text(st.characters(codec=None, exclude_categories=()), max_size=128)
MARKS = st.builds(
    Mark,
    mask=st.builds(Mask, rule=NAME, strategy=NAME, info_types=st.lists(NAME, max_size=3).map(tuple)),
    columns=st.lists(U16, max_size=5).map(tuple),
    rows=st.binary(),
    count=U64,
    whole=st.booleans(),
    names=st.lists(st.text(max_size=20), max_size=3).map(tuple),
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        Operation,
        exchange=U64,
        text=TEXT,
        phase=st.sampled_from(Phase),
        values=st.lists(st.none() | st.binary()).map(tuple),
        truncated=st.booleans(),
    ),
    st.builds(ClientOutput, st.binary()),
    st.builds(Masked, exchange=U64, at=U32, size=U32, rows=U32, marks=st.lists(MARKS, max_size=4)),
    st.builds(
        Completed,
        exchange=U64,
        tag=TEXT,
        rows=st.none() | st.integers(0, 2**63 - 1),
        error_code=TEXT,
        error=TEXT,
        micros=U64,
    ),
    st.builds(Refusal, exchange=U64, rule=TEXT, message=TEXT),
    st.builds(Note, text=TEXT, details=st.dictionaries(TEXT, TEXT)),
    st.builds(Resized, columns=U32, rows=U32),
    st.builds(End, reason=TEXT, continues=st.booleans()),
)


def split(record: bytes) -> tuple[int, int, bytes]:
    length, kind, micros = PREFIX.unpack_from(record)
    assert len(record) == PREFIX.size + length + CRC.size
    assert CRC.unpack(record[-CRC.size :])[0] == crc32(record[: -CRC.size])
    return kind, micros, record[PREFIX.size : -CRC.size]


@given(EVENTS, U64)
def test_every_event_round_trips(event: Event, micros: int) -> None:
    kind, at, payload = split(encode(event, micros))
    assert at == micros
    assert decode(kind, payload) == event


def test_every_recorded_event_has_an_encoding() -> None:
    examples = [
        Operation(1, "x"),
        Masked(1, 0, 0, 0, []),
        ClientOutput(b""),
        Completed(1),
        Refusal(1, "rule", "message"),
        Note("x"),
        Resized(1, 1),
        End("x"),
    ]
    assert {type(event) for event in examples} == set(RECORDED)
    assert {split(encode(event, 0))[0] for event in examples} == set(record_format._DECODERS)
    assert len(record_format._DECODERS) == len(RECORDED)


def test_marks_without_names_are_encoded_as_ever() -> None:
    """Recordings of protocols that need no names can be read by versions that know none."""
    mark, named = Mark(Mask("rule", "hash"), (1,), b"\x01"), Mark(Mask("rule", "hash"), (1,), b"\x01", names=("a.b",))
    _, _, payload = split(encode(Masked(1, 0, 9, 2, [mark]), 0))
    _, _, with_names = split(encode(Masked(1, 0, 9, 2, [named]), 0))
    assert with_names == payload + b"\x01\x00\x03\x00a.b"


@given(st.integers(0, 255), st.binary())
def test_invalid_payload_raises_only_malformed(kind: int, payload: bytes) -> None:
    try:
        event = decode(kind, payload)
    except Malformed:
        return
    assert isinstance(event, RECORDED)


@pytest.mark.parametrize(
    ("event", "micros"),
    [
        (Event(), 0),
        (ClientOutput(b"x"), -1),
        (ClientOutput(b"x"), 2**64),
        (Operation(-1, "x"), 0),
        (Completed(1, rows=2**63), 0),
    ],
    ids=["not recorded", "before the start", "too late", "negative exchange", "too many rows"],
)
def test_event_that_the_format_cannot_hold_is_malformed(event: Event, micros: int) -> None:
    with pytest.raises(Malformed):
        encode(event, micros)


def test_payload_over_the_limit_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_format, "MAX_PAYLOAD", 1000)
    with pytest.raises(Malformed, match="larger than 1000 bytes"):
        encode(ClientOutput(bytes(1001)), 0)


def read_header(data: bytes) -> Header:
    size = FILE_PREFIX.size
    return decode_header(data[:size], data[size : -CRC.size], data[-CRC.size :])


def test_header_round_trips(header: Header) -> None:
    assert read_header(encode_header(header)) == header


def test_header_with_any_changed_byte_is_malformed(header: Header) -> None:
    data = encode_header(header)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x40
        with pytest.raises(Malformed):
            read_header(bytes(broken))


def test_error_names_an_unknown_later_format(header: Header) -> None:
    data = bytearray(encode_header(header))
    data[8] = 9
    with pytest.raises(Malformed, match="format 9"):
        read_header(bytes(data))


def header_with(header: Header, changes: dict[str, Any]) -> bytes:
    """Return the bytes of a header whose checksum is right, with some fields replaced or left out."""
    size = FILE_PREFIX.size
    values = {**json.loads(encode_header(header)[size : -CRC.size]), **changes}
    return header_of(json.dumps({name: value for name, value in values.items() if value is not MISSING}).encode())


def header_of(body: bytes) -> bytes:
    data = FILE_PREFIX.pack(record_format.MAGIC, record_format.FORMAT, len(body)) + body
    return data + CRC.pack(crc32(data))


MISSING = object()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, MISSING) for name in Header.__dataclass_fields__),
        *cross(("session", "organisation"), ("not a UUID", 7, None, [])),
        *cross(("segment",), ("x", None, [], float("inf"))),
        *cross(("protocol", "connection", "user"), (7, None, [])),
        *cross(("started_at",), ("yesterday", 7, None, "2026-03-07T10:30:00")),
    ],
)
def test_header_with_a_malformed_field_is_malformed(header: Header, field: str, value: Any) -> None:
    with pytest.raises(Malformed, match="the header of this recording is not valid"):
        read_header(header_with(header, {field: value}))


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("body", [b"", b"{", b"7", b"[]", b"null", b'"text"', b"{}", b"\xff", NESTED], ids=short)
def test_header_with_unexpected_content_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed, match="is not valid"):
        read_header(header_of(body))


EXAMPLES: list[Event] = [
    Operation(1, "select", values=(b"value", None)),
    Completed(1, "SELECT 1", 1, "22012", "division by zero"),
    Refusal(1, "rule", "message"),
    Note("text", {"by": "ada"}),
    Resized(80, 24),
    End("reason"),
]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_payload_that_ends_early_is_malformed(event: Event) -> None:
    kind, _, payload = split(encode(event, 0))
    assert decode(kind, payload) == event
    for size in range(len(payload)):
        with pytest.raises(Malformed, match=f"a record of kind {kind} is not valid"):
            decode(kind, payload[:size])


@pytest.mark.parametrize("phase", [2, 255])
def test_operation_of_an_unknown_phase_is_malformed(phase: int) -> None:
    kind, _, payload = split(encode(Operation(1, "x"), 0))
    with pytest.raises(Malformed):
        decode(kind, payload[:8] + bytes([phase]) + payload[9:])


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        *(
            (kind, body)
            for kind in (record_format.NOTE, record_format.END)
            for body in (b"", b"{", b"7", b"[]", b"null", b"{}")
        ),
        *((kind, NESTED) for kind in (record_format.NOTE, record_format.END)),
        (record_format.NOTE, b'{"text": "x"}'),
        (record_format.NOTE, b'{"details": {}}'),
        (record_format.NOTE, b'{"text": "x", "details": []}'),
        (record_format.NOTE, b'{"text": "x", "details": null}'),
        (record_format.END, b'{"reason": "x"}'),
        (record_format.END, b'{"goes_on": true}'),
    ],
    ids=short,
)
def test_note_or_end_with_unexpected_content_is_malformed(kind: int, payload: bytes) -> None:
    with pytest.raises(Malformed, match=f"a record of kind {kind} is not valid"):
        decode(kind, payload)


@pytest.mark.parametrize("kind", [0, 9, 255])
def test_unknown_kind_of_record_is_malformed(kind: int) -> None:
    with pytest.raises(Malformed, match=f"unknown kind of record {kind}"):
        decode(kind, b"")
