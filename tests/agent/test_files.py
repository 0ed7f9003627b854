"""Files with secrets: who can read them, and their deletion."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from postern.agent import secret_files as module
from postern.agent.secret_files import PREFIX, SecretFiles, places
from postern.errors import Unavailable

# A process that writes a secret, says where, and waits.
HOLDER = """
import sys, time
from pathlib import Path
from postern.agent import secret_files
secret_files.places = lambda environ: [Path(sys.argv[1])]
held = secret_files.SecretFiles({})
print(held.write({"KEY": b"planted"}).paths["KEY"], flush=True)
time.sleep(60) if len(sys.argv) < 3 else None
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "places", lambda _environ: [tmp_path])
    return tmp_path


def folders(place: Path) -> list[Path]:
    return sorted(place.glob(f"{PREFIX}*"))


def holder(place: Path, *more: str) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(place), *more], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_secret_files_are_readable_by_their_user_only(place: Path) -> None:
    before = os.umask(0)
    try:
        written = SecretFiles({}).write({"KEY": b"\xff\x00", "CERT": b"cert"})
    finally:
        os.umask(before)
    key = written.paths["KEY"]
    assert key.name == "KEY"
    assert key.read_bytes() == b"\xff\x00"
    for path, mode in ((key, 0o600), (key.parent, 0o700), (key.parent.parent, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert key.parent.parent.parent == place


def test_each_session_has_its_own_secret_files_deleted_at_its_end(place: Path) -> None:
    held = SecretFiles({})
    first, second = held.write({"KEY": b"1"}), held.write({"KEY": b"2"})
    assert first.paths["KEY"].parent != second.paths["KEY"].parent
    (first.paths["KEY"].parent / "made by the command").mkdir()
    first.remove()
    first.remove()
    assert not first.paths["KEY"].parent.exists()
    assert second.paths["KEY"].read_bytes() == b"2"
    assert len(folders(place)) == 1


def test_secret_folder_is_created_on_first_use_and_deleted_at_exit(place: Path) -> None:
    SecretFiles({})
    assert not folders(place)
    process, path = holder(place, "end at once")
    assert process.wait(60) == 0
    assert PREFIX in str(path)
    assert not folders(place)


def test_next_start_deletes_secret_files_of_a_killed_agent(place: Path) -> None:
    process, path = holder(place)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert path.read_bytes() == b"planted"
    SecretFiles({})
    assert not folders(place)


def test_secret_files_of_a_running_process_are_not_deleted(place: Path) -> None:
    process, path = holder(place)
    try:
        SecretFiles({})
        assert path.read_bytes() == b"planted"
    finally:
        process.kill()
        process.wait(60)


def test_command_that_outlives_its_agent_does_not_lock_the_secret_folder(place: Path) -> None:
    """It inherits no lock: descriptors are closed when a program is started."""
    process, path = holder(place)
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        SecretFiles({})
        assert not path.exists()
    finally:
        child.kill()
        child.wait()
    held = SecretFiles({})
    held.write({"KEY": b"1"})
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        open_files = [os.readlink(link) for link in Path(f"/proc/{child.pid}/fd").iterdir()]
        child.kill()
    assert not any(PREFIX in name for name in open_files)


def test_deleted_secret_folder_is_created_again(place: Path) -> None:
    held = SecretFiles({})
    first = held.write({"KEY": b"1"})
    shutil.rmtree(folders(place)[0])
    second = held.write({"KEY": b"2"})
    assert second.paths["KEY"].read_bytes() == b"2"
    first.remove()


def test_attack_link_and_folder_of_another_user_are_not_deleted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = place / "precious"
    precious.mkdir()
    (precious / "data").write_text("kept")
    (place / f"{PREFIX}link").symlink_to(precious)
    SecretFiles({})
    assert (precious / "data").read_text() == "kept"
    foreign = place / f"{PREFIX}foreign"
    foreign.mkdir()
    monkeypatch.setattr("postern.agent.secret_files.os.geteuid", lambda: os.getuid() + 1)
    SecretFiles({})
    assert foreign.exists()


def test_secret_folder_deleted_before_it_is_locked_is_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module._lock_folder
    stolen: list[Path] = []

    def locked(folder: Path) -> int:
        if not stolen:
            stolen.append(folder)
            shutil.rmtree(folder)
        return real(folder)

    monkeypatch.setattr(module, "_lock_folder", locked)
    written = SecretFiles({}).write({"KEY": b"1"})
    assert written.paths["KEY"].read_bytes() == b"1"
    assert folders(place) != stolen


def test_failed_write_of_secret_files_leaves_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, real = SecretFiles({}), module._write

    def full(path: Path, content: bytes) -> None:
        real(path, content)
        if path.name == "SECOND":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        held.write({"FIRST": b"1", "SECOND": b"2"})
    assert not list(folders(place)[0].iterdir())


def test_session_without_a_folder_for_secrets_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "places", lambda _environ: [tmp_path / "none"])
    with pytest.raises(Unavailable, match="no folder is available for files with secrets"):
        SecretFiles({}).write({"KEY": b"1"})


def test_private_folders_in_memory_are_preferred_for_secrets(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert places({"XDG_RUNTIME_DIR": str(tmp_path)})[0] == tmp_path
    tmp_path.chmod(0o755)  # the folder of a runtime that others can look into is no such folder
    assert tmp_path not in places({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert places({"XDG_RUNTIME_DIR": "relative"}) == places({})
    if sys.platform == "linux":
        assert places({})[0] == Path("/dev/shm")


def test_secret_folder_is_locked_by_flock(place: Path) -> None:
    held = SecretFiles({})
    held.write({"KEY": b"1"})
    descriptor = os.open(folders(place)[0], os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
