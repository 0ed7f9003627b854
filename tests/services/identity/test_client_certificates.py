"""Client certificates: the authority, what a certificate says, and to which credential it belongs."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.support.world import MACHINE, World

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal
from postern.domain.server import Endpoint, Listener
from postern.domain.targets.connection import ConnectionType
from postern.errors import Invalid, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.client_certificates import CertifiedClient
from postern.services.server.machine_facts import MachineFacts


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dba")


def services_of(world: World, machine: MachineFacts = MACHINE) -> Services:
    services = world.services(machine)
    services.credentials._enforceable |= {"tcp"}
    return services


@pytest.fixture
def services(world: World) -> Services:
    return services_of(world)


async def issue(world: World, services: Services, principal: Principal) -> Issued:
    await world.add_connection("cache", type=ConnectionType.APPLICATION, subtype="tcp")
    return await services.credentials.issue(principal, "cache", 3600)


def parsed(issued: Issued) -> x509.Certificate:
    assert issued.certificate is not None
    return x509.load_pem_x509_certificate(issued.certificate.pem.encode())


def client_of(issued: Issued) -> CertifiedClient:
    return CertifiedClient.read(parsed(issued).public_bytes(serialization.Encoding.DER))


async def test_certificate_says_whose_credential_it_is_and_how_long(
    world: World, services: Services, ann: Principal
) -> None:
    issued = await issue(world, services, ann)
    certificate, credential = parsed(issued), issued.credential
    names = [name.value for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    assert names == [credential.username]
    assert certificate.serial_number == credential.id.int
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert (usage.critical, list(usage.value)) == (True, [ExtendedKeyUsageOID.CLIENT_AUTH])
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.not_valid_before_utc <= credential.created_at
    assert credential.expires_at is not None
    assert timedelta(0) <= certificate.not_valid_after_utc - credential.expires_at <= timedelta(seconds=1)
    assert issued.certificate is not None
    key = serialization.load_pem_private_key(issued.certificate.key.reveal().encode(), None)
    encoded = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert key.public_key().public_bytes(*encoded) == certificate.public_key().public_bytes(*encoded)
    assert issued.password.reveal() == ""
    assert issued.certificate.key.reveal() not in repr(issued)


async def test_authority_is_the_same_in_every_process(world: World, services: Services, ann: Principal) -> None:
    issued = await issue(world, services, ann)
    other = services_of(world)
    authorities = [
        x509.load_pem_x509_certificate((await each.client_certificates.authority_pem()).encode())
        for each in (services, other)
    ]
    for authority in authorities:
        parsed(issued).verify_directly_issued_by(authority)
    assert authorities[0].public_key() == authorities[1].public_key()
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(
        cadata=await other.client_certificates.authority_pem()
    )


async def test_certificate_belongs_to_one_credential(world: World, services: Services, ann: Principal) -> None:
    issued = await issue(world, services, ann)
    client = client_of(issued)
    grant = await services.access.find_grant(client.username)
    assert client.require_grant(grant) is grant
    with pytest.raises(Unauthenticated, match="is not that of a credential"):
        client.require_grant(None)
    assert grant is not None
    later = await services.credentials.issue(ann, "cache", 3600)
    recreated = replace(grant, credential_id=later.credential.id)
    with pytest.raises(Unauthenticated, match="is not that of a credential"):
        client.require_grant(recreated)


async def test_what_is_no_certificate_is_rejected() -> None:
    with pytest.raises(Unauthenticated, match="cannot be read"):
        CertifiedClient.read(b"0\x03\x02\x01")


@pytest.mark.parametrize("listener", [None, Listener(False, Endpoint("127.0.0.1", 0))])
async def test_no_credential_is_issued_while_nothing_listens(
    world: World, ann: Principal, listener: Listener | None
) -> None:
    listeners = {name: each for name, each in MACHINE.config.listeners.items() if name != "tcp"}
    listeners |= {} if listener is None else {"tcp": listener}
    services = services_of(world, replace(MACHINE, config=replace(MACHINE.config, listeners=listeners)))
    with pytest.raises(Invalid, match="sets POSTERN_TCP_PORT; or use `postern connect cache`"):
        await issue(world, services, ann)


async def test_machine_identity_gets_a_certificate(world: World, services: Services) -> None:
    await world.add_connection("cache", type=ConnectionType.APPLICATION, subtype="tcp")
    admin = await world.add_user("root", "admin")
    made = await services.machines.create(admin, {"name": "billing", "connection_names": ("cache",)})
    rotated = await services.machines.rotate(admin, "billing", "cache", overlap=0, seconds=None)
    for issued in (*made.issued, rotated):
        assert client_of(issued).username == issued.credential.username
