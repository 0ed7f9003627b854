"""The texts that a batch runs: which are known, and what a server cuts off or converts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.mssql.dialect.tsql_batches import readings, statements
from postern.protocols.mssql.dialect.tsql_exec import parse_exec
from postern.protocols.mssql.dialect.tsql_parser import texts_of_batch
from postern.protocols.mssql.dialect.tsql_texts import Texts

# A backslash continues a literal on the next line.
TEXT = st.text(st.characters(codec="ascii", exclude_characters="\0\\"), max_size=60)


def texts_of_last(batch: str) -> Texts:
    """Return the texts that the last statement of a batch runs."""
    tokens = readings(batch)[0][-1]
    known = texts_of_batch(tokens)
    *before, last = statements(tokens)
    for each in before:
        known.learn(each)
    return parse_exec(last).texts(known)


@pytest.mark.parametrize(
    ("batch", "texts"),
    [
        ("exec ('a')", ("a",)),
        ("exec ('it''s' + N' b')", ("it's b",)),
        ("exec (('a' + ('b')))", ("ab",)),
        ("exec (concat('a', 'b', char(67)))", ("abC",)),
        ("exec (cast('abc' as varchar(2)))", ("ab",)),
        ("exec (convert(nvarchar(9), 0x61006200))", ("ab",)),
        ("exec (convert(varchar(9), 0x6162, 1))", None),
        ("exec (char(200))", None),
        ("exec ('ä')", None),
        ("exec (N'ä')", ("ä",)),
        ("declare @a varchar(3) = 'abcdef' exec (@a)", ("abc",)),
        ("declare @a varchar = 'abcdef' exec (@a)", ("a",)),
        ("declare @a char(3) = 'a' exec (@a + 'b')", ("a  b",)),
        ("declare @a nvarchar(max) exec (@a)", ("",)),
        ("declare @a nvarchar(max) set @a = @a + N'b' exec (@a)", ("b",)),
        ("declare @a nvarchar(max) = N'a' set @a = @a + N'b' exec (@a)", ("ab",)),
        ("declare @a nvarchar(max) = N'a' set @a += N'b' exec sp_executesql @a", ("ab",)),
        ("declare @a nvarchar(max) = N'a' if 1 = 0 set @a += N'b' exec sp_executesql @a", ("", "a", "b", "ab")),
        ("exec ('a\\\nb')", ("ab",)),
        ("declare @a nvarchar(9) = N'ä' exec (@a)", ("ä",)),
        ("declare @a nvarchar(1) = N'äb' exec (@a)", None),
        ("declare @a varchar(9) = N'ä' exec (@a)", None),
        ("declare @a nvarchar(9) = N'a', @b nvarchar(9) = N'b' exec (@a + @b)", ("ab",)),
        ("declare @a int = 1 exec (@a)", None),
        ("declare @a nvarchar(9) = N'a' declare @a nvarchar(1) exec (@a)", ("a",)),
        ("declare @a nvarchar(9) = N'a' select @a = x from t exec (@a)", None),
        ("declare @a nvarchar(9) = N'a' select @a = N'b', @c = 1 exec (@a)", ("a", "b")),
        ("declare @a nvarchar(9) = N'a' exec p @a output exec (@a)", None),
        ("declare @a nvarchar(9) = N'a' exec @a = p exec (@a)", None),
        ("declare @a nvarchar(9) = N'a' exec p @a exec (@a)", ("a",)),
        ("declare @a nvarchar(9) = N'a' while 1 = 1 set @a = N'b' exec (@a)", ("", "a", "b")),
        ("declare @a nvarchar(9) = N'a' while 1 = 1 set @a = @a + N'b' exec (@a)", None),
        ("declare @a nvarchar(9) = N'a' receive @a = x from q exec (@a)", None),
        ("exec (@a)", None),
        ("exec sp_executesql @stmt = N'a'", ("a",)),
        ("exec sp_executesql N'a', @x = 1", ("a",)),
        ("exec sp_executesql @params = N'', @stmt = N'a'", None),
        ("exec sp_prepexec @h output, N'@x int', N'a', 1", ("a",)),
        ("exec sp_cursoropen @c output, N'a'", ("a",)),
        ("exec sp_executesql", None),
        ("exec sp_executesql a", ("a",)),
    ],
)
def test_texts_that_a_batch_contains_are_known(batch: str, texts: Texts) -> None:
    assert texts_of_last(batch) == texts


@given(TEXT, st.integers(1, 80))
def test_text_of_a_variable_is_what_fits_its_declared_length(text: str, length: int) -> None:
    literal = text.replace("'", "''")
    assert texts_of_last(f"declare @s nvarchar({length}) = N'{literal}' exec (@s)") == (text[:length],)


@given(st.lists(TEXT, min_size=1, max_size=6))
def test_text_in_parts_is_their_concatenation(parts: list[str]) -> None:
    written = " + ".join("N'" + part.replace("'", "''") + "'" for part in parts)
    assert texts_of_last(f"exec ({written})") == ("".join(parts),)


def test_many_or_long_texts_are_unknown() -> None:
    assigned = " ".join(f"if @b = 1 set @a = N'{number}'" for number in range(40))
    assert texts_of_last(f"declare @a nvarchar(9) {assigned} exec (@a)") is None
    assert texts_of_last("exec ('" + "a" * 3000 + "' + '" + "b" * 3000 + "')") is None
