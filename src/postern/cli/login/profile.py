"""The gateway and the login in use: profiles in the platform's configuration folder
(`$XDG_CONFIG_HOME/postern/config.json` if that is set, `~/.config/postern/config.json` on Linux).

`--profile` and `POSTERN_PROFILE` choose a profile, else the current one is in force. `POSTERN_API_URL` and
`POSTERN_TOKEN` take precedence over the file, for scripts. A token is sent only to the gateway that issued it; with a
different address in the environment, the file's token is not used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import click
import platformdirs

from postern.cli.login import config_file
from postern.cli.login.config_file import DEFAULT, Config, Profile, TokenKind
from postern.domain.secret import Secret
from postern.errors import Invalid, NotFound, Unauthenticated

__all__ = ["Profile", "TokenKind"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_META = "postern.profile"


def choose(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """Apply `--profile`, in any position."""
    if value is not None:
        context.meta[_META] = check_name(value)


def environ() -> Mapping[str, str]:
    """Return the environment, with the profile that `--profile` chose."""
    context = click.get_current_context(silent=True)
    chosen = context.meta.get(_META) if context is not None else None
    return {**os.environ, "POSTERN_PROFILE": chosen} if chosen else os.environ


def path(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME")
    folder = Path(base) / "postern" if base else platformdirs.user_config_path("postern", appauthor=False)
    return folder / "config.json"


def config(environ: Mapping[str, str]) -> Config:
    """Raises Misconfigured."""
    return config_file.read(path(environ))


def name_in_force(environ: Mapping[str, str], stored_config: Config) -> str:
    """Return the chosen name, which need not exist. Raises Invalid."""
    chosen = environ.get("POSTERN_PROFILE")
    return check_name(chosen) if chosen else stored_config.current


def find(environ: Mapping[str, str]) -> Profile | None:
    """Return the profile in force, or None. Raises Misconfigured if the file is damaged or open to others."""
    stored_config = config(environ)
    profile = stored_config.profiles.get(name_in_force(environ, stored_config))
    url = environ.get("POSTERN_API_URL", "").rstrip("/")
    if url and (profile is None or profile.api_url != url):
        profile = Profile(url)
    token = environ.get("POSTERN_TOKEN")
    if profile is not None and token:
        profile = Profile(profile.api_url, Secret(token), authority=profile.authority)
    return profile


def require(environ: Mapping[str, str]) -> Profile:
    """Return the profile in force. Raises Unauthenticated if it has no login."""
    profile = find(environ)
    if profile is None or profile.token is None:
        chosen = environ.get("POSTERN_PROFILE")
        if chosen:
            how = f"log in with `postern login --profile {chosen}`"
            raise Unauthenticated(f"you are not logged in with the profile {chosen}; {how}")
        raise Unauthenticated("you are not logged in")
    return profile


def save(environ: Mapping[str, str], profile: Profile, name: str | None = None) -> Path:
    """Save a profile under this name, else as the one in force. It becomes the current one if there is none."""
    file = path(environ)
    with config_file.change(file) as stored_config:
        name = name or name_in_force(environ, stored_config)
        stored_config.profiles[name] = profile
        if stored_config.current not in stored_config.profiles:
            stored_config.current = name
    return file


def save_login(environ: Mapping[str, str], profile: Profile) -> str:
    """Save a login under the requested profile; else each gateway has its own profile, which becomes the current one.
    Return its name."""
    with config_file.change(path(environ)) as stored_config:
        name = environ.get("POSTERN_PROFILE") or _name_for(profile.api_url, stored_config)
        stored_config.profiles[check_name(name)] = profile
        if not environ.get("POSTERN_PROFILE") or stored_config.current not in stored_config.profiles:
            stored_config.current = name
    return name


def forget(environ: Mapping[str, str]) -> bool:
    """Remove the token of the profile in force; return False if there was none."""
    stored_config = config(environ)
    name = name_in_force(environ, stored_config)
    return forget_token(environ, name, stored_config.profiles[name]) if name in stored_config.profiles else False


def forget_token(environ: Mapping[str, str], name: str, profile: Profile) -> bool:
    """Remove the token if it is still this profile's; return False if there was none."""
    if profile.token is None:
        return False
    with config_file.change(path(environ)) as stored_config:
        stored_profile = stored_config.profiles.get(name)
        if stored_profile is None or stored_profile.token != profile.token:
            return False
        stored_config.profiles[name] = replace(stored_profile, token=None, refresh_at=None)
    return True


def use(environ: Mapping[str, str], name: str) -> None:
    """Raises NotFound."""
    with config_file.change(path(environ)) as stored_config:
        existing(stored_config, name)
        stored_config.current = name


def remove(environ: Mapping[str, str], name: str) -> None:
    """Raises NotFound."""
    with config_file.change(path(environ)) as stored_config:
        existing(stored_config, name)
        del stored_config.profiles[name]
        if stored_config.current == name:
            stored_config.current = min(stored_config.profiles, default=DEFAULT)


def existing(stored_config: Config, name: str) -> Profile:
    """Raises NotFound."""
    if name not in stored_config.profiles:
        raise NotFound(f"there is no profile {name!r}; `postern profiles` lists them")
    return stored_config.profiles[name]


def check_name(name: str) -> str:
    """Raises Invalid."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is not a valid profile name; use letters and digits, and . _ : - after the first character",
            field="profile",
        )
    return name


def _name_for(api_url: str, stored_config: Config) -> str:
    current = stored_config.profiles.get(stored_config.current)
    if current is None or current.api_url == api_url:
        return stored_config.current
    for name, profile in sorted(stored_config.profiles.items()):
        if profile.api_url == api_url:
            return name
    parts = urlsplit(api_url)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", parts.netloc).lstrip("._-")[:60] or DEFAULT
    return name if name not in stored_config.profiles else f"{name}-{len(stored_config.profiles) + 1}"
