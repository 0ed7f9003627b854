"""The gateway's own paths at hosts of applications: a browser gets its credential once, at its host, and nobody else's
browser does."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.world import API_URL, World

from postern.domain.identity.login import ClientKind, LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.targets.connection import Connection
from postern.errors import Unauthenticated
from postern.protocols.http.http_heads import Headers, RequestHead, values_of
from postern.protocols.http.listener.http_browser_login import HttpBrowserLogin
from postern.protocols.http.listener.http_client_exchange import GatewayResponse, HttpVisitor
from postern.protocols.http.listener.http_credentials import credential_of, without_credential
from postern.protocols.http.listener.http_pages import error_response, for_reader
from postern.services.bundle import Services
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.logins import ClientFacts
from postern.store.ports.server_ports import AuditEntry, AuditFilter

HOST = "team-grafana.localhost:7432"
PAGE: Headers = ((b"accept", b"text/html,*/*;q=0.8"), (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-site", b"none"))


@dataclass
class FakeBrowser:
    """Sends cookies of one host back, as a browser does."""

    login: HttpBrowserLogin
    tls: bool = False
    cookies: dict[str, str] = field(default_factory=dict)

    async def open(
        self, target: str, *, host: str = HOST, method: str = "GET", headers: Headers = PAGE
    ) -> GatewayResponse | None:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = (*headers, (b"cookie", cookies.encode())) if cookies else headers
        head = RequestHead(method, target, host, sent)
        response = await self.login.handle(head, b"", HttpVisitor("192.0.2.7", self.tls))
        for value in values_of(response.headers, b"set-cookie") if response else []:
            ((name, morsel),) = SimpleCookie(value.decode()).items()
            assert (morsel["httponly"], morsel["samesite"], morsel["path"], morsel["domain"]) == (True, "Lax", "/", "")
            assert bool(morsel["secure"]) is self.tls
            assert name.startswith("__Host-") is self.tls
            self.cookies[name] = morsel.value
            if morsel["max-age"] == "0":
                del self.cookies[name]
        return response

    async def redirected(self, target: str) -> str:
        response = await self.open(target)
        assert response is not None
        assert (response.status, response.body) == (303, b"")
        ((_, location),) = [pair for pair in response.headers if pair[0] == b"location"]
        assert (b"cache-control", b"no-store") in response.headers
        assert (b"referrer-policy", b"no-referrer") in response.headers
        return location.decode()


@pytest.fixture
def services(world: World) -> Services:
    """Connections of PostgreSQL stand for applications: what they are does not matter here."""
    made = world.services()
    made.app_logins._subtypes = frozenset({"postgres"})
    return made


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.fixture
async def grafana(world: World) -> Connection:
    return await world.add_connection("Team.Grafana")


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def browser(services: Services, request: pytest.FixtureRequest) -> FakeBrowser:
    return FakeBrowser(HttpBrowserLogin(services), request.param)


async def allow(services: Services, principal: Principal, page: str) -> str:
    """Do what the gateway's page does; return the path to open."""
    parts = urlsplit(page)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{API_URL}/open-app"
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    account = await services.users.own(principal)
    login = await services.logins.open(account, LoginMethod.OIDC, ClientFacts(ClientKind.WEB, "192.0.2.7"))
    url = await services.app_logins.begin(Caller(principal, login.login), query["host"], query["challenge"])
    assert urlsplit(url).netloc == HOST
    return url.removeprefix(f"http://{HOST}")


def text_of(response: GatewayResponse | None) -> str:
    assert response is not None
    return response.body.decode()


@pytest.mark.parametrize("path", ["/", "/d/abc?var=a%20b&token=x", "/a//b", "/search?q=http://example.com/"])
async def test_browser_comes_back_to_where_it_wanted_with_a_credential(
    services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection, path: str
) -> None:
    page = await browser.redirected(path)
    assert "token" not in page  # the path stays at the host
    assert await browser.redirected(await allow(services, ann, page)) == path
    assert len(browser.cookies) == 1  # the nonce is gone
    sent = RequestHead("GET", path, HOST, ((b"cookie", "; ".join(map("=".join, browser.cookies.items())).encode()),))
    presented = credential_of(sent, tls=browser.tls)
    assert presented is not None
    grant = await services.access.find_grant(presented.username)
    assert grant is not None
    assert (grant.principal, grant.connection.id) == (ann, grafana.id)
    ((credential, _),) = await services.credentials.of_principal(ann)
    assert credential.login_id is not None
    (entry,) = await _audited(services, ann)
    assert (entry.action, entry.resource_type, entry.resource) == ("create", "connections/credentials", "Team.Grafana")
    assert (entry.source, entry.path, entry.actor_email) == ("192.0.2.7", "/.postern/login", "ann@example.com")


