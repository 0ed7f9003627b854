"""Verification proves an untouched export and finds every change to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.proofs import BEGIN, ORG, SECOND, Made, a_record, segment_bytes, stored, unpack

from postern.domain.sessions.ledger import EntryKind, Fact, moment
from postern.errors import Malformed
from postern.proof.export_reading import verify_package
from postern.proof.package import END, header
from postern.proof.proof_checkpoints import format_line, new_key, sign_checkpoint
from postern.proof.proof_copies import measure
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import LedgerWriter, digest_of, first_hash
from postern.proof.proof_sessions import ListedSegment


def check(
    made: Made, tmp_path: Path, *, data: bytes | None = None, anchors: tuple[bytes, ...] = ()
) -> VerificationReport:
    """Verify with the key of the untouched record."""
    path = tmp_path / "export.tar"
    path.write_bytes(made.pack() if data is None else data)
    return verify_package(path, [made.key.public], anchors)


def kinds(report: VerificationReport) -> set[FindingKind]:
    return {finding.what for finding in report.findings}


@pytest.mark.parametrize("suffix", [".rec", ".rec.zst"])
def test_untouched_export_is_fully_proven_as_tar_and_as_folder(tmp_path: Path, suffix: str) -> None:
    made = a_record(suffix=suffix)
    report = check(made, tmp_path)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.segments_proven, report.entries, report.proven_to) == (4, 6, 8, 8)
    assert report.after_checkpoint == report.segments_unproven == report.sessions_open == 0
    assert report.bytes_proven == sum(one.size for _, listed in made.sessions.values() for one in listed)
    folder = unpack(made.pack(), tmp_path / "folder")
    assert verify_package(folder, [made.key.public]).as_json() == report.as_json()


def test_export_of_an_empty_ledger_is_reported_as_unproven(tmp_path: Path) -> None:
    report = check(Made(), tmp_path)
    assert kinds(report) == {FindingKind.UNPROVEN}


def test_sessions_after_the_newest_checkpoint_are_pending_and_not_a_finding(tmp_path: Path) -> None:
    made = a_record()
    made.add_session(5)
    made.add_session(6, is_closed=False)
    report = check(made, tmp_path)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.sessions_pending, report.after_checkpoint) == (4, 2, 3)
    assert report.segments_unproven == 4
    made.checkpoint()
    report = check(made, tmp_path)
    assert (report.sessions_proven, report.sessions_open, report.sessions_pending) == (5, 1, 0)
    assert (report.segments_proven, report.segments_unproven) == (8, 2)


def test_edited_bytes_of_a_segment_are_located_to_their_record(tmp_path: Path) -> None:
    for suffix in (".rec", ".rec.zst"):
        made = a_record(suffix=suffix)
        session = UUID(int=1002)
        plain = segment_bytes(session, 2, is_last=False)
        at = plain.index(b"row of")
        edited = plain[:at] + b"ROW" + plain[at + 3 :]
        made.segments[session, 2] = stored(edited) if suffix == ".rec.zst" else edited
        [finding] = check(made, tmp_path).findings
        assert (finding.what, finding.session, finding.segment) == (FindingKind.CHANGED, session, 2)
        assert finding.begin is not None
        assert finding.end is not None
        assert finding.begin <= at < finding.end
        assert finding.end - finding.begin < 60


def test_segment_edited_with_matching_checksums_is_found(tmp_path: Path) -> None:
    made = a_record()
    session = UUID(int=1002)
    made.segments[session, 2] = segment_bytes(session, 2, is_last=False, texts=("select 2",))
    [finding] = check(made, tmp_path).findings
    assert (finding.what, finding.segment, finding.begin) == (FindingKind.CHANGED, 2, 0)


def test_segment_edited_together_with_its_listed_digest_is_found_by_the_ledger(tmp_path: Path) -> None:
    made = a_record()
    session = UUID(int=1002)
    facts, listed = made.sessions[session]
    made.segments[session, 2] = other = segment_bytes(session, 2, is_last=False, texts=("select 2",))
    listed[1] = ListedSegment(2, *measure([other]))
    report = check(made, tmp_path)
    assert kinds(report) == {FindingKind.CHANGED}
    assert [(finding.session, finding.entry) for finding in report.findings] == [(session, 4)]
    assert report.sessions_proven == 3
    assert facts.closing


def test_missing_segment_is_found_whether_listed_or_not(tmp_path: Path) -> None:
    for unlisted in (False, True):
        made = a_record()
        session = UUID(int=1002)
        del made.segments[session, 2]
        if unlisted:
            del made.sessions[session][1][1]
        [finding] = check(made, tmp_path).findings
        assert (finding.what, finding.session, finding.segment) == (FindingKind.MISSING, session, 2)


def test_additional_segment_is_found_whether_listed_or_not(tmp_path: Path) -> None:
    made = a_record()
    session = UUID(int=1001)
    extra = segment_bytes(session, 3, is_last=True)
    made.segments[session, 3] = extra
    assert kinds(check(made, tmp_path)) == {FindingKind.FOREIGN}
    made.sessions[session][1].append(ListedSegment(3, *measure([extra])))
    assert kinds(check(made, tmp_path)) == {FindingKind.FOREIGN}


def test_removed_session_is_found_by_its_ledger_entry(tmp_path: Path) -> None:
    made = a_record()
    session = UUID(int=1002)
    del made.sessions[session]
    for number in (1, 2, 3):
        del made.segments[session, number]
    [finding] = check(made, tmp_path).findings
    assert (finding.what, finding.session, finding.entry) == (FindingKind.MISSING, session, 3)


def test_session_without_a_ledger_entry_is_found(tmp_path: Path) -> None:
    made, other = a_record(), a_record()
    other.add_session(9, segments=0)
    made.sessions[UUID(int=1009)] = other.sessions[UUID(int=1009)]
    [finding] = check(made, tmp_path).findings
    assert (finding.what, finding.session) == (FindingKind.FOREIGN, UUID(int=1009))


@pytest.mark.parametrize("name", ["user", "connection", "verb", "start_date", "script"])
def test_edited_fact_of_a_session_opening_is_found(tmp_path: Path, name: str) -> None:
    made = a_record()
    session = UUID(int=1003)
    facts, listed = made.sessions[session]
    if name == "script":
        facts = replace(facts, script="select 2")
    else:
        facts = replace(facts, opening={**facts.opening, name: "bob@example.com"})
    made.sessions[session] = (facts, listed)
    [finding] = check(made, tmp_path).findings
    assert (finding.what, finding.session, finding.entry) == (FindingKind.CHANGED, session, 5)


def test_edited_or_removed_closing_of_a_session_is_found(tmp_path: Path) -> None:
    closings: list[dict[str, Fact] | None] = [
        {"end_date": "2030-01-01T00:00:00.000000Z", "end_reason": "killed", "exit_code": 0},
        None,
    ]
    for closing in closings:
        made = a_record()
        session = UUID(int=1003)
        facts, listed = made.sessions[session]
        made.sessions[session] = (replace(facts, closing=closing), listed)
        [finding] = check(made, tmp_path).findings
        assert (finding.what, finding.session, finding.entry) == (FindingKind.CHANGED, session, 6)


def test_edited_missing_repeated_or_moved_ledger_entry_is_located(tmp_path: Path) -> None:
    def edited(made: Made) -> None:
        one = made.entries[4]
        made.entries[4] = replace(one, content=one.content.replace(b'"facts":"', b'"facts":"0')[:-1] + b"}")

    def missing(made: Made) -> None:
        del made.entries[4]

    def doubled(made: Made) -> None:
        made.entries.insert(5, made.entries[4])

    def moved(made: Made) -> None:
        made.entries[4], made.entries[5] = made.entries[5], made.entries[4]

    attacks: dict[Callable[[Made], None], FindingKind] = {
        edited: FindingKind.CHANGED,
        missing: FindingKind.MISSING,
        doubled: FindingKind.DOUBLED,
        moved: FindingKind.REORDERED,
    }
    for attack, what in attacks.items():
        made = a_record()
        attack(made)
        report = check(made, tmp_path)
        found = [finding for finding in report.findings if finding.what is what]
        assert found, (what, report.findings)
        assert found[0].entry in (5, 6)
        assert report.sessions_proven < 4


def test_truncated_ledger_is_found_by_the_newest_checkpoint(tmp_path: Path) -> None:
    made = a_record()
    cut = replace_tail(made)
    cut.checkpoints = made.checkpoints
    report = check(cut, tmp_path)
    assert FindingKind.TRUNCATED in kinds(report)


def test_ledger_truncated_with_its_checkpoints_is_found_by_an_anchor(tmp_path: Path) -> None:
    """Without its newest checkpoints the shorter ledger is consistent: only an anchor shows the difference."""
    made = a_record()
    anchors = tuple(map(format_line, made.checkpoints))
    cut = replace_tail(made)
    assert check(cut, tmp_path).is_good
    [finding] = check(cut, tmp_path, anchors=anchors).findings
    assert (finding.what, finding.entry) == (FindingKind.TRUNCATED, 3)


def replace_tail(made: Made) -> Made:
    """Remove everything from the third entry on: ledger, checkpoints, sessions and segments."""
    first = UUID(int=1001)
    segments = {key: data for key, data in made.segments.items() if key[0] == first}
    sessions = {first: made.sessions[first]}
    return replace(
        made, entries=made.entries[:2], checkpoints=made.checkpoints[:1], sessions=sessions, segments=segments
    )


def test_anchor_lines_of_other_organisations_and_repeated_lines_are_ignored(tmp_path: Path) -> None:
    made, other = a_record(), new_key(UUID(int=8), BEGIN)
    foreign = sign_checkpoint(other, LedgerWriter(UUID(int=8), made.writer.head).head, BEGIN)
    lines = [format_line(one) for one in made.checkpoints]
    report = check(made, tmp_path, anchors=(*lines, lines[0], format_line(foreign)))
    assert report.is_good, report.findings
    assert report.anchored == 3


def test_forged_checkpoint_is_found_and_proves_nothing(tmp_path: Path) -> None:
    made = a_record()
    one = made.checkpoints[1]
    for forged in (
        replace(one, signature=bytes(64)),
        replace(one, at=one.at + SECOND),
        sign_checkpoint(new_key(ORG, BEGIN), made.writer.head, BEGIN),
        replace(sign_checkpoint(new_key(ORG, BEGIN), made.writer.head, BEGIN), key=made.key.id),
    ):
        made.checkpoints[1] = forged
        report = check(made, tmp_path)
        assert FindingKind.FORGED in kinds(report)
        assert report.proven_to == 2


def test_history_rewritten_and_signed_by_another_key_is_found(tmp_path: Path) -> None:
    made = a_record()
    kept = made.key.public
    anew = Made()
    anew.add_session(1)
    anew.checkpoint()
    path = tmp_path / "export.tar"
    path.write_bytes(anew.pack())
    assert verify_package(path, [anew.key.public]).is_good
    report = verify_package(path, [kept])
    assert {FindingKind.FORGED, FindingKind.UNPROVEN} <= kinds(report)
    assert report.sessions_proven == report.segments_proven == 0


def test_history_rewritten_with_the_right_key_is_found_by_an_anchor(tmp_path: Path) -> None:
    made = a_record()
    anchor = format_line(made.checkpoints[-1])
    anew = Made(key=made.key)
    for number in (1, 2, 4, 5):  # the third never happened
        anew.add_session(number)
    anew.checkpoint()
    assert check(anew, tmp_path).is_good
    report = check(anew, tmp_path, anchors=(anchor,))
    assert kinds(report) == {FindingKind.REWRITTEN}


def test_consistently_rewritten_entries_are_found_by_the_next_checkpoint(tmp_path: Path) -> None:
    made = a_record()
    anew = Made(key=made.key)
    anew.add_session(1)
    anew.add_session(2, segments=1)
    anew.add_session(3, segments=0)
    anew.add_session(4, segments=1)
    anew.checkpoints = made.checkpoints
    report = check(anew, tmp_path)
    assert kinds(report) == {FindingKind.REWRITTEN}
    assert report.proven_to == 2


def test_rotated_key_is_trusted_and_the_old_key_no_longer(tmp_path: Path) -> None:
    made = a_record()
    old = made.rotate()
    made.add_session(5)
    made.checkpoint()
    path = tmp_path / "export.tar"
    path.write_bytes(made.pack())
    report = verify_package(path, [old.public])
    assert report.is_good, report.findings
    assert report.sessions_proven == 5
    newest_only = verify_package(path, [made.key.public])
    assert newest_only.is_good, newest_only.findings
    assert newest_only.sessions_proven == 5
    assert len(newest_only.notes) == 1
    made.add_session(6)
    made.checkpoints.append(sign_checkpoint(old, made.writer.head, BEGIN + timedelta(days=1)))
    path.write_bytes(made.pack())
    assert FindingKind.FORGED in kinds(verify_package(path, [old.public]))


def test_key_that_introduces_itself_under_a_trusted_key_id_is_forged(tmp_path: Path) -> None:
    """The new key itself signs the checkpoint that introduces it, under the old key's id."""
    made = a_record()
    old = made.key
    thief = new_key(ORG, BEGIN)
    head = made.writer.head
    made.checkpoints[-1] = replace(sign_checkpoint(thief, head, BEGIN, thief.public), key=old.id)
    made.key = thief
    path = tmp_path / "export.tar"
    path.write_bytes(made.pack())
    report = verify_package(path, [old.public])
    assert FindingKind.FORGED in kinds(report)
    assert report.proven_to == 2


