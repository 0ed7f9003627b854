"""The check of client character sets of MySQL and MariaDB, before all rules: a rule must read the same text as the
server (decisions 0038 and 0058).

In GBK, BIG5, SJIS, CP932 and GB18030 the second byte of a character can be a backslash. In SWE7 some punctuation is
letters, and the wide ones are not ASCII. The protocol tracks and refuses what statements set openly, and reports in
`Operation.unread` when it has lost track. This interceptor checks, if rules apply, what is not set openly: in comments
that only some servers run, after other assignments, in code, and in prepared texts. Executing an unknown text leaves a
doubt until a plain SET NAMES; until then only ASCII is forwarded.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, cast

from postern.domain.text import small_letters
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, key_at
from postern.interception.events import RUN, Event, Operation
from postern.interception.pipeline import AT_ONCE, BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict, Work, later
from postern.protocols.mysql.dialect.mysql_parser import whole_statements
from postern.protocols.mysql.dialect.mysql_prepared import PreparedTexts, may_keep
from postern.protocols.mysql.dialect.mysql_readings import readings
from postern.protocols.mysql.dialect.mysql_texts import connection_charset, setting_name
from postern.protocols.mysql.dialect.mysql_words import READ_CHARSETS

_SETTING_WORDS: Final = ("names", "character", "charset", "collation_connection")
_DEEPEST: Final = 4  # nested texts

_RULE: Final = "client encoding"
_HINT: Final = "Use utf8mb4 (SET NAMES utf8mb4), or a single-byte character set."
_SETTING: Final = Refuse(
    _RULE,
    "this statement can set a client character set in which the connection's rules can be bypassed, so it was denied",
    _HINT,
)
_DOUBT: Final = Refuse(
    _RULE,
    "this statement contains non-ASCII characters and follows a statement of unknown text, which may have changed the "
    "client's character set",
    "Run SET NAMES utf8mb4 as a separate statement, then resend this one.",
)

_tickets = itertools.count(1)


def _may_set(text: str) -> bool:
    small = small_letters(text)
    return any(word in small for word in _SETTING_WORDS)


class MySqlEncodings:
    """The interceptor. It runs before the others."""

    name = "client encodings"

    def __init__(self) -> None:
        self.wants: frozenset[type[Event]] = frozenset({Operation})
        self.batch_need = BatchNeed.NONE
        self._state = _State()

    def see(self, event: Event, session: SessionView) -> Verdict:
        if not isinstance(event, Operation):
            return FORWARD
        text, state = event.text, self._state
        if event.truncated:
            return FORWARD  # interceptors that judge texts refuse it; no other rule applies to it
        keeps = may_keep(text)
        if not (event.unread or keeps or _may_set(text) or (state.doubt and not text.isascii())):
            return FORWARD
        size = len(text) + (state.prepared_texts.size if keeps else 0)
        task = partial(_judge, state, text, event.unread, runs=event.phase is RUN)
        work = Work(task, partial(self._conclude, event.unread))
        if size <= AT_ONCE:
            if session.may_parse(size):
                return work()
            work = later(work)
        return Hold(f"character set {next(_tickets)}", "this statement is being parsed", work=work)

    def _conclude(self, unread: str, answer: object) -> Verdict:
        judgement, self._state = cast("tuple[_Judgement, _State]", answer)
        if judgement is _Judgement.HARMLESS:
            return FORWARD
        if judgement is _Judgement.SETS:
            return _SETTING
        if judgement is _Judgement.DOUBTFUL:
            return _DOUBT
        return Refuse(
            _RULE,
            f"the client uses {unread}, in which the connection's rules can be bypassed, so this statement was denied",
            _HINT,
        )


class _Judgement(Enum):
    HARMLESS = 0
    SETS = 1  # sets another character set
    UNREAD = 2  # arrives in an unreadable character set
    DOUBTFUL = 3


@dataclass(slots=True)
class _State:
    """The effect of a session's statements. `doubt`: one was executed whose text is unknown."""

    prepared_texts: PreparedTexts = field(default_factory=PreparedTexts)
    doubt: bool = False


