"""Order and steps of archiving, for every order in which segments can arrive."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st
from tests.support.world import START

from postern.archive.archiver import PATIENCE, Sealed, Step, group_by_session, make_row, next_step
from postern.archive.segment_survey import SegmentSurvey
from postern.domain.sessions.segment import Segment, first_link, next_link

ORG, SESSION = uuid4(), uuid4()


def sealed(number: int, session: UUID = SESSION) -> Sealed:
    return Sealed(session, number, Path(f"{session}.{number:06}.rec.zst"))


def told(number: int) -> SegmentSurvey:
    return SegmentSurvey(hashlib.sha256(bytes([number])).digest(), number)


def run(arrivals: list[list[int]], *, patient: bool) -> list[Segment]:
    """Rounds of an archiver: what arrives in each, and at last one after the patience is over unless `patient`."""
    rows: list[Segment] = []
    here: dict[int, int] = {}  # number → round of its arrival
    rounds = [*arrivals, [], []]
    for count, new in enumerate(rounds):
        here |= dict.fromkeys(new, count)
        late = not patient and count >= len(arrivals)
        for one in sorted(here):
            file, age = sealed(one), PATIENCE + 1 if late else 0.0
            step = next_step(file, told(one).digest, rows, age)
            if step is Step.STORE:
                rows.append(make_row(file, told(one), rows, ORG, START, START))
                rows.sort(key=lambda row: row.number)
            if step is not Step.WAIT:
                assert step in (Step.STORE, Step.DELETE)
                del here[one]
    assert patient or not here, "nothing waits for ever"
    return rows


@given(st.permutations(range(1, 7)), st.lists(st.integers(0, 6), max_size=4))
def test_chain_is_complete_in_whatever_order_segments_arrive(order: list[int], cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), 6]
    rows = run([list(order[a:b]) for a, b in pairwise(bounds)], patient=True)
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
    assert not any(row.damage for row in rows)
    link = first_link(ORG, SESSION)
    for row in rows:
        link = next_link(link, row.number, row.size, row.digest)
        assert row.chain == link


@given(st.sets(st.integers(1, 8), min_size=1))
def test_missing_segment_is_noted_only_in_the_segment_after_it(come: set[int]) -> None:
    rows = run([sorted(come)], patient=False)
    assert {row.number for row in rows} == come
    for row in rows:
        assert bool(row.damage) == (row.number > 1 and row.number - 1 not in come)


@given(st.lists(st.tuples(st.uuids(), st.integers(1, 10**6 - 1)), unique=True, max_size=20))
def test_segment_files_are_grouped_by_session_and_sorted_by_number(names: list[tuple[UUID, int]]) -> None:
    files = [sealed(number, session).path for session, number in names]
    odd = [Path("x.rec.zst"), Path(f"{uuid4()}.1.rec.zst"), Path(f"{uuid4()}.000001.rec"), Path(".000001.rec.zst")]
    groups = group_by_session([*files, *odd])
    assert sorted((one.session, one.number) for group in groups for one in group) == sorted(names)
    for group in groups:
        assert len({one.session for one in group}) == 1
        assert [one.number for one in group] == sorted(one.number for one in group)


def test_file_of_a_stored_segment_is_deleted_only_if_its_content_is_the_same() -> None:
    row = make_row(sealed(1), told(1), [], ORG, START, START)
    assert next_step(sealed(1), told(1).digest, [row], 0) is Step.DELETE
    assert next_step(sealed(1), told(2).digest, [row], 10**9) is Step.REFUSE
