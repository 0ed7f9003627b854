"""Bodies of the tracker, and of issue templates (spec 2.4)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import BeforeValidator, Field

from postern.api.schemas.common import (
    Answer,
    AttributeAnswer,
    Body,
    NamedResourceAnswer,
    ResourceBody,
    refers_to,
    secret,
)
from postern.domain.issues.issue import (
    DEFAULT_TRANSITION,
    Asset,
    Assets,
    CmdbField,
    FieldMapping,
    MappingType,
    Prompt,
    PromptType,
    TrackerKind,
    TrackerSettings,
    WhenDown,
)
from postern.domain.issues.issue_fields import PRESETS, field_text
from postern.domain.issues.issue_preview import FieldState, IssuePreview
from postern.domain.secret import Secret
from postern.services.issues.issue_previews import PreviewRequest
from postern.services.issues.tracker_settings import TrackerFields

_PRESET = f"For preset one of {', '.join(PRESETS)}"
_CONNECTIONS = "Left out or null: unchanged. A connection has one template; a new one replaces the old"


class MappingBody(Body):
    """A field that is sent with every issue."""

    tracker_field: str
    type: Annotated[MappingType, Field(strict=False)]
    value: str = Field(description=_PRESET)
    description: str = ""


class PromptBody(Body):
    """A field that the user of a session fills in."""

    tracker_field: str
    label: str
    field_type: Annotated[PromptType, Field(strict=False)] = PromptType.TEXT
    required: bool = False
    description: str = ""


class CmdbBody(Body):
    """An asset. Without a value, the user of a session names it."""

    tracker_field: str
    tracker_object_type: str
    required: bool = False
    value: str = ""
    description: str = ""


class MappingsBody(Body):
    items: list[MappingBody]


class PromptsBody(Body):
    items: list[PromptBody]


class CmdbsBody(Body):
    items: list[CmdbBody]


class IssueTemplateRequest(ResourceBody):
    name: str
    project_key: str
    request_type_id: str
    description: str | None = None
    connection_ids: list[str] | None = Field(None, description=_CONNECTIONS, json_schema_extra=refers_to("connection"))
    transition: str | None = Field(
        None, alias="issue_transition_name_on_close", description=f"Left out or null: {DEFAULT_TRANSITION}"
    )
    mappings: MappingsBody | None = Field(None, alias="mapping_types")
    prompts: PromptsBody | None = Field(None, alias="prompt_types")
    cmdb: CmdbsBody | None = Field(None, alias="cmdb_types")

    def fields(self) -> dict[str, Any]:
        items = {"mappings": FieldMapping, "prompts": Prompt, "cmdb": CmdbField}
        return {
            name: tuple(items[name](**dict(item)) for item in value.items) if name in items else value
            for name, value in super().fields().items()
        }


class MappingsAnswer(Answer):
    items: tuple[FieldMapping, ...]


class PromptsAnswer(Answer):
    items: tuple[Prompt, ...]


class CmdbsAnswer(Answer):
    items: tuple[CmdbField, ...]


_Items = BeforeValidator(lambda items: {"items": items})


class IssueTemplateAnswer(NamedResourceAnswer):
    project_key: str
    request_type_id: str
    description: str
    connection_ids: list[UUID] = Field(description="Connections that the caller can see")
    issue_transition_name_on_close: str = Field(validation_alias="transition")
    mapping_types: Annotated[MappingsAnswer, _Items] = Field(validation_alias="mappings")
    prompt_types: Annotated[PromptsAnswer, _Items] = Field(validation_alias="prompts")
    cmdb_types: Annotated[CmdbsAnswer, _Items] = Field(validation_alias="cmdb")
    created_at: datetime | None
    updated_at: datetime | None


class IssuePreviewRequest(Body):
    template_id: str | None = Field(None, description="A saved template, by name or id")
    template: IssueTemplateRequest | None = Field(None, description="Or a draft of one")
    session_id: Annotated[UUID | None, Field(strict=False)] = Field(
        None, description="Session whose issue is shown; left out: an example session"
    )
    tracker_fields: dict[str, str] = Field(default={}, description="Values of the fields that the template prompts for")

    def request(self) -> PreviewRequest:
        return PreviewRequest(
            template_id=self.template_id,
            draft=None if self.template is None else self.template.fields(),
            session_id=self.session_id,
            values=self.tracker_fields,
        )


class IssueFieldAnswer(Answer):
    tracker_field: str
    value: str
    object_type: str | None = Field(description="Of an asset; null for other fields")


class UnfilledFieldAnswer(AttributeAnswer):
    tracker_field: str
    source: str = Field(description="The preset, or the label of the prompt")
    state: FieldState = Field(
        description="unknown: no session has such a value, and the template cannot be saved; empty: this session has "
        "no such value; prompted: the user of the session fills it in, and no value was given"
    )
    required: bool = Field(description="Whether a session needs a value of this prompt")


class IssuePreviewAnswer(Answer):
    """The issue as it would be sent to the tracker."""

    project_key: str
    request_type_id: str
    summary: str
    text: str
    fields: list[IssueFieldAnswer]
    unfilled: list[UnfilledFieldAnswer] = Field(description="Fields of the template that this issue does not have")

    @classmethod
    def of(cls, preview: IssuePreview) -> IssuePreviewAnswer:
        issue = preview.issue
        values = [
            IssueFieldAnswer(tracker_field=name, value=field_text(value), object_type=None)
            for name, value in issue.fields.items()
        ]
        assets = [
            IssueFieldAnswer(tracker_field=name, value=value, object_type=object_type)
            for name, (object_type, value) in issue.objects.items()
        ]
        return cls(
            project_key=issue.project_key,
            request_type_id=issue.request_type_id,
            summary=issue.summary,
            text=issue.text,
            fields=[*values, *assets],
            unfilled=[UnfilledFieldAnswer.of(field) for field in preview.unfilled],
        )


class TrackerRequest(Body):
    """The body of POST and PUT: fields that are left out get their default, except the token."""

    read_only: ClassVar[frozenset[str]] = frozenset({"updated_at"})

    kind: Annotated[TrackerKind, Field(strict=False)]
    url: str = Field(description="https://…")
    user: str = Field("", description="User of the token; for jira_cloud the e-mail address")
    token: str | None = Field(
        None,
        description="Never shown. POST requires it; PUT without it keeps it, if kind, url and authority do not change",
        json_schema_extra=secret("url"),
    )
    authority: str = Field("", description="PEM of the tracker's CA; empty if it is publicly trusted")
    enabled: bool = True
    when_down: Annotated[WhenDown, Field(strict=False)] = Field(
        WhenDown.REFUSE, description="What happens to a session whose issue cannot be created now"
    )

    def fields(self) -> TrackerFields:
        values = dict(self) | {"token": Secret(self.token) if self.token else None}
        return TrackerFields(**values)


class TrackerAnswer(Answer):
    kind: TrackerKind
    url: str
    user: str = Field(description="Empty unless the caller can see everything")
    authority: str = Field(description="Empty unless the caller can see everything")
    enabled: bool
    when_down: WhenDown
    updated_at: datetime | None

    @classmethod
    def of(cls, settings: TrackerSettings) -> TrackerAnswer:
        return cls(**{name: getattr(settings, name) for name in cls.model_fields})


class TrackerTestRequest(Body):
    project_key: str = Field("", description="Also checks that this project exists and can be read")


class TrackerTestAnswer(Answer):
    answer: str = Field(description="The user that the tracker reports, and whether the project can be read")


class AssetsAnswer(Answer):
    data: list[Asset]
    total: int | None = Field(description="Number of items on all pages; null if the tracker does not say")
    has_next_page: bool

    @classmethod
    def of(cls, assets: Assets) -> AssetsAnswer:
        return cls(data=list(assets.items), total=assets.total, has_next_page=assets.has_next_page)
