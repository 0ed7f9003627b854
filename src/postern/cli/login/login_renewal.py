"""Renewal of a login: in the last third of a token's lifetime, the next command requests a new one and stores it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from postern.cli.login import config_file, profile
from postern.cli.login.config_file import Profile
from postern.client.client_authentication import ClientAuthentication, LoginState
from postern.client.client_http import Http
from postern.errors import PosternError

DEADLINE = 10.0  # seconds for the answer; the old token is still valid, so a command does not wait for long
_SOONEST = 60.0  # seconds before the next attempt after a failure


def refresh_at(state: LoginState) -> float | None:
    """Return the time of the next refresh in seconds since the epoch; None if a new token could not be valid for
    longer."""
    if state.life is None or state.expires_at is None or state.expires_at == state.ends_at:
        return None
    return time.time() + max(0.0, state.life.total_seconds()) * 2 / 3


def fresh(environ: Mapping[str, str], used: Profile) -> Profile:
    """Return the profile, with a new token if it is time for one. If several commands run at once, one requests the
    token; the others wait and use it. A failed refresh is ignored here: the request that follows reports the error."""
    if used.refresh_at is None or time.time() < used.refresh_at:
        return used
    try:
        with config_file.change(profile.path(environ)) as known:
            name = profile.name_in_force(environ, known)
            kept = known.profiles.get(name)
            if kept is None or kept.api_url != used.api_url or kept.token is None:
                return used
            if kept.token == used.token:
                kept = _refresh(kept)
                known.profiles[name] = kept
            return kept
    except (PosternError, OSError):
        return used


def _refresh(profile: Profile) -> Profile:
    try:
        with Http(profile.api_url, profile.token, authority=profile.authority or None, timeout=DEADLINE) as http:
            token, state = ClientAuthentication(http).refresh()
    except PosternError:
        return replace(profile, refresh_at=time.time() + _SOONEST)
    return replace(profile, token=token, refresh_at=refresh_at(state))
