"""Dialling of applications: what is reported when it fails, and TLS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress

import pytest
from tests.support import certificates
from tests.support.certificates import Issued
from tests.support.http_target_links import dial_link, http_order, link_to, tls_server
from tests.support.tcp_services import service

from postern.agent.agent_policy import LocalPolicy
from postern.errors import Denied, Unavailable
from postern.protocols.http.http_heads import RequestHead

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def issued() -> Issued:
    return certificates.issue("localhost")


def encrypted(issued: Issued, *alpn: str) -> AbstractContextManager[int]:
    context = tls_server(issued, *alpn)

    def handle(connection: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as stream:
            while stream.recv(1 << 16):
                stream.sendall(OK)

    return service(handle)


def plain() -> AbstractContextManager[int]:
    def handle(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            connection.sendall(OK)

    return service(handle)


async def refusal(secrets: Mapping[str, str], timeout: float = 10.0) -> str:
    with pytest.raises(Unavailable) as error:
        await dial_link(secrets, order=http_order(timeout=timeout))
    return error.value.message


async def test_the_targets_own_origin_is_reported() -> None:
    with plain() as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}/base"}) as client:
            assert client.target.parameters == {"scheme": "http", "authority": f"127.0.0.1:{port}"}
        secrets = {"REMOTE_URL": f"http://127.0.0.1:{port}", "HEADER_HOST": "wiki.example"}
        async with link_to(secrets | {"HEADER_X_FORWARDED_PROTO": "https"}) as client:
            assert client.target.parameters == {"scheme": "https", "authority": "wiki.example"}


async def test_a_target_that_is_away() -> None:
    with plain() as port:
        pass
    assert (await refusal({"REMOTE_URL": f"http://127.0.0.1:{port}"})).startswith(
        f"the target at 127.0.0.1:{port} cannot be reached: "
    )
    assert "cannot be reached" in await refusal({"REMOTE_URL": "http://name.invalid"})


async def test_the_policy_of_the_agent_limits_targets() -> None:
    policy = LocalPolicy(targets=("127.0.0.1:1",))
    with plain() as port, pytest.raises(Denied, match="does not allow the target"):
        await dial_link({"REMOTE_URL": f"http://127.0.0.1:{port}"}, policy=policy)


async def test_a_verified_certificate(issued: Issued) -> None:
    with encrypted(issued) as port:
        secrets = {"REMOTE_URL": f"https://localhost:{port}", "SSLROOTCERT": issued.authority}
        async with link_to(secrets) as client:
            assert (await client.get()).body == b"ok"
            assert client.target.parameters["scheme"] == "https"


async def test_an_unknown_authority_a_wrong_name_and_no_certificates(issued: Issued) -> None:
    with encrypted(issued) as port:
        url = f"https://localhost:{port}"
        unknown = await refusal({"REMOTE_URL": url})
        assert f"the certificate of the target at localhost:{port} is not accepted: " in unknown
        assert "SSLROOTCERT" in unknown
        other = await refusal({"REMOTE_URL": url, "SSLROOTCERT": certificates.issue("localhost").authority})
        assert "is not accepted" in other
        wrong = {"REMOTE_URL": f"https://127.0.0.2:{port}", "SSLROOTCERT": issued.authority}
        if "cannot be reached" not in (text := await refusal(wrong)):  # only 127.0.0.1 may be listening
            assert "mismatch" in text
        assert "does not contain certificates" in await refusal({"REMOTE_URL": url, "SSLROOTCERT": "rubbish"})


async def test_a_name_that_is_not_in_the_certificate() -> None:
    issued = certificates.issue("elsewhere.example")
    with encrypted(issued) as port:
        secrets = {"REMOTE_URL": f"https://localhost:{port}", "SSLROOTCERT": issued.authority}
        assert "localhost" in await refusal(secrets)
        async with link_to(secrets | {"SSLMODE": "verify-ca"}) as client:
            assert (await client.get()).body == b"ok"


@pytest.mark.parametrize("secrets", [{"INSECURE": "true"}, {"SSLMODE": "require"}])
async def test_no_verification(issued: Issued, secrets: dict[str, str]) -> None:
    with encrypted(issued) as port:
        async with link_to(secrets | {"REMOTE_URL": f"https://localhost:{port}"}) as client:
            assert (await client.get()).body == b"ok"


async def test_https_to_a_port_that_speaks_http() -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with service(handle) as port:
        text = await refusal({"REMOTE_URL": f"https://localhost:{port}"})
    assert "the TLS handshake with the target at" in text
    assert "change REMOTE_URL" in text


async def test_a_target_that_closes_during_the_handshake() -> None:
    with service(lambda connection: None) as port:
        text = await refusal({"REMOTE_URL": f"https://localhost:{port}"})
    assert f"localhost:{port}" in text


async def test_a_target_without_http2_where_it_is_required(issued: Issued) -> None:
    for alpn in ((), ("http/1.1",)):
        with encrypted(issued, *alpn) as port:
            secrets = {"REMOTE_URL": f"https://localhost:{port}", "INSECURE": "true", "HTTP_VERSION": "2"}
            assert f"localhost:{port}" in await refusal(secrets)


async def test_a_connection_within_a_link_has_a_deadline() -> None:
    """The second connection reaches a listener that accepts and never begins its TLS handshake."""
    issued = certificates.issue("localhost")
    context = tls_server(issued)
    held: list[socket.socket] = []

    def handle(connection: socket.socket) -> None:
        if held:
            connection.recv(1 << 16)
            while connection.recv(1 << 16):
                pass
            return
        held.append(connection)
        with context.wrap_socket(connection, server_side=True) as stream:
            stream.recv(1 << 16)
            stream.sendall(OK.replace(b"Content", b"Connection: close\r\nContent"))

    with service(handle) as port:
        secrets = {"REMOTE_URL": f"https://localhost:{port}", "INSECURE": "true"}
        async with link_to(secrets, order=http_order(timeout=0.5)) as client:
            assert (await client.get()).body == b"ok"
            assert (await client.get()).failed == "timeout: the target did not answer within 0.5 seconds"


async def test_a_link_that_is_closed_stops_connecting() -> None:
    accepted: list[int] = []

    def handle(connection: socket.socket) -> None:
        accepted.append(1)
        connection.recv(1 << 16)
        connection.sendall(OK.replace(b"Content", b"Connection: close\r\nContent"))

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://localhost:{port}"}) as client:
            await client.get()
            client.begin(RequestHead("GET", "/", "x"))
            assert not client.writable.is_set()
        await asyncio.sleep(0.05)
    assert not client.frames
