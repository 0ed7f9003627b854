"""A client's startup phase at the gateway, over streams in memory."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.memory_handshake import pair

from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated
from postern.protocols.postgres.login.postgres_login import Cancel, PostgresStartup, greet
from postern.protocols.postgres.wire import postgres_messages as m

SSL = m.UINT32.pack(8) + m.UINT32.pack(m.SSL_REQUEST)
GSS = m.UINT32.pack(8) + m.UINT32.pack(m.GSSENC_REQUEST)


def opening(**parameters: str) -> bytes:
    return m.startup({"user": "ada", **parameters})


async def greeted(*data: bytes, tls: bool = True, require_tls: bool = False) -> tuple[PostgresStartup | Cancel, bytes]:
    """What greet makes of the data, sent piece by piece as the answers come, and those answers."""
    ours, client = pair(tls=tls)
    answers = b""
    task = asyncio.create_task(greet(ours, require_tls=require_tls))
    for piece in data:
        client.write(piece)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answers += client.take()
    client.close()
    result = await task
    return result, answers + client.take()


async def refused_greeting(*data: bytes, tls: bool = True, require_tls: bool = False) -> PosternError:
    with pytest.raises(PosternError) as caught:
        await greeted(*data, tls=tls, require_tls=require_tls)
    return caught.value


async def test_a_startup_in_clear() -> None:
    result, answers = await greeted(opening(database="shop", application_name="psql"))
    assert result == PostgresStartup("ada", "shop", {"application_name": "psql"}, m.PROTOCOL_3_0, False)
    assert answers == b""


async def test_tls_then_startup() -> None:
    result, answers = await greeted(SSL, opening())
    assert isinstance(result, PostgresStartup)
    assert result.encrypted
    assert answers == b"S"


async def test_attack_085_the_probe_for_gss_encryption_is_answered_in_either_order() -> None:
    for first, second, expected in ((GSS, SSL, b"NS"), (GSS, b"", b"N")):
        result, answers = await greeted(*filter(None, (first, second)), opening())
        assert isinstance(result, PostgresStartup)
        assert answers == expected
    result, answers = await greeted(SSL, GSS, opening(), tls=False)
    assert isinstance(result, PostgresStartup)
    assert (result.encrypted, answers) == (False, b"NN")


async def test_no_tls_here() -> None:
    result, answers = await greeted(SSL, opening(), tls=False)
    assert isinstance(result, PostgresStartup)
    assert (result.encrypted, answers) == (False, b"N")


async def test_tls_required() -> None:
    assert isinstance(await refused_greeting(opening(), require_tls=True), Denied)
    assert isinstance(await refused_greeting(GSS, opening(), require_tls=True), Denied)
    result, _ = await greeted(SSL, opening(), require_tls=True)
    assert isinstance(result, PostgresStartup)


@pytest.mark.parametrize("data", [(GSS, GSS), (SSL, SSL), (SSL, GSS)], ids=["gss twice", "tls twice", "gss inside tls"])
async def test_an_encryption_request_comes_once(data: tuple[bytes, ...]) -> None:
    assert isinstance(await refused_greeting(*data, opening()), ProtocolViolation)


async def test_tls_refused_and_asked_for_again() -> None:
    assert isinstance(await refused_greeting(SSL, SSL, opening(), tls=False), ProtocolViolation)


async def test_attack_076_bytes_stuffed_in_front_of_the_tls_handshake_are_refused() -> None:
    ours, client = pair()
    client.write(SSL + opening(user="eve"))
    with pytest.raises(ProtocolViolation, match="between the TLS request and the TLS handshake"):
        await greet(ours, require_tls=False)
    assert not ours.encrypted
    assert client.take() == b""


@pytest.mark.parametrize("size", [4, 32, 256])
async def test_cancel_requests_of_both_protocol_versions(size: int) -> None:
    key = bytes(range(size % 256)) or bytes(256)
    result, answers = await greeted(m.cancel_request(7, key))
    assert result == Cancel(7, key)
    assert answers == b""
    under_tls, _ = await greeted(SSL, m.cancel_request(7, key))
    assert under_tls == Cancel(7, key)


@pytest.mark.parametrize("size", [0, 3, 257])
async def test_cancel_requests_with_a_key_of_the_wrong_length(size: int) -> None:
    assert isinstance(await refused_greeting(m.cancel_request(7, bytes(size))), ProtocolViolation)


@pytest.mark.parametrize("length", [0, 4, 7, 10_001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
async def test_attack_074_lengths_of_the_first_packet(length: int) -> None:
    error = await refused_greeting(struct.pack("!I", length) + bytes(8))
    assert isinstance(error, ProtocolViolation)


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", b"\x16\x03\x01\x02\x00\x01\x00"]
)
async def test_other_protocols_are_turned_away(garbage: bytes) -> None:
    assert isinstance(await refused_greeting(garbage), ProtocolViolation)


async def test_a_client_that_stops_in_the_middle() -> None:
    for data in (b"", b"\0\0", opening()[:-1], SSL + b""):
        with pytest.raises(ConnectionError):
            await greeted(data)


VERSIONS = {
    m.PROTOCOL_3_0: (m.PROTOCOL_3_0, b""),
    m.PROTOCOL_3_0 + 1: (m.PROTOCOL_3_0 + 1, b""),
    m.PROTOCOL_3_2: (m.PROTOCOL_3_2, b""),
    m.PROTOCOL_3_0 + 3: (m.PROTOCOL_3_2, m.negotiate_protocol_version(m.PROTOCOL_3_2, [])),
    m.PROTOCOL_3_0 + 9999: (m.PROTOCOL_3_2, m.negotiate_protocol_version(m.PROTOCOL_3_2, [])),
}


@pytest.mark.parametrize("asked", VERSIONS)
async def test_the_protocol_version_is_negotiated(asked: int) -> None:
    result, answers = await greeted(m.startup({"user": "ada"}, asked))
    assert isinstance(result, PostgresStartup)
    assert (result.protocol, answers) == VERSIONS[asked]


async def test_unknown_protocol_options_are_named_and_go_no_further() -> None:
    result, answers = await greeted(opening(**{"_pq_.grease": "1", "_pq_.other": "2", "TimeZone": "UTC"}))
    assert isinstance(result, PostgresStartup)
    assert result.parameters == {"TimeZone": "UTC"}
    ((tag, body),) = pg.split(answers)
    assert tag == b"v"
    assert body == struct.pack("!II", m.PROTOCOL_3_0, 2) + b"_pq_.grease\0_pq_.other\0"


@pytest.mark.parametrize("version", [0, 2 << 16, 4 << 16, 1234 << 16])
async def test_other_protocol_versions_are_refused(version: int) -> None:
    assert isinstance(await refused_greeting(m.startup({"user": "ada"}, version)), ProtocolViolation)


@pytest.mark.parametrize("value", ["true", "on", "1", "yes", "database", "DATABASE", "t", "nonsense"])
async def test_replication_connections_are_refused(value: str) -> None:
    error = await refused_greeting(opening(replication=value))
    assert isinstance(error, Denied)
    assert "replication" in error.message


@pytest.mark.parametrize("value", ["false", "off", "0", "no", "OFF"])
async def test_replication_that_is_off_reaches_nobody(value: str) -> None:
    result, _ = await greeted(opening(replication=value))
    assert isinstance(result, PostgresStartup)
    assert result.parameters == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"user\0ada",
        b"user\0ada\0",
        b"user\0\0ada\0\0",
        b"user\0ada\0\0rest\0",
        b"user\0ada\0user\0eve\0\0",
        b"user\0ada\0options\0\0\0\0",
        b"\0\0\0",
    ],
)
async def test_attack_072_malformed_parameters(body: bytes) -> None:
    packet = struct.pack("!II", len(body) + 8, m.PROTOCOL_3_0) + body
    assert isinstance(await refused_greeting(packet), ProtocolViolation | Unauthenticated)


async def test_attack_072_no_parameter_smuggles_another_one() -> None:
    with pytest.raises(ProtocolViolation, match="zero byte"):
        m.startup({"user": "app", "database": "shop\0user\0postgres"})


async def test_a_user_name_is_needed_and_must_be_text() -> None:
    assert isinstance(await refused_greeting(m.startup({"database": "shop"})), Unauthenticated)
    assert isinstance(await refused_greeting(m.startup({"user": ""})), Unauthenticated)
    assert isinstance(await refused_greeting(opening(user="ad\udce4")), Unauthenticated)


async def test_parameters_that_are_no_text_keep_their_bytes() -> None:
    raw = b"user\0ada\0application_name\0caf\xe9\0\0"
    result, _ = await greeted(struct.pack("!II", len(raw) + 8, m.PROTOCOL_3_0) + raw)
    assert isinstance(result, PostgresStartup)
    assert m.startup({"user": "ada", **result.parameters})[8:] == raw


@given(st.binary(max_size=80), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_random_bytes_are_an_error_of_ours_or_a_closed_stream(data: bytes, framed: bool) -> None:
    async def run() -> None:
        packet = struct.pack("!II", len(data) + 8, m.PROTOCOL_3_0) + data if framed else data
        with suppress(PosternError, ConnectionError):
            await greeted(packet)

    asyncio.run(run())
