"""What an agent may declare, as far as that can be said without a gateway."""

from __future__ import annotations

import pytest

from postern.domain.targets.connection import ConnectionType
from postern.domain.targets.declaration import Declaration
from postern.errors import Invalid


def test_a_command_and_a_database() -> None:
    Declaration("shell", ConnectionType.CUSTOM, "", ("sh", "-c", "a\nb\tc"), ("dba", "on call")).check()
    Declaration("db1", ConnectionType.DATABASE, "postgres", default_database="die Größe").check()


@pytest.mark.parametrize("name", ["", "ab", "a b", "-ab", "a/b", "46cfa881-829d-448d-b9ee-a2aab544c189"])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        Declaration(name, ConnectionType.CUSTOM, "", ("sh",)).check()
    assert caught.value.field == "name"
