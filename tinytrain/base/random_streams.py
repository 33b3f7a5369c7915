"""Random generators with names: the same seed and names give the same stream in every process."""

import hashlib
import json

import numpy as np

# In annotations `np.random` stands in quotes: numpy loads it, from a dozen files, when it is first named. A
# prediction never names it.


def rng_for(seed: int, *names: str | int) -> "np.random.Generator":
    """The generator for one purpose, for example ``rng_for(7, "episode", "gtsrb", 12)``.

    Streams of different names are independent of each other and of the order of the calls: more draws
    from one never change another.

    >>> rng_for(7, "a").random() == rng_for(7, "a").random()
    True
    """
    # JSON distinguishes 1 from "1" and ("a", "b") from ("ab",). Python's hash differs between processes.
    key = json.dumps([int(seed), *(n if isinstance(n, str) else int(n) for n in names)])
    words = np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
