"""The authentication settings in force for each organisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from postern.domain.identity.auth_config import AuthConfig, LdapConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.services.server.setting_cache import SettingCache
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.server_ports import OrganisationStore, SettingStore

SETTING = "auth"


class AuthConfigs:
    """Caches settings until a signal reports a change.

    Where nothing is stored, `default` applies to the default organisation, and local login to all others: users of this
    machine's own provider do not belong to other organisations.
    """

    def __init__(
        self,
        store: SettingStore,
        organisations: OrganisationStore,
        signals: Signals,
        now: Clock,
        default: AuthConfig | None = None,
    ) -> None:
        self._store = store
        self._organisations = organisations
        self._signals = signals
        self._now = now
        self._default = default or AuthConfig()
        self._kept = SettingCache[AuthConfig](signals, SETTING)

    async def of(self, org_id: UUID) -> AuthConfig:
        return await self._kept.get(org_id, self._read)

    async def _read(self, org_id: UUID) -> AuthConfig:
        stored = await self._store.get(org_id, SETTING)
        return await self._unset(org_id) if stored is None else _config_of(stored)

    async def _unset(self, org_id: UUID) -> AuthConfig:
        is_default = self._default != AuthConfig() and org_id == (await self._organisations.default()).id
        return self._default if is_default else AuthConfig()

    async def put(self, org_id: UUID, config: AuthConfig) -> None:
        """Store a configuration that the caller has checked."""
        await self._store.put(org_id, SETTING, _to_json(config), self._now())
        self._kept.forget()
        await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING, org_id=str(org_id))


def _config_of(stored: Mapping[str, Any]) -> AuthConfig:
    oidc, saml, ldap = stored.get("oidc"), stored.get("saml"), stored.get("ldap")
    return AuthConfig(
        method=LoginMethod(stored["method"]),
        oidc=_oidc_of(oidc) if oidc else None,
        saml=SamlConfig(**saml) if saml else None,
        ldap=_ldap_of(ldap) if ldap else None,
        provider_name=stored["provider_name"],
        require_second_factor=stored["require_second_factor"],
    )


def _oidc_of(stored: Mapping[str, Any]) -> OidcConfig:
    return OidcConfig(**{**stored, "client_secret": Secret(stored["client_secret"]), "scopes": tuple(stored["scopes"])})


def _ldap_of(stored: Mapping[str, Any]) -> LdapConfig:
    return LdapConfig(**{**stored, "bind_password": Secret(stored["bind_password"]), "urls": tuple(stored["urls"])})


def _to_json(config: AuthConfig) -> dict[str, Any]:
    """Return the configuration as JSON; the store seals it."""
    values = asdict(config)
    if config.oidc is not None:
        values["oidc"]["client_secret"] = config.oidc.client_secret.reveal()
    if config.ldap is not None:
        values["ldap"]["bind_password"] = config.ldap.bind_password.reveal()
    return values
