"""Connection credentials: the user name and password, or the certificate, with which a native client logs in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from postern.domain.durations import duration_text
from postern.domain.features import Feature
from postern.domain.identity.credential import Credential, Grant, Issued, Verifier
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Page, Stretch
from postern.domain.secret import Secret
from postern.domain.server import OFF_BY_DEFAULT
from postern.domain.targets.connection import BY_CERTIFICATE, SSH, Connection, Toggle
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.protocols.registry import PROTOCOLS
from postern.services.identity.client_certificates import ClientCertificates
from postern.services.reviews.credential_endings import CredentialEndings
from postern.services.rules.access_control import AccessControl
from postern.services.server.audit_context import record_change
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock
from postern.store.ports.target_ports import CredentialStore, SecretUse

# Default duration: a user's working day. A machine identity has no user to request a new credential in the morning.
DEFAULT_LIFE, MACHINE_LIFE = timedelta(hours=12), timedelta(days=30)
MAX_LIFE = timedelta(days=366)

# RFC 7677's minimum. Iterations slow down guessing; a random password of 192 bits cannot be guessed
# at any speed, so more iterations would only slow down logins on both sides.
ITERATIONS = 4096
_PASSWORD_BYTES = 24
_SALT_BYTES = 16
_MAX_USERNAME = 63  # bytes; longer names are cut by some clients and tools
_ATTEMPTS = 5
_UNREADABLE = re.compile(r"[^a-z0-9_]+")


class Credentials:
    """Issues and revokes credentials. `enforceable` names the subtypes that have a relay and so can use them. `listens`
    returns whether the gateway listens for native clients of a protocol."""

    def __init__(
        self,
        store: CredentialStore,
        control: AccessControl,
        features: Features,
        endings: CredentialEndings,
        now: Clock,
        *,
        certificates: ClientCertificates,
        listens: Callable[[str], Awaitable[bool]],
        enforceable: frozenset[str],
    ) -> None:
        self._store = store
        self._control = control
        self._features = features
        self._endings = endings
        self._now = now
        self._certificates = certificates
        self._listens = listens
        self._enforceable = enforceable

    async def issue(
        self,
        principal: Principal,
        connection: str,
        seconds: int | None,
        *,
        maker: Principal | None = None,
        until: datetime | None = None,
        login_id: UUID | None = None,
    ) -> Issued:
        """Issue a credential for that principal alone. `connection` is a name or id.

        `seconds` is its life; None is 12 hours, or 30 days for a machine identity. It is never more than the
        connection's access_max_duration, and never beyond `until`. `maker` is the principal that issues it for another
        one. `login_id`: the login of a browser, with which it ends. Raises NotFound, Invalid, Denied; Unauthenticated
        when that login has ended.
        """
        target = await self.check(principal, connection, seconds)
        life = _life(principal, target, seconds)
        by_certificate = target.protocol in BY_CERTIFICATE
        # With a certificate, the password is discarded.
        password = Secret(base64.urlsafe_b64encode(secrets.token_bytes(_PASSWORD_BYTES)).decode().rstrip("="))
        verifier = make_verifier(password)
        login_key = make_login_key(target.protocol, password)
        created_at = self._now()
        expires_at = created_at + life
        for attempt in range(_ATTEMPTS):
            credential = Credential(
                id=uuid4(),
                org_id=principal.org_id,
                user_id=principal.id,
                connection_id=target.id,
                username=_username(principal, target),
                created_at=created_at,
                expires_at=expires_at if until is None else min(expires_at, until),
                maker_id=None if maker is None else maker.id,
                login_id=login_id,
            )
            try:
                await self._store.add(credential, verifier, login_key)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue  # the random part is already in use
            break
        record_change(None, credential)
        if by_certificate:
            return Issued(credential, Secret(""), target, await self._certificates.issue(credential))
        return Issued(credential, password, target)

    async def check(self, principal: Principal, connection: str, seconds: int | None) -> Connection:
        """Return the connection for which `issue` would issue to that principal. Raises as `issue`."""
        target = await self._connection(principal, connection)
        modes = [target.access_mode_connect]
        if target.protocol == SSH:
            modes.append(target.access_mode_exec)  # which runs commands
        if Toggle.ENABLED not in modes:
            raise Denied(f"access mode connect is disabled on connection {target.name!r}; ask an administrator")
        if target.protocol in OFF_BY_DEFAULT and not await self._listens(target.protocol):
            raise Invalid(
                f"this gateway has no listener where a credential of connection {target.name!r} could be used: its "
                f"operator sets POSTERN_{target.protocol.upper()}_PORT; or use `postern connect {target.name}`, which "
                "opens a local port",
                field="subtype",
            )
        if target.subtype not in self._enforceable:
            raise Invalid(f"credentials cannot be used yet on subtype {target.subtype!r}", field="subtype")
        if principal.is_auditor:
            raise Denied("auditors can read what others did, but cannot connect")
        await self._features.require(principal.org_id, Feature.NATIVE_CREDENTIALS)
        _life(principal, target, seconds)
        return target

    async def of_principal(self, principal: Principal) -> list[tuple[Credential, str]]:
        """Return all credentials of the principal with the names of the connections, newest first. The caller has
        checked access."""
        return await self._store.of_user(principal.org_id, principal.id)

    async def retire(self, credential: Credential, overlap: timedelta) -> None:
        """End the credential and its links after `overlap`. The caller has checked access."""
        if overlap:
            await self._store.expire(credential.id, self._now() + overlap)
        else:
            await self._store.revoke(credential.id, self._now())
        await self._endings.announce(credential.id)

    async def find(self, principal: Principal, connection: str, page: Page) -> tuple[Connection, Stretch[Credential]]:
        """Return the caller's own credentials, newest first; for admins and auditors those of all users."""
        target = await self._connection(principal, connection)
        owner = None if principal.sees_all else principal.id
        return target, await self._store.of_connection(principal.org_id, target.id, owner, page)

    async def own(self, principal: Principal, page: Page, *, valid: bool) -> Stretch[tuple[Credential, str]]:
        """Return the caller's own credentials with the names of their connections, newest first, also of connections
        that are hidden from them now. `valid`: only those that are neither revoked nor expired."""
        return await self._store.own(principal.org_id, principal.id, page, self._now() if valid else None)

    async def revoke(self, principal: Principal, connection: str, credential_id: UUID | str) -> None:
        """Revoke an own credential, or as an admin any, and end its links. Can be repeated. Raises NotFound."""
        target = await self._connection(principal, connection)
        credential = await self._credential(principal, credential_id)
        is_own = credential is not None and credential.user_id == principal.id
        if credential is None or credential.connection_id != target.id or not (is_own or principal.is_admin):
            raise NotFound(f"connection {target.name!r} has no credential {credential_id}, or it is not yours")
        await self._revoke(credential)

    async def revoke_own(self, principal: Principal, credential_id: UUID | str) -> None:
        """Revoke a credential of the caller's, of any connection, and end its links. Can be repeated. Raises
        NotFound."""
        credential = await self._credential(principal, credential_id)
        if credential is None or credential.user_id != principal.id:
            raise NotFound(f"there is no credential {credential_id} of yours")
        await self._revoke(credential)

    async def revoke_by_holder(self, grant: Grant) -> None:
        """Revoke a credential whose password the caller has checked, and end its links. Can be repeated."""
        credential = await self._store.get(grant.principal.org_id, grant.credential_id)
        if credential is not None:
            await self._revoke(credential)

    async def _revoke(self, credential: Credential) -> None:
        revoked_at = self._now()
        if await self._store.revoke(credential.id, revoked_at):
            record_change(credential, replace(credential, revoked_at=revoked_at))
        # Also for a revoked one: the first signal may have been missed.
        await self._endings.announce(credential.id)

    async def _credential(self, principal: Principal, credential_id: UUID | str) -> Credential | None:
        try:
            key = credential_id if isinstance(credential_id, UUID) else UUID(credential_id)
        except ValueError:
            return None
        return await self._store.get(principal.org_id, key)

    async def _connection(self, principal: Principal, name_or_id: str) -> Connection:
        """Return the connection if the principal can see it. Raises NotFound."""
        connection = await self._control.find(principal, name_or_id, SecretUse.DATABASES)
        if connection is None:
            raise NotFound(f"there is no connection {name_or_id!r}")
        return connection


