"""Logins of browsers: the gateway's own paths at the hosts of applications, and the way to the gateway's login page.

    GET /anything           without a credential ─▶ 303 to the gateway's page; a nonce and the path as a cookie
    GET /.postern/login     with a code of that page, and the nonce ─▶ the credential as a cookie, 303 to the path
    GET /.postern/logout    ─▶ the credential is revoked; if another site led here, a page asks first

The path never leaves the host: it is in the cookie. So no link can choose where a login ends, and no query of an
application gets into the gateway's address.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
import secrets
from datetime import datetime
from typing import Final
from urllib.parse import parse_qs
from uuid import uuid4

from markupsafe import Markup

from postern.domain.identity.credential import Grant, Issued
from postern.domain.identity.principal import Principal
from postern.domain.page_addresses import open_app_address
from postern.domain.secret import Secret
from postern.domain.targets.http_hosts import host_label
from postern.errors import Conflict, Denied, Malformed, NotFound, PosternError, TooMany, Unauthenticated, Unavailable
from postern.protocols.http.http_heads import Headers, RequestHead, first_value, values_of
from postern.protocols.http.listener.http_client_exchange import GatewayResponse, HttpVisitor, is_browser
from postern.protocols.http.listener.http_credentials import cookie_name, cookie_value, credential_of
from postern.protocols.http.listener.http_front import OWN_PATHS
from postern.protocols.verifiers import fits
from postern.services.bundle import Services
from postern.services.identity.app_logins import LOGIN_PATH, challenge_of
from postern.services.server.audit_context import AuditContext, collect_change

LOGOUT_PATH: Final = "/.postern/logout"
NONCE_LIFE: Final = 15 * 60  # seconds: as long as a login can take, with a second factor
_MAX_PATH: Final = 2_000
_MAX_NONCES: Final = 8  # logins that one browser has begun at one host
_NONCE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# A path that browsers cannot read as another host (`//host`, `/\host`).
_LOCAL_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x7e]*")
_STATUSES: Final = (
    *((Unauthenticated, 401), (Denied, 403), (NotFound, 404), (Conflict, 409)),
    *((TooMany, 429), (Unavailable, 503)),
)
_SAFE: Final[Headers] = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (
        b"content-security-policy",
        b"default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
)
_HTML: Final = "text/html; charset=utf-8"
_PAGE: Final = Markup(
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    '<meta name="viewport" content="width=device-width"></head>'
    "<body><main><h1>{title}</h1>{content}</main></body></html>"
)
_LOGOUT: Final = Markup('<form method="post" action="{action}"><p><button>Log out</button></p></form>')


class HttpBrowserLogin:
    """Serves browsers at hosts below the domain of applications."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._domain = services.app_logins.domain

    async def handle(self, head: RequestHead, body: bytes, client: HttpVisitor) -> GatewayResponse | None:
        """Return the response to a request below OWN_PATHS, or to a browser's request without a valid credential; None
        for one that it does not know."""
        label = self._domain.label_of(head.authority)
        if label is None:
            return None
        try:
            if head.path == LOGIN_PATH:
                return await self._log_in(head, label, client)
            if head.path == LOGOUT_PATH:
                return await self._log_out(head, client)
            if head.path.startswith(OWN_PATHS):
                raise NotFound("there is no such page of the gateway")
            return await self._lead_to_login(head, label, client) if is_browser(head) else None
        except PosternError as error:
            return _error_page(error)

    def require_usable(self, head: RequestHead, source: bytes, grant: Grant) -> None:
        """Raises Unauthenticated for a credential of another application than the host's: one application could
        otherwise show itself at the host of another one. And for one of a cookie that is no longer valid, so that its
        browser is led to the login."""
        label = self._domain.label_of(head.authority)
        if label is not None and label != host_label(grant.connection.name):
            raise Unauthenticated(
                f"the credential is for connection {grant.connection.name!r}, which has another host: "
                f"{self._domain.host_of(grant.connection.name)}"
            )
        if source == b"cookie" and not _is_valid(grant, self._services.now()):
            raise Unauthenticated("the credential of this browser is no longer valid; log in again")

    async def _lead_to_login(self, head: RequestHead, label: str, client: HttpVisitor) -> GatewayResponse:
        nonce = Secret(secrets.token_urlsafe(32))
        path = head.target if _is_local_path(head.target) else "/"
        value = f"{nonce.reveal()}.{base64.urlsafe_b64encode(path.encode()).decode().rstrip('=')}"
        cookies = [_cookie(_nonce_cookie(challenge_of(nonce), client), value, NONCE_LIFE, client)]
        begun = _nonce_cookies(head, client)
        if len(begun) >= _MAX_NONCES:
            cookies += [_cookie(name, "", 0, client) for name in begun]
        page = open_app_address(await self._services.app_logins.login_page(), label, challenge_of(nonce))
        return _redirect(page, cookies)

    async def _log_in(self, head: RequestHead, label: str, client: HttpVisitor) -> GatewayResponse:
        if head.method != "GET":
            raise NotFound("this page can only be opened")
        query = _read_query(head.query)
        code, challenge = query.get("code", ""), query.get("challenge", "")
        name = _nonce_cookie(challenge, client)
        nonce, path = _read_nonce(_nonce_cookies(head, client).get(name, ""))
        if nonce is None or not hmac.compare_digest(challenge_of(nonce).encode(), challenge.encode()):
            return _error_page(
                Unauthenticated("this login was begun in another browser, or more than 15 minutes ago; open it again")
            )
        with collect_change(client.peer) as change:
            principal, issued = await self._services.app_logins.exchange(Secret(code), nonce, label)
            await self._audit(principal, issued.connection.name, head, "create", change)
        return _redirect(path, [self._credential_cookie(issued, client), _cookie(name, "", 0, client)])

    async def _log_out(self, head: RequestHead, client: HttpVisitor) -> GatewayResponse:
        site = first_value(head.headers, b"sec-fetch-site")
        if site not in (b"", b"none", b"same-origin"):
            return _page("Log out?", _LOGOUT.format(action=LOGOUT_PATH))
        if head.method not in ("GET", "POST"):
            raise NotFound("this page can only be opened")
        await self._revoke(head, client)
        cleared = _cookie(cookie_name(tls=client.tls), "", 0, client)
        content = Markup('<p>You are logged out here. <a href="/">Log in again</a></p>')
        return _page("Logged out", content, cookies=[cleared])

    async def _revoke(self, head: RequestHead, client: HttpVisitor) -> None:
        """Revoke the credential of the request, if it has a valid one."""
        presented = credential_of(head, tls=client.tls)
        grant = await self._services.access.find_grant(presented.username) if presented is not None else None
        if presented is None or grant is None:
            return
        if await asyncio.to_thread(fits, presented.password, grant.verifier):
            with collect_change(client.peer) as change:
                await self._services.credentials.revoke_by_holder(grant)
                await self._audit(grant.principal, grant.connection.name, head, "revoke", change)

    async def _audit(
        self, actor: Principal, connection: str, head: RequestHead, action: str, change: AuditContext
    ) -> None:
        """Record what happened to a credential. The query has a code, and is not recorded."""
        await self._services.audit.record(
            actor,
            claimed="",
            action=action,
            resource_type="connections/credentials",
            resource=connection,
            method=head.method,
            path=head.path,
            status=200,
            source=change.address,
            request_id=str(uuid4()),
            body={},
            audit_context=change,
        )

    def _credential_cookie(self, issued: Issued, client: HttpVisitor) -> str:
        credential = issued.credential
        assert credential.expires_at is not None  # it ends with the login at the latest
        life = int((credential.expires_at - self._services.now()).total_seconds())
        value = cookie_value(credential.username, issued.password)
        return _cookie(cookie_name(tls=client.tls), value, max(life, 1), client)


