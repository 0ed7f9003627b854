"""Which commands copy files by themselves, as `scp -O` and rsync run them at the other end.

Such a command is carried: what it reads and prints is files, which a recording does not hold and nothing masks. So it
must be what it looks like, whatever shell reads it and whatever else the program could do: `scp -tf` sends although it
says that it receives, `rsync --server {--sender,.}` too, and `rsync --server --daemon` does what a file of the client's
says. Only what the clients themselves write is taken for a copy. All the rest is a command like any other.
"""

from __future__ import annotations

import re
from typing import Final

# Words that every shell reads alike, fish too. What has a meaning of its own is quoted, but for tildes and patterns.
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
    """Whether it runs a program that copies files, as far as its text tells: by its name, or anywhere in the command
    with the options that make it speak to a client (`env scp -f x`, `sudo rsync --server`, `S=scp; $S -t x`). What the
    text does not tell, `detection` finds in what the program says."""
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
    """The name of what it runs, without its folder."""
    words = command.split(None, 1)
    return words[0].rpartition("/")[2] if words else ""


def copies(command: str) -> str:
    """What a command that a client runs by SSH does with files: `send` to the client, `receive`, or nothing of it."""
    raw = _split(command)
    words = [_QUOTED.sub(lambda found: found[1] or found[2] or found[3] or "", word) for word in raw]
    name = program(command)
    found = _scp(words[1:]) if name == "scp" else _rsync(words[1:]) if name == "rsync" else ""
    if found == "receive" and any(_PATTERN.search(_QUOTED.sub("", word)) for word in raw):
        return ""  # a file at the target may be called like an option
    return found


def _split(command: str) -> list[str]:
    """As shells would; empty for what they might read in other ways."""
    words, pos = [], 0
    while found := _WORD.match(command, pos):
        words.append(found[0])
        pos = found.end()
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
    """Options end at a `.`, which stands for the client's side; what looks like one behind it would be one."""
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
