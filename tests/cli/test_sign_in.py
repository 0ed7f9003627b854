"""Logging in at a real OpenID provider: by a browser that comes back to the listener, and by a code for a device."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.support.openid import CLIENT_ID, CLIENT_SECRET, SCOPES, OpenIdProvider, openid_provider
from tests.support.saml_idp import SamlIdp, form_of
from tests.support.served import ANN, PASSWORD, Served

from postern.cli.login import sign_in_methods
from postern.cli.login.sign_in_methods import Gateway, by_browser, by_device
from postern.domain.identity.auth_config import AuthConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.errors import Denied, Malformed, Unauthenticated, Unavailable

pytestmark = pytest.mark.ci

# A browser as the `BROWSER` of a desktop: it goes where it is told, all the way.
BROWSER = "import httpx, sys; httpx.get(sys.argv[1], follow_redirects=True, trust_env=False).raise_for_status()"


@pytest.fixture
def provider(gate: Served) -> Iterator[OpenIdProvider]:
    """Ann's account is not there yet: the login makes it."""
    with openid_provider(f"{gate.url}/api/callback") as running:
        running.add_user("eve", groups=["dba"])
        running.user = "eve"
        oidc = OidcConfig(running.issuer, CLIENT_ID, Secret(CLIENT_SECRET), tuple(SCOPES))
        gate.run(gate.services.auth_configs.put(gate.world.org_id, AuthConfig(LoginMethod.OIDC, oidc=oidc)))
        yield running


def test_an_administrator_sets_the_provider(gate: Served) -> None:
    gate.log_in()
    with openid_provider(f"{gate.url}/api/callback") as running:
        here = ("admin", "auth", "set-oidc", running.issuer, "--client-id", CLIENT_ID, "--client-secret-stdin")
        refused = gate.cli(*here, "--yes", stdin=CLIENT_SECRET + "\n")
        assert refused.exit_code == 1  # no administrator is known to get in that way
        gate.ok(*here, "--groups-claim", "roles", "--yes", "--force", stdin=CLIENT_SECRET + "\n")
        info = httpx.get(f"{gate.url}/api/publicserverinfo", trust_env=False).json()
        assert info["auth_method"] == "oidc"
        config = gate.run(gate.services.auth_configs.of(gate.world.org_id)).oidc
        assert config is not None
        assert (config.groups_claim, config.client_secret) == ("roles", Secret(CLIENT_SECRET))


class Browser:
    """Goes where it is told on a thread, as a browser does, and keeps the addresses it was at and the last page."""

    def __init__(self, change: Callable[[str], str] = str, saml: str = "") -> None:
        self.change, self.saml = change, saml
        self.seen: list[str] = []
        self.page: httpx.Response | None = None
        self.thread: threading.Thread | None = None

    def __call__(self, url: str) -> bool:
        self.thread = threading.Thread(target=self._go, args=[url], daemon=True)
        self.thread.start()
        return True

    def _go(self, url: str) -> None:
        with httpx.Client(trust_env=False) as client:
            while url:
                self.seen.append(url)
                self.page = client.get(self.change(url))
                if "SAMLResponse" in self.page.text:  # a page with a form that sends itself
                    self.page = client.post(f"{self.saml}/api/saml/callback", data=form_of(self.page.text))
                url = self.page.headers.get("location", "")

    def join(self) -> httpx.Response:
        assert self.thread is not None
        self.thread.join(60)
        assert self.page is not None
        return self.page


def test_postern_login_opens_the_browser_and_is_logged_in(
    gate: Served, provider: OpenIdProvider, tmp_path: Path
) -> None:
    program = tmp_path / "browser.py"
    program.write_text(BROWSER)
    with gate.started("login", gate.url, "--json", BROWSER=f"{sys.executable} {program} %s") as running:
        output, told = running.communicate(timeout=60)
    assert running.returncode == 0, told
    assert json.loads(output)["email"] == "eve@example.com"
    assert f"{provider.issuer}/authorize?" in told  # the address is shown, too
    assert "Waiting for the browser" in told
    who = gate.json("whoami")
    assert (who["email"], who["login_method"], who["groups"]) == ("eve@example.com", "oidc", ["dba"])
    gate.ok("logout")
    assert gate.cli("whoami").exit_code == 3


