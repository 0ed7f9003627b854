"""The plan and its outcome, for people and for programs. Texts of the gateway and of files are made safe to show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import ndiff
from typing import Any

import click

from postern.cli.configuration.plan_runner import ApplyOutcome
from postern.cli.configuration.planning import ConfigurationPlan, FieldChange, PlanAction, PlannedChange
from postern.cli.printing import local_time
from postern.cli.status import Status, report, report_done
from postern.client.client_shapes import Row
from postern.domain.text import one_line, printable

_MARKS = {PlanAction.CREATE: ("+", "green"), PlanAction.CHANGE: ("~", "yellow"), PlanAction.DELETE: ("-", "red")}
_MAX_VALUE = 2_000  # characters of one value
_WORDS = {PlanAction.CREATE: "to create", PlanAction.CHANGE: "to change", PlanAction.DELETE: "to delete"}


def show_plan(plan: ConfigurationPlan) -> None:
    for change in plan.pending:
        mark, colour = _MARKS[change.action]
        where = f"  {change.document.place}" if change.document else ""
        click.secho(f"{mark} {one_line(change.label)}", fg=colour, bold=True, nl=False)
        click.echo(click.style(where, dim=True))
        for difference in change.fields:
            _show_difference(difference, is_new=change.action is PlanAction.CREATE)
        if change.last_change is not None:
            when = local_time(change.last_change.at)
            click.secho(f"    last changed on the gateway by {one_line(change.last_change.by)}, {when}", dim=True)
        if change.simulation is not None:
            _show_simulation(change.simulation)
    click.echo(summary(plan))


def summary(plan: ConfigurationPlan) -> str:
    counts = [f"{plan.count(action)} {word}" for action, word in _WORDS.items()]
    sent = plan.count(PlanAction.SEND)
    secrets = f" ({sent} with secrets, which are sent and compared by the gateway)" if sent else ""
    return f"{', '.join(counts)}, {plan.unchanged + sent} unchanged{secrets}"


def _show_difference(difference: FieldChange, *, is_new: bool) -> None:
    if is_new:
        click.secho(f"    {one_line(difference.field)}: {_value(difference.new)}", fg="green")
        return
    click.echo(f"    {one_line(difference.field)}:")
    for line in _lines(difference.old, difference.new):
        click.secho(f"      {line}", fg={"-": "red", "+": "green"}.get(line[0]))


def _lines(old: Any, new: Any) -> Iterator[str]:
    """Yield the lines that differ: of texts with several lines, and items of lists; else both values."""
    if isinstance(old, list) and isinstance(new, list):
        both = [_value(item) for item in old], [_value(item) for item in new]
    elif isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        both = [one_line(line) for line in old.split("\n")], [one_line(line) for line in new.split("\n")]
    else:
        yield f"- {_value(old)}"
        yield f"+ {_value(new)}"
        return
    yield from (line for line in ndiff(*both) if line[0] in "+-")


def _value(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    text = one_line(text)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}… ({len(text)} characters)"


def _show_simulation(simulation: Row) -> None:
    if "note" in simulation:
        click.secho(f"    {simulation['note']}", dim=True)
        return
    counts = ", ".join(f"{action} {count}" for action, count in sorted(simulation["actions"].items())) or "nothing"
    text = f"    on {simulation['statements_read']} recorded statements: {counts}"
    click.secho(
        f"{text}; {simulation['new_denials']} more denied than now", fg="red" if simulation["new_denials"] else None
    )
    for caveat in simulation["caveats"]:
        click.secho(f"    {printable(caveat)}", dim=True)


def plan_json(plan: ConfigurationPlan) -> Row:
    return {
        "manager": plan.manager,
        "changes": [_change_json(change) for change in plan.pending],
        "secrets_to_send": [{"kind": kind, "name": name} for kind, name in _keys_to_send(plan)],
        "unchanged": plan.unchanged + plan.count(PlanAction.SEND),
    }


def _keys_to_send(plan: ConfigurationPlan) -> Iterator[tuple[str, str]]:
    return (change.key for change in plan.changes if change.action is PlanAction.SEND)


def _change_json(change: PlannedChange) -> Row:
    place = change.document.place if change.document else None
    last = change.last_change
    return {
        "action": change.action,
        "kind": change.kind.kind,
        "name": change.name,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "fields": [
            {"field": one.field, "old": one.old, "new": one.new, "is_secret": one.is_secret} for one in change.fields
        ],
        "last_change": {"by": last.by, "at": last.at} if last else None,
        "simulation": change.simulation,
    }


def outcome_json(outcome: ApplyOutcome) -> Row:
    failed = outcome.failed
    return {
        "applied": [{"kind": one.kind.kind, "name": one.name, "result": result} for one, result in outcome.done],
        "failed": {"kind": failed.kind.kind, "name": failed.name, "error": str(outcome.error)} if failed else None,
        "not_applied": [{"kind": one.kind.kind, "name": one.name, "action": one.action} for one in outcome.not_done],
        "inexact": [
            {"kind": one.kind.kind, "name": one.name, "field": difference.field, "stored": difference.old}
            for one, difference in outcome.inexact
        ],
        "secrets_not_saved": [{"kind": one.kind.kind, "name": one.name} for one in outcome.unsaved],
    }


def show_outcome(outcome: ApplyOutcome) -> None:
    for change, result in outcome.done:
        if result != "unchanged":
            click.echo(f"{one_line(change.label)}: {result}")
    if outcome.failed is not None:
        click.secho(f"{one_line(outcome.failed.label)}: failed", fg="red")
        for change in outcome.not_done:
            click.echo(f"{one_line(change.label)}: not applied")
    else:
        report_done("Applied." if outcome.done else "Nothing to do.")


def warn_of(outcome: ApplyOutcome) -> None:
    """Print to standard error what the caller should know, with --json too."""
    for change, difference in outcome.inexact:
        name, stored = one_line(difference.field), _value(difference.old)
        report(Status.WARNING, f"{one_line(change.label)}: the gateway stored {name} as {stored}; write it so")
    for change, notice in outcome.notices:
        report(Status.WARNING, f"{one_line(change.label)}: {one_line(notice)}.")
    for change in outcome.unsaved:
        report(
            Status.WARNING,
            f"{one_line(change.label)} has a secret that is shown once, and it was not saved; create another one, or "
            "use --secrets-file next time",
        )
