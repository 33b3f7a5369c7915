"""Keys in files, and signatures (Ed25519) beside what they sign: they say whose a file is.

A private key is PEM (PKCS #8) that its owner alone may read, a public one PEM; several of these may stand one
after another in a file. The signature of FILE is 64 bytes in FILE.sig, of its bytes as they are, so that
``openssl pkeyutl -verify -pubin -inkey owner.key.pub -rawin -in FILE -sigfile FILE.sig`` can check it, too.
"""

import contextlib
import hashlib
import os
import re

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.extras import needed
from tinytrain.base.files import read_bytes, write_bytes

PUBLIC, SIGNATURE = ".pub", ".sig"  # what is added to the name of a private key, and of what is signed
MOST, LARGEST = 2**16, 2**31  # bytes of a file of keys, and of what is signed
PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.S)


def crypto():
    """Modules of `cryptography`: (ed25519, x25519, serialization). Raises InputError ``package-missing``."""
    with needed("cryptography", "keys", "a key"):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
    return ed25519, x25519, serialization


def write_secret(path: str | os.PathLike, data: bytes) -> None:
    """Write a new file that its owner alone may read. Raises StorageError if there is one of this name."""
    _check_new(path)
    write_bytes(path, data, 0o600)


def _check_new(path: str | os.PathLike) -> None:
    if os.path.lexists(path):
        text = f"{path} is there already, and keys are not replaced; name another"
        raise StorageError("write-failed", text)


def make_key(path: str | os.PathLike) -> str:
    """Make a key to sign with, and its public one in ``PATH.pub``; returns what it is called.

    Raises StorageError if one of them is there already, or cannot be written.
    """
    ed25519, _, serialization = crypto()
    key = ed25519.Ed25519PrivateKey.generate()
    how = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    _check_new(f"{path}{PUBLIC}")
    write_secret(path, key.private_bytes(*how))
    public = _pem(key.public_key())
    write_bytes(f"{path}{PUBLIC}", public)
    return called(public)


def _pem(public) -> bytes:
    _, _, serialization = crypto()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def called(public: bytes) -> str:
    """A name for a public key in PEM, 16 hexadecimal digits."""
    return hashlib.sha256(b"".join(public.split())).hexdigest()[:16]


def sign(path: str | os.PathLike, key: str | os.PathLike) -> str:
    """Write the signature of the file `path` with a private `key` beside it; returns what the key is called.

    Raises InputError for a file that is no such key, and StorageError.
    """
    private = private_key(key)
    write_bytes(f"{path}{SIGNATURE}", private.sign(read_bytes(path, LARGEST)))
    return called(_pem(private.public_key()))


def private_key(path: str | os.PathLike):
    """The key of a file, whose ``sign(data)`` is a signature. Raises InputError for one without any."""
    return _loaded(path, read_bytes(path, MOST), "private")


def read_signed(path: str | os.PathLike, limit: int, keys: str | os.PathLike | None) -> bytes:
    """The content of `path` of at most `limit` bytes, which one of `keys`, if they are given, has signed.

    Raises InputError as `read_bytes` and `check_signed`.
    """
    data = read_bytes(path, limit)
    if keys is not None:
        check_signed(path, data, keys)
    return data


def check_signed(path: str | os.PathLike, data: bytes, keys: str | os.PathLike) -> str:
    """What the key is called that signed `data`, the content of `path`; `keys` is a file of public ones.

    Raises InputError: ``file-missing`` without a signature, ``file-damaged`` if it is of none of `keys`.
    """
    known, place = public_keys(keys), f"{path}{SIGNATURE}"
    if not os.path.exists(place):
        text = f"{path} is not signed: {place} does not exist; get both from its maker"
        raise InputError("file-missing", text)
    if name := signer(read_bytes(place, MOST), data, known):
        return name
    text = f"{place} is of no key in {keys}, or {path} was changed since"
    raise InputError("file-damaged", f"{text}; get both from somebody whose key is there")


def signer(signature: bytes, data: bytes, known: dict) -> str | None:
    """What the key is called that signed `data`, of those `known` (`public_keys`); None for another one."""
    from cryptography.exceptions import InvalidSignature

    for name, key in known.items():
        with contextlib.suppress(InvalidSignature):
            key.verify(signature, data)
            return name
    return None


def public_keys(path: str | os.PathLike) -> dict:
    """The keys of a file by what they are called. Raises InputError for one without any."""
    found = PEM.findall(read_bytes(path, MOST)) or [b""]
    return {called(pem): _loaded(path, pem, "public") for pem in found}


def _loaded(path: str | os.PathLike, pem: bytes, which: str):
    """The private or public key that `pem` in `path` is. Raises InputError if it is none."""
    ed25519, _, serialization = crypto()
    from cryptography.exceptions import UnsupportedAlgorithm

    kinds = {"private": ed25519.Ed25519PrivateKey, "public": ed25519.Ed25519PublicKey}
    more, key = ([None] if which == "private" else []), None  # no password
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = getattr(serialization, f"load_pem_{which}_key")(pem, *more)
    if not isinstance(key, kinds[which]):
        remedy = "'tinytrain sign --new-key NAME' makes NAME, which signs, and NAME.pub, which checks"
        raise InputError("file-kind", f"{path} holds no {which} key (Ed25519, PEM); {remedy}")
    return key
