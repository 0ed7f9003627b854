"""What a configuration in files can have."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from postern.api.schemas.common import Answer


class ResourceKindAnswer(Answer):
    kind: str
    folder: str = Field(description="Folder of its files in an export")
    path: str = Field(description="Path of its list; of a kind of which there is one, its own path")
    name_field: str = Field(description="Field of answers with the name")
    names: str = Field(description="The kind whose names its resources have; empty: they have their own")
    address: str = Field(description="Field of answers that the path of one resource ends with")
    creates: str = Field(description="Method that creates one: POST or PUT; empty: it cannot be created")
    changes: str = Field(description="Method that changes one: PATCH or PUT; empty: it cannot be changed")
    deletes: bool = Field(description="Whether it can be deleted")
    is_single: bool = Field(description="Whether there is one, which has the kind's name")
    has_manager: bool = Field(description="Whether it has `managed_by`, and a version as ETag")
    spec: dict[str, Any] = Field(description="JSON Schema of the fields")
