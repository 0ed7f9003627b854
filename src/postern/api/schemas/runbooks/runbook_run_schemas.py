"""Running runbooks, and looking at what would run."""

from __future__ import annotations

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.api.sessions.result_answers import Format
from postern.domain.secret import Secret
from postern.domain.targets.command import check_arguments, decoded_variables
from postern.services.runbooks.runs import Filled, RunRequest


class RunbookRenderRequest(Body):
    connection_name: str
    repository: str = Field("", description="Its name or address; may be left out where there is one only")
    file_name: str = Field(description="Its path from the root of the repository")
    ref_hash: str = Field("", description="The commit that it must be, or its first 7 characters or more: else 409")
    parameters: dict[str, str] = Field(default_factory=dict)
    env_vars: dict[str, str] = Field(
        default_factory=dict,
        description="`envvar:NAME` to base64, beside what the runbook sets itself; only where access_mode_exec is on",
    )
    client_args: list[str] = Field(
        default_factory=list,
        description="Behind the connection's own command; only where access_mode_exec is on",
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
    format: Format = Field(Format.TEXT, strict=False, description="Of `output`")
    metadata: dict[str, str] = Field(default_factory=dict)
    session_batch_id: str | None = Field(
        default=None, description="Of several runs that belong together: their label `sessionBatchId`"
    )
    correlation_id: str | None = Field(
        default=None, description="The client's own, to find the session by: printable ASCII, 255 characters at most"
    )
    reason: str = Field("", description="Why, for those who must agree where it needs a review")
    tracker_fields: dict[str, str] = Field(
        default_factory=dict,
        description="What the connection's issue template asks for, by the tracker's names of the fields",
    )


class RunbookRenderAnswer(Answer):
    repository: str
    commit: str
    name: str
    connection: str
    text: str = Field(description="What would run; `***` stands for the values of hidden parameters")
    variables: list[str] = Field(description="Names of those that the command would be given")

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
