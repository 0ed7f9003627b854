"""Strangers who begin logins without end, and people with more logins than anybody needs. On both engines."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.support.world import CLIENT, World, logged_in

from postern.domain.identity.login import ClientKind, LoginMethod, Provided, TokenPurpose
from postern.domain.identity.principal import Account
from postern.domain.secret import Secret
from postern.errors import TooMany, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.logins.logins import ClientFacts
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.store.sql.identity import sql_logins as login_store
from postern.store.sql.identity import sql_one_time_tokens as token_store

LIFE = timedelta(minutes=10)
OIDC = TokenPurpose.OIDC_STATE
PASSWORD = Secret("a long enough password")


@pytest.fixture
def one_time_tokens(world: World, monkeypatch: pytest.MonkeyPatch) -> OneTimeTokens:
    """With bounds that a test can reach."""
    world.clock.tick = timedelta(milliseconds=1)
    monkeypatch.setattr(token_store, "MOST", 20)
    monkeypatch.setattr(token_store, "MOST_OF_SOURCE", 5)
    return OneTimeTokens(world.stores.one_time_tokens, world.clock)


async def flood(one_time_tokens: OneTimeTokens, times: int, source: str) -> list[Secret]:
    return [await one_time_tokens.issue(OIDC, {}, LIFE, source=source) for _ in range(times)]


async def alive(one_time_tokens: OneTimeTokens, secrets: list[Secret]) -> list[bool]:
    found = []
    for secret in secrets:
        try:
            await one_time_tokens.peek(OIDC, secret)
            found.append(True)
        except Unauthenticated:
            found.append(False)
    return found


async def test_a_flood_from_one_address_pushes_out_only_its_own(one_time_tokens: OneTimeTokens) -> None:
    mine = await flood(one_time_tokens, 1, "198.51.100.1")
    theirs = await flood(one_time_tokens, 40, "203.0.113.9")
    assert await alive(one_time_tokens, mine) == [True]
    assert await alive(one_time_tokens, theirs) == [False] * 35 + [True] * 5


async def test_a_flood_from_one_ipv6_network_counts_as_one_address(one_time_tokens: OneTimeTokens) -> None:
    theirs = [(await flood(one_time_tokens, 1, f"2001:db8:1:2::{number:x}"))[0] for number in range(1, 12)]
    assert await alive(one_time_tokens, theirs) == [False] * 6 + [True] * 5


async def test_when_all_is_full_whoever_has_most_makes_room(one_time_tokens: OneTimeTokens) -> None:
    mine = await flood(one_time_tokens, 1, "198.51.100.1")
    theirs = [await flood(one_time_tokens, 5, f"203.0.113.{number}") for number in range(10)]
    late = await flood(one_time_tokens, 1, "198.51.100.2")
    assert await alive(one_time_tokens, mine + late) == [True, True]
    assert sum([sum(await alive(one_time_tokens, some)) for some in theirs]) == 18


async def test_what_no_stranger_asked_for_is_never_pushed_out(one_time_tokens: OneTimeTokens) -> None:
    """Such as the marks of assertions that were used: without them they could be shown again."""
    marks = [await one_time_tokens.issue(OIDC, {}, LIFE) for _ in range(20)]
    with pytest.raises(TooMany):
        await one_time_tokens.issue(OIDC, {}, LIFE, source="203.0.113.9")
    assert all(await alive(one_time_tokens, marks))


async def test_expired_ones_are_no_burden(world: World, one_time_tokens: OneTimeTokens) -> None:
    await flood(one_time_tokens, 5, "203.0.113.9")
    world.clock.forward(minutes=11)
    fresh = await flood(one_time_tokens, 5, "203.0.113.9")
    assert all(await alive(one_time_tokens, fresh))


async def test_device_logins_count_together_over_an_ipv6_network(world: World) -> None:
    services = world.services()
    for number in range(30):
        await services.device_login.begin(ClientFacts(ClientKind.CLI, f"2001:db8:1:2::{number:x}"))
    with pytest.raises(TooMany):
        await services.device_login.begin(ClientFacts(ClientKind.CLI, "2001:db8:1:2:ffff::1"))
    await services.device_login.begin(ClientFacts(ClientKind.CLI, "2001:db8:1:3::1"))


async def _ann(world: World, services: Services) -> Account:
    first = await services.accounts.ensure_first_admin()
    assert first is not None
    token = (await logged_in(services, *first)).token
    admin = (await services.authentication.caller(token, address="::1")).principal
    return await services.users.create(admin, {"email": "ann@example.com", "password": PASSWORD})


async def test_the_oldest_login_ends_when_somebody_has_too_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_store, "MOST_LIVE", 3)
    services = world.services()
    ann = await _ann(world, services)
    opened = []
    for _ in range(5):
        world.clock.forward(seconds=1)
        opened.append(await services.logins.open(ann, LoginMethod.LOCAL, CLIENT))
    for old in opened[:2]:
        with pytest.raises(Unauthenticated):
            await services.logins.authenticate(old.token)
    for recent in opened[2:]:
        await services.logins.authenticate(recent.token)


async def test_the_newest_login_is_never_the_one_that_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that were opened at the same moment."""
    monkeypatch.setattr(login_store, "MOST_LIVE", 1)
    services = world.services()
    ann = await _ann(world, services)
    for _ in range(8):
        opened = await services.logins.open(ann, LoginMethod.LOCAL, CLIENT)
        await services.logins.authenticate(opened.token)
    assert len(await services.logins.live(ann.principal)) == 1


