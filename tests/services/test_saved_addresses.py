"""Every place where an administrator saves an address that this server connects to refuses the same addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

import pytest
from tests.support.sinks import sink_fields
from tests.support.world import World

from postern.domain.addresses import AllowedNetworks
from postern.domain.event import EventKind
from postern.domain.identity.auth_config import AuthConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.sink import SinkKind
from postern.errors import Invalid
from postern.services.bundle import Services
from postern.services.server.auth_settings import AuthFields, OidcFields
from postern.services.server.machine_facts import MachineFacts

SINK_NETWORKS, PROVIDER_NETWORKS = "POSTERN_SINK_NETWORKS", "POSTERN_PROVIDER_NETWORKS"
EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))
NEVER = [
    "169.254.169.254",
    "0xa9fea9fe",
    "[fe80::1]",
    "[::ffff:169.254.169.254]",
    "0.0.0.0",
    "metadata.google.internal",
]
LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "2130706433"]
PRIVATE = ["10.1.2.3", "192.168.1.1", "172.16.0.1", "[fc00::1]", "100.64.0.1", "[::ffff:10.0.0.1]"]
PUBLIC = ["93.184.216.34", "[2606:2800:220:1::1]", "siem.example.com"]

SLACK_OPTIONS = {"channel": "C0123456", "app_id": "A0123456", "team_id": "T0123456"}
SLACK_KEYS = {"bot_token": Secret("xoxb-0123456789"), "signing_secret": Secret("0" * 32)}
MAIL = {"from": "postern@example.com", "to": "ann@example.com"}


def sink(kind: SinkKind, address: str, **more: Any) -> Callable[[str], dict[str, Any]]:
    return lambda host: sink_fields("it", kind, address.format(host=host), (EventKind.SESSION_OPEN,), **more)


def secret_sink(kind: SinkKind, address: str) -> Callable[[str], dict[str, Any]]:
    return lambda host: sink_fields("it", kind, keys={"url": Secret(address.format(host=host))})


def mail(address: str) -> Callable[[str], dict[str, Any]]:
    return lambda host: sink_fields("it", SinkKind.EMAIL, address.format(host=host), options=MAIL)


SINKS: dict[str, Callable[[str], dict[str, Any]]] = {
    "webhook": sink(SinkKind.WEBHOOK, "https://{host}/hook"),
    "otlp": sink(SinkKind.OTLP, "https://{host}/v1/logs"),
    "syslog by TLS": sink(SinkKind.SYSLOG, "syslog+tls://{host}:6514"),
    "syslog by TCP": sink(SinkKind.SYSLOG, "syslog+tcp://{host}:601"),
    "syslog by UDP": sink(SinkKind.SYSLOG, "syslog+udp://{host}:514"),
    "Slack": lambda host: sink_fields(
        "it", SinkKind.SLACK, f"https://{host}/api", options=SLACK_OPTIONS, keys=SLACK_KEYS
    ),
    "Teams": secret_sink(SinkKind.TEAMS, "https://{host}/workflows/1"),
    "mail by TLS": mail("smtps://{host}:465"),
    "mail by STARTTLS": mail("smtp+starttls://{host}:587"),
    "Apprise": secret_sink(SinkKind.APPRISE, "jsons://{host}/hook"),
}
# Without TLS, or where an intermediate library looks names up, nothing but a named network is an address.
NAMED_ONLY = {"syslog by TCP", "syslog by UDP", "Apprise"}


async def save_sink(services: Services, admin: Principal, given: dict[str, Any]) -> None:
    await services.sinks.create(admin, given)
    await services.sinks.remove(admin, "it")


async def save_oidc(services: Services, admin: Principal, host: str) -> None:
    oidc = OidcFields(f"https://{host}/", "postern", Secret("s3cr3t"))
    await services.auth_settings.put(admin, AuthFields(LoginMethod.OIDC, oidc=oidc, confirm=True))


async def save_saml(services: Services, admin: Principal, host: str) -> None:
    saml = SamlConfig(idp_metadata_url=f"https://{host}/metadata")
    await services.auth_settings.put(admin, AuthFields(LoginMethod.SAML, saml=saml, confirm=True))


@dataclass(frozen=True)
class Place:
    """Where an administrator saves an address. `loopback`: those who run the server may mean this machine."""

    save: Callable[[Services, Principal, str], Awaitable[None]]
    setting: str
    loopback: bool = False
    named_only: bool = False


def place_of(make: Callable[[str], dict[str, Any]], named_only: bool) -> Place:
    return Place(lambda services, admin, host: save_sink(services, admin, make(host)), SINK_NETWORKS, False, named_only)


PLACES: dict[str, Place] = {name: place_of(make, name in NAMED_ONLY) for name, make in SINKS.items()} | {
    "OpenID Connect": Place(save_oidc, PROVIDER_NETWORKS, loopback=True),
    "SAML": Place(save_saml, PROVIDER_NETWORKS, loopback=True),
}


class Provider:
    """An identity provider that answers at every address."""

    async def check(self, config: AuthConfig) -> str:
        return "https://login.example.com"


def services_of(world: World, *, allowed: bool) -> Services:
    networks = EVERYTHING if allowed else ()
    return world.services(
        MachineFacts(
            provider=Provider(),
            sink_networks=AllowedNetworks(SINK_NETWORKS, networks),
            provider_networks=AllowedNetworks(PROVIDER_NETWORKS, networks),
        )
    )


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin", password_hash="x")


@pytest.mark.parametrize("name", PLACES)
async def test_addresses_are_refused_when_they_are_saved(world: World, admin: Principal, name: str) -> None:
    place, closed, open_ = PLACES[name], services_of(world, allowed=False), services_of(world, allowed=True)
    for host in NEVER:
        for services in (closed, open_):
            with pytest.raises(Invalid, match=r"link-local|must be an IP address"):
                await place.save(services, admin, host)
    for host in (*PRIVATE, *(() if place.loopback else LOOPBACK)):
        with pytest.raises(Invalid, match=place.setting):
            await place.save(closed, admin, host)
        await place.save(open_, admin, host)
    for host in LOOPBACK if place.loopback else ():
        await place.save(closed, admin, host)
    for host in PUBLIC:
        if not place.named_only:
            await place.save(closed, admin, host)


@pytest.mark.parametrize("name", sorted(NAMED_ONLY))
async def test_public_addresses_without_tls_are_refused_when_they_are_saved(
    world: World, admin: Principal, name: str
) -> None:
    with pytest.raises(Invalid, match=SINK_NETWORKS):
        await PLACES[name].save(services_of(world, allowed=False), admin, "93.184.216.34")


async def test_sink_is_checked_again_when_its_address_changes(world: World, admin: Principal) -> None:
    services = services_of(world, allowed=False)
    await services.sinks.create(admin, SINKS["webhook"]("siem.example.com"))
    with pytest.raises(Invalid, match=SINK_NETWORKS):
        await services.sinks.update(admin, "it", sink_fields(address="https://10.1.2.3/"))
    await services.sinks.create(admin, {**SINKS["Teams"]("siem.example.com"), "name": "chat"})
    with pytest.raises(Invalid, match=SINK_NETWORKS):
        await services.sinks.update(admin, "chat", sink_fields(keys={"url": Secret("https://10.1.2.3/")}))


async def test_sink_that_was_saved_under_another_setting_can_be_paused(world: World, admin: Principal) -> None:
    await services_of(world, allowed=True).sinks.create(admin, SINKS["webhook"]("10.1.2.3"))
    paused = await services_of(world, allowed=False).sinks.update(admin, "it", sink_fields(paused=True))
    assert paused.address == "https://10.1.2.3/hook"
