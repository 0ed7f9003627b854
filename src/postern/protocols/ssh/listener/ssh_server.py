"""One SSH connection of a client: the callbacks of asyncssh, from its first byte to its last channel.

                     ┌ validate_password ────────┐
    begin_auth ─────▶│ validate_public_key       ├─▶ auth_completed ─▶ session_requested ─▶ a session for each
    (forgets all)    │   query: nothing is kept  │                     connection_requested ─┬ a target: a forwarded one
                     │   signed: this key counts │                                           └ none: a nested SSH server
                     └ get_kbdint_challenge ─────┘                                             (ProxyJump)
                         validate_kbdint_response: confirmed in a browser

asyncssh accepts nothing but authentication before that has ended. A proof belongs to the request that contained it:
each new request discards it, before the request is checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import asyncssh
from asyncssh.constants import MSG_IGNORE
from asyncssh.public_key import decode_ssh_certificate

from postern.domain.identity.credential import Grant
from postern.domain.identity.ssh_certificate import read_certificate
from postern.domain.identity.ssh_key import SIGNATURES
from postern.domain.identity.ssh_wire import SshReader
from postern.domain.secret import Secret
from postern.domain.text import one_line
from postern.errors import Invalid, PosternError, Unauthenticated
from postern.protocols.ssh.listener.ssh_admission import Admission
from postern.protocols.ssh.listener.ssh_browser_login import PendingBrowserLogin
from postern.protocols.ssh.listener.ssh_channel_sessions import ChannelSession, ForwardedChannel
from postern.protocols.ssh.listener.ssh_client_channel import WINDOW
from postern.protocols.ssh.listener.ssh_client_listening import MOST_LISTENERS, AgentForwarder, ClientListener
from postern.protocols.ssh.listener.ssh_client_stream import ClientStream
from postern.protocols.ssh.listener.ssh_limits import LimitedSshConnection
from postern.protocols.ssh.listener.ssh_users import Proved, SshUser, may_be_credential, may_be_person, split
from postern.protocols.ssh.listener.ssh_visit import MOST_CHANNELS, SshClientState
from postern.protocols.ssh.ssh_listening import place
from postern.protocols.verifiers import decoy, fits
from postern.relay.relay_target import ChannelKind, ChannelRequest
from postern.services.identity.logins.ssh_logins import SshClaim

log = logging.getLogger(__name__)

MOST_PASSWORDS = 6  # attempts per connection
MOST_KEYS = 30  # the same for keys: an ssh-agent offers all of its keys


class SshConnection(LimitedSshConnection):
    """Reports to its server which key has signed, which asyncssh does not, and the content of a certificate, which
    asyncssh does not evaluate."""

    def __init__(self, options: asyncssh.SSHServerConnectionOptions, visit: SshClientState) -> None:
        super().__init__(asyncio.get_running_loop(), options, visit.exchanging)
        self.visit = visit

    def send_packet(self, pkttype: int, *args: bytes, handler: Any = None) -> None:
        """Drop the empty packet that asyncssh sends before each one as a CBC countermeasure; CBC is not offered
        here."""
        if pkttype != MSG_IGNORE:
            super().send_packet(pkttype, *args, handler=handler)

    async def validate_public_key(self, username: str, key_data: bytes, msg: bytes, signature: bytes) -> bool:
        server = cast(SshServer, self.get_owner())
        server.count_key()
        if msg and not _is_sound(signature):
            return False
        is_good = await super().validate_public_key(username, key_data, msg, signature)
        if is_good and msg:
            server.accept_signature()
        else:
            server.forget()
        return is_good

    async def _validate_client_certificate(self, username: str, key_data: bytes) -> asyncssh.SSHKey | None:
        """Return the key that has to sign. It replaces asyncssh's own method, which would accept no certificate."""
        return await cast(SshServer, self.get_owner()).check_certificate(username, key_data)


