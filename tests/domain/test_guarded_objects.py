"""Which names a rule about objects takes for its own."""

from __future__ import annotations

import pytest

from postern.domain.rules.guarded_objects import alike, parse_guarded
from postern.domain.rules.statement import EVERYTHING, ObjectKind, ObjectName
from postern.domain.targets.target_schema import Function, Relation, TargetSchema


def table(name: str, schema: str = "") -> ObjectName:
    return ObjectName(ObjectKind.TABLE, name, schema)


@pytest.mark.parametrize(
    "spelled",
    ["users", "Users", "USERS", "users ", "\uff55\uff53\uff45\uff52\uff53", "us\u00e9rs", "use\u0301rs", "U\u017fers"],
)
def test_names_that_some_server_takes_for_the_same_are_the_same(spelled: str) -> None:
    """Letter case, blanks at the end and width (SQL Server), accents (routines of MySQL)."""
    assert parse_guarded("public.users", "objects").hit_by(table(spelled, "PUBLIC"))
    assert parse_guarded("public.users", "objects").hit_by(table(spelled))
    assert not parse_guarded("public.users", "objects").hit_by(table(spelled, "app"))


def test_names_that_postgresql_cuts_are_compared_as_far_as_it_looks() -> None:
    name = "x" * 63
    assert parse_guarded(f"hr.{name}", "objects").hit_by(table(name + "yz", "hr"))
    assert alike("\u00e9" * 40) == alike("e" * 40)


def test_a_name_without_a_schema_may_be_of_any() -> None:
    assert parse_guarded("hr.salary", "objects").hit_by(table("salary"))
    assert parse_guarded("hr.raise()", "objects").hit_by(ObjectName(ObjectKind.FUNCTION, "raise"))
    assert parse_guarded("hr", "objects").hit_by(table("salary")) is None


def test_what_the_catalogue_tells_of_a_schema() -> None:
    known = TargetSchema(
        relations={("hr", "salary"): Relation("hr", "salary", ())},
        functions={("hr", "Raise"): Function("hr", "Raise", harmless=False)},
    )
    whole = parse_guarded("hr.*", "objects")
    assert whole.hit_by(table("salary"), known)
    assert whole.hit_by(table("users"), known) is False
    assert whole.hit_by(ObjectName(ObjectKind.FUNCTION, "raise"), known)
    assert not whole.hit_by(ObjectName(ObjectKind.FUNCTION, "lower"), known)
    assert parse_guarded("*.salary", "objects").hit_by(ObjectName(ObjectKind.SCHEMA, "hr"), known)
    assert not parse_guarded("*.salary", "objects").hit_by(ObjectName(ObjectKind.SCHEMA, "app"), known)


@pytest.mark.parametrize("spelled", ["hr", "hr.salary", "*.salary", "raise()", "hr.raise()"])
def test_what_touches_everything_touches_each(spelled: str) -> None:
    assert parse_guarded(spelled, "objects").hit_by(EVERYTHING)
