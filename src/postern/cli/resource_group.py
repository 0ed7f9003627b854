"""The commands that every resource has (`list`, `show`, `create`, `update` and `delete`), built from one declaration.

ResourceCommands    the declaration of a resource
Field               an option that sets one field of the API
Argument            a positional argument of `create`
resource_group      returns the group with its commands; `@group.command()` adds others
looking_up          opens a resource's collection for a command; an error suggests the most similar name
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.completion import Completion
from postern.cli.json_files import one_object
from postern.cli.lazy import AliasGroup, AliasOption
from postern.cli.nouns import Noun
from postern.cli.printing import emit, json_option
from postern.cli.row_commands import (
    Columns,
    array_paging_options,
    confirm,
    page_of,
    paging_options,
    parse_pairs,
    show_page,
    show_row,
)
from postern.cli.status import Status, report, report_done
from postern.client.client import Client
from postern.client.client_resources import PAGE, Collection
from postern.client.client_shapes import Row, RowPage
from postern.domain.text import one_line
from postern.errors import NotFound, PosternError

LIST, SHOW, CREATE, UPDATE, DELETE = VERBS = ("list", "show", "create", "update", "delete")
_ALIASES = {"get": SHOW, "add": CREATE, "remove": DELETE}  # words of earlier versions


@dataclass(frozen=True, slots=True)
class Field:
    """An option that sets one field of an item.

    `flag` is as click takes it (`--group`, `-c --connection`, `--on/--off`); `name` is the API's field, with a dot
    where it belongs to an object (`scope.groups`). `many`: repeatable, a list. `switch`: takes no value. `read` makes
    the field's value of what was typed. `completes` names what a shell completes. `clear` is an option of `update` that
    empties the field: its flag, its help and the empty value. `aliases` and `clear_alias` are hidden flags of earlier
    versions. `only` is the one command that has the option.
    """

    flag: str
    name: str
    help: str = ""
    many: bool = False
    type: Any = None
    metavar: str | None = None
    completes: Noun | Completion | None = None
    read: Callable[[Any], Any] | None = None
    required: bool = False
    switch: bool = False
    reads_stdin: bool = False
    clear: tuple[str, str, Any] | None = None
    only: str = ""
    hidden: bool = False
    aliases: Sequence[str] = ()
    clear_alias: str = ""

    @property
    def parameter(self) -> str:
        return self.flag.split()[-1].split("/")[0].strip("-").replace("-", "_")

    def option(self, verb: str) -> click.Option:
        says = self.help
        if self.many:
            repeat = " Repeatable; replaces the current ones." if verb == UPDATE else " Repeatable."
            text, default, value = says.partition("  [default: ")
            says = f"{text}{repeat}{default}{value}"
        return AliasOption(
            [*self.flag.split(), self.parameter],
            help=says,
            multiple=self.many,
            type=self.type,
            metavar=self.metavar,
            shell_complete=_completes(self.completes),
            required=self.required and verb == CREATE,
            is_flag=True if self.switch else None,
            default=None,
            hidden=self.hidden,
            aliases=self.aliases,
        )

    def is_given(self, value: Any) -> bool:
        return value not in (None, ()) and not (self.switch and value is False)

    def value(self, typed: Any) -> Any:
        if self.read is not None:
            return self.read(typed)
        return list(typed) if isinstance(typed, tuple) else typed


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of `create` that sets one field."""

    name: str
    metavar: str = ""
    type: Any = None
    required: bool = True
    read: Callable[[Any], Any] | None = None

    def argument(self) -> click.Argument:
        return click.Argument(
            [self.name], metavar=self.metavar or self.name.upper(), type=self.type, required=self.required
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCommands:
    """How the command line lists, shows and changes a resource.

    `says` has the help of single commands, if the general text does not suffice. `options` are those of `create` and
    `update`, `filters` those of `list`. `defaults` are fields of a new item that no option set. Functions:

        narrow     returns the query of the list for the filters
        prepare    returns the body of a request for the options; the key is None for a new item
        on_saved   is called after a write, and returns the row to print
        readable   returns the row to print for a row of the API
        show       prints a row for people
        advise     prints notices about a row to standard error, with --json too
        created, changed, deleted    the confirmation, or the function that prints it
        question   the question before a deletion: a text with {key}, or a function of the row

    `file`: `create` and `update` take the whole item as JSON. `prints_array`: `list --json` prints a bare array, and
    all items unless a page is requested.
    """

    noun: Noun
    help: str
    columns: Columns
    verbs: Sequence[str] = VERBS
    aliases: Mapping[str, str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[Argument] = ()
    options: Sequence[Field] = ()
    filters: Sequence[Field] = ()
    defaults: Row = field(default_factory=dict)
    narrow: Callable[[Client, Row], Row] | None = None
    prepare: Callable[[Client, Row, str | None], Row] | None = None
    on_saved: Callable[[Client, Row], Row] | None = None
    readable: Callable[[Row], Row] | None = None
    show: Callable[[Row], None] | None = None
    advise: Callable[[Row], None] | None = None
    created: str | Callable[[Row], None] = "Created {name}."
    changed: str | Callable[[Row], None] = "Changed {name}."
    question: str | Callable[[Row], str] | None = None
    delete_query: Mapping[str, str] = field(default_factory=dict)
    empty: str = ""
    file: bool = False
    prints_array: bool = False

    def items(self, api: Client) -> Collection:
        return api.collection(*self.noun.path)


class ResourceGroup(AliasGroup):
    """The commands of one resource."""

    def __init__(self, resource: ResourceCommands) -> None:
        noun = resource.noun
        aliases = {old: new for old, new in _ALIASES.items() if new in resource.verbs}
        super().__init__(
            noun.command.split()[-1],
            help=resource.help,
            aliases=aliases | dict(resource.aliases),
            invoke_without_command=noun.lists_alone,
            no_args_is_help=not noun.lists_alone,
            params=[_option(json_option)] if noun.lists_alone else [],
            callback=self._list_alone if noun.lists_alone else None,
        )
        self.resource = resource
        builders = {LIST: _list, SHOW: _show, CREATE: _create, UPDATE: _update, DELETE: _delete}
        for verb in resource.verbs:
            self.add_command(builders[verb](resource))

    def _list_alone(self, as_json: bool) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            context.invoke(self.commands[LIST], as_json=as_json)


def resource_group(resource: ResourceCommands) -> ResourceGroup:
    """Return the group with the five commands, or those of them that the resource has."""
    return ResourceGroup(resource)


@contextmanager
def looking_up(api: Client, noun: Noun, key: str) -> Iterator[Collection]:
    """Open the collection; a NotFound about `key` is raised with the most similar existing name."""
    items = api.collection(*noun.path)
    try:
        yield items
    except NotFound as error:
        near = _nearest(items, noun, key) if repr(key) in error.message and "`" not in error.message else None
        if near is None:
            raise
        text = error.message.replace(repr(key), f"{key!r} (did you mean {one_line(near)!r}?)", 1)
        raise NotFound(text, field=error.field) from None


def _nearest(items: Collection, noun: Noun, key: str) -> str | None:
    from difflib import get_close_matches  # only a mistake needs it

    try:
        names = [str(row[noun.key]) for row in items.page(PAGE)["data"]]
    except PosternError:  # the caller is not allowed to list them
        return None
    return next(iter(get_close_matches(key, names, n=1)), None)


def item_argument(noun: Noun) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the argument `key` of a command about one item: its name or id."""
    return click.argument("key", metavar=noun.metavar, shell_complete=completion.names(noun))


def _completes(what: Noun | Completion | None) -> Completion | None:
    return completion.names(what) if isinstance(what, Noun) else what


def _option(*decorators: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    """Return the parameters that decorators add to a command; one alone, several as a list."""

    def command() -> None: ...

    for decorator in decorators:
        decorator(command)
    parameters = list(reversed(command.__click_params__))  # type: ignore[attr-defined] # where click collects them
    return parameters if len(parameters) > 1 else parameters[0]


def _command(
    resource: ResourceCommands, verb: str, general: str, params: list[Any], run: Callable[..., None]
) -> click.Command:
    return click.Command(verb, params=params, callback=run, help=resource.says.get(verb, general))


def _key(noun: Noun) -> click.Argument:
    return click.Argument(["key"], metavar=noun.metavar, shell_complete=completion.names(noun))


def _list(resource: ResourceCommands) -> click.Command:
    noun = resource.noun

    def run(as_json: bool, limit: int | None = None, offset: int = 0, every: bool = False, **typed: Any) -> None:
        query = _body(_filters(resource), typed)
        whole = every or (resource.prints_array and limit is None and not offset)
        with client() as api:
            filters = resource.narrow(api, query) if resource.narrow else query
            page = page_of(resource.items(api), limit=limit or PAGE, offset=offset, every=whole, **filters)
        empty = f"No {noun.singular} matches." if query else resource.empty or _nothing_yet(resource)
        _print_page(resource, page, as_json, empty)

    paging = _option(array_paging_options if resource.prints_array else paging_options)
    params = [*(resource_field.option(LIST) for resource_field in _filters(resource)), *paging]
    return _command(resource, LIST, f"List {noun.plural}, by {noun.key}.", params, run)


def _filters(resource: ResourceCommands) -> Sequence[Field]:
    """Return the filters of the list, with `--search` where the API has it."""
    if not resource.noun.searchable or any(resource_field.name == "search" for resource_field in resource.filters):
        return resource.filters
    search = Field("--search", "search", "Show only those with this text in name or description.")
    return [*resource.filters, search]


def _nothing_yet(resource: ResourceCommands) -> str:
    noun = resource.noun
    how = f": postern {noun.command} create --help" if CREATE in resource.verbs else "."
    return f"There are no {noun.plural} yet{how}"


def _print_page(resource: ResourceCommands, page: RowPage, as_json: bool, empty: str) -> None:
    if as_json and resource.prints_array:
        emit(page["data"], as_json, lambda _: None)
        return
    if resource.readable is not None and not as_json:
        page["data"] = [resource.readable(row) for row in page["data"]]
    show_page(page, resource.columns, as_json, empty)


def _show(resource: ResourceCommands) -> click.Command:
    def run(key: str, as_json: bool) -> None:
        with client() as api, looking_up(api, resource.noun, key) as items:
            row = items.get(key)
        print_item(resource, row, as_json)

    general = f"Show {_a(resource.noun.singular)}, by {_how_named(resource.noun)}."
    return _command(resource, SHOW, general, [_key(resource.noun), _option(json_option)], run)


def _how_named(noun: Noun) -> str:
    return f"{'e-mail' if noun.key == 'email' else noun.key} or id"


def print_item(resource: ResourceCommands, row: Row, as_json: bool) -> None:
    if as_json:
        emit(row, as_json, lambda _: None)
    else:
        readable = resource.readable(row) if resource.readable else row
        (resource.show or (lambda row: show_row(row, False)))(readable)
    if resource.advise is not None:
        resource.advise(row)


def _create(resource: ResourceCommands) -> click.Command:
    noun = resource.noun
    arguments = resource.arguments or (
        Argument(noun.key, f"[{noun.key.upper()}]" if resource.file else "", required=not resource.file),
    )

    def run(as_json: bool, file: IO[str] | None = None, **typed: Any) -> None:
        named = {
            argument.name: argument.read(typed[argument.name]) if argument.read else typed[argument.name]
            for argument in arguments
        }
        body = _body(_options(resource, CREATE), typed)
        if resource.file:
            named, file = _whole_item(resource, named, body, file)
        whole = {} if file is None else one_object(file.name, file.read())
        body = {
            **resource.defaults,
            **whole,
            **{name: value for name, value in named.items() if value is not None},
            **body,
        }
        with client() as api:
            body = resource.prepare(api, body, None) if resource.prepare else body
            row = _after_save(resource, api, resource.items(api).create(body))
        _print_done(resource, resource.created, row, as_json)

    params = [
        *(argument.argument() for argument in arguments),
        *(resource_field.option(CREATE) for resource_field in _options(resource, CREATE)),
        *_file_option(resource),
        _option(json_option),
    ]
    return _command(resource, CREATE, f"Create {_a(noun.singular)}.", params, run)


def _whole_item(resource: ResourceCommands, named: Row, body: Row, file: IO[str] | None) -> tuple[Row, IO[str] | None]:
    """Return the name and the file; a name without options is a file, as in earlier versions. Raises UsageError."""
    key = resource.noun.key
    if file is not None or (body and named[key] is not None):
        return named, file
    if named[key] is None or body:
        raise click.UsageError(f"give a {key.upper()} with options, or -f FILE")
    try:
        return {**named, key: None}, click.open_file(named[key])
    except OSError as error:
        raise click.UsageError(
            f"{one_line(named[key])} cannot be read as a file: {error.strerror}; see --help"
        ) from None


def _file_option(resource: ResourceCommands) -> list[click.Parameter]:
    says = "JSON file with the whole item; '-' reads standard input."
    return [click.Option(["-f", "--file", "file"], type=click.File(), help=says)] if resource.file else []


def _update(resource: ResourceCommands) -> click.Command:
    noun, options = resource.noun, _options(resource, UPDATE)
    clears = {
        _parameter(resource_field.clear[0]): (resource_field.name, resource_field.clear[2])
        for resource_field in options
        if resource_field.clear
    }

    def run(key: str, as_json: bool, settings: tuple[str, ...], **typed: Any) -> None:
        file = typed.pop("file", None) or typed.pop("old_file", None)
        changes = _body(options, typed)
        for parameter, (name, empty) in clears.items():
            if typed[parameter]:
                _put(changes, name, empty)
        if file is not None and (changes or settings):
            raise click.UsageError("give either options with the changes, or a file with the whole item, not both")
        if file is None and not changes and not settings:
            raise click.UsageError("nothing to change: give an option; see --help")
        with client() as api, looking_up(api, noun, key) as items:
            if file is not None:
                row = items.replace(key, one_object(file.name, file.read()))
            else:
                changes = resource.prepare(api, changes, key) if resource.prepare else changes
                changes = {**_settings(items, key, settings), **changes}
                row = items.update(key, changes)
            row = _after_save(resource, api, row)
        _print_done(resource, resource.changed, row, as_json)
        if "managed_by" not in changes:
            warn_of_manager(row)

    old = [click.Argument(["old_file"], metavar="[FILE]", type=click.File(), required=False)] if resource.file else []
    params = [
        _key(noun),
        *old,
        *(option for resource_field in options for option in _update_options(resource_field)),
        click.Option(
            ["--set", "settings"], multiple=True, metavar="FIELD=VALUE", help="Set a field of the API. Repeatable."
        ),
        *_file_option(resource),
        _option(json_option),
    ]
    general = f"Change {_a(noun.singular)}. Fields that you leave out stay as they are."
    return _command(resource, UPDATE, general, params, run)


def warn_of_manager(row: Row) -> None:
    """Print to standard error that a configuration in files will overwrite this change."""
    manager = row.get("managed_by")
    if manager:
        text = (
            "it is managed by a configuration in files, and its next `postern apply` overwrites changes of fields there"
        )
        report(Status.WARNING, f"{text} (managed by {one_line(manager)}).")


def _update_options(resource_field: Field) -> list[click.Option]:
    if resource_field.clear is None:
        return [resource_field.option(UPDATE)]
    flag, says, _ = resource_field.clear
    aliases = [resource_field.clear_alias] if resource_field.clear_alias else []
    return [resource_field.option(UPDATE), AliasOption([flag], is_flag=True, help=says, aliases=aliases)]


def _settings(items: Collection, key: str, settings: Sequence[str]) -> Row:
    """Return the fields of `--set`, typed as the item's current values are. Raises UsageError, NotFound."""
    current = items.get(key) if settings else {}
    changes: Row = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError("--set: write it as FIELD=VALUE")
        if name not in current:
            raise click.UsageError(f"--set: there is no field {name!r}; the fields are {', '.join(sorted(current))}")
        changes[name] = _convert(current[name], value)
    return changes


def _convert(current: Any, text: str) -> Any:
    if isinstance(current, str):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(current, list) and not isinstance(value, list):
        return [part.strip() for part in text.split(",") if part.strip()]
    return value


def _delete(resource: ResourceCommands) -> click.Command:
    noun = resource.noun

    def run(key: str, yes: bool, as_json: bool) -> None:
        with client() as api, looking_up(api, noun, key) as items:
            if resource.question is not None and not yes:
                asks = resource.question
                confirm(asks.format(key=one_line(key)) if isinstance(asks, str) else asks(items.get(key)), yes)
            items.delete(key, **resource.delete_query)
        emit({"deleted": key}, as_json, lambda _: report_done(f"Deleted {one_line(key)}."))

    yes = click.Option(["--yes"], is_flag=True, help="Do not ask for confirmation.")
    general = f"Delete {_a(noun.singular)}."
    return _command(resource, DELETE, general, [_key(noun), yes, _option(json_option)], run)


def _after_save(resource: ResourceCommands, api: Client, row: Row) -> Row:
    return resource.on_saved(api, row) if resource.on_saved else row


def _print_done(resource: ResourceCommands, how: str | Callable[[Row], None], row: Row, as_json: bool) -> None:
    if as_json or not isinstance(how, str):
        emit(row, as_json, how if callable(how) else lambda _: None)
    else:
        values = {name: one_line(value) if isinstance(value, str) else value for name, value in row.items()}
        report_done(how.format(**{"name": values.get(resource.noun.key), **values}))
    if resource.advise is not None:
        resource.advise(row)


def _options(resource: ResourceCommands, verb: str) -> list[Field]:
    return [option for option in resource.options if option.only in ("", verb)]


def _body(fields: Sequence[Field], typed: Row) -> Row:
    """Return the API's fields from the given options. Raises UsageError."""
    typed_fields = [
        (resource_field, typed[resource_field.parameter])
        for resource_field in fields
        if resource_field.is_given(typed.get(resource_field.parameter))
    ]
    from_stdin = [
        resource_field.flag
        for resource_field, value in typed_fields
        if resource_field.reads_stdin or getattr(value, "name", "") == "<stdin>"
    ]
    if len(from_stdin) > 1:
        raise click.UsageError(f"only one option can read standard input, but these do: {', '.join(from_stdin)}")
    body: Row = {}
    for resource_field, value in typed_fields:
        _put(body, resource_field.name, resource_field.value(value))
    return body


def _put(body: Row, name: str, value: Any) -> None:
    outer, dot, inner = name.partition(".")
    if dot:
        body.setdefault(outer, {})[inner] = value
    else:
        body[name] = value


def _parameter(flag: str) -> str:
    return flag.strip("-").replace("-", "_")


def _a(singular: str) -> str:
    is_spelt = singular[:2].isupper()  # spelled as letters, as in "an S-S-H key"
    return f"{'an' if singular[0] in ('AEFHILMNORSX' if is_spelt else 'aeio') else 'a'} {singular}"


def new_name(key: str = "name") -> Field:
    return Field("--name", key, "New name.", only=UPDATE)


def tags(texts: Sequence[str]) -> dict[str, str]:
    return parse_pairs("--tag", texts)


DESCRIPTION = Field("--description", "description", "Description.")
