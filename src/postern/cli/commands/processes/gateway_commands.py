"""`postern up` and `postern gateway`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from postern.cli.options import load_process, settings_options
from postern.wiring.processes import machine_processes


@click.command()
@settings_options()
def up(**flags: Any) -> None:
    """Run the gateway with a demo database, to try Postern.

    The first start creates keys, certificates, the store, an administrator and a demo connection. It prints a password,
    a set-up link and a psql command that works, and logs in the command line. The next start uses the same data. Ctrl-C
    stops everything; pressed twice, at once.

    Each option can also be set by an environment variable, POSTERN_API_PORT for --api-port, or in the configuration
    file, where it is api_port; an option takes precedence, then the variable.

    \b
    postern up
    postern up --home ./data --api-port 8080
    postern up --no-demo
    """
    machine_processes.run(load_process("supervisor", **flags), os.environ)


@click.command()
@settings_options("demo", "demo_port")
def gateway(**flags: Any) -> None:
    """Run the gateway: relay workers and the API, watched by a supervisor.

    Like `postern up --no-demo`: it creates no demo database and no demo connection.

    \b
    postern gateway --config /etc/postern/postern.toml
    postern gateway --host 0.0.0.0 --public-host gateway.example.com --workers 4
    """
    machine_processes.run(replace(load_process("supervisor", **flags), demo=False), os.environ)
