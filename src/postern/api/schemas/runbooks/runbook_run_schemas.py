"""Bodies of runs of runbooks, and of previews."""

from __future__ import annotations

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.api.sessions.result_answers import Format
from postern.domain.secret import Secret
from postern.domain.targets.command import check_arguments, decoded_variables
from postern.services.runbooks.runs import Filled, RunRequest


class RunbookRenderRequest(Body):
    connection_name: str
    repository: str = Field("", description="Name or address; default: the only repository")
    file_name: str = Field(description="Path from the root of the repository")
    ref_hash: str = Field(
        "", description="Required newest commit, or at least its first 7 characters; 409 if the newest one is different"
    )
    parameters: dict[str, str] = Field(default_factory=dict)
    env_vars: dict[str, str] = Field(
        default_factory=dict,
        description="`envvar:NAME` to base64, in addition to the runbook's own variables; only if access_mode_exec is "
        "on",
    )
    client_args: list[str] = Field(
        default_factory=list,
        description="Appended to the connection's own command; only if access_mode_exec is on",
    )

    def request(self) -> RunRequest:
        """Raises Invalid."""
        return RunRequest(
            connection=self.connection_name,
            file=self.file_name,
            repository=self.repository,
            ref_hash=self.ref_hash,
            parameters={name: Secret(value) for name, value in self.parameters.items()},
            arguments=check_arguments(self.client_args),
            variables=decoded_variables(self.env_vars),
        )


class RunbookExecRequest(RunbookRenderRequest):
    format: Format = Field(Format.TEXT, strict=False, description="Form of `output`")
    metadata: dict[str, str] = Field(default_factory=dict)
    session_batch_id: str | None = Field(default=None, description="Label `sessionBatchId` that several runs share")
    correlation_id: str | None = Field(
        default=None, description="The client's own id of the session: printable ASCII, at most 255 characters"
    )
    reason: str = Field("", description="Reason for the reviewers, if it needs a review")
    tracker_fields: dict[str, str] = Field(
        default_factory=dict,
        description="Fields of the connection's issue template, by the tracker's names",
    )


class RunbookRenderAnswer(Answer):
    repository: str
    commit: str
    name: str
    connection: str
    text: str = Field(description="What would run; `***` replaces the values of hidden parameters")
    variables: list[str] = Field(description="Names of variables that the command would get")

    @classmethod
    def of(cls, filled: Filled) -> RunbookRenderAnswer:
        return cls(
            repository=filled.runbook.repository,
            commit=filled.runbook.commit,
            name=f"/{filled.runbook.file}",
            connection=filled.connection,
            text=filled.text,
            variables=list(filled.variables),
        )
