"""Authentication of a client: SCRAM with and without channel binding, over in-memory streams."""

from __future__ import annotations

import asyncio

import pytest
from scramp import ScramClient, ScramMechanism
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.memory_handshake import MemoryHandshake, pair

from postern.domain.identity.credential import Verifier
from postern.errors import ProtocolViolation, Unauthenticated
from postern.protocols.postgres.login.postgres_login import authenticate, decoy, turn_away, welcome
from postern.protocols.postgres.wire import postgres_messages as m

PASSWORD = "correct horse"
BINDING = b"hash of the certificate"
SCRAM, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"


def verifier(password: str = PASSWORD) -> Verifier:
    salt, stored_key, server_key, iterations = ScramMechanism(SCRAM).make_auth_info(password, salt=b"0123456789abcdef")
    return Verifier(iterations, salt, stored_key, server_key)


def sasl_first(mechanism: str, text: str) -> bytes:
    return m.message(b"p", m.cstring(mechanism), m.INT32.pack(len(text)), text.encode())


async def log_in(
    client: MemoryHandshake, password: str, mechanism: str, binding: bytes | None = None, flag: str | None = None
) -> bytes:
    """Log in as libpq does, with an empty SASL user name. Return the body of the last message."""
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


async def test_client_with_the_right_password_is_authenticated() -> None:
    await authenticated(PASSWORD)
    await authenticated(PASSWORD, tls=True)
    await authenticated(PASSWORD, PLUS, tls=True)


@pytest.mark.parametrize(("mechanism", "tls"), [(SCRAM, False), (SCRAM, True), (PLUS, True)])
async def test_client_with_a_wrong_password_is_unauthenticated(mechanism: str, tls: bool) -> None:
    with pytest.raises(Unauthenticated, match="the user name or password is wrong"):
        await authenticated("wrong", mechanism, tls=tls)


async def test_channel_binding_is_offered_over_tls_only() -> None:
    for tls, names in ((False, [SCRAM]), (True, [PLUS, SCRAM])):
        ours, client = pair(binding=BINDING)
        ours.encrypted = tls
        client.write(m.message(b"p", b"x\0\0\0\0\0"))
        with pytest.raises(ProtocolViolation):
            await authenticate(ours, verifier())
        _, body = await client.message()
        assert body == m.INT32.pack(10) + b"".join(m.cstring(name) for name in names) + b"\0"


async def test_attack_077_client_whose_offer_lost_channel_binding_is_unauthenticated() -> None:
    ours, client = pair(binding=BINDING)
    ours.encrypted = True
    client.write(sasl_first(SCRAM, "y,,n=,r=abcdef"))
    with pytest.raises(Unauthenticated):
        await authenticate(ours, verifier())


async def test_client_bound_to_a_different_certificate_is_unauthenticated() -> None:
    ours, client = pair(binding=BINDING)
    ours.encrypted = True
    server = asyncio.create_task(authenticate(ours, verifier()))
    peer = asyncio.create_task(log_in(client, PASSWORD, PLUS, b"another certificate"))
    with pytest.raises(Unauthenticated):
        await server
    peer.cancel()


async def test_client_that_could_use_channel_binding_logs_in_without_tls() -> None:
    ours, client = pair()
    server = asyncio.create_task(authenticate(ours, verifier()))
    peer = asyncio.create_task(log_in(client, PASSWORD, SCRAM, BINDING))
    await server
    assert (await peer)[:1] == b"R"


FIRST = {
    "a different message": pg.query("select 1"),
    "a second startup message (attack 73)": m.startup({"user": "eve"}),
    "length 3": b"p\0\0\0\3",
    "an oversized length": b"p\x7f\xff\xff\xff",
    "an unterminated mechanism": m.message(b"p", b"SCRAM"),
    "no length": m.message(b"p", m.cstring(SCRAM)),
    "a length too large": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(99), b"n,,n=,r=abc"),
    "a length too small": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(3), b"n,,n=,r=abc"),
    "a negative length": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(-1)),
    "an unknown mechanism": sasl_first("SCRAM-SHA-1", "n,,n=,r=abc"),
    "a mechanism that was not offered": sasl_first(PLUS, "p=tls-server-end-point,,n=,r=abc"),
    "nothing": sasl_first(SCRAM, ""),
    "no header": sasl_first(SCRAM, "n=,r=abc"),
    "no nonce": sasl_first(SCRAM, "n,,n="),
    "an empty nonce": sasl_first(SCRAM, "n,,n=,r="),
    "an extension": sasl_first(SCRAM, "n,,m=x,n=,r=abc"),
    "a different authorization identity": sasl_first(SCRAM, "n,a=root,n=,r=abc"),
    "binding without TLS": sasl_first(SCRAM, "p=tls-server-end-point,,n=,r=abc"),
    "invalid UTF-8": m.message(b"p", m.cstring(SCRAM), m.INT32.pack(2), b"\xff\xfe"),
}


@pytest.mark.parametrize("name", FIRST)
async def test_malformed_first_scram_message_is_rejected(name: str) -> None:
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
async def test_malformed_final_scram_message_is_unauthenticated(final: str) -> None:
    ours, client = pair()
    server = asyncio.create_task(authenticate(ours, verifier()))
    await client.message()
    client.write(sasl_first(SCRAM, "n,,n=,r=abcdef"))
    _, body = await client.message()
    nonce = body[4:].decode().split(",")[0][2:]
    client.write(m.message(b"p", final.format(nonce=nonce).encode()))
    with pytest.raises(Unauthenticated):
        await server


async def test_attack_073_second_startup_message_is_a_protocol_violation() -> None:
    ours, client = pair()
    server = asyncio.create_task(authenticate(ours, verifier()))
    await client.message()
    client.write(sasl_first(SCRAM, "n,,n=,r=abcdef"))
    await client.message()
    client.write(m.startup({"user": "root"}))
    with pytest.raises(ProtocolViolation):
        await server


async def test_attack_078_unknown_user_gets_the_answer_of_a_wrong_password() -> None:
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


async def test_attack_079_welcome_contains_exactly_one_cancel_key() -> None:
    ours, client = pair()
    written = welcome(ours, {"server_version": "17.0", "client_encoding": "UTF8"}, 7, b"key!")
    assert client.take() == written
    assert [tag for tag, _ in pg.split(written)] == [b"R", b"S", b"S", b"K", b"Z"]


async def test_denied_login_sends_its_reason_and_hint() -> None:
    ours, client = pair()
    turn_away(ours, "28P01", "no", "try again")
    assert client.take() == m.error_response("28P01", "no", severity="FATAL", hint="try again")
