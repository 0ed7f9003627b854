"""Facts about the machine, which the composition root passes to services."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from postern.domain.addresses import AllowedNetworks
from postern.domain.identity.auth_config import AuthConfig
from postern.domain.secret import Secret
from postern.domain.server import Endpoint, Listener, ServerConfig
from postern.domain.targets.http_hosts import AppDomain
from postern.protocols.registry import DEFAULT_PROTOCOL
from postern.services.server.auth_settings import ProviderCheck
from postern.services.server.metrics import NO_TOKEN, Gather, nothing
from postern.services.server.server_logs import NoJournal
from postern.store.ports.ledger_ports import Anchor, Copies
from postern.store.ports.server_ports import Journal


def _free(_endpoint: Endpoint, _field: str) -> None:
    """Accept any endpoint, in processes that change no listener."""


def _any_name(_name: str) -> bool:
    return True


def _well() -> str:
    """Report no problem, in processes without recordings."""
    return ""


def _public() -> None:
    """Return None: the certificate is publicly trusted."""


def _nowhere() -> Sequence[Anchor]:
    """Return no anchors: checkpoints are in the store only."""
    return ()


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """`config` and `auth` come from the environment, and apply where nothing is stored.

    `control` is the address of the control service for agents and command lines; `authority` returns the DER form of
    the CA that they verify it by, None for a public one. `probe` raises Conflict or Invalid when an endpoint cannot be
    listened on. `reserved` names the ports of other listeners of this gateway. `certified` returns whether the server's
    certificate is valid for a name. `recordings` returns why this machine should get no sessions, empty when it can; it
    reads files. `anchors` creates the external stores of checkpoints, and raises Misconfigured; `copies` reads stored
    recordings. `metrics` gathers those of all processes, also for holders of `metrics_token`, where there is one.
    `provider_networks` and `sink_networks` are the private networks in which identity providers, and sinks and chats,
    may be. `app_domain` is the domain of HTTP applications.
    """

    config: ServerConfig = field(
        default_factory=lambda: ServerConfig({DEFAULT_PROTOCOL: Listener(True, Endpoint("127.0.0.1", 7432))})
    )
    auth: AuthConfig = field(default_factory=AuthConfig)
    control: Endpoint = field(default_factory=lambda: Endpoint("localhost", 7444))
    authority: Callable[[], bytes | None] = _public
    provider: ProviderCheck | None = None
    probe: Callable[[Endpoint, str], None] = _free
    reserved: Mapping[int, str] = field(default_factory=dict)
    certified: Callable[[str], bool] = _any_name
    recordings: Callable[[], str] = _well
    journal: Journal = field(default_factory=NoJournal)
    anchors: Callable[[], Sequence[Anchor]] = _nowhere
    copies: Copies | None = None
    checkpoint_interval: timedelta = timedelta(minutes=10)
    metrics: Gather = nothing
    metrics_token: Secret = NO_TOKEN
    provider_networks: AllowedNetworks = field(default_factory=lambda: AllowedNetworks("POSTERN_PROVIDER_NETWORKS"))
    sink_networks: AllowedNetworks = field(default_factory=lambda: AllowedNetworks("POSTERN_SINK_NETWORKS"))
    app_domain: AppDomain = field(default_factory=AppDomain)
