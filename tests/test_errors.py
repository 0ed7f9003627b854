from __future__ import annotations

import pytest

from postern import errors
from postern.errors import STATUSES, Malformed, Misconfigured, NotFound, PosternError, Unavailable


@pytest.mark.parametrize("kind", STATUSES)
def test_what_the_api_answers_the_client_raises(kind: type[PosternError]) -> None:
    assert errors.error_of(errors.status_of(kind("why"))) is kind


def test_what_has_no_status_of_its_own() -> None:
    class Gone(NotFound):
        """Like its parent."""

    assert errors.status_of(Gone("why")) == 404
    assert errors.status_of(Misconfigured("why")) == 500
    assert errors.error_of(413) is Malformed
    assert errors.error_of(500) is Unavailable
    assert errors.error_of(502) is Unavailable
