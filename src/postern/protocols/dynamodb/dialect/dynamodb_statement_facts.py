"""Facts about answers that follow from the texts of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postern.inspection.masking.statement_facts import StatementFacts


class DynamodbStatementFacts(StatementFacts):
    def varies(self, statements: Sequence[str]) -> bool:
        """Return False: answers have no descriptions."""
        return False

    def spells_names(self, statements: Sequence[str]) -> bool:
        """Return False for any operation: stored items have attribute names of their own."""
        return not any(statements)

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        """Return False: targets do not report generated numbers."""
        return False

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        """Return True: errors quote nothing but names and the request. Items in them are rows of their own."""
        return set(parts) <= {"message", "code"}

    def help_with_origins(self) -> str:
        return "Name the attributes in the request"
