"""What services need from the outside, as Protocols: storage, signals, recordings, a clock.

Services import this package and never SQL. Methods raise Unavailable when the store does not answer.
"""

from __future__ import annotations

from typing import Protocol

from postern.store.ports.common import Clock, Signals, Topic
from postern.store.ports.identity import (
    ApiKeyStore,
    GroupStore,
    LoginStore,
    MachineStore,
    NewVoucher,
    PrincipalFilter,
    PrincipalStore,
    SecondFactorStore,
    SigningKey,
    SigningKeyStore,
    VoucherStore,
)
from postern.store.ports.keys import DataKey, DataKeyStore, MasterKey
from postern.store.ports.ledger import (
    Anchor,
    CheckpointStore,
    Copies,
    LeaseStore,
    LedgerKeyStore,
    LedgerStore,
    ProofStore,
    WholeLedgerStore,
)
from postern.store.ports.server import (
    AuditEntry,
    AuditFilter,
    AuditStore,
    Follower,
    Founding,
    FoundingStore,
    IdempotencyStore,
    Journal,
    KeptAnswer,
    OrganisationStore,
    SchemaStore,
    SettingStore,
)
from postern.store.ports.targets import (
    AccessRuleStore,
    AccessStore,
    AgentFilter,
    AgentStore,
    ConnectionFilter,
    ConnectionStore,
    CredentialStore,
    Ended,
    ErrandStore,
    GuardRailStore,
    NamedRule,
    Recordings,
    ResourceStore,
    SessionFilter,
    SessionStore,
    Standing,
    WorkerStore,
)

__all__ = [
    "AccessRuleStore",
    "AccessStore",
    "AgentFilter",
    "AgentStore",
    "Anchor",
    "ApiKeyStore",
    "AuditEntry",
    "AuditFilter",
    "AuditStore",
    "CheckpointStore",
    "Clock",
    "ConnectionFilter",
    "ConnectionStore",
    "Copies",
    "CredentialStore",
    "DataKey",
    "DataKeyStore",
    "Ended",
    "ErrandStore",
    "Follower",
    "Founding",
    "FoundingStore",
    "GroupStore",
    "GuardRailStore",
    "IdempotencyStore",
    "Journal",
    "KeptAnswer",
    "LeaseStore",
    "LedgerKeyStore",
    "LedgerStore",
    "LoginStore",
    "MachineStore",
    "MasterKey",
    "NamedRule",
    "NewVoucher",
    "OrganisationStore",
    "PrincipalFilter",
    "PrincipalStore",
    "ProofStore",
    "Recordings",
    "ResourceStore",
    "SchemaStore",
    "SecondFactorStore",
    "SessionFilter",
    "SessionStore",
    "SettingStore",
    "Signals",
    "SigningKey",
    "SigningKeyStore",
    "Standing",
    "Stores",
    "Topic",
    "VoucherStore",
    "WholeLedgerStore",
    "WorkerStore",
]


class Stores(Protocol):
    """All of them, for the composition root."""

    @property
    def access(self) -> AccessStore: ...
    @property
    def access_rules(self) -> AccessRuleStore: ...
    @property
    def agents(self) -> AgentStore: ...
    @property
    def api_keys(self) -> ApiKeyStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def checkpoints(self) -> CheckpointStore: ...
    @property
    def connections(self) -> ConnectionStore: ...
    @property
    def credentials(self) -> CredentialStore: ...
    @property
    def errands(self) -> ErrandStore: ...
    @property
    def foundings(self) -> FoundingStore: ...
    @property
    def groups(self) -> GroupStore: ...
    @property
    def guardrails(self) -> GuardRailStore: ...
    @property
    def idempotency(self) -> IdempotencyStore: ...
    @property
    def leases(self) -> LeaseStore: ...
    @property
    def ledger(self) -> WholeLedgerStore: ...
    @property
    def ledger_keys(self) -> LedgerKeyStore: ...
    @property
    def logins(self) -> LoginStore: ...
    @property
    def machines(self) -> MachineStore: ...
    @property
    def organisations(self) -> OrganisationStore: ...
    @property
    def principals(self) -> PrincipalStore: ...
    @property
    def resources(self) -> ResourceStore: ...
    @property
    def schema(self) -> SchemaStore: ...
    @property
    def second_factors(self) -> SecondFactorStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def settings(self) -> SettingStore: ...
    @property
    def signing_keys(self) -> SigningKeyStore: ...
    @property
    def vouchers(self) -> VoucherStore: ...
    @property
    def workers(self) -> WorkerStore: ...