def test_part_of_a_ledger_proves_the_sessions_of_its_time_range(tmp_path: Path) -> None:
    made = a_record()
    since, until = BEGIN + 25 * SECOND, BEGIN + 35 * SECOND
    part = replace(made, since=since, until=until, first=4)  # entry 4 is from before `since`
    third = UUID(int=1003)
    part.sessions, part.segments = {third: made.sessions[third]}, {}
    report = check(part, tmp_path)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.since, report.until) == (1, since, until)
    late = replace(part, first=6)  # one that leaves the session out by beginning behind it
    late.sessions = {}
    assert FindingKind.MISSING in kinds(check(late, tmp_path))
    outside = replace(part, sessions={**part.sessions, UUID(int=1004): made.sessions[UUID(int=1004)]})
    assert FindingKind.FOREIGN in kinds(check(outside, tmp_path))


def test_purged_recording_and_purged_session_are_counted_and_not_a_finding(tmp_path: Path) -> None:
    made = a_record()
    second, third = UUID(int=1002), UUID(int=1003)
    made.writer.add(EntryKind.PURGED, BEGIN + 60 * SECOND, second, what="recording", reason="retention")
    made.writer.add(EntryKind.PURGED, BEGIN + 60 * SECOND, third, what="session", reason="retention")
    made.checkpoint()
    made.sessions[second] = (made.sessions[second][0], [])
    for number in (1, 2, 3):
        del made.segments[second, number]
    del made.sessions[third]
    report = check(made, tmp_path)
    assert report.is_good, report.findings
    assert (report.sessions_purged, report.sessions_proven) == (1, 3)


