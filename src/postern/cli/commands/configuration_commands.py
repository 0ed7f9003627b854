from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from postern.cli.api import client
from postern.cli.configuration import plan_text, simulation
from postern.cli.configuration.documents import STDIN, read_all, read_sources
from postern.cli.configuration.export_files import resources_to_export, stream, write_files
from postern.cli.configuration.gateway_state import GatewayState
from postern.cli.configuration.plan_runner import ApplyOutcome, PlanRunner, read_secrets
from postern.cli.configuration.planning import ApplyOptions, ConfigurationPlan, PlannedChange, Planner
from postern.cli.configuration.resource_schema import FileKinds, editor_schema, nearest
from postern.cli.lazy import PENDING
from postern.cli.printing import as_text, emit, json_option
from postern.cli.progress import ProgressLine
from postern.cli.row_commands import confirm, yes_option
from postern.cli.status import Status, report, report_done
from postern.cli.timestamps import parse_timestamp
from postern.client.configuration_client import ConfigurationClient
from postern.domain.text import one_line
from postern.errors import Denied, Invalid, PosternError

MANAGER = "apply"


@contextmanager
def _state() -> Iterator[GatewayState]:
    with client() as api:
        gateway = ConfigurationClient(api.http)
        yield GatewayState(gateway, FileKinds.of(gateway.kinds()))


def _stdin_once(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    if paths.count(STDIN) > 1:
        raise click.UsageError("-f -: standard input can be read only once")
    return paths


_APPLY_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-f", "--file", "paths", multiple=True, metavar="PATH", callback=_stdin_once,
        help="File or folder with YAML; '-' is standard input. Repeatable.",
    ),
    click.option("--plan", "only_plans", is_flag=True, help="Only show the plan."),
    click.option("--exit-code", is_flag=True, help=f"With --plan: exit with {PENDING} if there is something to do."),
    click.option("--prune", is_flag=True, help="Delete what this manager has on the gateway and the files do not."),
    click.option(
        "--manager", default=MANAGER, show_default=True, metavar="NAME",
        help="Name of this configuration; its resources are marked with it.",
    ),
    click.option("--take-over", is_flag=True, help="Also change resources that another manager has."),
    click.option("--keep-secrets", is_flag=True, help="Send no secret that the gateway has already."),
    click.option(
        "--secrets-file", metavar="FILE", help="New file for keys and passwords that the gateway shows only once."
    ),
    click.option(
        "--simulate", "since", type=parse_timestamp, metavar="PERIOD",
        help="Simulate changed guardrails on recorded sessions of this time, such as 7d.",
    ),
    click.option(
        "--fail-on-new-denials", is_flag=True,
        help="With --simulate: exit with 1, and apply nothing, if guardrails would deny more than now.",
    ),
    click.option("--schema", is_flag=True, help="Print the JSON Schema of the files, for editors."),
)  # fmt: skip


def _apply_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_APPLY_OPTIONS):
        command = option(command)
    return command


