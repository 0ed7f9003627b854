"""A group that imports a command only when it runs, and turns Postern's errors into exit codes."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

from postern.cli.login import profile
from postern.cli.nouns import NOUNS
from postern.cli.status import Status, UsageMistake, report
from postern.domain.text import printable
from postern.errors import Denied, NotFound, PosternError, TooMany, Unauthenticated, Unavailable, Unreachable

PROFILE = "profile_name"
FAILED, USAGE, NOT_LOGGED_IN, DENIED, NOT_FOUND, UNAVAILABLE = 1, 2, 3, 4, 5, 6
WAITS, REFUSED, WITHDRAWN = 7, 8, 9  # exit codes of what needs a review
STILL_RUNS = 10  # the session still runs after a kill
PENDING = 11  # a configuration in files differs from the gateway

_CODES: Mapping[type[PosternError], int] = {
    Unauthenticated: NOT_LOGGED_IN,
    Denied: DENIED,
    NotFound: NOT_FOUND,
    Unavailable: UNAVAILABLE,
    Unreachable: UNAVAILABLE,
    TooMany: UNAVAILABLE,
}


# The noun of "there is no NOUN" → the command that lists the existing ones.
_LISTED = {noun.singular.lower(): noun.listing for noun in NOUNS} | {"review": "reviews", "session": "sessions"}
_NEXT: Mapping[type[PosternError], str] = {
    Denied: "`postern whoami` shows your role and groups",
    Unavailable: "`postern doctor` looks for the reason",
    NotFound: "`postern --help` shows the commands that list things",
}


def _next_step(error: PosternError) -> str:
    """Return the next step for an error that does not contain one. Empty if only the caller knows what they meant; the
    message then names the field."""
    if isinstance(error, NotFound):
        message = error.message.lower()
        for noun, command in _LISTED.items():
            if f"no {noun} " in message:
                return f"; `postern {command}` lists the existing ones"
    step = next((text for kind, text in _NEXT.items() if isinstance(error, kind)), "")
    return f"; {step}" if step else ""


class CommandFailure(click.ClickException):
    """A Postern error in click's form: a message on standard error, and the exit code of its kind."""

    def __init__(self, error: PosternError) -> None:
        message = error.message
        if isinstance(error, Unauthenticated) and "`postern login" not in message:
            message += "; log in with `postern login`"
        elif isinstance(error, Denied) and "requires a second factor" in message:
            message += "; add one with `postern second-factor add`"
        if "`" not in message and "postern " not in message:
            message += _next_step(error)
        super().__init__(printable(message))
        self.exit_code = _CODES.get(type(error), FAILED)  # type: ignore[misc] # click reads it from the instance

    def show(self, file: Any = None) -> None:
        report(Status.ERROR, self.message)


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is (`module:attribute`), and its summary in the list, without importing it. `profile`: the
    command connects to a gateway, and so has `--profile`."""

    target: str
    summary: str = ""
    hidden: bool = False
    profile: bool = True


def add_profile_option(command: click.Command) -> None:
    """Add `--profile` to the command and all below it, once."""
    if not any(parameter.name == PROFILE for parameter in command.params):
        option = click.Option(
            ["--profile", PROFILE],
            metavar="NAME",
            expose_value=False,
            callback=profile.choose,
            help="Use this profile.  [default: the current one]",
        )
        command.params.append(option)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_profile_option(inner)


class AliasOption(click.Option):
    """An option that also answers to other names, which no help page, error or completion shows."""

    def __init__(self, *args: Any, aliases: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.aliases = tuple(aliases)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown_names = self.opts
        self.opts = [*shown_names, *self.aliases]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown_names


class AliasGroup(click.Group):
    """A group whose commands also answer to other names, which no list, help page or suggestion shows.

    `aliases` leads from another name to a command, or to a group and its command: `legal-hold add`.
    """

    def __init__(self, *args: Any, aliases: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.aliases = dict(aliases or {})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, [*self.aliases.get(args[0], args[0]).split(), *args[1:]])


class LazyGroup(AliasGroup):
    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **more: Any) -> None:
        super().__init__(*args, **more)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, command in self.lazy.items() if not command.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        command = _load(self.lazy[cmd_name].target)
        if self.lazy[cmd_name].profile:
            add_profile_option(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the name like click, with suggestions for a mistyped one; click knows only commands that are
        imported."""
        name = self.aliases.get(args[0], args[0])
        names = self.list_commands(ctx)
        if name not in self.lazy and not name.startswith("-") and not ctx.resilient_parsing:
            below = self._below(name, ctx)
            if below is not None:
                raise click.UsageError(f"No such command {name!r}. Did you mean {below!r}?", ctx)
            raise click.exceptions.NoSuchCommand(name, possibilities=names, ctx=ctx)
        return super().resolve_command(ctx, args)

    def _below(self, name: str, ctx: click.Context) -> str | None:
        """Return a command of that name in a group below, such as `admin users` for `users`."""
        for group in self.list_commands(ctx):
            inner = self.get_command(ctx, group)
            if isinstance(inner, LazyGroup) and inner.aliases.get(name, name) in inner.list_commands(ctx):
                return f"{group} {inner.aliases.get(name, name)}"
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name].summary) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing them, since a shell asks at every key."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=self.lazy[name].summary) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **more)
        except PosternError as error:
            raise CommandFailure(error) from None
        except click.UsageError as error:
            raise _as_mistake(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PosternError as error:
            raise CommandFailure(error) from None
        except click.UsageError as error:
            raise _as_mistake(error) from None


def _load(target: str) -> click.Command:
    """Import a command. Modules are never garbage: the collector neither runs while they are loaded, which would take a
    fifth of the time, nor looks at them again."""
    module, _, attribute = target.partition(":")
    gc.disable()
    try:
        command = getattr(importlib.import_module(module), attribute)
    finally:
        gc.freeze()
        gc.enable()
    assert isinstance(command, click.Command)
    return command


def _as_mistake(error: click.UsageError) -> click.UsageError:
    is_shown_by_itself = isinstance(error, UsageMistake | click.exceptions.NoArgsIsHelpError)
    return error if is_shown_by_itself else UsageMistake.of(error)
