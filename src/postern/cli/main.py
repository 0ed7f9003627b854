"""The `postern` command."""

from __future__ import annotations

import click

from postern import __version__
from postern.cli.lazy import PROFILE, Lazy, LazyGroup
from postern.cli.login import profile

COMMANDS = {
    "up": Lazy(
        "postern.cli.commands.processes.gateway_commands:up",
        "Run the gateway with a demo database, to try Postern.",
        profile=False,
    ),
    "gateway": Lazy("postern.cli.commands.processes.gateway_commands:gateway", "Run the gateway.", profile=False),
    "health": Lazy(
        "postern.cli.commands.processes.health_commands:health",
        "Ask the gateway on this machine whether it is ready.",
        profile=False,
    ),
    "agent": Lazy(
        "postern.cli.commands.processes.agent_commands:agent",
        "Run an agent in the network of the targets.",
        profile=False,
    ),
    "run": Lazy(
        "postern.cli.commands.runbooks.run_commands:run",
        "Run an agent inside an application's container.",
        profile=False,
    ),
    "login": Lazy("postern.cli.commands.identity.login_commands:login", "Log in to a gateway."),
    "logout": Lazy("postern.cli.commands.identity.login_commands:logout", "Log out."),
    "setup": Lazy("postern.cli.commands.identity.setup_commands:setup", "Set your password with a set-up link."),
    "setup-link": Lazy(
        "postern.cli.commands.identity.setup_commands:setup_link",
        "Create a set-up link, on the gateway's machine.",
        profile=False,
    ),
    "whoami": Lazy(
        "postern.cli.commands.identity.whoami_commands:whoami",
        "Show your account, role and groups, and when the login expires.",
    ),
    "profiles": Lazy(
        "postern.cli.commands.identity.profile_commands:profiles",
        "List and choose profiles: the gateways that this machine knows.",
    ),
    "password": Lazy("postern.cli.commands.identity.password_commands:password", "Change your password."),
    "second-factor": Lazy(
        "postern.cli.commands.identity.second_factor_commands:second_factor", "List and manage your second factors."
    ),
    "connect": Lazy("postern.cli.commands.connect_commands:connect", "Connect to a database, a server or a command."),
    "proxy-manager": Lazy(
        "postern.cli.commands.proxy_manager_commands:proxy_manager", "Open local ports on request from the API."
    ),
    "exec": Lazy(
        "postern.cli.commands.runbooks.execute_commands:execute", "Run a script on a connection and print its output."
    ),
    "connections": Lazy("postern.cli.commands.connection_commands:connections", "List and manage connections."),
    "access": Lazy(
        "postern.cli.commands.identity.access_commands:access", "Explain why a user can or cannot use a connection."
    ),
    "sessions": Lazy(
        "postern.cli.commands.sessions.session_commands:sessions",
        "List, show, watch, replay, export, end and verify sessions.",
    ),
    "recordings": Lazy(
        "postern.cli.commands.sessions.recording_commands:recordings",
        "Verify that recordings and logs are unchanged, and export the proof.",
    ),
    "reports": Lazy(
        "postern.cli.commands.sessions.report_commands:reports",
        "Show reports: masked values, sessions and reviews over time.",
    ),
    "reviews": Lazy(
        "postern.cli.commands.review_commands:reviews", "List reviews, and approve, reject or revoke them."
    ),
    "runbooks": Lazy(
        "postern.cli.commands.runbooks.runbook_commands:runbooks", "List, show and run scripts that are stored in git."
    ),
    "guardrails": Lazy("postern.cli.commands.guardrail_commands:guardrails", "List and manage guardrails."),
    "masking": Lazy("postern.cli.commands.masking_commands:masking", "List, manage and try masking rules."),
    "credentials": Lazy(
        "postern.cli.commands.credential_commands:credentials", "Issue and revoke connection credentials."
    ),
    "ssh-keys": Lazy("postern.cli.commands.identity.ssh_key_commands:ssh_keys", "List, add and remove your SSH keys."),
    "ssh-login": Lazy(
        "postern.cli.commands.identity.ssh_login_commands:ssh_login", "Approve an SSH client that waits for your login."
    ),
    "chat": Lazy("postern.cli.commands.chat_commands:chat", "Link your Slack account, to decide reviews there."),
    "apply": Lazy(
        "postern.cli.commands.configuration_commands:apply", "Make the gateway as YAML files say, plan first."
    ),
    "export": Lazy(
        "postern.cli.commands.configuration_commands:export", "Write the gateway's configuration as YAML files."
    ),
    "admin": Lazy("postern.cli.commands.admin:admin", "Manage users, groups, keys, login and the server."),
    "auth": Lazy(
        "postern.cli.commands.identity.auth_commands:auth",
        "Reset how users log in, on the gateway's own machine.",
        profile=False,
    ),
    "keys": Lazy(
        "postern.cli.commands.identity.identity_key_commands:keys",
        "Rotate the encryption keys, on the gateway's machine.",
        profile=False,
    ),
    "backup": Lazy(
        "postern.cli.commands.backup_commands:backup", "Back up the gateway, on its own machine.", profile=False
    ),
    "restore": Lazy(
        "postern.cli.commands.backup_commands:restore",
        "Restore a gateway from a backup, or move it to a different store.",
        profile=False,
    ),
    "upgrade": Lazy(
        "postern.cli.commands.upgrade_commands:upgrade",
        "Check whether the gateway can be upgraded, on its own machine.",
        profile=False,
    ),
    "completion": Lazy(
        "postern.cli.commands.completion_commands:completion",
        "Print the completion script for your shell.",
        profile=False,
    ),
    "config": Lazy(
        "postern.cli.commands.config_commands:config",
        "Check and show the configuration of a gateway or an agent.",
        profile=False,
    ),
    "doctor": Lazy(
        "postern.cli.commands.doctor_commands:doctor", "Diagnose problems of a client, an agent or a gateway."
    ),
    "version": Lazy("postern.cli.commands.version_commands:version", "Show the version.", profile=False),
    # Processes that the supervisor starts; users do not type these.
    "worker": Lazy("postern.cli.commands.processes.worker_commands:worker", hidden=True, profile=False),
    "api": Lazy("postern.cli.commands.processes.api_commands:api", hidden=True, profile=False),
    "archiver": Lazy("postern.cli.commands.processes.archiver_commands:archiver", hidden=True, profile=False),
    "demo": Lazy("postern.cli.commands.processes.demo_commands:demo", hidden=True, profile=False),
    "prepare": Lazy("postern.cli.commands.processes.prepare_commands:prepare", hidden=True, profile=False),
    "release": Lazy("postern.cli.commands.processes.release_commands:release", hidden=True, profile=False),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--profile",
    PROFILE,
    metavar="NAME",
    expose_value=False,
    callback=profile.choose,
    help="Use this profile; POSTERN_PROFILE sets it, too.  [default: the current one]",
)
@click.version_option(__version__, "--version", message="postern %(version)s")
def cli() -> None:
    """Postern: an access gateway for databases and servers.

    \b
    Try it on this machine:        postern up
    Log in to a gateway:           postern login https://gateway.example.com:7480
    Connect with your own client:  postern connect shop-demo --native
    Reviews waiting for you:       postern reviews list --for-me
    Recorded sessions:             postern sessions
                                   postern sessions show ID
    Your account and gateway:      postern whoami
    Manage users and the server:   postern admin

    Exit codes: 0 success, 1 failure, 2 wrong usage, 3 not logged in, 4 denied, 5 not found, 6 the gateway, an agent or
    a target does not answer, 7 a review is pending, 8 the review was rejected, revoked or has expired, 9 withdrawn or
    killed before it ran, 10 it still runs after a kill, 11 `apply --plan --exit-code` has something to do.
    """


def main() -> None:
    cli(prog_name="postern")
