"""One frozen settings object, read once from flags and environment by the composition root.

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
    """A field with the one line that says what it is for, in `--help` and in docs/operations.md."""
    return field(default=default, metadata={"meaning": meaning})


def _listener_ports() -> list[tuple[str, type, Any]]:
    """Return the setting of each protocol that has a listener: its port."""
    return [
        (spec.port_setting, int, _setting(spec.port, f"port for {spec.servers} clients; 0 picks a free one"))
        for spec in PROTOCOLS.values()
        if spec.port_setting
    ]


# All that a gateway listens on.
PORTS = ("api_port", *(name for name, _, _ in _listener_ports()), "tunnel_port", "control_port")


@dataclass(frozen=True, slots=True)
class _Addresses:
    home: Path = field(metadata={"meaning": "data folder: store, keys, recordings; open to its owner only"})
    host: str = _setting("127.0.0.1", "address that every listener binds to")
    public_host: str = _setting("", "name that clients use to reach this machine; localhost when bound to loopback")
    api_port: int = _setting(7480, "port of the HTTP API; 0 picks a free one")


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
    """Durations are in seconds, sizes in bytes. Port 0 means: pick a free one."""

    mysql_version: str = _setting(
        "8.0.11-Postern", "version that MySQL clients are greeted with, before their target is known"
    )
    mysql_local_files: bool = _setting(
        False, "whether MySQL clients may load files of their own (LOAD DATA LOCAL), whose contents no rule sees"
    )
    tunnel_port: int = _setting(7443, "port for tunnels of the CLI and of agents; 0 picks a free one")
    control_port: int = _setting(7444, "port where agents enrol (gRPC over TLS); 0 picks a free one")
    demo: bool = _setting(True, "whether `postern up` runs the demo database")
    demo_port: int = _setting(7433, "port of the demo database, on loopback; 0 picks a free one")
    workers: int = _setting(1, "relay workers; one for each core is enough")
    database_url: str = _setting("", "SQLAlchemy URL of the store; SQLite in the data folder when empty")
    trusted_proxies: str = _setting(
        "", "addresses or networks of proxies, with commas between, whose X-Forwarded-For is believed"
    )
    log_level: str = _setting("info", "debug, info, warning or error")
    log_format: str = _setting("text", "text or json, one line for each event")
    tls_cert: str = _setting("", "PEM chain of your own server certificate; Postern makes one when empty")
    tls_key: str = _setting("", "PEM private key of that certificate")
    tls_ca: str = _setting("", "PEM of the CA that issued it, for clients; empty when it is publicly trusted")
    provider_networks: str = _setting("", "private networks with identity providers, such as 10.0.0.0/8, with commas")
    metrics_token: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "what may read the metrics and nothing else, as a bearer token; by environment only"
    )
    sink_networks: str = _setting("", "private networks with sinks, such as 10.0.0.0/8 or 127.0.0.1, with commas")
    runbook_schemes: str = _setting("https,ssh", "how repositories of runbooks are read: https, ssh, http, file")
    runbook_networks: str = _setting("", "private networks with such repositories, such as 10.0.0.0/8, with commas")
    runbook_folders: str = _setting("", "folders with such repositories, for file://, with commas")
    runbook_ca: str = _setting("", "PEM of authorities that such repositories' servers may have beside public ones")
    runbook_timeout: float = _setting(30.0, "seconds that reading or writing one repository may take")
    runbook_size: int = _setting(64 * 1024 * 1024, "bytes that the server of one repository may send")
    tracker_networks: str = _setting("", "private networks with issue trackers, such as 10.0.0.0/8, with commas")
    master_key: str = _setting(
        "", "what wraps the data keys: file:PATH, env:NAME or aws-kms:KEY_ARN; keys/encryption.key when empty"
    )
    master_key_old: str = _setting("", "the master key before it, while `postern keys rotate` is not finished")
    cloud_provider: str = _setting("aws", "where `_cloudprov` references lead to: aws, gcp or azure")
    gateway_commands: bool = _setting(
        False, "whether the gateway's own agent runs commands of connections: they can read what the gateway can"
    )
    watchdog_timeout: float = _setting(
        60.0, "seconds without a heartbeat after which a process that hangs is replaced; 0 for never"
    )
    handshake_timeout: float = _setting(
        30.0, "seconds that a client has to log in, and one of the API for a request's head"
    )
    dial_timeout: float = _setting(10.0, "seconds that a target has to answer")
    idle_timeout: float = _setting(0.0, "seconds without traffic or work that end a session; 0 for no limit")
    max_duration: float = _setting(48 * 3600.0, "seconds that a session may last")
    review_wait: float = _setting(
        300.0, "seconds that a client is held at login until its review is decided; 0 tells it at once how to come back"
    )
    max_handshakes: int = _setting(
        1000, "connections not yet logged in (at the API: whose request is not whole), over all addresses"
    )
    max_handshakes_per_address: int = _setting(200, "the same, from one address")
    max_statement: int = _setting(32 * 1024 * 1024, "bytes of the largest statement or value that is judged")
    masking_language_model: str = _setting(
        "", "spaCy model that finds names and places, as en_core_web_lg; needs postern[presidio]; none when empty"
    )
    recording_output_limit: int = _setting(16 * 1024 * 1024, "bytes of output that are kept of one session")
    script_output_limit: int = _setting(
        1 << 30, "bytes that a script on a command may print before it is ended; 0 for no limit"
    )
    recordings_url: str = _setting(
        "", "where sealed recordings are kept: file:///FOLDER, s3://, gs:// or az://; recordings/ when empty"
    )
    recording_least_free: int = _setting(
        512 * 1024 * 1024,
        "bytes that must be free where recordings are written, else no session begins; below half, those that run end",
    )
    recording_segment_size: int = _setting(16 * 1024 * 1024, "bytes of a recording after which its next segment begins")
    recording_sync_interval: float = _setting(0.05, "seconds between two writes of recordings to disk")
    runbook_interval: float = _setting(300.0, "seconds after which a repository with runbooks is read again")
    checkpoint_interval: float = _setting(600.0, "seconds between two signed checkpoints of the ledger, if it went on")
    anchor_file: str = _setting("", "file that checkpoints are appended to, best on a disk of another machine")
    anchor_webhook: str = _setting("", "https address that checkpoints are sent to")
    anchor_webhook_secret: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "what they are signed with for that address (HMAC), by environment only"
    )
    anchor_bucket: str = _setting("", "s3://BUCKET/PREFIX with object lock, where checkpoints are kept")
    anchor_retention: float = _setting(3650.0, "days that a checkpoint in that bucket cannot be deleted")

    auth_method: str = _setting("local", "how people log in until an administrator chooses: local, oidc or saml")
    auth_provider_name: str = _setting("", "what the identity provider is called where people log in")
    oidc_issuer: str = _setting("", "issuer URL of the OpenID provider")
    oidc_client_id: str = _setting("", "this gateway's client id at the OpenID provider")
    oidc_client_secret: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "its client secret, by environment only"
    )
    oidc_scopes: str = _setting("openid profile email", "scopes that are asked for, separated by blanks")
    oidc_audience: str = _setting("", "audience of the provider's access tokens, so that this API takes them")
    oidc_groups_claim: str = _setting("groups", "claim that holds a person's groups")
    saml_metadata_url: str = _setting("", "URL of the SAML identity provider's metadata")
    saml_groups_claim: str = _setting("groups", "attribute that holds a person's groups")

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'postern.db'}"

    @property
    def address(self) -> str:
        """The host name that clients are told to use."""
        if self.public_host:
            return self.public_host
        return "localhost" if self.host in ("127.0.0.1", "::1", "localhost") else self.host

    @property
    def is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")

    @property
    def api_url(self) -> str:
        """Where clients find the API, without `/api`. Plain HTTP on loopback only."""
        return f"{'http' if self.is_loopback else 'https'}://{self.authority_of(self.api_port)}"

    @property
    def proxies(self) -> tuple[Network, ...]:
        """`trusted_proxies`, parsed. Raises Misconfigured."""
        given = [text.strip() for text in self.trusted_proxies.split(",") if text.strip()]
        try:
            return tuple(ipaddress.ip_network(text) for text in given)
        except ValueError as error:
            raise Misconfigured(f"POSTERN_TRUSTED_PROXIES: {error}", field="trusted_proxies") from None

    def authority_of(self, port: int) -> str:
        """`host:port` as it stands in a URL."""
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"

    def environment(self) -> dict[str, str]:
        """These settings as the environment variables that `load` reads: what a child process is given."""
        return {f"POSTERN_{spec.name.upper()}": _as_text(getattr(self, spec.name)) for spec in fields(self)}


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Of an agent outside the gateway. Only `key` is needed; durations are in seconds."""

    key: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "the agent's key, as it was shown once; by environment only"
    )
    agent_policy: str = _setting("", "TOML file of what this agent may serve and reach; not limited when empty")
    cloud_provider: str = _setting("aws", "where `_cloudprov` references lead to: aws, gcp or azure")
    agent_grace: float = _setting(30.0, "seconds that sessions have to end when the agent is told to stop")
    log_level: str = _setting("info", "debug, info, warning or error")
    log_format: str = _setting("text", "text or json, one line for each event")


