"""Applications as targets: dialling connects once, so that errors are reported early, and gives a link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import cast

from postern.agent.agent_policy import LocalPolicy
from postern.agent.secrets import ResolvedSecrets
from postern.protocols.http.target.http_access import HttpAccess, read_access
from postern.protocols.http.target.http_base_path import HttpBasePath
from postern.protocols.http.target.http_connector import HttpConnector, SharedConnections
from postern.protocols.http.target.http_target_link import HttpTargetLink
from postern.protocols.http.target.request_signer import RequestSigner, header_signer
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

SignerOf = Callable[[Order, ResolvedSecrets], RequestSigner]
AccessOf = Callable[[Order, ResolvedSecrets], HttpAccess]


class HttpTargets:
    """One kind of HTTP targets. `signer_of` makes what adds the credential to requests, and `access_of` reads where the
    application is; both raise Unavailable."""

    def __init__(
        self, policy: LocalPolicy, signer_of: SignerOf = header_signer, access_of: AccessOf = read_access
    ) -> None:
        self._policy = policy
        self._signer_of = signer_of
        self._access_of = access_of
        self._pool: dict[Hashable, SharedConnections] = {}

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Connect to the application. `parameters` are its own origin. Raises Denied by the policy, Unavailable."""
        access = self._access_of(order, secrets)
        self._policy.check_target(access.host, access.port)
        signer = self._signer_of(order, secrets)
        connector = HttpConnector(access, self._pool, order.session_id)
        try:
            upstream = await connector.connect()
        except BaseException:
            connector.close()
            raise
        origin = access.origin
        link = HttpTargetLink(
            upstream,
            connector.connect_for,
            signer,
            access.authority,
            HttpBasePath(access.base_path, str(origin)),
            timeout=order.timeout,
        )
        stream = StreamHandshake()
        link.set_protocol(stream)
        stream.connection_made(cast("asyncio.Transport", link))
        return Target(stream, {"scheme": origin.scheme, "authority": origin.authority}, release=connector.close)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: an exchange ends with its link."""
