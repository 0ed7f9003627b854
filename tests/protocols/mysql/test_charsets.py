"""The client's character set: what may be spoken, and what is known of it while statements change it."""

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


def asked(link: Link, text: str | bytes, answer: bytes | None = None) -> Operation:
    """What was recorded of a statement that went well."""
    effects = link.receive(Side.CLIENT, my.query(text))
    link.receive(Side.TARGET, my.ok() if answer is None else answer)
    return next(event for event in recorded(effects) if isinstance(event, Operation))


def encoding_behind(*texts: str) -> tuple[str, bool]:
    """The encoding of what comes behind these statements, and whether it is not known."""
    link = links(ReadsAll())()
    for text in texts:
        asked(link, text)
    found = asked(link, "select 1")
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
def test_what_is_said_in_plain_sight_is_known(text: str) -> None:
    assert encoding_behind(text) == (KNOWN[text], False)


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
def test_attack_what_is_not_seen_is_not_known_until_it_is_said(text: str) -> None:
    assert encoding_behind(text)[1]
    assert encoding_behind(text, "set names utf8mb4") == ("utf-8", False)


def test_what_dumps_do_is_known() -> None:
    dump = [
        "/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */",
        "/*!40101 SET NAMES utf8mb4 */",
        "/*!40101 SET @saved_cs_client     = @@character_set_client */",
        "/*!40101 SET character_set_client = utf8 */",
        "/*!40101 SET character_set_client = @saved_cs_client */",
    ]
    assert encoding_behind(*dump) == ("utf-8", False)
    assert encoding_behind(*dump, "/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */") == ("utf-8", False)


@pytest.mark.parametrize(
    "between",
    ["set @kept = 'gbk'", "select 'gbk' into @kept", "select @KEPT := 'gbk'", "execute s", "call p()",
     "set character_set_client = @kept, @kept = 'gbk'", "set @`kept` = 'gbk'", "set @'Kept' = 'gbk'",
     'set @"kept" = "gbk"', "select 'gbk' into @`kept`", "set @kèpt = 'gbk'",
     "set character_set_client = @kept := 'gbk'"],
)  # fmt: skip
def test_attack_a_variable_that_was_changed_is_not_known(between: str) -> None:
    assert encoding_behind("set @kept = @@character_set_client", between, "set character_set_client = @kept")[1]


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
def test_attack_what_begins_like_a_variable_that_is_known(text: str) -> None:
    assert encoding_behind("set @kept = @@character_set_client", text)[1]


def test_attack_variables_without_end_are_not_kept() -> None:
    spoken = charsets.CharsetState("utf8mb4")
    for number in range(1000):
        spoken.keep(f"@kept{number}")
    assert len(spoken.kept) < 10


def test_who_is_somebody_changes_no_variable() -> None:
    between = "create definer=`root`@`localhost` view v as select 'kept@example.org', 'J\u00f6rg' from t"
    assert encoding_behind(
        "set @kept = @@character_set_client", between, "set character_set_client = @kept"
    ) == ("utf-8", False)  # fmt: skip


def test_attack_a_variable_that_is_changed_before_it_is_known() -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, my.query("set @kept = @@character_set_client") + my.query("select 'gbk' into @kept"))
    link.receive(Side.TARGET, my.ok() + my.ok())
    asked(link, "set character_set_client = @kept")
    assert asked(link, "select 1").unread


def test_an_error_changes_nothing_unless_some_of_it_has_run() -> None:
    link = links(ReadsAll())()
    asked(link, "set names latin1", my.error("no"))
    assert asked(link, "select 1").encoding == "utf-8"
    asked(link, "set names latin1; bad", my.error("no"))
    assert asked(link, "select 1").unread


def test_a_reset_brings_the_first_one_back() -> None:
    link = links(ReadsAll(), collation=8)()
    assert asked(link, b"select '\xe9'").text == "select 'é'"
    asked(link, "set names utf8mb4")
    assert asked(link, "select 'é'").text == "select 'é'"
    link.receive(Side.CLIENT, b"\x01\0\0\0\x1f")
    link.receive(Side.TARGET, my.ok())
    assert asked(link, b"select '\xe9'").text == "select 'é'"


def test_attack_many_comments_are_read_once() -> None:
    text = ";" + "/* a */ # b\n-- c\n/*! " * 5000 + "set nothing"
    assert encoding_behind(text) == ("utf-8", False)


@pytest.mark.parametrize(
    "unit", [";/*", ",/*", ";#", ";set/*", ";'\\'", ";set a,/*", "character_set_client/*", "@'", ";"]
)
def test_attack_what_is_not_closed_is_read_once(unit: str) -> None:
    """Each of the beginnings was followed to the end of the text, by the worker that serves everybody."""
    spoken = charsets.CharsetState("utf8mb4")
    spoken.kept["@kept"] = "utf8mb4"
    text = "set names latin1 " + unit * 100_000
    spoken.set_by(text)
    spoken.forget(text)
    assert charsets.sets_unread(text) == ""


def test_a_real_server_sets_it_by_what_is_not_told_here(mariadb: MariaDbServer) -> None:
    def spoken_behind(*texts: str) -> object:
        with mariadb.connect() as connection, connection.cursor() as cursor:
            for text in texts:
                cursor.execute(text)
            cursor.execute("select @@character_set_client")
            return cursor.fetchone()[0]

    kept = "set @kept = @@character_set_client"
    assert spoken_behind(kept, "set @`kept` = 'gbk'", "set character_set_client = @kept") == "gbk"
    assert spoken_behind(kept, "set character_set_client = @kept := 'gbk'") == "gbk"
    assert spoken_behind("set @kept$x = 'gbk'", kept, "set character_set_client = @kept$x") == "gbk"
    assert (
        spoken_behind("set names latin1", "set @@global.character_set_client = latin2", "set names default") == "latin2"
    )
    assert spoken_behind("--\nset names latin1") == "latin1"


def test_a_real_server_reads_prepared_texts_in_other_character_sets(mariadb: MariaDbServer) -> None:
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set collation_connection = swe7_swedish_ci")
        cursor.execute("prepare p from 'select `, (select 42), `'")
        cursor.execute("execute p using @x, @x")
        assert cursor.fetchone()[1] == 42
        cursor.execute("set names utf8mb4")
        with pytest.raises(pymysql.err.ProgrammingError, match="near '`'"):  # the first one is half of a character
            cursor.execute("prepare p from _gbk'select `\u4f60`, `x`'")


def test_collations_are_those_of_a_real_server(mariadb: MariaDbServer) -> None:
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


def test_attack_answers_in_utf_16(mariadb: MariaDbServer) -> None:
    """Nobody finds an address in it, so it is searched as UTF-8."""
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


def test_a_real_server_reads_ascii_as_ascii_in_all_that_may_be_spoken(mariadb: MariaDbServer) -> None:
    """In every one of them, no byte behind another one hides a quote or a backslash."""
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
