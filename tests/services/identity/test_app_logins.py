"""Logins of browsers at applications: a code works once, soon, in one browser, at one host; the credential ends with
the login."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.world import MACHINE, World

from postern.domain.features import Feature
from postern.domain.identity.credential import Credential, CredentialStatus, Issued
from postern.domain.identity.login import ClientKind, Login, LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, Toggle
from postern.errors import Conflict, Denied, Invalid, NotFound, StepUpRequired, Unauthenticated
from postern.protocols.verifiers import fits
from postern.services.bundle import Services
from postern.services.identity.app_logins import CODE_LIFE, challenge_of
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.logins import ClientFacts
from postern.store.ports.common_ports import Topic

NONCE = Secret("n" * 43)
CHALLENGE = challenge_of(NONCE)
BROWSER = ClientFacts(ClientKind.WEB, "192.0.2.7", "a browser")


@pytest.fixture
def services(world: World) -> Services:
    """Connections of PostgreSQL stand for applications: what they are does not matter here."""
    return applications(world.services())


def applications(services: Services) -> Services:
    services.app_logins._subtypes = frozenset({"postgres"})
    return services


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.fixture
async def grafana(world: World) -> Connection:
    return await world.add_connection("Team.Grafana")


async def log_in(services: Services, principal: Principal) -> Caller:
    account = await services.users.own(principal)
    opened = await services.logins.open(account, LoginMethod.OIDC, BROWSER)
    return Caller(account.principal, opened.login)


def login_of(caller: Caller) -> Login:
    assert caller.login is not None
    return caller.login


async def code_for(services: Services, caller: Caller, host: str = "team-grafana") -> Secret:
    url = await services.app_logins.begin(caller, host, CHALLENGE)
    start, _, query = url.partition("?")
    assert start == "http://team-grafana.localhost:7432/.postern/login"
    code, _, challenge = query.removeprefix("code=").partition("&challenge=")
    assert challenge == CHALLENGE
    return Secret(code)


async def opened(services: Services, caller: Caller) -> Issued:
    code = await code_for(services, caller)
    principal, issued = await services.app_logins.exchange(code, NONCE, "team-grafana")
    assert principal == caller.principal
    return issued


async def stored(services: Services, issued: Issued, owner: Principal) -> Credential:
    ((credential, _),) = [
        pair for pair in await services.credentials.of_principal(owner) if pair[0].id == issued.credential.id
    ]
    return credential


async def test_code_becomes_a_credential_of_that_connection_that_ends_with_the_login(
    world: World, services: Services, ann: Principal, grafana: Connection
) -> None:
    caller = await log_in(services, ann)
    assert not (await services.app_logins.find(ann, "team-grafana")).was_opened
    issued = await opened(services, caller)
    login = login_of(caller)
    assert issued.credential.connection_id == grafana.id
    assert (issued.credential.login_id, issued.credential.expires_at) == (login.id, login.expires_at)
    grant = await services.access.find_grant(issued.credential.username)
    assert grant is not None
    assert fits(issued.password, grant.verifier)
    permit = await services.access.admit(grant, source="192.0.2.7")
    assert await services.access.still_allowed(permit) is None
    assert (await services.app_logins.find(ann, "team-grafana")).was_opened

    await services.logins.end(ann, login.id)
    assert (await stored(services, issued, ann)).status(world.clock.now) is CredentialStatus.REVOKED
    assert "revoked" in (await services.access.still_allowed(permit) or "")
    assert {"principal_id": str(ann.id)} in world.signals.of(Topic.PRINCIPAL_CHANGED)
    ended = await services.access.find_grant(issued.credential.username)
    assert ended is not None
    with pytest.raises(Denied, match="revoked"):
        await services.access.admit(ended, source="192.0.2.7")


async def test_end_of_all_logins_revokes_but_of_the_present_one(
    services: Services, ann: Principal, grafana: Connection
) -> None:
    first, second = await log_in(services, ann), await log_in(services, ann)
    of_first, of_second = await opened(services, first), await opened(services, second)
    await services.own_logins.end_all(second, keep_current=True)
    assert (await stored(services, of_first, ann)).revoked_at is not None
    assert (await stored(services, of_second, ann)).revoked_at is None


async def test_login_that_makes_room_for_another_takes_its_credentials_along(
    services: Services, ann: Principal, grafana: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.store.sql.identity.sql_logins.MOST_LIVE", 1)
    issued = await opened(services, await log_in(services, ann))
    await log_in(services, ann)
    assert (await stored(services, issued, ann)).revoked_at is not None


async def test_code_works_once_soon_in_its_browser_and_at_its_host(
    world: World, services: Services, ann: Principal, grafana: Connection
) -> None:
    caller, exchange = await log_in(services, ann), services.app_logins.exchange
    code = await code_for(services, caller)
    with pytest.raises(Unauthenticated, match="another browser"):
        await exchange(code, Secret("m" * 43), "team-grafana")
    with pytest.raises(Unauthenticated, match="already used"):  # by the attempt
        await exchange(code, NONCE, "team-grafana")
    with pytest.raises(Unauthenticated, match="for another application"):
        await exchange(await code_for(services, caller), NONCE, "team-other")
    late = await code_for(services, caller)
    world.clock.now += CODE_LIFE
    with pytest.raises(Unauthenticated, match="expired"):
        await exchange(late, NONCE, "team-grafana")
    assert await services.credentials.of_principal(ann) == []


async def test_code_of_a_login_that_has_ended_is_worth_nothing(
    services: Services, ann: Principal, grafana: Connection
) -> None:
    caller = await log_in(services, ann)
    code = await code_for(services, caller)
    await services.logins.end(ann, login_of(caller).id)
    with pytest.raises(Unauthenticated, match="ended"):
        await services.app_logins.exchange(code, NONCE, "team-grafana")
    code = await code_for(services, caller)
    await services.logins.end_all(ann.id)
    with pytest.raises(Unauthenticated, match="already used"):
        await services.app_logins.exchange(code, NONCE, "team-grafana")


async def test_credential_of_a_login_that_ends_meanwhile_is_not_added(
    services: Services, ann: Principal, grafana: Connection
) -> None:
    login = login_of(await log_in(services, ann))
    await services.logins.end(ann, login.id)
    with pytest.raises(Unauthenticated, match="this login has ended"):
        await services.credentials.issue(ann, "Team.Grafana", None, login_id=login.id)


async def test_shorter_access_of_the_connection_counts(
    world: World, services: Services, ann: Principal, grafana: Connection
) -> None:
    await world.overwrite(grafana, access_max_duration=600)
    issued = await opened(services, await log_in(services, ann))
    assert issued.credential.expires_at == world.clock.now + timedelta(seconds=600)


async def test_two_connections_of_one_host_are_opened_by_nobody_who_sees_both(
    world: World, services: Services, ann: Principal, grafana: Connection
) -> None:
    await world.add_connection("team_grafana")
    with pytest.raises(Conflict, match=r"team-grafana.localhost stands for connections 'Team.Grafana' and 'team_graf"):
        await services.app_logins.find(ann, "team-grafana")


async def test_hidden_and_unknown_applications_are_alike(
    world: World, services: Services, ann: Principal, grafana: Connection
) -> None:
    caller = await log_in(services, ann)
    with pytest.raises(NotFound, match=r"no application at the host nothing\.localhost"):
        await services.app_logins.begin(caller, "nothing", CHALLENGE)
    root = await world.add_user("root", "admin")
    await services.features.put(root, Feature.ACCESS_CONTROL, enabled=True)
    with pytest.raises(NotFound, match=r"no application at the host team-grafana\.localhost"):
        await applications(world.services()).app_logins.begin(caller, "team-grafana", CHALLENGE)


async def test_what_admission_would_deny_is_said_on_the_page(
    world: World, services: Services, ann: Principal, grafana: Connection
) -> None:
    caller = await log_in(services, ann)
    grafana = await world.overwrite(grafana, access_mode_connect=Toggle.DISABLED)
    with pytest.raises(Denied, match="access mode connect is disabled"):
        await services.app_logins.begin(caller, "team-grafana", CHALLENGE)
    auditor = await world.add_user("eve", "auditor")
    await world.overwrite(grafana, access_mode_connect=Toggle.ENABLED)
    with pytest.raises(Denied, match="auditors"):
        await services.app_logins.begin(await log_in(services, auditor), "team-grafana", CHALLENGE)


async def test_fresh_login_is_required_where_the_connection_says_so(
    world: World, services: Services, ann: Principal, grafana: Connection
) -> None:
    await world.overwrite(grafana, access_fresh_factor=Toggle.ENABLED)
    caller = await log_in(services, ann)
    await code_for(services, caller)
    world.clock.forward(minutes=11)
    with pytest.raises(StepUpRequired, match="prove again who you are"):
        await services.app_logins.begin(caller, "team-grafana", CHALLENGE)


async def test_only_logged_in_users_open_applications(services: Services, ann: Principal, grafana: Connection) -> None:
    with pytest.raises(Denied, match="only logged-in users"):
        await services.app_logins.begin(Caller(ann), "team-grafana", CHALLENGE)
    caller = await log_in(services, ann)
    with pytest.raises(Invalid, match="challenge"):
        await services.app_logins.begin(caller, "team-grafana", "short")


async def test_without_a_listener_no_browser_can_open_it(world: World, ann: Principal, grafana: Connection) -> None:
    services = applications(world.services())
    services.app_logins._subtypes = frozenset({"postgres", "nothing"})
    addresses = await services.app_logins.addresses()
    assert addresses.url_of(grafana) == "http://team-grafana.localhost:7432"
    assert MACHINE.config.listeners.keys() >= addresses.ports.keys()
    services.app_logins._addresses_of = lambda config: type(addresses)(addresses.domain, "http", {})  # type: ignore[method-assign]
    with pytest.raises(Invalid, match="POSTERN_POSTGRES_PORT"):
        await services.app_logins.find(ann, "team-grafana")
