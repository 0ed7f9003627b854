"""The limits that a network's owner sets for an agent, whatever its gateway requests: a TOML file beside the agent.

    connections = ["shop-*", "billing"]           # names of connections, with * and ?
    targets = ["db.internal:5432", "*.svc:*", "10.1.0.0/16:*"]
    commands = false                              # whether commands can run on the agent's machine
    hooks = false                                 # whether session hooks can; defaults to `commands`
    variables = ["SHOP_*"]                        # environment variables that _envjson references can name
    references = ["_vaultkv2:kv/shop/*"]          # references that secrets can have: PROVIDER[:NAME[:KEY]]
    ssh_agents = ["/run/keys/agent.sock"]         # sockets of ssh-agents that connections can log in with

An omitted entry does not limit, except that without `ssh_agents` no ssh-agent is used. A file that cannot be read stops
the agent: it never means that everything is allowed.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Self

from postern.domain.reference import FORMS, Reference
from postern.errors import Denied, Misconfigured


@dataclass(frozen=True, slots=True)
class ReferencePattern:
    """A pattern for references. Each part is matched separately, so that a wildcard in a name never matches into the
    key."""

    provider: str
    name: str
    key: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a pattern. An omitted part means `*`. The colons of an ARN belong to its name. Raises ValueError."""
        provider, colon, rest = text.partition(":")
        if provider not in FORMS:
            raise ValueError(f"{text!r} does not begin with one of {', '.join(FORMS)}")
        if colon and not rest:
            raise ValueError(f"{text!r} has no name after its colon; omit the colon for all of {provider}")
        parts = rest.split(":")
        length = _ARN_PARTS if parts[0] == "arn" else 1
        if len(parts) > length + 1:
            raise ValueError(f"{text!r} is not PROVIDER, PROVIDER:NAME or PROVIDER:NAME:KEY")
        key = parts[length] if len(parts) > length else "*"
        return cls(provider, ":".join(parts[:length]) or "*", key)

    def fits(self, reference: Reference) -> bool:
        return (
            reference.provider == self.provider
            and fnmatchcase(reference.name, self.name)
            and fnmatchcase(reference.key, self.key)
        )


@dataclass(frozen=True, slots=True)
class LocalPolicy:
    """The policy. None means no limit. `targets` are `HOST:PORT`; HOST is a name with wildcards or a network, PORT can
    be `*`."""

    connections: tuple[str, ...] | None = None
    targets: tuple[str, ...] | None = None
    commands: bool = True
    hooks: bool | None = None  # defaults to `commands`
    variables: tuple[str, ...] | None = None
    references: tuple[ReferencePattern, ...] | None = None
    ssh_agents: tuple[str, ...] | None = None  # None: no ssh-agent

    def check_connection(self, name: str) -> None:
        """Check that the agent can serve the connection. Raises Denied."""
        if self.connections is not None and not _fits_any(name, self.connections):
            raise Denied(f"the agent's policy does not allow connection {name!r}; ask the agent's operator")

    def check_target(self, host: str, port: int) -> None:
        """Check a target. `host` is as in the connection's secret: a name is not resolved. Raises Denied."""
        if self.targets is not None and not any(_is_at(host, port, target) for target in self.targets):
            raise Denied(f"the agent's policy does not allow the target {host}:{port}; ask the agent's operator")

    def check_command(self, connection: str) -> None:
        """Check that the agent can run the connection's command. Raises Denied."""
        if not self.commands:
            raise Denied(
                f"the agent's policy does not allow the command of connection {connection!r}; ask the agent's operator"
            )

    def check_hooks(self) -> None:
        """Check that the agent can run hooks. Raises Denied."""
        if not (self.commands if self.hooks is None else self.hooks):
            raise Denied(
                "the agent's policy does not allow session hooks; ask the agent's operator to set "
                "hooks = true in the policy file"
            )

    def check_reference(self, reference: Reference) -> None:
        """Check a reference by its text: how a provider resolves a name is unknown here. Raises Denied."""
        if self.references is not None and not any(pattern.fits(reference) for pattern in self.references):
            raise Denied(f"the agent's policy does not allow the reference {reference}; ask the agent's operator")

    def check_ssh_agent(self, socket: str) -> None:
        """Check a socket. It must be in the list, exactly as in the connection's secret. Raises Denied."""
        if socket not in (self.ssh_agents or ()):
            raise Denied(
                "the agent's policy does not allow the ssh-agent that the connection's secret SSH_AUTH_SOCK "
                "names; ask the agent's operator to list it under ssh_agents in the policy file"
            )

    def shows(self, variable: str) -> bool:
        """Return True if references can name this variable of the agent's environment."""
        return self.variables is None or _fits_any(variable, self.variables)


_ARN_PARTS = 7  # arn:partition:service:region:account:secret:name
ANYTHING = LocalPolicy()
NO_COMMANDS = LocalPolicy(commands=False)


def read(path: Path) -> LocalPolicy:
    """Read the policy file. Raises Misconfigured."""
    try:
        entries = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Misconfigured(f"the agent's policy {path} cannot be read: {error}", field="agent_policy") from None
    unknown = entries.keys() - {spec.name for spec in fields(LocalPolicy)}
    if unknown:
        raise Misconfigured(f"the agent's policy {path} has unknown entries: {', '.join(sorted(unknown))}")
    return LocalPolicy(
        connections=_texts(path, entries, "connections"),
        targets=_targets(path, _texts(path, entries, "targets")),
        commands=_flag(path, entries, "commands") is not False,
        hooks=_flag(path, entries, "hooks"),
        variables=_texts(path, entries, "variables"),
        references=_references(path, _texts(path, entries, "references")),
        ssh_agents=_texts(path, entries, "ssh_agents"),
    )


def _texts(path: Path, entries: dict[str, Any], name: str) -> tuple[str, ...] | None:
    value = entries.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Misconfigured(f"the agent's policy {path}: {name} must be a list of strings")
    return tuple(value)


def _flag(path: Path, entries: dict[str, Any], name: str) -> bool | None:
    value = entries.get(name)
    if value is not None and not isinstance(value, bool):
        raise Misconfigured(f"the agent's policy {path}: {name} must be true or false")
    return value


def _targets(path: Path, targets: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for target in targets or ():
        _, colon, port = target.rpartition(":")
        if not colon or not (port == "*" or port.isdecimal()):
            raise Misconfigured(f"the agent's policy {path}: {target!r} is not HOST:PORT, such as db.internal:5432")
    return targets


def _references(path: Path, patterns: tuple[str, ...] | None) -> tuple[ReferencePattern, ...] | None:
    if patterns is None:
        return None
    try:
        return tuple(map(ReferencePattern.read, patterns))
    except ValueError as error:
        raise Misconfigured(f"the agent's policy {path}: references: {error}") from None


def _fits_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _bare(address: str) -> str:
    return address.replace("[", "").replace("]", "")


def _is_at(host: str, port: int, target: str) -> bool:
    allowed_host, _, allowed_port = target.rpartition(":")
    if allowed_port not in ("*", str(port)):
        return False
    try:
        return ip_address(_bare(host)) in ip_network(_bare(allowed_host))
    except ValueError:
        return fnmatchcase(host.lower(), allowed_host.lower())
