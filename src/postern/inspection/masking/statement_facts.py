"""What statements tell about their answers, beside where columns come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postern.interception.events import CopyFormat


class StatementFacts:
    """The port that dialects fill. This one knows no language, so that each answer is the cautious one."""

    def varies(self, statements: Sequence[str]) -> bool:
        """Return whether the description of a computed column may depend on values."""
        return True

    def spells_names(self, statements: Sequence[str]) -> bool:
        """Return whether the names of the columns that the statements show stand in them. The names of a table's
        columns may be values. Without a statement there is nothing that could choose them."""
        return not any(statements)

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        """Return whether a statement may choose the number that the target reports as a generated one."""
        return True

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        """Return whether a message quotes nothing but the statements' own words. `parts` has its fields by label."""
        return False

    def only_sets(self, statements: Sequence[str]) -> bool:
        """Return whether the statements only set settings, to what they say or to defaults."""
        return False

    def is_in_own_words(self, texts: Sequence[bytes], labels: Sequence[str], statements: Sequence[str]) -> bool:
        """Return whether code of a statement may have written all fields of this error, so that none can stay."""
        return False

    def copy_format(self, statement: str) -> CopyFormat | None:
        """Return the format of the copied data that a text asks for, None where it is not known."""
        return None


NO_FACTS = StatementFacts()
