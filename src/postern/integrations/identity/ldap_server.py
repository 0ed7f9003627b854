"""One LDAP server (RFC 4511 to 4519), Active Directory included: users, their passwords and groups.

Certificates are checked by the standard library, for the name that an administrator gave: ldap3's own check also
accepts the address. Referrals are not followed.
"""

from __future__ import annotations

import logging
import re
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

import ldap3
from ldap3.utils.conv import escape_bytes, escape_filter_chars
from ldap3.utils.dn import escape_rdn, parse_dn

from postern.domain.identity.auth_config import LdapConfig
from postern.domain.identity.identity import Identity
from postern.domain.secret import Secret
from postern.errors import PosternError, Unauthenticated, Unavailable
from postern.integrations.identity.ldap_client import wrong_password

log = logging.getLogger(__name__)

T = TypeVar("T")
Entry = Mapping[str, Any]  # of one user: `dn`, and `attributes` with lists of bytes

_CONNECT, _RECEIVE = 5, 5  # seconds; ldap3 takes whole numbers
_MOST_GROUPS = 5_000
_DISABLED = 2  # a bit of userAccountControl
_NESTED = "(&(objectClass=group)(member:1.2.840.113556.1.4.1941:={dn}))"  # LDAP_MATCHING_RULE_IN_CHAIN
_STATE = ("userAccountControl", "nsAccountLock", "pwdAccountLockedTime")
_NO_SUCH_OBJECT, _TOO_LARGE = 32, 4
# Results of a login with a wrong password, an unknown or malformed DN, or an account that is blocked.
_REJECTED = frozenset({49, _NO_SUCH_OBJECT, 34, 50, 53})
_ESCAPE = re.compile(r"((?:\\[0-9A-Fa-f]{2})+)|\\(.)")
_GONE = "the LDAP directory does not know this user any more, or the account is disabled"


