"""The provider is asked again when its word runs out; whom it does not vouch for any more is out at once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx
from tests.api.conftest import message
from tests.support.oidc_site import Site
from tests.support.openid import Reply, json_reply

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.principal import PrincipalStatus


async def groups_of(cli: httpx.AsyncClient) -> list[str]:
    answer = await cli.get("/userinfo")
    assert answer.status_code == 200, answer.text
    found: list[str] = answer.json()["groups"]
    return found


async def test_groups_follow_the_provider_within_a_login(site: Site) -> None:
    site.provider.users["ann"]["groups"] = ["dba", "ops"]
    cli = await site.cli()
    assert await groups_of(cli) == ["admin", "dba", "ops"]
    site.provider.users["ann"] |= {"groups": ["ops"], "name": "Ann Other"}
    site.world.clock.forward(minutes=30)
    assert await groups_of(cli) == ["admin", "dba", "ops"]  # its word is good for an hour
    site.world.clock.forward(minutes=31)
    assert await groups_of(cli) == ["admin", "ops"]
    assert (await cli.get("/userinfo")).json()["name"] == "Ann Other"
    assert site.provider.asked.count("/token") == 2


async def test_dropped_users_are_out_at_once_and_for_good(site: Site) -> None:
    """Case 48: rights that outlive the provider's word."""
    cli = await site.cli()
    site.provider.revoke_refresh_tokens()
    site.world.clock.forward(minutes=61)
    assert "does not confirm" in message(await cli.get("/userinfo"), 401)
    assert "has ended" in message(await cli.get("/userinfo"), 401)
    assert site.provider.asked.count("/token") == 2


async def test_userinfo_that_is_refused_ends_the_login(site: Site) -> None:
    cli = await site.cli()
    site.provider.replies["/userinfo"] = lambda _: json_reply({"error": "invalid_token"}, 401)
    site.world.clock.forward(minutes=61)
    message(await cli.get("/userinfo"), 401)


async def test_many_requests_at_once_ask_the_provider_once(site: Site) -> None:
    cli = await site.cli()
    site.world.clock.forward(minutes=61)
    answers = await asyncio.gather(*(cli.get("/userinfo") for _ in range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert site.provider.asked.count("/token") == 2


async def test_a_provider_in_trouble_ends_no_login_and_lets_nobody_in(site: Site) -> None:
    cli = await site.cli()
    site.world.clock.forward(minutes=61)
    for path in ("/token", "/userinfo"):
        site.provider.replies[path] = lambda _: Reply(500, b"")
        message(await cli.get("/userinfo"), 503)
        del site.provider.replies[path]
    assert (await cli.get("/userinfo")).status_code == 200


async def test_a_renewal_for_somebody_else_ends_the_login(site: Site) -> None:
    cli = await site.cli()
    site.provider.replies["/userinfo"] = lambda _: json_reply({"sub": "somebody else", "groups": ["admin"]})
    site.world.clock.forward(minutes=61)
    assert "a different user" in message(await cli.get("/userinfo"), 401)


async def test_inactive_users_are_out_before_the_provider_is_asked(site: Site) -> None:
    await site.world.add_user("admin", "admin")  # an organisation keeps one
    cli = await site.cli()
    store = site.world.stores.principals
    account = await store.by_email(site.world.org_id, "ann@example.com")
    assert account is not None
    inactive = replace(account.principal, status=PrincipalStatus.INACTIVE)
    await store.update(replace(account, principal=inactive), site.world.clock())
    site.world.clock.forward(minutes=61)
    assert "not active" in message(await cli.get("/userinfo"), 401)
    assert site.provider.asked.count("/token") == 1


async def test_another_way_to_log_in_ends_the_logins_of_this_one(site: Site) -> None:
    cli = await site.cli()
    await site.services.auth_configs.put(site.world.org_id, AuthConfig())
    site.world.clock.forward(minutes=61)
    assert "were changed" in message(await cli.get("/userinfo"), 401)


async def test_without_a_refresh_token_a_login_lasts_as_long_as_the_providers_word(site: Site) -> None:
    def without_refresh(reply: Reply) -> Reply:
        given = json.loads(reply.body)
        given.pop("refresh_token")
        return json_reply(given | {"expires_in": 7200})

    site.provider.replies["/token"] = without_refresh
    cli = await site.cli()
    site.world.clock.forward(minutes=119)
    assert (await cli.get("/userinfo")).status_code == 200
    site.world.clock.forward(minutes=2)
    message(await cli.get("/userinfo"), 401)
