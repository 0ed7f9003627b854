"""`postern backup` and `postern restore`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from postern.cli.options import config_option, load
from postern.cli.printing import local_time
from postern.cli.progress import ProgressLine
from postern.cli.row_commands import print_result
from postern.cli.status import Status, report, report_note
from postern.wiring.host import backup as backup_wiring
from postern.wiring.host import restore as restore_wiring

_home = click.option("--home", default=None, help="Data folder of the gateway.  [default: POSTERN_HOME]")
_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_PATH = click.Path(path_type=Path)


class _BackupGroup(click.Group):
    """A group whose first command needs no name: `postern backup FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_BackupGroup)
def backup() -> None:
    """Back up the gateway, on its own machine. No login is needed, and the gateway can keep running.

    \b
    postern backup gateway.tar                      everything in one file
    postern backup /mnt/backups                     a folder: each recording is copied once
    postern backup gateway.tar --keys master.key    also the master key, in a file of its own
    postern backup verify gateway.tar
    """


@backup.command()
@click.argument("target", type=_PATH)
@click.option("--no-recordings", is_flag=True, help="Leave out recordings that are in the blob store.")
@click.option("--keys", type=_PATH, metavar="FILE", help="Also write the master key to this file.")
@_home
@config_option
@_json
def create(
    target: Path, no_recordings: bool, keys: Path | None, home: str | None, config: str | None, as_json: bool
) -> None:
    """Back up into the file TARGET, or into a new file in the folder TARGET, with recordings beside it.

    The backup contains the store, the recordings, certificates and SSH host keys, but never the master key, which
    encrypts secrets and stored recordings. Recordings in s3://, gs:// and az:// are not copied.
    """
    settings = load("backup", config=config, home=home, keep=False)
    with ProgressLine(f"backing up to {target}", quiet=as_json) as progress:
        result = backup_wiring.create_backup(
            settings, target, with_recordings=not no_recordings, keys=keys, progress=progress.count
        )
    row = dataclasses.asdict(result) | {"created_at": result.created_at.isoformat()}
    print_result(
        row,
        as_json,
        f"Backed up to {result.path}: {result.rows} rows, {result.segments} stored segments of recordings "
        f"({result.recordings}; {result.new_segments} new), {result.unstored} others. It was read back and verified.",
    )
    if result.missing:
        report(
            Status.WARNING,
            f"{len(result.missing)} segments that the store has are missing in the blob store, such as "
            f"{result.missing[0]}; `postern recordings verify` shows all.",
        )
    if result.keys:
        report_note(
            f"The master key is in {result.keys}. Keep it apart from the backup: with both, everything can be read."
        )
    elif not as_json:
        report_note("The master key is not in it; export it once with `postern keys export`, and keep it elsewhere.")


@backup.command()
@click.argument("file", type=_PATH)
@_json
def verify(file: Path, as_json: bool) -> None:
    """Read a whole backup, and compare everything with its hashes."""
    with ProgressLine(f"verifying {file}", quiet=as_json) as progress:
        manifest = restore_wiring.verify_backup(file, progress.count)
    print_result(
        manifest,
        as_json,
        f"{file} is complete: taken at {_time(manifest['created_at'])} by Postern {manifest['postern']}, "
        f"{manifest['members']} files, {manifest['segments']} stored segments ({manifest['recordings']}).",
    )


@click.command()
@click.argument("file", type=_PATH)
@click.option("--home", required=True, help="Empty data folder to restore into.")
@click.option("--keys", type=_PATH, metavar="FILE", help="File of the master key, from `postern keys export`.")
@click.option("--database-url", default=None, help="Empty store to restore into.  [default: POSTERN_DATABASE_URL]")
@config_option
@_json
def restore(
    file: Path, home: str, keys: Path | None, database_url: str | None, config: str | None, as_json: bool
) -> None:
    """Restore a gateway from a backup into an empty data folder and an empty store.

    The store can be of the other engine, so this also moves a gateway from SQLite to PostgreSQL or back. Everything is
    verified before it is used. Start the gateway afterwards; it closes the sessions that were running.

    \b
    postern restore gateway.tar --home /var/lib/postern --keys master.key
    postern restore gateway.tar --home /var/lib/postern --keys master.key --database-url postgresql://…
    """
    settings = load("restore", config=config, home=home, database_url=database_url, keep=False)
    with ProgressLine(f"restoring {file}", quiet=as_json) as progress:
        result = restore_wiring.restore_backup(settings, file, keys=keys, progress=progress.count)
    print_result(
        dataclasses.asdict(result),
        as_json,
        f"Restored the backup of {_time(result.created_at)} into {result.home}: {result.rows} rows, "
        f"{result.segments} stored segments of recordings, {result.unstored} others.",
    )
    if result.needs_key:
        report(
            Status.WARNING,
            f"The master key {result.needs_key} is not restored. Before you start the gateway, copy it to "
            f"{result.home}/keys/encryption.key (mode 0600), or set POSTERN_MASTER_KEY.",
        )
    if result.recordings != "in the file" and result.recordings != "in the folder":
        report_note(f"Recordings were {result.recordings}.")


def _time(text: Any) -> str:
    try:
        return local_time(str(text))
    except ValueError:
        return str(text)
