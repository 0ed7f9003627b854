"""Who an SSH client says to be, and wants to reach: its user name.

alice#web-1           a person and the name of a connection: by key, certificate, or a login in the browser
alice                 the same without a target: for ProxyJump, whose `direct-tcpip` names it
Acme/alice#web-1      the same of one organisation, for a key that is known in several
alice-web_1-k3x7qa    a connection credential, with its password
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from postern.domain.identity.credential import Grant, is_username
from postern.domain.identity.principal import Principal
from postern.domain.identity.ssh_certificate import SshCertificate
from postern.domain.targets.connection import Extra
from postern.errors import Unauthenticated
from postern.services.identity.logins.ssh_logins import BrowserLogin, SshLogins
from postern.services.identity.ssh_authorities import SshAuthorities
from postern.services.identity.ssh_keys import SshKeys

_TARGET, _ORGANISATION = "#", "/"


@dataclass(frozen=True, slots=True)
class Proofs:
    """The services that know who somebody is by what their client shows."""

    keys: SshKeys
    authorities: SshAuthorities
    logins: SshLogins


async def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class SshUser:
    """Somebody who is known by what they signed with, or let in at a browser. `means`, `standing` and `expires_at` as
    in `gateway.wanted.Wanted`; `used` notes that they have logged in by it, `left` that their connection is closed."""

    principal: Principal
    means: str
    standing: Callable[[], Awaitable[Principal]]
    used: Callable[[], Coroutine[Any, Any, None]] = _nothing
    left: Callable[[], Coroutine[Any, Any, None]] = _nothing
    expires_at: datetime | None = None
    certificate: SshCertificate | None = None

    @property
    def terminal(self) -> bool:
        """Whether they may have one."""
        return self.certificate is None or self.certificate.terminal

    def allows(self, extra: Extra) -> bool:
        """Whether what they logged in with does; the connection's own switch is another question."""
        return self.certificate is None or self.certificate.allows(extra)


Proved = Grant | SshUser


def split(username: str) -> tuple[str, str]:
    """The person and the connection, which is empty where none is named."""
    person, _, connection = username.partition(_TARGET)
    return person, connection


def may_be_credential(username: str) -> bool:
    return _TARGET not in username


def may_be_person(username: str) -> bool:
    """Clients try the browser before they ask for a password, so credentials are told by how they are called."""
    return bool(split(username)[0]) and not is_username(username)


async def by_key(keys: SshKeys, user: str, fingerprint: str) -> SshUser:
    """Whose key it would be, if they signed with it. Raises Unauthenticated, Unavailable."""
    try:
        holder = await keys.find(user, fingerprint)
    except Unauthenticated:
        organisation, named, person = user.partition(_ORGANISATION)
        if not named:
            raise
        holder = await keys.find(person, fingerprint, organisation=organisation)

    async def standing() -> Principal:
        return (await keys.standing(holder)).principal

    return SshUser(holder.principal, holder.means, standing, lambda: keys.record_use(holder))


async def by_certificate(authorities: SshAuthorities, user: str, certificate: SshCertificate, address: str) -> SshUser:
    """Whom it would let in, if its authority has signed it and they sign with its key. Raises Unauthenticated,
    Unavailable."""
    holder = await authorities.holder_of(user, certificate, address=address)

    async def standing() -> Principal:
        return (await authorities.standing(holder)).principal

    return SshUser(holder.principal, holder.means, standing, expires_at=holder.until, certificate=certificate)


def by_browser(logins: SshLogins, given: BrowserLogin) -> SshUser:
    async def standing() -> Principal:
        return (await logins.standing(given)).principal

    return SshUser(given.principal, given.means, standing, left=lambda: logins.end(given), expires_at=given.until)
