"""A reader of the parts of T-SQL that a row count can contain. Whatever it does not know raises `Uncountable`.

It reads the tokens of a query and spells them again, in the same order: names in brackets, so that none can be a
keyword, tables with the schema that the target's catalogue tells, literals as they were written. A name that is called
is one of the server's own functions, which need no schema, while a user's function needs one. Statements, hints,
methods, and functions that depend on the session or have side effects are unknown to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from postern.domain.rules.row_count import Named, Uncountable
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, key_at, words_of
from postern.protocols.mssql.dialect.tsql_batches import token_of_match

# Microsoft's list of reserved keywords of Transact-SQL: unquoted, none of these is a name.
RESERVED: Final = words_of(
    """
    ADD ALL ALTER AND ANY AS ASC AUTHORIZATION BACKUP BEGIN BETWEEN BREAK BROWSE BULK BY CASCADE CASE CHECK CHECKPOINT
    CLOSE CLUSTERED COALESCE COLLATE COLUMN COMMIT COMPUTE CONSTRAINT CONTAINS CONTAINSTABLE CONTINUE CONVERT CREATE
    CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DBCC DEALLOCATE DECLARE
    DEFAULT DELETE DENY DESC DISK DISTINCT DISTRIBUTED DOUBLE DROP DUMP ELSE END ERRLVL ESCAPE EXCEPT EXEC EXECUTE
    EXISTS EXIT EXTERNAL FETCH FILE FILLFACTOR FOR FOREIGN FREETEXT FREETEXTTABLE FROM FULL FUNCTION GOTO GRANT GROUP
    HAVING HOLDLOCK IDENTITY IDENTITYCOL IDENTITY_INSERT IF IN INDEX INNER INSERT INTERSECT INTO IS JOIN KEY KILL LEFT
    LIKE LINENO LOAD MERGE NATIONAL NOCHECK NONCLUSTERED NOT NULL NULLIF OF OFF OFFSETS ON OPEN OPENDATASOURCE
    OPENQUERY OPENROWSET OPENXML OPTION OR ORDER OUTER OVER PERCENT PIVOT PLAN PRECISION PRIMARY PRINT PROC PROCEDURE
    PUBLIC RAISERROR READ READTEXT RECONFIGURE REFERENCES REPLICATION RESTORE RESTRICT RETURN REVERT REVOKE RIGHT
    ROLLBACK ROWCOUNT ROWGUIDCOL RULE SAVE SCHEMA SECURITYAUDIT SELECT SEMANTICKEYPHRASETABLE
    SEMANTICSIMILARITYDETAILSTABLE SEMANTICSIMILARITYTABLE SESSION_USER SET SETUSER SHUTDOWN SOME STATISTICS
    SYSTEM_USER TABLE TABLESAMPLE TEXTSIZE THEN TO TOP TRAN TRANSACTION TRIGGER TRUNCATE TRY_CONVERT TSEQUAL UNION
    UNIQUE UNPIVOT UPDATE UPDATETEXT USE USER VALUES VARYING VIEW WAITFOR WHEN WHERE WHILE WITH WITHIN WRITETEXT
    """
)
_IN_EXPRESSIONS: Final = words_of(
    "ALL AND ANY BETWEEN CASE ELSE END ESCAPE EXISTS IN IS LIKE NOT NULL OR SOME THEN WHEN CURRENT_TIMESTAMP"
)
_SYMBOLS: Final = frozenset({*("=", "<>", "!=", "<", ">", "<=", ">=", "!<", "!>"), *"+-*/%&|^~,"})

# Functions of the server whose result depends on their arguments, the clock and the settings that are repeated.
FUNCTIONS: Final = words_of(
    """
    ABS ACOS ASCII ASIN ATAN ATN2 AVG CEILING CHAR CHARINDEX CHECKSUM CHOOSE COALESCE CONCAT CONCAT_WS COS COT COUNT
    COUNT_BIG DATALENGTH DATEADD DATEDIFF DATEDIFF_BIG DATEFROMPARTS DATENAME DATEPART DATETIME2FROMPARTS
    DATETIMEFROMPARTS DATETIMEOFFSETFROMPARTS DATETRUNC DAY DEGREES DIFFERENCE EOMONTH EXP FLOOR GETDATE GETUTCDATE
    GREATEST HASHBYTES IIF ISDATE ISJSON ISNULL ISNUMERIC JSON_VALUE LEAST LEFT LEN LOG LOG10 LOWER LTRIM MAX MIN MONTH
    NCHAR NULLIF PATINDEX PI POWER QUOTENAME RADIANS REPLACE REVERSE RIGHT ROUND RTRIM SIGN SIN
    SMALLDATETIMEFROMPARTS SOUNDEX SPACE SQRT SQUARE STR STUFF SUBSTRING SUM SWITCHOFFSET SYSDATETIME
    SYSDATETIMEOFFSET SYSUTCDATETIME TAN TIMEFROMPARTS TODATETIMEOFFSET TRIM UNICODE UPPER YEAR
    """
)
_CASTS: Final = words_of("CAST TRY_CAST")
_CONVERSIONS: Final = words_of("CONVERT TRY_CONVERT")
_DATE_PARTS: Final = words_of("DATEADD DATEDIFF DATEDIFF_BIG DATENAME DATEPART DATETRUNC")
_ROWSETS: Final = words_of("STRING_SPLIT")
TYPES: Final = words_of(
    """
    BIGINT BINARY BIT CHAR DATE DATETIME DATETIME2 DATETIMEOFFSET DECIMAL FLOAT INT MONEY NCHAR NUMERIC NVARCHAR REAL
    SMALLDATETIME SMALLINT SMALLMONEY TIME TINYINT UNIQUEIDENTIFIER VARBINARY VARCHAR
    """
)
# Hints that change how a table is read or locked, and not which rows. READPAST skips rows.
_HINTS: Final = words_of(
    """
    FORCESCAN FORCESEEK HOLDLOCK INDEX NOLOCK NOWAIT PAGLOCK READCOMMITTED READCOMMITTEDLOCK READUNCOMMITTED
    REPEATABLEREAD ROWLOCK SERIALIZABLE SNAPSHOT TABLOCK TABLOCKX UPDLOCK XLOCK
    """
)
_JOINS: Final = words_of("INNER LEFT RIGHT FULL CROSS OUTER JOIN")
_CLAUSES: Final = _JOINS | words_of(
    "FROM WHERE GROUP HAVING ORDER UNION EXCEPT INTERSECT ON OPTION OUTPUT SET USING THEN WHEN"
)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TARGET: Final = "postern target"  # names that a count adds
MARK: Final = "postern row"
_UNSUPPORTED: Final = "it contains something that is not supported for counting"


@dataclass(frozen=True, slots=True)
class RawToken(SqlToken):
    """A token with its text as it was written."""

    raw: str = field(default="", compare=False)


def raw_token(match: re.Match[str], text: str) -> RawToken:
    token = token_of_match(match, text)
    return RawToken(token.kind, token.text, token.key, token.alone, token.content, match.group())


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of a FROM. `place` is the index of its piece, `alias` is empty where it has none of its own."""

    name: Named
    alias: str
    place: int

    @property
    def exposed(self) -> str:
        return self.alias or self.name[1]


