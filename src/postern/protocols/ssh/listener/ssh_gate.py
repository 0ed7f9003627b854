"""SSH clients at their port: one connection each, with one session per channel.

TCP ─▶ a login with its deadline and limits (gateway/clients/listener.py) ─▶ asyncssh: keys, user ─▶ authenticated
each channel ─▶ permitted? once per connection (ssh_permit_cache.py) ─▶ gateway/clients/session_setup.py ─▶ link
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable
from functools import partial
from uuid import UUID

import asyncssh
from asyncssh.kex import get_kex_algs

from postern.domain.identity.ssh_key import SIGNATURES
from postern.domain.secret import Secret
from postern.errors import PosternError, TooMany, Unauthenticated
from postern.protocols.ssh.listener.ssh_admission import Admission
from postern.protocols.ssh.listener.ssh_client_channel import WINDOW
from postern.protocols.ssh.listener.ssh_client_stream import ClientStream
from postern.protocols.ssh.listener.ssh_server import SshConnection, SshServer
from postern.protocols.ssh.listener.ssh_users import Proved, SshUser
from postern.protocols.ssh.listener.ssh_visit import SshClientState
from postern.protocols.ssh.ssh_transport import CIPHERS, COSTLY_KEX, HYBRID_KEX, KEX, MACS
from postern.relay.relay_handshake import StreamHandshake
from postern.services.admission import REFUSED_LOGIN

log = logging.getLogger(__name__)
asyncssh.set_log_level(logging.WARNING)  # below that it logs commands and environments

MOST_CONNECTIONS = 100  # of one user at this worker, and as many nested ones
KEEPALIVE, KEEPALIVES = 30, 4  # seconds, and the number of unanswered ones before the client is disconnected


class SshGate:
    """Serves SSH clients. `host_key` is the gateway's own private key."""

    def __init__(self, admission: Admission, host_key: Secret, *, login_timeout: float) -> None:
        self.admission = admission
        self._engine = admission.fronts.engine
        self._people: Counter[UUID] = Counter()
        self._insiders: Counter[UUID] = Counter()
        self._connections: set[SshConnection] = set()
        options = partial(
            asyncssh.SSHServerConnectionOptions,
            config=None,
            server_factory=partial(SshServer, admission, self.inside),
            server_version="Postern",
            server_host_keys=[asyncssh.import_private_key(host_key.reveal())],
            authorized_client_keys=None,
            gss_host=None,
            host_based_auth=False,
            kex_algs=[*_available(HYBRID_KEX), *(name for name in KEX if name not in COSTLY_KEX)],
            encryption_algs=CIPHERS,
            mac_algs=MACS,
            signature_algs=SIGNATURES,
            compression_algs=["none"],  # a decompression bomb would be unpacked before any check
            keepalive_interval=KEEPALIVE,
            keepalive_count_max=KEEPALIVES,
            agent_forwarding=False,
            x11_forwarding=False,
            line_editor=False,
            encoding=None,
            window=WINDOW,
        )
        # gateway/clients/listener.py has the deadline, which a browser login lifts
        self._outer = options(login_timeout=0)
        self._inside = options(login_timeout=login_timeout)

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client on the SSH port. SSH has its own encryption, so TLS is not required."""
        visit = SshClientState(stream.peer, self._engine.links.changes, stream)
        connection = self.connection(visit)
        wire = ClientStream(connection, visit.below_filled)
        assert stream.transport is not None
        early = stream.hand_over(wire)
        wire.connection_made(stream.transport)
        if early:
            wire.data_received(early)
        try:
            await asyncio.wait((visit.authenticated, wire.lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._finish_login_wait(visit, connection)
        if not visit.authenticated.done():
            self._engine.turned_away(Unauthenticated(REFUSED_LOGIN))
            is_probe = not connection.get_extra_info("client_version")  # it sent nothing, as health checks do
            level = logging.DEBUG if is_probe else logging.INFO
            log.log(level, "client %s was disconnected: it did not log in", stream.peer)
            return None
        return self._stays(connection, wire, visit.authenticated.result())

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client on the SSH port why it cannot log in. A disconnect can precede the key exchange, in clear text
        (RFC 4253, section 11.1), and costs no cryptography. The listener has already logged the error."""
        self._engine.turned_away(error)
        log.debug("client %s was rejected: %s", stream.peer, error.message)
        stream.write(b"SSH-2.0-Postern\r\n" + _disconnect(asyncssh.DISC_TOO_MANY_CONNECTIONS, error.message))

    async def _stays(self, connection: SshConnection, wire: ClientStream, proved: Proved) -> None:
        person = proved.principal.id
        self._people[person] += 1
        self._connections.add(connection)
        try:
            if self._people[person] > MOST_CONNECTIONS:
                raise TooMany(f"you already have {MOST_CONNECTIONS} SSH connections, the maximum; close one first")
            await asyncio.wait((wire.lost,))
        except TooMany as error:
            self._engine.turned_away(error)
            connection.disconnect(asyncssh.DISC_TOO_MANY_CONNECTIONS, error.message)
        finally:
            self._connections.discard(connection)
            self._people[person] -= 1
            _forget_none(self._people, person)
            connection.abort()
            if isinstance(proved, SshUser):
                await self.admission.quietly(proved.left())

    def _finish_login_wait(self, visit: SshClientState, connection: SshConnection) -> None:
        if visit.over is not None:
            visit.over.cancel()
            self.admission.browsers.leave(visit.peer)
        if not visit.authenticated.done():
            connection.abort()

    def close(self, reason: str) -> None:
        """Close the connection, after its sessions have ended."""
        for connection in list(self._connections):
            connection.disconnect(asyncssh.DISC_BY_APPLICATION, reason)

    def connection(self, visit: SshClientState) -> SshConnection:
        return SshConnection(self._outer if visit.outer_user is None else self._inside, visit)

    def inside(self, visit: SshClientState) -> ClientStream:
        """Start the SSH server of one connection inside a channel of another (ProxyJump). Raises ChannelOpenError."""
        assert visit.outer_user is not None
        person = visit.outer_user.principal.id
        if self._insiders[person] >= MOST_CONNECTIONS:
            text = f"you already have {MOST_CONNECTIONS} nested SSH connections, the maximum; close one first"
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, text)
        self._insiders[person] += 1
        wire = ClientStream(self.connection(visit), visit.below_filled)
        wire.lost.add_done_callback(lambda _: self._left_inside(person))
        return wire

    def _left_inside(self, person: UUID) -> None:
        self._insiders[person] -= 1
        _forget_none(self._insiders, person)


def _disconnect(code: int, text: str) -> bytes:
    """Encode SSH_MSG_DISCONNECT as an unencrypted packet (RFC 4253, sections 6 and 11.1)."""
    words = text.encode()
    payload = bytes((1,)) + code.to_bytes(4, "big") + len(words).to_bytes(4, "big") + words + bytes(4)
    padding = 4 + -(len(payload) + 9) % 8
    return (1 + len(payload) + padding).to_bytes(4, "big") + bytes((padding,)) + payload + bytes(padding)


def _available(algorithms: tuple[str, ...]) -> list[str]:
    """Return the algorithms that the installed `cryptography` supports."""
    supported = {name.decode() for name in get_kex_algs()}
    return [name for name in algorithms if name in supported]


def _forget_none(counted: Counter[UUID], person: UUID) -> None:
    if not counted[person]:
        del counted[person]
