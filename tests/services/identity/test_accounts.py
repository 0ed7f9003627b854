"""Local accounts, passwords, tokens and logins."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from argon2 import PasswordHasher
from joserfc import jwt
from joserfc.jwk import OKPKey
from tests.support.world import CLIENT, FakeClock, World, logged_in

from postern.domain.identity.login import Login, LoginMethod, Provided, TokenPurpose
from postern.domain.identity.principal import Account, GroupSource, Principal, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import TooMany, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.logins.logins import LOGIN_LIFE, TOKEN_LIFE, Logins
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.passwords import Passwords, Throttle
from postern.services.identity.logins.tokens import AUDIENCE, ISSUER, RETIRED_KEYS_STAY, Tokens

PASSWORD = Secret("a long enough password")


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


def tokens_of(world: World) -> Tokens:
    """As another process would have them."""
    return Tokens(world.stores.signing_keys, world.signals, world.clock)


async def login_of(services: Services, user: Principal) -> Secret:
    account = await services.users.own(user)
    return (await services.logins.open(account, LoginMethod.LOCAL, CLIENT)).token


async def who(services: Services, token: Secret) -> Principal:
    return (await services.authentication.caller(token, address="::1")).principal


async def test_the_first_admin_is_made_once(services: Services, world: World) -> None:
    outcomes = await asyncio.gather(*(world.services().accounts.ensure_first_admin() for _ in range(3)))
    made = [outcome for outcome in outcomes if outcome is not None]
    assert len(made) == 1
    email, password = made[0]
    assert email == "admin@localhost"
    opened = await logged_in(services, email, password)
    assert (await who(services, opened.token)).is_admin
    assert await services.accounts.ensure_first_admin() is None


async def test_groups_survive_the_store(services: Services, world: World) -> None:
    groups = frozenset({"admin", "on call", "a,b", "ä\u2028"})
    user = await world.add_user("ann", *groups)
    assert (await services.users.get(user, user.subject)).principal.groups == groups


async def test_each_source_takes_back_only_the_groups_it_gave(world: World) -> None:
    user = await world.add_user("ann", "admin", "dba")
    store = world.stores.principals
    await store.set_groups(user.id, frozenset({"dba", "sre"}), GroupSource.PROVIDER)
    await store.set_groups(user.id, frozenset({"admin"}), GroupSource.MANUAL)
    found = await store.get(world.org_id, user.id)
    assert found is not None
    assert found.principal.groups == {"admin", "dba", "sre"}
    await store.set_groups(user.id, frozenset(), GroupSource.PROVIDER)
    assert await store.groups_by(user.id, GroupSource.MANUAL) == {"admin"}
    assert await store.groups_by(user.id, GroupSource.PROVIDER) == frozenset()


async def test_a_user_without_password_cannot_log_in(services: Services, world: World) -> None:
    await world.add_user("ann")
    for password in ("", "x"):
        with pytest.raises(Unauthenticated):
            await logged_in(services, "ann@example.com", Secret(password))


async def test_an_account_of_another_organisation_needs_its_name(services: Services, world: World) -> None:
    admin = await world.add_user("root", "admin")
    await services.users.create(admin, {"email": "ann@example.com", "password": PASSWORD})
    with pytest.raises(Unauthenticated):
        await logged_in(services, "ann@example.com", PASSWORD, organisation="elsewhere")
    assert await logged_in(services, "ann@example.com", PASSWORD, organisation="default")


async def test_tokens_are_checked_in_every_claim(world: World) -> None:
    tokens = tokens_of(world)
    user, login = uuid4(), uuid4()
    token = await tokens.issue(user, login, world.clock() + timedelta(hours=1))
    assert (await tokens.verify(token)).login_id == login
    assert (await tokens_of(world).verify(token)).principal_id == user
    key = tokens._keys[tokens._signing]
    issued = int(world.clock().timestamp())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": str(user), "sid": str(login), "iat": issued, "exp": issued + 60}

    def made(claims: dict[str, object], by: OKPKey = key, kid: str | None = key.kid) -> Secret:
        return Secret(jwt.encode({"alg": "Ed25519", "kid": kid}, claims, by, algorithms=["Ed25519"]))

    assert (await tokens.verify(made(dict(good)))).login_id == login
    bad = [{name: value for name, value in good.items() if name != left_out} for left_out in good]
    bad += [good | {"iss": "other"}, good | {"aud": "other"}, good | {"sub": "ann"}, good | {"exp": issued - 1}]
    bad += [good | {"iat": issued + 3600}, good | {"sid": "x"}]
    refused = [made(dict(claims)) for claims in bad] + [made(dict(good), OKPKey.generate_key("Ed25519"))]
    refused.append(made(dict(good), kid="another"))
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    unsigned = f"{none}.{made(dict(good)).reveal().split('.')[1]}."
    for wrong in (*refused, Secret(unsigned), Secret(""), Secret("a.b.c"), Secret(token.reveal()[:-4])):
        with pytest.raises(Unauthenticated):
            await tokens.verify(wrong)


async def test_the_first_signing_key_is_made_once(world: World) -> None:
    several = [tokens_of(world) for _ in range(4)]
    until = world.clock() + timedelta(hours=1)
    issued = await asyncio.gather(*(tokens.issue(uuid4(), uuid4(), until) for tokens in several))
    assert len(await world.stores.signing_keys.all()) == 1
    for token in issued:
        await several[0].verify(token)


async def test_a_rotated_key_verifies_what_it_signed_and_signs_no_more(world: World) -> None:
    tokens, other = tokens_of(world), tokens_of(world)
    until = world.clock() + timedelta(days=3)
    before = await tokens.issue(uuid4(), uuid4(), until)
    await other.verify(before)
    world.clock.forward(seconds=5)
    await tokens.rotate()
    after = await tokens.issue(uuid4(), uuid4(), until)
    for process in (tokens, other, tokens_of(world)):
        await process.verify(before)
        await process.verify(after)
    world.clock.forward(seconds=RETIRED_KEYS_STAY.total_seconds())
    with pytest.raises(Unauthenticated):
        await tokens_of(world).verify(before)
    await tokens_of(world).verify(after)


async def test_revoking_the_keys_ends_every_token_in_every_process(world: World) -> None:
    tokens, other = tokens_of(world), tokens_of(world)
    token = await tokens.issue(uuid4(), uuid4(), world.clock() + timedelta(hours=1))
    await other.verify(token)
    await tokens.rotate(revoke=True)
    for process in (tokens, other):
        with pytest.raises(Unauthenticated):
            await process.verify(token)


async def test_a_login_ends_at_once_with_what_it_stands_on(services: Services, world: World) -> None:
    root = await world.add_user("root", "admin")
    user = (await services.users.create(root, {"email": "ann@example.com", "password": PASSWORD})).principal
    deeds: dict[str, Callable[[Login], Coroutine[Any, Any, object]]] = {
        "the login was ended": lambda login: services.logins.end(user, login.id),
        "the password changed": lambda _: services.accounts.set_password(user, PASSWORD, "password"),
        "the user is inactive": lambda _: services.users.update(root, user.email, {"status": PrincipalStatus.INACTIVE}),
    }
    for why, deed in deeds.items():
        token = await login_of(services, user)
        caller = await services.authentication.caller(token, address="::1")
        assert caller.login is not None
        await deed(caller.login)
        with pytest.raises(Unauthenticated):
            await who(services, token)
        assert await services.logins.live(user) == [], why


async def test_a_token_is_refreshed_until_the_login_is_too_old(services: Services, world: World) -> None:
    user = await world.add_user("ann")
    token = await login_of(services, user)
    for _ in range(13):
        world.clock.forward(seconds=TOKEN_LIFE.total_seconds() - 60)
        login = (await services.authentication.caller(token, address="::1")).login
        assert login is not None
        token = (await services.logins.refresh(login)).token
    world.clock.forward(seconds=LOGIN_LIFE.total_seconds() / 14)
    with pytest.raises(Unauthenticated):
        await who(services, token)


class Provider:
    """Vouches for `lives` more hours, one at a time."""

    def __init__(self, world: World, lives: int) -> None:
        self.world, self.lives, self.asked = world, lives, 0

    async def renew(self, login: Login, account: Account) -> Provided:
        assert login.provided is not None
        self.asked += 1
        await asyncio.sleep(0)
        if self.asked > self.lives:
            raise Unauthenticated("the provider does not vouch any more")
        return Provided(self.world.clock() + timedelta(hours=1), Secret(f"refresh-{self.asked}"))


async def test_a_provider_is_asked_again_once_and_has_the_last_word(services: Services, world: World) -> None:
    user = await world.add_user("ann")
    provider = Provider(world, lives=1)
    logins = Logins(world.stores.logins, tokens_of(world), world.networks, world.signals, world.clock, provider)
    given = Provided(world.clock() + timedelta(hours=1), Secret("refresh-0"))
    opened = await logins.open(await services.users.own(user), LoginMethod.OIDC, CLIENT, given)
    world.clock.forward(minutes=59)
    await logins.authenticate(opened.token)
    assert provider.asked == 0
    world.clock.forward(minutes=2)
    found = await asyncio.gather(*(logins.authenticate(opened.token) for _ in range(5)))
    assert provider.asked == 1
    assert all(login.provided is not None and login.provided.refresh == Secret("refresh-1") for login, _ in found)
    world.clock.forward(minutes=61)
    with pytest.raises(Unauthenticated, match="vouch"):
        await logins.authenticate(opened.token)
    assert await logins.live(user) == []


async def test_without_a_refresh_token_a_login_ends_when_the_provider_says(services: Services, world: World) -> None:
    account = await services.users.own(await world.add_user("ann"))
    opened = await services.logins.open(account, LoginMethod.OIDC, CLIENT, Provided(world.clock() + timedelta(hours=1)))
    world.clock.forward(minutes=61)
    with pytest.raises(Unauthenticated):
        await services.logins.authenticate(opened.token)


async def test_a_one_time_token_is_good_once_for_one_step_in_time(world: World) -> None:
    one_time_tokens = OneTimeTokens(world.stores.one_time_tokens, world.clock)
    life = timedelta(minutes=1)
    secret = await one_time_tokens.issue(TokenPurpose.EXCHANGE, {"a": 1}, life)
    with pytest.raises(Unauthenticated):
        await one_time_tokens.take(TokenPurpose.SETUP, secret)
    assert await one_time_tokens.peek(TokenPurpose.EXCHANGE, secret) == {"a": 1}
    await one_time_tokens.change(TokenPurpose.EXCHANGE, secret, {"a": 2})
    tries = await asyncio.gather(
        *(one_time_tokens.take(TokenPurpose.EXCHANGE, secret) for _ in range(5)), return_exceptions=True
    )
    assert [found for found in tries if not isinstance(found, Unauthenticated)] == [{"a": 2}]
    late = await one_time_tokens.issue(TokenPurpose.EXCHANGE, {}, life)
    world.clock.forward(seconds=60)
    with pytest.raises(Unauthenticated):
        await one_time_tokens.take(TokenPurpose.EXCHANGE, late)
    await one_time_tokens.prune()


async def test_many_tries_at_once_are_counted_before_they_are_checked(services: Services, world: World) -> None:
    admin = await world.add_user("root", "admin")
    await services.users.create(admin, {"email": "ann@example.com", "password": PASSWORD})
    tries = [logged_in(services, "ann@example.com", Secret("wrong")) for _ in range(30)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(outcome, Unauthenticated) for outcome in outcomes) == 10
    assert sum(isinstance(outcome, TooMany) for outcome in outcomes) == 20


async def test_at_most_two_hashes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    passwords = Passwords(hasher)
    running, most = 0, 0
    to_thread = asyncio.to_thread

    async def watched(*given: object) -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        try:
            return await to_thread(*given)  # type: ignore[arg-type]
        finally:
            running -= 1

    monkeypatch.setattr(asyncio, "to_thread", watched)
    await asyncio.gather(*(passwords.hash(PASSWORD) for _ in range(6)))
    assert most == 2


def test_a_throttle_forgets_after_its_window_and_keeps_few_keys() -> None:
    clock = FakeClock()
    throttle = Throttle(clock, failures=2, window=timedelta(seconds=10), keys=3)
    throttle.fail("a")
    clock.forward(seconds=6)
    throttle.fail("a")
    with pytest.raises(TooMany, match="in 5 seconds"):
        throttle.check("a")
    clock.forward(seconds=4)
    throttle.check("a")
    throttle.fail("a")
    throttle.undo("a")
    throttle.check("a")
    for key in "bcd":
        throttle.fail(key)
    assert list(throttle._seen) == ["b", "c", "d"]