class SshServer(asyncssh.SSHServer):
    """The server. `connect` makes the stream of a nested connection inside this one. Raises ChannelOpenError."""

    def __init__(self, admission: Admission, connect: Callable[[SshClientState], ClientStream]) -> None:
        self._admission = admission
        self._connect = connect
        self._lender: AgentForwarder | None = None
        self._candidate: SshUser | None = None  # user of the key that is being checked
        self._invitation: PendingBrowserLogin | None = None  # the pending browser login
        self.proved: Proved | None = None
        self._passwords = self._keys = 0
        self._username = ""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        assert isinstance(conn, SshConnection)
        self._conn = conn
        self.visit = conn.visit

    def connection_lost(self, exc: Exception | None) -> None:
        self._withdraw()
        for channel in list(self.visit.channels):
            channel.handle_close(error=exc)
        for listener in list(self.visit.listeners):
            listener.close()

    # Authentication

    def begin_auth(self, username: str) -> bool:
        self.forget()
        self._username = username
        self.proved = self.visit.outer_user  # the outer connection has authenticated the user
        return self.proved is None

    def forget(self) -> None:
        self._candidate = self.proved = None
        self._withdraw()

    def password_auth_supported(self) -> bool:
        return self.visit.outer_user is None and may_be_credential(self._username)

    def public_key_auth_supported(self) -> bool:
        return self.visit.outer_user is None

    def kbdint_auth_supported(self) -> bool:
        return self.visit.outer_user is None and may_be_person(self._username)

    async def validate_password(self, username: str, password: str) -> bool:
        self.forget()
        self._passwords += 1
        _require(self._passwords <= MOST_PASSWORDS)
        try:
            grant = await self._admission.fronts.find_grant(username)
        except PosternError as error:
            raise _unavailable(error) from None
        verifier = grant.verifier if grant else decoy(username, self._admission.decoy_secret)
        is_right = await asyncio.to_thread(fits, Secret(password), verifier)
        self.proved = grant if is_right else None
        return self.proved is not None

    def count_key(self) -> None:
        """Count an offered key or certificate, with or without a signature."""
        self.forget()
        self._keys += 1
        _require(self._keys <= MOST_KEYS)

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return True if the key can be tried. It has not signed yet."""
        try:
            self._candidate = await self._admission.person_by_key(split(username)[0], key.get_fingerprint())
        except Unauthenticated:
            return False
        except PosternError as error:
            raise _unavailable(error) from None
        return True

    async def check_certificate(self, username: str, data: bytes) -> asyncssh.SSHKey | None:
        """Return the key of a certificate that would be accepted. asyncssh verifies only its signature."""
        try:
            certificate = read_certificate(data)
        except Invalid:
            return None  # most are plain keys
        try:
            decoded = decode_ssh_certificate(data)
            if decoded.key.get_fingerprint() != certificate.key.fingerprint:
                raise asyncssh.KeyImportError("it has two interpretations")
            user = split(username)[0]
            self._candidate = await self._admission.person_by_certificate(user, certificate, self.visit.peer)
        except asyncssh.KeyImportError as error:
            log.info("an SSH certificate of a client from %s was rejected: %s", self.visit.peer, error)
            return None
        except Unauthenticated:
            return None
        except PosternError as error:
            raise _unavailable(error) from None
        decoded.key.set_touch_required(True)  # if it is on a security key
        return decoded.key

    def accept_signature(self) -> None:
        self.proved, self._candidate = self._candidate, None

    async def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, tuple[tuple[str, bool], ...]]:
        """Start a browser login. There is no prompt, so the client responds at once and waits."""
        self.forget()
        _require(self.visit.over is None)  # once per connection
        claim = SshClaim(*split(username), self._client)
        try:
            self._invitation = await self._admission.invite(self.visit, self._conn.abort, claim)
        except PosternError as error:
            raise _turned_away(error) from None
        return "", self._invitation.text, "en", ()

    async def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        invitation = self._invitation
        if invitation is None or responses:
            raise asyncssh.DisconnectError(asyncssh.DISC_PROTOCOL_ERROR, "no response was requested")
        try:
            person = await invitation.person()
        except PosternError as error:
            raise _turned_away(error) from None
        self._invitation = None
        self.proved = person
        return True

    def _withdraw(self) -> None:
        invitation, self._invitation = self._invitation, None
        if invitation is not None:
            self._admission.browsers.withdraw(invitation)

    def auth_completed(self) -> None:
        proved = self.proved
        if proved is None:  # asyncssh reported an authentication that did not happen
            raise asyncssh.DisconnectError(asyncssh.DISC_PROTOCOL_ERROR, "no user was authenticated")
        if isinstance(proved, SshUser) and self.visit.outer_user is None:
            self.visit.target = split(self._username)[1]
        self._admission.record_user(self.visit, proved)
        if not self.visit.authenticated.done():
            self.visit.authenticated.set_result(proved)

    # Channels

    @property
    def _has_target(self) -> bool:
        return isinstance(self.proved, Grant) or bool(self.visit.target)

    def session_requested(self) -> Any:
        self._check_room()
        channel = self._conn.create_bounded_channel(WINDOW)
        return channel, ChannelSession(self._admission, self.visit, channel, self._client, self._lends)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Any:
        self._check_room()
        channel = self._conn.create_tcp_channel(window=WINDOW)
        if self._has_target:
            request = ChannelRequest(ChannelKind.FORWARD, place(dest_host, dest_port), self.visit.login)
            forwarded = ForwardedChannel(self._admission, self.visit, request, self._client)
            return channel, forwarded.admit_connection()
        return channel, self._inside(dest_host)

    def _inside(self, target: str) -> ClientStream:
        """Start the nested SSH server of one connection, for the user who is authenticated here."""
        if not target or not target.isprintable():
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
                "no connection was named; use ssh -J USER@GATEWAY CONNECTION",
            )
        wire = self._connect(SshClientState(self.visit.peer, self.visit.since, outer_user=self.proved, target=target))
        self.visit.inside.add(wire)
        wire.lost.add_done_callback(lambda _: self.visit.inside.discard(wire))
        return wire

    @property
    def _client(self) -> str:
        return one_line(str(self._conn.get_extra_info("client_version", "")))

    def _check_room(self) -> None:
        if not self.visit.has_room:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_RESOURCE_SHORTAGE, f"one SSH connection can have at most {MOST_CHANNELS} channels"
            )

    def server_requested(self, listen_host: str, listen_port: int) -> Any:
        """Handle a request to listen. Return False to refuse; the client gets no reason."""
        if not self._has_target:
            log.info("client %s requested port forwarding without naming a connection", self.visit.peer)
            return False
        if len(self.visit.listeners) >= MOST_LISTENERS:
            log.info("client %s requested more than %d listeners", self.visit.peer, MOST_LISTENERS)
            return False
        return ClientListener(
            self._admission, self.visit, self._conn, listen_host, listen_port, self._client
        ).start_listening()

    async def _lends(self) -> bool:
        """Return True if the agent is forwarded. The permission is requested once for all programs, as long as it is
        valid."""
        lender = self._lender
        if lender is not None and not lender.is_over:
            return await lender.lends()
        self._lender = lender = AgentForwarder(self._admission, self.visit, self._conn, self._client)
        try:
            return await lender.start_listening() is not False
        except BaseException:
            lender.close()
            raise

    def unix_connection_requested(self, dest_path: str) -> bool:
        return False

    def unix_server_requested(self, listen_path: str) -> bool:
        return False


def _is_sound(signature: bytes) -> bool:
    """Return True if the signature's algorithm is accepted: asyncssh accepts SHA-1."""
    try:
        return SshReader(signature).string().decode() in SIGNATURES
    except ValueError:
        return False


def _require(few: bool) -> None:
    if not few:
        raise asyncssh.DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "too many authentication failures")


def _turned_away(error: PosternError) -> asyncssh.DisconnectError:
    """Return the disconnect error for a failed browser login, after which no other method is left."""
    log.info("the browser login of an SSH client failed: %s", error.message)
    return asyncssh.DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, error.message)


def _unavailable(error: PosternError) -> asyncssh.DisconnectError:
    log.warning("an SSH client could not be authenticated: %s", error.message)
    return asyncssh.DisconnectError(
        asyncssh.DISC_SERVICE_NOT_AVAILABLE, "the gateway cannot authenticate users now; try again later"
    )
