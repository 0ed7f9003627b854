"""Recognition of commands that copy files by themselves, as `scp -O` and rsync run them at the other end.

The input and output of such a command is files, which recordings omit and masking does not change. So the command must
be exactly what it looks like, in every shell. `scp -tf` sends although it announces that it receives; `rsync --server
{--sender,.}` does too; and `rsync --server --daemon` obeys a file of the client's. Only what the clients themselves
write is accepted as a copy. Everything else is an ordinary command.
"""

from __future__ import annotations

import re
from typing import Final

# Words that every shell reads alike, including fish. Special characters are quoted, except tildes and patterns.
_WORD: Final = re.compile(
    r"""(?:[\w./:@%+,~*?\[\]-]|(?<=[^ ])=|[^\0-\x7f]|\\[ !-/:-@\[-`{-~]|'[^'\\\n]*'|"[^"$`\\!\n]*")+""", re.ASCII
)
_QUOTED: Final = re.compile(r"""\\(.)|'([^']*)'|"([^"]*)\"""", re.DOTALL)
_PATTERN: Final = re.compile(r"[*?\[]|(?<=.)~")
_SCP_FLAGS: Final = re.compile(r"-[dpqrtfv]+")
_RSYNC_FLAGS: Final = re.compile(r"-[vqcarRbudlLkKHpEAXogtDSnWxOJUNIzmhyiC]*(e[0-9]*\.[A-Za-z]*)?")
_RSYNC_PLAIN: Final = re.compile(
    "--(append|append-verify|copy-unsafe-links|delay-updates|delete|delete-after|delete-before|delete-delay|"
    "delete-during|delete-excluded|existing|fake-super|force|ignore-errors|ignore-existing|ignore-missing-args|inplace|"
    "mkpath|munge-links|no-implied-dirs|no-relative|no-r|no-W|numeric-ids|one-file-system|open-noatime|partial|"
    "preallocate|remove-source-files|safe-links|size-only|sparse|stats|super)"
)
_RSYNC_VALUED: Final = re.compile(
    "--(backup-dir|block-size|bwlimit|checksum-choice|checksum-seed|compare-dest|compress-choice|compress-level|"
    "copy-dest|groupmap|iconv|info|link-dest|log-format|max-alloc|max-delete|max-size|min-size|modify-window|"
    "partial-dir|skip-compress|suffix|temp-dir|timeout|usermap)"
)
_QUOTES: Final = re.compile(r"\\\n|[\\'\"]")
_BETWEEN: Final = re.compile(r"[\s;|&()<>{}`$=,]+")
_SCP_MODE: Final = re.compile(r"-[0-9A-Za-z]*[tf][0-9A-Za-z]*")
_SERVERS: Final = frozenset({"sftp-server", "internal-sftp"})
_PROGRAMS: Final = frozenset({"rsync", "scp", "sftp-server"})


def moves_files(command: str) -> bool:
    """Return True if the command runs a program that copies files, as far as its text shows.

    It is recognised by its name, or by the options that make it talk to a client, anywhere in the command (`env scp -f
    x`, `sudo rsync --server`, `S=scp; $S -t x`). `detection` finds the rest by the program's output.
    """
    if program(command) in _PROGRAMS:
        return True
    words = [word for word in _BETWEEN.split(_QUOTES.sub("", command)) if word]
    names = {word.rpartition("/")[2] for word in words}
    if names & _SERVERS:
        return True
    if "scp" in names and any(_SCP_MODE.fullmatch(word) for word in words):
        return True
    return "rsync" in names and "--server" in words


def program(command: str) -> str:
    """Return the name of the program that the command runs, without its folder."""
    words = command.split(None, 1)
    return words[0].rpartition("/")[2] if words else ""


def copies(command: str) -> str:
    """Return what a command that a client runs by SSH does with files: `send` (to the client), `receive`, or empty."""
    raw = _split(command)
    words = [_QUOTED.sub(lambda match: match[1] or match[2] or match[3] or "", word) for word in raw]
    name = program(command)
    direction = _scp(words[1:]) if name == "scp" else _rsync(words[1:]) if name == "rsync" else ""
    if direction == "receive" and any(_PATTERN.search(_QUOTED.sub("", word)) for word in raw):
        return ""  # a file at the target can have the name of an option
    return direction


def _split(command: str) -> list[str]:
    """Split the command as shells do. Return an empty list for text that shells can read differently."""
    words, pos = [], 0
    while match := _WORD.match(command, pos):
        words.append(match[0])
        pos = match.end()
        if pos < len(command) and command[pos] != " ":
            return []
        pos += 1
    return words if pos > len(command) else []


def _scp(words: list[str]) -> str:
    flags = ""
    while words and _SCP_FLAGS.fullmatch(words[0]):
        flags += words.pop(0)
    if words[:1] == ["--"]:
        words.pop(0)
    elif words and words[0].startswith("-"):
        return ""
    if len(words) != 1 or ("t" in flags) == ("f" in flags):
        return ""
    return "receive" if "t" in flags else "send"


def _rsync(words: list[str]) -> str:
    """Return the direction of an rsync server. Options end at a `.`, which stands for the client's side; after it, a
    word that looks like an option would be one."""
    sends = words[1:2] == ["--sender"]
    if words[:1] != ["--server"] or "." not in words:
        return ""
    pos = 2 if sends else 1
    while pos < len(words) and words[pos] != ".":
        name, equals, _ = words[pos].partition("=")
        if _RSYNC_VALUED.fullmatch(name):
            pos += not equals
        elif not _RSYNC_FLAGS.fullmatch(words[pos]) and not _RSYNC_PLAIN.fullmatch(words[pos]):
            return ""
        pos += 1
    paths = words[pos + 1 :]
    if not paths or any(path.startswith("-") for path in paths):
        return ""
    return "send" if sends else "receive"
