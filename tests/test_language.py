"""Plain English and standard terms (docs/glossary.md): retired words stay out of names, texts and documents.

To retire a word, add a line to one of the two tables. A pattern is a regular expression that matches whole words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from scripts import language_report as report

# In documents, errors, log lines and help: the words, and what to write instead.
RETIRED_WORDS = {
    r"(?!Guard Rails)guard[ -]rails?": "guardrail",
    "archivists?": "archiver",
    "errands?": "target task, connection test, schema query",
    "vouchers?": "one-time token",
    "somebody|nobody|whoever": "the actor: the user, a reviewer, the client, no other user",
    "turned away": "rejected, denied",
    "(?:let|lets) in": "admitted",
    "put up": "submitted",
    "by hand": "manually",
    "in the place of": "instead of",
    "(?:go|goes) on": "continue, resume",
    "(?:is|are) over": "has expired, has ended",
    "(?:go|gone|going) round": "bypass",
    "(?:is|are|was|were) told": "is notified, receives",
    "comes? back": "return",
    "colleagues?": "reviewers, users",
    "has to agree|have to agree": "required approvers, required approvals",
}
# In names of modules, classes and functions: the part of a name, and what to call it instead.
RETIRED_NAMES = {
    "archivist": "archiver",
    "attendance": "control_stream",
    "deed": "action",
    "door": "endpoint, authenticator",
    "effort": "budget",
    "errand": "target_task",
    "faults": "errors",
    "lane": "stream_state",
    "lens": "renderer",
    "nobody": "no_user",
    "shaped": "formatted",
    "somebody": "user",
    "telling": "notifications, events",
    "told": "notified, reported, message",
    "voucher": "one_time_token",
    "whoever": "user",
    "wish": "access_request",
}


def words_of(name: str) -> list[str]:
    """Split a snake-case or camel-case name."""
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def retired(text: str, table: dict[str, str] = RETIRED_WORDS) -> Iterator[str]:
    """Yield advice for each retired word in a text."""
    for match in _pattern(tuple(table)).finditer(text):
        key = next(key for key in table if re.fullmatch(key, match.group(), re.IGNORECASE))
        yield f"{match.group()!r}: use {table[key]}"


@lru_cache
def _pattern(keys: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(keys)})\b", re.IGNORECASE)


@lru_cache
def trees() -> list[tuple[str, ast.Module]]:
    return [(str(file.relative_to(report.ROOT)), tree) for file, tree in report.modules(report.ROOT)]


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of several words that are not docstrings: errors, log lines, descriptions, SQL."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    heads = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    docstrings = {id(head.value) for head in heads if isinstance(head, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    for node in strings:
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def names(tree: ast.Module) -> list[tuple[int, str]]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.lineno, node.name) for node in ast.walk(tree) if isinstance(node, kinds)]


def test_texts_of_the_product_use_no_retired_words() -> None:
    findings = [
        f"{file}:{line}: {advice}" for file, tree in trees() for line, text in texts(tree) for advice in retired(text)
    ]
    assert not findings, "\n".join(findings)


def test_help_uses_no_retired_words() -> None:
    findings = [f"{text[:60]!r}: {advice}" for text in report.help_texts() for advice in retired(text)]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    "catalogue",
    sorted([*(report.ROOT / "web/src").rglob("messages.ts"), report.ROOT / "web/src/messages/common.ts"]),
    ids=lambda path: path.parent.name,
)
def test_web_application_uses_no_retired_words(catalogue: Path) -> None:
    text = re.sub(r"\$\{[^}]*\}", "", catalogue.read_text())
    assert not list(retired(text))


def test_documents_use_no_retired_words() -> None:
    findings = [
        f"{page.relative_to(report.ROOT)}: {paragraph[:60]!r}: {advice}"
        for page in report.pages(report.ROOT)
        for paragraph in report.prose(page.read_text())
        for advice in retired(re.sub(r"`[^`]*`", "", paragraph))
    ]
    assert not findings, "\n".join(findings)


def test_names_have_no_retired_parts() -> None:
    named = [(file, 1, file.rpartition("/")[2].removesuffix(".py")) for file, _ in trees()]
    named += [(file, line, name) for file, tree in trees() for line, name in names(tree)]
    findings = [
        f"{file}:{line}: {name}: use {RETIRED_NAMES[part]} for {part!r}"
        for file, line, name in named
        for part in words_of(name)
        if part in RETIRED_NAMES
    ]
    assert not findings, "\n".join(findings)


def test_functions_are_named_by_a_verb_and_not_by_a_participle() -> None:
    findings = [
        f"{file}: {name}()"
        for file, tree in trees()
        for name in report.badly_named(tree)
        if (file, name) != ("src/postern/recording/blob.py", "tell")  # of Python's file objects
    ]
    assert not findings, "name what the function does, such as `render_output` for `shown`:\n" + "\n".join(findings)


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    findings = [
        f"{file}: {text.splitlines()[0]!r} begins with a preposition"
        for file, tree in trees()
        for text in report.docstrings(tree)
        if report.PREPOSITION.match(text)
    ]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ('blocked by guard rail "x"', "guardrail"),
        ("the session goes on", "continue"),
        ("Nobody decided.", "the actor"),
        ("an outgoing session", None),
        ("the Guard Rails of the API", None),
    ],
)
def test_a_retired_word_is_found_with_what_to_use_instead(text: str, advice: str | None) -> None:
    findings = list(retired(text))
    assert [advice] == [each.partition("use ")[2].partition(advice)[1] for each in findings] if advice else not findings


def test_a_name_is_split_into_its_words() -> None:
    assert words_of("_ToldOf_HTTPServer2") == ["told", "of", "http", "server"]