class LdapServer:
    """One server, for one piece of work in a thread."""

    def __init__(self, config: LdapConfig, scheme: str, host: str, address: str, port: int) -> None:
        self._config = config
        self._host = host
        self._is_tls = scheme == "ldaps"
        self._server = ldap3.Server(
            f"[{address}]" if ":" in address else address,
            port=port,
            use_ssl=self._is_tls,
            tls=_VerifiedTls(self._host, config.ca),
            connect_timeout=_CONNECT,
            get_info=ldap3.NONE,
            allowed_referral_hosts=[],
        )
        self._connections: list[ldap3.Connection] = []
        self._lock = threading.Lock()
        self._is_aborted = False

    def run(self, work: Callable[[LdapServer], T]) -> T:
        """Do the work, and close all connections. Raises Unauthenticated, Unavailable."""
        try:
            return work(self)
        except PosternError:
            raise
        except Exception as error:  # of ldap3, which raises many kinds for answers that are not LDAP
            raise Unavailable(f"the LDAP server {self._host} gave no usable answer: {_why(error)}") from None
        finally:
            self.abort()

    def abort(self) -> None:
        """Close all connections, from any thread."""
        with self._lock:
            self._is_aborted = True
            for connection in self._connections:
                _close(connection)

    def check(self) -> None:
        """Log in, and try the searches. Raises Unauthenticated if the account that searches is rejected, and
        Unavailable."""
        config = self._config
        if not config.bind_dn:
            self._open(None, None)
            return
        connection = self._bind(config.bind_dn, config.bind_password)
        self._one(connection, self._filter("postern"))
        self._search(connection, config.group_base_dn or config.base_dn, "(cn=postern)", ["1.1"], 1)

    def authenticate(self, user: str, password: Secret) -> Identity:
        """Return the user with this name and password. Raises Unauthenticated, Unavailable."""
        if not self._config.bind_dn:
            who = _filled_template(self._config.bind_template, user)
            connection = self._bind(who, password)
            entry = self._one(connection, self._filter(user))
            if entry is not None and not self._is_own(entry, who, user):
                raise wrong_password()
            if entry is None:
                raise Unavailable(
                    f"the LDAP directory does not show users their own entry below {self._config.base_dn}"
                )
            return self._identity(connection, entry)
        entry = self._one(self._searching(), self._filter(user))
        if entry is None:  # the same work for an unknown user, so that the time tells nothing
            self._bind(f"cn={secrets.token_hex(8)},{self._config.base_dn}", password)
            raise wrong_password()
        self.verify(entry, password)
        return self.identity(entry)

    def verify(self, entry: Entry, password: Secret) -> None:
        """Check the password of an entry. Raises Unauthenticated, Unavailable."""
        self._bind(str(entry["dn"]), password)

    def entry_of(self, subject: str) -> Entry:
        """Return the entry with this identifier. Raises Unauthenticated, Unavailable."""
        try:
            value = escape_bytes(UUID(subject).bytes_le) if self._has_binary_id else escape_filter_chars(subject)
        except ValueError:
            raise Unauthenticated(_GONE) from None
        entry = self._one(self._searching(), f"({self._config.id_attribute}={value})")
        if entry is None:
            raise Unauthenticated(_GONE)
        return entry

    def identity(self, entry: Entry) -> Identity:
        """Return the user of an entry, with groups. Raises Unauthenticated for a disabled one, Unavailable."""
        return self._identity(self._searching(), entry)

    def _identity(self, connection: Any, entry: Entry) -> Identity:
        config = self._config
        if _is_disabled(entry):
            raise Unauthenticated(_GONE)
        return Identity(
            issuer=config.issuer,
            subject=self._subject(entry),
            email=_first(entry, config.email_attribute),
            email_verified=True,
            name=_first(entry, config.name_attribute),
            groups=self._groups(connection, entry),
        )

    def _subject(self, entry: Entry) -> str:
        values = _values(entry, self._config.id_attribute)
        if len(values) != 1:
            raise Unavailable(f"the LDAP directory shows no {self._config.id_attribute} of users; check id_attribute")
        if self._has_binary_id:
            return str(UUID(bytes_le=values[0]))
        return values[0].decode()

    def _is_own(self, entry: Entry, who: str, user: str) -> bool:
        """Return whether an entry belongs to the user who logged in by the template; the filter could find another."""
        if "=" in who:
            return _parsed_dn(str(entry["dn"])) == _parsed_dn(who)
        return _first(entry, self._config.login_attribute).casefold() == user.casefold()

    @property
    def _has_binary_id(self) -> bool:
        return self._config.id_attribute.lower() == "objectguid"

    def _groups(self, connection: Any, entry: Entry) -> frozenset[str]:
        config = self._config
        pattern = config.group_filter or (_NESTED if config.nested_groups else "")
        if not pattern:
            names = [value.decode() for value in _values(entry, "memberOf")]
            below = config.group_base_dn or config.base_dn
            return frozenset(_common_name(name) for name in names if _is_below(name, below))
        login = _first(entry, config.login_attribute)
        found = self._search(
            connection,
            config.group_base_dn or config.base_dn,
            _fill(pattern, dn=str(entry["dn"]), user=login),
            ["cn"],
            _MOST_GROUPS,
        )
        return frozenset(name for group in found if (name := _first(group, "cn")))

    def _filter(self, user: str) -> str:
        return _fill(self._config.user_filter, user=user)

    def _one(self, connection: Any, condition: str) -> Entry | None:
        """Return the one entry that meets the condition. Two are none: which of them was meant is unknown."""
        config = self._config
        names = (config.id_attribute, config.login_attribute, config.email_attribute, config.name_attribute)
        attributes = [*dict.fromkeys((*names, "memberOf", *_STATE))]
        found = self._search(connection, config.base_dn, condition, attributes, 2)
        if len(found) > 1:
            log.warning("several entries of the LDAP directory match one user: filter=%s", ascii(condition))
        return found[0] if len(found) == 1 else None

    def _search(self, connection: Any, base: str, condition: str, attributes: Sequence[str], most: int) -> list[Entry]:
        connection.search(
            base, condition, ldap3.SUBTREE, attributes=[*attributes], size_limit=most, time_limit=_RECEIVE
        )
        code = connection.result["result"]
        if code not in (0, _TOO_LARGE):
            # Also for a base that is not there, or is hidden now: no entry of it must be taken for a user who is gone.
            raise Unavailable(
                f"the LDAP server {self._host} rejected a search below {base!r}: {connection.result['description']}"
            )
        entries = [entry for entry in connection.response or () if entry.get("type") == "searchResEntry"]
        if code == _TOO_LARGE and most == _MOST_GROUPS:
            raise Unavailable(f"the user is in more than {_MOST_GROUPS} groups; narrow group_filter or group_base_dn")
        return [{"dn": entry["dn"], "attributes": entry["raw_attributes"]} for entry in entries]

    def _searching(self) -> Any:
        """Return the connection of the account that searches; one connection serves all searches. Raises Unavailable
        also if that account is rejected, which says nothing about a user."""
        config = self._config
        for connection in self._connections:
            if connection.user == config.bind_dn and connection.bound:
                return connection
        try:
            return self._bind(config.bind_dn, config.bind_password)
        except Unauthenticated:
            raise Unavailable(
                "the LDAP directory rejects the account that searches (bind_dn), or its password"
            ) from None

    def _bind(self, dn: str, password: Secret) -> Any:
        """Return a connection that is logged in. Raises Unauthenticated, Unavailable."""
        connection = self._open(dn, password.reveal())
        connection.bind()
        code = connection.result["result"]
        if code == 0 and connection.bound:
            return connection
        if code in _REJECTED:
            raise wrong_password()
        raise Unavailable(f"the LDAP server {self._host} rejected a login: {connection.result['description']}")

    def _open(self, dn: str | None, password: str | None) -> Any:
        connection = ldap3.Connection(
            self._server,
            user=dn,
            password=password,
            authentication=ldap3.ANONYMOUS if dn is None else ldap3.SIMPLE,
            client_strategy=ldap3.SYNC,
            auto_referrals=False,
            check_names=False,
            raise_exceptions=False,
            receive_timeout=_RECEIVE,
        )
        with self._lock:
            if self._is_aborted:
                raise Unavailable(f"the LDAP server {self._host} did not answer in time")
            self._connections.append(connection)
        connection.open(read_server_info=False)
        if self._config.start_tls and not self._is_tls and not connection.start_tls(read_server_info=False):
            raise Unavailable(f"the LDAP server {self._host} did not begin TLS (StartTLS)")
        return connection


