"""The services of targets and access to them, built together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from postern.domain.rules.masking import DetectedType
from postern.services.admission import BROWSER, Access
from postern.services.identity.client_certificates import ClientCertificates
from postern.services.identity.credentials import Credentials
from postern.services.identity.logins.authentication import FEDERATION
from postern.services.identity.logins.ssh_logins import MEANS as SSH_LOGIN
from postern.services.identity.logins.ssh_logins import LoginProof
from postern.services.identity.ssh_authorities import MEANS as SSH_AUTHORITY
from postern.services.identity.ssh_authorities import SshAuthorities
from postern.services.identity.ssh_keys import MEANS as SSH_KEY
from postern.services.identity.ssh_keys import SshKeys
from postern.services.issues.session_issues import Issues
from postern.services.reviews.access_requests import AccessRequests
from postern.services.reviews.credential_endings import CredentialEndings
from postern.services.reviews.requirement_lookup import RequirementLookup
from postern.services.reviews.review_requests import ReviewRequests
from postern.services.reviews.review_rules import ReviewRules
from postern.services.reviews.reviewed_scripts import ReviewedScripts
from postern.services.reviews.reviews import Reviews
from postern.services.rules.access_control import AccessControl
from postern.services.rules.access_rules import AccessRules
from postern.services.rules.guardrail_trials import GuardrailTrials, TrialJudge
from postern.services.rules.guardrails import Guardrails
from postern.services.rules.masking_rules import MaskingEngine, MaskingRules
from postern.services.rules.network_control import NetworkControl
from postern.services.rules.network_rules import NetworkRules
from postern.services.runbooks.allowed import RunbookRights
from postern.services.runbooks.rules import RunbookRules
from postern.services.server.audit import Audit
from postern.services.server.server_features import Features
from postern.services.sessions import Sessions
from postern.services.targets.agents import Agents
from postern.services.targets.connection_catalogue import ConnectionCatalogue
from postern.services.targets.connection_fields import FieldChecks
from postern.services.targets.connections import Connections
from postern.services.targets.declarations import Declarations
from postern.services.targets.host_keys import HostKeys
from postern.services.targets.proxy_managers import ProxyManagers
from postern.services.targets.relay_workers import RelayWorkers
from postern.services.targets.resources import Resources
from postern.services.targets.schema_documents import SchemaDocuments
from postern.services.targets.script_previews import ScriptPreviews
from postern.services.targets.target_tasks import TargetTasks
from postern.services.targets.terminal_attestations import TerminalAttestations
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import Recordings
from postern.store.stores import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What this gateway can do with traffic.

    `enforceable`: the protocols that have a relay, on which rules take effect and scripts run. `parsed`: those that
    have a parser as well, so that rules about statements can be enforced. `judge`: tries guardrails outside of
    sessions. `models`: the information types that a language model finds here. `compiles`: the check of a pattern, see
    Guardrails. `masks`: tries a masking rule. `types`: the information types that masking detects.
    """

    compiles: Callable[[str], str | None]
    masks: MaskingEngine
    enforceable: frozenset[str]
    parsed: frozenset[str] = frozenset()
    judge: TrialJudge | None = None
    models: frozenset[str] = frozenset()
    types: tuple[DetectedType, ...] = ()


@dataclass(frozen=True)
class RuleServices:
    """The rules that administrators set."""

    access_rules: AccessRules
    control: AccessControl
    guardrail_trials: GuardrailTrials
    guardrails: Guardrails
    masking_rules: MaskingRules
    network_rules: NetworkRules
    review_rules: ReviewRules
    runbook_rights: RunbookRights
    runbook_rules: RunbookRules


@dataclass(frozen=True)
class ApprovalServices:
    """Required approvals, and reviews."""

    asking: ReviewRequests
    review_needed: RequirementLookup
    reviews: Reviews


@dataclass(frozen=True)
class AccessServices:
    """Admission to targets, and sessions."""

    access: Access
    access_requests: AccessRequests
    client_certificates: ClientCertificates
    schema_documents: SchemaDocuments
    script_previews: ScriptPreviews
    connection_catalogue: ConnectionCatalogue
    target_tasks: TargetTasks
    proxy_managers: ProxyManagers
    sessions: Sessions
    ssh_authorities: SshAuthorities
    ssh_keys: SshKeys
    terminal_attestations: TerminalAttestations


@dataclass(frozen=True)
class ConnectionServices:
    """Targets and connections to them."""

    agents: Agents
    connections: Connections
    credentials: Credentials
    declarations: Declarations
    host_keys: HostKeys
    relay_workers: RelayWorkers
    resources: Resources