@dataclass(frozen=True, slots=True)
class TablePiece:
    """Stands for a table. `is_row`: it stands for one row of the target."""

    name: Named
    alias: str
    is_row: bool = False


Piece = str | TablePiece


@dataclass(slots=True)
class TsqlUses:
    """What a query uses. `columns` are folded names; `is_whole`: it may use all of its tables. `is_folded`: names were
    taken for the same although their case differs."""

    tables: list[Named] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    variables: list[str] = field(default_factory=list)
    is_whole: bool = False
    is_folded: bool = False
    qualified: list[Named] = field(default_factory=list)  # tables that columns name with their schema
    exposed: list[tuple[str, Named | None]] = field(default_factory=list)  # of tables without alias: their names


def fold_name(name: str) -> str:
    """Return a name in a form that is the same for all names which some server takes for the same."""
    return fold_identifier(name)


def quote(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


class TsqlQueryReader:
    """Reads parts of one statement from `pos` on, and adds pieces to `pieces`. `ctes` are the names of its WITH,
    folded, with their spelling."""

    def __init__(self, tokens: Sequence[SqlToken]) -> None:
        self.tokens = tokens
        self.pos = 0
        self.pieces: list[Piece] = []
        self.usage = TsqlUses()
        self.ctes: dict[str, str] = {}

    # Tokens

    def key(self, ahead: int = 0) -> str:
        return key_at(self.tokens, self.pos + ahead)

    @property
    def is_end(self) -> bool:
        return self.pos >= len(self.tokens)

    def take(self, key: str) -> bool:
        """Skip a keyword or symbol, if it is next."""
        if self.key() != key:
            return False
        self.pos += 1
        return True

    def expect(self, key: str) -> None:
        if not self.take(key):
            raise Uncountable(self._problem())

    def finish(self) -> None:
        """Check that nothing is left."""
        if not self.is_end:
            raise Uncountable(self._problem())

    def emit(self, *pieces: Piece) -> None:
        self.pieces += pieces

    def _problem(self) -> str:
        if self.is_end:
            return f"{_UNSUPPORTED} (its end)"
        token = self.tokens[self.pos]
        if token.kind is SqlTokenKind.NAME and _raw(token).startswith('"'):
            return "it contains text in double quotes, whose meaning depends on QUOTED_IDENTIFIER"
        shown = token.key if token.kind is not SqlTokenKind.STRING and token.key else token.kind.value
        return f"{_UNSUPPORTED} ({shown[:64]})"

    def name(self) -> str:
        """Read one name. Raises Uncountable."""
        token = self.tokens[self.pos] if not self.is_end else None
        if token is None or not token.is_name or (token.kind is SqlTokenKind.WORD and token.key in RESERVED):
            raise Uncountable(self._problem())
        if token.kind is SqlTokenKind.NAME and _raw(token).startswith('"'):
            raise Uncountable(self._problem())
        text = token.text
        if text != text.strip() or not text.isprintable() or text.lower().startswith("postern "):
            raise Uncountable("it contains a name with unusual characters")
        self.pos += 1
        return text

    def name_parts(self) -> list[str]:
        parts = [self.name()]
        while self.key() == ".":
            self.pos += 1
            parts.append(self.name())
        return parts

    def table_name(self) -> Named:
        """Read the name of a table. Raises Uncountable for others than those of the session's database."""
        token = self.tokens[self.pos] if not self.is_end else None
        if token is not None and token.kind is SqlTokenKind.VARIABLE:
            raise Uncountable("it uses a table variable")
        if self.key() in ("OPENQUERY", "OPENROWSET", "OPENDATASOURCE"):
            raise Uncountable("it reads from another server")
        parts = self.name_parts()
        if parts[-1].startswith("#"):
            raise Uncountable(f"{parts[-1]} is a temporary table of a session")
        if len(parts) > 2:
            raise Uncountable("it names a database or another server")
        if self.key() == "(" and not self._at_hints():
            raise Uncountable(f"it calls {'.'.join(parts)}()")
        return (parts[0] if len(parts) > 1 else "", parts[-1])

    # Queries

    def query(self, *, exists: bool = False) -> None:
        """Read SELECT, with what UNION and the like add."""
        while True:
            if self.take("("):
                self.emit("(")
                self.query()
                self.expect(")")
                self.emit(")")
            else:
                self._select(exists=exists)
            if self.key() not in ("UNION", "EXCEPT", "INTERSECT"):
                break
            self.emit(self.key())
            self.pos += 1
            if self.take("ALL"):
                self.emit("ALL")
        if self.take("ORDER"):
            self.expect("BY")
            self.emit("ORDER BY")
            self._order_list()

    def _order_list(self) -> None:
        while True:
            self.expression(frozenset({",", "ASC", "DESC"}))
            if self.key() in ("ASC", "DESC"):
                self.emit(self.key())
                self.pos += 1
            if not self.take(","):
                return
            self.emit(",")

    def _select(self, *, exists: bool) -> None:
        self.expect("SELECT")
        self.emit("SELECT")
        if self.key() in ("DISTINCT", "ALL"):
            self.emit(self.key())
            self.pos += 1
        if self.take("TOP"):
            self.emit(f"TOP ({self.row_limit()})")
        if exists and self.key() == "*" and self.key(1) == "FROM":
            self.pos += 1
            self.emit("1")
        else:
            self._items()
        if self.take("FROM"):
            self.emit("FROM")
            self.sources()
        if self.take("WHERE"):
            self.emit("WHERE")
            self.expression()
        if self.take("GROUP"):
            self.expect("BY")
            self.emit("GROUP BY")
            self.expression()
        if self.take("HAVING"):
            self.emit("HAVING")
            self.expression()

    def row_limit(self) -> int:
        """Read the number of a TOP."""
        has_bracket = self.take("(")
        token = self.tokens[self.pos] if not self.is_end else None
        if token is None or token.kind is not SqlTokenKind.NUMBER or not token.text.isdecimal() or len(token.text) > 18:
            raise Uncountable("the number in its TOP is not a literal")
        self.pos += 1
        if has_bracket:
            self.expect(")")
        if self.key() == "PERCENT" or (self.key() == "WITH" and self.key(1) == "TIES"):
            raise Uncountable("its TOP has PERCENT or WITH TIES")
        return int(token.text)

    def _items(self) -> None:
        while True:
            if self.take("*"):
                self.emit("*")
                self.usage.is_whole = True
            else:
                self.expression(frozenset({",", "AS"}))
                if self.take("AS"):
                    self.emit("AS", quote(self.name()))
            if not self.take(","):
                return
            self.emit(",")

    # FROM

    def sources(self) -> list[TableSource]:
        """Read the list of a FROM. Return its tables, without those of queries in it."""
        found: list[TableSource] = []
        self._source(found)
        while True:
            key = self.key()
            if key == ",":
                self.pos += 1
                self.emit(",")
                self._source(found)
            elif key in _JOINS:
                self._join()
                self._source(found)
            elif key == "ON":
                self.pos += 1
                self.emit("ON")
                self.expression(_CLAUSES)
            else:
                return found

    def _join(self) -> None:
        words: list[str] = []
        while self.key() in _JOINS or (words and self.key() == "APPLY"):
            words.append(self.key())
            self.pos += 1
            if words[-1] in ("JOIN", "APPLY"):
                break
        if words[-1] not in ("JOIN", "APPLY"):
            raise Uncountable(self._problem())
        self.emit(" ".join(words))

    def _source(self, found: list[TableSource]) -> None:
        if self.key() == "(":
            self._bracket_source(found)
            return
        if self.key() in _ROWSETS and self.key(1) == "(":
            self.usage.functions.add(self.key())
            self.emit(self.key())
            self.pos += 1
            self._arguments()
            self._alias(required=True)
            return
        name = self.table_name()
        self.hints()
        alias = self._alias_name()
        self.hints()
        if not name[0] and (cte := self.ctes.get(fold_identifier(name[1]))) is not None:
            if cte != name[1] or not name[1].isascii():
                raise Uncountable(f"{name[1]} may be a table, or a query of its WITH")
            self.usage.exposed.append((fold_identifier(alias or cte), None))
            self.emit(f"{quote(cte)} AS {quote(alias or cte)}")
            return
        if self.ctes and not name[1].isascii():
            raise Uncountable(f"{name[1]} may be a table, or a query of its WITH")
        found.append(self.add_table(name, alias))

    def add_table(self, name: Named, alias: str) -> TableSource:
        self.usage.tables.append(name)
        self.usage.exposed.append((fold_identifier(alias or name[1]), None if alias else name))
        source = TableSource(name, alias, len(self.pieces))
        self.emit(TablePiece(name, source.exposed))
        return source

    def _bracket_source(self, found: list[TableSource]) -> None:
        self.expect("(")
        self.emit("(")
        ahead = 0
        while self.key(ahead) == "(":
            ahead += 1
        if self.key(ahead) == "SELECT":
            self.query()
            is_query = True
        elif self.key() == "VALUES":
            self.pos += 1
            self.emit("VALUES")
            self.expression()
            is_query = True
        else:
            found += self.sources()
            is_query = False
        self.expect(")")
        self.emit(")")
        if is_query:
            self._alias(required=True)

    def _alias(self, *, required: bool) -> None:
        """Read the alias of a query, with names of its columns."""
        alias = self._alias_name()
        if not alias:
            raise Uncountable(self._problem())
        self.usage.exposed.append((fold_identifier(alias), None))
        self.emit("AS", quote(alias))
        if self.key() == "(":
            self.column_names()

    def column_names(self) -> None:
        self.expect("(")
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        self.expect(")")
        self.emit(f"({', '.join(map(quote, names))})")

    def _alias_name(self) -> str:
        if self.take("AS"):
            return self.name()
        token = self.tokens[self.pos] if not self.is_end else None
        if token is None or not token.is_name or (token.kind is SqlTokenKind.WORD and token.key in RESERVED):
            return ""
        return self.name()

    def _at_hints(self) -> bool:
        return self.key() == "(" and self.key(1) in _HINTS | {"READPAST", "FASTFIRSTROW", "NOEXPAND"}

    def hints(self) -> None:
        """Skip the hints of a table."""
        if self.key() == "WITH" and self.key(1) == "(":
            self.pos += 1
        elif not self._at_hints():
            return
        self.expect("(")
        while True:
            if self.key() == "READPAST":
                raise Uncountable("READPAST skips rows that are locked")
            if self.key() not in _HINTS:
                raise Uncountable(self._problem())
            self.pos += 1
            self._skip_hint_arguments()
            if not self.take(","):
                break
        self.expect(")")

    def _skip_hint_arguments(self) -> None:
        if self.take("="):
            self.pos += self.key() != "("
        if self.key() == "(":
            self.skip_brackets()

    def skip_brackets(self) -> None:
        """Skip what stands in brackets, of which nothing matters."""
        self.expect("(")
        depth = 1
        while depth:
            if self.is_end:
                raise Uncountable(self._problem())
            depth += (self.key() == "(") - (self.key() == ")")
            self.pos += 1

    # Expressions

    def expression(self, stops: frozenset[str] = frozenset()) -> None:
        """Read up to a word of `stops`, the next clause or a closing bracket."""
        start, cases = self.pos, 0
        if self.key() == "*":
            raise Uncountable(self._problem())
        while not self.is_end:
            key = self.key()
            is_function = key in ("LEFT", "RIGHT") and self.key(1) == "("
            if key == ")" or (not cases and not is_function and (key in stops or key in _CLAUSES)):
                break
            cases += (key == "CASE") - (key == "END")
            self._term()
        if self.pos == start:
            raise Uncountable(self._problem())

    def _term(self) -> None:
        token, key = self.tokens[self.pos], self.key()
        if key == "(":
            self._bracket(exists=key_at(self.tokens, self.pos - 1) == "EXISTS")
        elif token.kind is SqlTokenKind.STRING:
            if _raw(token).endswith('"'):
                raise Uncountable("it contains text in double quotes, whose meaning depends on QUOTED_IDENTIFIER")
            self.pos += 1
            self.emit(_raw(token))
        elif token.kind is SqlTokenKind.NUMBER:
            self.pos += 1
            self.emit(_raw(token))
        elif token.kind is SqlTokenKind.VARIABLE:
            self._variable(token)
        elif token.kind is SqlTokenKind.SYMBOL:
            if key not in _SYMBOLS:
                raise Uncountable(self._problem())
            self.pos += 1
            self.emit(key)
        elif token.kind is SqlTokenKind.WORD and self.key(1) == "(" and key in _CALLED:
            self._call(key)
        elif token.kind is SqlTokenKind.WORD and key == "COLLATE":
            self.pos += 1
            collation = self.name()
            if not _WORD.fullmatch(collation):
                raise Uncountable(f"it uses the collation {collation}")
            self.emit(f"COLLATE {collation}")
        elif token.kind is SqlTokenKind.WORD and key in _IN_EXPRESSIONS:
            self.pos += 1
            self.emit(key)
        else:
            self._column()

    def _bracket(self, *, exists: bool) -> None:
        self.expect("(")
        self.emit("(")
        if self.key() == "SELECT":
            self.query(exists=exists)
        else:
            self.expression()
        self.expect(")")
        self.emit(")")

    def _variable(self, token: SqlToken) -> None:
        if not token.text.startswith("@") or token.text.startswith("@@"):
            raise Uncountable(f"it uses {token.text[:64]}, whose value depends on the session")
        name = token.text.lower()
        if not name.isascii():
            raise Uncountable("it uses a variable with unusual characters")
        if name not in self.usage.variables:
            self.usage.variables.append(name)
        self.pos += 1
        self.emit(name)

    def _column(self) -> None:
        if self.tokens[self.pos].kind is SqlTokenKind.WORD and self.key() in RESERVED and self.key(1) == "(":
            raise Uncountable(f"it calls {self.key()}()")
        parts = [self.name()]
        while self.key() == ".":
            self.pos += 1
            if self.take("*"):
                if len(parts) > 1:
                    raise Uncountable(f"{_UNSUPPORTED} (a star with a schema)")
                self.usage.is_whole = True
                self.emit(f"{quote(parts[0])}.*")
                return
            parts.append(self.name())
        if self.key() == "(":
            raise Uncountable(f"it calls {'.'.join(parts)}()")
        if len(parts) > 3:
            raise Uncountable("it names a database or another server")
        if len(parts) == 3:
            self.usage.qualified.append((parts[0], parts[1]))
        self.usage.columns.add(fold_identifier(parts[-1]))
        self.emit(".".join(map(quote, parts[-2:])))

    def _call(self, name: str) -> None:
        self.usage.functions.add(name)
        self.emit(name)
        self.pos += 1
        if name in _CASTS:
            self.expect("(")
            self.emit("(")
            self.expression(frozenset({"AS"}))
            self.expect("AS")
            self.emit("AS", self._type(), ")")
            self.expect(")")
        elif name in _CONVERSIONS:
            self.expect("(")
            self.emit("(", self._type())
            self.expect(",")
            self.emit(",")
            self.expression()
            self.expect(")")
            self.emit(")")
        else:
            self._arguments(takes_part=name in _DATE_PARTS, takes_rows=name in ("COUNT", "COUNT_BIG"))

    def _arguments(self, *, takes_part: bool = False, takes_rows: bool = False) -> None:
        self.expect("(")
        self.emit("(")
        if takes_part:
            part = self.name()
            if not _WORD.fullmatch(part):
                raise Uncountable(self._problem())
            self.emit(part)
        if takes_rows and self.key() == "*" and self.key(1) == ")":
            self.pos += 1
            self.emit("*")
        if self.key() in ("DISTINCT", "ALL"):
            self.emit(self.key())
            self.pos += 1
        if self.key() != ")":
            self.expression()
        self.expect(")")
        self.emit(")")

    def _type(self) -> str:
        token = self.tokens[self.pos] if not self.is_end else None
        if token is None or token.kind is not SqlTokenKind.WORD or token.key not in TYPES:
            raise Uncountable(f"it converts to the type {token.text[:64] if token is not None else ''}")
        self.pos += 1
        text = token.key
        if self.take("("):
            sizes = [self._size()]
            while self.take(","):
                sizes.append(self._size())
            self.expect(")")
            text += f"({', '.join(sizes)})"
        return text

    def _size(self) -> str:
        token = self.tokens[self.pos] if not self.is_end else None
        if token is None or not (token.text.isdecimal() or token.key == "MAX"):
            raise Uncountable(self._problem())
        self.pos += 1
        return token.key or token.text


_CALLED: Final = FUNCTIONS | _CASTS | _CONVERSIONS


def check_qualifiers(usage: TsqlUses) -> None:
    """Check that each column with a schema is one of a table that no other can be taken for. Raises Uncountable."""
    for schema, name in usage.qualified:
        folded = fold_identifier(name)
        tables = [table for exposed, table in usage.exposed if exposed == folded]
        if len(tables) != 1 or tables[0] is None or fold_identifier(tables[0][0]) not in ("", fold_identifier(schema)):
            raise Uncountable(f"it is unclear which table {schema}.{name} is")


def _raw(token: SqlToken) -> str:
    assert isinstance(token, RawToken)
    return token.raw


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of the target: its names as they are there, and those of its columns that a count can use."""

    schema: str
    name: str
    columns: tuple[str, ...] = ()


def render_pieces(pieces: Iterable[Piece], tables: Mapping[Named, FoundTable]) -> str:
    """Return the text of pieces, with full names of tables."""
    texts = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        table = tables[piece.name]
        if piece.is_row:
            columns = [f", {quote(TARGET)}.{quote(name)} AS {quote(name)}" for name in table.columns]
            texts.append(f"(SELECT 1 AS {quote(MARK)}{''.join(columns)}) AS {quote(piece.alias)}")
        else:
            texts.append(f"{quote(table.schema)}.{quote(table.name)} AS {quote(piece.alias)}")
    return " ".join(texts)
