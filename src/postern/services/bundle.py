"""All services over one set of ports, as the composition root hands them to the API and to workers.

Each room builds its own (`server_services.py`, `identity_services.py`, `recording_services.py`, `targets.py`). This
module joins them, and builds the services that need more than one room.
"""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.chat.chat_decisions import ChatFormClient
from postern.services.chat.chat_services import ChatServices, build_chats
from postern.services.identity.app_logins import AppLogins
from postern.services.identity.identity_services import IdentityServices, build_identity
from postern.services.identity.ldap_login import Ldap
from postern.services.identity.logins.openid_port import OpenId
from postern.services.identity.logins.passwords import Passwords
from postern.services.identity.logins.saml_port import Saml
from postern.services.identity.machines import Machines
from postern.services.issues.issue_services import IssueServices, build_issues
from postern.services.issues.tracker import Trackers
from postern.services.notifications.notification_services import NotificationServices, build_notifications
from postern.services.recordings.recording_services import RecordingServices, build_recordings
from postern.services.rules.access_control import AccessControl
from postern.services.rules.network_control import NetworkControl
from postern.services.runbooks.fetching import RepositoryFetcher
from postern.services.runbooks.runbook_services import RunbookServices, build_runbooks
from postern.services.server.health import Health
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.organisations import Organisations
from postern.services.server.server_services import ServerServices, build_server
from postern.services.targets.agent_keys import AgentKeys
from postern.services.targets.targets import Abilities, TargetServices, build_targets
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import Recordings
from postern.store.stores import Stores


@dataclass(frozen=True)
class Services(
    ServerServices,
    TargetServices,
    RecordingServices,
    IdentityServices,
    NotificationServices,
    ChatServices,
    IssueServices,
    RunbookServices,
):
    """All services as one flat object: `services.users`, whichever room builds it."""

    agent_keys: AgentKeys
    app_logins: AppLogins
    health: Health
    machines: Machines
    organisations: Organisations
    signals: Signals
    now: Clock


def build_services(
    stores: Stores,
    signals: Signals,
    recordings: Recordings,
    now: Clock,
    able: Abilities,
    fetcher: RepositoryFetcher,
    *,
    passwords: Passwords | None = None,
    machine: MachineFacts | None = None,
    openid: OpenId | None = None,
    saml: Saml | None = None,
    ldap: Ldap | None = None,
    chats: ChatFormClient | None = None,
    trackers: Trackers | None = None,
) -> Services:
    """Build all services.

    `fetcher` reads and writes repositories with runbooks. `machine`: what this machine is set up for. `openid`,
    `saml` and `ldap`: the clients for identity providers; without one, logins by it are denied. `chats`: reads
    decisions from chats, and answers there. `trackers`: creates clients of issue trackers; without it no tracker is
    used.
    """
    machine = machine or MachineFacts()
    server = build_server(stores, signals, now, machine)
    control = AccessControl(stores.access_rules, stores.connections, server.features, signals, now)
    networks = NetworkControl(stores.network_rules, signals, now)
    issues = build_issues(stores, control, server.server_configs, signals, now, trackers)
    targets = build_targets(
        stores,
        signals,
        recordings,
        now,
        server.features,
        server.audit,
        able,
        control,
        networks,
        issues.issues,
        server.server_configs.listens,
    )
    identity = build_identity(
        stores,
        signals,
        now,
        server,
        networks,
        passwords=passwords,
        openid=openid,
        saml=saml,
        ldap=ldap,
        issuer_networks=machine.provider_networks,
    )
    recorded = build_recordings(stores, recordings, now, machine, server, identity, targets.sessions)
    return Services(
        **vars(server),
        **vars(targets),
        **vars(recorded),
        **vars(identity),
        **vars(build_notifications(stores, control, signals, now, machine.sink_networks)),
        **vars(issues),
        **vars(build_chats(stores, targets.reviews, identity.one_time_tokens, now, chats)),
        **vars(build_runbooks(stores, targets, fetcher, signals, now)),
        agent_keys=AgentKeys(
            store=stores.agents,
            agents=targets.agents,
            connections=stores.connections,
            server_configs=server.server_configs,
            machine=machine,
            signals=signals,
            now=now,
        ),
        app_logins=AppLogins(
            connections=stores.connections,
            store=stores.credentials,
            control=control,
            credentials=targets.credentials,
            logins=identity.logins,
            one_time_tokens=identity.one_time_tokens,
            server=server.server_configs,
            now=now,
            domain=machine.app_domain,
        ),
        health=Health(stores.schema, targets.agents, signals, now, machine.recordings),
        machines=Machines(stores.machines, targets.credentials, signals, now),
        organisations=Organisations(
            store=stores.organisations,
            organisation_bootstrap=stores.organisation_bootstrap,
            setup_links=identity.setup_links,
            operators=server.operators,
            signals=signals,
            now=now,
            deletions=stores.organisation_deletions,
        ),
        signals=signals,
        now=now,
    )
