"""Login at a real OpenID provider, all the way: browsers, command lines, and what others try in between."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.api.conftest import message
from tests.support.oidc_site import API, CLI_LISTENER, Site, make_site, provider_for_site, query_of

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.principal import PrincipalStatus
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.store.database import Database
from postern.store.ports.server_ports import AuditFilter

CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636, appendix B


async def test_a_browser_logs_in_and_has_a_session(site: Site) -> None:
    site.provider.users["ann"]["groups"] = ["dba", "auditor"]
    page, landed = await site.browser("/sessions?tab=mine")
    assert landed.status_code == 303
    assert landed.headers["location"] == f"{API}/sessions?tab=mine"
    assert "token" not in landed.headers
    who = (await page.get("/userinfo")).json()
    assert (who["email"], who["name"], who["id"]) == ("ann@example.com", "Ann", "subject-of-ann")
    assert (who["groups"], who["role"]) == (["admin", "auditor", "dba"], "admin")
    assert not [name for name in page.cookies if "login" in name]  # the cookie of the state is gone


async def test_a_command_line_logs_in_without_any_cookie(site: Site) -> None:
    cli = await site.cli()
    assert (await cli.get("/userinfo")).json()["email"] == "ann@example.com"
    login = (await cli.get("/login/session")).json()
    assert login["csrf_token"] is None


async def test_the_secret_may_have_any_character_and_go_in_the_body(sqlite_database: Database) -> None:
    with provider_for_site(secret_in_body=True) as provider:
        site = await make_site(sqlite_database, provider)
        await site.cli()


async def test_a_login_is_in_the_audit_log_without_secrets(site: Site) -> None:
    site.world.clock.tick = timedelta(milliseconds=1)
    page, _ = await site.browser()
    heard, verifier = await site.cli_code()
    await site.client().post("/login/exchange", json={"code": heard["code"], "code_verifier": verifier})
    ann = (await site.services.authentication.caller(_token(page), address="::1")).principal
    found = list((await site.services.audit.find(ann, AuditFilter(), Page(100))).items)
    seen = [(one.actor_email, one.action, one.resource_type, one.status) for one in reversed(found)]
    assert seen == [
        ("ann@example.com", "login", "oidc", 303),
        ("ann@example.com", "login", "oidc", 303),
        ("ann@example.com", "create", "exchange", 200),
    ]
    assert heard["code"] not in str(found)
    assert verifier not in str(found)


def _token(page: Any) -> Any:
    return Secret(page.cookies["postern"])


# -- what is wrong with a token ----------------------------------------------------------------------------------------


def wrong(**changes: Any) -> Any:
    return lambda claims: claims.update(changes)


def shifted(**seconds: int) -> Any:
    """Times relative to the moment in which the token is made."""
    return lambda claims: claims.update({name: int(time.time()) + given for name, given in seconds.items()})


def without(name: str) -> Any:
    return lambda claims: claims.pop(name)


BAD_TOKENS = {  # what is wrong, and the word that the person reads
    "wrong nonce": (wrong(nonce="of another login"), "nonce"),
    "missing nonce": (without("nonce"), "nonce"),
    "nonce that is no text": (wrong(nonce=["x"]), "nonce"),
    "wrong audience": (wrong(aud="another client"), "aud"),
    "no audience": (without("aud"), "aud"),
    "empty audience": (wrong(aud=[]), "aud"),
    "wrong azp": (wrong(azp="another client"), "azp"),
    "several audiences without azp": (wrong(aud=["postern-client", "another client"]), "azp"),
    "wrong issuer": (wrong(iss="https://evil.example"), "iss"),
    "no issuer": (without("iss"), "iss"),
    "expired token": (shifted(exp=-3600), "exp"),
    "no expiry": (without("exp"), "exp"),
    "expiry that is a text": (wrong(exp="32503680000"), "exp"),
    "expiry that is a truth value": (wrong(exp=True), "not valid"),
    "issued in the future": (shifted(iat=900), "iat"),
    "no time of issue": (without("iat"), "iat"),
    "not valid yet": (shifted(nbf=900), "nbf"),
    "wrong at_hash": (wrong(at_hash="AAAAAAAAAAAAAAAAAAAAAA"), "at_hash"),
    "at_hash that is no text": (wrong(at_hash=7), "at_hash"),
    "no subject": (without("sub"), "sub"),
    "empty subject": (wrong(sub=""), "sub"),
    "subject that is no text": (wrong(sub=7), "sub"),
    "groups of another shape": (wrong(groups={"admin": True}), "'groups'"),
    "groups that are too many to be there": (wrong(_claim_names={"groups": "src1"}), "too many groups"),
}


@pytest.mark.parametrize("case", BAD_TOKENS)
async def test_a_token_that_is_not_good_opens_nothing(site: Site, case: str) -> None:
    site.provider.tamper, word = BAD_TOKENS[case]
    page, landed = await site.browser()
    heard = query_of(landed.headers["location"])
    assert heard["error"] == "login_failed", case
    assert word in heard["error_description"]
    assert "set-cookie" not in landed.headers or "postern=" not in landed.headers["set-cookie"]
    message(await page.get("/userinfo"), 401)
    assert (await site.world.stores.principals.count(site.world.org_id)) == 0


async def test_a_clock_that_is_a_little_off_is_fine(site: Site) -> None:
    """Off from our own clock, which stands still: how long a login takes on a busy machine changes nothing."""
    for seconds in (-30, 30, -59, 59):
        moment = int(site.world.clock.now.timestamp()) + seconds
        site.provider.tamper = wrong(exp=moment, iat=moment)
        await site.cli()


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
async def test_tokens_signed_by_nothing_or_by_the_public_key_are_refused(site: Site, algorithm: str) -> None:
    """Algorithm confusion: `none`, and HMAC with what everybody knows as the secret."""
    site.provider.algorithm = algorithm
    heard, _ = await site.cli_code()
    assert heard["error"] == "login_failed"


async def test_several_audiences_with_our_azp_are_fine(site: Site) -> None:
    site.provider.tamper = wrong(aud=["postern-client", "another client"], azp="postern-client")
    await site.cli()


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_a_rotated_key_is_found(site: Site) -> None:
    await site.cli()
    site.provider.rotate()
    site.world.clock.forward(seconds=11)
    await site.cli()
    assert site.provider.asked.count("/jwks") == 2


async def test_made_up_keys_do_not_make_us_ask_the_provider_again_and_again(site: Site) -> None:
    await site.cli()
    site.provider.tamper, site.provider.generation = wrong(x=1), 6  # signs with a key that it does not publish
    for _ in range(3):
        heard, _ = await site.cli_code()
        assert heard["error"] == "login_failed"
    assert site.provider.asked.count("/jwks") == 1


# -- state, code, browser ----------------------------------------------------------------------------------------------


async def test_replayed_state_is_refused(site: Site) -> None:
    page = site.client()
    back = await site.at_provider((await page.get("/login")).json()["login_url"])
    assert (await page.get(back)).status_code == 303
    assert "already used" in message(await page.get(back), 401)


async def test_made_up_and_expired_states_are_refused(site: Site) -> None:
    page = site.client()
    for state in ("", "x" * 43, "\N{SNOWMAN}", "%ff"):
        message(await page.get(f"/callback?code=x&state={state}"), 401)
    back = await site.at_provider((await page.get("/login")).json()["login_url"])
    site.world.clock.forward(minutes=11)
    message(await page.get(back), 401)


async def test_login_csrf_an_answer_of_another_browser_is_refused(site: Site) -> None:
    """The attacker begins a login and the victim's browser ends it, to work in the attacker's account."""
    attacker, victim = site.client(), site.client()
    await victim.get("/login")
    back = await site.at_provider((await attacker.get("/login")).json()["login_url"])
    answer = await victim.get(back)
    assert "different browser" in message(answer, 401)
    assert "set-cookie" not in answer.headers


async def test_two_logins_at_once_in_one_browser(site: Site) -> None:
    page = site.client()
    backs = [await site.at_provider((await page.get("/login")).json()["login_url"]) for _ in range(2)]
    for back in backs:
        assert (await page.get(back)).headers["location"] == f"{API}/"


async def test_stolen_code_of_the_provider_is_worth_nothing_with_another_state(site: Site) -> None:
    """Code injection: PKCE and nonce bind the code to the login that asked for it."""
    victim, attacker = site.client(), site.client()
    stolen = query_of(await site.at_provider((await victim.get("/login")).json()["login_url"]))["code"]
    own = query_of(await site.at_provider((await attacker.get("/login")).json()["login_url"]))["state"]
    answer = await attacker.get("/callback", params={"code": stolen, "state": own})
    assert query_of(answer.headers["location"])["error"] == "login_failed"
    message(await attacker.get("/userinfo"), 401)


async def test_stolen_code_of_the_command_line_needs_its_verifier(site: Site) -> None:
    heard, verifier = await site.cli_code()
    thief = site.client()
    for guess in ("x" * 43, "", "short", CHALLENGE):
        answer = await thief.post("/login/exchange", json={"code": heard["code"], "code_verifier": guess})
        message(answer, 401)
    answer = await thief.post("/login/exchange", json={"code": heard["code"], "code_verifier": verifier})
    assert "already used" in message(answer, 401)  # by the first wrong try


async def test_a_code_is_good_once_and_for_a_short_time(site: Site) -> None:
    heard, verifier = await site.cli_code()
    body = {"code": heard["code"], "code_verifier": verifier}
    assert (await site.client().post("/login/exchange", json=body)).status_code == 200
    message(await site.client().post("/login/exchange", json=body), 401)
    heard, verifier = await site.cli_code()
    site.world.clock.forward(minutes=3)
    message(await site.client().post("/login/exchange", json={"code": heard["code"], "code_verifier": verifier}), 401)


async def test_mix_up_an_answer_of_another_provider_is_refused(site: Site) -> None:
    """RFC 9207: the answer names its issuer."""
    for names_itself in (False, True):
        site.provider.names_itself = names_itself
        site.world.clock.forward(minutes=11)
        login_url, _ = await site.begin_cli()
        back = (await site.at_provider(login_url)).partition("&iss=")[0]
        landed = await site.client().get(back + "&iss=https%3A%2F%2Fevil.example")
        assert query_of(landed.headers["location"])["error"] == "login_failed"
    login_url, _ = await site.begin_cli()
    parts = query_of(await site.at_provider(login_url))
    assert parts.pop("iss") == site.provider.issuer
    landed = await site.client().get(f"/callback?{urlencode(parts)}")  # it says that it always names itself
    assert query_of(landed.headers["location"])["error"] == "login_failed"


async def test_the_configuration_changed_meanwhile(site: Site) -> None:
    login_url, _ = await site.begin_cli()
    await site.configure(client_id="another")
    landed = await site.client().get(await site.at_provider(login_url))
    assert query_of(landed.headers["location"])["error"] == "login_failed"


# -- redirects and texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "redirect",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "http://localhost:7480@evil.example/",
        "http://localhost:7480.evil.example/",
        "http://evil.example:7480/",
        "https://localhost:7480/",
        "http://localhost:7480:80/",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://127.0.0.1.evil.example:1/",
        "http://127.0.0.1/",
        "http://127.0.0.2:3587/",
        "http://127.1:3587/",
        "http://2130706433:3587/",
        "https://127.0.0.1:3587/",
        "http://user@127.0.0.1:3587/",
        "http://127.0.0.1:3587/#fragment",
        "http://127.0.0.1:99999/",
        "http://[::1/",
        "http://127.0.0.1:3587/\r\nSet-Cookie: x=y",
        "/\t/evil.example",
        "/<script>",
        "http://lоcalhost:3587/",
        "x",
        "/" + "x" * 2_000,
    ],
)
async def test_open_redirect_is_refused(site: Site, redirect: str) -> None:
    """Case 64: a login that ends on a stranger's page."""
    answer = await site.client().get("/login", params={"redirect": redirect, "code_challenge": CHALLENGE})
    assert "redirect" in message(answer, 422)
    assert site.provider.asked == []


