"""Users, passwords and tokens."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta

import pytest
from argon2 import PasswordHasher
from joserfc import jwt
from joserfc.jwk import OKPKey
from tests.support.world import FakeClock, World

from postern.domain.secret import Secret
from postern.errors import TooMany, Unauthenticated
from postern.services.passwords import Passwords, Throttle
from postern.services.principals import Principals, UserFields
from postern.services.tokens import AUDIENCE, ISSUER, Tokens

PASSWORD = Secret("a long enough password")


@pytest.fixture
def principals(world: World) -> Principals:
    return world.services().principals


async def test_the_first_admin_is_made_once(principals: Principals, world: World) -> None:
    outcomes = await asyncio.gather(*(world.services().principals.ensure_first_admin() for _ in range(3)))
    made = [outcome for outcome in outcomes if outcome is not None]
    assert len(made) == 1
    email, password = made[0]
    assert email == "admin@localhost"
    admin = await principals.authenticate(await principals.login(email, password, address="::1"))
    assert admin.is_admin
    assert await principals.ensure_first_admin() is None


async def test_groups_survive_the_store(principals: Principals, world: World) -> None:
    groups = frozenset({"admin", "on call", "a,b", "ä\u2028"})
    user = await world.add_user("ann", *groups)
    assert (await principals.get(user, user.subject)).groups == groups


async def test_a_user_without_password_cannot_log_in(principals: Principals, world: World) -> None:
    await world.add_user("ann")
    for password in ("", "x"):
        with pytest.raises(Unauthenticated):
            await principals.login("ann@example.com", Secret(password), address="::1")


async def test_tokens_are_checked_in_every_claim(world: World) -> None:
    tokens = Tokens(world.stores.keys, world.clock)
    user = await world.add_user("ann")
    token = await tokens.issue(user.id, 3)
    assert (await tokens.verify(token)).generation == 3
    again = Tokens(world.stores.keys, world.clock)  # another process, the same key
    assert (await again.verify(token)).user_id == user.id
    key = await tokens._signing_key()
    issued = int(world.clock().timestamp())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": str(user.id), "iat": issued, "exp": issued + 60, "gen": 1}

    def made(claims: dict[str, object], by: OKPKey = key) -> Secret:
        return Secret(jwt.encode({"alg": "Ed25519"}, claims, by, algorithms=["Ed25519"]))

    assert (await tokens.verify(made(good))).generation == 1
    bad = [{name: value for name, value in good.items() if name != left_out} for left_out in good]
    bad += [good | {"iss": "other"}, good | {"aud": "other"}, good | {"sub": "ann"}, good | {"exp": issued - 1}]
    bad += [good | {"iat": issued + 3600}, good | {"gen": "x"}]
    refused = [made(claims) for claims in bad] + [made(good, OKPKey.generate_key("Ed25519"))]
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    unsigned = f"{none}.{made(good).reveal().split('.')[1]}."
    for wrong in (*refused, Secret(unsigned), Secret(""), Secret("a.b.c"), Secret(token.reveal()[:-4])):
        with pytest.raises(Unauthenticated):
            await tokens.verify(wrong)


async def test_the_signing_key_is_made_once(world: World) -> None:
    user = await world.add_user("ann")
    several = [Tokens(world.stores.keys, world.clock) for _ in range(4)]
    issued = await asyncio.gather(*(tokens.issue(user.id, 1) for tokens in several))
    for token in issued:
        assert (await several[0].verify(token)).user_id == user.id


async def test_many_tries_at_once_are_counted_before_they_are_checked(principals: Principals, world: World) -> None:
    admin = await world.add_user("root", "admin")
    await principals.create(admin, UserFields(email="ann@example.com", password=PASSWORD))
    tries = [principals.login("ann@example.com", Secret("wrong"), address="::1") for _ in range(30)]
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
