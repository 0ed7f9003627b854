"""What services need from the outside, as Protocols: storage, signals, recordings, a clock.

Services import this package and never SQL. Methods raise Unavailable when the store does not answer.
"""

from __future__ import annotations

from typing import Protocol

from postern.store.ports.chats import ChatStore
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
from postern.store.ports.issues import BoundTemplate, IssueTemplateStore, SessionIssueStore
from postern.store.ports.keys import DataKey, DataKeyStore, MasterKey, SegmentKeys
from postern.store.ports.ledger import (
    Anchor,
    CheckpointStore,
    Copies,
    LedgerKeyStore,
    LedgerStore,
    ProofStore,
    WholeLedgerStore,
)
from postern.store.ports.recordings import Blobs, LeaseStore, SegmentStore
from postern.store.ports.retention import Doomed, HoldStore, PurgeStore, RetentionStore
from postern.store.ports.reviews import (
    Moved,
    NamedReviewRule,
    ReviewFilter,
    ReviewNews,
    ReviewRuleStore,
    ReviewStore,
)
from postern.store.ports.runbooks import (
    HookRunStore,
    NamedRunbookRule,
    NamedSchedule,
    Outline,
    RepositoryHooks,
    RepositoryStore,
    RunbookRuleStore,
    ScheduleStore,
    SnapshotStore,
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
    OrganisationDeletionStore,
    OrganisationStore,
    OrganisationSummary,
    SchemaStore,
    SettingStore,
)
from postern.store.ports.ssh import HostKeyStore, SshAuthorityStore, SshKeyStore
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
    MaskingRuleStore,
    NamedRule,
    Piece,
    Recordings,
    ResourceStore,
    Rules,
    SessionFilter,
    SessionStore,
    SessionTextStore,
    Standing,
    Unread,
    WorkerStore,
)
from postern.store.ports.telling import (
    DeliveryStore,
    FollowUpStore,
    ReportStore,
    ReviewReportStore,
    SinkStore,
    ViolationStore,
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
    "Blobs",
    "BoundTemplate",
    "ChatStore",
    "CheckpointStore",
    "Clock",
    "ConnectionFilter",
    "ConnectionStore",
    "Copies",
    "CredentialStore",
    "DataKey",
    "DataKeyStore",
    "DeliveryStore",
    "Doomed",
    "Ended",
    "ErrandStore",
    "FollowUpStore",
    "Follower",
    "Founding",
    "FoundingStore",
    "GroupStore",
    "GuardRailStore",
    "HoldStore",
    "HookRunStore",
    "HostKeyStore",
    "IdempotencyStore",
    "IssueTemplateStore",
    "Journal",
    "KeptAnswer",
    "LeaseStore",
    "LedgerKeyStore",
    "LedgerStore",
    "LoginStore",
    "MachineStore",
    "MaskingRuleStore",
    "MasterKey",
    "Moved",
    "NamedReviewRule",
    "NamedRule",
    "NamedRunbookRule",
    "NamedSchedule",
    "NewVoucher",
    "OrganisationDeletionStore",
    "OrganisationStore",
    "OrganisationSummary",
    "Outline",
    "Piece",
    "PrincipalFilter",
    "PrincipalStore",
    "ProofStore",
    "PurgeStore",
    "Recordings",
    "ReportStore",
    "RepositoryHooks",
    "RepositoryStore",
    "ResourceStore",
    "RetentionStore",
    "ReviewFilter",
    "ReviewNews",
    "ReviewReportStore",
    "ReviewRuleStore",
    "ReviewStore",
    "Rules",
    "RunbookRuleStore",
    "ScheduleStore",
    "SchemaStore",
    "SecondFactorStore",
    "SegmentKeys",
    "SegmentStore",
    "SessionFilter",
    "SessionIssueStore",
    "SessionStore",
    "SessionTextStore",
    "SettingStore",
    "Signals",
    "SigningKey",
    "SigningKeyStore",
    "SinkStore",
    "SnapshotStore",
    "SshAuthorityStore",
    "SshKeyStore",
    "Standing",
    "Stores",
    "Topic",
    "Unread",
    "ViolationStore",
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
    def chats(self) -> ChatStore: ...
    @property
    def checkpoints(self) -> CheckpointStore: ...
    @property
    def connections(self) -> ConnectionStore: ...
    @property
    def credentials(self) -> CredentialStore: ...
    @property
    def deliveries(self) -> DeliveryStore: ...
    @property
    def errands(self) -> ErrandStore: ...
    @property
    def follow_up(self) -> FollowUpStore: ...
    @property
    def foundings(self) -> FoundingStore: ...
    @property
    def groups(self) -> GroupStore: ...
    @property
    def guardrails(self) -> GuardRailStore: ...

    @property
    def masking_rules(self) -> MaskingRuleStore: ...
    @property
    def holds(self) -> HoldStore: ...
    @property
    def hook_runs(self) -> HookRunStore: ...
    @property
    def host_keys(self) -> HostKeyStore: ...
    @property
    def idempotency(self) -> IdempotencyStore: ...
    @property
    def issue_templates(self) -> IssueTemplateStore: ...
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
    def organisation_deletions(self) -> OrganisationDeletionStore: ...
    @property
    def principals(self) -> PrincipalStore: ...
    @property
    def purges(self) -> PurgeStore: ...
    @property
    def reports(self) -> ReportStore: ...
    @property
    def resources(self) -> ResourceStore: ...
    @property
    def retentions(self) -> RetentionStore: ...
    @property
    def review_reports(self) -> ReviewReportStore: ...
    @property
    def review_rules(self) -> ReviewRuleStore: ...
    @property
    def reviews(self) -> ReviewStore: ...
    @property
    def runbook_repositories(self) -> RepositoryStore: ...
    @property
    def runbook_snapshots(self) -> SnapshotStore: ...
    @property
    def runbook_rules(self) -> RunbookRuleStore: ...
    @property
    def runbook_schedules(self) -> ScheduleStore: ...
    @property
    def schema(self) -> SchemaStore: ...
    @property
    def second_factors(self) -> SecondFactorStore: ...
    @property
    def segments(self) -> SegmentStore: ...
    @property
    def session_issues(self) -> SessionIssueStore: ...
    @property
    def session_texts(self) -> SessionTextStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def settings(self) -> SettingStore: ...
    @property
    def signing_keys(self) -> SigningKeyStore: ...
    @property
    def sinks(self) -> SinkStore: ...
    @property
    def ssh_authorities(self) -> SshAuthorityStore: ...
    @property
    def ssh_keys(self) -> SshKeyStore: ...
    @property
    def violations(self) -> ViolationStore: ...
    @property
    def vouchers(self) -> VoucherStore: ...
    @property
    def workers(self) -> WorkerStore: ...
