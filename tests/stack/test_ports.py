"""A free port stays free for whoever asked for it."""

import socket
import sys

import pytest

from stack.ports import LOOPBACK, free_port, listening


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can listen beside a holder")
def test_a_found_port_is_kept_from_others_until_its_server_listens() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((LOOPBACK, port))
    assert not listening(port)
    with socket.create_server((LOOPBACK, port)):
        assert listening(port)
