"""The text and the permissions of a channel, for the rules of its connection."""

from __future__ import annotations

from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Extra
from postern.protocols.ssh.ssh_listening import AGENT
from postern.protocols.terminal.files.commands import moves_files
from postern.relay.relay_target import ChannelKind, ChannelRequest


def extra_of(channel: ChannelRequest) -> Extra | None:
    """Return the feature that a connection must allow for the channel, besides access itself."""
    if channel.kind is ChannelKind.FORWARD:
        return Extra.FORWARD_LOCAL
    if channel.kind in (ChannelKind.LISTEN, ChannelKind.ACCEPT):
        return Extra.FORWARD_AGENT if _listener_of(channel) == AGENT else Extra.FORWARD_REMOTE
    if channel.kind is ChannelKind.SUBSYSTEM or (channel.kind is ChannelKind.EXEC and moves_files(channel.what)):
        return Extra.FILE_TRANSFER
    return None


def modes_of(channel: ChannelRequest, *, terminal: bool) -> tuple[Verb, ...]:
    """Return the access modes that a channel needs: `exec` for a command, `connect` for everything else.

    A command at a terminal is interactive too, so it needs both: `ssh -t host bash` is a shell.
    """
    if channel.kind is not ChannelKind.EXEC:
        return (Verb.CONNECT,)
    return (Verb.EXEC, Verb.CONNECT) if terminal else (Verb.EXEC,)


def words_of(channel: ChannelRequest) -> tuple[str, ...]:
    """Return the words that are evaluated and recorded before the channel starts."""
    match channel.kind:
        case ChannelKind.SHELL:
            return ()
        case ChannelKind.FORWARD:
            return (f"forward to {channel.what}",)
        case ChannelKind.LISTEN | ChannelKind.ACCEPT if _listener_of(channel) == AGENT:
            return (("lend" if channel.kind is ChannelKind.LISTEN else "ask") + " the client's ssh-agent",)
        case ChannelKind.LISTEN:
            return (f"listen at {channel.what}",)
        case ChannelKind.ACCEPT:
            _, origin, listener = channel.what.split(" ", 2)
            return (f"forward from {origin}, which came to {listener}",)
        case _:
            return (channel.what,)


def _listener_of(channel: ChannelRequest) -> str:
    """Return the address where it listens, or for ACCEPT the listener's address."""
    return channel.what if channel.kind is ChannelKind.LISTEN else channel.what.split(" ", 2)[2]
