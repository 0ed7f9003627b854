"""Proxy managers attend, and are told over the API what to open: real gRPC over TLS on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest
from tests.support.control import Place
from tests.support.promises import until
from tests.support.world import CLIENT, World

from postern.client.client_control import Service
from postern.client.proxy import ConnectOrder, DisconnectOrder, ProxyOrder, ProxyWelcome, attend_as_proxy
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated, Unavailable
from postern.services.targets import proxy_managers
from postern.services.targets.proxy_managers import ProxyStatus
from postern.store.database import Database


@dataclass
class Manager:
    """A proxy manager in a task of its own, which does what it is told or says `failure`."""

    place: Place
    token: Secret
    failure: str = ""
    is_deaf: bool = False
    instance: UUID = field(default_factory=uuid4)
    heard: asyncio.Queue[ProxyOrder] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self._attend())

    async def _attend(self) -> None:
        service = Service("localhost", self.place.port, self.place.issued.der)
        async for order in attend_as_proxy(service, lambda: self.token, self.instance, "1"):
            self.heard.put_nowait(order)
            if not isinstance(order, ProxyWelcome) and not self.is_deaf:
                await order.done(0 if self.failure else 5433, self.failure)

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.task


@dataclass
class Desk:
    place: Place
    user: Principal
    token: Secret


@pytest.fixture
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('proxies') / 'postern.db'}")
    await database.migrate()
    world = await World.make(database)
    place = await Place.make(world)
    user = await world.add_user("ann")
    await world.add_connection("shop")
    account = await place.services.users.own(user)
    token = (await place.services.logins.open(account, LoginMethod.LOCAL, CLIENT)).token
    yield Desk(place, user, token)
    await place.stop()
    await database.close()


async def attending(desk: Desk, **fields: object) -> Manager:
    made = Manager(desk.place, desk.token, **fields)  # type: ignore[arg-type]
    assert isinstance(await asyncio.wait_for(made.heard.get(), 60), ProxyWelcome)
    return made


async def test_it_is_told_what_to_open_and_what_to_close(desk: Desk) -> None:
    manager, proxies = await attending(desk), desk.place.services.proxy_managers
    assert proxies.status(desk.user).status is ProxyStatus.READY
    state = await proxies.connect(desk.user, "shop", 0, 60, source="::1")
    order = manager.heard.get_nowait()
    assert isinstance(order, ConnectOrder)
    assert (order.connection, order.port, order.seconds) == ("shop", 0, 60)
    assert (state.status, state.connection_name, state.port) == (ProxyStatus.CONNECTED, "shop", 5433)
    assert proxies.status(desk.user) == state
    assert state.id == manager.instance
    desk.place.world.clock.forward(seconds=60)
    assert proxies.status(desk.user).status is ProxyStatus.READY
    assert (await proxies.disconnect(desk.user)).status is ProxyStatus.READY
    assert isinstance(manager.heard.get_nowait(), DisconnectOrder)
    await manager.stop()
    await until(lambda: desk.user.id not in proxies._attached)
    with pytest.raises(NotFound, match="postern proxy-manager"):
        proxies.status(desk.user)


async def test_what_it_cannot_do_is_said_without_what_steers_a_terminal(desk: Desk) -> None:
    manager = await attending(desk, failure="port 5433 cannot be used\x1b[2J")
    with pytest.raises(Conflict, match=r"port 5433 cannot be used\\x1b\[2J"):
        await desk.place.services.proxy_managers.connect(desk.user, "shop", 5433, None, source="::1")
    assert desk.place.services.proxy_managers.status(desk.user).status is ProxyStatus.READY
    await manager.stop()


async def test_one_that_does_not_answer_holds_nobody_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_managers, "ANSWER", 0.3)
    manager, proxies = await attending(desk, is_deaf=True), desk.place.services.proxy_managers
    asked = [proxies.connect(desk.user, "shop", 0, None, source="::1") for _ in range(20)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    kinds = {type(one) for one in found}
    assert kinds == {Unavailable, Conflict}
    assert sum(isinstance(one, Unavailable) for one in found) <= 8
    await manager.stop()


async def test_what_it_carries_out_late_is_known(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_managers, "ANSWER", 0.3)
    manager, proxies = await attending(desk, is_deaf=True), desk.place.services.proxy_managers
    with pytest.raises(Unavailable, match="did not answer"):
        await proxies.connect(desk.user, "shop", 0, None, source="::1")
    order = await asyncio.wait_for(manager.heard.get(), 60)
    assert isinstance(order, ConnectOrder)
    await order.done(5433, "")
    await until(lambda: proxies.status(desk.user).status is ProxyStatus.CONNECTED)
    assert proxies.status(desk.user).port == 5433
    await manager.stop()


async def test_one_that_leaves_while_it_is_asked_holds_nobody_up(desk: Desk) -> None:
    manager, proxies = await attending(desk, is_deaf=True), desk.place.services.proxy_managers
    asking = asyncio.create_task(proxies.connect(desk.user, "shop", 0, None, source="::1"))
    await asyncio.wait_for(manager.heard.get(), 60)
    await manager.stop()
    with pytest.raises(Unavailable, match="has disconnected"):
        await asyncio.wait_for(asking, 60)


async def test_nobody_tells_the_proxy_manager_of_another(desk: Desk) -> None:
    manager, proxies = await attending(desk), desk.place.services.proxy_managers
    bob = await desk.place.world.add_user("bob")
    for work in (proxies.connect(bob, "shop", 0, None, source="::1"), proxies.disconnect(bob)):
        with pytest.raises(NotFound, match="none of your proxy managers"):
            await work
    assert manager.heard.empty()
    await manager.stop()


async def test_it_is_told_nothing_that_its_user_may_not(desk: Desk) -> None:
    manager, proxies = await attending(desk), desk.place.services.proxy_managers
    auditor = await desk.place.world.add_user("aud", "auditor")
    with pytest.raises(Denied):
        await proxies.connect(auditor, "shop", 0, None, source="::1")
    with pytest.raises(NotFound):
        await proxies.connect(desk.user, "other", 0, None, source="::1")
    for port, seconds in ((-1, None), (65_536, None), (0, 0), (0, 10**9)):
        with pytest.raises(Invalid):
            await proxies.connect(desk.user, "shop", port, seconds, source="::1")
    assert manager.heard.empty()
    await manager.stop()


async def test_the_newest_takes_the_place_and_the_older_ends(desk: Desk) -> None:
    older = await attending(desk)
    newer = await attending(desk)
    with pytest.raises(Conflict, match="a newer proxy manager of yours replaced this one"):
        await asyncio.wait_for(older.task, 60)
    assert desk.place.services.proxy_managers.status(desk.user).id == newer.instance
    await newer.stop()


@pytest.mark.parametrize("token", ["x", "xagt-" + "A" * 43])
async def test_a_token_that_is_none_ends_it(desk: Desk, token: str) -> None:
    manager = Manager(desk.place, Secret(token))
    with pytest.raises(Unauthenticated):
        await asyncio.wait_for(manager.task, 60)


async def test_the_key_of_an_agent_is_no_token(desk: Desk) -> None:
    manager = Manager(desk.place, (await desk.place.key()).secret)
    with pytest.raises(Unauthenticated):
        await asyncio.wait_for(manager.task, 60)


async def test_one_whose_user_logged_out_ends(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postern.api.control.control_server.HEARTBEAT", 0.2)
    manager = await attending(desk)
    assert await desk.place.services.logins.end_all(desk.user.id) == 1
    with pytest.raises(Unauthenticated):
        await asyncio.wait_for(manager.task, 60)
