"""Building blocks of commands: lists with pages, single items, and confirmations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from postern.cli import completion
from postern.cli.printing import emit, fields, json_option, local_time, table
from postern.cli.status import report_done, report_note
from postern.client.client_resources import PAGE, Collection
from postern.client.client_shapes import Row, RowPage, SessionPage
from postern.domain.secret import Secret

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Columns = Sequence[
    tuple[str, str | Callable[[Row], Any]]
]  # titles, with the field or the function that gives a row's cell
DEFAULT_LIMIT = 50

yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def tag_option(says: str) -> Decorator:
    return click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help=says, shell_complete=completion.tags)


def paging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `limit`, `offset`, `every`, and `as_json`."""
    return _paging(command, default=DEFAULT_LIMIT, show_default=True)


def array_paging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `paging_options` for lists that print all pages unless one is requested, and a bare array as JSON."""
    return _paging(command, help="Number of items on the page.  [default: all]")


def _paging(command: Callable[..., Any], **limit: Any) -> Callable[..., Any]:
    for option in (
        json_option,
        click.option("--all", "every", is_flag=True, help="Print all pages."),
        click.option("--offset", type=click.IntRange(0), default=0, show_default=True, help="Skip this many."),
        click.option("--limit", type=click.IntRange(1, PAGE), **limit),
    ):
        command = option(command)
    return command


def long_paging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `paging_options` and `cursor`, for lists that grow with use."""
    return click.option("--cursor", help="Continue after the page that printed this cursor; replaces --offset.")(
        paging_options(command)
    )


def page_of(collection: Collection, *, limit: int, offset: int, every: bool, **filters: Any) -> RowPage:
    return collection.everything(**filters) if every else collection.page(limit, offset, **filters)


def show_page(page: RowPage, columns: Columns, as_json: bool, empty: str) -> None:
    emit(page, as_json, lambda _: _show_page(page, columns, empty))


def _show_page(page: RowPage, columns: Columns, empty: str) -> None:
    rows = [
        [_render_cell(cell, row.get(cell)) if isinstance(cell, str) else cell(row) for _, cell in columns]
        for row in page["data"]
    ]
    table([title for title, _ in columns], rows, empty)
    say_more(page)


def say_more(page: RowPage | SessionPage) -> None:
    """Print on standard error the number of rows and how to continue, if there are more pages."""
    if not page["has_next_page"]:
        return
    total = page["total"]
    counted = "" if total is None else f"{'more than ' if page.get('total_is_capped') else ''}{total} in total; "
    cursor = page.get("next_cursor")
    report_note(f"{counted}continue with {f'--cursor {cursor}' if cursor else '--offset'}, or print all with --all")


def show_row(row: Row, as_json: bool) -> None:
    emit(
        row,
        as_json,
        lambda answer: fields([(_title(name), _render_cell(name, value)) for name, value in answer.items()]),
    )


def print_result(row: Any, as_json: bool, text: str) -> None:
    """Print what was done, in one line."""
    emit(row, as_json, lambda _: report_done(text))


def confirm(question: str, yes: bool) -> None:
    if not yes:
        click.confirm(question, abort=True, err=True)


def drop_missing(**values: Any) -> Row:
    """Leave out options that were not given: None, and empty tuples."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value not in (None, ())
    }


def parse_pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            # The text can be a mistyped password, so it is not repeated.
            raise click.UsageError(f"{option}: write it as KEY=VALUE")
        pairs[key] = value
    return pairs


def stdin_line() -> Secret:
    return Secret(sys.stdin.readline().rstrip("\r\n"))


def in_days(days: float | None) -> str | None:
    """Return an API time that many days from now."""
    return None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()


def _title(name: str) -> str:
    return name.replace("_", " ")


def _render_cell(name: str, value: Any) -> Any:
    if isinstance(value, str) and (name.endswith("_at") or name == "at"):
        try:
            return local_time(value)
        except ValueError:
            return value
    return value
