"""The processes of one machine, under the supervisor: `postern up` and `postern gateway` run them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace

import click

from postern import __version__
from postern.descriptors import INHERITED, inherited_limit, raise_limit
from postern.domain.identity.login import LoginMethod
from postern.errors import Misconfigured, Unavailable
from postern.gateway.clients.ports import settle
from postern.gateway.processes.children import ChildSpec
from postern.gateway.processes.data_folder import lock_data_folder
from postern.gateway.processes.forked_processes import ForkServer
from postern.gateway.processes.service_manager import READY, STOPPING, ServiceManager
from postern.gateway.processes.supervisor import Supervisor
from postern.gateway.processes.supervisor import run as supervise
from postern.protocols.registry import PROTOCOLS
from postern.settings import Settings
from postern.store.ports.common_ports import Topic
from postern.store.signals import SignalHub
from postern.wiring.paths import first_run_file, gateway_id, signals_socket
from postern.wiring.program import path_hint, program_name

log = logging.getLogger(__name__)

LEAST_WATCHDOG = 5.0  # seconds: some heartbeats can always be late
# -P: a file in the current folder must not be imported as a module.
_PROGRAM = ("-P", "-m", "postern")
# What each process loads, in the order in which they are started.
_PRELOADED: Mapping[str, tuple[str, ...]] = {
    "prepare": ("postern.cli.main", "postern.cli.commands.processes.prepare_commands"),
    "worker": (
        "postern.cli.commands.processes.worker_commands",
        *(module for spec in PROTOCOLS.values() for module in spec.preload),
    ),
    "archiver": ("postern.cli.commands.processes.archiver_commands",),
    "api": ("postern.cli.commands.processes.api_commands",),
    "release": ("postern.cli.commands.processes.release_commands",),
}


def run(settings: Settings, environ: Mapping[str, str]) -> None:
    """Run the gateway. Blocks until SIGINT or SIGTERM. Raises Conflict, Misconfigured or Unavailable if it cannot
    start."""
    check_processes(settings)
    raise_limit()
    with lock_data_folder(settings.home):
        fork_server = start_fork_server(settings, environ)
        try:
            asyncio.run(_run(settle(settings), {**environ, INHERITED: str(inherited_limit())}, fork_server))
        finally:
            if fork_server is not None:
                fork_server.stop()


def check_processes(settings: Settings) -> None:
    """Raises Misconfigured."""
    if 0 < settings.watchdog_timeout < LEAST_WATCHDOG or settings.watchdog_timeout < 0:
        raise Misconfigured(
            f"POSTERN_WATCHDOG_TIMEOUT: {settings.watchdog_timeout:g} seconds would end processes that are "
            f"only busy; set at least {LEAST_WATCHDOG:g}, or 0 for no watchdog",
            field="watchdog_timeout",
        )
    if settings.workers < 1:
        raise Misconfigured(
            f"POSTERN_WORKERS: {settings.workers} workers cannot carry traffic; set 1 or more", field="workers"
        )


def start_fork_server(settings: Settings, environ: Mapping[str, str]) -> ForkServer | None:
    """Start the fork server, which loads the program while this process prepares the rest. It gets no settings, since
    some are secrets."""
    if not settings.preload or not ForkServer.is_supported():
        return None
    secret = settings.master_key_variables
    environment = {
        name: value for name, value in environ.items() if not name.startswith("POSTERN_") and name not in secret
    }
    server = ForkServer((*_PROGRAM, "fork-server"), _PROGRAM, environment, preloaded_modules())
    server.start()
    return server


def preloaded_modules() -> tuple[str, ...]:
    return tuple(module for modules in _PRELOADED.values() for module in modules)


async def _run(settings: Settings, environ: Mapping[str, str], fork_server: ForkServer | None) -> None:
    hub = SignalHub(signals_socket(settings))
    manager = ServiceManager(environ)
    environment = {**environ, **settings.environment()}
    supervisor = Supervisor(environment, watchdog_timeout=settings.watchdog_timeout, fork_server=fork_server)

    async def body(supervisor: Supervisor) -> None:
        log.info("postern %s starts with the data folder %s", __version__, settings.home)
        await hub.start()
        _reload_on_hangup(hub)
        if settings.demo:
            # It runs programs of another user, and needs little of the program.
            demo = ChildSpec("demo", (*_PROGRAM, "demo"), outlives=True, without=settings.master_key_variables)
            await supervisor.start(demo)
        is_first = not first_run_file(settings).exists()
        await supervisor.run_once(_child("prepare"))
        names = [f"w{number}" for number in range(1, settings.workers + 1)]
        # The API comes last, as its modules take longest to load.
        served = [*(_child(name, "worker", "--name", name) for name in names), _child("archiver"), _child("api")]
        await supervisor.start(*(replace(spec, heartbeat=True) for spec in served))
        click.echo(_banner(settings, is_first and _can_show_secrets(settings)))
        manager.notify(READY)
        heartbeats = asyncio.create_task(manager.keep_alive())
        try:
            await supervisor.wait()
        finally:
            heartbeats.cancel()
            manager.notify(STOPPING)

    try:
        await supervise(supervisor, body)
    finally:
        await hub.stop()
        await _release(settings, supervisor)
    log.info("postern has stopped")


def _reload_on_hangup(hub: SignalHub) -> None:
    """Have SIGHUP read the certificates again, except at a terminal, where it means that this has been closed."""
    if os.isatty(0):
        return

    def reload() -> None:
        log.info("reading the certificates again, because of SIGHUP")
        hub.publish(Topic.CERTIFICATES_CHANGED)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


async def _release(settings: Settings, supervisor: Supervisor) -> None:
    """Release the store after all processes of this gateway have ended."""
    if not gateway_id(settings).exists():  # the start failed before the claim
        return
    try:
        await supervisor.run_once(_child("release"))
    except Unavailable as error:
        log.warning("%s; a different gateway can use the store only in a minute", error.message)


def _child(name: str, *arguments: str) -> ChildSpec:
    words = arguments or (name,)
    return ChildSpec(name, (*_PROGRAM, *words), preload=_PRELOADED[words[0]])


def _can_show_secrets(settings: Settings) -> bool:
    """Return whether a person reads the output. That of a service or a container is a log, which others read, too."""
    return settings.demo or sys.stdout.isatty()


def _admin(settings: Settings, first_run: Mapping[str, str], is_first: bool) -> list[str]:
    """Print how the first administrator logs in. Their first password works only with local login."""
    file = first_run_file(settings)
    if not first_run["admin_password"]:
        return [
            "",
            f"  If no administrator can log in, `{program_name()} setup-link` creates a link that sets a password.",
        ]
    if not is_first:
        return ["", f"  The first administrator's first password is in {file}."]
    lines = ["", f"    admin     {first_run['admin_email']}"]
    if settings.auth_method == LoginMethod.LOCAL:
        lines += [f"    password  {first_run['admin_password']}"]
    if first_run["setup_url"]:
        lines += ["", "  Choose your own password with this link, which works once within a day:"]
        lines += [f"    {program_name()} setup '{first_run['setup_url']}'", "  or open it in a browser:"]
        lines += [f"    {first_run['setup_url']}"]
    return [
        *lines,
        "",
        f"  {file} also contains this, readable only by you; delete it when you have your own password.",
    ]


def _banner(settings: Settings, is_first: bool) -> str:
    """Print what a new user needs, ready to paste; secrets only once."""
    first_run = json.loads(first_run_file(settings).read_text())
    lines = ["", f"  Postern is up at {settings.api_url}. Ctrl-C stops it.", *_admin(settings, first_run, is_first)]
    if settings.demo and first_run.get("psql"):
        psql = first_run["psql"] if is_first else f"the psql line in {first_run_file(settings)}"
        lines += ["", "  Try it in a different terminal:", f"    {psql}", f"    {program_name()} sessions"]
        if shutil.which("psql") is None:
            lines += ["", "  (psql is not installed here: apt-get install postgresql-client)"]
    hint = path_hint()
    if hint:
        lines += ["", "  `postern` is not on your PATH. To run it as the documentation writes it:", f"    {hint}"]
    return "\n".join([*lines, ""])
