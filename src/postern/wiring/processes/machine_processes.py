"""The processes of one machine, under the supervisor: `postern up` and `postern gateway` run them."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace

import click

from postern import __version__
from postern.descriptors import INHERITED, inherited_limit, raise_limit
from postern.domain.identity.login import LoginMethod
from postern.errors import Misconfigured
from postern.gateway.clients.ports import settle
from postern.gateway.processes.children import ChildSpec
from postern.gateway.processes.data_folder import lock_data_folder
from postern.gateway.processes.supervisor import Supervisor
from postern.gateway.processes.supervisor import run as supervise
from postern.settings import Settings
from postern.store.signals import SignalHub
from postern.wiring import masters_wiring
from postern.wiring.host.claim import release
from postern.wiring.paths import first_run_file, signals_socket
from postern.wiring.program import path_hint, program_name

log = logging.getLogger(__name__)

LEAST_WATCHDOG = 5.0  # seconds: some heartbeats can always be late


def run(settings: Settings, environ: Mapping[str, str]) -> None:
    """Run the gateway. Blocks until SIGINT or SIGTERM. Raises Conflict, Misconfigured or Unavailable if it cannot
    start."""
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
    raise_limit()
    with lock_data_folder(settings.home):
        try:
            asyncio.run(_run(settle(settings), {**environ, INHERITED: str(inherited_limit())}))
        finally:
            release(settings)


async def _run(settings: Settings, environ: Mapping[str, str]) -> None:
    hub = SignalHub(signals_socket(settings))
    supervisor = Supervisor({**environ, **settings.environment()}, watchdog_timeout=settings.watchdog_timeout)

    async def body(supervisor: Supervisor) -> None:
        log.info("postern %s starts with the data folder %s", __version__, settings.home)
        await hub.start()
        if settings.demo:
            await supervisor.start(replace(_child("demo", outlives=True), without=masters_wiring.variables(settings)))
        is_first = not first_run_file(settings).exists()
        await supervisor.run_once(_child("prepare"))
        names = [f"w{number}" for number in range(1, settings.workers + 1)]
        served = [_child("api"), _child("archiver"), *(_child(name, "worker", "--name", name) for name in names)]
        await supervisor.start(*(replace(spec, heartbeat=True) for spec in served))
        click.echo(_banner(settings, is_first))
        await supervisor.wait()

    try:
        await supervise(supervisor, body)
    finally:
        await hub.stop()
    log.info("postern has stopped")


def _child(name: str, *arguments: str, outlives: bool = False) -> ChildSpec:
    # -P: a file in the current folder must not be imported as a module.
    return ChildSpec(name, ("-P", "-m", "postern", *(arguments or (name,))), outlives=outlives)


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
