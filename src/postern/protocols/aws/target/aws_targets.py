"""Services of AWS as targets. One connection can have several services, each at an address of its own: a link changes
to that of the request.

    AWS_ENDPOINT_URL                        one address for all of them: a VPC endpoint, DynamoDB Local
    else https://SERVICE.REGION.amazonaws.com
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, cast

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import text
from postern.agent.secrets import ResolvedSecrets
from postern.errors import PosternError, Unavailable
from postern.protocols.aws.target.aws_signer import AwsService, AwsSigner, AwsSigners
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.http_rewriting import HttpOrigin
from postern.protocols.http.target.http_access import HTTP1, SSL_MODES, HttpAccess
from postern.protocols.http.target.http_base_path import HttpBasePath
from postern.protocols.http.target.http_connector import HttpConnector, SharedConnections
from postern.protocols.http.target.http_target_link import HttpTargetLink
from postern.protocols.http.target.http_upstream import Upstream
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

ServiceOf = Callable[[RequestHead], AwsService]
"""Returns the service of a request."""

# A request without an operation: its service is the first one of the connection.
_ANY_REQUEST: Final = RequestHead("POST", "/", "")


class AwsTargets:
    """Dials services."""

    def __init__(self, policy: LocalPolicy, service_of: ServiceOf) -> None:
        self._policy = policy
        self._signers = AwsSigners(service_of)
        self._pool: dict[Hashable, SharedConnections] = {}

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Connect to the service, and see that there are credentials. Raises Denied by the policy, Unavailable."""
        signer = self._signers.of(order, secrets)
        connector = AwsConnector(signer, order, secrets, self._policy, self._pool)
        access = connector.access_of(_ANY_REQUEST)
        try:
            await signer.prepare()
            upstream = await connector.connect_for(_ANY_REQUEST)
        except PosternError as error:
            connector.close()
            raise type(error)(f"connection {order.connection!r}: {error.message}") from None
        except BaseException:
            connector.close()
            raise
        base_path = HttpBasePath("", str(access.origin))
        lane = AwsTargetLink(
            upstream, connector.connect_for, signer, access.authority, base_path, timeout=order.timeout
        )
        stream = StreamHandshake()
        lane.set_protocol(stream)
        stream.connection_made(cast("asyncio.Transport", lane))
        parameters = {"scheme": access.scheme, "authority": access.authority}
        return Target(stream, parameters, release=connector.close)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: an exchange ends with its lane."""


@dataclass(slots=True)
class AwsConnector:
    """Connects one link to the address of each request."""

    signer: AwsSigner
    order: Order
    secrets: ResolvedSecrets
    policy: LocalPolicy
    pool: dict[Hashable, SharedConnections]
    connectors: dict[str, HttpConnector] = field(default_factory=dict)

    def access_of(self, head: RequestHead) -> HttpAccess:
        """Return how the service of a request is reached. Raises Unavailable, Denied by the policy."""
        origin = HttpOrigin.read(self.signer.endpoint(head))
        access = HttpAccess(
            scheme=origin.scheme,
            host=origin.host.strip("[]"),
            port=origin.port,
            authority=origin.authority,
            origin=origin,
            sslmode=self._sslmode(origin.scheme),
            root=text(self.secrets.values, "SSLROOTCERT"),
            versions=(HTTP1,),
        )
        self.policy.check_target(access.host, access.port)
        return access

    async def connect_for(self, head: RequestHead) -> Upstream:
        """Connect for a request. Raises Unavailable, Denied."""
        access = self.access_of(head)
        connector = self.connectors.get(access.authority)
        if connector is None:
            connector = self.connectors[access.authority] = HttpConnector(access, self.pool, self.order.session_id)
        try:
            return await connector.connect_for(head)
        except ssl.SSLError as error:
            raise Unavailable(f"TLS with {access.address} failed: {error.reason}") from None

    def close(self) -> None:
        for connector in self.connectors.values():
            connector.close()
        self.connectors.clear()

    def _sslmode(self, scheme: str) -> str:
        if scheme == "http":
            return "disable"
        mode = text(self.secrets.values, "SSLMODE") or "verify-full"
        if mode not in SSL_MODES:
            raise Unavailable(f"secret SSLMODE must be one of {', '.join(SSL_MODES)}")
        return mode


class AwsTargetLink(HttpTargetLink):
    """A link whose requests can be for several addresses, one after another."""

    _dialled = ""  # the authority of the connection that there is

    def _dispatch(self, head: RequestHead) -> None:
        if self._dialled and self._dialled != head.authority:
            self._drop_upstream()
        self._dialled = head.authority
        super()._dispatch(head)
