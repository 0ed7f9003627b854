"""Bodies about the server: state, configuration, features, its log and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, create_model

from postern.api.info import ServerAddresses
from postern.api.schemas.common import Answer, Body
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.ssh_key import public_key
from postern.domain.server import NATIVE, Listener, ServerConfig
from postern.domain.server_log import LogLine
from postern.protocols.registry import PROTOCOLS
from postern.services.server.audit import AuditEntry
from postern.services.server.server_configs import ListenerFields, ServerFields
from postern.services.server.server_features import FeatureState

_FINGERPRINT = Field(description="SHA256:…, as SSH clients show it at the first connection")


class LivenessAnswer(Answer):
    liveness: str = "OK"


class ReadinessAnswer(Answer):
    readiness: str = "OK"


class LoginMethodAnswer(Answer):
    """A way to log in."""

    kind: LoginMethod
    name: str = Field(description="Text for a button: the name of the identity provider, or Password")
    url: str = Field(description="Path of the API where such a login begins: POST for local, GET for providers")


class PublicServerInfoAnswer(Answer):
    auth_method: str = Field(description="local, oidc, saml or ldap")
    setup_required: bool = Field(
        description="True: no user can log in yet, because the first administrator is not set up"
    )
    idp_provider_name: str = Field(description="Name of the identity provider; empty if none was set")
    methods: list[LoginMethodAnswer] = Field(description="All ways to log in, the preferred one first")


class _ServerFacts(Answer):
    version: str
    auth_method: str = Field(description="Of the caller's organisation")
    idp_provider_name: str
    api_url: str
    tenancy_type: str = Field(description="selfhosted, or multitenant with more than one organisation")


def _native_fields() -> dict[str, Any]:
    """Return the fields `NAME_host`, `NAME_port` and `NAME_proxy_enabled` of each protocol with a listener."""
    fields: dict[str, Any] = {}
    for name in NATIVE:
        enabled = Field(description=f"Whether the listener for native clients of {PROTOCOLS[name].servers} is enabled")
        fields |= {f"{name}_host": (str, ...), f"{name}_port": (int, ...), f"{name}_proxy_enabled": (bool, enabled)}
    return fields


if TYPE_CHECKING:
    _NativePorts = _ServerFacts
else:
    _NativePorts = create_model("_NativePorts", __base__=_ServerFacts, **_native_fields())


class ServerInfoAnswer(_NativePorts):
    ssh_host_key: str = Field(description="The gateway's own SSH host key, in OpenSSH's form; for known_hosts")
    ssh_host_key_fingerprint: str = _FINGERPRINT
    tunnel_url: str = Field(description="Where agents and the command line open tunnels")
    grpc_url: str = Field(description="Where agents enrol: the control service, gRPC over TLS")
    ca_certificate: str | None = Field(description="PEM; null if the certificates are publicly trusted")
    gateway_commands: bool = Field(
        description="Whether the built-in agent runs commands of the organisation's connections"
    )
    feature_flags: dict[str, bool]

    @classmethod
    def of(
        cls,
        addresses: ServerAddresses,
        *,
        version: str,
        auth: tuple[str, str],
        tenancy_type: str,
        is_default: bool,
        flags: list[FeatureState],
    ) -> ServerInfoAnswer:
        """Return the configuration. `auth` is the method and the provider's name; `is_default`: whether it is the
        default organisation."""
        return cls(
            version=version,
            auth_method=auth[0],
            idp_provider_name=auth[1],
            api_url=addresses.api_url,
            tenancy_type=tenancy_type,
            **_native_values(addresses),
            ssh_host_key=addresses.ssh_host_key,
            ssh_host_key_fingerprint=_fingerprint(addresses),
            tunnel_url=addresses.tunnel_url,
            grpc_url=addresses.grpc_url,
            ca_certificate=addresses.ca_certificate,
            gateway_commands=addresses.gateway_commands and is_default,
            feature_flags={flag.name: flag.enabled for flag in flags},
        )


def _native_values(addresses: ServerAddresses) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in NATIVE:
        port = addresses.native[name]
        values |= {f"{name}_host": port.host, f"{name}_port": port.port, f"{name}_proxy_enabled": port.enabled}
    return values


class ListenerConfig(Body):
    enabled: bool | None = Field(default=None, description="Left out or null: unchanged")
    listen_address: str | None = Field(
        default=None, description="`host:port`; empty: as the environment sets it; left out or null: unchanged"
    )


def _config_field(name: str) -> str:
    return f"{name}_server_config"


if TYPE_CHECKING:
    _ListenerConfigs = Body
else:
    _ListenerConfigs = create_model(
        "_ListenerConfigs", __base__=Body, **{_config_field(name): (ListenerConfig | None, None) for name in NATIVE}
    )


class MiscConfigRequest(_ListenerConfigs):
    """A change. Fields that are left out or null keep their values; an empty text restores the
    environment's setting."""

    read_only: ClassVar[frozenset[str]] = frozenset({"ssh_host_key_fingerprint"})

    public_host: str | None = Field(None, description="Host name for native clients")
    api_url: str | None = Field(None, description="URL of the API for clients, without /api")

    def fields(self) -> ServerFields:
        configs: dict[str, ListenerConfig | None] = {name: getattr(self, _config_field(name)) for name in NATIVE}
        listeners = {
            name: ListenerFields(config.enabled, config.listen_address)
            for name, config in configs.items()
            if config is not None
        }
        return ServerFields(listeners, self.public_host, self.api_url)


