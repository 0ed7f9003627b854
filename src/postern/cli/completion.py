"""Names that a shell completes: asked of the gateway with a short patience, kept for a moment, silent on failure.

Imported by every command that takes a name, so it loads nothing heavy before a shell asks.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from postern.cli import profile
from postern.errors import PosternError

PATIENCE = 1.0  # seconds for the gateway's answer
KEPT = 30.0  # seconds that names are kept for
_MOST = 100  # names; one page of the API
_MAX_BYTES = 1 << 20

# What is completed: the path of its list, and the field that is typed; `key=value` where there are two. A search
# narrows lists that are longer.
_LISTS = {
    "access_rules": ("/access-rules", ("name",), False),
    "agents": ("/agents", ("name",), True),
    "api_keys": ("/api-keys", ("name",), False),
    "connections": ("/connections", ("name",), True),
    "features": ("/feature-flags", ("name",), False),
    "groups": ("/users/groups", ("name",), False),
    "guardrail_ids": ("/guardrails", ("id",), False),
    "guardrails": ("/guardrails", ("name",), False),
    "issue_templates": ("/integrations/tracker/issuetemplates", ("name",), False),
    "masking_rules": ("/datamasking-rules", ("name",), False),
    "machines": ("/machineidentities", ("name",), False),
    "review_rules": ("/access-requests/rules", ("name",), False),
    "runbook_rules": ("/runbooks/rules", ("name",), False),
    "runbook_schedules": ("/runbooks/schedules", ("name",), False),
    "resources": ("/resources", ("name",), False),
    "reviews": ("/reviews", ("id",), False),
    "second_factors": ("/users/self/second-factors", ("id",), False),
    "service_accounts": ("/serviceaccounts", ("subject",), False),
    "sessions": ("/sessions", ("id",), False),
    "sinks": ("/sinks", ("name",), False),
    "ssh_authorities": ("/sshauthorities", ("name",), False),
    "ssh_keys": ("/sshkeys", ("name",), False),
    "tags": ("/connection-tags", ("key", "value"), False),
    "users": ("/users", ("email",), False),
}

Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def _completion(kind: str) -> Completion:
    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in _names(kind, incomplete) if name.startswith(incomplete)]
        except Exception:  # whoever types must not be told of it in the middle of a line
            return []

    return complete


access_rules = _completion("access_rules")
agents = _completion("agents")
api_keys = _completion("api_keys")
connections = _completion("connections")
features = _completion("features")
groups = _completion("groups")
guardrail_ids = _completion("guardrail_ids")
guardrails = _completion("guardrails")
issue_templates = _completion("issue_templates")
masking_rules = _completion("masking_rules")
machines = _completion("machines")
review_rules = _completion("review_rules")
runbook_rules = _completion("runbook_rules")
runbook_schedules = _completion("runbook_schedules")
resources = _completion("resources")
reviews = _completion("reviews")
second_factors = _completion("second_factors")
service_accounts = _completion("service_accounts")
sessions = _completion("sessions")
sinks = _completion("sinks")
ssh_authorities = _completion("ssh_authorities")
ssh_keys = _completion("ssh_keys")
tags = _completion("tags")
users = _completion("users")


def profiles(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Of this machine."""
    try:
        known = profile.config(profile.environ()).profiles
    except PosternError:
        return []
    return sorted(name for name in known if name.startswith(incomplete))


def types(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Of what can be masked."""
    from postern.domain.masking import InfoType

    return sorted(name for name in InfoType if name.startswith(incomplete.upper()))


def _names(kind: str, incomplete: str) -> list[str]:
    used = profile.find(profile.environ())
    if used is None or used.token is None:
        return []
    who = hashlib.sha256(f"{used.api_url}\n{used.token.reveal()}\n{kind}".encode()).hexdigest()[:32]
    file = _folder() / f"{who}.json"
    kept = _read(file)
    if kept is None:
        kept = _asked(used, kind, None)
        _write(file, kept)
    if kept["more"] and incomplete and _LISTS[kind][2]:
        kept = _asked(used, kind, incomplete)
    return list(kept["names"])


def _asked(used: profile.Profile, kind: str, search: str | None) -> dict[str, Any]:
    from postern.client.http import Http  # costs more than everything else here: not before it is needed

    path, fields, _ = _LISTS[kind]
    with Http(used.api_url, used.token, authority=used.authority or None, timeout=PATIENCE) as http:
        page = http.call("GET", path, query={"limit": _MOST, "search": search})
    names = ["=".join(str(one[field]) for field in fields) for one in page["data"]]
    return {"names": names, "more": bool(page.get("has_next_page"))}


def _folder() -> Path:
    return profile.path(os.environ).parent / "completions"


def _read(file: Path) -> dict[str, Any] | None:
    try:
        if not 0 <= time.time() - file.stat().st_mtime < KEPT:
            return None
        with file.open("rb") as stream:
            found = json.loads(stream.read(_MAX_BYTES))
        return {"names": list(map(str, found["names"])), "more": bool(found["more"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, kept: dict[str, Any]) -> None:
    """Names only, for this user only; what is out of date is swept away."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in file.parent.glob("*"):
        if time.time() - old.stat().st_mtime > KEPT:
            old.unlink(missing_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        json.dump(kept, stream)
    draft.replace(file)
