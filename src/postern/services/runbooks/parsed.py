"""The parsed runbooks of one commit in memory: each with its parameters and its pre-rendered entry in lists."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from postern.domain.runbook import Parameter, RunbookFile, Snapshot
from postern.runbooks.template import TemplateError, parse
from postern.services.runbooks.worker_pool import TimeSlices

log = logging.getLogger(__name__)

MAX_LISTED = 100_000  # characters of one runbook's entry in lists
MAX_LISTS = 4_000_000  # of all that are good, in one repository
SECONDS = 60.0  # of a processor, for all files of a repository
_MAX_ERROR = 500  # characters: some errors quote the file
_TOO_LONG = "its parameters are longer than a list can show; shorten them, or keep fewer runbooks in this repository"
_TOO_LATE = "reading the runbooks before it took all of the time limit of a repository; make them simpler"

_WHERE_SET = ("default", "placeholder", "pattern", "minlength", "maxlength", "order", "asenv")


@dataclass(frozen=True, slots=True)
class Runbook:
    """One file. `error` says why it cannot run. `listed` is its entry in lists as JSON, without the connections and the
    closing brace."""

    repository: str
    path: str
    commit: str
    text: str | None
    parameters: tuple[Parameter, ...]
    error: str
    listed: str

    @property
    def name(self) -> str:
        """The name in the API."""
        return f"/{self.path}"


@dataclass(frozen=True, slots=True)
class Books:
    """The runbooks of a commit, by path, in order; `listed` as in Runbook; `size` in characters."""

    commit: str
    author: str
    message: str
    runbooks: Mapping[str, Runbook]
    listed: str
    size: int


def books_of(repository: str, snapshot: Snapshot, before: Books | None, slices: TimeSlices) -> Books:
    """Parse a snapshot; slow, so call it in a thread. `before` has the same repository's last result: equal files are
    not parsed again."""
    runbooks = []
    for runbook in _runbooks_of(repository, snapshot, before):
        runbooks.append(runbook)
        slices.rest()
    header = {
        "repository": repository,
        "commit": snapshot.commit,
        "commit_author": snapshot.author,
        "commit_message": snapshot.message,
    }
    texts = (*(entry.text or "" for entry in runbooks), *(entry.listed for entry in runbooks))
    return Books(
        commit=snapshot.commit,
        author=snapshot.author,
        message=snapshot.message,
        runbooks={entry.path: entry for entry in sorted(runbooks, key=lambda entry: entry.path)},
        listed=_open(header),
        size=sum(map(len, texts)),
    )


def metadata_of(parameters: tuple[Parameter, ...]) -> dict[str, dict[str, Any]]:
    """Return the metadata of spec 2.3, with further attributes where they are set."""
    return {parameter.name: _attributes_of(parameter) for parameter in parameters}


def _attributes_of(parameter: Parameter) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "description": parameter.description,
        "required": parameter.required,
        "type": parameter.type,
    }
    if parameter.options or parameter.type == "select":
        attributes["options"] = list(parameter.options)
    return attributes | {name: value for name in _WHERE_SET if (value := getattr(parameter, name)) not in (None, "")}


def _runbooks_of(repository: str, snapshot: Snapshot, before: Books | None) -> Iterator[Runbook]:
    began, left = time.thread_time(), MAX_LISTS
    for file in snapshot.files:
        runbook = before.runbooks.get(file.path) if before else None
        if runbook is not None and not runbook.error and not file.error and runbook.text == file.text:
            new_runbook = replace(runbook, commit=snapshot.commit)
        elif time.thread_time() - began > SECONDS:
            new_runbook = _entry(repository, snapshot.commit, file, (), file.error or _TOO_LATE)
        else:
            new_runbook = _runbook_of(repository, snapshot.commit, file)
        if new_runbook.parameters and len(new_runbook.listed) > min(left, MAX_LISTED):
            new_runbook = _entry(repository, snapshot.commit, file, (), _TOO_LONG)
        left -= len(new_runbook.listed)
        yield new_runbook


def _runbook_of(repository: str, commit: str, file: RunbookFile) -> Runbook:
    parameters: tuple[Parameter, ...] = ()
    error = file.error
    if file.text is not None and not error:
        try:
            parameters = parse(file.text).parameters
        except TemplateError as problem:
            error = problem.message
        except Exception:  # one broken file must not hide the others
            log.exception("runbook cannot be parsed: repository=%s file=%s", repository, file.path)
            error = "internal error of the gateway while it was read; see the log of the gateway"
    return _entry(repository, commit, file, parameters, error)


def _entry(repository: str, commit: str, file: RunbookFile, parameters: tuple[Parameter, ...], error: str) -> Runbook:
    error = error if len(error) <= _MAX_ERROR else error[:_MAX_ERROR] + "…"
    listed = _open({"name": f"/{file.path}", "metadata": metadata_of(parameters), "error": error or None})
    return Runbook(repository, file.path, commit, file.text, parameters, error, listed)


def _open(header: Mapping[str, Any]) -> str:
    return json.dumps(header, separators=(",", ":"))[:-1]
