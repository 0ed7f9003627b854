from __future__ import annotations

from typing import Any

import click

from postern.cli.api import http_of, in_force
from postern.cli.login import profile
from postern.cli.printing import emit, fields, json_option, local_time
from postern.client.client import Client


@click.command()
@json_option
def whoami(as_json: bool) -> None:
    """Show your account, role and groups, and when the login expires."""
    used = in_force()
    with http_of(used) as http:
        user: dict[str, Any] = {**Client(http).userinfo()}
    environ = profile.environ()
    here = {"api_url": used.api_url, "profile": profile.name_in_force(environ, profile.config(environ))}
    emit({**user, **here}, as_json, _show)


def _show(user: dict[str, Any]) -> None:
    until = user.get("login_expires_at")
    fields(
        [
            ("user", user["email"]),
            ("name", user["name"]),
            ("role", user.get("role")),
            ("groups", user["groups"]),
            ("organisation", user.get("org_name") or user.get("org_id")),
            ("method", "API key" if user.get("api_key") else user.get("login_method")),
            ("API key", user.get("api_key")),
            ("login expires", local_time(until) if until else None),
            ("gateway", user["api_url"]),
            ("profile", user["profile"]),
        ]
    )
