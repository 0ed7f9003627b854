"""Client encodings of PostgreSQL under guardrails. Each test is an attack or a statement that must keep working."""

from __future__ import annotations

import pytest

from postern.interception.events import Operation, Phase
from postern.interception.pipeline import AT_ONCE, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict
from postern.protocols.postgres.dialect.postgres_encodings import ClientEncodings
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

GRUESSE = "select 'Gr\u00fc\u00dfe'"


def see(session: SessionView, text: str, unread: str = "", *, behind: bool = False) -> Verdict:
    session.parsed = 0  # each comes in a read of its own
    return ClientEncodings(PostgresParser()).see(Operation(1, text, unread=unread, pipelined=behind), session)


@pytest.mark.parametrize("encoding", ["SJIS", "BIG5", "GBK", "UHC", "JOHAB", "GB18030", "SHIFT_JIS_2004", "EUC_JP",
                                      "MULE_INTERNAL", "windows932", "mskanji", "Sh-Jis-2004"])  # fmt: skip
@pytest.mark.parametrize(
    "text",
    ["set client_encoding = '{}'", "SET Names '{}'", "set/**/session/**/names/**/'{}'",
     "set local client_encoding to '{}'",
     "select set_config('client_encoding', '{}', false)",
     "select pg_catalog . \"set_config\"('Client_Encoding', '{}', true)",
     "set U&\"client\\005fencoding\" = '{}'", "select 1; set names '{}'", "begin; set client_encoding = '{}'; commit",
     "with a as (select set_config('client_encoding', '{}', false)) select * from a",
     "explain analyze select set_config('client_encoding', '{}', false)",
     "update pg_settings set setting = '{}' where name like 'client_enc%'",
     "alter role all set client_encoding = '{}'"],
)  # fmt: skip
def test_switch_to_an_unreadable_encoding_is_denied(session: SessionView, text: str, encoding: str) -> None:
    verdict = see(session, text.format(encoding))
    assert isinstance(verdict, Refuse)
    assert "client encoding" in verdict.message
    assert "UTF8" in verdict.hint


@pytest.mark.parametrize(
    "text",
    ["select set_config('client' || '_encoding', 'SJIS', false)", "select set_config($1, $2, false)",
     "prepare p as select set_config('client_encoding', $1, false)", "function call 2078",
     "select U&\"\\0073\\0065t_config\"('client_encoding', 'SJIS', false)",
     "set client_encoding = 'SJIS'; select '" + "x" * (1 << 20) + "'"],
)  # fmt: skip
def test_statement_with_unknown_encoding_change_is_denied(session: SessionView, text: str) -> None:
    verdict = see(session, text)
    if isinstance(verdict, Hold):
        assert len(text) > AT_ONCE
        assert verdict.work is not None
        verdict = verdict.work()
    assert isinstance(verdict, Refuse)


def test_preparing_an_unknown_encoding_change_is_denied(session: SessionView) -> None:
    operation = Operation(1, "select set_config('client_encoding', $1, false)", Phase.PREPARE)
    assert isinstance(ClientEncodings(PostgresParser()).see(operation, session), Refuse)


@pytest.mark.parametrize(
    "text",
    ["set client_encoding = 'UTF8'", "set names 'utf-8'", "set client_encoding to LATIN1", "set names 'WIN1252'",
     "reset client_encoding", "set names default", "select set_config('client_encoding', 'sql_ascii', false)",
     "select names, encoding from offsets", "update t set names = 'SJIS'", "show client_encoding", GRUESSE,
     "select set_config('work_mem', '1MB', false)", "select pg_client_encoding()"],
)  # fmt: skip
def test_statement_that_keeps_a_readable_encoding_passes(session: SessionView, text: str) -> None:
    assert see(session, text) is FORWARD


def test_session_in_an_unreadable_encoding_can_only_switch_to_a_readable_one(session: SessionView) -> None:
    for text in ("select 1", GRUESSE, "delete from t where id = 1", "begin; set names 'UTF8'", "not sql"):
        verdict = see(session, text, "SJIS")
        assert isinstance(verdict, Refuse)
        assert "SJIS" in verdict.message or "client encoding" in verdict.message
    assert isinstance(see(session, "set client_encoding = 'BIG5'", "SJIS"), Refuse)
    assert see(session, "set client_encoding = 'UTF8'", "SJIS") is FORWARD
    assert see(session, "reset client_encoding", "SJIS") is FORWARD


@pytest.mark.parametrize("leads", ["do $$ begin perform 1; end $$", "call p()", "rollback", "reset all", "discard all",
                                   "execute p"])  # fmt: skip
def test_pipelined_non_ascii_text_is_denied_after_a_possible_encoding_change(session: SessionView, leads: str) -> None:
    """`E'\u3042\\'` is one character and a quote in UTF-8, and two characters in SJIS."""
    encodings = ClientEncodings(PostgresParser())
    assert encodings.see(Operation(1, leads), session) is FORWARD
    assert isinstance(encodings.see(Operation(2, GRUESSE, pipelined=True), session), Refuse)
    assert encodings.see(Operation(3, "select 1", pipelined=True), session) is FORWARD
    assert encodings.see(Operation(4, GRUESSE), session) is FORWARD  # it was answered


def test_pipelines_of_ordinary_statements_pass(session: SessionView) -> None:
    encodings = ClientEncodings(PostgresParser())
    for number in range(1, 4):
        assert encodings.see(Operation(number, GRUESSE, pipelined=number > 1), session) is FORWARD


def test_large_text_that_names_an_encoding_is_held_for_background_parsing(session: SessionView) -> None:
    verdict = see(session, "set names 'UTF8'; select '" + "x" * AT_ONCE + "'")
    assert isinstance(verdict, Hold)
    assert verdict.work is not None
    assert verdict.work() is FORWARD
    assert see(session, "select '" + "x" * (1 << 20) + "'") is FORWARD
