"""`postern up` and `postern gateway`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from postern.cli.options import load, settings_options
from postern.wiring.processes import machine_processes


@click.command()
@settings_options()
def up(**flags: Any) -> None:
    """Run the gateway with a demo database to try it on.

    The first start makes everything that is missing: keys, certificates, the store, an administrator and a demo
    connection; it prints a password, a set-up link and a psql line that work, and logs the command line in. The next
    start finds its state again. Ctrl-C stops all of it; twice stops at once.

    Every flag can be set by an environment variable, too: POSTERN_API_PORT for --api-port.

    \b
    postern up
    postern up --home ./data --api-port 8080
    postern up --no-demo
    """
    machine_processes.run(load("supervisor", **flags), os.environ)


@click.command()
@settings_options("demo", "demo_port")
def gateway(**flags: Any) -> None:
    """Run the gateway: relay workers and the API, watched by a supervisor.

    The same as `postern up --no-demo`: no demo database and no demo connection are made.

    \b
    postern gateway --host 0.0.0.0 --public-host gateway.example.com --workers 4
    """
    machine_processes.run(replace(load("supervisor", **flags), demo=False), os.environ)
