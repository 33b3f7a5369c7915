"""Where a server listens."""

import errno
import ipaddress
import socket

from tinytrain.base.errors import InputError


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens at `host` and `port` (0: a free one). Raises InputError ``system``."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        remedy = "end the program that uses it, or give another --port" if taken else "give another --host"
        raise InputError("system", f"port {port} of {host} cannot be used ({why}); {remedy}") from error


def is_loopback(host: str) -> bool:
    """Whether who listens at `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
