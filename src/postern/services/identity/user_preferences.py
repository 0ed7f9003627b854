"""Preferences of the caller: a JSON object that their clients share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from postern.domain.identity.preferences import MAX_DEPTH, MAX_PREFERENCES, Preferences
from postern.domain.identity.principal import Principal
from postern.errors import Invalid, PreconditionFailed
from postern.services.named_resources import check_version
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import PreferenceStore


class UserPreferences:
    def __init__(self, store: PreferenceStore, now: Clock) -> None:
        self._store = store
        self._now = now

    async def get(self, principal: Principal) -> Preferences:
        return await self._store.get(principal.id)

    async def put(self, principal: Principal, content: Mapping[str, Any], version: int | None) -> Preferences:
        """Replace the preferences. Raises Invalid, and PreconditionFailed if `version` is not the current one."""
        text = _encode(content)
        if version is not None:
            check_version("your preferences", (await self._store.get(principal.id)).version, version)
        stored = await self._store.put(principal.id, text, self._now(), version)
        if stored is None:
            raise PreconditionFailed(
                "your preferences were changed by another request at the same time; read them again, and repeat the "
                "change"
            )
        return stored


def _encode(content: Mapping[str, Any]) -> str:
    if _depth(content) > MAX_DEPTH:
        raise Invalid(f"preferences: nested more than {MAX_DEPTH} levels deep")
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise Invalid("preferences: NaN and Infinity are not numbers of JSON") from None
    if len(text.encode()) > MAX_PREFERENCES:
        raise Invalid(f"preferences: {len(text.encode()):,} bytes of JSON; the maximum is {MAX_PREFERENCES:,}")
    return text


def _depth(content: Any) -> int:
    """Return the nesting depth, without recursion, or MAX_DEPTH + 1 if it is deeper."""
    level, depth = [content], 0
    while level and depth <= MAX_DEPTH:
        children = [list(item.values()) if isinstance(item, dict) else item for item in level]
        level = [child for group in children if isinstance(group, list) for child in group]
        depth += 1
    return depth
