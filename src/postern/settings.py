"""One frozen settings object, which the composition root reads once from options and environment.

Every field `x` is set by the environment variable `POSTERN_X`. Nothing else reads the environment.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.protocols.registry import PROTOCOLS

_NO_SECRET = Secret("")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _setting(default: Any, meaning: str) -> Any:
    """Return a field with its description for `--help` and docs/operations.md."""
    return field(default=default, metadata={"meaning": meaning})


def _listener_ports() -> list[tuple[str, type, Any]]:
    """Return the setting of each protocol that has a listener: its port."""
    return [
        (spec.port_setting, int, _setting(spec.port, f"port for {spec.servers} clients; 0 chooses a free one"))
        for spec in PROTOCOLS.values()
        if spec.port_setting
    ]


# The settings of everything that a gateway listens on.
PORTS = ("api_port", *(name for name, _, _ in _listener_ports()), "tunnel_port", "control_port")


@dataclass(frozen=True, slots=True)
class _Addresses:
    home: Path = field(metadata={"meaning": "data folder: store, keys and recordings; only its owner can open it"})
    host: str = _setting("127.0.0.1", "address on which every listener listens")
    public_host: str = _setting(
        "", "host name that clients use for this machine; empty: localhost if `host` is loopback, else `host`"
    )
    api_port: int = _setting(7480, "port of the HTTP API; 0 chooses a free one")


if TYPE_CHECKING:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class _ListenerPorts(_Addresses):
        postgres_port: int = 0
        mysql_port: int = 0
        ssh_port: int = 0
else:
    _ListenerPorts = make_dataclass(
        "_ListenerPorts", _listener_ports(), bases=(_Addresses,), frozen=True, slots=True, kw_only=True
    )


@dataclass(frozen=True, slots=True)
class Settings(_ListenerPorts):
    """The settings of a gateway. Durations are in seconds, sizes in bytes. Port 0 means: choose a free one."""

    mysql_version: str = _setting(
        "8.0.11-Postern", "version in the greeting to MySQL clients, which is sent before their target is known"
    )
    mysql_local_files: bool = _setting(
        False, "whether MySQL clients can send local files (LOAD DATA LOCAL), whose contents no rule sees"
    )
    tunnel_port: int = _setting(7443, "port for tunnels of the CLI and of agents; 0 chooses a free one")
    control_port: int = _setting(7444, "port where agents enrol (gRPC over TLS); 0 chooses a free one")
    demo: bool = _setting(True, "whether `postern up` runs the demo database")
    demo_port: int = _setting(7433, "port of the demo database, on loopback; 0 chooses a free one")
    workers: int = _setting(1, "number of relay workers; one for each core is enough")
    database_url: str = _setting("", "SQLAlchemy URL of the store; empty: SQLite in the data folder")
    trusted_proxies: str = _setting(
        "", "proxies whose X-Forwarded-For is trusted: addresses or networks, separated by commas"
    )
    log_level: str = _setting("info", "lowest level to log: debug, info, warning or error")
    log_format: str = _setting("text", "format of the log: text or json, one line for each event")
    tls_cert: str = _setting("", "file with the PEM chain of your own server certificate; empty: Postern creates one")
    tls_key: str = _setting("", "file with the PEM private key of your own server certificate")
    tls_ca: str = _setting(
        "",
        "file with the CA that issued your own server certificate (PEM), for clients; empty if it is publicly trusted",
    )
    provider_networks: str = _setting(
        "", "private networks where identity providers are allowed, such as 10.0.0.0/8, separated by commas"
    )
    metrics_token: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "bearer token for reading metrics only; set by environment variable only"
    )
    sink_networks: str = _setting(
        "", "private networks where sinks are allowed, such as 10.0.0.0/8 or 127.0.0.1, separated by commas"
    )
    runbook_schemes: str = _setting(
        "https,ssh", "schemes that repositories of runbooks can use: https, ssh, http, file; separated by commas"
    )
    runbook_networks: str = _setting(
        "", "private networks where repositories of runbooks are allowed, such as 10.0.0.0/8, separated by commas"
    )
    runbook_folders: str = _setting(
        "", "folders where repositories of runbooks are allowed, for file://, separated by commas"
    )
    runbook_ca: str = _setting(
        "", "file with the PEM of CAs to trust for repositories of runbooks, in addition to public ones"
    )
    runbook_timeout: float = _setting(30.0, "maximum seconds to read or write a repository of runbooks")
    runbook_size: int = _setting(64 * 1024 * 1024, "maximum bytes that the server of a repository can send")
    tracker_networks: str = _setting(
        "", "private networks where issue trackers are allowed, such as 10.0.0.0/8, separated by commas"
    )
    master_key: str = _setting(
        "", "master key that encrypts the data keys: file:PATH, env:NAME or aws-kms:KEY_ARN; empty: keys/encryption.key"
    )
    master_key_old: str = _setting("", "previous master key, until `postern keys rotate` is finished")
    cloud_provider: str = _setting("aws", "provider of `_cloudprov` references: aws, gcp or azure")
    gateway_commands: bool = _setting(
        False, "whether the built-in agent runs commands of connections, which can read all that the gateway can"
    )
    watchdog_timeout: float = _setting(
        60.0, "seconds without a heartbeat after which a process is replaced: at least 5, or 0 to disable this"
    )
    handshake_timeout: float = _setting(
        30.0, "seconds that a client has to log in, and an API client to send the head of a request"
    )
    dial_timeout: float = _setting(10.0, "seconds to wait for a target's answer when connecting")
    idle_timeout: float = _setting(0.0, "seconds without traffic or work after which a session ends; 0 for no limit")
    max_duration: float = _setting(48 * 3600.0, "maximum seconds of a session")
    review_wait: float = _setting(
        300.0, "seconds that a login waits for its review; 0 rejects it at once with instructions to reconnect"
    )
    max_handshakes: int = _setting(
        1000,
        "maximum number of connections before login (at the API: before the request is complete), over all addresses",
    )
    max_handshakes_per_address: int = _setting(200, "maximum number of connections before login from one address")
    max_statement: int = _setting(32 * 1024 * 1024, "maximum bytes of a statement or value that is inspected")
    masking_language_model: str = _setting(
        "", "spaCy model that finds names and places, such as en_core_web_lg; needs postern[presidio]; empty: none"
    )
    recording_output_limit: int = _setting(
        16 * 1024 * 1024, "maximum bytes of output that are recorded for each session"
    )
    script_output_limit: int = _setting(
        1 << 30, "maximum bytes that a script on a command can print before it is ended; 0 for no limit"
    )
    recordings_url: str = _setting(
        "", "blob store for sealed recordings: file:///FOLDER, s3://, gs:// or az://; empty: recordings/"
    )
    recording_least_free: int = _setting(
        512 * 1024 * 1024,
        "free bytes of the recordings' disk that a new session needs; below half of it, running sessions end",
    )
    recording_segment_size: int = _setting(16 * 1024 * 1024, "bytes of a recording after which a new segment begins")
    recording_sync_interval: float = _setting(0.05, "seconds between two writes of recordings to disk")
    runbook_interval: float = _setting(300.0, "seconds after which a repository of runbooks is read again")
    checkpoint_interval: float = _setting(
        600.0, "seconds between two signed checkpoints of the ledger, if it has new entries"
    )
    anchor_file: str = _setting(
        "", "file to which checkpoints are appended, preferably on a disk of a different machine"
    )
    anchor_webhook: str = _setting("", "https URL to which checkpoints are sent")
    anchor_webhook_secret: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "HMAC key that signs checkpoints for POSTERN_ANCHOR_WEBHOOK; set by environment variable only"
    )
    anchor_bucket: str = _setting("", "s3://BUCKET/PREFIX with object lock, where checkpoints are stored")
    anchor_retention: float = _setting(3650.0, "days for which checkpoints in the anchor bucket cannot be deleted")

    auth_method: str = _setting("local", "login method until an administrator chooses one: local, oidc or saml")
    auth_provider_name: str = _setting("", "name of the identity provider on the login page")
    oidc_issuer: str = _setting("", "issuer URL of the OpenID Connect provider")
    oidc_client_id: str = _setting("", "this gateway's client id at the OpenID Connect provider")
    oidc_client_secret: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "client secret at the OpenID Connect provider; set by environment variable only"
    )
    oidc_scopes: str = _setting("openid profile email", "scopes to request, separated by spaces")
    oidc_audience: str = _setting("", "audience of the provider's access tokens, so that the API accepts them")
    oidc_groups_claim: str = _setting("groups", "claim with the user's groups")
    saml_metadata_url: str = _setting("", "URL of the SAML identity provider's metadata")
    saml_groups_claim: str = _setting("groups", "attribute with the user's groups")

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'postern.db'}"

    @property
    def address(self) -> str:
        """Return the host name for clients."""
        if self.public_host:
            return self.public_host
        return "localhost" if self.host in ("127.0.0.1", "::1", "localhost") else self.host

    @property
    def is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")

    @property
    def api_url(self) -> str:
        """Return the URL of the API, without `/api`. It is plain HTTP on loopback only."""
        return f"{'http' if self.is_loopback else 'https'}://{self.authority_of(self.api_port)}"

    @property
    def proxies(self) -> tuple[Network, ...]:
        """Parse `trusted_proxies`. Raises Misconfigured."""
        networks = [text.strip() for text in self.trusted_proxies.split(",") if text.strip()]
        try:
            return tuple(ipaddress.ip_network(text) for text in networks)
        except ValueError as error:
            raise Misconfigured(f"POSTERN_TRUSTED_PROXIES: {error}", field="trusted_proxies") from None

    def authority_of(self, port: int) -> str:
        """Return `host:port` in the form of a URL."""
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"

    def environment(self) -> dict[str, str]:
        """Return these settings as the environment variables that `load` reads, for child processes."""
        return {f"POSTERN_{spec.name.upper()}": _as_text(getattr(self, spec.name)) for spec in fields(self)}


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent outside of the gateway. Only `key` is required; durations are in seconds."""

    key: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "the agent's key, which was shown when it was created; set by environment variable only"
    )
    agent_policy: str = _setting("", "TOML file that limits what this agent serves and reaches; empty: no limits")
    cloud_provider: str = _setting("aws", "provider of `_cloudprov` references: aws, gcp or azure")
    agent_grace: float = _setting(30.0, "seconds that sessions have to end when the agent is stopped")
    log_level: str = _setting("info", "lowest level to log: debug, info, warning or error")
    log_format: str = _setting("text", "format of the log: text or json, one line for each event")


