"""Cells of table-valued parameters under text rules: a word is found in every type and place, in pieces of any size."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.mssql_test_messages import CLIENT, TARGET
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import new_link, sent_to

from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.interception.events import Operation
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_wire import MssqlWire
from postern.relay.link import Record

ZERO = UUID(int=0)
WORD = "zebra"
RULES = {
    "words": Rule(RuleType.DENY_WORDS_LIST, (WORD,), name="words"),
    "pattern": Rule(RuleType.PATTERN_MATCH, (), r"z[e3]bra", "pattern"),
}
NCHAR = ms.text_type(20)
NVARCHAR_MAX = b"\xe7\xff\xff" + ms.LATIN
VARCHAR = b"\xa7" + struct.pack("<H", 40) + ms.LATIN
VARIANT = b"\x62" + struct.pack("<I", 8009)
XML = b"\xf1\0"


def varchar_cell(text: str) -> bytes:
    return struct.pack("<H", len(text)) + text.encode()


def variant_cell(text: str) -> bytes:
    value = b"\xe7\x07" + ms.LATIN + struct.pack("<H", 8000) + ms.utf16(text)
    return struct.pack("<I", len(value)) + value


def call(kinds: tuple[bytes, ...], *rows: tuple[bytes, ...], size: int = 4096) -> bytes:
    """A call of a procedure with a table."""
    described = b"".join([struct.pack("<IH", 0, 0) + kind + b"\0" for kind in kinds])
    table = b"\xf3\x00\x00" + k.encode_short_text("names") + struct.pack("<H", len(kinds)) + described + b"\0"
    cells = b"".join([b"\x01" + b"".join(row) for row in rows])
    return ms.rpc(ms.call("p", b"\0\0" + table + cells + b"\0", ms.integer(1)), size=size)


GOOD = ms.text_cell("horse")
BAD = ms.text_cell(f"a {WORD} b")
CALLS = {
    "one cell": call((NCHAR,), (BAD,)),
    "small packets": call((NCHAR,), *[(GOOD,)] * 50, (BAD,), size=512),
    "the second column": call((NCHAR, NCHAR), (GOOD, BAD)),
    "after a NULL": call((NCHAR, NCHAR), (ms.text_cell(None), BAD)),
    "after a thousand good rows": call((NCHAR,), *[(GOOD,)] * 1000, (BAD,)),
    "chunks of nvarchar(max)": call((NVARCHAR_MAX,), (ms.max_cell(f"a {WORD} b", chunk=2),)),
    "chunks that cut a character": call((NVARCHAR_MAX,), (ms.max_cell(f"a {WORD} b", chunk=3),)),
    "varchar": call((VARCHAR,), (varchar_cell(f"a {WORD} b"),)),
    "sql_variant": call((VARIANT,), (variant_cell(f"a {WORD} b"),)),
    "xml": call((XML,), (ms.max_cell(f"<a>{WORD}</a>", chunk=4),)),
}
HARMLESS = {
    "good rows": call((NCHAR,), *[(GOOD,)] * 10),
    "NULLs": call((NCHAR, NCHAR), (ms.text_cell(None), ms.text_cell(None))),
    "a word over two columns": call((NCHAR, NCHAR), (ms.text_cell("ze"), ms.text_cell("bra"))),
    "no rows": call((NCHAR,)),
}


def outcome(request: bytes, rule: str, size: int) -> tuple[bytes, bytes, tuple[bytes | None, ...]]:
    """Return what the target and the client get, and the recorded values."""
    rail = Guardrail(ZERO, ZERO, "rail", input=(RULES[rule],))
    link = new_link(MssqlWire(), GuardrailInterceptor((rail,)))
    effects = [effect for piece in pieces(request, size) for effect in link.receive(CLIENT, piece)]
    events = [event for effect in effects if isinstance(effect, Record) for event in effect.events]
    (operation,) = [event for event in events if isinstance(event, Operation)]
    return sent_to(TARGET, effects), sent_to(CLIENT, effects), operation.values


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CALLS)
def test_attack_word_in_a_cell_is_denied_and_recorded(name: str, rule: str, size: int) -> None:
    to_target, to_client, values = outcome(CALLS[name], rule, size)
    assert to_target == b""
    assert b"blocked by guardrail" in ms.shown(to_client)
    assert any(value is not None and WORD.encode() in value for value in values)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", HARMLESS)
def test_call_without_the_word_in_a_cell_passes(name: str, rule: str) -> None:
    assert outcome(HARMLESS[name], rule, 0)[:2] == (HARMLESS[name], b"")
