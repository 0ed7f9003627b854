from __future__ import annotations

from postern.cli.nouns import RESOURCE
from postern.cli.printing import fields, local_time
from postern.cli.resource_group import ResourceCommands, resource_group
from postern.client.client_shapes import Row


def _show(resource: Row) -> None:
    names = [connection["name"] for connection in resource["connections"]]
    pairs = [("name", resource["name"]), ("id", resource["id"]), ("created", local_time(resource["created_at"]))]
    fields([*pairs, ("connection count", resource["connection_count"]), ("connections", names)])


resources = resource_group(
    ResourceCommands(
        noun=RESOURCE,
        help="""List resources: the systems that connections belong to. The first connection that names one creates it.

        \b
        postern admin resources list
        postern connections update orders --set resource_name=warehouse
        """,
        columns=[("name", "name"), ("connections", "connection_count"), ("created", "created_at"), ("id", "id")],
        verbs=("list", "show", "delete"),
        empty="There are no resources yet: postern connections create --help",
        says={
            "show": "Show a resource, by name or id, with its connections.",
            "delete": "Delete a resource that has no connections.",
        },
        show=_show,
        question="Delete resource {key}?",
    )
)