def make_verifier(password: Secret) -> Verifier:
    """Return the SCRAM verifier of a password (RFC 5802 section 3) with SHA-256 (RFC 7677).

    The password must be ASCII, which SASLprep leaves as it is.
    """
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.reveal().encode("ascii"), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return Verifier(ITERATIONS, salt, hashlib.sha256(client_key).digest(), server_key)


def make_login_key(protocol: str, password: Secret) -> bytes:
    """Return what the protocol's login needs of the password before the client sends it; empty for most protocols."""
    spec = PROTOCOLS.get(protocol)
    return b"" if spec is None or spec.login_key is None else spec.login_key(password.reveal())


def _life(principal: Principal, connection: Connection, seconds: int | None) -> timedelta:
    limit = MAX_LIFE
    if connection.access_max_duration is not None:
        limit = min(limit, timedelta(seconds=connection.access_max_duration))
    if seconds is None:
        return min(MACHINE_LIFE if principal.kind is PrincipalKind.MACHINE else DEFAULT_LIFE, limit)
    longest = int(limit.total_seconds())
    if not 1 <= seconds <= longest:
        raise Invalid(
            f"access_duration_seconds: must be between 1 and {longest} ({duration_text(longest)}) on this connection",
            field="access_duration_seconds",
        )
    return timedelta(seconds=seconds)


def _username(principal: Principal, connection: Connection) -> str:
    """Return `<user>-<connection>-<random>`: it shows in every log whose it is, and is not secret."""
    suffix = base64.b32encode(secrets.token_bytes(4)).decode().lower()[:6]
    room = _MAX_USERNAME - len(suffix) - 2
    who = _readable(principal.email.partition("@")[0])
    where = _readable(connection.name)
    who = who[: max(room // 2, room - len(where))]
    where = where[: room - len(who)]
    return f"{who}-{where}-{suffix}"


def _readable(text: str) -> str:
    return _UNREADABLE.sub("_", text.lower()).strip("_") or "x"
