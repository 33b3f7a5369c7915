"""Policies and heads of a user, named as ``FILE.py:NAME``. The file is executed, as an import would do.

Names come from a command line or a matrix, never from a delta, a plan or a log.
"""

import hashlib
import importlib.util
import re
import sys
from functools import lru_cache
from pathlib import Path

from tinytrain.base.errors import InputError, UsageError, one_line
from tinytrain.base.files import read_bytes
from tinytrain.heads.head import HeadMethod
from tinytrain.heads.registry import HEADS, find_head
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy

OWN = re.compile(r"([^+@]+\.py):(\w+)(?:@([0-9a-f]{16}))?")
MOST_BYTES = 2**20


def given_policy(text: str) -> Policy:
    """The policy ``NAME`` or ``FILE.py:NAME``, with the head after a ``+``, named in the same way.

    Raises UsageError ``unknown-name``, and InputError for a file that is missing, that cannot be executed, or
    that has changed.
    """
    name, plus, head = text.partition("+")
    policy = _own(name, Policy) if OWN.fullmatch(name) else find_policy(name)
    return policy.with_head(given_head(head)) if plus else policy


def given_head(text: str) -> str:
    """The name of the head ``NAME`` or ``FILE.py:NAME``, which this process knows from then on."""
    if not OWN.fullmatch(text):
        return find_head(text).name
    method = _own(text, HeadMethod)
    if HEADS.setdefault(method.name, method) is not method:
        raise InputError(
            "bad-value", f"{text}: another head is called {method.name!r}; give it a name of its own"
        )
    return method.name


def pinned(text: str) -> str:
    """`text` with the digest of each file that it names: what ran with another content is another policy."""
    return OWN.sub(lambda match: f"{match[1]}:{match[2]}@{_digest(_content(match[1]))}", text)


def _own(text: str, kind: type):
    path, name, digest = OWN.fullmatch(text).groups()
    content = _content(path)
    if digest not in (None, _digest(content)):
        raise InputError("run-mismatch", f"{path} has changed since the run began; start it again")
    try:
        found = getattr(_module(path, content), name, None)
    except Exception as error:
        words = f"{path} cannot be executed ({one_line(f'{type(error).__name__}: {error}', 200)}); mend it"
        raise InputError("bad-value", words) from error
    if not isinstance(found, kind):
        other = "" if found is None else f", which is of type {type(found).__name__}"
        raise UsageError("unknown-name", f"{path} has no {kind.__name__} called {name}{other}; name one")
    return found


@lru_cache
def _module(path: str, content: bytes):
    """The module in file `path`, executed once in a process."""
    name = f"tinytrain_own_{_digest(content)}"
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
    sys.modules[name] = module  # dataclasses look for it
    exec(compile(content, path, "exec"), vars(module))
    return module


def _content(path: str) -> bytes:
    return read_bytes(Path(path), MOST_BYTES)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
