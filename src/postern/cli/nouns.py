"""The resources that commands name: their noun, their path in the API, and the field that identifies them.

Shell completion, hints in errors and the groups of `resource_group` read these declarations. Every start of the command
line imports this module, so it loads nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Noun:
    """A resource as the command line names it.

    `command` is the group that lists and manages it, without `postern`; `lists_alone`: the group without a subcommand
    is its list. `key` is the field that users type, besides the id. `searchable`: the API's list takes `search`.
    """

    singular: str
    plural: str
    command: str
    path: tuple[str, ...]
    key: str = "name"
    metavar: str = "NAME"
    lists_alone: bool = False
    searchable: bool = False

    @property
    def listing(self) -> str:
        """Return the command that lists them, without `postern`."""
        return self.command if self.lists_alone else f"{self.command} list"


NETWORK_RULE = Noun("network rule", "network rules", "admin network-rules", ("network-rules",), searchable=True)
ACCESS_RULE = Noun("access rule", "access rules", "admin access-rules", ("access-rules",), searchable=True)
AGENT = Noun("agent", "agents", "admin agents", ("agents",), metavar="AGENT", searchable=True)
API_KEY = Noun("API key", "API keys", "admin api-keys", ("api-keys",), metavar="KEY", searchable=True)
CONNECTION = Noun("connection", "connections", "connections", ("connections",), lists_alone=True, searchable=True)
FEDERATION_RULE = Noun(
    "federation rule",
    "federation rules",
    "admin federation-rules",
    ("federation-rules",),
    metavar="RULE",
    searchable=True,
)
GROUP = Noun("group", "groups", "admin groups", ("users", "groups"), searchable=True)
GUARDRAIL = Noun(
    "guardrail", "guardrails", "guardrails", ("guardrails",), metavar="RULE", lists_alone=True, searchable=True
)
ISSUE_TEMPLATE = Noun(
    "issue template",
    "issue templates",
    "admin issue-templates",
    ("integrations", "tracker", "issuetemplates"),
    metavar="TEMPLATE",
    searchable=True,
)
MACHINE = Noun("machine identity", "machine identities", "admin machines", ("machineidentities",), searchable=True)
MASKING_RULE = Noun(
    "masking rule",
    "masking rules",
    "masking",
    ("datamasking-rules",),
    metavar="RULE",
    lists_alone=True,
    searchable=True,
)
ORGANISATION = Noun("organisation", "organisations", "admin orgs", ("orgs",))
RESOURCE = Noun("resource", "resources", "admin resources", ("resources",))
REVIEW_RULE = Noun("review rule", "review rules", "admin review-rules", ("access-requests", "rules"), searchable=True)
RUNBOOK_REPOSITORY = Noun(
    "repository",
    "repositories",
    "admin runbook-repositories",
    ("runbooks", "configurations"),
    key="repository",
    metavar="REPOSITORY",
)
RUNBOOK_RULE = Noun("runbook rule", "runbook rules", "admin runbook-rules", ("runbooks", "rules"), searchable=True)
RUNBOOK_SCHEDULE = Noun("schedule", "schedules", "runbooks schedules", ("runbooks", "schedules"), searchable=True)
SERVICE_ACCOUNT = Noun(
    "service account",
    "service accounts",
    "admin service-accounts",
    ("serviceaccounts",),
    key="subject",
    metavar="SUBJECT",
    searchable=True,
)
SINK = Noun("sink", "sinks", "admin sinks", ("sinks",), metavar="SINK", searchable=True)
SSH_AUTHORITY = Noun("SSH authority", "SSH authorities", "admin ssh-authorities", ("sshauthorities",), searchable=True)
SSH_KEY = Noun("SSH key", "SSH keys", "ssh-keys", ("sshkeys",), metavar="NAME|FINGERPRINT|ID")
USER = Noun("user", "users", "admin users", ("users",), key="email", metavar="USER")

NOUNS = tuple(value for value in tuple(globals().values()) if isinstance(value, Noun))