def _as_text(value: object) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def default_home(environ: Mapping[str, str]) -> Path:
    """`/var/lib/postern` for root (its services drop to another user), else the XDG data folder."""
    if os.geteuid() == 0:
        return Path("/var/lib/postern")
    base = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "postern"


def secret_names() -> frozenset[str]:
    """The fields that hold secrets: never a flag, since everybody on a machine sees the arguments of its processes."""
    return frozenset(name for name, kind in get_type_hints(Settings).items() if kind is Secret)


def load(environ: Mapping[str, str], **flags: object) -> Settings:
    """Flags that are not None win over the environment, which wins over the defaults."""
    values = {"home": default_home(environ), **_given(Settings, environ, flags)}
    values["home"] = Path(str(values["home"])).expanduser().resolve()
    return Settings(**values)


def load_agent(environ: Mapping[str, str], **flags: object) -> AgentSettings:
    """As `load`. Raises Misconfigured without a key."""
    found = AgentSettings(**_given(AgentSettings, environ, flags))
    if not found.key:
        raise Misconfigured(
            "POSTERN_KEY is not set; an administrator makes a key with `postern admin agents create NAME`", field="key"
        )
    return found


def _given(settings: type, environ: Mapping[str, str], flags: Mapping[str, object]) -> dict[str, Any]:
    hints = get_type_hints(settings)
    values: dict[str, Any] = {}
    for spec in fields(settings):
        given = flags.get(spec.name)
        if given is None:
            given = environ.get(f"POSTERN_{spec.name.upper()}")
        if given is None or given == "":
            continue
        values[spec.name] = _convert(spec.name, given, hints[spec.name])
    return values


def _convert(name: str, given: object, kind: type) -> object:
    if kind is bool and isinstance(given, str):
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False}
        if given.lower() not in words:
            raise Misconfigured(f"POSTERN_{name.upper()}: {given!r} is not yes or no", field=name)
        return words[given.lower()]
    try:
        return kind(given)
    except (TypeError, ValueError):
        raise Misconfigured(f"POSTERN_{name.upper()}: {given!r} is not a valid {kind.__name__}", field=name) from None
