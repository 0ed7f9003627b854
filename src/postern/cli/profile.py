"""Which gateway, and as whom: kept in `$XDG_CONFIG_HOME/postern/config.json` (0600).

`POSTERN_API_URL` and `POSTERN_TOKEN` win over the file, for scripts. A token is sent only to the gateway it came
from: with another address in the environment the file's token is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from postern.domain.secret import Secret
from postern.errors import Misconfigured, Unauthenticated


@dataclass(frozen=True, slots=True)
class Profile:
    """`authority` is the PEM text of the CA that signed the gateway's certificate; empty for the system's CAs."""

    api_url: str
    token: Secret | None = None
    email: str = ""
    authority: str = ""


def path(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "postern" / "config.json"


def find(environ: Mapping[str, str]) -> Profile | None:
    """The profile in force, or None. Raises Misconfigured when the file is damaged."""
    kept = _read(path(environ))
    url = environ.get("POSTERN_API_URL", "").rstrip("/")
    if url and (kept is None or kept.api_url != url):
        kept = Profile(url)
    token = environ.get("POSTERN_TOKEN")
    if kept is not None and token:
        kept = Profile(kept.api_url, Secret(token), authority=kept.authority)
    return kept


def require(environ: Mapping[str, str]) -> Profile:
    """Raises Unauthenticated when nobody is logged in."""
    found = find(environ)
    if found is None or found.token is None:
        raise Unauthenticated("you are not logged in")
    return found


def save(environ: Mapping[str, str], profile: Profile) -> Path:
    file = path(environ)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = {
        "api_url": profile.api_url,
        "token": profile.token.reveal() if profile.token else None,
        "email": profile.email,
        "authority": profile.authority,
    }
    draft = file.with_name(f".config.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        json.dump(kept, stream, indent=2)
    draft.replace(file)
    return file


def forget(environ: Mapping[str, str]) -> bool:
    """False when there was nothing to forget."""
    file = path(environ)
    existed = file.exists()
    file.unlink(missing_ok=True)
    return existed


def _read(file: Path) -> Profile | None:
    try:
        kept = json.loads(file.read_bytes())
        token = kept.get("token")
        return Profile(str(kept["api_url"]), Secret(token) if token else None, kept["email"], kept["authority"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misconfigured(f"{file} cannot be read ({error}); remove it and log in again") from None
