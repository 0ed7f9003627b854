"""What errors, notices, notifications and settings say, where columns are marked."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from postern.domain.masking import MaskingRule, Strictness, TypeGroup
from postern.domain.target_schema import Relation, TargetSchema
from postern.inspection.masking.interceptor import Masking
from postern.interception.events import Operation
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.postgres import messages as m
from postern.protocols.postgres.output import Text

from ..conftest import make_session

NO_ID = UUID(int=0)
STATEMENT = "insert into orders values (1, 'bob', 7)"
STAYS = [b"S", b"C"]


def masking(**changes: Any) -> Masking:
    return Masking(frozenset(), (MaskingRule(NO_ID, NO_ID, "pii", columns=("users.surname",), **changes),))


def told(fields: dict[str, bytes], statement: str = STATEMENT, **changes: Any) -> dict[str, bytes]:
    """What is left of an error with these fields."""
    session = make_session()
    session.schema = TargetSchema({("public", "users"): Relation("public", "users", ("id", "surname"))})
    rules = masking(**changes)
    rules.see(Operation(1, statement), session)
    said = {"S": b"ERROR", "C": b"22P02", **fields}
    body = b"".join([key.encode() + m.cstring(value) for key, value in said.items()]) + b"\0"
    error = Text(1, m.ERROR_RESPONSE, body)
    rules.see(error, session)
    return {chr(key): value for key, value in m.parse_fields(error.encode()[5:]) if chr(key) not in "SC"}


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
        # what the client has said, and names of the target's
        ({"M": b'invalid input syntax for type integer: "bob"'}, {}),
        ({"M": b'null value in column "surname" of relation "users" violates not-null constraint'}, {}),
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
         {"M": b"****", "H": b"****", "D": b"****", "c": b"****",
          "W": b"PL/pgSQL function f(integer) line **** at RAISE"}),
        ({"M": b'syntax error at or near "Doe"', "P": b"1", "p": b"1", "q": b"Doe", "W": b"PL/pgSQL function f()"},
         {"M": b"****", "q": b"****"}),
        ({"M": b'Token "Doe" is invalid.', "W": b"JSON data, line 1: {Doe"},
         {"M": b"****", "W": b"JSON data, line 1: ****"}),
        # the server's own word about a line of a copy
        ({"M": b'invalid input syntax for type integer: "Doe"', "W": b'COPY orders, line 3, column n: "Doe"'},
         {"M": b'invalid input syntax for type integer: "****"', "W": b'COPY orders, line ****, column n: ****'}),
    ],
)  # fmt: skip
def test_messages_quote_no_values(said: dict[str, bytes], left: dict[str, bytes]) -> None:
    """Attack: make the target trip over a value."""
    assert told(said) == said | left


def test_of_code_within_the_target_a_best_effort_rule_withholds_what_is_quoted() -> None:
    said = {"M": b'order of "Doe" is closed', "W": b"PL/pgSQL function f() line 3 at RAISE"}
    for changes in ({"strictness": Strictness.BEST_EFFORT},):
        assert told(said, **changes)["M"] == b'order of "****" is closed'


@pytest.mark.parametrize("strictness", Strictness)
def test_what_is_notified_may_be_anything(strictness: Strictness) -> None:
    """Attack: `select pg_notify('me', surname) from users`."""
    session = make_session()
    event = Text(1, m.NOTIFICATION_RESPONSE, b"\0\0\0\7me\0Doe\0")
    masking(strictness=strictness).see(event, session)
    assert event.texts() == [b"me", b"****" if strictness is Strictness.STRICT else b"Doe"]
    assert session.metrics.not_inspected == 1
    empty = Text(1, m.NOTIFICATION_RESPONSE, b"\0\0\0\7me\0\0")
    assert masking().see(empty, session) is FORWARD


@pytest.mark.parametrize("strictness", Strictness)
def test_only_a_best_effort_rule_looks_for_types_in_what_is_notified(strictness: Strictness) -> None:
    event = Text(1, m.NOTIFICATION_RESPONSE, b"\0\0\0\7me\0Doe doe@example.com\0")
    masking(groups=(TypeGroup("MAIL", ("EMAIL_ADDRESS",)),), strictness=strictness).see(event, make_session())
    assert event.texts() == [b"me", b"****" if strictness is Strictness.STRICT else b"Doe ****@****"]


def test_what_a_function_call_answers_is_refused() -> None:
    """Attack: call query_to_xml by the message that names functions by number."""
    event = Text(1, m.FUNCTION_CALL_RESPONSE, b"\0\0\0\3Doe")
    assert isinstance(masking().see(event, make_session()), Refuse)
    nothing = Text(1, m.FUNCTION_CALL_RESPONSE, b"\xff\xff\xff\xff")
    assert masking().see(nothing, make_session()) is FORWARD


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("application_name", b"Doe", b"****"),
        ("application_name", b"bob", b"bob"),
        ("search_path", b"Doe", b"****"),
        ("TimeZone", b"<Doe>+03", b"****"),
        ("TimeZone", b"Europe/Berlin", b"Europe/Berlin"),
        ("client_encoding", b"UTF8", b"UTF8"),
        ("some_new_setting", b"Doe", b"****"),
    ],
)
def test_settings_tell_no_values(name: str, value: bytes, left: bytes) -> None:
    """Attack: `select set_config('application_name', surname, false) from users`."""
    session = make_session()
    rules = masking()
    rules.see(Operation(1, STATEMENT), session)
    event = Text(1, m.PARAMETER_STATUS, name.encode() + b"\0" + value + b"\0")
    rules.see(event, session)
    assert event.texts() == [left]


def test_attack_a_message_that_takes_long_to_read() -> None:
    """Thousands of numbers and quotes, each of which would be looked for in a long statement."""
    said = b'7 "x" ' * 600
    assert told({"M": said, "D": b"5 " * 1_000_000}, "select 1 " * 100_000)["D"] == b"****"
    assert b"7" not in told({"M": said}, "select 1 " * 100_000)["M"]
