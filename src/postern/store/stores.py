"""Every store, over one database and one encryption."""

from __future__ import annotations

from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.sql.identity.organisation_bootstrap import SqlOrganisationBootstrap
from postern.store.sql.identity.sql_accounts import SqlServiceAccounts, SqlUsers
from postern.store.sql.identity.sql_api_keys import SqlApiKeys
from postern.store.sql.identity.sql_credentials import SqlCredentials
from postern.store.sql.identity.sql_federation_rules import SqlFederationRules
from postern.store.sql.identity.sql_groups import SqlGroups
from postern.store.sql.identity.sql_logins import SqlLogins
from postern.store.sql.identity.sql_machines import SqlMachines
from postern.store.sql.identity.sql_one_time_tokens import SqlOneTimeTokens
from postern.store.sql.identity.sql_organisation_deletions import SqlOrganisationDeletions
from postern.store.sql.identity.sql_organisations import SqlOrganisations, SqlSettings
from postern.store.sql.identity.sql_preferences import SqlPreferences
from postern.store.sql.identity.sql_principals import SqlPrincipals
from postern.store.sql.identity.sql_second_factors import SqlSecondFactors
from postern.store.sql.identity.sql_ssh_authorities import SqlSshAuthorities
from postern.store.sql.identity.sql_ssh_keys import SqlSshKeys
from postern.store.sql.identity.sql_token_keys import SqlSigningKeys
from postern.store.sql.notifications.sql_chats import SqlChats
from postern.store.sql.notifications.sql_deliveries import SqlDeliveries
from postern.store.sql.notifications.sql_reports import SqlReports
from postern.store.sql.notifications.sql_sinks import SqlSinks
from postern.store.sql.recordings.sql_checkpoints import SqlCheckpoints, SqlLedgerKeys
from postern.store.sql.recordings.sql_holds import SqlHolds
from postern.store.sql.recordings.sql_ledger import SqlLedger
from postern.store.sql.recordings.sql_purges import SqlPurges
from postern.store.sql.recordings.sql_retentions import SqlRetentions
from postern.store.sql.recordings.sql_segments import SqlSegments
from postern.store.sql.reviews.sql_review_reports import SqlReviewReports
from postern.store.sql.reviews.sql_review_rules import SqlReviewRules
from postern.store.sql.reviews.sql_reviews import SqlReviews
from postern.store.sql.rules.sql_access import SqlAccess
from postern.store.sql.rules.sql_access_rules import SqlAccessRules
from postern.store.sql.rules.sql_guardrails import SqlGuardrails
from postern.store.sql.rules.sql_masking_rules import SqlMaskingRules
from postern.store.sql.rules.sql_network_rules import SqlNetworkRules
from postern.store.sql.rules.sql_violations import SqlViolations
from postern.store.sql.runbooks.sql_issue_templates import SqlIssueTemplates
from postern.store.sql.runbooks.sql_runbook_repositories import SqlRepositories, SqlSnapshots
from postern.store.sql.runbooks.sql_runbook_rules import SqlRunbookRules
from postern.store.sql.runbooks.sql_runbook_schedules import SqlRunbookSchedules
from postern.store.sql.sessions.sql_postprocessing import SqlPostprocessing
from postern.store.sql.sessions.sql_session_hooks import SqlHookRuns
from postern.store.sql.sessions.sql_session_issues import SqlSessionIssues
from postern.store.sql.sessions.sql_session_texts import SqlSessionTexts
from postern.store.sql.sessions.sql_sessions import SqlSessions
from postern.store.sql.sql_audit import SqlAudit
from postern.store.sql.sql_idempotency import SqlIdempotency
from postern.store.sql.sql_leases import SqlLeases
from postern.store.sql.sql_schema import SqlSchema
from postern.store.sql.targets.sql_agents import SqlAgents
from postern.store.sql.targets.sql_connections import SqlConnections
from postern.store.sql.targets.sql_host_keys import SqlHostKeys
from postern.store.sql.targets.sql_relay_workers import SqlRelayWorkers
from postern.store.sql.targets.sql_resources import SqlResources
from postern.store.sql.targets.sql_target_tasks import SqlTargetTasks


class Stores:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self.access = SqlAccess(database, encryption)
        self.access_rules = SqlAccessRules(database)
        self.network_rules = SqlNetworkRules(database)
        self.agents = SqlAgents(database)
        self.api_keys = SqlApiKeys(database)
        self.audit = SqlAudit(database)
        self.chats = SqlChats(database, encryption)
        self.checkpoints = SqlCheckpoints(database)
        self.connections = SqlConnections(database, encryption)
        self.credentials = SqlCredentials(database)
        self.deliveries = SqlDeliveries(database, encryption)
        self.target_tasks = SqlTargetTasks(database, encryption)
        self.postprocessing = SqlPostprocessing(database)
        self.organisation_bootstrap = SqlOrganisationBootstrap(database, encryption)
        self.federation_rules = SqlFederationRules(database)
        self.groups = SqlGroups(database)
        self.guardrails = SqlGuardrails(database)
        self.holds = SqlHolds(database)
        self.hook_runs = SqlHookRuns(database, encryption)
        self.host_keys = SqlHostKeys(database)
        self.idempotency = SqlIdempotency(database, encryption)
        self.issue_templates = SqlIssueTemplates(database)
        self.leases = SqlLeases(database)
        self.ledger = SqlLedger(database)
        self.ledger_keys = SqlLedgerKeys(database, encryption)
        self.logins = SqlLogins(database, encryption)
        self.machines = SqlMachines(database)
        self.masking_rules = SqlMaskingRules(database)
        self.organisations = SqlOrganisations(database)
        self.organisation_deletions = SqlOrganisationDeletions(database)
        self.preferences = SqlPreferences(database)
        self.principals = SqlPrincipals(database)
        self.purges = SqlPurges(database)
        self.reports = SqlReports(database)
        self.resources = SqlResources(database)
        self.retentions = SqlRetentions(database)
        self.review_reports = SqlReviewReports(database)
        self.review_rules = SqlReviewRules(database)
        self.reviews = SqlReviews(database, encryption)
        self.runbook_repositories = SqlRepositories(database, encryption)
        self.runbook_snapshots = SqlSnapshots(database, encryption)
        self.runbook_rules = SqlRunbookRules(database)
        self.runbook_schedules = SqlRunbookSchedules(database, encryption)
        self.schema = SqlSchema(database)
        self.second_factors = SqlSecondFactors(database, encryption)
        self.segments = SqlSegments(database)
        self.service_accounts = SqlServiceAccounts(database)
        self.session_issues = SqlSessionIssues(database, encryption)
        self.session_texts = SqlSessionTexts(database)
        self.sessions = SqlSessions(database, encryption)
        self.settings = SqlSettings(database, encryption)
        self.signing_keys = SqlSigningKeys(database, encryption)
        self.sinks = SqlSinks(database, encryption)
        self.ssh_authorities = SqlSshAuthorities(database)
        self.ssh_keys = SqlSshKeys(database)
        self.users = SqlUsers(database)
        self.violations = SqlViolations(database)
        self.one_time_tokens = SqlOneTimeTokens(database, encryption)
        self.workers = SqlRelayWorkers(database)
