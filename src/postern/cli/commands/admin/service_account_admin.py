from __future__ import annotations

from postern.cli.api import client
from postern.cli.nouns import GROUP, SERVICE_ACCOUNT
from postern.cli.printing import json_option
from postern.cli.resource_group import Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import confirm, print_result, yes_option
from postern.client.client import Client
from postern.client.client_shapes import Row


def _prepare(_api: Client, body: Row, key: str | None) -> Row:
    return body if key is not None else {"name": body["subject"], **body}


service_accounts = resource_group(
    ResourceCommands(
        noun=SERVICE_ACCOUNT,
        help="""List and manage service accounts: programs that act by themselves, with API keys.

        \b
        postern admin service-accounts create reports --group analysts
        postern admin api-keys create nightly --service-account reports
        """,
        columns=[
            ("subject", "subject"),
            ("name", "name"),
            ("role", "role"),
            ("status", "status"),
            ("groups", "groups"),
        ],
        options=[
            Field("--name", "name", "Display name.  [default: the subject]"),
            Field(
                "--group",
                "groups",
                "A group of the account.",
                many=True,
                completes=GROUP,
                clear=("--no-groups", "Remove it from all groups.", []),
            ),
        ],
        prepare=_prepare,
        created="Created {subject}. Its key: postern admin api-keys create NAME --service-account {subject}",
        changed="Changed {subject}.",
        says={"delete": "Delete a service account, with its API keys."},
        question="Delete {key}? Its keys stop working",
    )
)


@service_accounts.command()
@item_argument(SERVICE_ACCOUNT)
@json_option
def activate(key: str, as_json: bool) -> None:
    """Activate a service account again."""
    _set_status(key, "active", as_json, "Activated")


@service_accounts.command()
@item_argument(SERVICE_ACCOUNT)
@yes_option
@json_option
def deactivate(key: str, yes: bool, as_json: bool) -> None:
    """Deactivate a service account: its keys are denied, and its running sessions end at once."""
    confirm(f"Deactivate {key}? Its running sessions end", yes)
    _set_status(key, "inactive", as_json, "Deactivated")


def _set_status(key: str, status: str, as_json: bool, done: str) -> None:
    with client() as api, looking_up(api, SERVICE_ACCOUNT, key) as items:
        row = items.update(key, {"status": status})
    print_result(row, as_json, f"{done} {row['subject']}.")