async def _audited(services: Services, ann: Principal) -> Sequence[AuditEntry]:
    return (await services.audit._store.find(ann.org_id, AuditFilter(), Page())).items


@pytest.mark.parametrize(
    "target",
    ["//evil.example/", "/\\evil.example", "/.postern/logout", "/" + "a" * 2_001, "/\x7f"],
)
async def test_path_that_leads_elsewhere_becomes_the_front_page(
    services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection, target: str
) -> None:
    if target.startswith("/.postern/"):  # only by a cookie that somebody made up
        page = await browser.redirected("/")
        (name,) = browser.cookies
        nonce = browser.cookies[name].partition(".")[0]
        browser.cookies[name] = f"{nonce}.{base64.urlsafe_b64encode(target.encode()).decode().rstrip('=')}"
    else:
        page = await browser.redirected(target)
    assert await browser.redirected(await allow(services, ann, page)) == "/"


async def test_code_is_worth_nothing_in_another_browser(
    services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection
) -> None:
    url = await allow(services, ann, await browser.redirected("/"))
    other = FakeBrowser(browser.login, browser.tls)
    await other.redirected("/")  # which has begun a login of its own
    response = await other.open(url)
    assert response is not None
    assert response.status == 401
    assert "was begun in another browser" in text_of(response)
    assert await services.credentials.of_principal(ann) == []
    # Its own browser can still use it: the other one could not even use it up.
    assert await browser.redirected(url) == "/"
    again = await browser.open(url)
    assert again is not None
    assert again.status == 401


async def test_attack_code_that_is_sent_several_times_at_once_works_once(
    services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection
) -> None:
    url = await allow(services, ann, await browser.redirected("/"))
    cookies = dict(browser.cookies)
    browsers = [FakeBrowser(browser.login, browser.tls, dict(cookies)) for _ in range(8)]
    responses = await asyncio.gather(*[each.open(url) for each in browsers])
    assert sorted(response.status for response in responses if response) == [303, *[401] * 7]
    assert len(await services.credentials.of_principal(ann)) == 1


async def test_browser_with_many_logins_begun_forgets_them(browser: FakeBrowser, grafana: Connection) -> None:
    for _ in range(30):
        await browser.redirected("/")
        assert len(browser.cookies) <= 8


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", PAGE),
        ("GET", ((b"accept", b"*/*"),)),
        ("GET", ((b"accept", b"text/html"), (b"sec-fetch-mode", b"cors"))),
        ("OPTIONS", ()),
    ],
)
async def test_program_is_not_sent_to_a_page(
    browser: FakeBrowser, grafana: Connection, method: str, headers: Headers
) -> None:
    assert await browser.open("/api", method=method, headers=headers) is None


@pytest.mark.parametrize("host", ["localhost:7432", "127.0.0.1:7432", "a.b.localhost", "team-grafana.evil.example"])
async def test_other_hosts_have_no_login(browser: FakeBrowser, grafana: Connection, host: str) -> None:
    for target in ("/", "/.postern/login?code=x", "/.postern/logout"):
        assert await browser.open(target, host=host) is None


@pytest.mark.parametrize(
    "target",
    [
        "/.postern/",
        "/.postern/login",
        "/.postern/login?code=x&challenge=y",
        "/.postern/login?" + "a=1&" * 20,
        "/.postern/x",
    ],
)
async def test_what_is_no_login_is_an_error_that_nothing_frames_or_stores(
    browser: FakeBrowser, grafana: Connection, target: str
) -> None:
    response = await browser.open(target)
    assert response is not None
    assert response.status in (400, 401, 404)
    headers = dict(response.headers)
    assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
    assert headers[b"cache-control"] == b"no-store"


