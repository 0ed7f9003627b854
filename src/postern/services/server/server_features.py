"""The features that an organisation has enabled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from postern.domain.features import FEATURES, Feature
from postern.domain.identity.principal import Principal
from postern.errors import Denied, NotFound
from postern.services.server.audit_context import record_change
from postern.services.server.setting_cache import SettingCache
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.server_ports import SettingStore

SETTING = "features"


@dataclass(frozen=True, slots=True)
class FeatureState:
    name: Feature
    meaning: str
    enabled: bool


class Features:
    """Caches settings until a signal reports a change, so that a login costs no statement for them."""

    def __init__(self, store: SettingStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now
        self._kept = SettingCache[Mapping[str, object]](signals, SETTING)
        self._changing = asyncio.Lock()

    async def is_enabled(self, org_id: UUID, feature: Feature) -> bool:
        return bool((await self._read_choices(org_id)).get(feature, FEATURES[feature].default))

    async def require(self, org_id: UUID, feature: Feature) -> None:
        """Raise Denied with a hint for administrators where it is disabled."""
        if not await self.is_enabled(org_id, feature):
            raise Denied(f"{feature} is switched off in this organisation; ask an administrator to switch it on")

    async def all(self, org_id: UUID) -> list[FeatureState]:
        """Return all features by name."""
        chosen = await self._read_choices(org_id)
        return [
            FeatureState(name, spec.meaning, bool(chosen.get(name, spec.default)))
            for name, spec in sorted(FEATURES.items())
        ]

    async def put(self, principal: Principal, name: str, *, enabled: bool) -> FeatureState:
        """Switch a feature, at once, for open sessions too. Raises Denied, NotFound."""
        if not principal.is_admin:
            raise Denied("only administrators can switch features")
        if name not in FEATURES:
            raise NotFound(f"there is no feature {name!r}; the features are {', '.join(sorted(FEATURES))}")
        feature, org_id = Feature(name), principal.org_id
        async with self._changing:
            # Read from the store, not the cache: two administrators can switch different features at the same time.
            chosen = dict(await self._store.get(org_id, SETTING) or {})
            before = bool(chosen.get(feature, FEATURES[feature].default))
            await self._store.put(org_id, SETTING, {**chosen, feature: enabled}, self._now())
            self._kept.forget()
        record_change({"name": feature, "enabled": before}, {"name": feature, "enabled": enabled})
        await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING, org_id=str(org_id))
        await self._signals.publish(Topic.POLICY_CHANGED, org_id=str(org_id))  # live links are admitted anew
        return FeatureState(feature, FEATURES[feature].meaning, enabled)

    async def _read_choices(self, org_id: UUID) -> Mapping[str, object]:
        return await self._kept.get(org_id, self._read)

    async def _read(self, org_id: UUID) -> Mapping[str, object]:
        return await self._store.get(org_id, SETTING) or {}
