"""The client of LDAP directories (`ldap_server.py` talks to one server): deadlines, addresses and the order of servers.

ldap3 blocks, so each piece of work runs in a thread. It is an optional library, which is loaded at the first use.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from postern.domain.addresses import Network, check_resolved
from postern.domain.identity.auth_config import AuthConfig, LdapConfig
from postern.domain.identity.identity import Identity
from postern.domain.secret import Secret
from postern.errors import Invalid, TooMany, Unauthenticated, Unavailable
from postern.integrations.identity.fetch import SETTING, Resolve, resolve
from postern.integrations.identity.identity_addresses import is_loopback_host

if TYPE_CHECKING:
    from postern.integrations.identity.ldap_server import LdapServer

log = logging.getLogger(__name__)

T = TypeVar("T")

DEADLINE = 10.0  # seconds of one server, for everything
_THREADS, _WAITING = 8, 100
_ADDRESSES = 2  # attempted addresses of a server
_MOST_USER = 256  # characters of a user name


class LdapClient:
    """`allowed` are the private networks in which directories may be; addresses of this machine are allowed only if the
    URL names this machine."""

    def __init__(
        self, *, allowed: tuple[Network, ...] = (), resolver: Resolve = resolve, deadline: float = DEADLINE
    ) -> None:
        self._allowed = allowed
        self._resolve = resolver
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ldap")
        self._waiting = 0

    async def check(self, config: AuthConfig) -> str:
        """Return the issuer of the directory's users, once the account that searches it can log in. Raises Invalid,
        Unavailable."""
        if config.ldap is None:
            raise Invalid("ldap_config: is required for auth_method ldap", field="ldap_config")
        try:
            await self._run(config.ldap, lambda server: server.check())
        except Unauthenticated:
            raise Invalid(
                "ldap_config.bind_dn: the directory rejects this account, or its password", field="ldap_config.bind_dn"
            ) from None
        return config.ldap.issuer

    async def authenticate(self, config: LdapConfig, user: str, password: Secret) -> Identity:
        """Return the user with this name and password. Raises Unauthenticated, TooMany, Unavailable."""
        if not password.reveal() or "\0" in password.reveal():
            raise Unauthenticated("an empty password is never sent: LDAP would take it for an anonymous login")
        if not _is_name(user):
            raise wrong_password()
        return await self._ask(config, lambda server: server.authenticate(user, password))

    async def find(self, config: LdapConfig, subject: str) -> Identity:
        """Return a user as the directory has them now. Raises Unauthenticated if they are gone or disabled, TooMany,
        Unavailable."""
        return await self._ask(config, lambda server: server.identity(server.entry_of(subject)))

    async def verify(self, config: LdapConfig, subject: str, password: Secret) -> None:
        """Check the password of a known user. Raises as `authenticate`."""
        if not password.reveal() or "\0" in password.reveal():
            raise wrong_password()
        await self._ask(config, lambda server: server.verify(server.entry_of(subject), password))

    async def _ask(self, config: LdapConfig, work: Callable[[LdapServer], T]) -> T:
        """Do the work for a user, who may be a stranger: names of servers and their errors are in the log alone."""
        try:
            return await self._run(config, work)
        except Unavailable:
            raise Unavailable("the LDAP directory does not answer; try again, or ask an administrator") from None

    async def _run(self, config: LdapConfig, work: Callable[[LdapServer], T]) -> T:
        """Do the work at the first server that answers. Raises TooMany, Unavailable, and as `work`."""
        if self._waiting >= _WAITING:
            raise TooMany("too many passwords are being checked right now; try again in a few seconds")
        self._waiting += 1
        try:
            problem: Unavailable | None = None
            for url in config.urls:
                try:
                    return await self._at(config, url, work)
                except Unavailable as error:
                    log.warning("LDAP server failed: url=%s error=%s", url, error.message)
                    problem = error
            raise problem or Unavailable("no LDAP server is configured")
        finally:
            self._waiting -= 1

    async def _at(self, config: LdapConfig, url: str, work: Callable[[LdapServer], T]) -> T:
        parts = urlsplit(url)
        host, loopback = parts.hostname or "", is_loopback_host(parts.hostname or "")
        port = parts.port or (636 if parts.scheme == "ldaps" else 389)
        try:
            async with asyncio.timeout(self._deadline):
                addresses = await self._resolve(host, port)
                check_resolved("the LDAP server", addresses, self._allowed, SETTING, loopback=loopback)
                for address in addresses[: _ADDRESSES - 1]:
                    with suppress(Unavailable):
                        return await self._in_thread(_load_server()(config, parts.scheme, host, address, port), work)
                last = addresses[:_ADDRESSES][-1]
                return await self._in_thread(_load_server()(config, parts.scheme, host, last, port), work)
        except TimeoutError:
            raise Unavailable(f"the LDAP server {host} did not answer in {self._deadline:g} seconds") from None
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"the LDAP server {host} cannot be reached: {error}") from None

    async def _in_thread(self, server: LdapServer, work: Callable[[LdapServer], T]) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._threads, server.run, work)
        try:
            return await running
        except asyncio.CancelledError:
            server.abort()  # the thread ends with its socket
            raise


def _is_name(user: str) -> bool:
    """Return whether it can be a user name, in its one spelling: LDAP ignores blanks and compatibility forms, so that
    one user could be tried under many names (RFC 4518)."""
    is_usual = user == " ".join(user.split()) and user == unicodedata.normalize("NFKC", user)
    return 1 <= len(user) <= _MOST_USER and user.isprintable() and is_usual


def _load_server() -> type[LdapServer]:
    """Raises Unavailable if the library is missing."""
    try:
        from postern.integrations.identity.ldap_server import LdapServer
    except ImportError:
        raise Unavailable(
            "login by LDAP needs the library ldap3; on the gateway's machine run: pip install ldap3"
        ) from None
    return LdapServer


def wrong_password() -> Unauthenticated:
    return Unauthenticated("user name or password is wrong")
