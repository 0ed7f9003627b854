from __future__ import annotations

import os

import click

from postern.cli.options import DurationType, config_option, load_agent
from postern.wiring.processes import agent_process as wiring


@click.command()
@click.option(
    "--policy",
    type=click.Path(dir_okay=False),
    help="TOML file with the policy: what this agent is allowed to serve and reach.",
)
@click.option("--grace", type=DurationType(), help="Seconds that sessions have to end when the agent is stopped.")
@config_option
def agent(policy: str | None, grace: float | None, config: str | None) -> None:
    """Run an agent near the targets. It opens outbound connections to its gateway and accepts none.

    It needs only its key in the variable POSTERN_KEY, or in the file that POSTERN_KEY_FILE names; `postern admin agents
    create NAME` shows the key once. Ctrl-C lets running sessions finish; pressed twice, it ends them at once.

    \b
    POSTERN_KEY='grpcs://edge:xagt-...' postern agent
    POSTERN_KEY='grpcs://edge:xagt-...' postern agent --policy /etc/postern/agent.toml
    """
    wiring.run(load_agent(config=config, agent_policy=policy, agent_grace=grace), os.environ)