def _as_text(value: object) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def default_home(environ: Mapping[str, str]) -> Path:
    """Return `/var/lib/postern` for root (its services switch to a different user), else the XDG data folder."""
    if os.geteuid() == 0:
        return Path("/var/lib/postern")
    base = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "postern"


def secret_names() -> frozenset[str]:
    """Return the fields that hold secrets: never an option, since all users of a machine can see arguments of
    processes."""
    return frozenset(name for name, kind in get_type_hints(Settings).items() if kind is Secret)


def load(environ: Mapping[str, str], **flags: object) -> Settings:
    """Load the settings. Options that are not None take precedence over the environment, which takes precedence over
    the defaults."""
    values = {"home": default_home(environ), **_read_values(Settings, environ, flags)}
    values["home"] = Path(str(values["home"])).expanduser().resolve()
    return Settings(**values)


def load_agent(environ: Mapping[str, str], **flags: object) -> AgentSettings:
    """Load an agent's settings. Raises as `load`, and Misconfigured without a key."""
    settings = AgentSettings(**_read_values(AgentSettings, environ, flags))
    if not settings.key:
        raise Misconfigured(
            "POSTERN_KEY is not set; an administrator creates a key with `postern admin agents create NAME`",
            field="key",
        )
    return settings


def _read_values(settings: type, environ: Mapping[str, str], flags: Mapping[str, object]) -> dict[str, Any]:
    hints = get_type_hints(settings)
    values: dict[str, Any] = {}
    for spec in fields(settings):
        text = flags.get(spec.name)
        if text is None:
            text = environ.get(f"POSTERN_{spec.name.upper()}")
        if text is None or text == "":
            continue
        values[spec.name] = _convert(spec.name, text, hints[spec.name])
    return values


def _convert(name: str, value: object, kind: type) -> object:
    if kind is bool and isinstance(value, str):
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False}
        if value.lower() not in words:
            raise Misconfigured(f"POSTERN_{name.upper()}: {value!r} is not a boolean; write yes or no", field=name)
        return words[value.lower()]
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise Misconfigured(f"POSTERN_{name.upper()}: {value!r} is not a valid {kind.__name__}", field=name) from None
