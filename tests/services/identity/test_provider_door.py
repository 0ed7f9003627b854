"""The provider's own access tokens as bearer tokens of the API."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import message
from tests.support.oidc_site import Site, config_of
from tests.support.openid import Reply, openid_provider
from tests.support.promises import until

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import PrincipalStatus

AUDIENCE = "https://postern.example/api"


async def status(site: Site, token: str) -> int:
    return (await site.client(token).get("/userinfo")).status_code


async def opaque_token(site: Site) -> str:
    """As the provider gives it to any of its clients."""
    captured: list[str] = []

    def capture(reply: Reply) -> Reply:
        captured.append(json.loads(reply.body)["access_token"])
        return reply

    site.provider.replies["/token"] = capture
    await site.cli()
    del site.provider.replies["/token"]
    assert "." not in captured[0]
    return captured[0]


async def test_a_signed_access_token_for_us_is_taken_from_who_logged_in_before(site: Site) -> None:
    await site.configure(audience=AUDIENCE)
    token = site.provider.access_token("ann", AUDIENCE)
    assert await status(site, token) == 401
    await site.cli()
    assert await status(site, token) == 200
    assert await status(site, site.provider.access_token("ann", AUDIENCE, typ="JWT", aud=["x", AUDIENCE])) == 200


async def test_without_an_audience_none_is_taken(site: Site) -> None:
    """A token for any other service of the same provider would do otherwise."""
    await site.cli()
    assert await status(site, site.provider.access_token("ann", "")) == 401
    assert await status(site, await opaque_token(site)) == 401


BAD: dict[str, dict[str, Any]] = {
    "for another service": {"aud": "https://other.example"},
    "for our client: an ID token": {"aud": "postern-client", "nonce": "x"},
    "an ID token with the right audience": {"typ": "JWT", "nonce": "x"},
    "expired": {"exp": timedelta(seconds=-120)},
    "of the future": {"iat": timedelta(minutes=15)},
    "not valid yet": {"nbf": timedelta(minutes=15)},
    "of another issuer": {"iss": "https://evil.example"},
    "of somebody who never logged in": {"sub": "stranger"},
    "of nobody": {"sub": ""},
}


@pytest.mark.parametrize("case", BAD)
async def test_access_tokens_that_are_not_good(site: Site, case: str) -> None:
    await site.configure(audience=AUDIENCE)
    await site.cli()
    now = time.time()
    given = {
        name: int(now + value.total_seconds()) if isinstance(value, timedelta) else value
        for name, value in BAD[case].items()
    }
    token = site.provider.access_token("ann", AUDIENCE, **given)
    message(await site.client(token).get("/userinfo"), 401)


async def test_unsigned_and_wrongly_signed_access_tokens(site: Site) -> None:
    await site.configure(audience=AUDIENCE)
    await site.cli()
    now = int(time.time())
    claims = {"iss": site.provider.issuer, "sub": "subject-of-ann", "aud": AUDIENCE, "iat": now, "exp": now + 600}
    for algorithm in ("none", "HS256"):
        assert await status(site, site.provider.sign(claims, algorithm=algorithm)) == 401
    good = site.provider.sign(claims, typ="at+jwt")
    assert await status(site, good) == 200
    head, body, signature = good.split(".")
    for token in (f"{head}.{body}.", f"{head}.{body}.{signature[:-8]}AAAAAAAA", f"{head}..{signature}", "a.b.c", ".."):
        assert await status(site, token) == 401


async def test_an_opaque_token_is_asked_about_once_a_minute(site: Site) -> None:
    token = await opaque_token(site)
    await site.configure(audience=AUDIENCE)
    site.provider.asked.clear()
    for _ in range(3):
        assert await status(site, token) == 200
    assert site.provider.asked.count("/userinfo") == 1
    site.provider.state.access_tokens[token]["exp"] = 0
    site.world.clock.forward(seconds=61)
    assert await status(site, token) == 401
    assert await status(site, token) == 401
    assert site.provider.asked.count("/userinfo") == 2


async def test_made_up_opaque_tokens_are_a_few_questions_at_once(site: Site) -> None:
    await site.cli()
    await site.configure(audience=AUDIENCE)
    let = threading.Event()
    site.provider.before = lambda path: (let.wait(60), None)[1] if path == "/userinfo" else None
    asking = [asyncio.create_task(status(site, f"guess{n}")) for n in range(12)]
    await until(lambda: sum(one.done() for one in asking) >= 8)
    assert [one.result() for one in asking if one.done()] == [503] * 8
    waiting = [one for one in asking if not one.done()]
    let.set()
    assert await asyncio.gather(*waiting) == [401] * 4


async def test_inactive_users_are_refused(site: Site) -> None:
    await site.world.add_user("admin", "admin")  # an organisation keeps one
    await site.configure(audience=AUDIENCE)
    await site.cli()
    store = site.world.stores.principals
    account = await store.by_email(site.world.org_id, "ann@example.com")
    assert account is not None
    inactive = replace(account.principal, status=PrincipalStatus.INACTIVE)
    await store.update(replace(account, principal=inactive), site.world.clock())
    answer = await site.client(site.provider.access_token("ann", AUDIENCE)).get("/userinfo")
    assert "not active" in message(answer, 401)


async def test_no_provider_is_told_tokens_of_another(site: Site) -> None:
    """With two providers an opaque token is shown to neither, and each vouches for its own issuer only."""
    token = await opaque_token(site)
    await site.configure(audience=AUDIENCE)
    other_org = Organisation(uuid4(), "other", site.world.clock())
    await site.world.stores.organisations.add(other_org)
    with openid_provider("http://localhost/unused") as other:
        config = replace(config_of(other), audience=AUDIENCE)
        await site.services.auth_configs.put(other_org.id, AuthConfig(LoginMethod.OIDC, oidc=config))
        site.provider.asked.clear()
        assert await status(site, token) == 401
        assert "/userinfo" not in site.provider.asked + other.asked
        assert await status(site, site.provider.access_token("ann", AUDIENCE)) == 200
        assert await status(site, other.access_token("ann", AUDIENCE)) == 401
        other.generation = 1  # with a key of its own, in the name of the first
        assert await status(site, other.access_token("ann", AUDIENCE, iss=site.provider.issuer)) == 401


async def test_a_token_is_neither_a_login_nor_in_the_cookie(site: Site) -> None:
    await site.configure(audience=AUDIENCE)
    await site.cli()
    token = site.provider.access_token("ann", AUDIENCE)
    answer = await site.client().get("/userinfo", headers={"Cookie": f"postern={token}"})
    assert "must contain the token of a login" in message(answer, 401)