@pytest.mark.parametrize("challenge", [None, "", "x", "x" * 42, "x" * 44, "=" * 43, "x" * 42 + "\n"])
async def test_a_loopback_redirect_needs_a_code_challenge(site: Site, challenge: str | None) -> None:
    params = {"redirect": CLI_LISTENER} | ({} if challenge is None else {"code_challenge": challenge})
    assert "code_challenge" in message(await site.client().get("/login", params=params), 422)


async def test_the_providers_refusal_is_passed_on_as_a_known_word_only(site: Site) -> None:
    """Case 64: reflected text."""
    for refusal, word in (("access_denied", "access_denied"), ("%3Cscript%3E", "server_error")):
        site.provider.refuse = refusal
        page, landed = await site.browser("/sessions?error=old")
        heard = query_of(landed.headers["location"])
        assert heard["error"] == word
        assert "script%3E" not in landed.headers["location"]
        message(await page.get("/userinfo"), 401)


async def test_a_stranger_cannot_have_text_reflected(site: Site) -> None:
    """Case 64."""
    evil = "<script>alert(1)</script>"
    answer = await site.client().get("/callback", params={"error": evil, "error_description": evil, "state": evil})
    assert "<script" not in message(answer, 401)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "query", [{"prompt": "evil"}, {"prompt": "none&x=y"}, {"screen_hint": "a b"}, {"screen_hint": "x" * 33}]
)
async def test_hints_are_of_known_words(site: Site, query: dict[str, str]) -> None:
    message(await site.client().get("/login", params=query), 422)


