"""A byte stream during login: limits, ends, and TLS that begins in the middle, on the event loop of gateways."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from tests.support.certificates import issue
from tests.support.mysql import server_context
from tests.support.promises import until, within

from postern.errors import Unavailable
from postern.relay.relay_handshake import StreamHandshake, channel_binding_of


async def _encrypted(context: ssl.SSLContext, authority: str, early: int) -> bool:
    """Start TLS after the first `early` bytes of the client's TLS have arrived; the others arrive then."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    stream = StreamHandshake(context)
    await loop.connect_accepted_socket(lambda: stream, ours)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    theirs.send(b"x" + hello[:early])
    assert await stream.read(1) == b"x"

    async def finish() -> None:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                incoming.write(await loop.sock_recv(theirs, 65536))
        await loop.sock_sendall(theirs, outgoing.read())

    async with asyncio.timeout(within(20)):
        finishing = asyncio.create_task(finish())
        theirs.send(hello[early:])
        await stream.start_tls()
        await finishing
        client.write(b"hello")
        await loop.sock_sendall(theirs, outgoing.read())
        answer = await stream.read(5)
    stream.close()
    theirs.close()
    return answer == b"hello"


@pytest.mark.parametrize("early", [0, 1, 100, 10_000], ids=["none", "a byte", "a part", "all of them"])
def test_bytes_of_tls_that_arrive_before_tls_starts_are_not_lost(tmp_path: Path, early: int) -> None:
    issued = issue("localhost")
    assert uvloop.run(_encrypted(server_context(issued, tmp_path), issued.authority, early))


PAUSED_ABOVE = 64 * 1024  # bytes that wait to be read


class Counting(asyncio.Protocol):
    """Counts what it receives."""

    def __init__(self) -> None:
        self.size = 0

    def data_received(self, data: bytes) -> None:
        self.size += len(data)