def _judge(state: _State, text: str, unread: str, *, runs: bool) -> tuple[_Judgement, _State]:
    """Return the judgement and the state after the text. The state object is the same one unless another process
    computed it."""
    is_way_back = _is_way_back(text)
    if unread and not is_way_back:
        return _Judgement.UNREAD, state
    if state.doubt and not text.isascii():
        return _Judgement.DOUBTFUL, state
    reader = _Reader(state.prepared_texts if runs else state.prepared_texts.copy())
    try:
        if reader.sets(text):
            return _Judgement.SETS, state
    except UnreadableSql:
        return (_Judgement.SETS if _may_set(text) else _Judgement.HARMLESS), state
    state.doubt = not is_way_back and (state.doubt or (runs and reader.ran_unknown))
    return _Judgement.HARMLESS, state


class _Reader:
    """Analyses one text. `ran_unknown`: it executes something whose text is unknown."""

    def __init__(self, prepared_texts: PreparedTexts) -> None:
        self._prepared_texts = prepared_texts
        self.ran_unknown = False
        prepared_texts.begin()

    def sets(self, text: str, deep: int = 0) -> bool:
        """Return True if it may set a character set that Postern cannot read. Raises Unreadable."""
        for reading in readings(text):
            if reading.broken and reading.usual and _may_set(text):
                return True
            for tokens in whole_statements(reading):
                if any(_sets_unread(tokens, place) for place in range(len(tokens))):
                    return True
                hides = deep > 0 or key_at(tokens, 0) != "SET"  # the protocol does not track it
                self.ran_unknown |= hides and any(_charset_at(tokens, place) for place in range(len(tokens)))
                if self._run_sets(tokens, deep):
                    return True
                if key_at(tokens, 0) != "CALL":  # the target's owner has written the procedure
                    self._prepared_texts.learn(tokens)
        return False

    def _run_sets(self, tokens: Sequence[SqlToken], deep: int) -> bool:
        """Return True if the text that it prepares or executes may set one."""
        if key_at(tokens, 0) not in ("PREPARE", "EXECUTE"):
            return False
        texts = self._prepared_texts.find_prepared_texts(tokens)
        self.ran_unknown |= texts is None and key_at(tokens, 0) == "EXECUTE"
        for text in texts or ():
            if not (_may_set(text) or may_keep(text)):
                continue
            if not self._prepared_texts.runs(text):
                self.ran_unknown = True
            elif deep >= _DEEPEST or self.sets(text, deep + 1):
                return True
        return False


def _charset_at(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the index of the value, if a character set of the client, or one for reading texts, is set at `place`;
    otherwise 0."""
    token, after = tokens[place], place + 1
    name = setting_name(token)
    if name == "character_set_client" or connection_charset(tokens, place) is not None:
        if key_at(tokens, after) not in ("=", ":="):
            return 0
        after += 1
    elif key_at(tokens, place - 1) not in ("SET", ","):
        return 0
    elif token.key == "CHARACTER" and key_at(tokens, after) == "SET":
        after += 1
    elif token.key not in ("NAMES", "CHARSET"):
        return 0
    return after + (key_at(tokens, after) in ("=", ":="))


def _sets_unread(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return True if an unreadable character set is set there. The protocol itself tracks a value from a variable
    alone."""
    after = _charset_at(tokens, place)
    value = tokens[after] if 0 < after < len(tokens) else None
    if value is None:
        return False
    connection = connection_charset(tokens, place)
    if connection is not None:
        return value.kind is not SqlTokenKind.VARIABLE and connection not in READ_CHARSETS
    if key_at(tokens, after + 1) not in ("", ",", "COLLATE", ";"):
        return True
    return value.kind is not SqlTokenKind.VARIABLE and value.text.upper() not in READ_CHARSETS


def _is_way_back(text: str) -> bool:
    """Return True for a plain SET NAMES of a readable character set, and nothing else."""
    if not text.isascii():
        return False
    try:
        readings_of_text = [whole_statements(reading) for reading in readings(text)]
    except UnreadableSql:
        return False
    return all(
        len(way) == 1 and [token.key for token in way[0][:2]] == ["SET", "NAMES"] and len(way[0]) in (3, 5)
        and way[0][2].kind is not SqlTokenKind.VARIABLE and not _sets_unread(way[0], 1)
        for way in readings_of_text
    )  # fmt: skip
