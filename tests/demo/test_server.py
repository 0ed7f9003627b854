"""Against a real PostgreSQL. As root these runs also prove that the server leaves root and its closed folders."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.support.promises import within

from postern.demo import binaries, demo_target, shop
from postern.demo.binaries import Binaries
from postern.demo.demo_target import DemoTarget
from postern.demo.runner import DemoServer, populate
from postern.errors import Misconfigured, Unavailable

pytestmark = pytest.mark.ci

SOURCE = Path(__file__).resolve().parents[2] / "src"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DemoServer]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    made = DemoServer(home, free_port())
    yield made
    made.remove()


async def ask(at: DemoTarget, query: str, *, user: str = "", password: str = "") -> object:
    connection = await asyncpg.connect(
        host=at.host,
        port=at.port,
        user=user or at.user,
        password=password or at.password.reveal(),
        database=at.database,
    )
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def postmaster(server: DemoServer) -> int:
    return int((server.place.data / "postmaster.pid").read_text().split("\n", 1)[0])


def ended(pid: int, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


async def test_it_starts_filled_and_finds_its_state_again(server: DemoServer) -> None:
    first = server.start()
    assert await populate(first)
    assert await ask(first, "select count(*) from customers") == shop.CUSTOMERS
    assert await ask(first, "select count(*) > 400 from customer_spending")
    server.stop()
    second = server.start()
    assert second == first
    assert not await populate(second)
    assert await ask(second, "select name from customers where id = 1") == "Hana Dale"


async def test_it_asks_for_the_password_and_never_runs_as_root(server: DemoServer) -> None:
    at = server.start()
    await populate(at)
    with pytest.raises(asyncpg.InvalidPasswordError):
        await ask(at, "select 1", password="wrong")
    stored = await ask(
        at,
        "select rolpassword from pg_authid where rolname = 'shop'",
        user=demo_target.SUPERUSER,
        password=at.superuser_password.reveal(),
    )
    assert str(stored).startswith("SCRAM-SHA-256$")
    assert os.stat(f"/proc/{postmaster(server)}").st_uid != 0


def test_passwords_are_random_and_in_a_file_of_the_owner(server: DemoServer) -> None:
    at = server.start()
    assert demo_target.path(server.home).stat().st_mode & 0o777 == 0o600
    assert len(at.password.reveal()) >= 32
    assert at.password != at.superuser_password
    assert not (server.place.own / ".password").exists()


def test_it_stops_cleanly_with_clients_at_work(server: DemoServer) -> None:
    at = server.start()
    asyncio.run(populate(at))

    async def stop_under_a_client() -> None:
        client = await asyncpg.connect(
            host=at.host, port=at.port, user=at.user, password=at.password.reveal(), database=at.database
        )
        asleep = asyncio.ensure_future(client.execute("select pg_sleep(60)"))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < within(4)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await asleep

    asyncio.run(stop_under_a_client())
    assert not (server.place.data / "postmaster.pid").exists()


def test_a_stale_lock_of_another_living_process_is_no_obstacle(server: DemoServer) -> None:
    server.start()
    server.stop()
    # PostgreSQL itself would refuse: process 1 is alive and is not ours.
    stale = server.place.data / "postmaster.pid"
    stale.write_text(f"1\n{server.place.data}\n1\n1\n\n127.0.0.1\n0 0\nready\n")
    server.start()
    assert postmaster(server) != 1


def test_a_server_left_behind_is_ended_first(server: DemoServer) -> None:
    server.start()
    left = postmaster(server)
    successor = DemoServer(server.home, free_port())
    try:
        successor.start()
        assert ended(left)
    finally:
        successor.stop()


def test_lost_passwords_mean_new_data(server: DemoServer) -> None:
    before = server.start()
    server.stop()
    demo_target.path(server.home).unlink()
    after = server.start()
    assert after.password != before.password
    assert asyncio.run(populate(after))


def test_another_majors_data_are_a_clear_error(server: DemoServer) -> None:
    server.start()
    server.stop()
    (server.place.data / "PG_VERSION").write_text("9\n")
    with pytest.raises(Misconfigured, match="delete that folder"):
        server.start()


def test_a_port_in_use_says_so_and_names_the_setting(server: DemoServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", server.port))
        taken.listen()
        with pytest.raises(Unavailable, match=r"(?s)POSTERN_DEMO_PORT.*Address already in use"):
            server.start()


def test_an_unknown_target_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="postern up"):
        demo_target.load(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders that the server's account cannot reach")
def test_root_with_everything_in_closed_folders(
    server: DemoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    original = binaries.find()
    shutil.copytree(original.root, closed / "package" / "server", ignore=shutil.ignore_patterns("*.a"))
    assert original.libraries
    libraries = shutil.copytree(original.libraries, closed / original.libraries.name)
    hidden = Binaries(closed / "package" / "server", original.major, movable=True, libraries=libraries)
    monkeypatch.setattr(binaries, "find", lambda: hidden)
    at = server.start()
    assert asyncio.run(populate(at))
    assert os.path.samefile(f"/proc/{postmaster(server)}/exe", server.place.own / "server" / "bin" / "postgres")
    assert (server.place.own / "server" / "bin" / "postgres").stat().st_uid == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_demo_process_ends(server: DemoServer, number: signal.Signals) -> None:
    ready, told = os.pipe()
    runner = subprocess.Popen(
        [sys.executable, "-c", "import os, postern.settings as s, postern.demo.runner as r; r.run(s.load(os.environ))"],
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "POSTERN_HOME": str(server.home),
            "POSTERN_DEMO_PORT": str(server.port),
            "POSTERN_READY_FD": str(told),
        },
        pass_fds=[told],
    )
    os.close(told)
    assert os.read(ready, 100) == b"ready\n"
    os.close(ready)
    pid = postmaster(server)
    runner.send_signal(number)
    runner.wait(60)
    assert ended(pid)
    assert asyncio.run(_refused(demo_target.load(server.home)))


async def _refused(at: DemoTarget) -> bool:
    try:
        await ask(at, "select 1")
    except OSError:
        return True
    return False