def test_the_token_never_passes_the_browser(gate: Served, provider: OpenIdProvider) -> None:
    browser = Browser()
    token = by_browser(Gateway(gate.url), "oidc", browser)
    page = browser.join()
    assert page.status_code == 200
    assert token.reveal() not in "".join(browser.seen) + page.text
    landed = urlsplit(browser.seen[-1])
    assert (landed.hostname, landed.path) == ("127.0.0.1", "/callback")
    with gate_http(gate, token) as http:
        assert http.get("/userinfo").json()["email"] == "eve@example.com"


def gate_http(gate: Served, token: Secret) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token.reveal()}"}
    return httpx.Client(base_url=f"{gate.url}/api", headers=headers, trust_env=False)


def test_a_stolen_code_is_worth_nothing_without_the_verifier(gate: Served, provider: OpenIdProvider) -> None:
    browser = Browser()
    by_browser(Gateway(gate.url), "oidc", browser)
    browser.join()
    code = parse_qs(urlsplit(browser.seen[-1]).query)["code"][0]
    body = {"code": code, "code_verifier": "A" * 64}
    assert httpx.post(f"{gate.url}/api/login/exchange", json=body, trust_env=False).status_code == 401


def test_login_csrf_with_the_code_of_another_login_is_refused(gate: Served, provider: OpenIdProvider) -> None:
    """A code that an attacker got for themselves, brought to our listener even with the right state."""
    theirs = Browser()
    by_browser(Gateway(gate.url), "oidc", theirs)
    theirs.join()
    code = parse_qs(urlsplit(theirs.seen[-1]).query)["code"][0]

    def swap(url: str) -> str:
        return re.sub(r"code=[^&]+", f"code={code}", url) if "127.0.0.1" in url and "/callback?state=" in url else url

    with pytest.raises(Unauthenticated):
        by_browser(Gateway(gate.url), "oidc", Browser(swap))


def test_a_wrong_state_is_waited_out(gate: Served, provider: OpenIdProvider) -> None:
    def wrong(url: str) -> str:
        return re.sub(r"/callback\?state=[^&]+&code", "/callback?state=guessed&code", url)

    with pytest.raises(Unauthenticated, match="no login in the browser within 1 second"):
        by_browser(Gateway(gate.url), "oidc", Browser(wrong), deadline=1)


def test_what_the_provider_refuses_is_told(gate: Served, provider: OpenIdProvider) -> None:
    provider.refuse = "access_denied"
    browser = Browser()
    with pytest.raises(Unauthenticated, match="ended the login"):
        by_browser(Gateway(gate.url), "oidc", browser)
    assert "The terminal shows the reason" in browser.join().text


def test_nobody_comes(gate: Served, provider: OpenIdProvider, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unauthenticated, match="no login in the browser"):
        by_browser(Gateway(gate.url), "oidc", lambda _: False, deadline=0.1)
    assert "No browser could be opened" in capsys.readouterr().err


def test_a_password_is_not_asked_for_where_people_log_in_in_the_browser(gate: Served, provider: OpenIdProvider) -> None:
    failed = gate.cli("login", gate.url, "--email", ANN, "--password-stdin", stdin=PASSWORD + "\n")
    assert failed.exit_code == 2
    assert "in the browser" in failed.output


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "http://a b", "https://x\n--flag", "-x"])
def test_what_a_gateway_answers_is_opened_only_if_it_is_of_the_web(url: str) -> None:
    with pytest.raises(Unavailable, match="no web address"):
        sign_in_methods._require_web(url)


@pytest.mark.parametrize(
    ("environ", "there"),
    [({}, False), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "wayland-0"}, True), ({"BROWSER": "lynx"}, True)],
)
def test_a_browser_needs_a_display(environ: dict[str, str], there: bool) -> None:
    assert sign_in_methods.has_browser(environ) is there


# -- without browser ---------------------------------------------------------------------------------------------------


