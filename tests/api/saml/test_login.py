"""Login at a SAML identity provider, over HTTP, from the web app and from a command line."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from lxml import etree
from tests.support.saml_flow import US, Returning, SamlGateway, query_of
from tests.support.saml_idp import ANN, SamlIdp, form_of
from tests.support.world import API_URL, CLIENT

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import ClientKind
from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.store.database import Database
from postern.store.ports.server_ports import AuditFilter

pytestmark = pytest.mark.ci

METADATA = "urn:oasis:names:tc:SAML:2.0:metadata"
NAME_ID_FORMAT = "urn:oasis:names:tc:SAML:2.0:nameid-format:"
EMAIL_FORMAT = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
VERIFIER = "a-code-verifier-of-the-command-line-that-is-long-enough"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


async def logged_in(gateway: SamlGateway, **parameters: str) -> dict[str, Any]:
    """Who the gateway takes the browser for."""
    answer = await gateway.back(await gateway.leave(**parameters))
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{API_URL}/"), answer.text
    token = answer.cookies["postern"]
    who: dict[str, Any] = (await gateway.client.get("/userinfo", headers={"Cookie": f"postern={token}"})).json()
    return who


async def test_a_browser_logs_in_and_has_its_session_in_a_cookie(gateway: SamlGateway) -> None:
    answer = await gateway.back(await gateway.leave(redirect="/sessions"))
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{API_URL}/sessions"), answer.text
    token = answer.cookies["postern"]
    who = (await gateway.client.get("/userinfo", headers={"Cookie": f"postern={token}"})).json()
    assert (who["email"], who["name"], who["is_admin"]) == ("ann@example.com", "Ann", True)
    assert set(who["groups"]) == {"dba", "dev", "admin"}
    (entry,) = (await gateway.services.audit.find(await _ann(gateway), AuditFilter(resource_type="saml"), Page())).items
    assert (entry.action, entry.actor_email, entry.resource) == (
        "login",
        "ann@example.com",
        f"{gateway.idp.url}/metadata",
    )


async def test_page_for_people_leads_to_the_provider_and_back(gateway: SamlGateway) -> None:
    for path in ("/login/device", "/web/login?back=/api/login/device"):
        led = await gateway.client.get(path)
        assert (led.status_code, led.headers["Location"].startswith(gateway.idp.url)) == (303, True), led.text
        cookies = dict(gateway.client.cookies)
        gateway.client.cookies.clear()
        async with httpx.AsyncClient(verify=False) as browser:  # http on loopback; trust takes long to load
            page = await browser.get(led.headers["Location"])
        answer = await gateway.back(Returning(form_of(page.text), cookies))
        assert (answer.status_code, answer.headers["Location"]) == (303, f"{API_URL}/api/login/device"), answer.text
        assert answer.cookies["postern"]


async def test_both_stores_keep_requests_and_used_assertions(database: Database, idp: SamlIdp) -> None:
    gateway = await SamlGateway.make(database, idp)
    assert (await logged_in(gateway))["email"] == "ann@example.com"
    assert (await logged_in(gateway))["email"] == "ann@example.com"
    assert await gateway.world.stores.principals.count(gateway.world.org_id) == 1


async def test_a_command_line_exchanges_its_code_once(gateway: SamlGateway) -> None:
    redirect_target = "http://127.0.0.1:3587/callback"
    answer = await gateway.back(await gateway.leave(redirect=redirect_target, code_challenge=CHALLENGE))
    assert answer.headers["Location"].startswith(redirect_target)
    assert "postern" not in answer.cookies
    code = Secret(query_of(answer)["code"])
    account, opened = await gateway.services.code_exchange.exchange(code, Secret(VERIFIER), CLIENT)
    assert (account.principal.email, opened.login.client) == ("ann@example.com", ClientKind.CLI)
    with pytest.raises(Unauthenticated):
        await gateway.services.code_exchange.exchange(code, Secret(VERIFIER), CLIENT)


async def test_a_login_ends_with_the_session_at_the_provider(gateway: SamlGateway) -> None:
    end = gateway.world.clock.now + timedelta(hours=1)
    gateway.idp.options = {"session_not_on_or_after": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
    answer = await gateway.back(await gateway.leave())
    session = {"Cookie": f"postern={answer.cookies['postern']}"}
    gateway.world.clock.forward(minutes=59)
    assert (await gateway.client.get("/userinfo", headers=session)).status_code == 200
    gateway.world.clock.forward(minutes=2)
    assert (await gateway.client.get("/userinfo", headers=session)).status_code == 401


async def test_a_login_ends_after_twelve_hours_and_is_not_renewed(gateway: SamlGateway) -> None:
    answer = await gateway.back(await gateway.leave())
    session = {"Cookie": f"postern={answer.cookies['postern']}"}
    gateway.world.clock.forward(hours=11, minutes=59)
    assert (await gateway.client.get("/userinfo", headers=session)).status_code == 200
    gateway.world.clock.forward(minutes=2)
    assert (await gateway.client.get("/userinfo", headers=session)).status_code == 401


async def test_groups_follow_the_provider_at_each_login_and_stay_when_it_says_nothing(gateway: SamlGateway) -> None:
    assert set((await logged_in(gateway))["groups"]) >= {"dba", "dev"}
    gateway.idp.person = ANN | {"groups": ["dev"]}
    assert "dba" not in (await logged_in(gateway))["groups"]
    gateway.idp.person = {name: values for name, values in ANN.items() if name != "groups"}
    assert "dev" in (await logged_in(gateway))["groups"]


async def test_one_group_is_a_list_of_one(gateway: SamlGateway) -> None:
    gateway.idp.person = ANN | {"groups": ["ops"]}
    assert "ops" in (await logged_in(gateway))["groups"]


async def test_configured_attributes_name_the_person(gateway: SamlGateway) -> None:
    gateway.idp.person = {"uid": ["a.nn"], "mail": ["other@example.com"], "cn": ["Ann of cn"], "ou": ["dba"]}
    gateway.idp.name_format = NAME_ID_FORMAT + "transient"
    await gateway.configure(
        idp_metadata_url=f"{gateway.idp.url}/metadata",
        subject_attribute="uid",
        email_attribute="mail",
        name_attribute="cn",
        groups_claim="ou",
    )
    who = await logged_in(gateway)
    assert (who["email"], who["name"]) == ("other@example.com", "Ann of cn")
    assert "dba" in who["groups"]
    known = await gateway.world.stores.principals.by_subject(
        gateway.world.org_id, f"{gateway.idp.url}/metadata", "a.nn"
    )
    assert known is not None


async def test_a_name_id_that_is_an_address_is_the_address(gateway: SamlGateway) -> None:
    gateway.idp.person, gateway.idp.name_id = {"displayName": ["Ann"]}, "ann@example.com"
    gateway.idp.name_format = EMAIL_FORMAT
    assert (await logged_in(gateway))["email"] == "ann@example.com"


async def test_a_signed_answer_around_a_signed_assertion_is_fine(gateway: SamlGateway) -> None:
    gateway.idp.options = {"sign_response": True}
    assert (await logged_in(gateway))["email"] == "ann@example.com"


async def test_metadata_as_text_is_as_good_as_by_url(gateway: SamlGateway) -> None:
    await gateway.configure(idp_metadata=gateway.idp.metadata().decode())
    assert (await logged_in(gateway))["email"] == "ann@example.com"
    assert gateway.idp.metadata_requests == 0


async def test_metadata_is_fetched_once_in_a_while(gateway: SamlGateway) -> None:
    for _ in range(3):
        assert (await gateway.begin()).status_code == 200
    assert gateway.idp.metadata_requests == 1
    gateway.world.clock.forward(minutes=11)
    assert (await gateway.begin()).status_code == 200
    assert gateway.idp.metadata_requests == 2


async def test_the_request_asks_for_a_new_proof_when_told_to(gateway: SamlGateway) -> None:
    await gateway.leave()
    await gateway.leave(force_authn="true")
    plain, forced = gateway.idp.asked
    assert (plain.force_authn, forced.force_authn) == (None, "true")
    assert (forced.issuer.text, forced.assertion_consumer_service_url) == (US.entity_id, US.acs_url)
    assert plain.id != forced.id


async def test_our_metadata_says_what_the_provider_must_know(gateway: SamlGateway) -> None:
    answer = await gateway.client.get("/saml/metadata")
    assert answer.headers["Content-Type"] == "application/samlmetadata+xml"
    root = etree.fromstring(answer.content)
    assert root.get("entityID") == f"{API_URL}/api/saml/metadata"
    role = root.find(f"{{{METADATA}}}SPSSODescriptor")
    assert role is not None
    assert role.get("WantAssertionsSigned") == "true"
    assert role[0].get("Location") == f"{API_URL}/api/saml/callback"


async def test_an_organisation_with_another_way_in_has_no_saml(gateway: SamlGateway) -> None:
    await gateway.services.auth_configs.put(gateway.world.org_id, AuthConfig())
    local, unknown = await gateway.begin(), await gateway.begin(organization="nobody's")
    assert local.status_code == unknown.status_code == 400
    assert local.json() == unknown.json()


async def test_an_inactive_account_is_told_so_at_the_web_app(gateway: SamlGateway) -> None:
    await logged_in(gateway)
    await gateway.world.add_user("root", "admin")  # the last administrator could not be deactivated
    account = await gateway.world.stores.principals.by_email(gateway.world.org_id, "ann@example.com")
    assert account is not None
    inactive = replace(account, principal=replace(account.principal, status=PrincipalStatus.INACTIVE))
    await gateway.world.stores.principals.update(inactive, gateway.world.clock())
    answer = await gateway.back(await gateway.leave())
    assert query_of(answer)["error"] == "access_denied"
    assert "inactive" in query_of(answer)["error_description"]
    assert "postern" not in answer.cookies


async def test_a_provider_that_refuses_is_quoted_by_its_status(gateway: SamlGateway) -> None:
    returning = await gateway.leave()
    document = returning.document
    code = document.find(
        "{urn:oasis:names:tc:SAML:2.0:protocol}Status/{urn:oasis:names:tc:SAML:2.0:protocol}StatusCode"
    )
    assert code is not None
    code.set("Value", "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed")
    await gateway.refused(returning.carrying(document), "AuthnFailed")


async def test_an_unreachable_provider_is_said(gateway: SamlGateway) -> None:
    await gateway.configure(idp_metadata_url="http://127.0.0.1:9/metadata")
    answer = await gateway.begin()
    assert answer.status_code == 503
    assert "cannot be reached" in answer.json()["message"]


async def test_a_provider_that_failed_is_not_asked_by_everybody_who_waits(gateway: SamlGateway) -> None:
    await gateway.configure(idp_metadata_url=f"{gateway.idp.url}/nothing-here")
    first = await gateway.begin()
    await gateway.configure(idp_metadata_url=f"{gateway.idp.url}/metadata?again")
    gateway.idp.metadata_requests = 0
    gateway.idp.broken = True
    try:
        answers = await asyncio.gather(*(gateway.begin() for _ in range(5)))
        assert [answer.status_code for answer in (first, *answers)] == [503] * 6
        assert gateway.idp.metadata_requests == 1
        gateway.idp.broken = False
        assert (await gateway.begin()).status_code == 503
        gateway.world.clock.forward(seconds=11)
        assert (await gateway.begin()).status_code == 200
    finally:
        gateway.idp.broken = False


def test_a_gateway_without_saml_does_not_load_xml_libraries() -> None:
    code = (
        "import sys, postern.wiring.processes.api_process\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'lxml', 'signxml', 'saml2', 'xmlsec'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


async def test_without_the_xml_libraries_choosing_saml_says_what_is_missing(
    gateway: SamlGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("postern.integrations.identity.saml_")]:
        monkeypatch.delitem(sys.modules, name)
    package = sys.modules["postern.integrations.identity"]
    for name in ("saml_metadata", "saml_response"):
        monkeypatch.delattr(package, name, raising=False)
    monkeypatch.setitem(sys.modules, "lxml", None)
    answer = await gateway.begin()
    assert answer.status_code == 503
    assert "lxml and signxml" in answer.json()["message"]


async def _ann(gateway: SamlGateway) -> Principal:
    account = await gateway.world.stores.principals.by_email(gateway.world.org_id, "ann@example.com")
    assert account is not None
    return account.principal
