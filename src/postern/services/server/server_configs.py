"""The server's own configuration, read and changed by operators while it runs.

A change is stored as the setting `server` of the default organisation and signalled by `settings.changed`: relay
workers then open the new listener and close the old one. Sessions on the old one continue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from postern.domain.identity.principal import Principal
from postern.domain.server import NATIVE, OFF_BY_DEFAULT, Endpoint, Listener, ServerConfig, read_endpoint
from postern.errors import Conflict, Invalid
from postern.services.identity.users import require_person
from postern.services.server.audit_context import record_change
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.operators import Operators
from postern.services.server.server_addresses import checked_url
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.server_ports import OrganisationStore, SettingStore

SETTING = "server"
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class ListenerFields:
    enabled: bool | None = None
    listen_address: str | None = None


@dataclass(frozen=True, slots=True)
class ServerFields:
    """The fields of a request. None keeps a value; an empty text restores the environment's."""

    listeners: Mapping[str, ListenerFields] = field(default_factory=dict)  # by their names in NATIVE
    public_host: str | None = None
    api_url: str | None = None


class ServerConfigs:
    def __init__(
        self,
        store: SettingStore,
        organisation_store: OrganisationStore,
        operators: Operators,
        signals: Signals,
        now: Clock,
        machine: MachineFacts,
    ) -> None:
        self._store = store
        self._organisation_store = organisation_store
        self._operators = operators
        self._signals = signals
        self._now = now
        self._machine = machine
        self._known: ServerConfig | None = None
        self._generation = 0
        signals.subscribe(Topic.SETTINGS_CHANGED, self._on_changed)
        signals.subscribe(Topic.RESUMED, lambda _: self._forget())

    async def current(self) -> ServerConfig:
        """Return what is in force now. One statement, or none when it is cached."""
        if self._known is not None:
            return self._known
        generation = self._generation
        default = await self._organisation_store.default()
        stored = await self._store.get(default.id, SETTING)
        config = self._machine.config if stored is None else _config_of(stored, self._machine.config)
        if generation == self._generation:  # changed during the load: use it, do not cache it
            self._known = config
        return config

    async def listens(self, protocol: str) -> bool:
        """Return whether the gateway listens for native clients of a protocol."""
        listener = (await self.current()).listeners.get(protocol)
        return listener is not None and listener.enabled

    async def get(self, principal: Principal) -> ServerConfig:
        """Return the configuration. Raises Denied."""
        await self._operators.require(principal, "read the server's configuration")
        return await self.current()

    async def put(self, principal: Principal, fields: ServerFields) -> ServerConfig:
        """Change the configuration, all or nothing. Raises Denied, Invalid, Conflict."""
        await self._operators.require(principal, "change the server's configuration")
        before = await self.current()
        after = self._merge(principal, before, fields)
        for name, listener in after.listeners.items():
            old = before.listeners[name]
            if listener.enabled and (listener.endpoint != old.endpoint or not old.enabled):
                self._machine.probe(listener.endpoint, _field(name))
        await self._store.put(principal.org_id, SETTING, _find_overrides(after, self._machine.config), self._now())
        self._forget()
        record_change(_audit_fields(before), _audit_fields(after))
        await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING)
        return after

    def _merge(self, principal: Principal, before: ServerConfig, fields: ServerFields) -> ServerConfig:
        default = self._machine.config
        nothing = ListenerFields()
        listeners = {
            name: self._listener(name, listener, fields.listeners.get(name, nothing))
            for name, listener in before.listeners.items()
        }
        _check_distinct(listeners)
        public_host = before.public_host if fields.public_host is None else fields.public_host
        api_url = before.api_url if fields.api_url is None else fields.api_url.rstrip("/").removesuffix("/api")
        if public_host and public_host != before.public_host:
            self._check_host(public_host)
        if api_url and api_url != before.api_url:
            checked_url(api_url, "api_url", "gateway")
            require_person(principal, "change the address of login pages and set-up links")
        return ServerConfig(listeners, public_host or default.public_host, api_url or default.api_url)

    def _listener(self, name: str, before: Listener, fields: ListenerFields) -> Listener:
        enabled = before.enabled if fields.enabled is None else fields.enabled
        listen_address = fields.listen_address
        endpoint = before.endpoint if listen_address is None else self._endpoint(name, listen_address)
        if enabled and not endpoint.port and name in OFF_BY_DEFAULT:
            raise Invalid(
                f"{_field(name)}: give host:port, because POSTERN_{name.upper()}_PORT sets none", field=_field(name)
            )
        return Listener(enabled, endpoint)

    def _endpoint(self, name: str, text: str) -> Endpoint:
        default = self._machine.config.listeners[name].endpoint
        if text in ("", str(default)):  # which may have a name that only the environment can give
            return default
        endpoint = read_endpoint(text, _field(name))
        other = self._machine.reserved.get(endpoint.port)
        if other is not None:
            raise Conflict(f"{_field(name)}: port {endpoint.port} is already used by {other}", field=_field(name))
        return endpoint

    def _check_host(self, host: str) -> None:
        if not _HOST.fullmatch(host) and not _is_ipv6(host):
            raise Invalid("public_host: is neither a host name nor an IP address", field="public_host")
        if not self._machine.certified(host):
            raise Invalid(
                f"public_host: the server's certificate is not valid for {host!r}; start with POSTERN_PUBLIC_HOST, "
                "which makes one that is, or set POSTERN_TLS_CERT to one that is",
                field="public_host",
            )

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        if payload.get("name") == SETTING:
            self._forget()

    def _forget(self) -> None:
        self._generation += 1
        self._known = None


