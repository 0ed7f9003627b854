"""Logins of browsers at HTTP applications, each of which has a host of its own.

    browser at app.DOMAIN ─ no credential ─▶ a nonce in a cookie of that host; to the gateway's page, with its SHA-256
    page of the gateway, logged in ─ `begin` ─▶ a code for this connection and this nonce, good once
    browser at app.DOMAIN, code and nonce ─ `exchange` ─▶ a credential that ends with the login, as a cookie of it

The code alone is worth nothing: only the browser with the nonce can exchange it. And a browser exchanges no code that
was made for another one, so no site can log a user in as a different one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from postern.domain.identity.credential import Issued
from postern.domain.identity.login import Login, TokenPurpose
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.server import ServerConfig
from postern.domain.targets.connection import Connection, Toggle
from postern.domain.targets.http_hosts import WEB, AppDomain, host_label
from postern.errors import Conflict, Denied, Invalid, NotFound, StepUpRequired, Unauthenticated
from postern.services.identity.credentials import Credentials
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.logins import Logins
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.rules.access_control import AccessControl
from postern.services.server.audit_context import record_change
from postern.services.server.server_configs import ServerConfigs
from postern.store.ports.common_ports import Clock
from postern.store.ports.target_ports import ConnectionStore, CredentialStore

CODE_LIFE = timedelta(seconds=60)
LOGIN_PATH: Final = "/.postern/login"
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # SHA-256 in base64url


@dataclass(frozen=True, slots=True)
class Application:
    """An application as its user sees it. `url` is its address, without a path. `was_opened`: they have opened it in a
    browser before."""

    connection: Connection
    url: str
    was_opened: bool


@dataclass(frozen=True, slots=True)
class AppAddresses:
    """The addresses of all applications."""

    domain: AppDomain
    scheme: str
    ports: dict[str, int]  # of the listeners that are on, by their protocols

    def url_of(self, connection: Connection) -> str | None:
        """Return the address of the connection, without a path; None if no browser can open it."""
        port = self.ports.get(connection.subtype)
        return None if port is None else self.domain.url_of(connection.name, self.scheme, port)


def challenge_of(nonce: Secret) -> str:
    """Return what the gateway's page is told of a browser's nonce."""
    digest = hashlib.sha256(nonce.reveal().encode(errors="surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class AppLogins:
    """`subtypes` are those of connections that people open in a browser."""

    def __init__(
        self,
        *,
        connections: ConnectionStore,
        store: CredentialStore,
        control: AccessControl,
        credentials: Credentials,
        logins: Logins,
        one_time_tokens: OneTimeTokens,
        server: ServerConfigs,
        now: Clock,
        domain: AppDomain,
        subtypes: Collection[str] = WEB,
    ) -> None:
        self.domain = domain
        self._connections = connections
        self._store = store
        self._control = control
        self._credentials = credentials
        self._logins = logins
        self._one_time_tokens = one_time_tokens
        self._server = server
        self._now = now
        self._subtypes = frozenset(subtypes)

    async def addresses(self) -> AppAddresses:
        return self._addresses_of(await self._server.current())

    async def login_page(self) -> str:
        """Return the URL of the gateway, whose page logs browsers in. Without a path."""
        return (await self._server.current()).api_url

    async def find(self, principal: Principal, host: str) -> Application:
        """Return the application whose host has that first label. Raises NotFound, Conflict, Denied."""
        connection = await self._find(principal, host)
        url = (await self.addresses()).url_of(connection)
        if url is None:
            raise Invalid(
                f"connection {connection.name!r} cannot be opened in a browser, because this gateway has no listener "
                f"for it: its operator sets POSTERN_{connection.subtype.upper()}_PORT"
            )
        return Application(connection, url, await self._store.was_opened(principal.id, connection.id))

    async def begin(self, caller: Caller, host: str, challenge: str) -> str:
        """Return the URL at which the browser with the challenge's nonce gets its credential, once and soon.

        Raises as `find`, and as `Credentials.issue`; StepUpRequired for a connection that needs a fresh login.
        """
        login = _login_of(caller)
        if not _CHALLENGE.fullmatch(challenge):
            raise Invalid("challenge: must be a SHA-256 in base64url, without padding", field="challenge")
        application = await self.find(caller.principal, host)
        connection = await self._credentials.check(caller.principal, str(application.connection.id), None)
        self._require_fresh(connection, login)
        payload = {
            "user_id": str(caller.principal.id),
            "login_id": str(login.id),
            "connection_id": str(connection.id),
            "host": host_label(connection.name),
            "challenge": challenge,
        }
        code = await self._one_time_tokens.issue(TokenPurpose.APP_LOGIN, payload, CODE_LIFE)
        record_change(None, {"connection": connection.name, "url": application.url})
        return f"{application.url}{LOGIN_PATH}?code={code.reveal()}&challenge={challenge}"

    async def exchange(self, code: Secret, nonce: Secret, host: str) -> tuple[Principal, Issued]:
        """Exchange a code for a credential. Any attempt uses the code up.

        `host` is the first label of the host that the browser addressed. The credential ends with the login, and when
        the login's token expires: a browser then gets another one, without a question if the user has logged in again.
        Raises Unauthenticated, NotFound, Invalid, Denied.
        """
        payload = await self._one_time_tokens.take(TokenPurpose.APP_LOGIN, code)
        is_own = hmac.compare_digest(challenge_of(nonce), payload["challenge"])
        if not is_own or payload["host"] != host:
            raise Unauthenticated("this login was begun in another browser, or for another application; start again")
        login, account = await self._logins.current(UUID(payload["login_id"]), UUID(payload["user_id"]))
        issued = await self._credentials.issue(
            account.principal, payload["connection_id"], None, until=login.expires_at, login_id=login.id
        )
        return account.principal, issued

    async def _find(self, principal: Principal, host: str) -> Connection:
        names = await self._connections.names_of(principal.org_id, self._subtypes)
        found = [
            connection
            for name in names
            if host_label(name) == host and (connection := await self._control.find(principal, name)) is not None
        ]
        if not found:
            raise NotFound(f"there is no application at the host {self.domain.host_of(host)}; check its name")
        if len(found) > 1:
            same = " and ".join(sorted(repr(connection.name) for connection in found))
            raise Conflict(
                f"the host {self.domain.host_of(host)} stands for connections {same}, so no browser can open any of "
                "them; ask an administrator to give one a different name"
            )
        return found[0]

    def _require_fresh(self, connection: Connection, login: Login) -> None:
        if connection.access_fresh_factor is Toggle.ENABLED and not login.is_fresh(self._now()):
            raise StepUpRequired(
                f"connection {connection.name!r} requires that you prove again who you are before you open it: confirm "
                "your login (POST /api/login/step-up), then open it again"
            )

    def _addresses_of(self, config: ServerConfig) -> AppAddresses:
        listeners = {name: config.listeners[name] for name in self._subtypes if name in config.listeners}
        ports = {name: each.endpoint.port for name, each in listeners.items() if each.enabled and each.endpoint.port}
        return AppAddresses(self.domain, "https" if config.api_url.startswith("https:") else "http", ports)


def _login_of(caller: Caller) -> Login:
    """Return the login of a user. Raises Denied for programs."""
    if caller.login is None or caller.federation is not None:
        raise Denied("only logged-in users can open applications in a browser; programs use a credential")
    return caller.login
