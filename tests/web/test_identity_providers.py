"""Logging in at an identity provider: the way there, and back to the page that needed the login."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.support.openid import CLIENT_ID, CLIENT_SECRET, SCOPES, OpenIdProvider, openid_provider
from tests.support.running import Gateway
from tests.support.saml_idp import ANN, SamlIdp
from tests.web.conftest import Visit, visiting
from tests.web.people import People

pytestmark = pytest.mark.ci


@pytest.fixture
def oidc(people: People, gateway: Gateway) -> Iterator[OpenIdProvider]:
    with openid_provider(f"{gateway.told['api_url']}/api/callback") as provider:
        configure(
            people,
            auth_method="oidc",
            provider_name="Example ID",
            oidc_config={
                "issuer_url": provider.issuer,
                "client_id": CLIENT_ID,
                "client_secret": CLIENT_SECRET,
                "scopes": list(SCOPES),
            },
        )
        yield provider
        configure(people, auth_method="local")


@pytest.fixture
def saml(people: People, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SamlIdp]:
    with SamlIdp.make(tmp_path_factory.mktemp("idp")).serving() as idp:
        idp.meet(httpx.get(f"{gateway.told['api_url']}/api/saml/metadata").text)
        idp.person = {**ANN, "mail": ["sam@example.com"], "displayName": ["Sam"]}
        configure(
            people,
            auth_method="saml",
            provider_name="Example SAML",
            saml_config={"idp_metadata_url": f"{idp.url}/metadata"},
        )
        yield idp
        configure(people, auth_method="local")


def configure(people: People, **config: Any) -> None:
    people.ask("PUT", "/serverconfig/auth", {"confirm": True, **config})


@pytest.fixture
def visit(browser: Browser, gateway: Gateway) -> Iterator[Visit]:
    with visiting(browser, gateway) as made:
        yield made


def leave(visit: Visit, provider: str) -> None:
    """Open a page that needs a login, and go to the provider."""
    visit.open("/sessions?status=open")
    button = visit.page.get_by_role("button", name=f"Log in with {provider}")
    expect(button).to_be_visible()
    assert visit.accessibility() == []
    button.click()


def test_oidc_leads_back_to_the_page_that_needed_the_login(visit: Visit, oidc: OpenIdProvider) -> None:
    visit.other_origins.append(oidc.issuer)
    leave(visit, "Example ID")
    expect(visit.page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    expect(visit.page).to_have_url(f"{visit.url}/sessions?status=open")
    expect(visit.page.get_by_role("link", name="Logged in as ann@example.com")).to_be_visible()


def test_login_that_was_cancelled_at_the_provider_says_so(visit: Visit, oidc: OpenIdProvider) -> None:
    oidc.refuse = "access_denied"
    visit.other_origins.append(oidc.issuer)
    leave(visit, "Example ID")
    expect(visit.page.get_by_text("the identity provider ended the login")).to_be_visible()
    assert visit.accessibility() == []
    expect(visit.page.get_by_role("button", name="Log in with Example ID")).to_be_visible()


def test_saml_leads_back_to_the_page_that_needed_the_login(visit: Visit, saml: SamlIdp) -> None:
    visit.other_origins.append(saml.url)
    visit.expected_errors.append("404")  # the icon of the provider's page
    leave(visit, "Example SAML")
    visit.page.wait_for_url(f"{saml.url}/sso**")
    visit.page.evaluate("document.forms[0].submit()")  # what the provider's page does by itself
    expect(visit.page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    expect(visit.page).to_have_url(f"{visit.url}/sessions?status=open")
    expect(visit.page.get_by_role("link", name="Logged in as sam@example.com")).to_be_visible()
    visit.problems[:] = [problem for problem in visit.problems if saml.url not in problem]
