from __future__ import annotations

import logging
import os
import time

import click

from postern.cli.login import profile
from postern.cli.login.profile import Profile
from postern.cli.options import load_process
from postern.errors import PosternError
from postern.process import die_with_parent
from postern.wiring.processes import prepare as wiring

log = logging.getLogger(__name__)

OWN = "local"  # the profile of this machine's gateway, if the current profile belongs to a different gateway
REFRESH_AFTER = 3600.0  # seconds; the first refresh then returns how long tokens are valid


@click.command(hidden=True)
def prepare() -> None:
    """Create what a start needs, when the supervisor runs it, and log in the command line of this user."""
    die_with_parent()
    _log_in(wiring.run(load_process("prepare")))


def _log_in(prepared: wiring.PreparedLogin) -> None:
    """Log in the command line. A login to a different gateway is never replaced."""
    if prepared.token is None:
        return
    environ = {**os.environ, "POSTERN_PROFILE": ""}
    soon = time.time() + REFRESH_AFTER
    new_profile = Profile(prepared.api_url, prepared.token, prepared.email, prepared.authority, refresh_at=soon)
    try:
        config = profile.config(environ)
        current = config.profiles.get(config.current)
        if current is None or current.api_url in prepared.own_urls:
            profile.save(environ, new_profile)
            return
        own_profiles = [name for name, entry in sorted(config.profiles.items()) if entry.api_url in prepared.own_urls]
        profile.save(environ, new_profile, own_profiles[0] if own_profiles else OWN)
        log.info(
            "the command line stays logged in to %s; use --profile %s for this gateway",
            current.api_url,
            own_profiles[0] if own_profiles else OWN,
        )
    except (OSError, PosternError) as error:
        log.warning("the command line could not be logged in (%s); use `postern login`", error)
