"""TNS packets, the packets that open a connection, and connect descriptors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import oracledb_test_messages as om

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.login import tns_connects as connects
from postern.protocols.oracledb.wire import tns_descriptors as descriptors
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire.tns_descriptors import DescriptorNode


def read_all(data: bytes, chunk: int, *, large: bool = True) -> list[tuple[int, int, bytes]]:
    reader = tns.TnsReader("client", large, 8192)
    packets = []
    for start in range(0, len(data), chunk):
        reader.feed(data[start : start + chunk])
        while (packet := reader.read()) is not None:
            packets.append((packet.type, packet.data_flags, packet.body))
    return packets


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 400))
def test_packets_do_not_depend_on_how_reads_cut_them(bodies: list[bytes], chunk: int) -> None:
    stream = b"".join([om.data(body) + om.marker(1) for body in bodies])
    expected = [packet for body in bodies for packet in ((tns.DATA, 0, body), (tns.MARKER, 0, b"\1\0\1"))]
    assert read_all(stream, chunk) == expected


@given(st.binary(max_size=3000), st.integers(512, 1000))
def test_data_is_cut_into_packets_that_fit(data: bytes, sdu: int) -> None:
    packets = tns.data_packets(data, sdu)
    bodies = read_all(packets, 8192)
    assert b"".join([body for _, _, body in bodies]) == data
    assert all(len(body) + tns.DATA_HEAD <= sdu for _, _, body in bodies)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n", id="another protocol"),
        pytest.param(bytes(8), id="no length"),
        pytest.param((8193).to_bytes(4, "big") + b"\6\0\0\0", id="larger than allowed"),
        pytest.param((9).to_bytes(4, "big") + b"\6\0\0\0\0", id="data without flags"),
    ],
)
def test_garbage_is_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        read_all(data, 64)


@pytest.mark.parametrize(
    ("body", "kind"), [(b"\1\0\1", 1), (b"\1\0\2", 2), (b"\1\0\3", 3), (b"\0\0\0", 1), (b"\1\0", 0), (b"\2\0\1", 0)]
)
def test_kinds_of_markers(body: bytes, kind: int) -> None:
    assert tns.TnsPacket(tns.MARKER, 0, body).marker == kind


DESCRIPTOR = b"(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=orders)(CID=(PROGRAM=py)(HOST=h)(USER=ada)))(ADDRESS=(PORT=1)))"


@pytest.mark.parametrize("size", [0, 300], ids=["short", "long"])
def test_a_connect_is_read_as_it_was_made(size: int) -> None:
    descriptor = DESCRIPTOR[:-1] + b"(X=" + b"y" * size + b"))"
    packets = read_all(connects.connect(descriptor, 8192), 8192, large=False)
    parsed = connects.parse_connect(packets[0][2])
    assert (parsed.version, parsed.sdu, parsed.length) == (317, 8192, len(descriptor))
    assert (parsed.descriptor or packets[1][2]) == descriptor
    assert descriptors.connect_names(descriptors.parse_descriptor(descriptor)).service == "orders"


def test_an_accept_is_read_as_it_was_made() -> None:
    (packet,) = read_all(connects.accept(4096), 64, large=False)
    assert connects.parse_accept(packet[2]) == connects.TnsAccept(317, 4096, encryption_required=False)
    required = packet[2][:14] + b"\x10" + packet[2][15:]
    assert connects.parse_accept(required).encryption_required


def test_a_refusal_has_the_number_that_clients_look_for() -> None:
    (packet,) = read_all(
        connects.refuse(descriptors.refusal_descriptor(12514, "no (such) connection")), 64, large=False
    )
    reason = connects.parse_refuse(packet[2])
    assert b"(ERR=12514)" in reason
    assert descriptors.refusal_code(reason) == 12514


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"(ADDRESS=(PROTOCOL=tcp)(HOST=db2)(PORT=1522))", ("db2", 1522, False, b"")),
        (b"(DESCRIPTION=(ADDRESS=(HOST=h)(PORT=1)))\0(DESCRIPTION=(A=b))", ("h", 1, False, b"(DESCRIPTION=(A=b))")),
        (b"(ADDRESS=(PROTOCOL=tcps)(HOST=h)(PORT=2484))", ("h", 2484, True, b"")),
        (b"(ADDRESS=(PROTOCOL=tcp)(HOST=db2))", None),
        (b"(ADDRESS=(HOST=db2)(PORT=x))", None),
        (b"nonsense", None),
    ],
)
def test_redirects(data: bytes, expected: tuple[str, int, bool, bytes] | None) -> None:
    if expected is None:
        with pytest.raises(ProtocolViolation):
            descriptors.parse_redirect(data)
        return
    address = descriptors.parse_redirect(data)
    assert (address.host, address.port, address.encrypted, address.connect_data) == expected


NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)
NODES = st.recursive(
    st.builds(DescriptorNode, NAMES, st.text(max_size=20).map(str.strip)),
    lambda inner: st.builds(
        lambda name, nodes: DescriptorNode(name, children=tuple(nodes)), NAMES, st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


@given(NODES)
def test_descriptors_are_read_as_they_were_made(node: DescriptorNode) -> None:
    encoded = node.encode().encode()
    if b"\0" not in encoded:
        assert descriptors.parse_descriptor(encoded) == node


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(A=b",
        "(A=b))",
        "(=b)",
        "(A b)",
        "(A=(B=c)x)",
        "(A=" * 40 + "b" + ")" * 40,
        "(DESCRIPTION=" + "(A=b)" * 600 + ")",
        "(A=" + "b" * 20_000 + ")",
    ],
)
def test_attack_malformed_descriptors_are_a_violation(text: str) -> None:
    with pytest.raises(ProtocolViolation):
        descriptors.parse_descriptor(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=a)(SERVICE_NAME=b)))",
        "(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=a)(SID=b)))",
        "(DESCRIPTION=(ADDRESS=(HOST=a)))",
        "(OTHER=(CONNECT_DATA=(SERVICE_NAME=a)))",
    ],
)
def test_attack_ambiguous_names_are_a_violation(text: str) -> None:
    with pytest.raises(ProtocolViolation):
        descriptors.connect_names(descriptors.parse_descriptor(text.encode()))
