"""Reviews: what rules and grants cost a login, how soon a decision takes effect, and what clients cost that wait.

Gateways of their own, each with one worker, the API's part in this process: rules of one would be in the way of others.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.plan import Plan
from bench.processes import cpu_seconds
from bench.results import (
    APPROVED,
    CPU_CONNECT,
    DESCRIPTORS,
    IDLE_CPU,
    MEMORY,
    P50,
    P99,
    REVOKED,
    WORST_APPROVED,
    WORST_REVOKED,
    Results,
)
from bench.stage import Stage
from bench.stream import Stream
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer

from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_rule import AccessType
from postern.domain.reviews.review_status import ReviewStatus
from postern.services.rules.rule_fields import MAX_RULES
from postern.store.ports.review_ports import ReviewFilter

OPENING = "Sessions opened one after the other, beside review rules and under a grant"
DECIDING = "From a decision to its effect"
CROWD = "1,000 clients held at login in one worker"

NO_RULES = "no review rules"
GRANT = "under a grant"
ALONE, CROWDED = "one client held", "1,000 clients held"
NOBODY = "nobody held"
CHANGED = "1,000 clients held, a rule just changed"
_RULES = (0, 100, MAX_RULES)  # the most that an organisation may have
_PEOPLE, _OF_ONE = 250, 4  # so many of one are let wait however full a worker is
_LOGINS = "an open connection"


def reviews(stage: Stage, results: Results, plan: Plan) -> None:
    places = {count: Place(stage.server) for count in _RULES}
    try:
        for count, place in places.items():
            place.start(count)
        _opening(places, results, plan)
        _deciding(places[0], results, plan)
        _crowd(places[0], results, plan)
    finally:
        for place in places.values():
            place.stop()


class Place:
    """A gateway with an open connection and one that needs a review. `opened` and `granted` are URLs of theirs."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._pool = ThreadPoolExecutor(1)
        self.gateway = Gateway(log_level="warning")

    def start(self, rules: int) -> None:
        gateway = self.gateway
        gateway.start()
        gateway.connection("open", self._server)
        gateway.connection("other", self._server)
        gateway.connection("asked", self._server, reviewers=("dba",))
        self.opened = gateway.url("open")
        self.chief = self.person("chief", "dba")
        ann = self.person("ann")
        self.granted, self.again = (self.url("asked", ann) for _ in range(2))
        for number in range(rules):
            self.rule(number)
        with self.held(self.granted) as (stream, review):
            self.decide(review, Choice.APPROVED)
            stream.let_in()

    def stop(self) -> None:
        self._pool.shutdown()
        self.gateway.stop()

    @property
    def pid(self) -> int:
        return self.gateway.worker.pid

    def person(self, name: str, *groups: str) -> Principal:
        fields = {"email": f"{name}@example.com", "groups": groups, "status": PrincipalStatus.ACTIVE}
        return self.gateway.call(self.gateway.services.users.create(self.gateway.admin, fields)).principal

    def url(self, connection: str, who: Principal) -> str:
        return self.gateway.url(connection, issued=self.gateway.credential(connection, principal=who))

    def rule(self, number: int) -> None:
        """One that covers neither connection, by its connections, by tags, or by who asks."""
        about: tuple[dict[str, Any], ...] = (
            {"connections": ("other",)},
            {"connection_tags": {"stage": f"prod-{number}"}},
            {"connections": ("open", "asked"), "required_groups": (f"team-{number}",)},
        )
        fields = {
            "name": f"rule-{number}",
            "access_type": AccessType.BOTH,
            "reviewers_groups": ("dba",),
            **about[number % len(about)],
        }
        self.gateway.call(self.gateway.services.review_rules.create(self.gateway.admin, fields))

    def waiting(self) -> list[Review]:
        wanted = ReviewFilter(status=ReviewStatus.PENDING)
        found = self.gateway.services.reviews.find(self.gateway.admin, wanted, Page(limit=1_000))
        return list(self.gateway.call(found).items)

    @contextmanager
    def held(self, url: str) -> Iterator[tuple[Stream, Review]]:
        """One that waits, alone."""
        stream = Stream(url, held=True)
        try:
            (review,) = self.waiting()
            yield stream, review
        finally:
            stream.abort()

    def decide(self, review: Review, choice: Choice) -> None:
        self.gateway.call(self.gateway.services.reviews.decide(self.chief, str(review.id), choice))

    def until(self, wait: Callable[[], None], review: Review, choice: Choice) -> float:
        """Milliseconds from before the decision until `wait` has seen its effect."""

        def seen() -> float:
            wait()
            return time.perf_counter()

        waiting = self._pool.submit(seen)
        time.sleep(0.05)  # it waits by then
        start = time.perf_counter()
        self.decide(review, choice)
        return (waiting.result() - start) * 1e3


