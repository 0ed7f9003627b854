from __future__ import annotations

import os

import click

from postern import logs
from postern.settings import load_agent
from postern.wiring.processes import agent_process as wiring


@click.command()
@click.option("--policy", type=click.Path(dir_okay=False), help="TOML file of what this agent may serve and reach.")
@click.option("--grace", type=click.FloatRange(min=0), help="Seconds that sessions have to end when it is stopped.")
def agent(policy: str | None, grace: float | None) -> None:
    """Run an agent near the targets: it dials out to its gateway, and nothing dials in.

    All that it needs is its key, which `postern admin agents create NAME` shows once, in the variable POSTERN_KEY.
    Ctrl-C lets the sessions that run end; twice ends them at once.

    \b
    POSTERN_KEY='grpcs://edge:xagt-...' postern agent
    POSTERN_KEY='grpcs://edge:xagt-...' postern agent --policy /etc/postern/agent.toml
    """
    settings = load_agent(os.environ, agent_policy=policy, agent_grace=grace)
    logs.configure(settings.log_level, settings.log_format, "agent")
    wiring.run(settings, os.environ)
