"""Facts about answers that follow from the texts of commands, besides lineage. In doubt, the answer is the unsafe case:
names of fields can be data, and errors of expressions quote values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from postern.inspection.masking.statement_facts import StatementFacts

# Errors about names and grammar, which occur before a document is read: NamespaceNotFound, NamespaceExists,
# InvalidNamespace, CommandNotFound, IndexNotFound, Unauthorized, and stages and operators that are not known.
_NAME_ERRORS: Final = frozenset({13, 26, 27, 48, 59, 73, 168, 40324, 15999})
_CODE: Final = re.compile(r'"\$(?:where|function|accumulator)"|"map[rR]educe"|\\')


class MongodbStatementFacts(StatementFacts):
    def spells_names(self, statements: Sequence[str]) -> bool:
        """Return False for any command: stored documents have names of their own."""
        return not any(statements)

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        """Return False: targets do not report generated numbers."""
        return False

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        number = parts.get("errno", b"")
        is_about_names = number.isdigit() and int(number) in _NAME_ERRORS and set(parts) <= {"message", "errno", "code"}
        return is_about_names and not self._runs_code(statements)

    def is_in_own_words(self, texts: Sequence[bytes], labels: Sequence[str], statements: Sequence[str]) -> bool:
        """Return whether code of the command can have written the error."""
        return self._runs_code(statements)

    def _runs_code(self, statements: Sequence[str]) -> bool:
        return not statements or any(_CODE.search(statement) for statement in statements)

    def help_with_origins(self) -> str:
        return "Name the fields in the query"
