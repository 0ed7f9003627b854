"""Names of log groups, metrics, alarms and dashboards in the parameters of requests.

The names are found by the keys of parameters, wherever these are nested: AWS names them alike in all operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from postern.domain.rules.statement import ObjectKind, ObjectName
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService

MAX_DEPTH: Final = 32
_GROUP_KEYS: Final = frozenset(
    {
        *("loggroupname", "loggroupnames", "loggroupidentifier", "loggroupidentifiers", "loggrouparn"),
        *("loggrouparnlist", "resourceidentifier", "filterloggrouparn"),
    }
)
# ARNs of any kind of resource
_RESOURCE_KEYS: Final = frozenset({"resourcearn", "sourcearn", "importsourcearn", "resourcearns"})
_SCHEMAS: Final[Mapping[str, str]] = {
    "namespace": CloudwatchService.METRICS.value,
    "metricnamespace": CloudwatchService.METRICS.value,
    "alarmname": "alarms",
    "alarmnames": "alarms",
    "dashboardname": "dashboards",
    "dashboardnames": "dashboards",
}
# Parts of a form's names that are no names of parameters: `AlarmNames.member.1`. Lists that are not written so, too.
_FORM_WORDS: Final = frozenset({"member", "entry"})
_ARN: Final = re.compile(r"arn:[a-z-]+:logs:[a-z0-9-]*:[0-9]*:log-group:([^:*]+)(?::.*)?", re.DOTALL)
_ALARM_ARN: Final = re.compile(r"arn:[a-z-]+:cloudwatch:[a-z0-9-]*:[0-9]*:alarm:(.+)", re.DOTALL)
_ACCOUNT_PREFIX: Final = re.compile(r"[0-9]{12}:(.+)", re.DOTALL)  # `@log` and live tail: account and name


def group_name(identifier: str) -> str:
    """Return the name of a log group that is given by name, ARN, or account and name."""
    match = _ARN.fullmatch(identifier) or _ACCOUNT_PREFIX.fullmatch(identifier)
    return match[1] if match is not None else identifier


def group_object(identifier: str) -> ObjectName:
    return ObjectName(ObjectKind.TABLE, group_name(identifier), CloudwatchService.LOGS.value)


def metrics_object(namespace: str) -> ObjectName:
    return ObjectName(ObjectKind.TABLE, namespace, CloudwatchService.METRICS.value)


def groups_of(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the log groups that a request names, in order."""
    found: dict[str, None] = {}
    for key, value in texts_of(parameters):
        if key in _GROUP_KEYS or (key in _RESOURCE_KEYS and _ARN.fullmatch(value)):
            found[group_name(value)] = None
    return tuple(found)


def objects_of(parameters: Mapping[str, Any]) -> set[ObjectName]:
    """Return everything that a request names."""
    objects = {group_object(name) for name in groups_of(parameters)}
    for key, value in texts_of(parameters):
        if key in _SCHEMAS:
            objects.add(ObjectName(ObjectKind.TABLE, value, _SCHEMAS[key]))
        elif key in _RESOURCE_KEYS and (match := _ALARM_ARN.fullmatch(value)) is not None:
            objects.add(ObjectName(ObjectKind.TABLE, match[1], "alarms"))
    return objects


def texts_of(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Return all texts of parameters with the keys that they have, in lower case. Elements of a list have its key.

    Raises RecursionError if they are nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            is_place = name in _FORM_WORDS or name.isdecimal()
            yield from texts_of(inner, key if is_place else str(name).lower(), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner, key, depth + 1)
