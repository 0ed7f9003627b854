"""Effects of changed connection settings on running sessions and on the next one."""

from __future__ import annotations

import base64
import time
from typing import Any

import psycopg
import pytest
from tests.e2e.test_limits import cut, ended
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import IN_TIME

from postern.domain.lists import Page
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.secret import Secret
from postern.store.ports.review_ports import ReviewFilter


def change(gateway: Gateway, name: str, **changes: Any) -> None:
    gateway.call(gateway.services.connections.update(gateway.admin, name, changes))


def test_shorter_max_duration_applies_to_running_sessions(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("shortened", target)
    with psycopg.connect(gateway.url("shortened")) as connection:
        connection.execute("select 1")
        change(gateway, "shortened", access_max_duration=2)
        assert "maximum duration" in cut(connection, 5)
    assert ended(gateway, gateway.newest("shortened")) == "expired"


@pytest.mark.slow
def test_longer_max_duration_applies_to_running_sessions(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("lengthened", target)
    url = gateway.url("lengthened")  # its credential was issued without that limit, which would end the session, too
    for limit in (3, 12, 48):  # which must not be over before it is changed, on a machine that is busy
        change(gateway, "lengthened", access_max_duration=limit)
        began = time.monotonic()
        with psycopg.connect(url, autocommit=True) as connection:
            change(gateway, "lengthened", access_max_duration=600)
            if time.monotonic() - began > limit / 2:
                continue
            time.sleep(limit + 2)
            assert connection.execute("select 1").fetchone() == (1,)
            change(gateway, "lengthened", access_max_duration=4)
            assert "maximum duration" in cut(connection, 3)
            return
    pytest.fail("nothing was quick enough")


def test_new_secret_applies_to_new_sessions_only(
    gateway: Gateway, target: PostgresServer, direct: psycopg.Connection
) -> None:
    direct.execute("create role other_user login superuser")
    try:
        made = gateway.connection("new-secret", target)
        with psycopg.connect(gateway.url("new-secret"), autocommit=True) as before:
            user = Secret(base64.b64encode(b"other_user").decode())
            change(gateway, "new-secret", secret={**made.secret, "envvar:USER": user})
            with psycopg.connect(gateway.url("new-secret")) as after:
                assert after.execute("select current_user").fetchone() == ("other_user",)
            assert before.execute("select current_user").fetchone() == ("postgres",)
    finally:
        direct.execute("drop role other_user")


def test_new_agent_applies_to_new_sessions_only(gateway: Gateway, target: PostgresServer) -> None:
    made = gateway.connection("new-agent", target)
    with psycopg.connect(gateway.url("new-agent"), autocommit=True) as before:
        agent = gateway.call(gateway.services.agent_keys.create(gateway.admin, {"name": "far-away"}))
        change(gateway, "new-agent", agent_id=agent.id)
        with pytest.raises(psycopg.OperationalError, match="agent"):
            psycopg.connect(gateway.url("new-agent"))
        assert before.execute("select 1").fetchone() == (1,)
        change(gateway, "new-agent", agent_id=made.agent_id)
        with psycopg.connect(gateway.url("new-agent")) as after:
            assert after.execute("select 1").fetchone() == (1,)


def test_adding_reviewers_ends_running_sessions_without_approval(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("reviewed-later", target)
    with psycopg.connect(gateway.url("reviewed-later")) as connection:
        change(gateway, "reviewed-later", reviewers=("security",))
        assert "needs a review: 1 member of the group 'security' must approve" in cut(connection)
    # The next one waits for them at its login, however long its driver does.
    wanted = ReviewFilter(connection="reviewed-later", status=ReviewStatus.PENDING)
    for seconds in IN_TIME:
        with pytest.raises(psycopg.OperationalError, match="timeout expired"):
            psycopg.connect(gateway.url("reviewed-later"), connect_timeout=seconds)
        if found := gateway.call(gateway.services.reviews.find(gateway.admin, wanted, Page())).items:
            break
    (asked,) = found
    gateway.call(gateway.services.reviews.withdraw(gateway.admin, str(asked.id)))


def test_changed_subtype_ends_running_sessions(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("mysql-later", target)
    with psycopg.connect(gateway.url("mysql-later")) as connection:
        change(gateway, "mysql-later", subtype="mysql")
        assert "has a different type now" in cut(connection)


def test_changed_labels_and_unused_modes_do_not_end_running_sessions(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("renamed", target)
    with psycopg.connect(gateway.url("renamed"), autocommit=True) as connection:
        change(
            gateway,
            "renamed",
            resource_name="another",
            connection_tags={"env": "prod"},
            tags=("old",),
            force_approve_groups=("sre",),
            access_mode_exec="disabled",
            access_mode_runbooks="disabled",
            access_schema="disabled",
        )
        time.sleep(0.5)
        assert connection.execute("select 1").fetchone() == (1,)
