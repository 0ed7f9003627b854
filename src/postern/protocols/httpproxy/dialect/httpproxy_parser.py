"""The parser of requests: what each would do, by its method and path.

The effect of a method is what HTTP says of it. An application can do anything for any method, so rules by effect are a
guess, and rules about paths are sharper. A path that servers read in different ways touches each of its readings, and
is in doubt: see `request_paths`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote_plus

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.protocols.httpproxy.request_paths import read_path

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT", "SEARCH", "QUERY"})
_WRITES: Final = frozenset(
    {"POST", "PUT", "PATCH", "DELETE", "MKCOL", "MKCALENDAR", "COPY", "MOVE", "PROPPATCH", "LOCK", "UNLOCK"}
)
_METHOD: Final = re.compile(r"[A-Z][A-Z-]{0,31}")
_MAX_TAG: Final = 32
# Headers and parameters by which an application reads a different method or path than those of the request line.
_METHOD_HEADERS: Final = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
_PATH_HEADERS: Final = frozenset(
    {
        *("x-original-url", "x-rewrite-url", "x-override-url", "x-original-uri", "x-http-destinationurl"),
        *("destination", "x-script-name", "script-name", "path-info", "x-forwarded-prefix", "x-forwarded-path"),
    }
)
_METHOD_PARAMETERS: Final = frozenset({"_method", "_httpmethod", "x-http-method-override", "httpmethod"})
# The same in bodies: of forms, of forms in several parts, and of JSON.
_NAMES: Final = "|".join(sorted(_METHOD_PARAMETERS))
_METHODS_IN_BODIES: Final = (
    re.compile(rf"(?:^|[&;\n])\s*(?:{_NAMES})=([A-Za-z-]+)", re.IGNORECASE),
    re.compile(rf"name=\"?(?:{_NAMES})\b[^\n]*\n(?:[^\r\n]+\r?\n)*\r?\n([A-Za-z-]+)", re.IGNORECASE),
    re.compile(rf"\"(?:{_NAMES})\"\s*:\s*\"([A-Za-z-]+)", re.IGNORECASE),
)
_JSON_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


class HttpproxyParser(Shared):
    """The port `Parser`. A text is one request as `request_texts` writes it, or a message of WebSocket."""

    dialect = "httpproxy"
    shapes = None

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        if not text.strip():
            return ()
        return self._cache.of(text, schema, _judge_text)


def _judge_text(text: str, schema: TargetSchema | None) -> tuple[Statement, ...]:
    head, _, body = text.lstrip().partition("\n\n")
    lines = head.splitlines()
    method, _, target = lines[0].partition(" ")
    target = target.strip().removesuffix(" HTTP/1.1").removesuffix(" HTTP/1.0")
    if method == "WEBSOCKET":
        return (_message(target),)
    if not _METHOD.fullmatch(method) or not target:
        return (unknown("it is not a request such as `GET /path`"),)
    return (_judge(method, target, _headers(lines[1:]), body),)


def _message(target: str) -> Statement:
    """Return a message of WebSocket: its effect cannot be known."""
    readings = read_path(target.partition("?")[0])
    reason = "the effect of a WebSocket message is unknown"
    return Statement("WEBSOCKET", frozenset({Effect.UNKNOWN}), _objects(readings.paths), reason=reason)


def _judge(method: str, target: str, headers: Mapping[str, str], body: str) -> Statement:
    path, _, query = target.partition("?")
    readings = read_path(path)
    doubts = [readings.ambiguous] if readings.ambiguous else []
    paths = list(readings.paths)
    for name in _PATH_HEADERS & headers.keys():
        other = re.sub(r"^[a-zA-Z]+://[^/]*", "", headers[name]).partition("?")[0] or "/"
        paths += read_path(other).paths
        if name != "destination" or "," in other:
            doubts.append(f"the header {name.title()} can replace it")
    methods = {method, *_other_methods(query, headers, body)}
    effects = frozenset(_effect(each) for each in methods)
    reason = ""
    if Effect.UNKNOWN in effects:
        unknown_methods = ", ".join(sorted(each for each in methods if _effect(each) is Effect.UNKNOWN))
        reason = f"the effect of the method {unknown_methods[:_MAX_TAG]} is unknown"
    untraced = f"its path can be read in several ways: {doubts[0]}" if doubts else ""
    return Statement(method[:_MAX_TAG], effects, _objects(tuple(paths)), reason=reason, untraced=untraced)


def _other_methods(query: str, headers: Mapping[str, str], body: str) -> set[str]:
    """Return the methods that an application can read instead."""
    methods = {headers[name] for name in _METHOD_HEADERS & headers.keys()}
    for separator in "&;":
        parameters = parse_qsl(query, separator=separator)
        methods |= {value for name, value in parameters if name.lower() in _METHOD_PARAMETERS}
    for text in {body, unquote_plus(body), _JSON_ESCAPE.sub(_unescape, body)} if body else ():
        for pattern in _METHODS_IN_BODIES:
            methods |= set(pattern.findall(text))
    return {method.strip().upper() for method in methods}


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match.group(1), 16))


def _effect(method: str) -> Effect:
    if method in _READS:
        return Effect.READ
    return Effect.WRITE if method in _WRITES else Effect.UNKNOWN


def _objects(paths: tuple[str, ...]) -> frozenset[ObjectName]:
    return frozenset(ObjectName(ObjectKind.PATH, path) for path in paths)


def _headers(lines: list[str]) -> dict[str, str]:
    """Return the values by names in lower case; of repeated names all, joined."""
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        key = name.strip().lower().replace("_", "-")  # CGI does not tell them apart
        headers[key] = f"{headers[key]},{value.strip()}" if key in headers else value.strip()
    return headers
