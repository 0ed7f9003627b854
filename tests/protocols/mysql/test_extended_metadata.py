"""MariaDB's extended metadata: a column definition that declares JSON, UUID or address values."""

from __future__ import annotations

import pytest
from tests.support.links import Masks, ReadsAll
from tests.support.mysql_links import links, playbook, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import from_client, from_target, record, to_client

from postern.interception.events import Completed, TextKind
from postern.interception.pipeline import Interceptor
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.recorded.mysql_reading import Answers, ResultHead
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_rows import layout_of
from postern.protocols.wire_base import Side

JSON = b"\x01\x04json"
UUID = b"\x00\x04uuid"
FIELD = m.MysqlField("doc", m.BLOB, collation=45, database="shop", table="j", org_table="j", org_name="doc")
CHOSEN = g.OFFERED | g.EXTENDED_METADATA
HAS = {"extended_metadata": "yes"}
WHO: list[tuple[Interceptor, ...]] = [(), (ReadsAll(),), (Masks(),)]


def answer(extended: bytes | None, *rows: str) -> my.AnswerPackets:
    made = my.AnswerPackets().add(b"\1").add(m.column(0, FIELD, extended)[m.HEAD :]).eof()
    for row in rows:
        made.row(row)
    return made.eof()


@pytest.mark.parametrize("extended", [b"", JSON, UUID, b"\x00" * 12, b"x" * 250])
def test_column_definition_with_extended_metadata_is_parsed(extended: bytes) -> None:
    field = m.parse_field(m.column(0, FIELD, extended)[m.HEAD :])
    assert field == FIELD._replace(type=m.JSON if extended == JSON else m.BLOB)
    assert m.parse_field(m.column(0, FIELD)[m.HEAD :]) == FIELD
    assert m.with_no_metadata(m.column(0, FIELD)[m.HEAD :]) == m.column(0, FIELD, b"")[m.HEAD :]


def test_default_value_after_a_column_definition_is_not_metadata() -> None:
    definition = m.column(0, FIELD)[m.HEAD :] + m.lenenc_text(b"a default")
    assert m.parse_field(definition) == FIELD


def test_mariadb_json_column_has_the_json_kind() -> None:
    layout = layout_of((m.column(0, FIELD, JSON)[m.HEAD :],), False, "utf-8")
    assert layout.columns[0].kind is TextKind.JSON
    assert layout.columns[0].origin == ("shop", "j", "doc")


@pytest.mark.parametrize("who", WHO, ids=["no interceptor", "reading", "masking"])
@pytest.mark.parametrize("extended", [b"", JSON, UUID])
def test_extended_metadata_of_the_target_is_forwarded(extended: bytes, who: tuple[Interceptor, ...]) -> None:
    with playbook(*who, capabilities=CHOSEN, parameters=HAS) as play:
        play >> from_client(my.query("select doc"))
        play.forwarded() << record(runs(1, "select doc"))
        play >> from_target(answer(extended, "plain").bytes)
        play.forwarded() << record(Completed(1, "OK", 1))


@pytest.mark.parametrize("who", WHO, ids=["no interceptor", "reading", "masking"])
@pytest.mark.parametrize("parameters", [{}, {"extended_metadata": "no"}], ids=["an older agent", "MySQL"])
def test_client_receives_empty_metadata_if_the_target_sends_none(
    parameters: dict[str, str], who: tuple[Interceptor, ...]
) -> None:
    with playbook(*who, capabilities=CHOSEN, parameters=parameters) as play:
        play >> from_client(my.query("select doc"))
        play.forwarded() << record(runs(1, "select doc"))
        play >> from_target(answer(None, "plain").bytes)
        play << to_client(answer(b"", "plain").bytes) << record(Completed(1, "OK", 1))


def test_json_rows_are_masked_with_and_without_extended_metadata() -> None:
    for parameters, came in ((HAS, JSON), ({}, None)):
        with playbook(Masks(), capabilities=CHOSEN, parameters=parameters) as play:
            play >> from_client(my.query("select doc"))
            play.forwarded() << record(runs(1, "select doc"))
            play >> from_target(answer(came, '"secret-1"').bytes)
            play << to_client(answer(b"" if came is None else came, '"***"').bytes) << record(Completed(1, "OK", 1))


def test_prepared_and_field_list_definitions_get_empty_metadata() -> None:
    definition, longer = m.column(0, FIELD)[m.HEAD :], m.column(0, FIELD, b"")[m.HEAD :]
    prepared = b"\0\1\0\0\0\1\0\1\0\0\0\0"

    def prepare(one: bytes) -> bytes:
        return my.AnswerPackets().add(prepared).add(one).eof().add(one).eof().bytes

    link = links(capabilities=CHOSEN)()
    link.receive(Side.CLIENT, my.prepare("select doc from j where doc = ?"))
    assert sent(link.receive(Side.TARGET, prepare(definition)), Side.CLIENT) == prepare(longer)
    link.receive(Side.CLIENT, m.command(m.COM_FIELD_LIST, b"j\0"))
    assert sent(link.receive(Side.TARGET, my.AnswerPackets().add(definition).eof().bytes), Side.CLIENT) == (
        my.AnswerPackets().add(longer).eof().bytes
    )


def test_client_without_the_capability_receives_no_extended_metadata() -> None:
    with playbook(ReadsAll(), capabilities=g.OFFERED) as play:
        play >> from_client(my.query("select doc"))
        play.forwarded() << record(runs(1, "select doc"))
        play >> from_target(answer(None, "plain").bytes)
        play.forwarded() << record(Completed(1, "OK", 1))


def test_recorded_answer_is_read_with_and_without_extended_metadata() -> None:
    for extended in (None, b"", JSON):
        answers = Answers()
        found = [answers.take(packet.payload) for packet in m.MysqlPackets(1 << 20).feed(answer(extended, "a").bytes)]
        [head] = [one for one in found if isinstance(one, ResultHead)]
        assert [field.name for field in head.fields] == ["doc"]


@pytest.mark.parametrize("extended", [0, g.EXTENDED_METADATA, 0xFFFFFFFF << 32])
def test_capabilities_beyond_32_bits_are_read_from_mariadb_clients_only(extended: int) -> None:
    offered = g.CLIENTS
    greeting = g.Greeting("8.0.11-Postern", 7, b"x" * 20, offered, "caching_sha2_password")
    assert g.parse_greeting(g.greeting(greeting)[m.HEAD :]).capabilities == offered
    mysql = g.Greeting("8.0.11", 7, b"x" * 20, offered | g.LONG_PASSWORD, "caching_sha2_password")
    assert not g.parse_greeting(g.greeting(mysql)[m.HEAD :]).capabilities >> 32
    response = g.Response(b"ada", b"", g.OFFERED | extended)
    read = g.parse_response(g.response(1, response)[m.HEAD :], offered)
    assert read.capabilities >> 32 == (g.EXTENDED_METADATA >> 32 if extended else 0)
    assert not g.parse_response(g.response(1, response)[m.HEAD :], g.OFFERED).capabilities >> 32
