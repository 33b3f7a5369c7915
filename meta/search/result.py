"""The result of a search as a policy: ``adapt --policy FILE.json``."""

import json
import os
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes
from tinytrain.network.network import Network
from tinytrain.policies.common import Policy
from tinytrain.policies.sparse_update import Configuration, policy

MAX_BYTES = 2**20


def searched_policy(path: str | os.PathLike) -> Policy:
    """The policy that trains what a search found; it is for the network of that search alone.

    Raises InputError ``file-damaged`` for another file; its use for another network ``backbone-mismatch``.
    """
    try:
        facts = json.loads(read_bytes(path, MAX_BYTES))
        digest, found = str(facts["digest"]), facts["found"]
        configuration = Configuration(found["biases"], {int(i): s for i, s in found["shares"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("file-damaged", f"{path} is no result of 'tinytrain search'") from error

    def find(network: Network) -> tuple[Configuration, ...]:
        if network.digest != digest:
            raise InputError(
                "backbone-mismatch",
                f"{path} was searched for another network than {network.name}; search again",
            )
        _check(path, configuration, len(network.layers))
        return (configuration,)

    return policy(Path(path).stem, find)


def _check(path, configuration: Configuration, count: int) -> None:
    fractions = configuration.shares.items()
    good = type(configuration.biases) is int and 0 <= configuration.biases <= count
    if not good or not all(0 <= i < count and type(s) in (int, float) and 0 < s <= 1 for i, s in fractions):
        raise InputError("file-damaged", f"{path} names layers or fractions that the network does not have")
