"""Loopback ports: which ones the stack uses, and whether they are free."""

import socket
import sys
from collections import deque

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from stack.errors import StackError

LOOPBACK = "127.0.0.1"
PREFIX = "COUNTERFOIL_"
_kept: deque[socket.socket] = deque(maxlen=100)


class PortTaken(StackError):
    """Somebody else listens on a port of ours. Permitted next action: stop them, or change `setting_name`."""

    exit_code = 2

    def __init__(self, port: int, setting_name: str) -> None:
        super().__init__(f"port {port} is taken by another program; stop it or set {setting_name} to a free port")
        self.port = port
        self.setting_name = setting_name


class Ports(BaseSettings):
    """Every port of the stack, each a setting `COUNTERFOIL_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    postgres_port: int = Field(default=15432, ge=1, le=65535)
    temporal_port: int = Field(default=7233, ge=1, le=65535)
    temporal_ui_port: int = Field(default=8233, ge=1, le=65535)
    sandbox_port: int = Field(default=8600, ge=1, le=65535)
    gateway_port: int = Field(default=8500, ge=1, le=65535)

    @classmethod
    def free(cls) -> "Ports":
        """Ports that nobody uses now, for tests and the demo."""
        return cls.model_validate(dict(zip(cls.model_fields, free_ports(len(cls.model_fields)), strict=True)))

    def require_free(self) -> None:
        """Raises PortTaken for the first port that somebody listens on."""
        for field, port in self.model_dump().items():
            require_free(port, setting_name(field))


def setting_name(field: str) -> str:
    return (PREFIX + field).upper()


def require_free(port: int, setting: str) -> None:
    try:
        _bound(port).close()
    except OSError as error:
        raise PortTaken(port, setting) from error


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Distinct free ports, which for a while nobody else is given as free either."""
    held = [_bound(0) for _ in range(count)]
    try:
        return [int(each.getsockname()[1]) for each in held]
    finally:
        for each in held:
            _let_go(each)


def _let_go(holder: socket.socket) -> None:
    """Linux lets a server listen beside a socket that only holds the port; elsewhere the holder has to go first."""
    if sys.platform != "linux":
        return holder.close()
    if len(_kept) == _kept.maxlen:
        _kept.popleft().close()
    _kept.append(holder)


def listening(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _bound(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As every server does, so that connections of an earlier run in TIME_WAIT do not look like a server.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError:
        listener.close()
        raise
    return listener
