"""The user of an SSH client, and the connection it requests, from its user name.

alice#web-1           a user and the name of a connection: by key, certificate, or a login in the browser
alice                 the same without a target: for ProxyJump, whose `direct-tcpip` names it
Acme/alice#web-1      the same in one organisation, for a key that is known in several
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
class SshAuthenticators:
    """The services that authenticate users."""

    keys: SshKeys
    authorities: SshAuthorities
    logins: SshLogins


async def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class SshUser:
    """An authenticated user. `means`, `standing` and `expires_at` are as in
    `gateway.clients.tunnel_request.TunnelRequest`. `used` records the use of the login, `left` the end of its
    connection."""

    principal: Principal
    means: str
    standing: Callable[[], Awaitable[Principal]]
    used: Callable[[], Coroutine[Any, Any, None]] = _nothing
    left: Callable[[], Coroutine[Any, Any, None]] = _nothing
    expires_at: datetime | None = None
    certificate: SshCertificate | None = None

    @property
    def terminal(self) -> bool:
        """Return True if a terminal is allowed."""
        return self.certificate is None or self.certificate.terminal

    def allows(self, extra: Extra) -> bool:
        """Return True if the login allows the feature; the connection has its own switch."""
        return self.certificate is None or self.certificate.allows(extra)


Proved = Grant | SshUser


def split(username: str) -> tuple[str, str]:
    """Return the user and the connection, which is empty if none is named."""
    person, _, connection = username.partition(_TARGET)
    return person, connection


def may_be_credential(username: str) -> bool:
    return _TARGET not in username


def may_be_person(username: str) -> bool:
    """Return True if the name can be a user's. Clients try the browser login before a password, so credentials must be
    recognised by their form."""
    return bool(split(username)[0]) and not is_username(username)


async def by_key(keys: SshKeys, user: str, fingerprint: str) -> SshUser:
    """Return the owner of a key, before it has signed. Raises Unauthenticated, Unavailable."""
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
    """Return the user of a certificate, before the signatures of its authority and its key are verified. Raises
    Unauthenticated, Unavailable."""
    holder = await authorities.holder_of(user, certificate, address=address)

    async def standing() -> Principal:
        return (await authorities.standing(holder)).principal

    return SshUser(holder.principal, holder.means, standing, expires_at=holder.until, certificate=certificate)


def by_browser(logins: SshLogins, browser_login: BrowserLogin) -> SshUser:
    async def standing() -> Principal:
        return (await logins.standing(browser_login)).principal

    return SshUser(
        browser_login.principal,
        browser_login.means,
        standing,
        left=lambda: logins.end(browser_login),
        expires_at=browser_login.until,
    )
