"""The wires of SSH channels: a file transfer, or a program or port."""

from __future__ import annotations

from collections.abc import Mapping

from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import Extra
from postern.gateway.gateway_protocols import OpenWire, WireParts
from postern.protocols.ssh.listener.ssh_rule_text import words_of
from postern.protocols.terminal.files.commands import copies
from postern.protocols.terminal.files.copying import CopyingWire
from postern.protocols.terminal.files.sftp import SftpWire
from postern.protocols.terminal.terminal_listener import program_wire
from postern.protocols.wire_base import Wire
from postern.relay.relay_target import ChannelKind, Start


def wires(parts: WireParts) -> OpenWire:
    """Return the function that makes the wire of one channel."""

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        channel = start.channel
        if channel is None:  # a script, or a command line's own stream
            return program_wire(parts.settings, permit, start, start.arguments)
        if channel.kind is ChannelKind.SUBSYSTEM:
            return SftpWire()
        if channel.kind is ChannelKind.EXEC and copies(channel.what):
            return CopyingWire(channel.what)
        # No file copy uses a terminal.
        files = not channel.kind.is_program or start.terminal is not None
        files = files or permit.connection.allows(Extra.FILE_TRANSFER)
        return program_wire(parts.settings, permit, start, words_of(channel), files=files)

    return open_wire
