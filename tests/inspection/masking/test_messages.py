"""Masking of errors, notices, notifications and settings under rules about columns."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from postern.domain.rules.masking import MaskingRule, Strictness, TypeGroup
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.error_messages import _LOOKS, make_known_check
from postern.inspection.masking.masking_interceptor import Masking
from postern.inspection.masking.statement_facts import StatementFacts
from postern.interception.events import Operation
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.mysql.dialect.mysql_statement_facts import MysqlStatementFacts, is_about_names
from postern.protocols.mysql.wire.mysql_output import ErrorText
from postern.protocols.oracledb.dialect.oracle_statement_facts import OracleStatementFacts
from postern.protocols.oracledb.wire.oracle_output import OracleErrorText, TtcError
from postern.protocols.postgres.dialect.postgres_statement_facts import PostgresStatementFacts
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_output import PostgresText

from ..conftest import make_session

NO_ID = UUID(int=0)
STATEMENT = "insert into orders values (1, 'bob', 7)"
CODE = {"S": b"ERROR", "C": b"P0001", "M": b"****"}  # what is left of an error that code within the target made


SCHEMA = TargetSchema({("public", "orders"): Relation("public", "orders", ("id", "note"))})


def masking(facts: StatementFacts | None = None, **changes: Any) -> Masking:
    rule = MaskingRule(NO_ID, NO_ID, "pii", columns=("users.surname",), **changes)
    return Masking(frozenset(), (rule,), facts=facts or PostgresStatementFacts())


def masked_fields(
    fields: dict[str, bytes], statement: str = STATEMENT, tag: int = m.ERROR_RESPONSE, **changes: Any
) -> dict[str, bytes]:
    """Return the fields of an error after masking."""
    session = make_session()
    session.schema = TargetSchema({("public", "users"): Relation("public", "users", ("id", "surname"))})
    rules = masking(**changes)
    rules.see(Operation(1, statement), session)
    said = {"S": b"ERROR", "C": b"22P02", **fields}
    body = b"".join([key.encode() + m.cstring(value) for key, value in said.items()]) + b"\0"
    error = PostgresText(1, tag, body)
    rules.see(error, session)
    return {chr(key): value for key, value in m.parse_fields(error.encode()[5:])}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        # unique and foreign keys, checks: the row is quoted in the detail
        (
            {
                "M": b'duplicate key value violates unique constraint "users_key"',
                "D": b"Key (surname)=(Doe) already exists.",
                "t": b"users",
                "n": b"users_key",
            },
            {"D": b"Key (surname)=(****) already exists."},
        ),
        ({"D": b"Failing row contains (1, Doe, (x))."}, {"D": b"Failing row contains (****)."}),
        ({"D": b"Key (a, b)=(Doe, (x)) conflicts with existing key (a, b)=(Doe, (y))."},
         {"D": b"Key (****)."}),
        # casts
        ({"M": b'invalid input syntax for type integer: "Doe "x" y"'},
         {"M": b'invalid input syntax for type integer: "****"'}),
        ({"M": b'value "31234567890" is out of range for type integer'},
         {"M": b'value "****" is out of range for type integer'}),
        ({"M": b'relation "doe" does not exist'}, {"M": b'relation "****" does not exist'}),
        ({"M": b'time zone "Doe" not recognized'}, {"M": b'time zone "****" not recognized'}),
        ({"M": b"date field value out of range: 83412-01-01"}, {"M": b"date field value out of range: ****"}),
        ({"M": b"index 83412 out of valid range, 0..0"}, {"M": b"index **** out of valid range, ****"}),
        ({"M": b'invalid byte sequence for encoding "UTF8": 0xe9 0x64'},
         {"M": b'invalid byte sequence for encoding "****": **** ****'}),
        ({"M": b"invalid XML content", "D": b"line 1: Start tag expected, '<' not found\nDoe\n^"}, {"D": b"****"}),
        # other languages of the server's messages
        ({"M": "ungültige Eingabesyntax für Typ integer: »Doe«".encode()},
         {"M": "ungültige Eingabesyntax für Typ integer: »****«".encode()}),
        ({"M": "syntaxe en entrée invalide : « Doe »".encode()}, {"M": "syntaxe en entrée invalide : «****»".encode()}),
        ({"M": "入力構文が不正です: \"Doe\"".encode()}, {"M": "入力構文が不正です: \"****\"".encode()}),
        ({"M": b"entr\xe9e invalide : \xab Doe \xbb"}, {"M": b"entr\xe9e invalide : \xab****\xbb"}),
        # what the client has said
        ({"M": b'invalid input syntax for type integer: "bob"'},
         {"M": b'invalid input syntax for type integer: "****"'}),
        ({"M": b'invalid hexadecimal digit: "b"'}, {"M": b'invalid hexadecimal digit: "****"'}),
        ({"M": b"invalid hexadecimal digit: b"}, {"M": b"invalid hexadecimal digit: ****"}),
        ({"M": b'column "surname" is not the value "users"'}, {"M": b'column "****"'}),
        ({"M": b"index 7 out of valid range, 0..1"}, {"M": b"index **** out of valid range, ****"}),
        # names of the target's
        ({"M": b'null value in column "surname" of relation "users" violates not-null constraint', "t": b"users",
          "c": b"surname"}, {}),
        ({"M": b'update or delete on table "users" violates foreign key constraint "x" on table "y"', "t": b"y",
          "n": b"x"}, {}),
        ({"M": b'duplicate key value violates unique constraint "x_key"', "n": b"x_key"}, {}),
        ({"M": b"division by zero"}, {}),
        ({"M": b"value too long for type character varying(5)"}, {}),
        ({"M": b"can't do that, isn't allowed"}, {}),
        ({"M": b"function lower(integer) does not exist"}, {}),
        # before any row was read
        ({"M": b'column "other" does not exist', "H": b'Perhaps you meant "another".', "P": b"8"}, {}),
        # code within the target
        ({"M": b"Doe was here", "H": b"Doe", "D": b"Doe", "W": b"PL/pgSQL function f(integer) line 3 at RAISE",
          "c": b"Doe", "t": b"users"},
         CODE),
        ({"M": b'syntax error at or near "Doe"', "P": b"1", "p": b"1", "q": b"Doe", "W": b"PL/pgSQL function f()"},
         CODE),
        ({"C": b"ZA001", "M": b"", "W": b"PL/pgSQL function f()", "F": b"x.c", "L": b"77", "R": b"f"}, CODE),
        ({"M": b'Token "Doe" is invalid.', "W": b"JSON data, line 1: {Doe"}, CODE),
        # the server's own word about a line of a copy
        ({"M": b'invalid input syntax for type integer: "Doe"', "W": b'COPY orders, line 3, column n: "Doe"'},
         {"M": b'invalid input syntax for type integer: "****"', "W": b'COPY orders, line ****, column n: ****'}),
    ],
)  # fmt: skip
def test_error_messages_contain_no_values(said: dict[str, bytes], left: dict[str, bytes]) -> None:
    """Attack: make the target report an error about a value."""
    expected = left if left is CODE else {"S": b"ERROR", "C": b"22P02"} | said | left
    assert masked_fields(said) == expected


@pytest.mark.parametrize("severity", [b"NOTICE", b"WARNING", b"INFO", b"LOG"])
def test_notice_raised_by_code_becomes_one_constant(severity: bytes) -> None:
    """Attack: `raise warning '' using errcode = 'Z' || ...`."""
    said = {"S": severity, "V": severity, "C": b"ZA0" + severity[:2], "M": b"Doe", "H": b"Doe", "n": b"Doe",
            "W": b"PL/pgSQL function inline_code_block line 7 at RAISE"}  # fmt: skip
    left = masked_fields(said, "do $$ begin raise warning ''; end $$", tag=m.NOTICE_RESPONSE)
    assert left == {"S": b"NOTICE", "V": b"NOTICE", "C": b"00000", "M": b"****"}


@pytest.mark.parametrize(
    ("statement", "said", "stays"),
    [
        ("drop table bob", b'table "bob" does not exist', True),
        ("drop table if exists bob; set x.y to 7", b'table "bob" does not exist, skipping', True),
        ("deallocate bob", b'prepared statement "bob" does not exist', True),
        ("drop table bob; select 1", b'table "bob" does not exist', False),
        ("/* a b bob */ select name::regclass from users", b'relation "bob" does not exist', False),
        ("alter table users alter surname type int using 'bob'::int", b'invalid: "bob"', False),
        ("fetch all from bob", b'cursor "bob" does not exist', False),
        ("no sql (bob", b'relation "bob" does not exist', False),
    ],
)
def test_error_keeps_words_of_a_statement_only_if_it_reads_no_rows(statement: str, said: bytes, stays: bool) -> None:
    """Attack: list all letters in a comment, and read the one that an error repeats."""
    assert (b"bob" in masked_fields({"M": said}, statement)["M"]) is stays


def test_best_effort_rule_masks_only_quoted_text_in_errors_of_code() -> None:
    said = {"M": b'order of "Doe" is closed', "W": b"PL/pgSQL function f() line 3 at RAISE"}
    assert masked_fields(said, strictness=Strictness.BEST_EFFORT)["M"] == b'order of "****" is closed'


@pytest.mark.parametrize("strictness", Strictness)
def test_notification_payload_is_masked_by_a_strict_rule_only(strictness: Strictness) -> None:
    """Attack: `select pg_notify('me', surname) from users`."""
    session = make_session()
    event = PostgresText(1, m.NOTIFICATION_RESPONSE, b"\0\0\0\7me\0Doe\0")
    masking(strictness=strictness).see(event, session)
    assert event.texts() == [b"me", b"****" if strictness is Strictness.STRICT else b"Doe"]
    assert session.metrics.not_inspected == 1
    empty = PostgresText(1, m.NOTIFICATION_RESPONSE, b"\0\0\0\7me\0\0")
    assert masking().see(empty, session) is FORWARD


@pytest.mark.parametrize("strictness", Strictness)
def test_best_effort_rule_searches_a_notification_for_types(strictness: Strictness) -> None:
    event = PostgresText(1, m.NOTIFICATION_RESPONSE, b"\0\0\0\7me\0Doe doe@example.com\0")
    masking(groups=(TypeGroup("MAIL", ("EMAIL_ADDRESS",)),), strictness=strictness).see(event, make_session())
    assert event.texts() == [b"me", b"****" if strictness is Strictness.STRICT else b"Doe ****@****"]


def test_result_of_a_function_call_message_is_denied() -> None:
    """Attack: call query_to_xml by the message that names functions by number."""
    event = PostgresText(1, m.FUNCTION_CALL_RESPONSE, b"\0\0\0\3Doe")
    assert isinstance(masking().see(event, make_session()), Refuse)
    nothing = PostgresText(1, m.FUNCTION_CALL_RESPONSE, b"\xff\xff\xff\xff")
    assert masking().see(nothing, make_session()) is FORWARD


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("application_name", b"Doe", b"****"),
        ("application_name", b"bob", b"****"),
        ("search_path", b"Doe", b"****"),
        ("TimeZone", b"<Doe>+03", b"****"),
        ("TimeZone", b"Europe/Berlin", b"****"),
        ("client_encoding", b"UTF8", b"UTF8"),
        ("some_new_setting", b"Doe", b"****"),
    ],
)
def test_reported_settings_contain_no_values(name: str, value: bytes, left: bytes) -> None:
    """Attack: `select set_config('application_name', surname, false) from users`."""
    session = make_session()
    rules = masking()
    rules.see(Operation(1, STATEMENT), session)
    event = PostgresText(1, m.PARAMETER_STATUS, name.encode() + b"\0" + value + b"\0")
    rules.see(event, session)
    assert event.texts() == [left]


@pytest.mark.parametrize(
    ("statement", "name", "value", "stays"),
    [
        ("set application_name to 'bob'", "application_name", b"bob", True),
        ("select set_config('application_name', 'bob', false)", "application_name", b"bob", True),
        ("select set_config('application_name', 'bob' || '', false)", "application_name", b"bob", False),
        ("select set_config('application_name', 'bob', false) from users", "application_name", b"bob", False),
        ("select set_config('application_name', name, false) /* bob */ from users", "application_name", b"bob", False),
        ("set timezone to default", "TimeZone", b"Europe/Berlin", True),
        ("discard all", "TimeZone", b"Etc/UTC", True),
        ("select set_config('TimeZone', zone, false) from users", "TimeZone", b"Europe/Berlin", False),
        ("rollback to savepoint a", "TimeZone", b"Europe/Berlin", False),
    ],
)
def test_reported_setting_stays_if_the_statement_sets_it_to_a_constant(
    statement: str, name: str, value: bytes, stays: bool
) -> None:
    """Attack: list words in a comment and read the reported one, or choose a time zone by a value."""
    session = make_session()
    rules = masking()
    rules.see(Operation(1, statement), session)
    event = PostgresText(1, m.PARAMETER_STATUS, name.encode() + b"\0" + value + b"\0")
    rules.see(event, session)
    assert event.texts() == [value if stays else b"****"]


@pytest.mark.parametrize(
    ("statement", "number", "state", "message", "left"),
    [
        ("signal sqlstate 'ZA001' set mysql_errno = 77", 77, b"ZA001", b"Doe", (1644, b"45000", b"****")),
        ("select f()", 1644, b"ZA001", b"Doe", (1644, b"45000", b"****")),
        ("call f()", 77, b"ZA001", b"Doe", (1644, b"45000", b"****")),
        ("select 1 from shop.x", 1146, b"42S02", b"Table 'shop.x' doesn't exist", None),
        ("select 'a' from t", 1146, b"42S02", b"Table 'shop.x' doesn't exist",
         (1146, b"42S02", b"Table '****'t exist")),
        ("prepare s from @v", 1064, b"42000", b"near ''Doe' at line 1", (1644, b"45000", b"****")),
        ("begin not atomic prepare s from v; end", 1064, b"42000", b"near ''Doe'", (1644, b"45000", b"****")),
        ("prepare s from 'selec 1'", 1064, b"42000", b"near 'selec 1' at line 1", None),
        ("selec 1", 1064, b"42000", b"near 'selec 1' at line 1", None),
        ("set storage_engine = @c /* a */", 1286, b"42000", b"Unknown storage engine 'a'",
         (1286, b"42000", b"Unknown storage engine '****'")),
        ("create table t (a int) engine = nope", 1286, b"42000", b"Unknown storage engine 'nope'", None),
        ("set storage_engine = @c", 1286, b"42000", b"Unknown storage engine '' Doe ''",
         (1286, b"42000", b"Unknown storage engine '****'")),
        ("set storage_engine = @c", 1286, b"42000", b"Unknown storage engine '****' Doe '****'",
         (1286, b"42000", b"Unknown storage engine '****'")),
        ("/* a */ select ...", 1105, b"HY000", b"XPATH syntax error: 'a'",
         (1105, b"HY000", b"XPATH syntax error: '****'")),
        ("insert into t values ('a')", 1366, b"22007", b"Incorrect integer value: 'a' for column `t`.`n` at row 1",
         (1366, b"22007", b"Incorrect integer value: ****")),
    ],
)  # fmt: skip
def test_mysql_error_contains_no_values(
    statement: str, number: int, state: bytes, message: bytes, left: tuple[int, bytes, bytes] | None
) -> None:
    session = make_session()
    rules = masking(MysqlStatementFacts())
    rules.see(Operation(1, statement), session)
    error = ErrorText(1, b"\xff" + number.to_bytes(2, "little") + b"#" + state + message, 1, "utf-8")
    rules.see(error, session)
    number, state, message = left or (number, state, message)
    assert error.texts() == [b"%d" % number, state, message]
    assert error.encode()[4:] == b"\xff" + number.to_bytes(2, "little") + b"#" + state + message


# Errors whose message quotes nothing but names or words of the statement, by their symbols in the servers' manuals.
ERRORS_ABOUT_NAMES = {
    1007: "ER_DB_CREATE_EXISTS",
    1008: "ER_DB_DROP_EXISTS",
    1044: "ER_DBACCESS_DENIED_ERROR",
    1045: "ER_ACCESS_DENIED_ERROR",
    1046: "ER_NO_DB_ERROR",
    1049: "ER_BAD_DB_ERROR",
    1050: "ER_TABLE_EXISTS_ERROR",
    1051: "ER_BAD_TABLE_ERROR",
    1052: "ER_NON_UNIQ_ERROR",
    1054: "ER_BAD_FIELD_ERROR",
    1055: "ER_WRONG_FIELD_WITH_GROUP",
    1060: "ER_DUP_FIELDNAME",
    1061: "ER_DUP_KEYNAME",
    1064: "ER_PARSE_ERROR",
    1066: "ER_NONUNIQ_TABLE",
    1072: "ER_KEY_COLUMN_DOES_NOT_EXITS",
    1091: "ER_CANT_DROP_FIELD_OR_KEY",
    1109: "ER_UNKNOWN_TABLE",
    1115: "ER_UNKNOWN_CHARACTER_SET",
    1128: "ER_FUNCTION_NOT_DEFINED",
    1142: "ER_TABLEACCESS_DENIED_ERROR",
    1143: "ER_COLUMNACCESS_DENIED_ERROR",
    1144: "ER_ILLEGAL_GRANT_FOR_TABLE",
    1146: "ER_NO_SUCH_TABLE",
    1193: "ER_UNKNOWN_SYSTEM_VARIABLE",
    1227: "ER_SPECIFIC_ACCESS_DENIED_ERROR",
    1243: "ER_UNKNOWN_STMT_HANDLER",
    1273: "ER_UNKNOWN_COLLATION",
    1286: "ER_UNKNOWN_STORAGE_ENGINE",
    1304: "ER_SP_ALREADY_EXISTS",
    1305: "ER_SP_DOES_NOT_EXIST",
    1347: "ER_WRONG_OBJECT",
    1359: "ER_TRG_ALREADY_EXISTS",
    1360: "ER_TRG_DOES_NOT_EXIST",
    1370: "ER_PROCACCESS_DENIED_ERROR",
    1630: "ER_FUNC_INEXISTENT_NAME_COLLISION",
}


def test_only_mysql_errors_about_names_keep_their_words() -> None:
    """The words of every other error can come from a row, as in 1062 (ER_DUP_ENTRY)."""
    keep = {number for number in range(10_000) if is_about_names(b"%d" % number, ("select 1 from t",))}
    assert keep == set(ERRORS_ABOUT_NAMES)


@pytest.mark.parametrize("number", [b"", b"x", b"-1146", b"1146x", b"\xff"])
def test_error_without_a_number_is_not_about_names(number: bytes) -> None:
    assert not is_about_names(number, ("select 1 from t",))


@pytest.mark.parametrize("number", sorted(ERRORS_ABOUT_NAMES))
def test_attack_mysql_error_about_a_setting_that_a_value_names_is_masked(number: int) -> None:
    from_a_value = {1115, 1273, 1286}
    assert is_about_names(b"%d" % number, ("set storage_engine = @value",)) == (number not in from_a_value)


def test_quoted_words_beyond_the_lookup_limit_are_masked() -> None:
    """Quotes after the limit are unknown, whatever they contain."""
    is_known = make_known_check("select surname from users", SCHEMA)
    assert [is_known(b"surname") for _ in range(_LOOKS)] == [True] * _LOOKS
    assert not is_known(b"surname")
    assert not is_known(b"Doe")
    assert is_known(b""), "an empty text says nothing"


@pytest.mark.parametrize(
    ("segment", "is_there"),
    [
        (b"surname", True),
        (b"SURNAME", True),
        (b"users", True),
        (b"bob", False),
        (b"name", False),  # a part of a word of the statement
        (b"sur", False),
        (b"surname from", True),
        (b"e from u", False),
        (b"surname.", False),
        (b"note", True),  # a column that the statement does not name
        (b"orders", True),
        (b"public", True),
        (b"not", False),
        (b"\xff", False),
    ],
)
def test_only_words_of_the_statement_and_names_of_the_target_are_known(segment: bytes, is_there: bool) -> None:
    assert make_known_check("select Surname from users", SCHEMA)(segment) == is_there


@pytest.mark.parametrize("statement", [None, ""])
def test_no_word_is_known_without_a_statement_and_a_schema(statement: str | None) -> None:
    assert not make_known_check(statement, None)(b"surname")
    assert make_known_check(statement, SCHEMA)(b"note")


def test_attack_message_of_thousands_of_numbers_and_quotes_is_masked() -> None:
    """A message of thousands of numbers and quotes, each to be searched for in a long statement."""
    said = b'7 "x" ' * 600
    assert masked_fields({"M": said, "D": b"5 " * 1_000_000}, "select 1 " * 100_000)["D"] == b"****"
    assert b"7" not in masked_fields({"M": said}, "select 1 " * 100_000)["M"]


@pytest.mark.parametrize(
    ("message", "statement", "left"),
    [
        ("ORA-00942: table or view does not exist\n", "select a from x", ""),
        ('ORA-00904: "EMIAL": invalid identifier\n', "select emial from t", ""),
        ('ORA-00904: "DOE": invalid identifier\n', "select a from t", 'ORA-00904: "****": invalid identifier\n'),
        ("ORA-01722: invalid number", "select to_number(a) from t", "ORA-01722: ****"),
        ("ORA-19032: Expected XML tag a got Doe", "select f from t", "ORA-19032: ****"),
        ("ORA-00001: unique constraint (HR.T) violated (A: Doe)", "insert into t select 1 from s", "ORA-00001: ****"),
        (
            "ORA-00942: a 'x\nORA-00942: Doe'",  # the second one is in the value
            "select a from y",
            "ORA-00942: a '****'",
        ),
        ("ORA-20001: Doe", "update t set a = b", "****"),
        ("ORA-00942: Doe", "begin raise e; end;", "****"),
    ],
)
def test_oracle_error_keeps_its_code_and_loses_the_values_that_it_quotes(
    message: str, statement: str, left: str
) -> None:
    session = make_session()
    session.schema = TargetSchema({("HR", "USERS"): Relation("HR", "USERS", ("ID", "SURNAME"))})
    rules = masking(OracleStatementFacts())
    rules.see(Operation(1, statement), session)
    said = TtcError()
    said.number, said.texts = int(message[4:9]), [message.encode()]
    error = OracleErrorText(1, b"", said)
    rules.see(error, session)
    assert error.texts()[0].decode() == (left or message)