async def test_hints_and_everything_that_protects_the_login_are_sent(site: Site) -> None:
    await site.configure(audience="https://api.example")
    params = {"prompt": "login consent", "screen_hint": "signup"}
    sent = query_of((await site.client().get("/login", params=params)).json()["login_url"])
    assert (sent["prompt"], sent["screen_hint"], sent["audience"]) == ("login consent", "signup", "https://api.example")
    assert (sent["response_type"], sent["code_challenge_method"]) == ("code", "S256")
    assert sent["scope"].split()[0] == "openid"
    assert len(sent["nonce"]) == len(sent["state"]) == len(sent["code_challenge"]) == 43
    assert sent["redirect_uri"] == f"{API}/api/callback"


async def test_organisations_that_log_in_otherwise_cannot_be_told_from_unknown_ones(site: Site) -> None:
    unknown = message(await site.client().get("/login", params={"organization": "nowhere"}), 400)
    await site.services.auth_configs.put(site.world.org_id, AuthConfig())
    assert message(await site.client().get("/login"), 400) == unknown


# -- a provider in trouble ---------------------------------------------------------------------------------------------


async def test_inactive_users_are_told_so(site: Site) -> None:
    await site.world.add_user("admin", "admin")  # an organisation keeps one
    await site.cli()
    store = site.world.stores.principals
    account = await store.by_email(site.world.org_id, "ann@example.com")
    assert account is not None
    inactive = replace(account, principal=replace(account.principal, status=PrincipalStatus.INACTIVE))
    await store.update(inactive, site.world.clock())
    heard, _ = await site.cli_code()
    assert heard["error"] == "access_denied"
    assert "inactive" in heard["error_description"]


async def test_a_provider_that_does_not_know_our_secret(site: Site) -> None:
    await site.configure(client_secret=Secret("wrong"))
    heard, _ = await site.cli_code()
    assert heard["error"] == "temporarily_unavailable"
    assert "secret" in heard["error_description"]


async def test_a_provider_that_is_down(site: Site) -> None:
    await site.configure(issuer_url="http://127.0.0.1:1")
    assert "cannot be reached" in message(await site.client().get("/login"), 503)