async def _approved(services: Services, ann: Account) -> tuple[Secret, Any]:
    login = (await services.logins.open(ann, LoginMethod.LOCAL, CLIENT)).login
    device = await services.device_login.begin(CLIENT)
    await services.device_login.answer(ann, login, device.user_code, allow=True)
    return device.device_code, login


async def test_a_device_that_a_thief_approved_is_out_after_a_change_of_password(world: World) -> None:
    services = world.services()
    ann = await _ann(world, services)
    code, _ = await _approved(services, ann)
    new = Secret("quite another password")
    await services.accounts.change_password(ann.principal, PASSWORD, new, "::1")
    with pytest.raises(Unauthenticated):
        await services.device_login.poll(code, CLIENT)


async def test_a_device_that_a_thief_approved_is_out_when_all_logins_are_ended(world: World) -> None:
    services = world.services()
    ann = await _ann(world, services)
    code, _ = await _approved(services, ann)
    await services.logins.end_all(ann.principal.id)
    with pytest.raises(Unauthenticated):
        await services.device_login.poll(code, CLIENT)


async def test_a_code_on_its_way_to_a_command_line_is_void_when_all_logins_are_ended(world: World) -> None:
    services = world.services()
    ann = await _ann(world, services)
    payload = {"user_id": str(ann.principal.id)}
    code = await services.one_time_tokens.issue(TokenPurpose.EXCHANGE, payload, LIFE)
    await services.logins.end_all(ann.principal.id)
    with pytest.raises(Unauthenticated):
        await services.one_time_tokens.peek(TokenPurpose.EXCHANGE, code)


async def test_a_refresh_and_the_provider_s_renewal_do_not_undo_each_other(world: World) -> None:
    """Else a provider's new refresh token is lost under the old one, which it may take for stolen."""
    services = world.services()
    ann = await _ann(world, services)
    opened = await services.logins.open(ann, LoginMethod.LOCAL, CLIENT)
    read_before, _ = await services.logins.authenticate(opened.token)
    world.clock.forward(hours=1)
    renewed = Provided(world.clock() + timedelta(hours=1), Secret("the new refresh token"))
    await world.stores.logins.store_renewal(opened.login.id, renewed)
    refreshed = await services.logins.refresh(read_before)
    standing = await world.stores.logins.standing(opened.login.id)
    assert standing is not None
    assert standing[0].provided == renewed
    assert standing[0].expires_at == refreshed.login.expires_at


async def test_one_set_up_link_used_twice_at_the_same_instant_works_once(world: World) -> None:
    services = world.services()
    ann = await _ann(world, services)
    link = await services.setup_links.issue_for(ann)

    async def use(number: int) -> object:
        return await services.local_login.set_up(link.token, Secret(f"chosen at once, {number}"), None, CLIENT)

    done = await asyncio.gather(*(use(number) for number in range(4)), return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in done) == 1
    assert all(isinstance(one, Unauthenticated) for one in done if isinstance(one, BaseException))


async def test_one_token_taken_by_many_at_the_same_instant_is_given_once(world: World) -> None:
    one_time_tokens = OneTimeTokens(world.stores.one_time_tokens, world.clock)
    secret = await one_time_tokens.issue(TokenPurpose.EXCHANGE, {"a": 1}, LIFE)
    takes = (one_time_tokens.take(TokenPurpose.EXCHANGE, secret) for _ in range(8))
    done = await asyncio.gather(*takes, return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in done) == 1
