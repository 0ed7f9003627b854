"""Facts about the answers to statements, apart from lineage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from postern.inspection.masking.error_messages import mask_own_words
from postern.interception.events import CopyFormat


class StatementFacts:
    """Port that dialects implement. This default knows no language, so all its answers are the cautious ones.

    `message_code` matches the error code with which messages begin. It is the number that the target also sends in a
    field of its own. `phrases` are words of the target, besides those of statements, in messages that quote no values.
    """

    message_code: re.Pattern[bytes] | None = None
    phrases: frozenset[bytes] = frozenset()

    def varies(self, statements: Sequence[str]) -> bool:
        """Return whether the description of a computed column can depend on values."""
        return True

    def spells_names(self, statements: Sequence[str]) -> bool:
        """Return whether the statements spell the names of the columns that they return.

        Otherwise a name can be a value, such as in a table that the session created. Without a statement, nothing can
        choose names.
        """
        return not any(statements)

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        """Return whether a statement can choose the number that the target reports as generated."""
        return True

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        """Return whether a message quotes nothing but words of the statements. `parts` has its fields by label."""
        return False

    def only_sets(self, statements: Sequence[str]) -> bool:
        """Return whether the statements only set settings, to constants or defaults."""
        return False

    def is_in_own_words(self, texts: Sequence[bytes], labels: Sequence[str], statements: Sequence[str]) -> bool:
        """Return whether code of a statement can have written all fields of this error, so that none can stay."""
        return False

    def replace_own_words(self, labels: Sequence[str], *, is_error: bool) -> list[bytes]:
        """Return what a message in a statement's own words is replaced by: one text for each label."""
        return mask_own_words(labels)

    def help_with_origins(self) -> str:
        """Return what a user can do if the origin of columns cannot be determined."""
        return "Select columns of tables by name"

    def copy_format(self, statement: str) -> CopyFormat | None:
        """Return the format of the copied data that a text requests, None if unknown."""
        return None


NO_FACTS = StatementFacts()
