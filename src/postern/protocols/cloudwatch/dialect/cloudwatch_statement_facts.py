"""Facts about answers that follow from the texts of requests, besides lineage. In doubt, the case is the unsafe one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from postern.inspection.masking.statement_facts import StatementFacts

# Errors about names and parameters of the request, which occur before an event is read.
_REQUEST_ERRORS: Final = frozenset(
    {
        *("ResourceNotFoundException", "ResourceAlreadyExistsException", "InvalidParameterException"),
        *("LimitExceededException", "AccessDeniedException", "UnrecognizedClientException", "ThrottlingException"),
        *("ServiceUnavailableException", "ResourceNotFound", "InvalidParameterValue", "MissingParameter"),
        *("MissingRequiredParameterException", "InvalidParameterCombination", "ValidationException"),
        *("InvalidSequenceTokenException", "UnknownOperationException", "ResourceConflict"),
    }
)


class CloudwatchStatementFacts(StatementFacts):
    def spells_names(self, statements: Sequence[str]) -> bool:
        """Return False for any request: messages in JSON have names of their own."""
        return not any(statements)

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        """Return False: targets do not report generated numbers."""
        return False

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        code = parts.get("code", b"").decode("utf-8", "replace")
        return code in _REQUEST_ERRORS and set(parts) <= {"message", "code"} and bool(statements)

    def help_with_origins(self) -> str:
        return "Name the fields in the query"
