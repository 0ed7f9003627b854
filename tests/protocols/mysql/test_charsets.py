"""The client's character set: which sets are allowed, and how statements that change it are tracked."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest
from tests.support.links import ReadsAll
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb
from tests.support.mysql_links import links, recorded
from tests.support.protocols import mysql_test_messages as my

from postern.interception.events import Operation
from postern.protocols.mysql.wire import mysql_charsets as charsets
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire import mysql_rows as rows
from postern.protocols.wire_base import Side
from postern.relay.link import Link


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDbServer]:
    with running_mariadb() as server:
        yield server


def record_query(link: Link, text: str | bytes, answer: bytes | None = None) -> Operation:
    """Return the recorded operation of a successful statement."""
    effects = link.receive(Side.CLIENT, my.query(text))
    link.receive(Side.TARGET, my.ok() if answer is None else answer)
    return next(event for event in recorded(effects) if isinstance(event, Operation))


def encoding_after(*texts: str) -> tuple[str, bool]:
    """Return the encoding after these statements, and whether it is unknown."""
    link = links(ReadsAll())()
    for text in texts:
        record_query(link, text)
    found = record_query(link, "select 1")
    return found.encoding, bool(found.unread)


KNOWN = {
    "set names latin1": "cp1252",
    "/*!40101 SET NAMES utf8mb4 */": "utf-8",
    "set/**/names/* a */'koi8r'": "koi8-r",
    "set character set cp1251": "cp1251",
    "select ';set names latin1 '": "utf-8",
    "select 1 /* ;set names latin1 */ # ;set names latin1": "utf-8",
    'select "it\'s"; set names latin1': "cp1252",
    "--\nset names latin1\n": "cp1252",
    "set names latin1 collate latin1_bin": "cp1252",
    "set @@character_set_client = binary": "sql_ascii",
    "select 1; set names latin2": "iso8859-2",
    "set @kept = @@character_set_client": "utf-8",
    "update t set names = 'x', charset = 'gbk'": "utf-8",
    "select character_set_client from t": "utf-8",
}


@pytest.mark.parametrize("text", KNOWN)
def test_explicit_character_set_change_is_tracked(text: str) -> None:
    assert encoding_after(text) == (KNOWN[text], False)


@pytest.mark.parametrize(
    "text",
    [
        "set character_set_client = @other",
        "set autocommit = 1, character_set_client = gbk",
        "set autocommit = 1, names gbk",
        "set character_set_client = (select 'gbk')",
        "/*!99999 set names latin1 */",
        "execute immediate 'set character_set_client = gbk'",
        "set names default",
        "set character_set_client = default",
        "set character_set_client = 'latin1' + 1",
        "select '\\'; set names latin1; -- '",
        "select '\\', ';/*'; set names latin1; -- '",
        "select /*!99999 ' */ 1; set names latin1; -- '",
        "set names latin1;" * 100,
    ],
)
def test_attack_indirect_character_set_change_is_unknown_until_set_names(text: str) -> None:
    assert encoding_after(text)[1]
    assert encoding_after(text, "set names utf8mb4") == ("utf-8", False)


def test_character_set_changes_of_a_dump_are_tracked() -> None:
    dump = [
        "/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */",
        "/*!40101 SET NAMES utf8mb4 */",
        "/*!40101 SET @saved_cs_client     = @@character_set_client */",
        "/*!40101 SET character_set_client = utf8 */",
        "/*!40101 SET character_set_client = @saved_cs_client */",
    ]
    assert encoding_after(*dump) == ("utf-8", False)
    assert encoding_after(*dump, "/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */") == ("utf-8", False)


@pytest.mark.parametrize(
    "between",
    ["set @kept = 'gbk'", "select 'gbk' into @kept", "select @KEPT := 'gbk'", "execute s", "call p()",
     "set character_set_client = @kept, @kept = 'gbk'", "set @`kept` = 'gbk'", "set @'Kept' = 'gbk'",
     'set @"kept" = "gbk"', "select 'gbk' into @`kept`", "set @kèpt = 'gbk'",
     "set character_set_client = @kept := 'gbk'"],
)  # fmt: skip
def test_attack_character_set_from_a_changed_variable_is_unknown(between: str) -> None:
    assert encoding_after("set @kept = @@character_set_client", between, "set character_set_client = @kept")[1]


@pytest.mark.parametrize(
    "text",
    [
        "set character_set_client = @kept := 'gbk'",
        "set character_set_client = @kept$x",
        "set character_set_client = @kept.x",
        "set character_set_client = @kept\u00d7",
        "set character_set_client = @kept = 'utf8mb4'",
    ],
)
def test_attack_character_set_from_an_expression_with_a_known_variable_is_unknown(text: str) -> None:
    assert encoding_after("set @kept = @@character_set_client", text)[1]


def test_attack_tracked_charset_variables_are_bounded() -> None:
    spoken = charsets.CharsetState("utf8mb4")
    for number in range(1000):
        spoken.keep(f"@kept{number}")
    assert len(spoken.kept) < 10


def test_account_name_and_email_literal_do_not_change_a_variable() -> None:
    between = "create definer=`root`@`localhost` view v as select 'kept@example.org', 'J\u00f6rg' from t"
    assert encoding_after(
        "set @kept = @@character_set_client", between, "set character_set_client = @kept"
    ) == ("utf-8", False)  # fmt: skip


def test_attack_variable_changed_while_its_setting_is_in_flight_is_unknown() -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, my.query("set @kept = @@character_set_client") + my.query("select 'gbk' into @kept"))
    link.receive(Side.TARGET, my.ok() + my.ok())
    record_query(link, "set character_set_client = @kept")
    assert record_query(link, "select 1").unread


def test_failed_character_set_change_is_ignored_or_unknown_in_a_batch() -> None:
    link = links(ReadsAll())()
    record_query(link, "set names latin1", my.error("no"))
    assert record_query(link, "select 1").encoding == "utf-8"
    record_query(link, "set names latin1; bad", my.error("no"))
    assert record_query(link, "select 1").unread


def test_connection_reset_restores_the_initial_character_set() -> None:
    link = links(ReadsAll(), collation=8)()
    assert record_query(link, b"select '\xe9'").text == "select 'é'"
    record_query(link, "set names utf8mb4")
    assert record_query(link, "select 'é'").text == "select 'é'"
    link.receive(Side.CLIENT, b"\x01\0\0\0\x1f")
    link.receive(Side.TARGET, my.ok())
    assert record_query(link, b"select '\xe9'").text == "select 'é'"


def test_attack_thousands_of_comments_do_not_change_the_character_set() -> None:
    text = ";" + "/* a */ # b\n-- c\n/*! " * 5000 + "set nothing"
    assert encoding_after(text) == ("utf-8", False)


@pytest.mark.parametrize(
    "unit", [";/*", ",/*", ";#", ";set/*", ";'\\'", ";set a,/*", "character_set_client/*", "@'", ";"]
)
def test_attack_hundred_thousand_unclosed_quotes_or_comments_are_read(unit: str) -> None:
    """Each opening was once followed to the end of the text, which blocked the relay worker."""
    spoken = charsets.CharsetState("utf8mb4")
    spoken.kept["@kept"] = "utf8mb4"
    text = "set names latin1 " + unit * 100_000
    spoken.set_by(text)
    spoken.forget(text)
    assert charsets.sets_unread(text) == ""


def test_server_changes_its_character_set_by_each_untracked_form(mariadb: MariaDbServer) -> None:
    def charset_after(*texts: str) -> object:
        with mariadb.connect() as connection, connection.cursor() as cursor:
            for text in texts:
                cursor.execute(text)
            cursor.execute("select @@character_set_client")
            return cursor.fetchone()[0]

    kept = "set @kept = @@character_set_client"
    assert charset_after(kept, "set @`kept` = 'gbk'", "set character_set_client = @kept") == "gbk"
    assert charset_after(kept, "set character_set_client = @kept := 'gbk'") == "gbk"
    assert charset_after("set @kept$x = 'gbk'", kept, "set character_set_client = @kept$x") == "gbk"
    assert (
        charset_after("set names latin1", "set @@global.character_set_client = latin2", "set names default") == "latin2"
    )
    assert charset_after("--\nset names latin1") == "latin1"


def test_server_reads_prepared_texts_in_the_connection_or_introducer_charset(mariadb: MariaDbServer) -> None:
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set collation_connection = swe7_swedish_ci")
        cursor.execute("prepare p from 'select `, (select 42), `'")
        cursor.execute("execute p using @x, @x")
        assert cursor.fetchone()[1] == 42
        cursor.execute("set names utf8mb4")
        with pytest.raises(pymysql.err.ProgrammingError, match="near '`'"):  # the first one is half of a character
            cursor.execute("prepare p from _gbk'select `\u4f60`, `x`'")


def test_collation_numbers_map_to_the_character_sets_of_a_server(mariadb: MariaDbServer) -> None:
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "select id, character_set_name from information_schema.collation_character_set_applicability "
            "where id between 1 and 254"
        )
        there = {number: name.replace("utf8mb3", "utf8") for number, name in cursor.fetchall()}
    told = {number: charsets.charset_of(number) for number in there}
    assert {number for number, name in told.items() if name not in ("", there[number])} == set()
    never = {"big5", "gbk", "sjis", "cp932", "gb18030", "swe7", "ucs2", "utf16", "utf16le", "utf32"}
    assert {there[number] for number, name in told.items() if not name} <= never


def test_attack_utf16_and_utf32_results_are_decoded_and_masked(mariadb: MariaDbServer) -> None:
    """No detector finds an address in UTF-16 bytes, so the rows are searched as UTF-8."""
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "select id, character_set_name from information_schema.collation_character_set_applicability "
            "where character_set_name in ('ucs2', 'utf16', 'utf16le', 'utf32')"
        )
        for number, name in cursor.fetchall():
            assert charsets.wide_codec(number) == {
                "ucs2": "utf-16-be",
                "utf16": "utf-16-be",
                "utf16le": "utf-16-le",
            }.get(name, "utf-32-be")
        for name in ("ucs2", "utf16", "utf16le", "utf32"):
            cursor.execute(f"set character_set_results = {name}")
            cursor.execute("select 'ann@example.com'")
            (field,) = connection._result.fields
            (given,) = cursor.fetchone()
            raw = given.encode()  # PyMySQL takes it for UTF-8
            one = rows.layout_of(
                (m.column(0, m.MysqlField("a", m.VAR_STRING, collation=field.charsetnr))[m.HEAD :],), False, "utf-8"
            )
            found = rows.MysqlRows(1, one, m.text_row(0, (raw,)) + m.text_row(1, (b"\xff",)), 2, 0)
            assert found.texts(0)[0] == b"ann@example.com"
            found.replace(0, [b"****@****", found.texts(0)[1]])
            assert found.encode()[0] == m.text_row(
                0, ("****@****".encode(charsets.wide_codec(field.charsetnr)),)
            ) + m.text_row(1, (b"\xff",))
    assert charsets.wide_codec(45) == charsets.wide_codec(63) == charsets.wide_codec(255) == ""


def test_server_reads_ascii_as_ascii_in_every_allowed_character_set(mariadb: MariaDbServer) -> None:
    """In each of these sets, no lead byte hides a following quote or backslash."""
    names = [name for name in charsets._CODECS if name != "binary"]
    with mariadb.connect() as connection, connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"set names {name}")
            for sign in (b"'", b"\\", b"`", b'"', b"/", b"*", b"-", b"#", b";"):
                cursor.execute(f"select hex(convert(_ascii x'{sign.hex()}' using {name}))")
                assert cursor.fetchone() == (sign.hex().upper(),)
            for lead in range(0x80, 0x100):
                # Were the quote a part of a character, this text would not end.
                connection._execute_command(3, b"select 1 from dual where '\xff'='" + bytes((lead,)) + b"' or 1=1")
                assert connection._read_query_result() in (0, 1)
