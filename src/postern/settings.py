"""One frozen settings object, which the composition root reads once.

Field `x` is set by the option `--x`, the environment variable `POSTERN_X`, or `x` in the configuration file. The first
of them that has a value wins; an empty value counts as none. A secret can also be in a file of its own, which `x_file`
or `POSTERN_X_FILE` names, and is no option, since all users of a machine can see arguments of processes. Nothing else
reads the environment.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.protocols.registry import PROTOCOLS
from postern.protocols.spec import ProtocolSpec
from postern.settings_values import (
    NO_FILE,
    Resolved,
    is_secret,
    open_settings_file,
    require_all,
    resolve_values,
    variable_of,
)

_NO_SECRET = Secret("")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _setting(default: Any, meaning: str, **more: Any) -> Any:
    """Return a field with its description for `--help`, docs/operations.md and `postern config example`.

    `more`: `separator` of a list; `choices`; `least` and `most` of a number; `holds_secret` of a text that can contain
    a password; `essential` for settings of the short example.
    """
    return field(default=default, metadata={"meaning": meaning, **more})


def _seconds(default: float, meaning: str, **more: Any) -> Any:
    """Return a field for a duration, which can also be written as `30s`, `10m` or `48h`."""
    return _setting(default, meaning, is_duration=True, **more)


def _port(default: int, meaning: str, **more: Any) -> Any:
    return _setting(default, meaning, most=65_535, **more)


def _list(meaning: str) -> Any:
    return _setting("", f"{meaning}, separated by commas", separator=",")


_CLOUD_PROVIDER = ("aws", "provider of `_cloudprov` references: aws, gcp or azure")
_LOG_LEVEL = ("info", "lowest level to log: debug, info, warning or error")
_LOG_FORMAT = (
    "auto",
    "format of the log, one line for each event: text, json, journald (with a priority for systemd's journal), or "
    "auto: journald if the journal reads standard error, else text",
)
_LOG_FILE = ("", "file for the log instead of standard error; empty: none")
_LOG_FILE_SIZE = (64 * 1024 * 1024, "bytes after which a new log file begins")
_LOG_FILES = (5, "number of earlier log files that are kept, as FILE.1 (the newest), FILE.2 and so on")
_LOG_LEVELS, _LOG_FORMATS = ("debug", "info", "warning", "error"), ("auto", "text", "json", "journald")
_CLOUD_PROVIDERS = ("aws", "gcp", "azure")


def _listener_ports() -> list[tuple[str, type, Any]]:
    """Return the setting of each protocol that has a listener: its port."""
    return [
        (spec.port_setting, int, _port(spec.port, _port_meaning(spec)))
        for spec in PROTOCOLS.values()
        if spec.port_setting
    ]


def _port_meaning(spec: ProtocolSpec) -> str:
    zero = "0: no listener" if spec.is_off_by_default else "0 chooses a free one"
    return f"port for clients of {spec.servers}; {zero}"


# The settings of everything that a gateway listens on.
PORTS = ("api_port", *(name for name, _, _ in _listener_ports()), "tunnel_port", "control_port")
# Those of them whose 0 means that nothing listens.
OPTIONAL_PORTS = frozenset(spec.port_setting for spec in PROTOCOLS.values() if spec.is_off_by_default)


_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to connect to what listens everywhere


@dataclass(frozen=True, slots=True)
class _Addresses:
    home: Path = field(
        metadata={
            "meaning": "data folder: store, keys and recordings; only its owner can open it",
            "essential": "/var/lib/postern",
        }
    )
    host: str = _setting("127.0.0.1", "address on which every listener listens", essential="0.0.0.0")  # noqa: S104
    public_host: str = _setting(
        "",
        "host name that clients use for this machine; empty: localhost if `host` is loopback, else `host`",
        essential="gateway.example.com",
    )
    api_port: int = _port(7480, "port of the HTTP API; 0 chooses a free one")


if TYPE_CHECKING:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class _ListenerPorts(_Addresses):
        postgres_port: int = 0
        mysql_port: int = 0
        mssql_port: int = 0
        oracledb_port: int = 0
        mongodb_port: int = 0
        httpproxy_port: int = 0
        dynamodb_port: int = 0
        cloudwatch_port: int = 0
        ssh_port: int = 0
        tcp_port: int = 0
else:
    _ListenerPorts = make_dataclass(
        "_ListenerPorts", _listener_ports(), bases=(_Addresses,), frozen=True, slots=True, kw_only=True
    )


@dataclass(frozen=True, slots=True)
class Settings(_ListenerPorts):
    """The settings of a gateway. Durations are in seconds, sizes in bytes. Port 0 means: choose a free one; for
    OPTIONAL_PORTS: do not listen."""

    mysql_version: str = _setting(
        "8.0.11-Postern", "version in the greeting to MySQL clients, which is sent before their target is known"
    )
    mysql_local_files: bool = _setting(
        False, "whether MySQL clients can send local files (LOAD DATA LOCAL), whose contents no rule sees"
    )
    mongodb_version: str = _setting(
        "7.0",
        "server version for MongoDB clients, which is sent before their target is known: 4.4, 5.0, 6.0, 7.0 or 8.0",
        choices=("4.4", "5.0", "6.0", "7.0", "8.0"),
    )
    httpproxy_domain: str = _setting(
        "localhost",
        "domain of HTTP applications: each connection has a host below it, all of which lead to this gateway; with "
        ":PORT if browsers use another port than that of the listener",
        essential="apps.example.com",
    )
    httpproxy_tls_cert: str = _setting(
        "", "file with the PEM chain of a certificate for *.`httpproxy_domain`; empty: the server certificate"
    )
    httpproxy_tls_key: str = _setting("", "file with the PEM private key of the certificate for HTTP applications")
    tunnel_port: int = _port(7443, "port for tunnels of the CLI and of agents; 0 chooses a free one")
    control_port: int = _port(7444, "port where agents enrol (gRPC over TLS); 0 chooses a free one")
    demo: bool = _setting(True, "whether `postern up` runs the demo database")
    demo_port: int = _port(7433, "port of the demo database, on loopback; 0 chooses a free one")
    workers: int = _setting(1, "number of relay workers; one for each core is enough", least=1, essential=2)
    database_url: str = _setting(
        "",
        "SQLAlchemy URL of the store; empty: SQLite in the data folder",
        holds_secret=True,
        essential="postgresql://postern@db.example.com/postern",
    )
    trusted_proxies: str = _list("proxies whose X-Forwarded-For is trusted: addresses or networks")
    log_level: str = _setting(*_LOG_LEVEL, choices=_LOG_LEVELS)
    log_format: str = _setting(*_LOG_FORMAT, choices=_LOG_FORMATS)
    log_file: str = _setting(*_LOG_FILE)
    log_file_size: int = _setting(*_LOG_FILE_SIZE, least=64 * 1024)
    log_files: int = _setting(*_LOG_FILES, least=1, most=1_000)
    tls_cert: str = _setting(
        "",
        "file with the PEM chain of your own server certificate; empty: Postern creates one",
        essential="/etc/postern/server.crt",
    )
    tls_key: str = _setting(
        "", "file with the PEM private key of your own server certificate", essential="/etc/postern/server.key"
    )
    tls_ca: str = _setting(
        "",
        "file with the CA that issued your own server certificate (PEM), for clients; empty if it is publicly trusted",
    )
    acme_directory: str = _setting(
        "",
        "URL of an ACME server that issues the server certificate, such as "
        "https://acme-v02.api.letsencrypt.org/directory; empty: none",
    )
    acme_accept_terms: bool = _setting(False, "whether you accept the terms of service of the ACME server")
    acme_email: str = _setting("", "address to which the ACME server can write; empty: none")
    acme_domains: str = _setting(
        "", "names of the certificate, separated by commas; empty: `public_host`", separator=","
    )
    acme_http_port: int = _port(
        80, "port where challenges of the ACME server are answered, which reach it at port 80; 0: at the API's port"
    )
    acme_ca: str = _setting("", "file with the PEM of the CA to trust for the ACME server; empty: public ones")
    provider_networks: str = _list("private networks where identity providers are allowed, such as 10.0.0.0/8")
    metrics_token: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "bearer token for reading metrics only", essential="/run/secrets/metrics_token"
    )
    sink_networks: str = _list("private networks where sinks are allowed, such as 10.0.0.0/8 or 127.0.0.1")
    runbook_schemes: str = _setting(
        "https,ssh",
        "schemes that repositories of runbooks can use: https, ssh, http, file; separated by commas",
        separator=",",
    )
    runbook_networks: str = _list("private networks where repositories of runbooks are allowed, such as 10.0.0.0/8")
    runbook_folders: str = _list("folders where repositories of runbooks are allowed, for file://")
    runbook_ca: str = _setting(
        "", "file with the PEM of CAs to trust for repositories of runbooks, in addition to public ones"
    )
    runbook_timeout: float = _seconds(30.0, "maximum seconds to read or write a repository of runbooks")
    runbook_size: int = _setting(64 * 1024 * 1024, "maximum bytes that the server of a repository can send")
    tracker_networks: str = _list("private networks where issue trackers are allowed, such as 10.0.0.0/8")
    master_key: str = _setting(
        "", "master key that encrypts the data keys: file:PATH, env:NAME or aws-kms:KEY_ARN; empty: keys/encryption.key"
    )
    master_key_old: str = _setting("", "previous master key, until `postern keys rotate` is finished")
    cloud_provider: str = _setting(*_CLOUD_PROVIDER, choices=_CLOUD_PROVIDERS)
    gateway_commands: bool = _setting(
        False, "whether the built-in agent runs commands of connections, which can read all that the gateway can"
    )
    watchdog_timeout: float = _seconds(
        60.0, "seconds without a heartbeat after which a process is replaced: at least 5, or 0 to disable this"
    )
    preload: bool = _setting(
        True,
        "whether one process loads the program and forks the others (Linux), which saves time and memory; otherwise "
        "each loads it, with a memory layout of its own",
    )
    handshake_timeout: float = _seconds(
        30.0, "seconds that a client has to log in, and an API client to send the head of a request"
    )
    dial_timeout: float = _seconds(10.0, "seconds to wait for a target's answer when connecting")
    idle_timeout: float = _seconds(0.0, "seconds without traffic or work after which a session ends; 0 for no limit")
    max_duration: float = _seconds(48 * 3600.0, "maximum seconds of a session")
    review_wait: float = _seconds(
        300.0, "seconds that a login waits for its review; 0 rejects it at once with instructions to reconnect"
    )
    max_handshakes: int = _setting(
        1000,
        "maximum number of connections before login (at the API: before the request is complete), over all addresses",
    )
    max_handshakes_per_address: int = _setting(200, "maximum number of connections before login from one address")
    max_statement: int = _setting(32 * 1024 * 1024, "maximum bytes of a statement or value that is inspected")
    masking_language_model: str = _setting(
        "", "spaCy model that finds names and places, such as en_core_web_lg; needs presidio-analyzer; empty: none"
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
    recording_sync_interval: float = _seconds(0.05, "minimum seconds between two writes of recordings to disk")
    runbook_interval: float = _seconds(300.0, "seconds after which a repository of runbooks is read again")
    checkpoint_interval: float = _seconds(
        600.0, "seconds between two signed checkpoints of the ledger, if it has new entries"
    )
    anchor_file: str = _setting(
        "", "file to which checkpoints are appended, preferably on a disk of a different machine"
    )
    anchor_webhook: str = _setting("", "https URL to which checkpoints are sent")
    anchor_webhook_secret: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "HMAC key that signs checkpoints for `anchor_webhook`"
    )
    anchor_bucket: str = _setting("", "s3://BUCKET/PREFIX with object lock, where checkpoints are stored")
    anchor_retention: float = _setting(3650.0, "days for which checkpoints in the anchor bucket cannot be deleted")

    auth_method: str = _setting(
        "local",
        "login method until an administrator chooses one: local, oidc, saml or ldap",
        choices=("local", "oidc", "saml", "ldap"),
        essential="oidc",
    )
    auth_provider_name: str = _setting("", "name of the identity provider on the login page")
    oidc_issuer: str = _setting("", "issuer URL of the OpenID Connect provider", essential="https://login.example.com")
    oidc_client_id: str = _setting("", "this gateway's client id at the OpenID Connect provider", essential="postern")
    oidc_client_secret: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "client secret at the OpenID Connect provider", essential="/run/secrets/oidc_client_secret"
    )
    oidc_scopes: str = _setting("openid profile email", "scopes to request, separated by spaces", separator=" ")
    oidc_audience: str = _setting("", "audience of the provider's access tokens, so that the API accepts them")
    oidc_groups_claim: str = _setting("groups", "claim with the user's groups")
    saml_metadata_url: str = _setting("", "URL of the SAML identity provider's metadata")
    saml_groups_claim: str = _setting("groups", "attribute with the user's groups")
    ldap_urls: str = _setting(
        "", "LDAP servers in order, separated by spaces, such as ldaps://dc1.example.com", separator=" "
    )
    ldap_base_dn: str = _setting("", "entry of the LDAP directory below which users and groups are")
    ldap_bind_dn: str = _setting("", "account that searches the LDAP directory")
    ldap_bind_password: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "password of the account that searches the LDAP directory"
    )
    ldap_ca: str = _setting("", "file with the CA certificates of the LDAP servers; empty: those of the system")
    ldap_start_tls: bool = _setting(False, "begin TLS on ldap:// connections (StartTLS)")
    ldap_active_directory: bool = _setting(False, "the LDAP directory is Active Directory")

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
    def local_host(self) -> str:
        """Return the address at which processes of this machine reach the listeners."""
        return _LOCAL.get(self.host, self.host)

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

    @property
    def master_key_variables(self) -> frozenset[str]:
        """Return the environment variables that contain a master key: for the processes that open the store, and no
        others."""
        places = (self.master_key, self.master_key_old)
        return frozenset(place.removeprefix("env:") for place in places if place.startswith("env:"))

    def authority_of(self, port: int) -> str:
        """Return `host:port` in the form of a URL."""
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"

    def environment(self) -> dict[str, str]:
        """Return these settings as the environment variables that `load` reads, for child processes. They read no file:
        all processes of a gateway have the settings of its start."""
        variables = {"POSTERN_CONFIG": NO_FILE}
        for spec in fields(self):
            variables[variable_of(spec.name)] = _as_text(getattr(self, spec.name))
            if is_secret(type(self), spec.name):
                variables[variable_of(f"{spec.name}_file")] = ""
        return variables


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent outside of the gateway. Only `key` is required; durations are in seconds."""

    key: Secret = _setting(  # noqa: RUF009 - a Secret never changes
        _NO_SECRET, "the agent's key, which was shown when it was created"
    )
    agent_policy: str = _setting("", "TOML file that limits what this agent serves and reaches; empty: no limits")
    cloud_provider: str = _setting(*_CLOUD_PROVIDER, choices=_CLOUD_PROVIDERS)
    agent_grace: float = _seconds(30.0, "seconds that sessions have to end when the agent is stopped")
    log_level: str = _setting(*_LOG_LEVEL, choices=_LOG_LEVELS)
    log_format: str = _setting(*_LOG_FORMAT, choices=_LOG_FORMATS)
    log_file: str = _setting(*_LOG_FILE)
    log_file_size: int = _setting(*_LOG_FILE_SIZE, least=64 * 1024)
    log_files: int = _setting(*_LOG_FILES, least=1, most=1_000)


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