def test_purge_of_a_recording_does_not_excuse_a_missing_session(tmp_path: Path) -> None:
    made = a_record()
    third = UUID(int=1003)
    made.writer.add(EntryKind.PURGED, BEGIN + 60 * SECOND, third, what="recording", reason="retention")
    made.checkpoint()
    del made.sessions[third]
    assert kinds(check(made, tmp_path)) == {FindingKind.MISSING}


def test_file_that_is_not_an_export_is_malformed(tmp_path: Path) -> None:
    for content in (b"", b"hello" * 400, END):
        file = tmp_path / "x"
        file.write_bytes(content)
        with pytest.raises(Malformed, match="no manifest"):
            verify_package(file, [bytes(32)])
    with pytest.raises(Malformed, match="does not exist"):
        verify_package(tmp_path / "y", [bytes(32)])


def test_unknown_file_or_link_in_an_export_is_found(tmp_path: Path) -> None:
    made = a_record()
    folder = unpack(made.pack(), tmp_path / "folder")
    (folder / "README").write_text("all is well")
    assert kinds(verify_package(folder, [made.key.public])) == {FindingKind.FOREIGN, FindingKind.CHANGED}
    (folder / "README").unlink()
    (folder / "segments" / "more").symlink_to("/etc/passwd")
    assert not verify_package(folder, [made.key.public]).is_good


