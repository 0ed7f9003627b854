"""The API over real HTTP on loopback, on a thread with an event loop of its own, for tests of its clients."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from click.testing import CliRunner, Result
from tests.support.application import lent
from tests.support.asked_tracker import AskedTracker
from tests.support.templates import filled_world
from tests.support.world import MACHINE, World, logged_in

from postern.api.info import StaticServerInfo
from postern.cli.login.config_file import Config
from postern.cli.login.profile import config
from postern.cli.main import cli
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.ldap_client import LdapClient
from postern.integrations.identity.oidc import OpenIdClient
from postern.services.bundle import Services
from postern.services.server.server_configs import ServerFields
from postern.store.database import Database

T = TypeVar("T")
SSH_HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
INFO = StaticServerInfo("localhost", "wss://localhost:7443", "grpcs://localhost:7444", None, ssh_host_key=SSH_HOST_KEY)
ROOT, ANN = "root@example.com", "ann@example.com"  # an administrator and a user of the group dba
PASSWORD = "a long enough password"  # of both


@dataclass
class Served:
    """A gateway's API at `url`. `cli` is the command line of one person, whose configuration is below `folder`."""

    url: str
    world: World
    services: Services
    root: Principal
    folder: Path
    loop: asyncio.AbstractEventLoop
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environment = {"XDG_CONFIG_HOME": str(self.folder), "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the server's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def cli(self, *arguments: str, stdin: str | None = None, **environment: str) -> Result:
        """Its exit code and what it printed. What no command should raise is raised."""
        ours = {name: None for name in os.environ if name.startswith("POSTERN_")}
        result = CliRunner().invoke(cli, arguments, input=stdin, env={**ours, **self.environment, **environment})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def ok(self, *arguments: str, stdin: str | None = None, **environment: str) -> Result:
        result = self.cli(*arguments, stdin=stdin, **environment)
        assert result.exit_code == 0, result.output
        return result

    def json(self, *arguments: str, stdin: str | None = None) -> Any:
        return json.loads(self.ok(*arguments, "--json", stdin=stdin).stdout)

    def log_in(self, email: str = ROOT, *more: str) -> None:
        self.ok("login", self.url, "--email", email, "--password-stdin", *more, stdin=PASSWORD + "\n")

    @contextmanager
    def started(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """The command line in a process of its own, killed at the end if it lives still."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "postern", *arguments],
            env={**kept, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def config(self) -> Config:
        return config(self.environment)

    @property
    def file(self) -> Path:
        return self.folder / "postern" / "config.json"


@contextmanager
def served(folder: Path, migrated: Path, url: str | None = None) -> Iterator[Served]:
    """`folder` is for the configuration, and the store, which begins as a copy of `migrated`, unless it is at `url`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    if url is None:
        shutil.copy(migrated, folder / "postern.db")
        url = f"sqlite:///{folder / 'postern.db'}"
    database = Database(url)
    world, root = run(_world(database))
    services = world.services(replace(MACHINE, provider=OpenIdClient(ProviderFetcher(), world.clock)))
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    run(services.server_configs.put(root, ServerFields(api_url=address)))
    with lent(services, INFO, exec_wait=5.0, stream_life=5.0) as app:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1))
        serving = asyncio.run_coroutine_threadsafe(server.serve(sockets=[listening]), loop)
        try:
            yield Served(address, world, services, root, folder / "config", loop)
        finally:
            server.should_exit = True
            serving.result(60)
            run(database.close())
            loop.call_soon_threadsafe(loop.stop)
            thread.join(30)


async def _world(database: Database) -> tuple[World, Principal]:
    """Return it with the administrator."""
    world, root = await filled_world(database, _make_people)
    world.clock.now = datetime.now(UTC)  # clients and identity providers have the real time
    world.openid = OpenIdClient(ProviderFetcher(), world.clock)
    world.ldap = LdapClient()
    world.trackers = AskedTracker()
    return world, root


async def _make_people(world: World) -> Principal:
    """Return the administrator."""
    world.clock.now = datetime.now(UTC)
    services = world.services()
    first = await services.accounts.ensure_first_admin()
    assert first is not None
    opened = await logged_in(services, *first)
    admin = (await services.authentication.caller(opened.token, address="::1")).principal
    ann = {"email": ANN, "name": "Ann", "groups": ("dba",), "password": Secret(PASSWORD)}
    root = {"email": ROOT, "name": "Root", "groups": ("admin",), "password": Secret(PASSWORD)}
    await services.users.create(admin, ann)
    return (await services.users.create(admin, root)).principal
