"""Clients that log in at a browser: what they are shown, how many can wait, and what ends their wait."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import asyncssh
import pytest
from tests.gateway.ssh.test_attacks import USERAUTH_REQUEST, attacked
from tests.support.promises import PATIENT, until
from tests.support.ssh_gate import USER, Site, open_site
from tests.support.world import CLIENT, World

from postern.domain.identity.login import ClientKind, LoginMethod
from postern.domain.identity.principal import Principal
from postern.errors import NotFound, Unavailable
from postern.gateway.clients.listener import ConnectionLimiter
from postern.protocols.ssh.listener import ssh_admission as admission
from postern.protocols.ssh.listener.ssh_browser_login import PendingBrowserLogin
from postern.services.bundle import Services
from postern.services.identity.logins.ssh_logins import BrowserLogin

INFO_RESPONSE = 61


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def site(services: Services, ann: Principal) -> AsyncIterator[Site]:
    async with open_site(services) as made:
        yield made


class Waits(asyncssh.SSHClient):
    """`answers` are its responses to the prompts."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.shown: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.conn: Any = conn

    def kbdint_auth_requested(self) -> str:
        return ""

    def kbdint_challenge_received(self, name: str, instructions: str, lang: str, prompts: Any) -> list[str]:
        assert not prompts
        found = re.search(r"user_code=(\S+)\s.*number (\d\d) there", instructions, re.DOTALL)
        assert found is not None
        self.shown.set_result((found[1], found[2]))
        return self._answers


def begin(
    site: Site, waits: Waits, username: str = "ann#web-1", **options: Any
) -> asyncio.Task[asyncssh.SSHClientConnection]:
    return asyncio.create_task(site.connect(username, client_factory=lambda: waits, **options))


async def shown(waits: Waits) -> tuple[str, str]:
    return await asyncio.wait_for(waits.shown, PATIENT)


async def let_in(services: Services, principal: Principal, code: str, number: str) -> None:
    account = await services.users.own(principal)
    login = (await services.logins.open(account, LoginMethod.LOCAL, CLIENT)).login
    await services.ssh_logins.decide(account, login, code, allow=True, number=number)


async def gone(services: Services, principal: Principal, code: str) -> None:
    """Nobody can let it in any more."""

    async def is_gone() -> bool:
        try:
            await services.ssh_logins.look(principal, code)
        except NotFound:
            return True
        return False

    await until(is_gone)


async def live(services: Services, principal: Principal) -> int:
    return len([one for one in await services.logins.live(principal) if one.client is ClientKind.SSH])


async def none_live(services: Services, principal: Principal) -> bool:
    return not await live(services, principal)


async def test_client_continues_once_it_is_approved_in_the_browser(
    site: Site, services: Services, ann: Principal
) -> None:
    waits = Waits()
    connecting = begin(site, waits)
    await let_in(services, ann, *await shown(waits))
    async with await connecting as conn:
        await conn.run("true")
        assert site.flow.asked == [("ann@example.com", "web-1")]
        assert await live(services, ann) == 1
    await until(lambda: none_live(services, ann))


async def test_nested_connection_needs_no_second_browser_login(site: Site, services: Services, ann: Principal) -> None:
    waits = Waits()
    connecting = begin(site, waits, "ann")
    await let_in(services, ann, *await shown(waits))
    async with (
        await connecting as jump,
        await asyncssh.connect(
            "web-1", tunnel=jump, username="any", known_hosts=None, agent_path=None, config=None, client_keys=[]
        ) as conn,
    ):
        await conn.run("true")
    assert site.flow.asked == [("ann@example.com", "web-1")]


async def test_offered_auth_methods_depend_only_on_the_form_of_the_user_name(site: Site) -> None:
    for name, offered in (
        ("ann#web-1", {"publickey", "keyboard-interactive"}),
        ("nobody#web-1", {"publickey", "keyboard-interactive"}),
        ("ann", {"publickey", "keyboard-interactive", "password"}),
        (USER, {"publickey", "password"}),
        ("eve-web_1-zzzzzz", {"publickey", "password"}),
        ("#web-1", {"publickey"}),
    ):
        methods = await asyncssh.get_server_auth_methods("127.0.0.1", site.port, username=name, config=None)
        assert set(methods) == offered


async def test_disconnected_client_cannot_be_approved_in_the_browser(
    site: Site, services: Services, ann: Principal
) -> None:
    waits = Waits()
    connecting = begin(site, waits)
    code, _ = await shown(waits)
    waits.conn.abort()
    await asyncio.gather(connecting, return_exceptions=True)
    await gone(services, ann, code)
    assert not site.flow.asked


async def test_key_login_during_the_wait_replaces_the_browser_login(
    site: Site, services: Services, ann: Principal
) -> None:
    """The user need not do both, and the browser login leaves nothing behind."""
    key = site.keys.add("bob")
    waits = Waits()
    connecting = begin(
        site, waits, "bob#web-1", preferred_auth=["keyboard-interactive", "publickey"], client_keys=[key]
    )
    code, _ = await shown(waits)
    await asyncio.sleep(0.1)
    waits.conn.try_next_auth(next_method=True)
    async with await connecting as conn:
        await conn.run("true")
    assert site.flow.asked == [("bob@example.com", "web-1")]
    await gone(services, ann, code)


