"""A client's login at the gateway, over streams in memory."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient, ScramMechanism

from postern.domain.credential import Verifier
from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated
from postern.protocols.postgres import messages as m
from postern.protocols.postgres.login import Cancel, Startup, authenticate, decoy, greet, turn_away, welcome
from postern.testing import postgres as pg
from postern.testing.handshake import MemoryHandshake, pair

SSL = m.UINT32.pack(8) + m.UINT32.pack(m.SSL_REQUEST)
GSS = m.UINT32.pack(8) + m.UINT32.pack(m.GSSENC_REQUEST)
PASSWORD = "correct horse"
BINDING = b"hash of the certificate"
SCRAM, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"


def verifier(password: str = PASSWORD) -> Verifier:
    salt, stored_key, server_key, iterations = ScramMechanism(SCRAM).make_auth_info(password, salt=b"0123456789abcdef")
    return Verifier(iterations, salt, stored_key, server_key)


def opening(**parameters: str) -> bytes:
    return m.startup({"user": "ada", **parameters})


async def greeted(*data: bytes, tls: bool = True, require_tls: bool = False) -> tuple[Startup | Cancel, bytes]:
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
    assert result == Startup("ada", "shop", {"application_name": "psql"}, m.PROTOCOL_3_0, False)
    assert answers == b""


async def test_tls_then_startup() -> None:
    result, answers = await greeted(SSL, opening())
    assert isinstance(result, Startup)
    assert result.encrypted
    assert answers == b"S"


async def test_attack_085_the_probe_for_gss_encryption_is_answered_in_either_order() -> None:
    for first, second, expected in ((GSS, SSL, b"NS"), (GSS, b"", b"N")):
        result, answers = await greeted(*filter(None, (first, second)), opening())
        assert isinstance(result, Startup)
        assert answers == expected
    result, answers = await greeted(SSL, GSS, opening(), tls=False)
    assert isinstance(result, Startup)
    assert (result.encrypted, answers) == (False, b"NN")


async def test_no_tls_here() -> None:
    result, answers = await greeted(SSL, opening(), tls=False)
    assert isinstance(result, Startup)
    assert (result.encrypted, answers) == (False, b"N")


async def test_tls_required() -> None:
    assert isinstance(await refused_greeting(opening(), require_tls=True), Denied)
    assert isinstance(await refused_greeting(GSS, opening(), require_tls=True), Denied)
    result, _ = await greeted(SSL, opening(), require_tls=True)
    assert isinstance(result, Startup)


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
    assert isinstance(result, Startup)
    assert (result.protocol, answers) == VERSIONS[asked]


async def test_unknown_protocol_options_are_named_and_go_no_further() -> None:
    result, answers = await greeted(opening(**{"_pq_.grease": "1", "_pq_.other": "2", "TimeZone": "UTC"}))
    assert isinstance(result, Startup)
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
    assert isinstance(result, Startup)
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
    assert isinstance(result, Startup)
    assert m.startup({"user": "ada", **result.parameters})[8:] == raw


@given(st.binary(max_size=80), st.booleans())
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_an_error_of_ours_or_a_closed_stream(data: bytes, framed: bool) -> None:
    async def run() -> None:
        packet = struct.pack("!II", len(data) + 8, m.PROTOCOL_3_0) + data if framed else data
        with suppress(PosternError, ConnectionError):
            await greeted(packet)

    asyncio.run(run())


# Authentication


def sasl_first(mechanism: str, text: str) -> bytes:
    return m.message(b"p", m.cstring(mechanism), m.INT32.pack(len(text)), text.encode())


async def log_in(
    client: MemoryHandshake, password: str, mechanism: str, binding: bytes | None = None, flag: str | None = None
) -> bytes:
    """As libpq does it: the SASL user name is empty. Answers the last message's body."""
    channel = ("tls-server-end-point", binding) if binding else None
    scram = ScramClient([mechanism], "*", password, channel_binding=channel)
    await client.message()
    first = scram.get_client_first().replace("n=*,", "n=,")
    scram.client_first_bare = scram.client_first_bare.replace("n=*,", "n=,")
    client.write(sasl_first(mechanism, first if flag is None else flag + first[first.index(",") :]))
    _, body = await client.message()
    scram.set_server_first(body[4:].decode())
    client.write(m.message(b"p", scram.get_client_final().encode()))
    tag, body = await client.message()
    scram.set_server_final(body[4:].decode())
    return tag + body


async def authenticated(
    password: str, mechanism: str = SCRAM, *, tls: bool = False, known: Verifier | None = None
) -> None:
    ours, client = pair(binding=BINDING if tls else None)
    ours.encrypted = tls
    server = asyncio.create_task(authenticate(ours, known or verifier()))
    peer = asyncio.create_task(log_in(client, password, mechanism, BINDING if mechanism == PLUS else None))
    try:
        await server
        assert (await peer)[:5] == b"R\0\0\0\x0c"
    finally:
        peer.cancel()


async def test_the_right_password() -> None:
    await authenticated(PASSWORD)
    await authenticated(PASSWORD, tls=True)
    await authenticated(PASSWORD, PLUS, tls=True)


@pytest.mark.parametrize(("mechanism", "tls"), [(SCRAM, False), (SCRAM, True), (PLUS, True)])
async def test_the_wrong_password(mechanism: str, tls: bool) -> None:
    with pytest.raises(Unauthenticated, match="the user name or password is wrong"):
        await authenticated("wrong", mechanism, tls=tls)


