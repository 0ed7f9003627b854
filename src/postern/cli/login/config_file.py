"""The file with the profiles. Only its owner can read it; one command at a time changes it, and replaces it as a whole.

`{"current": NAME, "profiles": {NAME: {"api_url", "token", "email", "authority", "kind", "refresh_at"}}}`. The format
before there were several profiles (the fields of one at the top) is read as the profile `default`, and written in the
new format at the next change.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from postern.domain.secret import Secret
from postern.errors import Misconfigured, Unavailable

DEFAULT = "default"
LOCK_WAIT = 15.0  # seconds; the holder of the lock can be requesting a new token from its gateway
_MAX_BYTES = 4 * 1024 * 1024


class TokenKind(StrEnum):
    LOGIN = "login"
    API_KEY = "api_key"


@dataclass(frozen=True, slots=True)
class Profile:
    """A login to a gateway. `authority` is the PEM text of the CA that signed the gateway's certificate; empty for the
    system's CAs. `refresh_at` is when the token is to be refreshed, in seconds since the epoch by this machine's clock;
    None if it cannot be refreshed."""

    api_url: str
    token: Secret | None = None
    email: str = ""
    authority: str = ""
    kind: TokenKind = TokenKind.LOGIN
    refresh_at: float | None = None


@dataclass(slots=True)
class Config:
    current: str = DEFAULT
    profiles: dict[str, Profile] = field(default_factory=dict)


def read(file: Path) -> Config:
    """Read the profiles; empty if there is no file. Raises Misconfigured for a damaged file, and for one that other
    users can read."""
    try:
        with file.open("rb") as stream:
            _require_private(file, os.fstat(stream.fileno()).st_mode)
            content = stream.read(_MAX_BYTES)
        return _parse_config(json.loads(content))
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Misconfigured(f"{file} cannot be read ({error}); remove it and log in again") from None


@contextmanager
def change(file: Path, *, wait: float = LOCK_WAIT) -> Iterator[Config]:
    """Yield the current configuration, and write it at the end of the block; no other command can change it meanwhile.
    Nothing is written if the block raises. Raises Misconfigured; Unavailable if a different command holds the lock."""
    with _writable(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(file.with_name(".config.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    with _hold_lock(lock, file.parent, wait):
        config = read(file)
        before = _render_config(config)
        yield config
        after = _render_config(config)
        if after != before or not file.exists():
            with _writable(file):
                _replace(file, after)


@contextmanager
def _writable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Misconfigured(
            f"{file} cannot be written ({error}); to work without it, set POSTERN_API_URL and POSTERN_TOKEN"
        ) from None


@contextmanager
def _hold_lock(lock: int, folder: Path, wait: float) -> Iterator[None]:
    with os.fdopen(lock, "w") as stream:
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise Unavailable(f"a different command is changing {folder}; try again") from None
                time.sleep(0.02)
        yield  # closing the file releases the lock


def _replace(file: Path, text: str) -> None:
    draft = file.with_name(f".config.{os.getpid()}")
    draft.unlink(missing_ok=True)  # left by a process that died; its mode cannot be trusted
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def _require_private(file: Path, mode: int) -> None:
    if stat.S_IMODE(mode) & 0o077:
        raise Misconfigured(
            f"other users of this machine can read or change {file}, which contains your tokens; run "
            f"`chmod 600 {file}`, and log in again if the file could have been read"
        )


def _parse_config(content: Any) -> Config:
    if "profiles" not in content:
        return Config(DEFAULT, {DEFAULT: _profile(content)})
    profiles = {str(name): _profile(fields) for name, fields in content["profiles"].items()}
    return Config(str(content["current"]), profiles)


def _profile(document: Any) -> Profile:
    token, refresh_at = document.get("token"), document.get("refresh_at")
    return Profile(
        str(document["api_url"]),
        Secret(str(token)) if token else None,
        str(document["email"]),
        str(document["authority"]),
        TokenKind(document.get("kind", TokenKind.LOGIN)),
        None if refresh_at is None else float(refresh_at),
    )


def _render_config(config: Config) -> str:
    profiles = {
        name: {
            "api_url": profile.api_url,
            "token": profile.token.reveal() if profile.token else None,
            "email": profile.email,
            "authority": profile.authority,
            "kind": profile.kind,
            "refresh_at": profile.refresh_at,
        }
        for name, profile in sorted(config.profiles.items())
    }
    return json.dumps({"current": config.current, "profiles": profiles}, indent=2) + "\n"
