"""An SSH client that waits for somebody at a browser: who may let it in, by what, how often, and for how long."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.world import API_URL, World

from postern.domain.identity.login import ClientKind, Login, LoginMethod, Provided
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.sessions.session import Verb
from postern.errors import Denied, NotFound, TooMany, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.logins.logins import ClientFacts
from postern.services.identity.logins.ssh_logins import LIFE, BrowserLogin, SshClaim, WaitingSshLogin
from postern.store.ports.common_ports import Topic

HERE = "192.0.2.7"
WANTED = SshClaim("ann", "web-1", "SSH-2.0-OpenSSH_9.2")


@pytest.fixture
def worker(world: World) -> Services:
    """The process in which the client waits."""
    return world.services()


@pytest.fixture
def api(world: World) -> Services:
    """The process in which somebody decides."""
    return world.services()


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


async def browser(services: Services, principal: Principal, provided: Provided | None = None) -> tuple[Account, Login]:
    account = await services.users.own(principal)
    facts = ClientFacts(ClientKind.WEB, HERE, "a browser")
    return account, (await services.logins.open(account, LoginMethod.OIDC, facts, provided)).login


async def let_in(services: Services, principal: Principal, waiting: WaitingSshLogin) -> None:
    account, login = await browser(services, principal)
    await services.ssh_logins.decide(account, login, waiting.code, allow=True, number=waiting.number)


async def test_whoever_types_the_number_lets_the_client_in(
    world: World, worker: Services, api: Services, ann: Principal
) -> None:
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    assert re.fullmatch(re.escape(API_URL) + r"/ssh-login\?user_code=[A-Z]{4}-[A-Z]{4}", waiting.url)
    assert re.fullmatch("[0-9]{2}", waiting.number)
    assert waiting.secret.reveal() not in repr(waiting)
    task = asyncio.create_task(worker.ssh_logins.wait(waiting))
    asking = await api.ssh_logins.look(ann, waiting.code.lower())
    assert (asking.wanted, asking.address, asking.since) == (WANTED, HERE, world.clock.now)
    await let_in(api, ann, waiting)
    found = await asyncio.wait_for(task, 30)
    assert found.principal == ann
    assert (found.login.client, found.login.source, found.login.method) == (ClientKind.SSH, HERE, LoginMethod.OIDC)
    assert found.login.user_agent == "SSH-2.0-OpenSSH_9.2"
    assert found.means == f"ssh-login:{found.login.id}"
    assert world.signals.of(Topic.SSH_LOGIN_SETTLED) == [{"ssh_login_id": str(waiting.id)}]
    for nothing_left in (worker.ssh_logins.wait(waiting), let_in(api, ann, waiting)):
        with pytest.raises((Unauthenticated, NotFound)):
            await nothing_left


async def test_it_is_heard_also_without_a_signal_and_before_anybody_waits(
    worker: Services, api: Services, ann: Principal
) -> None:
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    await let_in(api, ann, waiting)
    assert (await asyncio.wait_for(worker.ssh_logins.wait(waiting), 30)).principal == ann


async def test_a_wrong_number_refuses_it_for_good(worker: Services, api: Services, ann: Principal) -> None:
    for wrong in ("", "7", "x", "123"):
        waiting = await worker.ssh_logins.begin(HERE, WANTED)
        account, login = await browser(api, ann)
        with pytest.raises(Denied, match="not the number"):
            await api.ssh_logins.decide(account, login, waiting.code, allow=True, number=wrong)
        with pytest.raises(NotFound):
            await let_in(api, ann, waiting)
        with pytest.raises(Denied, match="denied"):
            await worker.ssh_logins.wait(waiting)


async def test_only_whom_the_client_named_lets_it_in(
    world: World, worker: Services, api: Services, ann: Principal
) -> None:
    bob = await world.add_user("bob")
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    with pytest.raises(Denied, match="for a different user"):
        await let_in(api, bob, waiting)
    with pytest.raises(Denied):
        await worker.ssh_logins.wait(waiting)
    for user in ("ann@example.com", ann.subject):
        waiting = await worker.ssh_logins.begin(HERE, replace(WANTED, user=user))
        await let_in(api, ann, waiting)
        assert (await worker.ssh_logins.wait(waiting)).principal == ann


async def test_refused_is_refused(worker: Services, api: Services, ann: Principal) -> None:
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    account, login = await browser(api, ann)
    await api.ssh_logins.decide(account, login, waiting.code, allow=False)
    with pytest.raises(Denied):
        await worker.ssh_logins.wait(waiting)


async def test_it_expires_and_goes_with_its_client(
    world: World, worker: Services, api: Services, ann: Principal
) -> None:
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    world.clock.now += LIFE
    with pytest.raises(NotFound):
        await let_in(api, ann, waiting)
    with pytest.raises(Unauthenticated):
        await worker.ssh_logins.wait(waiting)
    gone = await worker.ssh_logins.begin(HERE, WANTED)
    await worker.ssh_logins.give_up(gone)
    with pytest.raises(NotFound):
        await let_in(api, ann, gone)
    await worker.ssh_logins.give_up(gone)  # twice is fine


async def test_who_lost_the_account_meanwhile_is_not_let_in(
    world: World, worker: Services, api: Services, ann: Principal
) -> None:
    root = await world.add_user("root", "admin")
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    await let_in(api, ann, waiting)
    await api.users.update(root, ann.email, {"status": PrincipalStatus.INACTIVE})
    with pytest.raises(Unauthenticated):
        await worker.ssh_logins.wait(waiting)


async def test_a_login_stands_until_it_is_ended(world: World, worker: Services, api: Services, ann: Principal) -> None:
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    await let_in(api, ann, waiting)
    found = await worker.ssh_logins.wait(waiting)
    assert (await worker.ssh_logins.standing(found)).principal == ann
    await worker.ssh_logins.end(found)
    with pytest.raises(Unauthenticated):
        await worker.ssh_logins.standing(found)


@pytest.mark.parametrize("everywhere", [False, True])
async def test_what_runs_under_it_ends_with_it(
    world: World, worker: Services, api: Services, ann: Principal, everywhere: bool
) -> None:
    await world.add_connection()
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    await let_in(api, ann, waiting)
    found = await worker.ssh_logins.wait(waiting)
    permit = await worker.access.admit_principal(
        found.principal, "shop", verb=Verb.CONNECT, source=HERE, means=found.means, expires_at=found.until
    )
    assert await worker.access.still_allowed(permit) is None
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == []
    if everywhere:
        await api.logins.end_all(ann.id)
    else:
        await api.logins.end(ann, found.login.id)
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(ann.id)}]
    assert "has ended" in str(await worker.access.still_allowed(permit))


async def test_it_ends_no_later_than_the_providers_word(
    world: World, worker: Services, api: Services, ann: Principal
) -> None:
    until = world.clock.now + timedelta(minutes=30)
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    account, login = await browser(api, ann, Provided(until))
    await api.ssh_logins.decide(account, login, waiting.code, allow=True, number=waiting.number)
    found: BrowserLogin = await worker.ssh_logins.wait(waiting)
    assert found.until == until


async def test_strangers_begin_few_and_people_guess_few(
    world: World, worker: Services, api: Services, ann: Principal
) -> None:
    for _ in range(30):
        await worker.ssh_logins.begin(HERE, WANTED)
    with pytest.raises(TooMany):
        await worker.ssh_logins.begin(HERE, WANTED)
    other = await worker.ssh_logins.begin("198.51.100.1", WANTED)
    for _ in range(10):
        with pytest.raises(NotFound):
            await api.ssh_logins.look(ann, "BBBB-BBBB")
    with pytest.raises(TooMany):
        await api.ssh_logins.look(ann, other.code)


async def test_a_code_of_one_kind_is_none_of_another(worker: Services, api: Services, ann: Principal) -> None:
    waiting = await worker.ssh_logins.begin(HERE, WANTED)
    with pytest.raises(NotFound):
        await api.device_login.look(ann, waiting.code)
    device = await api.device_login.begin(ClientFacts(ClientKind.API, HERE, "postern"))
    with pytest.raises(NotFound):
        await api.ssh_logins.look(ann, device.user_code)