class Person:
    """Confirms what the terminal shows in a browser of their own, between two questions of the device."""

    def __init__(self, gate: Served, shown: pytest.CaptureFixture[str], answer: str, after: int = 1) -> None:
        self.gate, self.shown, self.answer, self.after = gate, shown, answer, after
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.gate.world.clock.forward(seconds=seconds)
        if len(self.slept) == self.after and self.answer:
            self._confirm()

    def _confirm(self) -> None:
        told = self.shown.readouterr().err
        code = re.search(r"enter this code:  ([A-Z]{4}-[A-Z]{4})", told)
        url = re.search(r"http://\S+/device\S*", told)
        assert code
        assert url
        with httpx.Client(trust_env=False, follow_redirects=True) as client:
            page = client.get(url[0], params={"user_code": code[1]})
            if "confirm" not in page.text:  # logged in now, back at the page
                page = client.get(url[0], params={"user_code": code[1]})
            csrf = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
            assert csrf, page.text
            form = {"user_code": code[1], "csrf_token": csrf[1], "answer": self.answer}
            done = client.post(
                f"{self.gate.url}/api/login/device/confirm", data=form, headers={"Origin": self.gate.url}
            )
            assert done.status_code == 200, done.text


def test_a_code_is_confirmed_in_another_browser(
    gate: Served, provider: OpenIdProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    person = Person(gate, capsys, "allow")
    token = by_device(Gateway(gate.url), person.sleep)
    with gate_http(gate, token) as http:
        assert http.get("/userinfo").json()["email"] == "eve@example.com"
    assert person.slept == [5.0]


def test_somebody_refuses_the_code(gate: Served, provider: OpenIdProvider, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Denied, match="rejected in the browser"):
        by_device(Gateway(gate.url), Person(gate, capsys, "deny").sleep)


@pytest.mark.slow
def test_a_code_expires(gate: Served, provider: OpenIdProvider, capsys: pytest.CaptureFixture[str]) -> None:
    person = Person(gate, capsys, "")
    with pytest.raises(Unauthenticated):
        by_device(Gateway(gate.url), person.sleep)
    assert 550 <= sum(person.slept) <= 605


def test_the_device_slows_down_when_it_is_told_to(
    gate: Served, provider: OpenIdProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []

    def hurried(seconds: float) -> None:
        """The gateway's clock goes slower than ours."""
        slept.append(seconds)
        gate.world.clock.forward(seconds=1 if len(slept) < 3 else 600)

    with pytest.raises(Unauthenticated):
        by_device(Gateway(gate.url), hurried)
    assert slept[:3] == [5.0, 5.0, 10.0]


def test_no_display_means_a_code(gate: Served, provider: OpenIdProvider) -> None:
    with gate.started("login", gate.url) as running:
        assert running.stderr is not None
        told = "".join(running.stderr.readline() for _ in range(5))
    assert f"{gate.url}/device" in told
    assert "enter this code" in told


@pytest.fixture
def idp(tmp_path: Path) -> Iterator[SamlIdp]:
    (tmp_path / "idp").mkdir()
    with SamlIdp.make(tmp_path / "idp").serving() as running:
        yield running


def test_a_login_by_saml_comes_back_to_the_listener(gate: Served, idp: SamlIdp) -> None:
    idp.meet(httpx.get(f"{gate.url}/api/saml/metadata", trust_env=False).text)
    idp.person = {name: [value[0].replace("ann@", "eve@"), *value[1:]] for name, value in idp.person.items()}
    saml = AuthConfig(LoginMethod.SAML, saml=SamlConfig(idp_metadata_url=f"{idp.url}/metadata"))
    gate.run(gate.services.auth_configs.put(gate.world.org_id, saml))
    token = by_browser(Gateway(gate.url), "saml", Browser(saml=gate.url))
    with gate_http(gate, token) as http:
        who = http.get("/userinfo").json()
    assert (who["email"], who["login_method"]) == ("eve@example.com", "saml")


def test_where_people_log_in_otherwise_the_gateway_says_so(gate: Served) -> None:
    with pytest.raises(Malformed, match="does not log in with OpenID Connect"):
        by_browser(Gateway(gate.url), "oidc", Browser(), deadline=1)
