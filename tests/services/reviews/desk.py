"""People, a connection that asks for a review, and the services: what tests of reviews begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import event, update
from tests.support.world import World

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_rule import AccessType, ReviewRule
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Session, Verb
from postern.domain.targets.connection import Connection
from postern.services.bundle import Services
from postern.services.reviews.review_requests import RequestedAccess, ReviewRequired
from postern.store.ports.common_ports import Topic
from postern.store.schema.target_tables import connections

SOURCE = "192.0.2.1"
MEANS = "login:1"


@dataclass
class Desk:
    """`ann` asks, `rita` and `rolf` review, `root` administers, `otto` audits, `zoe` has to do with nothing."""

    world: World
    services: Services
    shop: Connection
    ann: Principal
    rita: Principal
    rolf: Principal
    root: Principal
    otto: Principal
    zoe: Principal

    @classmethod
    async def make(cls, world: World) -> Desk:
        shop = await world.add_connection(reviewers=("dba",), force_approve_groups=("on call",))
        people = {"ann": ("dev",), "rita": ("dba",), "rolf": ("dba",), "root": ("admin",), "otto": ("auditor",)}
        made = {name: await world.add_user(name, *groups) for name, groups in (people | {"zoe": ()}).items()}
        return cls(world, world.services(), shop, **made)

    async def connect(
        self,
        principal: Principal | None = None,
        connection: str = "shop",
        *,
        source: str = SOURCE,
        means: str = MEANS,
        verb: Verb = Verb.CONNECT,
    ) -> Permit:
        """Ann's, if nobody else is named. Raises what admission raises."""
        asking = self.services.access.admit_principal
        return await asking(principal or self.ann, connection, verb=verb, source=source, means=means)

    async def requested_access(
        self, principal: Principal | None = None, connection: str = "shop", **how: Any
    ) -> RequestedAccess:
        with pytest.raises(ReviewRequired) as required:
            await self.connect(principal, connection, **how)
        return required.value.requested_access

    async def ask(self, duration: int | None = None, reason: str = "") -> Review:
        """By Ann, for access, with a session that waits."""
        requested_access = await self.requested_access()
        session = self.services.sessions.to_wait(requested_access, metadata={"application_name": "psql"})
        return await self.services.asking.ask(requested_access, reason=reason, duration=duration, session=session)

    async def approve(self, review: Review, by: Principal | None = None, window: TimeWindow | None = None) -> Review:
        reviews = self.services.reviews
        return await reviews.decide(by or self.rita, str(review.id), Choice.APPROVED, time_window=window)

    async def granted(self, window: TimeWindow | None = None, duration: int | None = None) -> Permit:
        """Ann's, approved by Rita."""
        await self.approve(await self.ask(duration), window=window)
        return await self.connect()

    async def submit(self, script: str = "select 1", **how: Any) -> Session:
        """Ann's script, which waits."""
        return await self.services.sessions.submit(self.ann, "shop", script, source=SOURCE, means=MEANS, **how)

    async def ready(self, window: TimeWindow | None = None) -> Session:
        """Ann's script, approved by Rita."""
        session = await self.submit()
        await self.approve(await self.review_of(session), window=window)
        return session

    async def review_of(self, session: Session) -> Review:
        return await self.services.reviews.get(self.root, str(session.id))

    async def session(self, session: Session) -> Session:
        return await self.services.sessions.get(self.root, session.id)

    async def moves(self) -> None:
        """The connection leads elsewhere from now on."""
        moved = update(connections).where(connections.c.id == self.shop.id).values(place=uuid4())
        async with self.world.database.transaction() as transaction:
            await transaction.execute(moved)
        await self.world.signals.publish(Topic.POLICY_CHANGED, connection_id=str(self.shop.id))

    async def add_rule(self, connection: Connection | None = None, **fields: Any) -> ReviewRule:
        """About the shop and for everybody, unless told."""
        at = self.world.clock()
        rule = ReviewRule(
            uuid4(),
            self.world.org_id,
            "production",
            AccessType.BOTH,
            ("security",),
            connection_ids=frozenset({(connection or self.shop).id}),
            created_at=at,
            updated_at=at,
        )
        rule = replace(rule, **fields)
        await self.world.stores.review_rules.add(rule)
        await self.world.signals.publish(Topic.POLICY_CHANGED, org_id=str(self.world.org_id))
        return rule

    async def switch(self, feature: Feature, *, on: bool) -> None:
        await self.services.features.put(self.root, feature, enabled=on)

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[list[str]]:
        """The statements that are sent meanwhile."""
        statements: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            statements.append(statement)

        engine = self.world.database.engine.sync_engine
        event.listen(engine, "before_cursor_execute", note)
        yield statements
        event.remove(engine, "before_cursor_execute", note)
