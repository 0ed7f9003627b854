"""The services that are about targets and the way to them, built together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from postern.services.admission import Access
from postern.services.identity.credentials import Credentials
from postern.services.identity.logins.ssh_logins import MEANS as SSH_LOGIN
from postern.services.identity.logins.ssh_logins import LoginProof
from postern.services.identity.ssh_authorities import MEANS as SSH_AUTHORITY
from postern.services.identity.ssh_authorities import SshAuthorities
from postern.services.identity.ssh_keys import MEANS as SSH_KEY
from postern.services.identity.ssh_keys import SshKeys
from postern.services.issues.opening import Issues
from postern.services.reviews.access_requests import AccessRequests
from postern.services.reviews.asking import ReviewRequests
from postern.services.reviews.review_needed import ReviewNeeded
from postern.services.reviews.review_rules import ReviewRules
from postern.services.reviews.reviewed_scripts import ReviewedScripts
from postern.services.reviews.reviews import Reviews
from postern.services.rules.access_control import AccessControl
from postern.services.rules.access_rules import AccessRules
from postern.services.rules.guardrail_trials import GuardRailTrials, TrialJudge
from postern.services.rules.guardrails import GuardRails
from postern.services.rules.masking_rules import MaskingEngine, MaskingRules
from postern.services.runbooks.allowed import RunbookRights
from postern.services.runbooks.rules import RunbookRules
from postern.services.server.audit import Audit
from postern.services.server.server_features import Features
from postern.services.sessions import Sessions
from postern.services.targets.agents import Agents
from postern.services.targets.connection_fields import FieldChecks
from postern.services.targets.connections import Connections
from postern.services.targets.declarations import Declarations
from postern.services.targets.errands import Errands
from postern.services.targets.host_keys import HostKeys
from postern.services.targets.proxy_managers import ProxyManagers
from postern.services.targets.relay_workers import RelayWorkers
from postern.services.targets.resources import Resources
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import Recordings
from postern.store.stores import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What this gateway can do with what passes through it.

    `enforceable`: the protocols that have a relay, on which rules take effect and scripts run. `parsed`: those that
    have a parser as well, so that rules about statements can hold. `judge`: who tries guard rails outside of sessions.
    `models`: the information types that a language model finds here. `compiles`: the check of a pattern, see
    GuardRails. `masks`: what tries a masking rule.
    """

    compiles: Callable[[str], str | None]
    masks: MaskingEngine
    enforceable: frozenset[str]
    parsed: frozenset[str] = frozenset()
    judge: TrialJudge | None = None
    models: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TargetServices:
    access: Access
    access_requests: AccessRequests
    access_rules: AccessRules
    agents: Agents
    asking: ReviewRequests
    connections: Connections
    control: AccessControl
    credentials: Credentials
    declarations: Declarations
    errands: Errands
    guardrails: GuardRails
    host_keys: HostKeys
    masking_rules: MaskingRules
    guardrail_trials: GuardRailTrials
    proxy_managers: ProxyManagers
    relay_workers: RelayWorkers
    resources: Resources
    review_needed: ReviewNeeded
    review_rules: ReviewRules
    reviews: Reviews
    runbook_rights: RunbookRights
    runbook_rules: RunbookRules
    sessions: Sessions
    ssh_authorities: SshAuthorities
    ssh_keys: SshKeys


def build_targets(
    stores: Stores,
    signals: Signals,
    recordings: Recordings,
    now: Clock,
    features: Features,
    audit: Audit,
    able: Abilities,
    control: AccessControl,
    issues: Issues,
) -> TargetServices:
    connections, guardrails = stores.connections, stores.guardrails
    enforceable, parsed, compiles = able.enforceable, able.parsed, able.compiles
    checks = FieldChecks(guardrails, stores.issue_templates, enforceable=enforceable, parsed=parsed, models=able.models)
    needed = ReviewNeeded(stores.review_rules, features, signals, now)
    asking = ReviewRequests(stores.reviews, stores.sessions, needed, features, signals, now)
    rights = RunbookRights(stores.runbook_rules, signals, now)
    ssh_keys = SshKeys(stores.ssh_keys, stores.principals, features, signals, now)
    authorities = SshAuthorities(stores.ssh_authorities, stores.principals, signals, now)
    access = Access(
        store=stores.access,
        connections=connections,
        control=control,
        asking=asking,
        features=features,
        runbooks=rights,
        signals=signals,
        now=now,
        parsed=parsed,
        proofs={SSH_KEY: ssh_keys, SSH_AUTHORITY: authorities, SSH_LOGIN: LoginProof(stores.logins, now)},
    )
    reviews = Reviews(stores.reviews, stores.sessions, features, signals, now)
    rails = GuardRails(guardrails, connections, signals, now, compiles=compiles, enforceable=enforceable, parsed=parsed)
    return TargetServices(
        access=access,
        access_requests=AccessRequests(access, asking, reviews),
        access_rules=AccessRules(
            store=stores.access_rules,
            connections=connections,
            principals=stores.principals,
            control=control,
            needed=needed,
            signals=signals,
            now=now,
        ),
        asking=asking,
        agents=Agents(stores.agents, stores.organisations, signals, now),
        connections=Connections(
            store=connections,
            control=control,
            agents=stores.agents,
            tests=stores.errands,
            checks=checks,
            signals=signals,
            now=now,
        ),
        control=control,
        credentials=Credentials(stores.credentials, control, features, signals, now, enforceable=enforceable),
        declarations=Declarations(connections, checks, audit, signals, now),
        errands=Errands(stores.errands, stores.principals, access, signals, now, answerable=enforceable),
        guardrails=rails,
        host_keys=HostKeys(stores.host_keys, control, now),
        guardrail_trials=GuardRailTrials(rails, stores.sessions, recordings, able.judge, compiles, now),
        masking_rules=_masking_rules(stores, signals, now, able),
        proxy_managers=ProxyManagers(access, now),
        relay_workers=RelayWorkers(stores.workers, signals, now),
        resources=Resources(stores.resources, control),
        review_needed=needed,
        review_rules=ReviewRules(stores.review_rules, connections, signals, now),
        reviews=reviews,
        runbook_rights=rights,
        runbook_rules=RunbookRules(stores.runbook_rules, connections, signals, now),
        sessions=Sessions(
            store=stores.sessions,
            principals=stores.principals,
            access=access,
            asking=asking,
            reviews=reviews,
            scripts=ReviewedScripts(stores.reviews, access, signals, now),
            agents=stores.agents,
            issues=issues,
            recordings=recordings,
            features=features,
            signals=signals,
            now=now,
            executable=enforceable,
        ),
        ssh_authorities=authorities,
        ssh_keys=ssh_keys,
    )


def _masking_rules(stores: Stores, signals: Signals, now: Clock, able: Abilities) -> MaskingRules:
    return MaskingRules(
        stores.masking_rules,
        stores.access,
        stores.connections,
        signals,
        now,
        compiles=able.compiles,
        engine=able.masks,
        enforceable=able.enforceable,
        models=able.models,
    )
