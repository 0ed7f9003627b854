"""What the report counts as a habit, and what it does not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from scripts import language_report

PAGE = """# Who reads headings

One sentence. Two
lines with `code. here` and [a link](who.md)! Who is cut off, hears why.

```
who asks
```
| who | cells |
|---|---|
- **Bold.** An item.
"""


def test_prose_leaves_out_code_tables_headings_and_link_targets() -> None:
    paragraphs = language_report.prose(PAGE)
    assert paragraphs == [
        "One sentence. Two lines with `code. here` and a link! Who is cut off, hears why.",
        "Bold. An item.",
    ]
    assert language_report.sentences(paragraphs)[1] == "Who is cut off, hears why."
    assert len(language_report.sentences(paragraphs)) == 2  # what has fewer than three words is left out


def test_functions_named_by_a_participle_are_found_and_properties_are_not() -> None:
    source = """
def _told(): ...
def masked(): ...
def feed(): ...
def embed(): ...
def find(): ...
class Link:
    @property
    def closed(self): ...
    async def kept(self): ...
"""
    assert language_report.badly_named(ast.parse(source)) == ["_told", "masked", "kept"]


def test_counts_of_a_small_tree(tmp_path: Path) -> None:
    (tmp_path / "docs" / "how-to").mkdir(parents=True)
    (tmp_path / "docs" / "how-to" / "ask.md").write_text(PAGE + "x" * 121 + "\n")
    (tmp_path / "docs" / "cli.md").write_text("who is generated " * 100)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.py").write_text('"""Of one thing."""\nclass Thing:\n    """Something offered."""\n')
    (tmp_path / "src" / "two.py").write_text('"""One who asks."""\nclass Thing: ...\nclass _Own: ...\n')
    counts = list(language_report.counts(tmp_path).values())
    assert counts[:-2] == [3, 1, 1, 1, 0, 1, 1, 0]


@pytest.mark.slow
def test_a_draw_has_as_many_sentences_as_docstrings() -> None:
    lines = list(language_report.draw(language_report.ROOT, 8, seed=1))
    titles = [line.strip() for line in lines if not line.startswith("- ")]
    assert titles == ["README", "documents", "command-line help", "errors", "docstrings"]
    assert lines.index("\ndocstrings") - len(titles) + 1 == len(lines) - lines.index("\ndocstrings") - 1 == 8
