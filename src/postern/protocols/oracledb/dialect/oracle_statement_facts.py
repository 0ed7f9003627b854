"""Facts about responses that follow from the texts of Oracle's SQL and PL/SQL, besides column lineage.

They are derived from words, without a tree. Whatever is not understood counts as the unsafe case.

What a session is shown without the lineage of a column, so that its origin is unknown:

- texts and numbers of errors. Code raises errors 20000 to 20999 with any text, and by PRAGMA EXCEPTION_INIT any error
  of the server. Every other error may be in the same text, after or before one of these.
- values that a block returns (`OUT1`, …), rows of its cursors and of `DBMS_SQL.RETURN_RESULT`, and of cursors in
  columns. Lineage knows these only by all that the block reads (`oracle_lineage`).
- lines of DBMS_OUTPUT, which a later block fetches into its variables, and what DBMS_APPLICATION_INFO has stored.
- data of large objects that is read by a locator. Nothing says which column a locator is from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from postern.inspection.masking.error_messages import mask_own_words
from postern.inspection.masking.statement_facts import StatementFacts
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, key_at, words_of
from postern.protocols.oracledb.dialect.oracle_tokens import (
    BLOCKS,
    creates_code,
    has_code_in_with,
    pieces_of,
    scripts_of,
    tokens_of_text,
)

_LONGEST: Final = 16 * 1024  # characters that are tokenised on the event loop, when a response arrives
_NUMBERS: Final = re.compile(rb"\bORA-(\d{5})\b")
_NOT_COMPILED: Final = 6550  # a block with an error of PL/SQL in it, which has not run
_USER_ERRORS: Final = range(20_000, 21_000)  # RAISE_APPLICATION_ERROR
_CODE: Final = BLOCKS | {"CALL", "EXEC", "EXECUTE"}

# Errors about names and grammar, which occur before any row is read. They quote words of the text.
_NAME_ERRORS: Final = frozenset(
    int(number)
    for number in words_of(
        """
        900 901 902 903 904 905 906 907 908 909 911 913 914 915 917 918 920 921 922 923 924 925 926 927 928 929 930 931
        932 933 934 935 936 937 938 939 940 941 942 943 946 947 950 955 957 959 960 962 964 965 966 967 968 969 970 971
        972 974 975 976 978 979 980 981 984 985 986 987 988 989 990 991 992 996 998 1003 1006 1007 1008 1013 1031 1039
        1702 1703 1704 1705 1706 1707 1708 1709 1710 1712 1715 1717 1718 1729 1730 1731 1732 1733 1735 1741 1742 1743
        1744 1745 1746 1747 1748 1754 1756 1762 1765 1771 1775 1785 1786 1787 1788 1789 1790 1791 1799 2000 2019 2140
        2261 2264 2270 2275 2289 2429 2430 2431 2443 4043 4044 4080 6550 12152 12154 12541 25154 25155 30006 30076 30482
        30483 30484 30485 30563 32031 32033 32034 32035 32036 32039 32040 32044
        """
    )
)


class OracleStatementFacts(StatementFacts):
    """The number of an error is in its text: the part `message` begins with `ORA-` and five digits."""

    message_code = re.compile(rb"ORA-[0-9]{5}: ")
    phrases = frozenset({b"invalid identifier", b"invalid identifier\n"})  # ORA-00904: "NAME": invalid identifier

    def varies(self, statements: Sequence[str]) -> bool:
        """Return whether a text runs code, whose cursors can have any columns. A query's are fixed by its text."""
        return not statements or any(map(_runs_code, statements))

    def spells_names(self, statements: Sequence[str]) -> bool:
        return not any(map(_takes_names, statements))

    def chooses_insert_id(self, statements: Sequence[str]) -> bool:
        return False  # the target reports none

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        """Return whether an error quotes only names that a text contains. A text made from values quotes these."""
        numbers = _numbers_in(parts.get("message", b""))
        is_about_names = bool(numbers) and all(number in _NAME_ERRORS for number in numbers)
        return is_about_names and bool(statements) and not any(map(_runs_code, statements))

    def is_in_own_words(self, texts: Sequence[bytes], labels: Sequence[str], statements: Sequence[str]) -> bool:
        """Return whether code of a text, or of the target, can have chosen the message by RAISE_APPLICATION_ERROR."""
        numbers = [number for text in texts for number in _numbers_in(text)]
        numbers += [int(text) for text, label in zip(texts, labels, strict=True) if label == "errno" and text.isdigit()]
        may_be_users = not numbers or any(number in _USER_ERRORS for number in numbers)
        is_not_compiled = set(numbers) == {_NOT_COMPILED} and any(b"PLS-" in text for text in texts)
        return may_be_users or not statements or (any(map(_runs_code, statements)) and not is_not_compiled)

    def replace_own_words(self, labels: Sequence[str], *, is_error: bool) -> list[bytes]:
        """Return a number for all: a block can choose one from thousands, by PRAGMA EXCEPTION_INIT."""
        return mask_own_words(labels, {"errno": b"%d" % _USER_ERRORS.start})


def _numbers_in(text: bytes) -> list[int]:
    return [int(number) for number in _NUMBERS.findall(text)]


@lru_cache(maxsize=256)
def _runs_code(text: str) -> bool:
    """Return whether a text is a block or a call, or has code in it."""
    return any(tokens[0].key in _CODE or has_code_in_with(tokens) or creates_code(tokens) for tokens in _pieces(text))


@lru_cache(maxsize=256)
def _takes_names(text: str) -> bool:
    """Return whether the names of a text's columns can be those of a table, which another text can have created."""
    return _runs_code(text) or any(
        token.key == "*" and key_at(tokens, place - 1) != "("
        for tokens in _pieces(text)
        for place, token in enumerate(tokens)
    )


def _pieces(text: str) -> list[list[SqlToken]]:
    """Return the statements of a text; EXEC alone if the text cannot be read."""
    if len(text) > _LONGEST:
        return [list(_UNREAD)]
    try:
        pieces = [tokens for script in scripts_of(tokens_of_text(text)) for tokens in pieces_of(script)]
    except UnreadableSql:
        return [list(_UNREAD)]
    return pieces


_UNREAD: Final = tuple(tokens_of_text("EXEC"))
