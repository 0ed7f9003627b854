"""OpenLDAP's server from Debian, as a normal user on free ports, with a small directory and a test CA."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ldap3
import pytest
from tests.support.certificates import issue
from tests.support.postgres import free_port

from postern.domain.identity.auth_config import ACTIVE_DIRECTORY, LdapConfig
from postern.domain.secret import Secret

BASE = "dc=example,dc=com"
ADMIN, ADMIN_PASSWORD = f"cn=admin,{BASE}", "of the admin"
READER, READER_PASSWORD = f"cn=postern,{BASE}", "of the reader (1)"
PASSWORD = "s3cret of ann"
NEEDED = pytest.mark.skipif(
    shutil.which("slapd", path="/usr/sbin:/usr/bin") is None and os.environ.get("CI") != "true",
    reason="needs slapd: scripts/install-services slapd",
)
_SCHEMAS = Path("/etc/ldap/schema")

# Attributes of Active Directory, with its identifiers (MS-ADA1, MS-ADA3).
_AD_SCHEMA = """
attributetype ( 1.2.840.113556.1.4.221 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.656 NAME 'userPrincipalName' EQUALITY caseIgnoreMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.2 NAME 'objectGUID' EQUALITY octetStringMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.8 NAME 'userAccountControl' EQUALITY integerMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
attributetype ( 1.2.840.113556.1.4.782 NAME 'objectCategory' EQUALITY caseIgnoreMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
objectclass ( 1.2.840.113556.1.5.9 NAME 'user' SUP inetOrgPerson STRUCTURAL
  MAY ( sAMAccountName $ userPrincipalName $ objectGUID $ userAccountControl $ objectCategory ) )
"""

_ENTRIES = f"""
dn: {BASE}
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: postern
userPassword: {READER_PASSWORD}

dn: ou=people,{BASE}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{BASE}
objectClass: organizationalUnit
ou: groups

dn: ou=elsewhere,{BASE}
objectClass: organizationalUnit
ou: elsewhere

dn: uid=ann,ou=people,{BASE}
objectClass: inetOrgPerson
uid: ann
cn: Ann Doe
sn: Doe
mail: ann@example.com
userPassword: {PASSWORD}

dn: uid=bob,ou=people,{BASE}
objectClass: inetOrgPerson
uid: bob
cn: Bob (the "*" one)
sn: Doe
mail: bob@example.com
userPassword: of bob

dn: uid=smith\\2C jr,ou=people,{BASE}
objectClass: inetOrgPerson
uid: smith, jr
cn: Smith
sn: Smith
mail: smith@example.com
userPassword: of smith

dn: uid=nomail,ou=people,{BASE}
objectClass: inetOrgPerson
uid: nomail
cn: No Mail
sn: Mail
userPassword: of nomail

dn: uid=twin,ou=people,{BASE}
objectClass: inetOrgPerson
uid: twin
cn: Twin
sn: Twin
userPassword: of twin

dn: uid=twin,ou=elsewhere,{BASE}
objectClass: inetOrgPerson
uid: twin
cn: Twin
sn: Twin
userPassword: of twin

dn: cn=Carol,ou=people,{BASE}
objectClass: user
cn: Carol
sn: Roe
displayName: Carol Roe
mail: carol@example.com
sAMAccountName: carol
userPrincipalName: carol@corp.example
objectCategory: person
objectGUID:: {base64.b64encode(bytes(range(240, 256))).decode()}
userAccountControl: 512
userPassword: of carol

dn: cn=dba,ou=groups,{BASE}
objectClass: groupOfNames
cn: dba
member: uid=ann,ou=people,{BASE}
member: cn=Carol,ou=people,{BASE}

dn: cn=a \\2B b,ou=groups,{BASE}
objectClass: groupOfNames
cn: a + b
member: uid=ann,ou=people,{BASE}

dn: cn=admin,ou=elsewhere,{BASE}
objectClass: groupOfNames
cn: admin
member: uid=ann,ou=people,{BASE}

dn: cn=unix,ou=groups,{BASE}
objectClass: posixGroup
cn: unix
gidNumber: 1000
memberUid: ann
"""


@dataclass
class Directory:
    """A running server. `ca` is the PEM text of the authority of its certificate, which is for localhost."""

    folder: Path
    port: int
    tls_port: int
    ca: str

    def config(self, **changes: Any) -> LdapConfig:
        values: dict[str, Any] = {
            "urls": (f"ldaps://localhost:{self.tls_port}",),
            "base_dn": BASE,
            "bind_dn": READER,
            "bind_password": Secret(READER_PASSWORD),
            "ca": self.ca,
            "group_base_dn": f"ou=groups,{BASE}",
            "group_filter": "(member={dn})",
        }
        return LdapConfig(**{**values, **changes})

    def like_active_directory(self, **changes: Any) -> LdapConfig:
        return self.config(**{**ACTIVE_DIRECTORY, **changes})

    @contextmanager
    def admin(self) -> Iterator[Any]:
        server = ldap3.Server("127.0.0.1", self.port, get_info=ldap3.NONE)
        with ldap3.Connection(server, ADMIN, ADMIN_PASSWORD, auto_bind=True, raise_exceptions=True) as connection:
            yield connection

    def set_attribute(self, dn: str, name: str, *values: str) -> None:
        with self.admin() as connection:
            connection.modify(dn, {name: [(ldap3.MODIFY_REPLACE, [*values])]})


@contextmanager
def running_slapd(folder: Path) -> Iterator[Directory]:
    """Serve until the end of the block."""
    certificate = issue("localhost")
    for name, content in (("cert.pem", certificate.certificate), ("key.pem", certificate.key)):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    (folder / "data").mkdir()
    (folder / "ad.schema").write_text(_AD_SCHEMA)
    (folder / "entries.ldif").write_text(_ENTRIES)
    config = folder / "slapd.conf"
    config.write_text(_config(folder))
    subprocess.run(
        ["/usr/sbin/slapadd", "-q", "-f", str(config), "-l", str(folder / "entries.ldif")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    directory = Directory(folder, free_port(), free_port(), certificate.authority)
    urls = f"ldap://127.0.0.1:{directory.port} ldaps://127.0.0.1:{directory.tls_port}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["/usr/sbin/slapd", "-d", "0", "-f", str(config), "-h", urls], stdout=log, stderr=log
        )
    try:
        _wait_until_listening(directory, process)
        yield directory
    finally:
        process.terminate()
        process.wait(30)


def _config(folder: Path) -> str:
    schemas = [_SCHEMAS / f"{name}.schema" for name in ("core", "cosine", "nis", "inetorgperson")]
    return "\n".join(
        (
            *(f"include {schema}" for schema in (*schemas, folder / "ad.schema")),
            "modulepath /usr/lib/ldap",
            "moduleload back_mdb",
            "moduleload memberof",
            f"pidfile {folder}/slapd.pid",
            f"TLSCertificateFile {folder}/cert.pem",
            f"TLSCertificateKeyFile {folder}/key.pem",
            "sizelimit 500",
            "database mdb",
            f"directory {folder}/data",
            f"suffix {BASE}",
            f"rootdn {ADMIN}",
            f"rootpw {{CLEARTEXT}}{ADMIN_PASSWORD}" if " " not in ADMIN_PASSWORD else f'rootpw "{ADMIN_PASSWORD}"',
            "access to attrs=userPassword by anonymous auth by * none",
            f'access to * by dn.exact="{READER}" read by self read by users search by * none',
            "overlay memberof",
            "",
        )
    )


def _wait_until_listening(directory: Directory, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", directory.tls_port), 1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"slapd does not listen:\n{(directory.folder / 'log').read_text()}") from None
            time.sleep(0.02)
