"""The steady state of links to programs: of commands, and of the channels of SSH."""

from __future__ import annotations

from collections.abc import Mapping

from postern.domain.connection import Extra
from postern.domain.permit import Permit
from postern.domain.session import Verb
from postern.gateway.protocols import OpenWire, WireParts
from postern.protocols.base import Wire
from postern.protocols.ssh.listener.ssh_rule_text import words_of
from postern.protocols.terminal.files.commands import copies
from postern.protocols.terminal.files.copying import CopyingWire
from postern.protocols.terminal.files.sftp import SftpWire
from postern.protocols.terminal.wire import TerminalWire
from postern.relay.target import ChannelKind, Start


def wires(parts: WireParts) -> OpenWire:
    """Return what makes a wire by what the client starts: a transfer of files, or a program or port."""
    settings = parts.settings

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        channel = start.channel
        if channel is not None and channel.kind is ChannelKind.SUBSYSTEM:
            return SftpWire()
        if channel is not None and channel.kind is ChannelKind.EXEC and copies(channel.what):
            return CopyingWire(channel.what)
        is_script = permit.verb is Verb.EXEC
        return TerminalWire(
            arguments=start.arguments if channel is None else words_of(channel),
            whole=is_script,
            terminal=start.terminal is not None,
            size=None if start.terminal is None else (start.terminal.columns, start.terminal.rows),
            max_message=settings.max_statement,
            most_output=settings.script_output_limit if is_script else 0,
            opaque=channel is not None and not channel.kind.is_program,
            files=not _denies_files(permit, start),
        )

    return open_wire


def _denies_files(permit: Permit, start: Start) -> bool:
    """Whether a program of an SSH client, without a terminal, must not copy files."""
    channel = start.channel
    if channel is None or not channel.kind.is_program or start.terminal is not None:
        return False
    return not permit.connection.allows(Extra.FILE_TRANSFER)