def _is_valid(grant: Grant, now: datetime) -> bool:
    return grant.revoked_at is None and (grant.expires_at is None or now < grant.expires_at)


def _is_local_path(target: str) -> bool:
    """Return whether a login can end there: a path of this host, and none of the gateway's own."""
    is_own = target.startswith(OWN_PATHS)
    return len(target) <= _MAX_PATH and not is_own and _LOCAL_PATH.fullmatch(target) is not None


def _read_nonce(value: str) -> tuple[Secret | None, str]:
    """Return the nonce of a cookie, and the path where the login ends."""
    nonce, _, encoded = value.partition(".")
    if not _NONCE.fullmatch(nonce):
        return None, "/"
    try:
        path = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii")
    except ValueError:
        path = "/"
    return Secret(nonce), path if _is_local_path(path) else "/"


def _read_query(query: str) -> dict[str, str]:
    """Return the first value of each parameter. Raises Malformed."""
    try:
        return {name: values[0] for name, values in parse_qs(query, max_num_fields=10).items()}
    except ValueError:
        raise Malformed("the address of this login has too many parameters") from None


def _nonce_prefix(client: HttpVisitor) -> str:
    return f"{cookie_name(tls=client.tls)}-login-"


def _nonce_cookie(challenge: str, client: HttpVisitor) -> str:
    """Return the name of the cookie: one for each login, since a browser can begin several."""
    return f"{_nonce_prefix(client)}{challenge[:16]}"


def _nonce_cookies(head: RequestHead, client: HttpVisitor) -> dict[str, str]:
    """Return the cookies of logins that this browser has begun."""
    prefix = _nonce_prefix(client)
    found: dict[str, str] = {}
    for value in values_of(head.headers, b"cookie"):
        for pair in value.decode("latin-1").split(";"):
            name, _, content = pair.strip().partition("=")
            if name.startswith(prefix):
                found[name] = content
    return found


def _cookie(name: str, value: str, seconds: int, client: HttpVisitor) -> str:
    """Return a cookie of this host alone, which no script can read. SameSite=Lax: the way back from the login page is a
    navigation from another site."""
    secure = "; Secure" if client.tls else ""
    return f"{name}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Lax{secure}"


def _set_cookies(cookies: list[str]) -> Headers:
    return tuple((b"set-cookie", cookie.encode()) for cookie in cookies)


def _redirect(url: str, cookies: list[str]) -> GatewayResponse:
    headers = (*_SAFE, (b"location", url.encode()), *_set_cookies(cookies))
    return GatewayResponse(303, b"", headers, _HTML)


def _page(title: str, content: Markup, status: int = 200, cookies: list[str] | None = None) -> GatewayResponse:
    body = _PAGE.format(title=title, content=content).encode()
    return GatewayResponse(status, body, (*_SAFE, *_set_cookies(cookies or [])), _HTML)


def _error_page(error: PosternError) -> GatewayResponse:
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)
    content = Markup('<p role="alert">{}</p><p><a href="/">Open the application again</a></p>').format(error.message)
    return _page("Not logged in", content, status)
