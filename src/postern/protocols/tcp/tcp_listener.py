"""Clients of TCP services: from a local port that a command line opened, or from the listener, to a running link.

There is no login in the bytes, and no way to send the client a message. Everything that it sends waits until the target
is connected. A client that is rejected is reset. `postern connect` prints the reason; for a client of the listener only
the log has it.

The listener identifies a client by its certificate, which the gateway issued with a credential:

    a client connects ─▶ TLS, with a certificate of the gateway's client authority ─▶ the credential with the user name
    that the certificate names, issued with this certificate ─▶ admission, as with a password
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Mapping

from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import OPAQUE, Connection
from postern.errors import Denied, PosternError, Unauthenticated
from postern.gateway.clients.session_setup import ClientSession, SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.gateway_protocols import OpenWire, WireParts
from postern.protocols.tcp.tcp_wire import TcpWire
from postern.protocols.wire_base import Wire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.services.identity.client_certificates import CertifiedClient, ClientCertificates
from postern.transport.resets import reset_when_closed
from postern.transport.served_certificate import ServedCertificate
from postern.transport.stream import Stream


def wires(parts: WireParts) -> OpenWire:
    """Return the factory of wires."""

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        return TcpWire(recorded_input=parts.settings.recording_output_limit)

    return open_wire


class TcpTunnelServer:
    """Serves the clients of local ports."""

    def __init__(self, fronts: SessionSetup) -> None:
        self._fronts = fronts

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None:
        """Connect a client, whose principal is known, to its target."""
        client = _Client(stream, request.since, {"client_address": stream.peer}, request)
        return await self._fronts.by_tunnel(client, request)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell the command line why its client cannot connect. The listener has already logged the error."""
        self._fronts.engine.turned_away(error)
        _reset(stream, log_rejection(stream, error, level=logging.DEBUG))


class TcpGate:
    """Serves the clients of the listener. `certificate` is the gateway's own."""

    def __init__(
        self, fronts: SessionSetup, certificate: ServedCertificate, client_certificates: ClientCertificates
    ) -> None:
        self._fronts = fronts
        self._certificate = certificate
        self._client_certificates = client_certificates

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client with a certificate. TLS is required on loopback, too: there is no other login."""
        try:
            certified = await self._authenticate(stream)
            since = self._fronts.engine.links.changes
            grant = certified.require_grant(await self._fronts.find_grant(certified.username))
        except PosternError as error:
            self._fronts.engine.turned_away(error)
            _reset(stream, log_rejection(stream, error))
            return None
        metadata = {
            "client_address": stream.peer,
            "client_tls": "yes",
            "client_certificate_serial": certified.serial_text,
        }
        return await self._fronts.by_credential(_Client(stream, since, metadata), grant)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Reset a client that cannot log in now. The listener has already logged the error."""
        self._fronts.engine.turned_away(error)
        _reset(stream, log_rejection(stream, error, level=logging.DEBUG))

    async def _authenticate(self, stream: StreamHandshake) -> CertifiedClient:
        """Return what the client's certificate says, which TLS has verified. Raises Unauthenticated, Unavailable,
        ConnectionError."""
        authority = await self._client_certificates.authority_pem()
        stream.unread()  # raises ConnectionError if the client has gone
        # A client that has sent everything is served, although TLS then does not let it read the answer.
        stream.half_open = True
        try:
            await stream.start_tls(self._certificate.certified_context(authority))
        except PosternError as error:
            if isinstance(error.__cause__, ssl.SSLError):
                raise Unauthenticated(_handshake_problem(error.__cause__)) from error
            raise
        certificate = stream.peer_certificate
        if certificate is None:
            raise Unauthenticated("the client sent no certificate")
        return CertifiedClient.read(certificate)


class _Client(ClientSession):
    def send_notice(self, text: str, hint: str) -> None:
        """Do nothing: the command line itself shows that its clients wait. Other clients cannot be told."""

    def check(self) -> None:
        """Raise ConnectionError if the client has closed its connection, also for sending only: what it sent must not
        reach the target minutes later, when it has gone."""
        self.stream.unread()
        if self.stream.has_ended:
            raise ConnectionResetError("the client closed the connection while it waited")

    def fits(self, connection: Connection) -> None:
        if connection.protocol not in OPAQUE:
            raise Denied(f"connection {connection.name!r} needs a client of its protocol, {connection.subtype!r}")

    def start(self, permit: Permit) -> Start:
        return Start()

    def welcome(self, target: Target) -> bytes:
        return b""

    def turn_away(self, error: PosternError) -> None:
        _reset(self.stream, log_rejection(self.stream, error))


def _reset(stream: StreamHandshake, reason: tuple[str, str]) -> None:
    """End the stream, so that the client does not take it for a service without an answer."""
    text, hint = reason
    transport = stream.transport
    if isinstance(transport, Stream):
        transport.reset(f"{text}. {hint}" if hint else text)
    elif transport is not None:
        reset_when_closed(transport)
        transport.abort()


def _handshake_problem(error: ssl.SSLError) -> str:
    """Return why a TLS handshake failed, for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client certificate is not valid: {error.verify_message}"
    if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the client sent no certificate; it needs that of a credential (`postern connect NAME --native`)"
    return f"the TLS handshake failed: {error.reason or error}"