def _opening(places: dict[int, Place], results: Results, plan: Plan) -> None:
    """Of each a login in turn."""
    ways: dict[str, tuple[str, int]] = {}
    for count, place in places.items():
        rules = f"{count} review rules about others" if count else NO_RULES
        ways[rules] = (place.opened, place.pid)
    ways[GRANT] = (places[0].granted, places[0].pid)
    ways[f"{GRANT}, {MAX_RULES} review rules about others"] = (places[MAX_RULES].granted, places[MAX_RULES].pid)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-3, round(25 * plan.seconds)):  # what a process keeps of rules is there after the first ones
        for name, (url, pid) in ways.items():
            before = cpu_seconds(pid)
            taken[name].append(_login(url))
            spent[name].append((cpu_seconds(pid) - before) * 1e6)
            if number < 0:
                taken[name].clear()
                spent[name].clear()
    for name in ways:
        _keep_times(results, OPENING, _LOGINS, name, taken[name])
        results.add(OPENING, _LOGINS, name, CPU_CONNECT, statistics.median(spent[name]))


def _login(url: str) -> float:
    """Microseconds until it is ready."""
    start = time.perf_counter()
    stream = Stream(url)
    taken = (time.perf_counter() - start) * 1e6
    stream.close()
    time.sleep(0.01)  # its end is none of the next one's
    return taken


def _keep_times(results: Results, section: str, case: str, route: str, taken: list[float]) -> None:
    results.add(section, case, route, P50, statistics.median(taken))
    results.add(section, case, route, P99, statistics.quantiles(taken, n=100, method="inclusive")[98])


def _deciding(place: Place, results: Results, plan: Plan) -> None:
    approved, revoked = [], []
    for _ in range(round(10 * plan.seconds)):
        with place.held(place.again) as (stream, review):
            approved.append(place.until(stream.let_in, review, Choice.APPROVED))
            revoked.append(place.until(stream.cut, review, Choice.REVOKED))
    _keep_effects(results, ALONE, approved, revoked)


def _keep_effects(results: Results, case: str, approved: list[float], revoked: list[float]) -> None:
    route = "postern: recording"
    results.add(DECIDING, case, route, APPROVED, statistics.median(approved))
    results.add(DECIDING, case, route, WORST_APPROVED, max(approved))
    results.add(DECIDING, case, route, REVOKED, statistics.median(revoked))
    results.add(DECIDING, case, route, WORST_REVOKED, max(revoked))


def _crowd(place: Place, results: Results, plan: Plan) -> None:
    """Each has a review of its own, which is the most that there is to look after."""
    people = [place.person(f"user{number}") for number in range(_PEOPLE)]
    urls = [place.url("asked", who) for who in people for _ in range(_OF_ONE)]
    _quiet(place, results, plan, NOBODY)
    before = place.gateway.worker.resident()
    clients: list[Stream] = []
    try:
        clients += (Stream(url, held=True) for url in urls)
        results.add(CROWD, _LOGINS, CROWDED, MEMORY, (place.gateway.worker.resident() - before) / len(urls) / 1024)
        _quiet(place, results, plan, CROWDED)
        _in_the_crowd(place, results, clients)
        place.rule(0)
        _keep_times(results, CROWD, _LOGINS, CHANGED, [_login(place.opened) for _ in range(round(10 * plan.seconds))])
    finally:
        for client in clients:
            client.abort()


def _quiet(place: Place, results: Results, plan: Plan, route: str) -> None:
    """What a worker does while nothing happens, and what a login costs beside that."""
    time.sleep(1)
    seconds = 5 * plan.seconds
    before = cpu_seconds(place.pid)
    time.sleep(seconds)
    results.add(CROWD, _LOGINS, route, IDLE_CPU, (cpu_seconds(place.pid) - before) * 1e3 / seconds)
    results.add(CROWD, _LOGINS, route, DESCRIPTORS, len(list(Path(f"/proc/{place.pid}/fd").iterdir())))
    _keep_times(results, CROWD, _LOGINS, route, [_login(place.opened) for _ in range(round(25 * plan.seconds))])


def _in_the_crowd(place: Place, results: Results, clients: list[Stream]) -> None:
    """The same as for one, for some of them: those that came last wait for the newest reviews."""
    approved, revoked = [], []
    for review, stream in zip(place.waiting()[:10], reversed(clients), strict=False):
        approved.append(place.until(stream.let_in, review, Choice.APPROVED))
        revoked.append(place.until(stream.cut, review, Choice.REVOKED))
    _keep_effects(results, CROWDED, approved, revoked)
