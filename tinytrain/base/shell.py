"""Command lines for people to copy."""

import os
import shlex


def quoted(word: str) -> str:
    """`word` as bash and zsh read it; printable, also if it has control characters or is no UTF-8.

    >>> quoted("net.safetensors"), quoted("my photos"), quoted("bell\\a")
    ('net.safetensors', "'my photos'", "$'bell\\\\x07'")
    """
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(letter: str) -> str:
    if letter.isprintable() and letter not in "'\\":
        return letter
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))