async def test_what_is_offered() -> None:
    for tls, names in ((False, [SCRAM]), (True, [PLUS, SCRAM])):
        ours, client = pair(binding=BINDING)
        ours.encrypted = tls
        client.write(m.message(b"p", b"x\0\0\0\0\0"))
        with pytest.raises(ProtocolViolation):
            await authenticate(ours, verifier())
        _, body = await client.message()
        assert body == m.INT32.pack(10) + b"".join(m.cstring(name) for name in names) + b"\0"


async def test_attack_077_a_client_that_was_told_of_no_channel_binding_is_turned_away() -> None:
    ours, client = pair(binding=BINDING)
    ours.encrypted = True
    client.write(sasl_first(SCRAM, "y,,n=,r=abcdef"))
    with pytest.raises(Unauthenticated):
        await authenticate(ours, verifier())


async def test_channel_binding_to_another_certificate() -> None:
    ours, client = pair(binding=BINDING)
    ours.encrypted = True
    server = asyncio.create_task(authenticate(ours, verifier()))
    peer = asyncio.create_task(log_in(client, PASSWORD, PLUS, b"another certificate"))
    with pytest.raises(Unauthenticated):
        await server
    peer.cancel()


async def test_a_client_that_knows_of_no_channel_binding_may_log_in_where_there_is_none() -> None:
    ours, client = pair()
    server = asyncio.create_task(authenticate(ours, verifier()))
    peer = asyncio.create_task(log_in(client, PASSWORD, SCRAM, BINDING))
    await server
    assert (await peer)[:1] == b"R"


FIRST = {
    "another message": pg.query("select 1"),
    "a second startup message (attack 73)": m.startup({"user": "eve"}),
    "length 3": b"p\0\0\0\3",
    "an oversized length": b"p\x7f\xff\xff\xff",
    "no end of the mechanism": m.message(b"p", b"SCRAM"),
    "no length": m.message(b"p", m.cstring(SCRAM)),
    "a length too large": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(99), b"n,,n=,r=abc"),
    "a length too small": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(3), b"n,,n=,r=abc"),
    "a negative length": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(-1)),
    "another mechanism": sasl_first("SCRAM-SHA-1", "n,,n=,r=abc"),
    "a mechanism that was not offered": sasl_first(PLUS, "p=tls-server-end-point,,n=,r=abc"),
    "nothing": sasl_first(SCRAM, ""),
    "no header": sasl_first(SCRAM, "n=,r=abc"),
    "no nonce": sasl_first(SCRAM, "n,,n="),
    "an empty nonce": sasl_first(SCRAM, "n,,n=,r="),
    "an extension": sasl_first(SCRAM, "n,,m=x,n=,r=abc"),
    "another authorization": sasl_first(SCRAM, "n,a=root,n=,r=abc"),
    "binding without TLS": sasl_first(SCRAM, "p=tls-server-end-point,,n=,r=abc"),
    "no text": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(2), b"\xff\xfe"),
}


@pytest.mark.parametrize("name", FIRST)
async def test_malformed_first_messages(name: str) -> None:
    ours, client = pair()
    client.write(FIRST[name])
    with pytest.raises((ProtocolViolation, Unauthenticated)):
        await authenticate(ours, verifier())


FINALS = [
    "",
    "\0",
    "c=biws",
    "c=biws,r={nonce},p=",
    "c=!!,r={nonce},p=AAAA",
    "c=biws,r=other,p=AAAA",
    "c=biws,r={nonce},p=AAAA",
    "p=AAAA,r={nonce},c=biws",
    "c=biws,r={nonce},p=" + "A" * 44,
]


@pytest.mark.parametrize("final", FINALS)
async def test_malformed_final_messages(final: str) -> None:
    ours, client = pair()
    server = asyncio.create_task(authenticate(ours, verifier()))
    await client.message()
    client.write(sasl_first(SCRAM, "n,,n=,r=abcdef"))
    _, body = await client.message()
    nonce = body[4:].decode().split(",")[0][2:]
    client.write(m.message(b"p", final.format(nonce=nonce).encode()))
    with pytest.raises(Unauthenticated):
        await server


async def test_attack_073_one_startup_message_a_connection() -> None:
    ours, client = pair()
    server = asyncio.create_task(authenticate(ours, verifier()))
    await client.message()
    client.write(sasl_first(SCRAM, "n,,n=,r=abcdef"))
    await client.message()
    client.write(opening(user="root"))
    with pytest.raises(ProtocolViolation):
        await server


async def test_attack_078_an_unknown_user_looks_like_a_wrong_password() -> None:
    secret = b"of this installation"
    with pytest.raises(Unauthenticated) as unknown:
        await authenticated(PASSWORD, known=decoy("nobody", secret))
    with pytest.raises(Unauthenticated) as wrong:
        await authenticated("wrong")
    assert unknown.value.message == wrong.value.message

    real, fake = verifier(), decoy("nobody", secret)
    assert (fake.iterations, len(fake.salt)) == (real.iterations, len(real.salt))
    assert decoy("nobody", secret).salt == fake.salt
    assert decoy("other", secret).salt != fake.salt
    assert decoy("nobody", b"of another").salt != fake.salt


async def test_attack_079_the_client_is_given_the_key_that_it_is_welcomed_with_and_no_other() -> None:
    ours, client = pair()
    written = welcome(ours, {"server_version": "17.0", "client_encoding": "UTF8"}, 7, b"key!")
    assert client.take() == written
    assert [tag for tag, _ in pg.split(written)] == [b"R", b"S", b"S", b"K", b"Z"]


async def test_a_refused_login_says_why() -> None:
    ours, client = pair()
    turn_away(ours, "28P01", "no", "try again")
    assert client.take() == m.error_response("28P01", "no", severity="FATAL", hint="try again")
