"""Programs of external issuers log in by their tokens: what is accepted, and every way to cheat that we know of.

The issuer is a real OpenID provider on loopback; the claims are those of GitHub's and GitLab's documentation.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from tests.api.conftest import message
from tests.support.oidc_site import API, Site
from tests.support.openid import json_reply, openid_provider

from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.lists import Page
from postern.services.identity.token_exchange import MAX_TOKEN
from postern.services.server.audit import AuditEntry, AuditFilter
from postern.store.ports.common_ports import Topic

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
GITHUB = {
    "sub": "repo:acme/shop:ref:refs/heads/main",
    "repository": "acme/shop",
    "repository_owner": "acme",
    "ref": "refs/heads/main",
    "event_name": "push",
    "run_id": "5550123",
    "run_attempt": "1",
    "actor": "ann",
    "environment": "production",
    "workflow": "deploy",
}
GITLAB = {
    "sub": "project_path:acme/shop:ref_type:branch:ref:main",
    "project_path": "acme/shop",
    "namespace_path": "acme",
    "pipeline_source": "push",
    "pipeline_id": "71",
    "job_id": "9",
    "ref": "main",
}
CLAIMS = {"repository": ["acme/shop"], "ref": ["refs/heads/main"]}

Claims = dict[str, Any]


class Ci:
    """A CI system whose tokens a rule of ours trusts."""

    def __init__(self, site: Site, root: Principal) -> None:
        self.site = site
        self.root = root
        self.services = site.services

    @property
    def issuer(self) -> str:
        return self.site.provider.issuer

    async def rule(self, name: str = "shop", **fields: Any) -> None:
        wanted = {
            "name": name,
            "service_account": "deploy",
            "issuer_url": self.issuer,
            "audience": API,
            "claims": CLAIMS,
        }
        await self.services.federation_rules.create(self.root, {**wanted, **fields})

    def claims(self, **changes: Any) -> Claims:
        now = int(time.time())
        base = {"iss": self.issuer, "aud": API, "iat": now, "nbf": now, "exp": now + 300, "jti": str(uuid4())}
        given = {**base, **GITHUB, **changes}
        return {
            name: int(now + value.total_seconds()) if isinstance(value, timedelta) else value
            for name, value in given.items()
            if value is not None
        }

    def token(self, **changes: Any) -> str:
        return self.site.provider.sign(self.claims(**changes))

    async def exchange(self, token: str, **form: str) -> httpx.Response:
        fields = {"grant_type": GRANT, "subject_token": token, "subject_token_type": JWT_TYPE, **form}
        return await self.site.client().post("/federation/login", data=fields)

    async def log_in(self, token: str | None = None, **form: str) -> httpx.AsyncClient:
        answer = await self.exchange(token or self.token(), **form)
        assert answer.status_code == 200, answer.text
        return self.site.client(answer.json()["access_token"])


@pytest.fixture
async def ci(site: Site) -> Ci:
    root = await site.world.add_user("root", "admin")
    await site.services.service_accounts.create(root, {"subject": "deploy", "groups": ["deployers"]})
    return Ci(site, root)


async def test_token_becomes_a_short_login_as_the_service_account(ci: Ci) -> None:
    await ci.rule()
    answer = await ci.exchange(ci.token())
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 900)
    assert body["issued_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "set-cookie" not in answer.headers
    program = ci.site.client(body["access_token"])
    who = (await program.get("/userinfo")).json()
    assert (who["email"], who["kind"], who["groups"]) == ("deploy", "service_account", ["deployers"])
    assert who["login_method"] == "federation"
    ci.site.world.clock.forward(seconds=901)
    message(await program.get("/userinfo"), 401)


async def test_login_cannot_be_extended(ci: Ci) -> None:
    await ci.rule(login_duration_seconds=60)
    program = await ci.log_in()
    refreshed = await program.post("/login/refresh")
    assert refreshed.status_code == 200
    state = refreshed.json()
    assert state["expires_at"] == state["ends_at"]
    assert state["fresh_until"] is None
    ci.site.world.clock.forward(seconds=61)
    message(await ci.site.client(refreshed.headers["Token"]).get("/userinfo"), 401)


async def test_login_ends_with_a_token_that_lives_as_long(ci: Ci) -> None:
    """A job's token ends with the job; GitHub's, which is valid for five minutes, is only for logging in."""
    await ci.rule(login_duration_seconds=3600)
    old = ci.token(iat=timedelta(minutes=-59), exp=timedelta(minutes=2))
    assert (await ci.exchange(old)).json()["expires_in"] in (119, 120)
    assert (await ci.exchange(ci.token(exp=timedelta(minutes=5)))).json()["expires_in"] == 3600


async def test_gitlab_and_kubernetes_tokens_are_accepted_by_their_claims(ci: Ci) -> None:
    await ci.rule("gitlab", claims={"project_path": ["acme/*"], "ref": ["main"]})
    program = {**dict.fromkeys(GITHUB), **GITLAB}
    await ci.log_in(ci.token(**program))
    message(await ci.exchange(ci.token(**{**program, "project_path": "mallory/shop"})), 401)
    message(await ci.exchange(ci.token(**{**program, "pipeline_source": "merge_request_event"})), 401)
    await ci.rule("kubernetes", claims={"kubernetes.io/namespace": ["ci"], "kubernetes.io/serviceaccount/name": ["d*"]})
    pod = {"namespace": "ci", "serviceaccount": {"name": "deploy"}, "pod": {"name": "deploy-1"}}
    of_pod = {**dict.fromkeys(GITHUB), "sub": "system:serviceaccount:ci:deploy", "aud": [API]}
    await ci.log_in(ci.token(**of_pod, **{"kubernetes.io": pod}))
    message(await ci.exchange(ci.token(**of_pod, **{"kubernetes.io": {**pod, "namespace": "dev"}})), 401)


BAD: dict[str, tuple[Claims, str]] = {
    "of another issuer": ({"iss": "https://evil.example"}, "no federation rule trusts the issuer"),
    "of the issuer with a slash": ({"iss": "{issuer}/"}, "no federation rule trusts the issuer"),
    "without an issuer": ({"iss": None}, "no federation rule trusts the issuer"),
    "of a list of issuers": ({"iss": ["{issuer}"]}, "no federation rule trusts the issuer"),
    "for another service": ({"aud": "sts.amazonaws.com"}, "different audience"),
    "for nobody": ({"aud": None}, "different audience"),
    "for our address with a slash": ({"aud": f"{API}/"}, "different audience"),
    "for us and another service": ({"aud": [API, "https://vault.example"]}, "for other audiences, too"),
    "expired": ({"exp": timedelta(seconds=-120)}, "exp"),
    "without an end": ({"exp": None}, "exp"),
    "with an end that is no number": ({"exp": "tomorrow"}, "exp"),
    "with an end that is true": ({"exp": True}, "exp"),
    "with an end beyond time": ({"exp": 10**30}, "times are not numbers"),
    "that never expires": ({"exp": float("nan")}, "exp"),
    "that expires at infinity": ({"exp": float("inf")}, "exp"),
    "issued before time": ({"iat": float("-inf")}, "iat"),
    "valid for a week": ({"exp": timedelta(days=7)}, "valid for more than 24 hours"),
    "of the future": ({"iat": timedelta(minutes=15), "exp": timedelta(minutes=20)}, "iat"),
    "not valid yet": ({"nbf": timedelta(minutes=15)}, "nbf"),
    "without a start": ({"iat": None}, "iat"),
    "without a subject": ({"sub": None}, "sub"),
    "of another repository": ({"repository": "mallory/shop"}, "do not match, or are missing: repository"),
    "of a repository with a longer name": ({"repository": "acme/shop-evil"}, "missing: repository"),
    "of a look-alike repository": ({"repository": "acme/sh\u043ep"}, "missing: repository"),
    "of a list of repositories": ({"repository": ["acme/shop"]}, "missing: repository"),
    "of another branch": ({"ref": "refs/heads/main/../evil"}, "missing: ref"),
    "without the claim": ({"ref": None}, "missing: ref"),
    "of a fork's pull request": (
        {"ref": "refs/pull/7/merge", "event_name": "pull_request", "head_ref": "main"},
        "missing: event_name, ref",
    ),
    "of a pull request on the main branch": ({"event_name": "pull_request_target"}, "only if it names event_name"),
}


@pytest.mark.parametrize("case", BAD)
async def test_tokens_that_no_rule_accepts(ci: Ci, case: str) -> None:
    await ci.rule()
    changes, why = BAD[case]
    filled = json.loads(json.dumps(changes, default=lambda delta: {"delta": delta.total_seconds()}))
    given = {
        name: timedelta(seconds=value["delta"])
        if isinstance(value, dict)
        else json.loads(json.dumps(value).replace("{issuer}", ci.issuer))
        for name, value in filled.items()
    }
    assert why in message(await ci.exchange(ci.token(**given)), 401)
    assert await ci.site.world.stores.logins.live((await _deploy(ci)).id, ci.site.world.clock()) == []


async def test_signatures_that_are_not_the_issuers(ci: Ci) -> None:
    await ci.rule()
    claims = ci.claims()
    head, body, signature = ci.site.provider.sign(claims).split(".")
    other = ECKey.generate_key("P-256", {"kid": "key-0"})
    issuers = RSAKey.import_key(ci.site.provider.key.key.export_key())
    tokens = [
        ci.site.provider.sign(claims, algorithm="none"),
        ci.site.provider.sign(claims, algorithm="HS256"),  # with the public key as the secret
        jwt.encode({"alg": "RS512", "kid": "key-0"}, claims, issuers, algorithms=["RS512"]),  # the right key
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        f"{head}.{_part(claims | {'ref': 'refs/heads/main', 'sub': 'other'})}.{signature}",
        jwt.encode({"alg": "ES256", "kid": "key-0"}, claims, other),  # the kid of the issuer's key
        jwt.encode({"alg": "ES256", "kid": "key-0", "jwk": other.as_dict(private=False)}, claims, other),
        jwt.encode({"alg": "ES256", "jku": "https://evil.example/jwks"}, claims, other),
        jwt.encode({"alg": "ES256", "kid": "../../dev/null"}, claims, other),
        f"{_part({'alg': 'RS256', 'kid': 7})}.{body}.{signature}",
        f"{_part({'alg': 'RS256', 'kid': 'key-0', 'crit': ['x'], 'x': 1})}.{body}.{signature}",
        "a.b.c",
        "..",
        "eyJhbGciOiJub25lIn0",
        f"{head}.{_part(['a', 'list'])}.{signature}",
        f"{head}.{urlsafe_b64encode(b'[' * 5_000).decode()}.{signature}",
    ]
    for token in tokens:
        message(await ci.exchange(token), 401)
    await ci.log_in(f"{head}.{body}.{signature}")


async def test_huge_and_malformed_requests_are_rejected(ci: Ci) -> None:
    await ci.rule()
    assert "too long" in message(await ci.exchange("a" * MAX_TOKEN + ".b.c"), 401)
    message(await ci.exchange("a" * 100_000), 400)
    token = ci.token()
    client = ci.site.client()
    good = {"grant_type": GRANT, "subject_token": token, "subject_token_type": JWT_TYPE}
    for changes in (
        {"grant_type": "password"},
        {"grant_type": ""},
        {"subject_token": ""},
        {"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"},
        {"scope": "admin"},
        {"actor_token": token},
    ):
        message(await client.post("/federation/login", data={**good, **changes}), 400)
    message(await client.post("/federation/login", json=good), 400)
    message(await client.post("/federation/login", content=b"\xff\xfe"), 400)
    assert (await client.post("/federation/login", data=good)).status_code == 200


async def test_token_is_used_once(ci: Ci) -> None:
    await ci.rule()
    token = ci.token()
    await ci.log_in(token)
    assert "already been used" in message(await ci.exchange(token), 401)


async def test_another_spelling_of_a_signature_is_the_same_token(ci: Ci) -> None:
    """An ES256 signature (r, s) is as valid as (r, n - s)."""
    key = ECKey.generate_key("P-256", {"kid": "a"})
    await ci.rule(jwks=json.loads(json.dumps(KeySet([key]).as_dict(private=False))))
    token = jwt.encode({"alg": "ES256", "kid": "a"}, ci.claims(), key)
    await ci.log_in(token)
    message(await ci.exchange(_other_signature(token)), 401)


async def test_rule_can_allow_a_token_to_log_in_again(ci: Ci) -> None:
    await ci.rule(allow_reuse=True)
    token = ci.token()
    await ci.log_in(token)
    await ci.log_in(token)


async def test_rejected_token_is_not_used_up(ci: Ci) -> None:
    await ci.rule()
    await ci.services.service_accounts.update(ci.root, "deploy", {"status": "inactive"})
    token = ci.token()
    message(await ci.exchange(token), 401)
    await ci.services.service_accounts.update(ci.root, "deploy", {"status": PrincipalStatus.ACTIVE})
    await ci.log_in(token)


async def test_administrators_need_the_rules_switch(ci: Ci) -> None:
    await ci.rule()
    program = await ci.log_in()
    await ci.services.service_accounts.update(ci.root, "deploy", {"groups": ["admin"]})
    assert "does not allow that" in message(await program.get("/userinfo"), 401)
    assert "does not allow that" in message(await ci.exchange(ci.token()), 403)
    await ci.services.federation_rules.update(ci.root, "shop", {"allow_admin": True})
    admin = await ci.log_in()
    assert (await admin.get("/userinfo")).json()["is_admin"] is True
    created = await admin.post("/users", json={"email": "eve@example.com", "name": "Eve", "groups": ["admin"]})
    message(created, 403)  # what an API key cannot do either


async def test_network_rules_apply_to_programs(ci: Ci) -> None:
    await ci.rule()
    program = await ci.log_in()
    limits = {"name": "ci", "groups": ["deployers"], "allowed_networks": ("192.0.2.0/24",)}
    await ci.services.network_rules.create(ci.root, limits)
    message(await program.get("/userinfo"), 403)
    message(await ci.exchange(ci.token()), 403)


async def test_changed_and_deleted_rules_end_their_logins(ci: Ci) -> None:
    await ci.rule()
    signals = ci.site.world.signals
    program = await ci.log_in()
    await ci.services.federation_rules.update(ci.root, "shop", {"description": "for the shop", "name": "shops"})
    assert (await program.get("/userinfo")).status_code == 200
    signals.heard.clear()
    await ci.services.federation_rules.update(ci.root, "shops", {"login_duration_seconds": 120})
    message(await program.get("/userinfo"), 401)
    assert signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str((await _deploy(ci)).id)}]
    program = await ci.log_in()
    await ci.services.federation_rules.remove(ci.root, "shops")
    message(await program.get("/userinfo"), 401)
    message(await ci.exchange(ci.token()), 401)


async def test_login_ends_if_its_rule_is_deleted_while_it_opens(ci: Ci, monkeypatch: pytest.MonkeyPatch) -> None:
    await ci.rule()
    opened = ci.services.logins.open

    async def open_slowly(*arguments: Any, **named: Any) -> Any:
        await ci.services.federation_rules.remove(ci.root, "shop")
        return await opened(*arguments, **named)

    monkeypatch.setattr(ci.services.logins, "open", open_slowly)
    assert "changed meanwhile" in message(await ci.exchange(ci.token()), 401)
    assert await ci.site.world.stores.logins.live((await _deploy(ci)).id, ci.site.world.clock()) == []


async def test_several_rules_that_accept_a_token_need_a_choice(ci: Ci) -> None:
    await ci.services.service_accounts.create(ci.root, {"subject": "reader"})
    await ci.rule("write")
    await ci.rule("read", service_account="reader")
    token = ci.token()
    assert "'read', 'write'" in message(await ci.exchange(token), 401)
    program = await ci.log_in(token, rule="read")
    assert (await program.get("/userinfo")).json()["email"] == "reader"
    message(await ci.exchange(ci.token(), rule="other"), 401)
    message(await ci.exchange(ci.token(), rule="read", organization="elsewhere"), 401)


async def test_keys_are_fetched_again_when_the_issuer_rotates_them(ci: Ci) -> None:
    await ci.rule()
    await ci.log_in()
    ci.site.provider.asked.clear()
    await ci.log_in()
    assert ci.site.provider.asked == []
    ci.site.provider.rotate()
    ci.site.world.clock.forward(seconds=11)
    await ci.log_in()
    assert ci.site.provider.asked == ["/jwks"]


async def test_unknown_key_ids_do_not_make_the_gateway_fetch_again_and_again(ci: Ci) -> None:
    await ci.rule()
    await ci.log_in()
    ci.site.provider.asked.clear()
    _, body, signature = ci.token().split(".")
    for number in range(5):
        message(await ci.exchange(f"{_part({'alg': 'RS256', 'kid': f'unknown {number}'})}.{body}.{signature}"), 401)
    assert ci.site.provider.asked == []


DOCUMENTS: dict[str, tuple[str, Callable[[str], object]]] = {
    "of another issuer": ("/.well-known/openid-configuration", lambda url: {"issuer": "https://x.example"}),
    "with keys at a metadata service": (
        "/.well-known/openid-configuration",
        lambda url: {"issuer": url, "jwks_uri": "https://169.254.169.254/jwks"},
    ),
    "with keys in a file": (
        "/.well-known/openid-configuration",
        lambda url: {"issuer": url, "jwks_uri": "file:///etc/passwd"},
    ),
    "with keys on plain HTTP elsewhere": (
        "/.well-known/openid-configuration",
        lambda url: {"issuer": url, "jwks_uri": "http://id.example.com/jwks"},
    ),
    "without keys": ("/.well-known/openid-configuration", lambda url: {"issuer": url}),
    "that is a list": ("/.well-known/openid-configuration", lambda url: []),
    "keys that are a list": ("/jwks", lambda url: []),
    "keys that are a text": ("/jwks", lambda url: {"keys": "all"}),
    "too large": ("/jwks", lambda url: {"keys": [], "padding": "x" * 2_000_000}),
}


@pytest.mark.parametrize("case", DOCUMENTS)
async def test_hostile_documents_of_an_issuer(ci: Ci, case: str) -> None:
    await ci.rule()
    path, content = DOCUMENTS[case]
    ci.site.provider.replies[path] = lambda _: json_reply(content(ci.issuer))
    answer = await ci.exchange(ci.token())
    assert answer.status_code in (422, 503), answer.text


async def test_hostile_keys_verify_nothing(ci: Ci) -> None:
    await ci.rule()
    secret = urlsafe_b64encode(b"s3cret").decode()
    keys: list[object] = [
        {"kty": "oct", "k": secret, "kid": "key-0"},
        {"kty": "RSA", "n": "AQ", "e": "AQ"},
        7,
        None,
        {},
    ]
    ci.site.provider.replies["/jwks"] = lambda _: json_reply({"keys": keys})
    message(await ci.exchange(ci.token()), 401)


async def test_discovery_of_ci_systems_has_no_login_endpoints(ci: Ci) -> None:
    """GitHub and Kubernetes publish the issuer and its keys alone."""
    document = {"issuer": ci.issuer, "jwks_uri": f"{ci.issuer}/jwks", "response_types_supported": ["id_token"]}
    ci.site.provider.replies["/.well-known/openid-configuration"] = lambda _: json_reply(document)
    await ci.rule()
    await ci.log_in()


async def test_fixed_keys_are_used_instead_of_the_issuers(ci: Ci) -> None:
    key, other = (ECKey.generate_key("P-256", {"kid": name}) for name in ("a", "b"))
    issuer = "https://kubernetes.default.svc.cluster.local"
    await ci.rule(issuer_url=issuer, jwks=json.loads(json.dumps(KeySet([key]).as_dict(private=False))))
    claims = ci.claims(iss=issuer)
    message(await ci.exchange(jwt.encode({"alg": "ES256", "kid": "b"}, claims, other)), 401)
    message(await ci.exchange(jwt.encode({"alg": "ES256", "kid": "a"}, claims, other)), 401)
    await ci.log_in(jwt.encode({"alg": "ES256", "kid": "a"}, claims, key))
    await ci.services.federation_rules.update(ci.root, "shop", {"algorithms": ["RS256"]})
    message(await ci.exchange(jwt.encode({"alg": "ES256", "kid": "a"}, ci.claims(iss=issuer, jti="2"), key)), 401)
    assert ci.site.provider.asked == []


async def test_issuer_that_cannot_be_reached_is_not_the_programs_fault(ci: Ci) -> None:
    with openid_provider("http://localhost/callback") as gone:
        issuer = gone.issuer
    await ci.rule(issuer_url=issuer)
    for _ in range(55):
        assert (await ci.exchange(ci.token(iss=issuer))).status_code == 503


async def test_failed_attempts_of_one_network_are_throttled(ci: Ci) -> None:
    await ci.rule()
    for _ in range(50):
        message(await ci.exchange("a.b.c"), 401)
    message(await ci.exchange(ci.token()), 429)
    ci.site.world.clock.forward(minutes=16)
    await ci.log_in(ci.token(iat=timedelta(minutes=16), nbf=None, exp=timedelta(minutes=20)))


async def test_programs_cannot_approve_logins_or_get_keys(ci: Ci) -> None:
    await ci.rule()
    program = await ci.log_in()
    device = (await ci.site.client().post("/login/device", json={})).json()
    body = {"code": device["user_code"], "answer": "allow"}
    assert "programs cannot" in message(await program.post("/devicelogins/confirm", json=body), 403)
    ssh_key = {
        "name": "x",
        "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAVsI/8KYdbW2MFt1cN27vxkoUBnHcZEM5m+NzEIkaPm",
    }
    message(await program.post("/sshkeys", json=ssh_key), 403)
    message(await program.post("/api-keys", json={"name": "x"}), 403)
    message(await program.post("/federation-rules", json={"name": "x"}), 400)
    message(await program.post("/login/step-up/challenge"), 403)
    message(await program.put("/users/self/password", json={"current_password": "x", "new_password": "y" * 20}), 403)


async def test_credential_of_a_program_ends_with_its_login(ci: Ci) -> None:
    await ci.rule()
    await ci.site.world.add_connection("shop")
    program = await ci.log_in()
    session = (await program.get("/login/session")).json()
    for body in ({}, {"access_duration_seconds": 86_400}):
        issued = await program.post("/connections/shop/credentials", json=body)
        assert issued.status_code == 201, issued.text
        assert issued.json()["expires_at"] == session["ends_at"]
    short = await program.post("/connections/shop/credentials", json={"access_duration_seconds": 60})
    assert short.json()["expires_at"] < session["ends_at"]


async def test_audit_log_shows_which_pipeline_logged_in_and_what_it_did(ci: Ci) -> None:
    await ci.rule()
    await ci.site.world.add_connection("shop")
    program = await ci.log_in()
    await program.post("/connections/shop/credentials", json={})
    message(await ci.exchange(ci.token(ref="refs/heads/evil", sub="repo:acme/shop:ref:refs/heads/evil")), 401)
    entries = await _entries(ci)
    failed, logged_in = sorted(
        (entry for entry in entries if (entry.action, entry.resource_type) == ("login", "federation")),
        key=lambda entry: entry.outcome,
    )
    issued = next(entry for entry in entries if entry.resource_type == "connections/credentials")
    assert (logged_in.outcome, logged_in.actor_subject) == ("success", "deploy")
    assert logged_in.after is not None
    assert {"repository=acme/shop", "run_id=5550123", "environment=production"} <= set(logged_in.after["claims"])
    assert (logged_in.after["rule"], logged_in.after["service_account"]) == ("shop", "deploy")
    assert issued.body["federation_subject"] == GITHUB["sub"]
    assert issued.body["federation_run"] == "5550123"
    assert (failed.outcome, failed.actor_id) == ("failure", None)
    assert failed.actor_email == "repo:acme/shop:ref:refs/heads/evil"
    assert "eyJ" not in str([(entry.body, entry.before, entry.after) for entry in entries])


async def test_rule_is_shown_with_its_claims_in_the_audit_log(ci: Ci) -> None:
    await ci.rule(claims={"repository": ["acme/shop"], "environment": ["production", "staging"]})
    view = ci.services.federation_rules.audit_view(await ci.services.federation_rules.get(ci.root, "shop"))
    assert isinstance(view, dict)
    assert view["claims"] == ["environment=production", "environment=staging", "repository=acme/shop"]


async def test_deleted_service_account_takes_its_rules_along(ci: Ci) -> None:
    await ci.rule()
    program = await ci.log_in()
    await ci.services.service_accounts.remove(ci.root, "deploy")
    message(await program.get("/userinfo"), 401)
    message(await ci.exchange(ci.token()), 401)


async def test_gateway_without_a_client_for_issuers_says_so(ci: Ci) -> None:
    await ci.rule()
    ci.services.token_exchange._openid = None
    message(await ci.exchange(ci.token()), 503)


async def _deploy(ci: Ci) -> Account:
    account = await ci.site.world.stores.principals.by_subject(ci.site.world.org_id, "", "deploy")
    assert account is not None
    assert account.principal.kind is PrincipalKind.SERVICE_ACCOUNT
    return account


async def _entries(ci: Ci) -> list[AuditEntry]:
    return list((await ci.services.audit.find(ci.root, AuditFilter(), Page())).items)


def _part(content: object) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def _other_signature(token: str) -> str:
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    signed, _, signature = token.rpartition(".")
    raw = urlsafe_b64decode(signature + "==")
    s = order - int.from_bytes(raw[32:], "big")
    return f"{signed}.{urlsafe_b64encode(raw[:32] + s.to_bytes(32, 'big')).rstrip(b'=').decode()}"