@click.command()
@_apply_options
@yes_option
@json_option
def apply(
    paths: tuple[str, ...],
    only_plans: bool,
    exit_code: bool,
    prune: bool,
    manager: str,
    take_over: bool,
    keep_secrets: bool,
    secrets_file: str | None,
    since: str | None,
    fail_on_new_denials: bool,
    schema: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make the gateway as YAML files say: show the plan, ask, and carry it out.

    Applying the same files again changes nothing. Fields that a file leaves out keep their values, and resources that
    no file describes stay, unless --prune is used.

    \b
    postern apply -f config/ --plan
    postern apply -f config/
    postern apply -f config/ --yes --prune --simulate 7d --fail-on-new-denials
    """
    if schema:
        with _state() as state:
            click.echo(as_text(editor_schema(state.kinds), indent=2))
        return
    _check_usage(paths, only_plans, exit_code, since, fail_on_new_denials, yes, as_json)
    options = ApplyOptions(manager, prune, keep_secrets, take_over)
    with _state() as state:
        plan = _plan(state, paths, options, since, quiet=as_json)
        if not as_json:
            plan_text.show_plan(plan)
        more_denied = simulation.new_denials(plan) if fail_on_new_denials else 0
        if only_plans or more_denied:
            emit(plan_text.plan_json(plan), as_json, lambda _: None)
            if more_denied:
                raise Denied(f"guardrails would deny {more_denied} more recorded statements; nothing was applied")
            sys.exit(PENDING if exit_code and plan.pending else 0)
        values = read_secrets(plan, options, os.environ)
        if plan.pending and not yes:
            confirm(f"Apply this to {one_line(state.client.address)}", yes)
        with _new_file(secrets_file) as once, ProgressLine("applying", quiet=as_json) as progress:
            outcome = PlanRunner(state, options, values, once).carry_out(plan, lambda change: _note(progress, change))
    _finish(plan, outcome, as_json)


def _check_usage(
    paths: tuple[str, ...], only_plans: bool, exit_code: bool, since: str | None, fails: bool, yes: bool, as_json: bool
) -> None:
    if not paths:
        raise click.UsageError("-f: give a file or a folder with YAML")
    if exit_code and not only_plans:
        raise click.UsageError("--exit-code: needs --plan")
    if fails and since is None:
        raise click.UsageError("--fail-on-new-denials: needs --simulate")
    if not (only_plans or yes) and (as_json or STDIN in paths):
        raise click.UsageError("--yes: is needed with --json, and with standard input: there is no question to answer")


def _plan(
    state: GatewayState, paths: tuple[str, ...], options: ApplyOptions, since: str | None, *, quiet: bool
) -> ConfigurationPlan:
    documents = read_all(read_sources(paths), state.kinds)
    if not documents:
        raise Invalid(f"there is no resource in {', '.join(map(one_line, paths))}; nothing was applied")
    with ProgressLine("comparing", quiet=quiet):
        plan = Planner(state, options).plan(documents)
        if since is not None:
            simulation.simulate(state, plan, since)
    for denied in state.denied:
        report(Status.WARNING, f"you cannot read resources of the kind {denied}, so they were not compared")
    return plan


def _note(progress: ProgressLine, change: PlannedChange) -> None:
    progress.say(f"applying {change.label}")


@contextmanager
def _new_file(path: str | None) -> Iterator[IO[str] | None]:
    """Open a new file that only this user can read. Raises Invalid."""
    if path is None:
        yield None
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Invalid(f"--secrets-file: {one_line(path)} cannot be created: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        yield file


def _finish(plan: ConfigurationPlan, outcome: ApplyOutcome, as_json: bool) -> None:
    result = {**plan_text.plan_json(plan), **plan_text.outcome_json(outcome)}
    emit(result, as_json, lambda _: plan_text.show_outcome(outcome))
    plan_text.warn_of(outcome)
    if outcome.failed is not None and outcome.error is not None:
        raise _failure(outcome.failed, outcome.error, outcome)


def _failure(change: PlannedChange, error: PosternError, outcome: ApplyOutcome) -> PosternError:
    counts = f"{len(outcome.done)} applied, {len(outcome.not_done)} not applied"
    return type(error)(
        f"{change.label}: {error.message} ({counts}; `postern apply` again continues)", field=error.field
    )


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--kind", "names", multiple=True, metavar="KIND", help="Only this kind, such as guardrail. Repeatable.")
@click.option("--manager", metavar="NAME", help="Only resources that this configuration manages.")
@click.option("--clean", is_flag=True, help="Delete files of an earlier export whose resource is gone.")
@json_option
def export(folder: Path, names: tuple[str, ...], manager: str | None, clean: bool, as_json: bool) -> None:
    """Write the gateway's resources as YAML, into FOLDER/KIND/NAME.yaml, or to standard output with '-'.

    Secrets are not written: each becomes the name of a variable, as in {env: SHOP_PASS}, which `postern apply` reads.
    """
    with _state() as state:
        for name in names:
            if name not in state.kinds.kinds:
                raise click.UsageError(f"--kind: there is no kind {one_line(name)!r}{nearest(name, state.kinds.kinds)}")
        resources = resources_to_export(state, names or tuple(state.kinds.kinds), manager)
        for denied in state.denied:
            report(Status.WARNING, f"you cannot read resources of the kind {denied}, so they are missing")
        if str(folder) == STDIN:
            click.echo(stream(state, resources), nl=False)
            return
        counts = write_files(folder, state, resources, clean=clean)
    texts = [f"{count} {word}" for word, count in counts.items() if count] or ["nothing to export"]
    emit(dict(counts), as_json, lambda _: report_done(f"{one_line(str(folder))}: {', '.join(texts)}."))