async def _received(context: ssl.SSLContext, authority: str, size: int) -> int:
    """How much of `size` bytes arrives that a client sends together with the end of its TLS handshake."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    stream = StreamHandshake(context)
    await loop.connect_accepted_socket(lambda: stream, ours)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=authority).wrap_bio(incoming, outgoing, server_hostname="localhost")

    async def send() -> None:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                await loop.sock_sendall(theirs, outgoing.read())
                incoming.write(await loop.sock_recv(theirs, 65536))
        client.write(b"y" * size)
        await loop.sock_sendall(theirs, outgoing.read())

    async with asyncio.timeout(5):
        sending = asyncio.create_task(send())
        await stream.start_tls()
        await stream.read(1)
        successor = Counting()
        early = stream.hand_over(successor)
        await until(lambda: 1 + len(early) + successor.size >= size, 5)
        await sending
    stream.close()
    theirs.close()
    return 1 + len(early) + successor.size


@pytest.mark.parametrize("size", [1_000, 100_000, 1_000_000])
def test_much_data_right_behind_the_handshake_arrives(tmp_path: Path, size: int) -> None:
    issued = issue("localhost")
    context = server_context(issued, tmp_path)
    for _ in range(5):
        assert uvloop.run(_received(context, issued.authority, size)) == size


class FakeTransport(asyncio.Transport):
    """Records what is asked of it. `calls` are in order."""

    def __init__(self, peer: object = None, *, half_closes: bool = True) -> None:
        super().__init__({"peername": peer})
        self.calls: list[str] = []
        self.written = b""
        self.protocol: asyncio.BaseProtocol | None = None
        self._half_closes = half_closes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def can_write_eof(self) -> bool:
        return self._half_closes

    def write_eof(self) -> None:
        self.calls.append("eof")

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return "close" in self.calls

    def close(self) -> None:
        self.calls.append("close")


def connected(transport: FakeTransport) -> StreamHandshake:
    stream = StreamHandshake()
    stream.connection_made(transport)
    return stream


@pytest.mark.parametrize(
    ("address", "peer"),
    [(("192.0.2.7", 5000), "192.0.2.7"), (("::1", 5000, 0, 0), "::1"), ("/run/x.sock", ""), (None, "")],
)
def test_peer_is_the_host_of_its_address(address: object, peer: str) -> None:
    assert connected(FakeTransport(address)).peer == peer


def test_peer_is_paused_above_the_limit_and_resumed_by_the_next_waiting_read() -> None:
    async def run() -> None:
        transport = FakeTransport()
        stream = connected(transport)
        stream.data_received(bytes(PAUSED_ABOVE))
        assert (transport.calls, stream.is_full, stream.buffered) == ([], False, PAUSED_ABOVE)
        stream.data_received(b"x")
        stream.data_received(b"y")
        assert (transport.calls, stream.is_full) == (["pause"], True)
        assert await stream.read(PAUSED_ABOVE + 1) == bytes(PAUSED_ABOVE) + b"x"
        assert transport.calls == ["pause"]  # nothing was waited for
        reading = asyncio.create_task(stream.read(3))
        await asyncio.sleep(0)
        assert (transport.calls, stream.is_full) == (["pause", "resume"], False)
        stream.data_received(b"z")
        await asyncio.sleep(0)
        assert not reading.done()
        stream.data_received(b"!?")
        assert await reading == b"yz!"
        assert stream.unread() == b"?"

    asyncio.run(run())


def test_peer_is_not_paused_before_a_large_read_is_complete() -> None:
    async def run() -> None:
        transport = FakeTransport()
        stream = connected(transport)
        reading = asyncio.create_task(stream.read(PAUSED_ABOVE + 10))
        await asyncio.sleep(0)
        stream.data_received(bytes(PAUSED_ABOVE + 9))
        stream.data_received(b"x")
        assert transport.calls == []
        stream.data_received(b"y")
        assert transport.calls == ["pause"]
        assert len(await reading) == PAUSED_ABOVE + 10
        assert stream.unread() == b"y"
        stream.data_received(bytes(PAUSED_ABOVE))  # no read waits, so the limit holds again
        assert stream.is_full

    asyncio.run(run())


END = "the peer closed the connection during login"


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (lambda stream: stream.eof_received(), END),
        (lambda stream: stream.connection_lost(None), "the connection was lost during login"),
        (lambda stream: stream.connection_lost(BrokenPipeError("broken")), "broken"),
        (lambda stream: (stream.eof_received(), stream.connection_lost(BrokenPipeError("later"))), END),
    ],
    ids=["end of file", "lost", "lost with an error", "both"],
)
@pytest.mark.parametrize("is_awaited", [True, False])
def test_every_call_fails_once_the_peer_has_closed_or_is_lost(
    ends: Callable[[StreamHandshake], object], message: str, is_awaited: bool
) -> None:
    async def run() -> None:
        transport = FakeTransport()
        stream = connected(transport)
        heard: list[int] = []
        stream.on_heard = lambda: heard.append(stream.buffered)
        stream.data_received(b"abc")
        reading = asyncio.create_task(stream.read(5))
        await asyncio.sleep(0)
        if not is_awaited:
            reading.cancel()
            await asyncio.wait([reading])
        ends(stream)
        assert heard[:2] == [3, 3]  # once for the bytes, and for the end
        if is_awaited:
            with pytest.raises(ConnectionError, match=message):
                await reading
        assert await stream.read(2) == b"ab"  # what came before the end can be read
        with pytest.raises(ConnectionError, match=message):
            await stream.read(2)
        with pytest.raises(ConnectionError, match=message):
            stream.unread()
        with pytest.raises(ConnectionError, match=message):
            stream.hand_over(asyncio.Protocol())
        stream.write(b"into the void")
        assert (transport.written, transport.protocol) == (b"", None)

    asyncio.run(run())


def test_end_of_file_closes_the_transport() -> None:
    assert not connected(FakeTransport()).eof_received()


def test_stream_without_a_connection_raises_connection_reset() -> None:
    stream = StreamHandshake()
    with pytest.raises(ConnectionResetError, match="not established"):
        stream.write(b"x")
    stream.close()  # there is nothing to close


@pytest.mark.parametrize("size", [10, PAUSED_ABOVE + 1])
def test_successor_protocol_gets_the_transport_and_the_unread_bytes(size: int) -> None:
    async def run() -> None:
        transport = FakeTransport()
        stream, successor = connected(transport), asyncio.Protocol()
        heard: list[int] = []
        stream.on_heard = lambda: heard.append(1)
        stream.data_received(b"a" + bytes(size))
        assert await stream.read(1) == b"a"
        assert stream.unread(1) == bytes(size - 1)
        assert stream.hand_over(successor) == bytes(size)
        assert transport.protocol is successor
        assert transport.calls == (["pause", "resume"] if size > PAUSED_ABOVE else [])
        assert (stream.buffered, stream.is_full) == (0, False)
        stream.connection_lost(None)
        assert len(heard) == 1  # whoever listened before is not told of the successor's end

    asyncio.run(run())


@pytest.mark.parametrize("half_closes", [True, False])
def test_lingering_stream_discards_input_until_the_peer_has_closed(half_closes: bool) -> None:
    async def run() -> None:
        transport = FakeTransport(half_closes=half_closes)
        stream = connected(transport)
        lingering = asyncio.create_task(stream.linger())
        for _ in range(3):
            await asyncio.sleep(0)
            stream.data_received(b"still talking")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not lingering.done()
        assert stream.buffered < len(b"still talking")
        stream.eof_received()
        await lingering
        assert transport.calls == (["eof"] if half_closes else [])
        await stream.linger()  # the peer is gone: nothing is sent, and nothing is waited for
        assert transport.calls == (["eof"] if half_closes else [])

    asyncio.run(run())


def test_bytes_for_later_are_sent_with_the_next_ones() -> None:
    transport = FakeTransport()
    stream = connected(transport)
    stream.write_later(b"a")
    stream.write_later(b"b")
    assert transport.written == b""
    stream.write(b"c")
    assert transport.written == b"abc"
    stream.write(b"d")
    assert transport.written == b"abcd"


@pytest.mark.parametrize(
    "end",
    [StreamHandshake.close, lambda stream: stream.hand_over(asyncio.Protocol())],
    ids=["closed", "handed over"],
)
def test_bytes_for_later_are_not_lost(end: Callable[[StreamHandshake], object]) -> None:
    transport = FakeTransport()
    stream = connected(transport)
    stream.write_later(b"a")
    end(stream)
    assert transport.written == b"a"


def test_bytes_are_read_at_once_only_if_all_have_arrived() -> None:
    stream = connected(FakeTransport())
    stream.data_received(b"abc")
    assert stream.read_buffered(4) is None
    assert stream.read_buffered(0) == b""
    assert stream.read_buffered(2) == b"ab"
    assert stream.unread() == b"c"


def test_stream_is_closed_once() -> None:
    transport = FakeTransport()
    stream = connected(transport)
    stream.close()
    stream.close()
    assert transport.calls == ["close"]


def test_tls_without_a_context_is_unavailable() -> None:
    stream = connected(FakeTransport())
    assert not stream.tls_offered
    with pytest.raises(Unavailable, match="TLS is not configured"):
        asyncio.run(stream.start_tls())


def test_peer_that_closes_as_soon_as_tls_begins_is_a_connection_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def getpeercert(self, *, binary_form: bool) -> bytes:
            raise ValueError("handshake not done yet")  # what Python says of a connection that has ended

    class ClosedTransport(FakeTransport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return Closed()

    async def start() -> None:
        stream = StreamHandshake(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), server_name="localhost")
        stream.connection_made(FakeTransport())

        async def start_tls(*_: object, **__: object) -> object:
            return ClosedTransport()

        monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", start_tls)
        await stream.start_tls()

    with pytest.raises(ConnectionResetError, match="during the TLS handshake"):
        asyncio.run(start())


async def _handshake(server: StreamHandshake, client: StreamHandshake) -> list[object]:
    """Start TLS on both ends of a connection; return what came of it on each."""
    loop = asyncio.get_running_loop()
    for stream, end in zip((server, client), socket.socketpair(), strict=True):
        await loop.connect_accepted_socket(lambda stream=stream: stream, end)  # type: ignore[misc]
    try:
        async with asyncio.timeout(within(20)):
            return list(await asyncio.gather(server.start_tls(), client.start_tls(), return_exceptions=True))
    finally:
        server.close()
        client.close()


@pytest.mark.parametrize("name", ["localhost", "elsewhere"])
@pytest.mark.parametrize("checks_name", [True, False])
def test_client_checks_the_server_name_if_its_context_does(tmp_path: Path, name: str, checks_name: bool) -> None:
    issued = issue("localhost")
    certificate = ssl.PEM_cert_to_DER_cert(issued.certificate.decode())
    context = ssl.create_default_context(cadata=issued.authority)
    context.check_hostname = checks_name
    server = StreamHandshake(server_context(issued, tmp_path), certificate=certificate)
    client = StreamHandshake(context, server_name=name)
    assert client.tls_offered
    outcome = uvloop.run(_handshake(server, client))[1]
    if checks_name and name != "localhost":
        assert isinstance(outcome, Unavailable)
        assert "CERTIFICATE_VERIFY_FAILED" in outcome.message
        assert client.channel_binding is None
    else:
        assert outcome is None
        assert client.channel_binding == server.channel_binding == hashlib.sha256(certificate).digest()


def test_server_without_a_certificate_at_hand_has_no_channel_binding(tmp_path: Path) -> None:
    issued = issue("localhost")
    server = StreamHandshake(server_context(issued, tmp_path))
    client = StreamHandshake(ssl.create_default_context(cadata=issued.authority), server_name="localhost")
    assert uvloop.run(_handshake(server, client)) == [None, None]
    assert server.channel_binding is None
    assert client.channel_binding is not None


def _certificate(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    algorithm: hashes.HashAlgorithm | None,
) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
    )
    return builder.sign(key, algorithm).public_bytes(Encoding.DER)  # type: ignore[arg-type]


SHA256_WITH_RSA = bytes.fromhex("06092a864886f70d01010b")


@pytest.mark.parametrize(("old", "number"), [("md5", 4), ("sha1", 5)])
def test_channel_binding_replaces_broken_hashes_with_sha256(old: str, number: int) -> None:
    """Libraries no longer sign with these hashes, so another certificate is edited to name them."""
    signed = _certificate(rsa.generate_private_key(65537, 2048), hashes.SHA256())
    certificate = signed.replace(SHA256_WITH_RSA, SHA256_WITH_RSA[:-1] + bytes([number]))
    algorithm = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    assert algorithm is not None
    assert algorithm.name == old
    assert channel_binding_of(certificate) == hashlib.sha256(certificate).digest()


@pytest.mark.parametrize("algorithm", [hashes.SHA256(), hashes.SHA384(), hashes.SHA512()], ids=lambda found: found.name)
def test_channel_binding_uses_the_hash_of_the_certificate_signature(algorithm: hashes.HashAlgorithm) -> None:
    certificate = _certificate(ec.generate_private_key(ec.SECP256R1()), algorithm)
    assert channel_binding_of(certificate) == hashlib.new(algorithm.name, certificate).digest()


def test_channel_binding_of_a_signature_without_a_hash_uses_sha256() -> None:
    certificate = _certificate(ed25519.Ed25519PrivateKey.generate(), None)
    assert channel_binding_of(certificate) == hashlib.sha256(certificate).digest()
