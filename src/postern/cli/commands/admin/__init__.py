"""`postern admin`: users, groups, rules of access and reviews, programs, logins, organisations and the server. Needs an
administrator."""

from __future__ import annotations

import click

from postern.cli.lazy import Lazy, LazyGroup

_AT = "postern.cli.commands.admin"
GROUPS = {
    "agents": Lazy(f"{_AT}.agent_admin:agents", "List and manage agents and their keys."),
    "users": Lazy(f"{_AT}.user_admin:users", "List and manage users."),
    "groups": Lazy(f"{_AT}.group_admin:groups", "List and manage groups."),
    "network-rules": Lazy(
        f"{_AT}.rules.network_rule_admin:network_rules", "Choose from which networks users and programs can connect."
    ),
    "access-rules": Lazy(
        f"{_AT}.rules.access_rule_admin:access_rules", "Choose which groups see and use which connections."
    ),
    "review-rules": Lazy(
        f"{_AT}.rules.review_rule_admin:review_rules", "Choose who must approve access to which connections."
    ),
    "runbook-rules": Lazy(
        f"{_AT}.rules.runbook_rule_admin:runbook_rules", "Choose who can run which runbooks on which connections."
    ),
    "runbook-repositories": Lazy(
        f"{_AT}.runbook_repository_admin:runbook_repositories", "Choose which repositories runbooks are read from."
    ),
    "tracker": Lazy(f"{_AT}.tracker_admin:tracker", "Show and set the issue tracker in which sessions open issues."),
    "issue-templates": Lazy(
        f"{_AT}.issue_template_admin:issue_templates", "Choose the content of issues that sessions open."
    ),
    "resources": Lazy(f"{_AT}.resource_admin:resources", "List resources, and delete those without connections."),
    "api-keys": Lazy(f"{_AT}.api_key_admin:api_keys", "Create and revoke API keys."),
    "service-accounts": Lazy(f"{_AT}.service_account_admin:service_accounts", "List and manage service accounts."),
    "federation-rules": Lazy(
        f"{_AT}.federation_rule_admin:federation_rules", "Choose which programs of CI systems and clusters log in."
    ),
    "machines": Lazy(f"{_AT}.machine_admin:machines", "List and manage machine identities and their credentials."),
    "ssh-authorities": Lazy(
        f"{_AT}.ssh_authority_admin:ssh_authorities", "Choose which SSH certificate authorities are trusted."
    ),
    "logins": Lazy(f"{_AT}.logins_admin:logins", "List and end logins."),
    "sinks": Lazy(f"{_AT}.sink_admin:sinks", "Send events to a webhook, a syslog server or a collector."),
    "orgs": Lazy(f"{_AT}.org_admin:orgs", "List and manage organisations."),
    "auth": Lazy(f"{_AT}.auth_admin:auth", "Show and set how users log in."),
    "retention": Lazy(f"{_AT}.retention_admin:retention", "Show and set how long recordings and sessions are kept."),
    "server": Lazy(f"{_AT}.server_admin:server", "Show and change the server's configuration."),
    "features": Lazy(f"{_AT}.feature_admin:features", "Enable and disable features."),
    "audit": Lazy(f"{_AT}.audit_admin:audit", "Show who changed what."),
    "logs": Lazy(f"{_AT}.log_admin:logs", "Show the server's log, and follow it."),
}


# Words of earlier versions.
_ALIASES = {
    "apikeys": "api-keys",
    "issuetemplates": "issue-templates",
    "reviewrules": "review-rules",
    "runbookrepos": "runbook-repositories",
    "runbookrules": "runbook-rules",
    "serviceaccounts": "service-accounts",
}


@click.group(cls=LazyGroup, lazy=GROUPS, aliases=_ALIASES)
def admin() -> None:
    """Manage users, groups, access rules, keys, login and the server.

    \b
    postern admin users create ann@example.com --group dba
    postern admin users setup-link ann@example.com
    postern admin agents create edge
    postern admin access-rules create shop --group dba --connection shop
    postern admin review-rules create shop-in-pairs --connection shop --reviewers leads
    postern admin runbook-rules create deploys --runbook github.com/acme/ops//deploy/ --group dev
    postern admin api-keys create nightly --service-account reports
    postern admin auth set-oidc https://id.example.com --client-id postern --client-secret-stdin
    postern admin retention show
    postern admin audit list --since 2026-01-01
    postern admin logs --follow
    """
