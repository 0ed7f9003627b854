"""Clients of databases: what they have in common while their login is not complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from postern.domain.targets.connection import Connection
from postern.errors import Denied, ProtocolViolation
from postern.gateway.clients.session_setup import ClientSession
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.relay.relay_handshake import StreamHandshake


class DatabaseClient(ClientSession):
    """A client of the databases of one `subtype`. Metadata that it did not send is empty."""

    subtype: ClassVar[str]

    def __init__(
        self, stream: StreamHandshake, since: int, metadata: Mapping[str, str], request: TunnelRequest | None = None
    ) -> None:
        # In some protocols a text can contain a NUL, which not every store accepts.
        texts = {name: value.replace("\0", "\ufffd") for name, value in metadata.items() if value}
        super().__init__(stream, since, texts, request)

    def send_notice(self, text: str, hint: str) -> None:
        """Do nothing: clients show messages of most protocols only once their login is complete."""

    def check(self) -> None:
        if self.stream.unread():
            raise ProtocolViolation("the client sent requests before its login was complete")

    def fits(self, connection: Connection) -> None:
        if connection.subtype != self.subtype:
            raise Denied(f"connection {connection.name!r} is of subtype {connection.subtype!r}, not {self.subtype!r}")
