from __future__ import annotations

import tarfile
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import zstandard
from tests.support.plans import statements_heard
from tests.support.proofs import segment_bytes
from tests.support.recorded import Records

from postern.errors import Conflict, Invalid
from postern.proof.export_reading import verify_package
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.services.bundle import Services
from postern.services.recordings import exports as module


async def exported(
    records: Records, services: Services, tmp_path: Path, since: datetime | None = None, until: datetime | None = None
) -> Path:
    path = tmp_path / "export.tar"
    pieces = [piece async for piece in await services.exports.begin(records.user, since, until)]
    path.write_bytes(b"".join(pieces))
    return path


async def proven(records: Records, services: Services, path: Path) -> VerificationReport:
    keys = [key.public for key in await services.checkpoints.keys(records.user)]
    return verify_package(path, keys)


async def test_export_is_verified_with_the_public_key_alone(records: Records, tmp_path: Path) -> None:
    services = records.services()
    with pytest.raises(Conflict):
        await services.exports.begin(records.user, None, None)
    for count in (0, 1, 3):
        await records.recorded(count, script="select 'ä'")
    await records.open()
    report = await proven(records, services, await exported(records, services, tmp_path))
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.sessions_open, report.segments_proven) == (3, 1, 4)
    assert report.after_checkpoint == 0


async def test_export_of_a_time_range_has_the_sessions_of_that_range(records: Records, tmp_path: Path) -> None:
    services, clock = records.services(), records.world.clock
    starts = []
    for _ in range(5):
        clock.forward(hours=1)
        starts.append(clock.now)
        await records.recorded(1)
        await services.checkpoints.make(records.user)
    await services.checkpoints.rotate(records.user)
    half = timedelta(minutes=30)
    for since, until, count in (
        (starts[1] - half, starts[2] + half, 2),
        (starts[4] - half, None, 1),
        (None, starts[0] + half, 1),
        (starts[4] + half, None, 0),
    ):
        report = await proven(records, services, await exported(records, services, tmp_path, since, until))
        assert report.is_good, report.findings
        assert report.sessions_proven == count
    oldest = (await services.checkpoints.keys(records.user))[-1].public
    path = await exported(records, services, tmp_path, starts[4] - half)
    assert verify_package(path, [oldest]).is_good
    with pytest.raises(Invalid):
        await services.exports.begin(records.user, starts[1], starts[0])


async def test_session_that_begins_during_an_export_is_not_in_it(records: Records, tmp_path: Path) -> None:
    services = records.services()
    await records.recorded(1)
    pieces = await services.exports.begin(records.user, None, None)
    await records.recorded(1)
    await services.checkpoints.make(records.user)
    path = tmp_path / "export.tar"
    path.write_bytes(b"".join([piece async for piece in pieces]))
    report = await proven(records, services, path)
    assert report.is_good, report.findings
    assert report.sessions_proven == 1


async def test_segment_stored_during_an_export_is_not_in_it(records: Records, tmp_path: Path) -> None:
    services = records.services()
    await records.recorded(1)
    going_on = await records.open()
    await records.store(going_on, 3, numbers=[1])
    pieces, found = await services.exports.begin(records.user, None, None), []
    async for piece in pieces:
        found.append(piece)
        if b"sessions-000001" in piece:  # the lists are out, the segments come now
            await records.store(going_on, 3, numbers=[2, 3])
            await records.end(going_on)
            await services.checkpoints.make(records.user)
    path = tmp_path / "export.tar"
    path.write_bytes(b"".join(found))
    report = await proven(records, services, path)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.sessions_open, report.segments_proven) == (1, 1, 1)
    report = await proven(records, services, await exported(records, services, tmp_path))
    assert (report.sessions_proven, report.segments_proven) == (2, 4)


async def test_sessions_and_segments_removed_from_the_store_are_found_in_the_export(
    records: Records, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    services = records.services()
    sessions: list[UUID] = [await records.recorded(2) for _ in range(3)]
    await services.checkpoints.make(records.user)
    gone = sessions[1].hex if records.world.database.is_sqlite else sessions[1]
    await records.sql("delete from sessions where id = :id", id=gone)
    (records.folder / f"{sessions[0]}.000002.rec.zst").unlink()
    changed = records.folder / f"{sessions[2]}.000001.rec.zst"
    changed.write_bytes(changed.read_bytes()[:-1] + bytes([changed.read_bytes()[-1] ^ 1]))
    with caplog.at_level("WARNING"):
        path = await exported(records, services, tmp_path)
    assert f"without a segment: session={sessions[2]} segment=1 error=it cannot be decrypted" in caplog.text
    report = await proven(records, services, path)
    found = {(one.what, one.session, one.segment) for one in report.findings}
    missing = {(sessions[1], None), (sessions[0], 2), (sessions[2], 1)}
    assert found == {(FindingKind.MISSING, session, segment) for session, segment in missing}


async def test_export_contains_the_segments_decrypted(records: Records, tmp_path: Path) -> None:
    """An auditor has none of the gateway's keys."""
    services, session = records.services(), await records.recorded(1)
    await services.checkpoints.make(records.user)
    with tarfile.open(await exported(records, services, tmp_path)) as export:
        (name,) = [one for one in export.getnames() if str(session) in one]
        content = export.extractfile(name)
        assert content is not None
        assert zstandard.decompress(content.read()) == segment_bytes(session, 1, is_last=True)


def remove_segment(folder: Path) -> None:
    sorted(folder.glob("*.rec.zst"))[5].unlink()


@pytest.mark.parametrize(("batch_bytes", "batch_segments"), [(1, 512), (2_000, 512), (1 << 20, 3), (1 << 20, 512)])
async def test_export_is_the_same_at_any_batch_size_and_omits_only_unreadable_segments(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int, batch_segments: int
) -> None:
    """With one byte, every segment counts as a large one and is read alone."""
    services = records.services()
    for count in (1, 4, 2, 5):
        await records.recorded(count)
    with tarfile.open(await exported(records, services, tmp_path)) as tar:
        whole = {name: tar.extractfile(name).read() for name in tar.getnames() if name.startswith("segments/")}  # type: ignore[union-attr]
    assert len(whole) == 12
    monkeypatch.setattr(module, "BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(module, "BATCH_SEGMENTS", batch_segments)
    path = await exported(records, services, tmp_path)
    with tarfile.open(path) as tar:
        names = [name for name in tar.getnames() if name.startswith("segments/")]
        assert names == list(whole)
        assert all(tar.extractfile(name).read() == whole[name] for name in names)  # type: ignore[union-attr]
    assert (await proven(records, services, path)).is_good
    remove_segment(records.folder)
    with tarfile.open(await exported(records, services, tmp_path)) as tar:
        assert len([name for name in tar.getnames() if name.startswith("segments/")]) == 11


async def test_export_runs_no_statement_for_each_session(records: Records, tmp_path: Path) -> None:
    services = records.services()

    async def count() -> int:
        await services.checkpoints.make(records.user)
        heard = await statements_heard(records.world.database, "", lambda: exported(records, services, tmp_path))
        return len(heard)

    await records.recorded(2)
    few = await count()
    for _ in range(10):
        await records.recorded(2)
    assert await count() == few