def _field(name: str) -> str:
    return f"{name}_server_config.listen_address"


def _check_distinct(listeners: Mapping[str, Listener]) -> None:
    """Check that ports differ, whatever the addresses: a wildcard address conflicts with any other."""
    names_by_port: dict[int, str] = {}
    for name, listener in listeners.items():
        port = listener.endpoint.port
        if not port:
            continue
        if port in names_by_port:
            raise Conflict(
                f"{_field(name)}: port {port} is already used for {NATIVE[names_by_port[port]]} clients",
                field=_field(name),
            )
        names_by_port[port] = name


def _is_ipv6(host: str) -> bool:
    try:
        return ":" in host and bool(read_endpoint(f"[{host}]:1", "public_host"))
    except Invalid:
        return False


def _find_overrides(config: ServerConfig, default: ServerConfig) -> dict[str, Any]:
    """Return only what differs from the environment, so that the environment can still change the rest."""
    listeners: dict[str, Any] = {}
    for name, listener in config.listeners.items():
        endpoint = listener.endpoint
        listeners[f"{name}_enabled"] = None if listener.enabled == default.listeners[name].enabled else listener.enabled
        listeners[name] = None if endpoint == default.listeners[name].endpoint else [endpoint.host, endpoint.port]
    return {
        **listeners,
        "public_host": "" if config.public_host == default.public_host else config.public_host,
        "api_url": "" if config.api_url == default.api_url else config.api_url,
    }


def _config_of(stored: Mapping[str, Any], default: ServerConfig) -> ServerConfig:
    listeners: dict[str, Listener] = {}
    for name, listener in default.listeners.items():  # what an older release stored does not name all of them
        chosen, enabled = stored.get(name), stored.get(f"{name}_enabled")
        endpoint = listener.endpoint if chosen is None else Endpoint(chosen[0], chosen[1])
        listeners[name] = Listener(listener.enabled if enabled is None else enabled, endpoint)
    return ServerConfig(
        listeners,
        stored["public_host"] or default.public_host,
        stored["api_url"] or default.api_url,
    )


def _audit_fields(config: ServerConfig) -> dict[str, Any]:
    return {
        **{
            f"{name}_server_config": {"enabled": listener.enabled, "listen_address": str(listener.endpoint)}
            for name, listener in config.listeners.items()
        },
        "public_host": config.public_host,
        "api_url": config.api_url,
    }
