"""A cache of one setting in this process, until a signal reports a change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar
from uuid import UUID

from postern.store.ports.common_ports import Signals, Topic

T = TypeVar("T")


class SettingCache(Generic[T]):
    """A cache by organisation. It has at most as many entries as there are organisations."""

    def __init__(self, signals: Signals, setting: str) -> None:
        self._setting = setting
        self._known: dict[UUID, T] = {}
        self._generation = 0
        signals.subscribe(Topic.SETTINGS_CHANGED, self._on_changed)
        signals.subscribe(Topic.RESUMED, lambda _: self.forget())

    async def get(self, org_id: UUID, read: Callable[[UUID], Awaitable[T]]) -> T:
        """Return the cached value, or that of `read`, which queries the store."""
        if org_id in self._known:
            return self._known[org_id]
        generation = self._generation
        setting = await read(org_id)
        if generation == self._generation:  # changed during the load: use it, do not cache it
            self._known[org_id] = setting
        return setting

    def forget(self) -> None:
        self._generation += 1
        self._known.clear()

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        if payload.get("name") == self._setting:
            self.forget()