@cache
def known_names() -> frozenset[str]:
    """Return all names that a configuration file can have: one machine can run a gateway and an agent."""
    return frozenset(
        name
        for kind in (Settings, AgentSettings)
        for spec in fields(kind)
        for name in (spec.name, *((f"{spec.name}_file",) if is_secret(kind, spec.name) else ()))
    )


def load(environ: Mapping[str, str], **flags: object) -> Settings:
    """Load the settings. Options that are not None take precedence over the environment, then the file, then the
    defaults. `config` among them is the file, instead of POSTERN_CONFIG. Raises Misconfigured."""
    values = require_all(resolve(Settings, environ, flags))
    return Settings(**{**values, "home": Path(str(values["home"])).expanduser().resolve()})


def load_agent(environ: Mapping[str, str], *, key_required: bool = True, **flags: object) -> AgentSettings:
    """Load an agent's settings. Raises as `load`, and Misconfigured without a key."""
    settings = AgentSettings(**require_all(resolve(AgentSettings, environ, flags)))
    if key_required and not settings.key:
        raise Misconfigured(
            "POSTERN_KEY is not set; an administrator creates a key with `postern admin agents create NAME`",
            field="key",
        )
    return settings


def resolve(
    kind: type[Settings] | type[AgentSettings], environ: Mapping[str, str], flags: Mapping[str, object]
) -> Resolved:
    """Return all values, with where they come from and what is wrong. Raises Misconfigured if the file cannot be read
    as a whole."""
    chosen = flags.get("config") or environ.get("POSTERN_CONFIG")
    file = open_settings_file(str(chosen) if chosen else "", known_names())
    return resolve_values(kind, environ, flags, file, {"home": default_home(environ)})
