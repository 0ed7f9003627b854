"""Each reader of a line rejects every field that is missing, of the wrong type, or not in its one written form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from tests.support.proofs import BEGIN, ORG, a_record, records

from postern.domain.sessions.ledger import LedgerHead
from postern.errors import Malformed
from postern.proof import package, proof_checkpoints, proof_sessions
from postern.proof import records as record_lines
from postern.proof.canonical import LARGEST, canonical
from postern.proof.package import Manifest, read_manifest, read_seal, seal_content
from postern.proof.proof_checkpoints import format_line, new_key, sign_checkpoint

ID = str(UUID(int=3))
MOMENT = "2026-05-01T12:00:00.000000Z"
HASH = "ab" * 32
# Values that a reader may meet in any field. Texts look like identifiers, digests and moments, with small differences.
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, LARGEST, -LARGEST, "", "x", "1", "\u0000", [], {}, [None], {"x": 1}),
    *({"x": "y"}, {"x": None}, {"x": []}, {"x": {}}, [{}], [1]),
    *(ID, ID.upper().replace("0", "A"), "{" + ID + "}", "urn:uuid:" + ID, ID.replace("-", "")),
    *(MOMENT, "2026-05-01T12:00:00Z", "2026-05-01", "2026-05-01T12:00:00", "9999-99-99", "0001-01-01T00:00:00+23:59"),
    *(HASH, HASH.upper(), HASH[:-1], HASH[:-2], HASH + "ab", " " + HASH[2:], "ab ab"),
)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_hex(value: object) -> bool:
    return value in ("", HASH, HASH[:-2], HASH + "ab", ID.replace("-", ""))


def _is_positive(value: object) -> bool:
    return type(value) is int and value > 0


def _is_facts(value: object) -> bool:
    return isinstance(value, dict) and not any(isinstance(one, list | dict) for one in value.values())


@dataclass(frozen=True)
class Reader:
    """`accepted` says for each field which of VALUES it may hold."""

    read: Callable[[bytes], object]
    line: bytes
    accepted: Mapping[str, Callable[[object], bool]]
    optional: frozenset[str] = frozenset()


def _record_line() -> bytes:
    made = records(a_record())
    return record_lines.format_line(made.records[0])


def _session_line() -> bytes:
    made = a_record()
    return proof_sessions.format_line(*made.sessions[UUID(int=1002)])


KEY, NEXT = new_key(ORG, BEGIN), new_key(ORG, BEGIN)
READERS = {
    "checkpoint": Reader(
        proof_checkpoints.read_line,
        format_line(sign_checkpoint(KEY, LedgerHead(7, bytes(32)), BEGIN, NEXT.public)),
        {
            "organisation": lambda value: value == ID,
            "number": _is_positive,
            "hash": lambda value: value == HASH,
            "at": lambda value: value == MOMENT,
            "key": _is_text,
            "signature": _is_hex,
            "introduces": _is_hex,
        },
        frozenset({"introduces"}),
    ),
    "manifest": Reader(
        read_manifest,
        Manifest(ORG, BEGIN, BEGIN, 4, bytes(32), 9, BEGIN).line(),
        {
            "format": lambda value: value == 1 and value is not True,
            "organisation": lambda value: value == ID,
            "since": lambda value: value in (None, MOMENT),
            "until": lambda value: value in (None, MOMENT),
            "first": _is_positive,
            "before": lambda value: value == HASH,
            "last": lambda value: value is not False and (value == 0 or _is_positive(value)),
            "at": lambda value: value == MOMENT,
        },
    ),
    "seal": Reader(
        read_seal,
        seal_content(KEY, BEGIN, bytes(32)),
        {
            "organisation": lambda value: value == ID,
            "at": lambda _: True,  # only the signature covers it
            "key": _is_text,
            "digest": _is_hex,
            "signature": _is_hex,
        },
    ),
    "session": Reader(
        proof_sessions.read_line,
        _session_line(),
        {
            "session": lambda value: value == ID,
            "entry": lambda value: value is None or _is_positive(value),
            "opening": _is_facts,
            "closing": lambda value: value is None or _is_facts(value),
            "script": lambda value: value is None or _is_text(value),
            "metadata": lambda _: True,  # nothing reads it
            "segments": lambda value: value in ([], {}, ""),  # each means no segment
        },
        frozenset({"metadata"}),
    ),
    "record": Reader(
        record_lines.read_line,
        _record_line(),
        {
            "number": _is_positive,
            "content": lambda _: False,
            "facts": lambda value: value is None or isinstance(value, dict),
            "later": lambda value: value in (True, False) and isinstance(value, bool),
        },
        frozenset({"facts"}),
    ),
}
FIELDS = [(name, field) for name, reader in READERS.items() for field in reader.accepted]


def _is_read(read: Callable[[bytes], object], values: Mapping[str, Any]) -> bool:
    try:
        read(canonical(values))
    except Malformed:
        return False
    return True


@pytest.mark.parametrize("name", READERS)
def test_reader_accepts_line_as_written(name: str) -> None:
    reader = READERS[name]
    values = json.loads(reader.line)
    assert set(values) == set(reader.accepted)
    assert _is_read(reader.read, values)


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_reader_accepts_only_valid_values_of_field(name: str, field: str) -> None:
    reader = READERS[name]
    values = json.loads(reader.line)
    accepted = [repr(value) for value in VALUES if _is_read(reader.read, {**values, field: value})]
    assert accepted == [repr(value) for value in VALUES if reader.accepted[field](value)]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_reader_rejects_line_without_field(name: str, field: str) -> None:
    reader = READERS[name]
    values = json.loads(reader.line)
    del values[field]
    assert _is_read(reader.read, values) == (field in reader.optional)


@pytest.mark.parametrize("name", ["checkpoint", "manifest", "seal"])
def test_reader_rejects_unknown_field_of_signed_line(name: str) -> None:
    reader = READERS[name]
    assert not _is_read(reader.read, {**json.loads(reader.line), "more": 1})


@pytest.mark.parametrize(
    ("field", "is_valid"),
    [
        ("number", _is_positive),
        ("size", lambda value: value is not False and (value == 0 or _is_positive(value))),
        ("digest", _is_hex),
    ],
)
def test_session_reader_accepts_only_valid_values_of_segment(field: str, is_valid: Callable[[object], bool]) -> None:
    values = json.loads(_session_line())
    segment = values["segments"][0]
    for value in VALUES:
        changed = {**values, "segments": [{**segment, field: value}]}
        # `bytes.fromhex` skips blanks; the digest is compared as bytes.
        is_blank = field == "digest" and value in ("ab ab", HASH.upper(), " " + HASH[2:])
        assert _is_read(proof_sessions.read_line, changed) == (is_valid(value) or is_blank), value
    del segment[field]
    assert not _is_read(proof_sessions.read_line, {**values, "segments": [segment]})


@pytest.mark.parametrize("content", [{}, {"subject": 1}, {"subject": "x"}, {"subject": ID.replace("-", "")}])
def test_record_reader_rejects_content_without_subject(content: dict[str, Any]) -> None:
    values = json.loads(_record_line())
    assert not _is_read(record_lines.read_line, {**values, "content": canonical(content).decode()})
    assert _is_read(record_lines.read_line, {**values, "content": canonical({"subject": ID}).decode()})


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("manifest.json", "manifest"),
        ("seal.json", "seal"),
        ("manifest", ""),
        ("seal", ""),
        *((f"{group}-000001.jsonl", group) for group in ("checkpoints", "ledger", "records", "sessions")),
        ("ledger-1000000.jsonl", "ledger"),
        ("ledger-00001.jsonl", ""),
        ("ledger-0000001.jsonl", ""),
        ("ledger-000001.json", ""),
        ("ledger-000001", ""),
        ("ledger-.jsonl", ""),
        ("ledger.jsonl", ""),
        ("segments-000001.jsonl", ""),
        ("manifest-000001.jsonl", ""),
        (f"segments/{ID}.000001.rec", "segments"),
        (f"segments/{ID}.000001.rec.zst", "segments"),
        (f"segments/{ID}.000001.zst", ""),
        (f"segments/{ID}.000001", ""),
        (f"segments/{ID}.00001.rec", ""),
        (f"segments/{ID}.x.rec", ""),
        (f"segments/{ID.replace('-', '')}.000001.rec", ""),
        (f"segment/{ID}.000001.rec", ""),
        (f"{ID}.000001.rec", ""),
        ("", ""),
    ],
)
def test_group_of_member_follows_from_exact_name(name: str, group: str) -> None:
    assert package.group_of(name) == group