class ListenerConfigAnswer(Answer):
    enabled: bool
    listen_address: str = Field(description="host:port")

    @classmethod
    def of(cls, listener: Listener) -> ListenerConfigAnswer:
        return cls(enabled=listener.enabled, listen_address=str(listener.endpoint))


if TYPE_CHECKING:
    _ListenerAnswers = Answer
else:
    _ListenerAnswers = create_model(
        "_ListenerAnswers", __base__=Answer, **{_config_field(name): (ListenerConfigAnswer, ...) for name in NATIVE}
    )


class MiscConfigAnswer(_ListenerAnswers):
    public_host: str = Field(description="Empty: the machine's own name")
    api_url: str
    ssh_host_key_fingerprint: str = _FINGERPRINT

    @classmethod
    def of(cls, config: ServerConfig, addresses: ServerAddresses) -> MiscConfigAnswer:
        listeners: dict[str, Any] = {
            _config_field(name): ListenerConfigAnswer.of(config.listeners[name]) for name in NATIVE
        }
        return cls(
            **listeners,
            public_host=config.public_host,
            api_url=config.api_url,
            ssh_host_key_fingerprint=_fingerprint(addresses),
        )


def _fingerprint(addresses: ServerAddresses) -> str:
    return public_key(addresses.ssh_host_key).fingerprint if addresses.ssh_host_key else ""


class FeatureAnswer(Answer):
    name: str
    description: str = Field(description="Effect while it is enabled")
    enabled: bool

    @classmethod
    def of(cls, state: FeatureState) -> FeatureAnswer:
        return cls(name=state.name, description=state.meaning, enabled=state.enabled)


class FeatureRequest(Body):
    enabled: bool


class LogLineAnswer(Answer):
    id: str = Field(description="Id of this line; a stream can continue after it")
    at: datetime
    level: str
    process: str
    logger: str
    message: str
    more: dict[str, Any] = Field(description="Fields that were logged with the message")

    @classmethod
    def of(cls, line: LogLine) -> LogLineAnswer:
        return cls(
            id=line.id,
            at=line.at,
            level=line.level,
            process=line.process,
            logger=line.logger,
            message=line.message,
            more=dict(line.more),
        )


class LogLinesAnswer(Answer):
    data: list[LogLineAnswer]


class AuditEntryAnswer(Answer):
    id: str
    created_at: datetime
    actor_id: str | None = Field(description="Null if the caller was unknown, an agent, or on the server's own machine")
    actor_subject: str
    actor_email: str
    action: str
    resource_type: str
    resource: str
    http_method: str = Field(
        description="COMMAND for actions on the server's own machine, CONTROL for declarations of an agent"
    )
    http_path: str
    http_status: int
    outcome: str = Field(description="success or failure")
    client_ip: str
    request_id: str
    body: dict[str, Any] = Field(description="The request, secrets redacted")
    before: dict[str, Any] | None = Field(description="The resource before, secrets redacted; null if there was none")
    after: dict[str, Any] | None

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditEntryAnswer:
        return cls(
            id=str(entry.id),
            created_at=entry.at,
            actor_id=str(entry.actor_id) if entry.actor_id else None,
            actor_subject=entry.actor_subject,
            actor_email=entry.actor_email,
            action=entry.action,
            resource_type=entry.resource_type,
            resource=entry.resource,
            http_method=entry.method,
            http_path=entry.path,
            http_status=entry.status,
            outcome=entry.outcome,
            client_ip=entry.source,
            request_id=entry.request_id,
            body=dict(entry.body),
            before=None if entry.before is None else dict(entry.before),
            after=None if entry.after is None else dict(entry.after),
        )
