"""The kinds of resources that a configuration in files has: `postern export` and `postern apply` ask for them.

All routes of `ResourceRoutes` are registered here, and settings of which there is one. A kind says where its resources
are in the API, and its JSON Schema which fields refer to other resources, and which are secret (`refers_to`, `secret`
and `NOT_IN_FILES` in schemas/common.py). The command line knows nothing else about a kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from postern.api.schemas.common import Body

_SETTINGS = "settings"  # the folder of all kinds of which there is one


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resource.

    `name_field` of an answer has the name, and `address` what the path of one resource ends with. `creates` and
    `changes` are the methods of requests, empty if there is no such request: POST is on the list's path, PATCH takes
    some of the fields, and PUT all. `names` is the kind whose names it has, if it belongs to one. `is_single`: there is
    one, which its path has without a list. `has_manager`: it has the field `managed_by`, and a version.
    """

    kind: str
    folder: str
    path: str
    request: type[Body]
    name_field: str = "name"
    names: str = ""
    address: str = "id"
    creates: str = "POST"
    changes: str = "PATCH"
    deletes: bool = True
    is_single: bool = False
    has_manager: bool = True

    def describe(self) -> dict[str, Any]:
        names = [name for name in self.__slots__ if name != "request"]
        return {name: getattr(self, name) for name in names} | {"spec": self.request.model_json_schema()}


KINDS: dict[str, ResourceKind] = {}


def register(kind: ResourceKind) -> None:
    """Add a kind. Its routes do it when they are imported."""
    KINDS[kind.kind] = kind


def setting(kind: str, path: str, request: type[Body], *, creates: str = "", deletes: bool = False) -> ResourceKind:
    """Return the kind of something of which there is one; its resource has the name of the kind."""
    return ResourceKind(
        kind,
        _SETTINGS,
        path,
        request,
        creates=creates,
        changes="PUT",
        deletes=deletes,
        is_single=True,
        has_manager=False,
    )
