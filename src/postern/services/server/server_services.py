"""The services of the server and its organisations, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.server.audit import Audit
from postern.services.server.auth_configs import AuthConfigs
from postern.services.server.auth_settings import AuthSettings
from postern.services.server.idempotency import Idempotency
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.metrics import ServerMetrics
from postern.services.server.operators import Operators
from postern.services.server.server_configs import ServerConfigs
from postern.services.server.server_features import Features
from postern.services.server.server_logs import ServerLogs
from postern.store.ports.common_ports import Clock, Signals
from postern.store.stores import Stores


@dataclass(frozen=True)
class ServerServices:
    audit: Audit
    auth_configs: AuthConfigs
    auth_settings: AuthSettings
    features: Features
    idempotency: Idempotency
    metrics: ServerMetrics
    operators: Operators
    server_configs: ServerConfigs
    server_logs: ServerLogs


def build_server(stores: Stores, signals: Signals, now: Clock, machine: MachineFacts) -> ServerServices:
    auth_configs = AuthConfigs(stores.settings, stores.organisations, signals, now, machine.auth)
    operators = Operators(stores.organisations)
    return ServerServices(
        audit=Audit(stores.audit, stores.organisations, now),
        auth_configs=auth_configs,
        auth_settings=AuthSettings(
            configs=auth_configs,
            organisations=stores.organisations,
            principals=stores.principals,
            api_keys=stores.api_keys,
            operators=operators,
            signals=signals,
            now=now,
            provider=machine.provider,
            networks=machine.provider_networks,
        ),
        features=Features(stores.settings, signals, now),
        idempotency=Idempotency(stores.idempotency, now),
        metrics=ServerMetrics(machine.metrics, operators, machine.metrics_token),
        operators=operators,
        server_configs=ServerConfigs(stores.settings, stores.organisations, operators, signals, now, machine),
        server_logs=ServerLogs(machine.journal, operators),
    )
