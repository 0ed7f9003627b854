"""Names that a shell completes: requested from the gateway with a short timeout, cached briefly, silent on failure.

Every command that takes a name imports this module, so it loads nothing heavy before a shell asks.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from postern.cli import nouns
from postern.cli.login import profile
from postern.cli.nouns import Noun
from postern.errors import PosternError

PATIENCE = 1.0  # seconds for the gateway's answer
KEPT = 30.0  # seconds that names are cached for
_MOST = 100  # names; one page of the API
_MAX_BYTES = 1 << 20

Completion = Callable[[click.Context, click.Parameter, str], list[str]]


@dataclass(frozen=True, slots=True)
class _List:
    """A list of the API, and the field of its items that is completed; `key=value` if there are two. A search narrows
    lists that are longer than a page."""

    path: str
    fields: tuple[str, ...]
    searchable: bool = False


def names(noun: Noun, field: str = "") -> Completion:
    """Return the completion of a resource's names, or of a different field."""
    return _completion(_List("/" + "/".join(noun.path), (field or noun.key,), noun.searchable and not field))


def _completion(listed: _List) -> Completion:
    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in _names(listed, incomplete) if name.startswith(incomplete)]
        except Exception:  # an error would be printed in the middle of the typed line
            return []

    return complete


agents = names(nouns.AGENT)
connections = names(nouns.CONNECTION)
guardrails = names(nouns.GUARDRAIL)
guardrail_ids = names(nouns.GUARDRAIL, "id")
masking_rules = names(nouns.MASKING_RULE)
users = names(nouns.USER)
features = _completion(_List("/feature-flags", ("name",)))
reviews = _completion(_List("/reviews", ("id",)))
second_factors = _completion(_List("/users/self/second-factors", ("id",)))
sessions = _completion(_List("/sessions", ("id",)))
tags = _completion(_List("/connection-tags", ("key", "value")))


def profiles(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the profiles of this machine."""
    try:
        known_profiles = profile.config(profile.environ()).profiles
    except PosternError:
        return []
    return sorted(name for name in known_profiles if name.startswith(incomplete))


def types(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the information types."""
    from postern.domain.rules.masking import InfoType

    return sorted(name for name in InfoType if name.startswith(incomplete.upper()))


def _names(listed: _List, incomplete: str) -> list[str]:
    used = profile.find(profile.environ())
    if used is None or used.token is None:
        return []
    who = hashlib.sha256(f"{used.api_url}\n{used.token.reveal()}\n{listed}".encode()).hexdigest()[:32]
    file = _folder() / f"{who}.json"
    cached = _read(file)
    if cached is None:
        cached = _fetch_names(used, listed, None)
        _write(file, cached)
    if cached["more"] and incomplete and listed.searchable:
        cached = _fetch_names(used, listed, incomplete)
    return list(cached["names"])


def _fetch_names(used: profile.Profile, listed: _List, search: str | None) -> dict[str, Any]:
    from postern.client.client_http import Http  # costs more than everything else in this module

    with Http(used.api_url, used.token, authority=used.authority or None, timeout=PATIENCE) as http:
        page = http.call("GET", listed.path, query={"limit": _MOST, "search": search})
    names = ["=".join(str(row[field]) for field in listed.fields) for row in page.get("data", page.get("repositories"))]
    return {"names": names, "more": bool(page.get("has_next_page"))}


def _folder() -> Path:
    return profile.path(os.environ).parent / "completions"


def _read(file: Path) -> dict[str, Any] | None:
    try:
        if not 0 <= time.time() - file.stat().st_mtime < KEPT:
            return None
        with file.open("rb") as stream:
            content = json.loads(stream.read(_MAX_BYTES))
        return {"names": list(map(str, content["names"])), "more": bool(content["more"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, content: dict[str, Any]) -> None:
    """Cache only names, and only for this user; delete old files."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in file.parent.glob("*"):
        if time.time() - old.stat().st_mtime > KEPT:
            old.unlink(missing_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        json.dump(content, stream)
    draft.replace(file)