@dataclass(frozen=True)
class TargetServices(RuleServices, ApprovalServices, AccessServices, ConnectionServices):
    """All services of targets as one flat object."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """What all of them need."""

    stores: Stores
    signals: Signals
    recordings: Recordings
    now: Clock
    features: Features
    able: Abilities
    control: AccessControl
    networks: NetworkControl
    listens: Callable[[str], Awaitable[bool]]


def build_targets(
    stores: Stores,
    signals: Signals,
    recordings: Recordings,
    now: Clock,
    features: Features,
    audit: Audit,
    able: Abilities,
    control: AccessControl,
    networks: NetworkControl,
    issues: Issues,
    listens: Callable[[str], Awaitable[bool]],
) -> TargetServices:
    """Build all services of targets. `listens`: see Credentials."""
    ground = _Ground(stores, signals, recordings, now, features, able, control, networks, listens)
    approvals = _build_approvals(ground)
    rules = _build_rules(ground, approvals.review_needed)
    access = _build_access(ground, approvals, rules.runbook_rights, issues)
    connections = _build_connections(ground, audit, access.client_certificates)
    return TargetServices(**vars(rules), **vars(approvals), **vars(access), **vars(connections))


def _build_approvals(on: _Ground) -> ApprovalServices:
    stores, features, signals, now = on.stores, on.features, on.signals, on.now
    needed = RequirementLookup(stores.review_rules, features, signals, now)
    return ApprovalServices(
        asking=ReviewRequests(stores.reviews, stores.sessions, needed, features, signals, now),
        review_needed=needed,
        reviews=Reviews(stores.reviews, stores.sessions, features, signals, now),
    )


def _build_rules(on: _Ground, needed: RequirementLookup) -> RuleServices:
    stores, able, signals, now = on.stores, on.able, on.signals, on.now
    connections, enforceable, compiles = stores.connections, able.enforceable, able.compiles
    rails = Guardrails(
        stores.guardrails, connections, signals, now, compiles=compiles, enforceable=enforceable, parsed=able.parsed
    )
    return RuleServices(
        access_rules=AccessRules(
            store=stores.access_rules,
            connections=connections,
            principals=stores.principals,
            control=on.control,
            networks=on.networks,
            needed=needed,
            signals=signals,
            now=now,
        ),
        control=on.control,
        guardrail_trials=GuardrailTrials(rails, stores.sessions, on.recordings, able.judge, compiles, now),
        guardrails=rails,
        masking_rules=MaskingRules(
            stores.masking_rules,
            stores.access,
            connections,
            signals,
            now,
            compiles=compiles,
            engine=able.masks,
            enforceable=enforceable,
            models=able.models,
            types=able.types,
        ),
        network_rules=NetworkRules(stores.network_rules, connections, signals, now),
        review_rules=ReviewRules(stores.review_rules, connections, signals, now),
        runbook_rights=RunbookRights(stores.runbook_rules, signals, now),
        runbook_rules=RunbookRules(stores.runbook_rules, connections, signals, now),
    )


def _build_access(on: _Ground, approvals: ApprovalServices, rights: RunbookRights, issues: Issues) -> AccessServices:
    stores, features, signals, now = on.stores, on.features, on.signals, on.now
    ssh_keys = SshKeys(stores.ssh_keys, stores.principals, features, signals, now)
    authorities = SshAuthorities(stores.ssh_authorities, stores.principals, signals, now)
    access = Access(
        store=stores.access,
        connections=stores.connections,
        control=on.control,
        networks=on.networks,
        asking=approvals.asking,
        features=features,
        runbooks=rights,
        signals=signals,
        now=now,
        enforceable=on.able.enforceable,
        parsed=on.able.parsed,
        proofs={
            SSH_KEY: ssh_keys,
            SSH_AUTHORITY: authorities,
            SSH_LOGIN: LoginProof(stores.logins, now, "the login of this SSH client has ended; connect again"),
            FEDERATION: LoginProof(stores.logins, now, "the login of this program has ended; log in again"),
            BROWSER: LoginProof(stores.logins, now, "the login of this terminal has ended; log in again"),
        },
    )
    target_tasks = TargetTasks(
        stores.target_tasks, stores.principals, access, signals, now, answerable=on.able.enforceable
    )
    return AccessServices(
        access=access,
        access_requests=AccessRequests(access, stores.credentials, approvals.asking, approvals.reviews),
        client_certificates=ClientCertificates(stores.access),
        schema_documents=SchemaDocuments(target_tasks, access, now),
        script_previews=ScriptPreviews(target_tasks, access, approvals.asking, now),
        target_tasks=target_tasks,
        connection_catalogue=ConnectionCatalogue(access, stores.sessions),
        proxy_managers=ProxyManagers(access, now),
        sessions=Sessions(
            store=stores.sessions,
            principals=stores.principals,
            access=access,
            asking=approvals.asking,
            reviews=approvals.reviews,
            scripts=ReviewedScripts(stores.reviews, access, signals, now),
            agents=stores.agents,
            issues=issues,
            recordings=on.recordings,
            features=features,
            signals=signals,
            now=now,
            executable=on.able.enforceable,
        ),
        ssh_authorities=authorities,
        ssh_keys=ssh_keys,
        terminal_attestations=TerminalAttestations(stores.access),
    )


def _build_connections(on: _Ground, audit: Audit, certificates: ClientCertificates) -> ConnectionServices:
    stores, able, control, signals, now = on.stores, on.able, on.control, on.signals, on.now
    enforceable, parsed, models = able.enforceable, able.parsed, able.models
    checks = FieldChecks(
        stores.guardrails, stores.issue_templates, enforceable=enforceable, parsed=parsed, models=models
    )
    return ConnectionServices(
        agents=Agents(stores.agents, stores.organisations, signals, now),
        connections=Connections(
            store=stores.connections,
            control=control,
            agents=stores.agents,
            tests=stores.target_tasks,
            checks=checks,
            signals=signals,
            now=now,
        ),
        credentials=Credentials(
            stores.credentials,
            control,
            on.features,
            CredentialEndings(stores.reviews, signals, now),
            now,
            certificates=certificates,
            listens=on.listens,
            enforceable=enforceable,
        ),
        declarations=Declarations(stores.connections, checks, audit, signals, now),
        host_keys=HostKeys(stores.host_keys, control, now),
        relay_workers=RelayWorkers(stores.workers, signals, now),
        resources=Resources(stores.resources, control),
    )
