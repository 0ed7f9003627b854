"""Messages before the first command of the MySQL protocol."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.protocols.mysql.login import mysql_greetings as g

SALT = bytes(range(1, 21))
NAMES = st.binary(max_size=40).filter(lambda name: b"\0" not in name)


def test_greeting_round_trips() -> None:
    one = g.Greeting("8.0.36", 4_000_000_000, SALT, g.OFFERED | g.SSL, "caching_sha2_password")
    assert g.parse_greeting(g.greeting(one)[4:]) == one


@pytest.mark.parametrize("salt", [b"short", bytes(20)])
def test_salt_other_than_20_bytes_without_nul_is_rejected(salt: bytes) -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        g.greeting(g.Greeting("8", 1, salt, g.OFFERED, "x"))


@pytest.mark.parametrize("size", range(0, 52, 6))
def test_truncated_greeting_is_a_protocol_violation(size: int) -> None:
    whole = g.greeting(g.Greeting("8.0.36", 7, SALT, g.OFFERED, "caching_sha2_password"))[4:]
    with pytest.raises(ProtocolViolation):
        g.parse_greeting(whole[:size])


@pytest.mark.parametrize("payload", [b"\x09old", b"SSH-2.0-OpenSSH\r\n", b"\xff\x10\x04Too many connections"])
def test_malformed_greeting_is_a_protocol_violation(payload: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        g.parse_greeting(payload)


@given(NAMES, st.binary(max_size=250), st.none() | NAMES.filter(bool), st.dictionaries(NAMES, NAMES, max_size=3))
def test_login_response_round_trips(
    user: bytes, proof: bytes, database: bytes | None, attributes: dict[bytes, bytes]
) -> None:
    for capabilities in (g.OFFERED, g.OFFERED & ~g.PLUGIN_AUTH_LENENC):
        one = g.Response(user, proof, capabilities, database, "client_ed25519", attributes)
        found = g.parse_response(g.response(1, one)[4:], g.OFFERED)
        assert (found.user, found.proof, found.database) == (user, proof, database)
        assert (found.plugin, found.attributes, found.collation) == ("client_ed25519", attributes, g.UTF8MB4)


@given(st.binary(max_size=120))
def test_arbitrary_bytes_parse_as_a_login_response_or_a_violation(payload: bytes) -> None:
    with contextlib.suppress(ProtocolViolation):
        g.parse_response(payload, g.OFFERED)


@given(st.binary(max_size=120))
def test_arbitrary_bytes_parse_as_a_greeting_or_a_violation(payload: bytes) -> None:
    with contextlib.suppress(ProtocolViolation):
        g.parse_greeting(b"\x0a" + payload)


def test_capabilities_that_were_not_offered_are_ignored() -> None:
    one = g.Response(b"u", b"p", g.OFFERED | g.COMPRESS | g.DEPRECATE_EOF | g.SESSION_TRACK)
    assert not g.parse_response(g.response(1, one)[4:], g.OFFERED).capabilities & ~g.OFFERED


def test_ssl_request_is_distinguished_from_a_login_response() -> None:
    assert g.is_ssl_request(g.ssl_request(1, g.Response(b"u", b"", g.OFFERED))[4:])
    assert not g.is_ssl_request(g.response(1, g.Response(b"u", b"", g.OFFERED))[4:])


def test_auth_switch_request_round_trips() -> None:
    assert g.parse_auth_switch(g.auth_switch(2, "mysql_native_password", SALT)[4:]) == (
        "mysql_native_password",
        SALT + b"\0",
    )