async def test_number_of_waiting_browser_logins_is_limited_and_freed(
    site: Site, services: Services, ann: Principal
) -> None:
    site.gate.admission.browsers._places = ConnectionLimiter(most=3, most_per_address=2)
    waiting = [Waits(), Waits()]
    tasks = [begin(site, one) for one in waiting]
    codes = [(await shown(one))[0] for one in waiting]
    with pytest.raises(asyncssh.DisconnectError, match="too many clients already wait"):
        await begin(site, Waits())
    waiting[0].conn.abort()
    await gone(services, ann, codes[0])
    third = Waits()
    tasks.append(begin(site, third))
    await let_in(services, ann, *await shown(third))
    conn = await tasks[2]
    fourth = Waits()  # who is let in waits no more
    tasks.append(begin(site, fourth))
    await shown(fourth)
    conn.abort()
    for one in (waiting[1], fourth):
        one.conn.abort()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_browser_logins_begun_from_one_network_are_limited(site: Site) -> None:
    for _ in range(30):
        waits = Waits()
        connecting = begin(site, waits)
        await shown(waits)
        waits.conn.abort()
        await asyncio.gather(connecting, return_exceptions=True)
    with pytest.raises(asyncssh.DisconnectError, match="too many logins begun"):
        await begin(site, Waits())


async def test_ssh_connection_begins_at_most_one_browser_login(site: Site, services: Services, ann: Principal) -> None:
    waits = Waits()
    connecting = begin(site, waits)
    code, _ = await shown(waits)
    waits.conn.send_packet(USERAUTH_REQUEST, _request("ann#web-1", "keyboard-interactive", b"\0\0\0\0" * 2))
    with pytest.raises(asyncssh.DisconnectError, match="too many authentication failures"):
        await connecting
    await gone(services, ann, code)


async def test_unsolicited_response_admits_no_client(site: Site) -> None:
    for answers in (["yes"], ["", ""]):
        with pytest.raises(asyncssh.DisconnectError, match="no response was requested"):
            await begin(site, Waits(*answers))

    async def answers_first(conn: Any) -> None:
        conn.send_packet(INFO_RESPONSE, b"\0\0\0\0")
        await conn.wait_closed()

    await attacked(site, answers_first)


async def test_repeated_responses_count_as_one(site: Site, services: Services, ann: Principal) -> None:
    waits = Waits()
    connecting = begin(site, waits)
    code, number = await shown(waits)
    for _ in range(200):
        waits.conn.send_packet(INFO_RESPONSE, b"\0\0\0\0")
    await let_in(services, ann, code, number)
    async with await connecting as conn:
        await conn.run("true")
    assert site.flow.asked == [("ann@example.com", "web-1")]


async def test_client_that_switches_the_auth_method_is_not_admitted(
    site: Site, services: Services, ann: Principal
) -> None:
    """It requests an unknown method; if it was approved already, its login ends with the connection."""
    waits = Waits()
    connecting = begin(site, waits, preferred_auth=["keyboard-interactive"])
    code, number = await shown(waits)
    waits.conn.send_packet(USERAUTH_REQUEST, _request("ann#web-1", "none", b""))
    with pytest.raises((asyncssh.Error, OSError)):
        await connecting
    with suppress(NotFound):
        await let_in(services, ann, code, number)
    await until(lambda: none_live(services, ann))
    await gone(services, ann, code)
    assert not site.flow.asked


@pytest.mark.ci
async def test_browser_login_times_out_whatever_the_client_sends(
    site: Site, services: Services, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LONGEST", 1.0)
    site.gate.admission.browsers._places = ConnectionLimiter(most=1, most_per_address=1)
    for _ in range(2):
        waits = Waits()
        connecting = begin(site, waits)
        code, _number = await shown(waits)
        with pytest.raises((asyncssh.Error, OSError)):
            await asyncio.wait_for(connecting, PATIENT)
        await gone(services, ann, code)


async def test_stopping_worker_ends_waiting_browser_logins(site: Site, services: Services, ann: Principal) -> None:
    waits = Waits()
    connecting = begin(site, waits)
    code, _ = await shown(waits)
    await asyncio.wait_for(site.logins.stop(1), PATIENT)
    with pytest.raises((asyncssh.Error, OSError)):
        await asyncio.wait_for(connecting, PATIENT)
    await gone(services, ann, code)


class Settled:
    """A login that was approved at the very moment when its client disconnected."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    async def wait(self, waiting: object) -> BrowserLogin:
        nothing: Any = None
        return BrowserLogin(nothing, nothing)

    async def give_up(self, waiting: object) -> None:
        raise Unavailable("not now")

    async def end(self, given: object) -> None:
        self.ended.append(given)


async def test_login_approved_too_late_is_logged_out() -> None:
    settled: Any = Settled()
    nothing: Any = None
    await PendingBrowserLogin(settled, nothing).withdraw()
    assert len(settled.ended) == 1


def _request(username: str, method: str, rest: bytes) -> bytes:
    texts = (username, "ssh-connection", method)
    return b"".join(len(text).to_bytes(4, "big") + text.encode() for text in texts) + rest
