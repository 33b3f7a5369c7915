"""Where a server listens."""

import errno
import ipaddress
import socket

from tinytrain.base.errors import InputError


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens at `host` and `port` (0: a free one). Raises InputError ``system``."""
    other = "give another --port"
    remedies = {errno.EADDRINUSE: f"end the program that uses it, or {other}", errno.EACCES: other}
    try:
        if not 0 <= port < 2**16:  # before there is a socket, which nobody would close
            raise OSError(errno.EACCES, "a port is a number below 65536")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        remedy = remedies.get(error.errno, "give another --host")
        text = f"port {port} of {host} cannot be used ({error.strerror}); {remedy}"
        raise InputError("system", text) from error


def is_loopback(host: str) -> bool:
    """Whether who listens at `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