def test_missing_file_of_an_export_is_found(tmp_path: Path) -> None:
    made = a_record()
    folder = unpack(made.pack(), tmp_path / "folder")
    for file in sorted(folder.rglob("*.*")):
        if file.is_dir() or file.name == "manifest.json":
            continue
        away = tmp_path / "away"
        shutil.move(file, away)
        report = verify_package(folder, [made.key.public])
        assert any(finding.what is not FindingKind.CHANGED for finding in report.findings), file
        shutil.move(away, file)
    assert verify_package(folder, [made.key.public]).is_good


A_RECORD = a_record(suffix=".rec.zst")
A_PACKAGE = A_RECORD.pack()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_single_change_to_the_bytes_of_an_export_is_found(tmp_path: Path, data: st.DataObject) -> None:
    size = len(A_PACKAGE)
    at = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(at + 1, size))
    kind = data.draw(st.sampled_from(["flip", "delete", "insert", "swap", "truncate"]))
    if kind == "flip":
        changed = A_PACKAGE[:at] + bytes([A_PACKAGE[at] ^ data.draw(st.integers(1, 255))]) + A_PACKAGE[at + 1 :]
    elif kind == "delete":
        changed = A_PACKAGE[:at] + A_PACKAGE[other:]
    elif kind == "insert":
        changed = A_PACKAGE[:at] + data.draw(st.binary(min_size=1, max_size=600)) + A_PACKAGE[at:]
    elif kind == "swap":
        far = data.draw(st.integers(other, size))
        changed = A_PACKAGE[:at] + A_PACKAGE[other:far] + A_PACKAGE[at:other] + A_PACKAGE[far:]
    else:
        changed = A_PACKAGE[:at]
    path = tmp_path / "export.tar"
    path.write_bytes(changed)
    try:
        report = verify_package(path, [A_RECORD.key.public])
    except Malformed:
        return  # it is no export any more, and that is said
    assert report.is_good == (changed == A_PACKAGE)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_the_store_before_an_export_is_found_although_its_seal_fits(
    tmp_path: Path, data: st.DataObject
) -> None:
    """The store was changed first, so that the gateway sealed an export with the change in it."""
    made = a_record()
    what = data.draw(st.sampled_from(["entry", "hash", "checkpoint", "session", "segment", "listed"]))
    if what in ("entry", "hash"):
        at = data.draw(st.integers(0, len(made.entries) - 1))
        one = made.entries[at]
        if what == "entry":
            made.entries[at] = replace(one, content=flipped(data, one.content))
        else:
            made.entries[at] = replace(one, hash=flipped(data, one.hash))
    elif what == "checkpoint":
        at = data.draw(st.integers(0, len(made.checkpoints) - 1))
        one_of = made.checkpoints[at]
        if data.draw(st.booleans()):
            made.checkpoints[at] = replace(one_of, hash=flipped(data, one_of.hash))
        else:
            made.checkpoints[at] = replace(one_of, signature=flipped(data, one_of.signature))
    elif what == "segment":
        place = data.draw(st.sampled_from(sorted(made.segments)))
        made.segments[place] = flipped(data, made.segments[place])
    elif what == "listed":
        key = data.draw(st.sampled_from([key for key in sorted(made.sessions) if made.sessions[key][1]]))
        listed = made.sessions[key][1]
        at = data.draw(st.integers(0, len(listed) - 1))
        listed[at] = replace(listed[at], size=listed[at].size + data.draw(st.sampled_from([-1, 1, 100])))
    else:
        key = data.draw(st.sampled_from(sorted(made.sessions)))
        facts, listed = made.sessions[key]
        name = data.draw(st.sampled_from(sorted(facts.opening)))
        opening = {**facts.opening, name: "x" + str(facts.opening[name])}
        made.sessions[key] = (replace(facts, opening=opening), listed)
    report = check(made, tmp_path)
    assert not report.is_good
    assert report.sessions_proven < 4 or report.segments_proven < 6 or report.proven_to < 8 or report.checkpoints < 2