async def test_logging_out_revokes_the_credential_and_asks_first_if_another_site_led_there(
    services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection
) -> None:
    await browser.redirected(await allow(services, ann, await browser.redirected("/")))
    foreign = ((b"accept", b"text/html"), (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-site", b"cross-site"))
    for method in ("GET", "POST"):
        assert '<form method="post"' in text_of(await browser.open("/.postern/logout", method=method, headers=foreign))
    assert browser.cookies
    own = ((b"sec-fetch-site", b"same-origin"),)
    assert "You are logged out" in text_of(await browser.open("/.postern/logout", method="POST", headers=own))
    assert browser.cookies == {}
    ((credential, _),) = await services.credentials.of_principal(ann)
    assert credential.revoked_at is not None
    assert "You are logged out" in text_of(await browser.open("/.postern/logout"))  # it can be repeated


async def test_wrong_password_revokes_nothing(
    services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection
) -> None:
    await browser.redirected(await allow(services, ann, await browser.redirected("/")))
    (name,) = browser.cookies
    browser.cookies[name] = f"{browser.cookies[name].partition('.')[0]}.guessed"
    await browser.open("/.postern/logout")
    ((credential, _),) = await services.credentials.of_principal(ann)
    assert credential.revoked_at is None


async def test_application_gets_no_cookie_of_the_gateway(browser: FakeBrowser, grafana: Connection) -> None:
    await browser.redirected("/")
    prefix = "__Host-postern" if browser.tls else "postern"
    cookies = "; ".join([*map("=".join, browser.cookies.items()), f"{prefix}=x", "mine=1"])
    head = RequestHead("GET", "/", HOST, ((b"cookie", cookies.encode()),))
    assert without_credential(head, None).headers == ((b"cookie", b"mine=1"),)


async def test_credential_of_another_application_is_not_used_at_a_host(
    world: World, services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection
) -> None:
    wiki = await world.add_connection("wiki")
    issued = await services.credentials.issue(ann, wiki.name, None)
    grant = await services.access.find_grant(issued.credential.username)
    assert grant is not None
    for host in ("wiki.localhost:7432", "localhost:7432", "gateway.example.com"):
        browser.login.require_usable(RequestHead("GET", "/", host), b"authorization", grant)
    with pytest.raises(Unauthenticated, match=r"has another host: wiki\.localhost"):
        browser.login.require_usable(RequestHead("GET", "/", HOST), b"authorization", grant)


@pytest.mark.parametrize("is_revoked", [True, False])
async def test_browser_whose_credential_has_ended_is_led_to_the_login(
    world: World, services: Services, browser: FakeBrowser, ann: Principal, grafana: Connection, is_revoked: bool
) -> None:
    issued = await services.credentials.issue(ann, grafana.name, 60)
    if is_revoked:
        await services.credentials.revoke_own(ann, issued.credential.id)
    else:
        world.clock.forward(seconds=61)
    grant = await services.access.find_grant(issued.credential.username)
    assert grant is not None
    head = RequestHead("GET", "/", HOST)
    browser.login.require_usable(head, b"authorization", grant)  # programs are told why, by admission
    with pytest.raises(Unauthenticated, match="log in again"):
        browser.login.require_usable(head, b"cookie", grant)


@pytest.mark.parametrize(
    ("method", "mode", "scheme"),
    [
        ("GET", b"", b"Basic"),
        ("POST", b"", b"Basic"),
        ("GET", b"navigate", b"Basic"),
        ("POST", b"navigate", b"Postern"),
        ("GET", b"cors", b"Postern"),
        ("GET", b"websocket", b"Postern"),
    ],
)
def test_scripts_and_forms_get_no_challenge_that_opens_a_dialog(method: str, mode: bytes, scheme: bytes) -> None:
    accept = (b"accept", b"text/html")
    head = RequestHead(method, "/api", HOST, (accept, (b"sec-fetch-mode", mode)) if mode else (accept,))
    response = for_reader(error_response(401, "log in first"), head)
    ((_, challenge),) = [pair for pair in response.headers if pair[0] == b"www-authenticate"]
    assert challenge.partition(b" ")[0] == scheme