class _VerifiedTls(ldap3.Tls):  # type: ignore[misc] # has no types
    """TLS whose certificate is checked by the standard library, for the host's name alone."""

    def __init__(self, host: str, ca: str) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._host = host
        self._ca = ca

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        context = ssl.create_default_context(cadata=self._ca or None)
        connection.socket = context.wrap_socket(connection.socket, server_hostname=self._host)


def _fill(pattern: str, **values: str) -> str:
    """Return a filter with escaped values (RFC 4515)."""
    for name, value in values.items():
        # One value cannot contain another's placeholder: braces are escaped, too.
        escaped = escape_filter_chars(value).replace("{", "\\7b").replace("}", "\\7d")
        pattern = pattern.replace(f"{{{name}}}", escaped)
    return pattern


def _filled_template(template: str, user: str) -> str:
    """Return who to log in as. Raises Unauthenticated for a name that could leave its place in the template."""
    if "=" in template:
        return template.replace("{user}", escape_rdn(user))
    if any(character in user for character in '@\\/"[]:;|=,+*?<> '):
        raise wrong_password()
    return template.replace("{user}", user)


def _values(entry: Entry, attribute: str) -> list[bytes]:
    attributes = {name.lower(): values for name, values in entry["attributes"].items()}
    return [value for value in attributes.get(attribute.lower(), ()) if isinstance(value, bytes)]


def _first(entry: Entry, attribute: str) -> str:
    values = _values(entry, attribute)
    return values[0].decode("utf-8", "replace") if values else ""


def _is_disabled(entry: Entry) -> bool:
    control = _first(entry, "userAccountControl")
    locked = _first(entry, "pwdAccountLockedTime")
    return (
        (control.isdigit() and bool(int(control) & _DISABLED))
        or _first(entry, "nsAccountLock").lower() == "true"
        or locked == "000001010000Z"  # locked by an administrator (draft-behera-ldap-password-policy)
    )


def _common_name(dn: str) -> str:
    return _unescape(parse_dn(dn)[0][1])


def _unescape(value: str) -> str:
    """Return a value of a DN without its escapes (RFC 4514), which have several spellings."""
    return _ESCAPE.sub(
        lambda match: match[2] or bytes.fromhex(match[1].replace("\\", "")).decode("utf-8", "replace"), value
    )


def _parsed_dn(dn: str) -> list[tuple[str, str]]:
    return [(name.lower(), _unescape(value).lower()) for name, value, _ in parse_dn(dn)]


def _is_below(dn: str, base: str) -> bool:
    parts, suffix = _parsed_dn(dn), _parsed_dn(base)
    return len(parts) > len(suffix) and parts[len(parts) - len(suffix) :] == suffix


def _close(connection: Any) -> None:
    """Close the socket alone: an unbind could wait for a server that hangs."""
    opened = getattr(connection, "socket", None)
    if opened is not None:
        with suppress(OSError):  # not connected
            opened.shutdown(socket.SHUT_RDWR)
        opened.close()


def _why(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:300]
