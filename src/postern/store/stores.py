"""Every store, over one database and one encryption."""

from __future__ import annotations

from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.sql.access import SqlAccess
from postern.store.sql.access_rules import SqlAccessRules
from postern.store.sql.agents import SqlAgents
from postern.store.sql.api_keys import SqlApiKeys
from postern.store.sql.audit import SqlAudit
from postern.store.sql.chats import SqlChats
from postern.store.sql.checkpoints import SqlCheckpoints, SqlLedgerKeys
from postern.store.sql.connections import SqlConnections
from postern.store.sql.credentials import SqlCredentials
from postern.store.sql.deliveries import SqlDeliveries
from postern.store.sql.errands import SqlErrands
from postern.store.sql.follow_up import SqlFollowUp
from postern.store.sql.foundings import SqlFoundings
from postern.store.sql.groups import SqlGroups
from postern.store.sql.guardrails import SqlGuardRails
from postern.store.sql.holds import SqlHolds
from postern.store.sql.host_keys import SqlHostKeys
from postern.store.sql.idempotency import SqlIdempotency
from postern.store.sql.issue_templates import SqlIssueTemplates
from postern.store.sql.leases import SqlLeases
from postern.store.sql.ledger import SqlLedger
from postern.store.sql.logins import SqlLogins
from postern.store.sql.machines import SqlMachines
from postern.store.sql.masking_rules import SqlMaskingRules
from postern.store.sql.organisation_deletions import SqlOrganisationDeletions
from postern.store.sql.organisations import SqlOrganisations, SqlSettings
from postern.store.sql.principals import SqlPrincipals
from postern.store.sql.purges import SqlPurges
from postern.store.sql.relay_workers import SqlRelayWorkers
from postern.store.sql.reports import SqlReports
from postern.store.sql.resources import SqlResources
from postern.store.sql.retentions import SqlRetentions
from postern.store.sql.review_reports import SqlReviewReports
from postern.store.sql.review_rules import SqlReviewRules
from postern.store.sql.reviews import SqlReviews
from postern.store.sql.runbook_repositories import SqlRepositories, SqlSnapshots
from postern.store.sql.runbook_rules import SqlRunbookRules
from postern.store.sql.runbook_schedules import SqlRunbookSchedules
from postern.store.sql.schema import SqlSchema
from postern.store.sql.second_factors import SqlSecondFactors
from postern.store.sql.segments import SqlSegments
from postern.store.sql.session_hooks import SqlHookRuns
from postern.store.sql.session_issues import SqlSessionIssues
from postern.store.sql.session_texts import SqlSessionTexts
from postern.store.sql.sessions import SqlSessions
from postern.store.sql.sinks import SqlSinks
from postern.store.sql.ssh_authorities import SqlSshAuthorities
from postern.store.sql.ssh_keys import SqlSshKeys
from postern.store.sql.token_keys import SqlSigningKeys
from postern.store.sql.violations import SqlViolations
from postern.store.sql.vouchers import SqlVouchers


class Stores:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self.access = SqlAccess(database, encryption)
        self.access_rules = SqlAccessRules(database)
        self.agents = SqlAgents(database)
        self.api_keys = SqlApiKeys(database)
        self.audit = SqlAudit(database)
        self.chats = SqlChats(database, encryption)
        self.checkpoints = SqlCheckpoints(database)
        self.connections = SqlConnections(database, encryption)
        self.credentials = SqlCredentials(database)
        self.deliveries = SqlDeliveries(database, encryption)
        self.errands = SqlErrands(database)
        self.follow_up = SqlFollowUp(database)
        self.foundings = SqlFoundings(database, encryption)
        self.groups = SqlGroups(database)
        self.guardrails = SqlGuardRails(database)
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
        self.session_issues = SqlSessionIssues(database, encryption)
        self.session_texts = SqlSessionTexts(database)
        self.sessions = SqlSessions(database, encryption)
        self.settings = SqlSettings(database, encryption)
        self.signing_keys = SqlSigningKeys(database, encryption)
        self.sinks = SqlSinks(database, encryption)
        self.ssh_authorities = SqlSshAuthorities(database)
        self.ssh_keys = SqlSshKeys(database)
        self.violations = SqlViolations(database)
        self.vouchers = SqlVouchers(database, encryption)
        self.workers = SqlRelayWorkers(database)