def flipped(data: st.DataObject, given: bytes) -> bytes:
    at = data.draw(st.integers(0, len(given) - 1))
    return given[:at] + bytes([given[at] ^ data.draw(st.integers(1, 255))]) + given[at + 1 :]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=6), st.integers(1, 4000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_untouched_export_is_good(tmp_path: Path, kinds: list[tuple[int, bool, bool]], part: int) -> None:
    made = Made()
    for number, (segments, is_closed, checkpoint) in enumerate(kinds):
        made.add_session(number, segments, is_closed=is_closed)
        if checkpoint:
            made.checkpoint()
    made.add_session(50)
    made.checkpoint()
    path = tmp_path / "export.tar"
    path.write_bytes(made.pack(part=part))
    report = verify_package(path, [made.key.public])
    assert report.is_good, report.findings


def test_closing_of_a_session_without_an_opening_is_found(tmp_path: Path) -> None:
    made = Made()
    facts = digest_of({})
    session = UUID(int=5)
    last = first_hash(ORG).hex()
    content: dict[str, Fact] = {"facts": facts, "segments": 0, "last": last, "size": 0, "complete": True, "reason": ""}
    made.entries.append(made.writer.add(EntryKind.CLOSED, BEGIN, session, **content))
    made.checkpoint()
    made.entries = made.writer.entries
    assert FindingKind.MISSING in kinds(check(made, tmp_path))


def test_session_that_is_opened_twice_is_found(tmp_path: Path) -> None:
    made = a_record()
    made.writer.add(EntryKind.OPENED, BEGIN + 90 * SECOND, UUID(int=1001), facts="", started=moment(BEGIN))
    made.checkpoint()
    assert kinds(check(made, tmp_path)) == {FindingKind.DOUBLED}


def test_tar_with_any_other_header_field_is_unreadable(tmp_path: Path) -> None:
    """A header that could hold more than name and size could be changed unnoticed."""
    made = a_record()
    data = made.pack()
    block = header("manifest.json", len(data))
    assert data[257:265] == block[257:265]
    assert FindingKind.UNREADABLE in kinds(check(made, tmp_path, data=data[:2048] + b"\0" + data[2049:] + b"more"))
