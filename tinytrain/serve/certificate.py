"""A certificate of its own for ``--https``, made once: browsers warn of it once, and then give the camera."""

import ipaddress
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tinytrain.base.cache_folder import cache_folder
from tinytrain.base.extras import needed
from tinytrain.base.files import write_bytes, write_failed

DAYS, LEFT = 397, 7  # browsers refuse longer ones; it is made again when so many days are left


def certificate(addresses: tuple[str, ...], names: frozenset[str]) -> tuple[str, str]:
    """Paths of a certificate for these `addresses` and `names` of this machine, and of its key.

    Raises InputError ``package-missing``, and StorageError ``write-failed``.
    """
    with needed("cryptography", "web", "--https"):
        from cryptography import x509
    folder = cache_folder("https")
    cert, key = folder / "certificate.pem", folder / "key.pem"
    wanted = {*addresses, *names}
    if not (key.is_file() and cert.is_file() and _serves(x509, cert, wanted)):
        _make(x509, cert, key, sorted(wanted))
    return str(cert), str(key)


def _serves(x509, path: Path, wanted: set[str]) -> bool:
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_young = found.not_valid_after_utc - timedelta(days=LEFT) > datetime.now(UTC)
        return is_young and wanted <= {str(name.value) for name in names}
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False


def _make(x509, cert: Path, key: Path, wanted: list[str]) -> None:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, f"tinytrain on {socket.gethostname()}"[:64])]
    )
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
    builder = builder.not_valid_after(now + timedelta(days=DAYS - 1))
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(x509, w) for w in wanted]), False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    try:
        cert.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise write_failed(cert, error) from error
    write_bytes(key, private.private_bytes(pem, serialization.PrivateFormat.PKCS8, none), 0o600)
    write_bytes(cert, builder.sign(private, hashes.SHA256()).public_bytes(pem))


def _general(x509, wanted: str):
    try:
        return x509.IPAddress(ipaddress.ip_address(wanted))
    except ValueError:
        return x509.DNSName(wanted)
