"""What is remembered of verified tokens never makes one good for longer than it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from joserfc import jwt
from tests.support.world import CLIENT, World

from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.services.identity.logins import tokens as module
from postern.services.identity.logins.tokens import Tokens
from postern.store.ports.common_ports import Topic
from postern.store.ports.identity_ports import SigningKey


def tokens_of(world: World) -> Tokens:
    """As another process has them."""
    return Tokens(world.stores.signing_keys, world.signals, world.clock)


async def issued(tokens: Tokens, world: World) -> Secret:
    return await tokens.issue(uuid4(), uuid4(), world.clock() + timedelta(hours=1))


async def refused(tokens: Tokens, token: Secret) -> None:
    with pytest.raises(Unauthenticated):
        await tokens.verify(token)


async def test_a_signature_is_checked_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tokens_of(world)
    token = await issued(tokens, world)
    decode: Callable[..., Any] = jwt.decode
    decoded: list[str] = []

    def heard(value: str, *arguments: Any, **options: Any) -> Any:
        decoded.append(value)
        return decode(value, *arguments, **options)

    monkeypatch.setattr(jwt, "decode", heard)
    first = await tokens.verify(token)
    assert await tokens.verify(token) == first
    assert len(decoded) == 1


async def test_a_remembered_token_expires_to_the_second(world: World) -> None:
    tokens = tokens_of(world)
    token = await issued(tokens, world)
    await tokens.verify(token)
    world.clock.forward(seconds=3599)
    await tokens.verify(token)  # as it remembers it
    await tokens_of(world).verify(token)  # as another process reads it anew
    world.clock.forward(seconds=1)
    await refused(tokens, token)
    await refused(tokens_of(world), token)


async def test_a_remembered_token_of_a_revoked_key_is_refused_at_once(world: World) -> None:
    tokens, other = tokens_of(world), tokens_of(world)
    token = await issued(tokens, world)
    await tokens.verify(token)
    await other.verify(token)
    await other.rotate(revoke=True)
    await refused(tokens, token)
    await refused(other, token)


async def test_nothing_is_remembered_across_a_gap_of_signals(world: World) -> None:
    tokens = tokens_of(world)
    token = await issued(tokens, world)
    await tokens.verify(token)
    for key in await world.stores.signing_keys.all():  # revoked elsewhere, and the signal was lost
        await world.stores.signing_keys.rotate(SigningKey(uuid4(), key.private, world.clock()), world.clock())
    await world.stores.signing_keys.prune(world.clock() + timedelta(seconds=1))
    await world.signals.publish(Topic.RESUMED)
    await refused(tokens, token)


async def test_a_remembered_token_is_worth_nothing_once_its_login_ended(world: World) -> None:
    """Also by another process, which says nothing: the store is asked every time."""
    services = world.services()
    await world.add_user("ann")
    account = await world.stores.principals.by_email(world.org_id, "ann@example.com")
    assert account is not None
    opened = await services.logins.open(account, LoginMethod.LOCAL, CLIENT)
    caller = await services.authentication.caller(opened.token, address="::1")
    assert await services.authentication.standing(caller, address="::1") == account.principal
    await world.stores.logins.end(opened.login.id, world.clock())
    with pytest.raises(Unauthenticated):
        await services.authentication.caller(opened.token, address="::1")
    with pytest.raises(Unauthenticated):  # nor to who has come by it before
        await services.authentication.standing(caller, address="::1")


async def test_a_changed_token_is_not_the_remembered_one(world: World) -> None:
    tokens = tokens_of(world)
    token = await issued(tokens, world)
    await tokens.verify(token)
    head, claims, signature = token.reveal().split(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    await refused(tokens, Secret(f"{head}.{claims}.{flipped}"))
    await refused(tokens, Secret(token.reveal() + "\ud800"))


async def test_made_up_tokens_take_no_room_and_good_ones_a_bounded_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 3)
    tokens = tokens_of(world)
    good = [await issued(tokens, world) for _ in range(5)]
    for token in good:
        await tokens.verify(token)
        await refused(tokens, Secret(token.reveal()[:-6] + "AAAAAA"))
    assert len(tokens._verified) == 3
    for token in good:  # one that was forgotten is read again
        await tokens.verify(token)


async def test_keys_revoked_while_they_are_read_are_not_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, other = tokens_of(world), tokens_of(world)
    token = await issued(other, world)
    store = world.stores.signing_keys
    read: Callable[[], Awaitable[list[SigningKey]]] = store.all
    was_read, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> list[SigningKey]:
        found = await read()
        was_read.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(store, "all", slowly)
    verifying = asyncio.create_task(tokens.verify(token))
    await was_read.wait()
    monkeypatch.setattr(store, "all", read)
    await other.rotate(revoke=True)
    go_on.set()
    with pytest.raises(Unauthenticated):
        await verifying
