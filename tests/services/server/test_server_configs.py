"""The server's configuration: by whom, what is refused, and that a refusal leaves all as it was."""

from __future__ import annotations

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.server import Endpoint, Listener, ServerConfig
from postern.errors import Conflict, Denied, Invalid
from postern.services.bundle import Services
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.server_configs import ListenerFields, ServerFields
from postern.store.ports.common_ports import Topic


def _own(endpoint: Endpoint) -> dict[str, Listener]:
    return {"postgres": Listener(True, endpoint)}


OWN = ServerConfig(_own(Endpoint("127.0.0.1", 7432)), "", "http://localhost:7480")


def _listening(*, enabled: bool | None = None, listen_address: str | None = None, **more: str) -> ServerFields:
    return ServerFields({"postgres": ListenerFields(enabled, listen_address)}, **more)


def taken(endpoint: Endpoint, field: str) -> None:
    if endpoint.port == 5432:
        raise Conflict(f"{field} is in use")


@pytest.fixture
def services(world: World) -> Services:
    machine = MachineFacts(
        config=OWN, probe=taken, reserved={7480: "the API"}, certified=lambda name: name == "db.example"
    )
    return world.services(machine)


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def test_what_the_environment_says_holds_until_somebody_chooses(
    world: World, services: Services, admin: Principal
) -> None:
    configs = services.server_configs
    assert await configs.get(admin) == OWN
    wanted = _listening(listen_address="0.0.0.0:7000", public_host="db.example")
    changed = await configs.put(admin, wanted)
    assert changed == ServerConfig(_own(Endpoint("0.0.0.0", 7000)), "db.example", OWN.api_url)
    assert world.signals.of(Topic.SETTINGS_CHANGED) == [{"name": "server"}]
    elsewhere = world.services(MachineFacts(config=ServerConfig(OWN.listeners, "", "https://other.example")))
    assert (await elsewhere.server_configs.current()).listeners["postgres"].endpoint == Endpoint("0.0.0.0", 7000)
    assert (await elsewhere.server_configs.current()).api_url == "https://other.example"  # was not chosen
    back = await configs.put(admin, _listening(listen_address="", public_host=""))
    assert back == OWN


async def test_a_listener_can_be_off(services: Services, admin: Principal) -> None:
    off = await services.server_configs.put(admin, _listening(enabled=False))
    assert not off.listeners["postgres"].enabled
    moved = await services.server_configs.put(admin, _listening(listen_address="127.0.0.1:5432"))
    assert not moved.listeners["postgres"].enabled  # nothing is bound, so nothing is probed
    with pytest.raises(Conflict):
        await services.server_configs.put(admin, _listening(enabled=True))


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (_listening(listen_address="127.0.0.1:5432"), Conflict),
        (_listening(listen_address="0.0.0.0:7480"), Conflict),
        (_listening(listen_address="127.0.0.1"), Invalid),
        (_listening(listen_address="127.0.0.1:0"), Invalid),
        (_listening(listen_address="127.0.0.1:65536"), Invalid),
        (_listening(listen_address="127.0.0.1:٣"), Invalid),
        (_listening(listen_address="::1:7000"), Invalid),
        (_listening(listen_address="[127.0.0.1]:7000"), Invalid),
        (_listening(listen_address="db.example:7000"), Invalid),
        (_listening(listen_address="224.0.0.1:7000"), Invalid),
        (ServerFields(public_host="other.example"), Invalid),
        (ServerFields(public_host="db.example/x"), Invalid),
        (ServerFields(public_host="-db.example"), Invalid),
        (ServerFields(api_url="http://gateway.example"), Invalid),
        (ServerFields(api_url="https://169.254.169.254"), Invalid),
    ],
)
async def test_what_is_refused_leaves_all_as_it_was(
    world: World, services: Services, admin: Principal, fields: ServerFields, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await services.server_configs.put(admin, fields)
    assert await services.server_configs.current() == OWN
    assert world.signals.of(Topic.SETTINGS_CHANGED) == []


async def test_ipv6_and_the_apis_address(services: Services, admin: Principal) -> None:
    given = _listening(listen_address="[::1]:7000", api_url="https://gateway.example/api/")
    changed = await services.server_configs.put(admin, given)
    assert str(changed.listeners["postgres"].endpoint) == "[::1]:7000"
    assert changed.listeners["postgres"].endpoint.is_loopback
    assert changed.api_url == "https://gateway.example"


async def test_only_who_runs_the_server(world: World, services: Services) -> None:
    for principal in (await world.add_user("ann"), await world.add_user("audrey", "auditor")):
        with pytest.raises(Denied):
            await services.server_configs.get(principal)
        with pytest.raises(Denied):
            await services.server_configs.put(principal, ServerFields())


def _with_tcp(listener: Listener) -> MachineFacts:
    return MachineFacts(config=ServerConfig({**OWN.listeners, "tcp": listener}, "", OWN.api_url))


def _tcp(*, enabled: bool | None = None, listen_address: str | None = None) -> ServerFields:
    return ServerFields({"tcp": ListenerFields(enabled, listen_address)})


async def test_listener_that_is_off_by_default_needs_an_address(world: World, admin: Principal) -> None:
    off = Listener(False, Endpoint("127.0.0.1", 0))
    configs = world.services(_with_tcp(off)).server_configs
    assert not await configs.listens("tcp")
    with pytest.raises(Invalid, match="give host:port, because POSTERN_TCP_PORT sets none"):
        await configs.put(admin, _tcp(enabled=True))
    changed = await configs.put(admin, _tcp(enabled=True, listen_address="127.0.0.1:7400"))
    assert changed.listeners["tcp"] == Listener(True, Endpoint("127.0.0.1", 7400))
    assert await configs.listens("tcp")
    with pytest.raises(Invalid, match="give host:port"):
        await configs.put(admin, _tcp(listen_address=""))
    assert (await configs.put(admin, _tcp(enabled=False, listen_address=""))).listeners["tcp"] == off


async def test_port_of_the_environment_turns_on_a_listener_that_was_never_configured(
    world: World, admin: Principal
) -> None:
    off = world.services(_with_tcp(Listener(False, Endpoint("127.0.0.1", 0))))
    await off.server_configs.put(admin, _listening(listen_address="0.0.0.0:7000"))
    on = Listener(True, Endpoint("127.0.0.1", 7400))
    later = world.services(_with_tcp(on)).server_configs
    assert (await later.current()).listeners["tcp"] == on
    await later.put(admin, _tcp(enabled=False))
    again = world.services(_with_tcp(on)).server_configs
    assert not await again.listens("tcp")


def test_what_native_clients_are_told() -> None:
    def told(host: str, public_host: str = "") -> str:
        return ServerConfig(_own(Endpoint(host, 1)), public_host).client_host("postgres", "gateway")

    assert told("127.0.0.1") == told("0.0.0.0") == told("::") == "gateway"
    assert told("10.0.0.5") == "10.0.0.5"
    assert told("10.0.0.5", "db.example") == "db.example"
