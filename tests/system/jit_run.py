"""What a process computes with the kernels it has: run by test_jitcache_runs, prints one JSON object.

``adapt``: a toy adaptation that passes through most kernels. ``few``: two kernels only, quick to compile.
``denied``: the same two; before the second, the process gives up making memory executable.
"""

import ctypes
import hashlib
import json
import sys

import numpy as np

from tinytrain import kernels


def deny() -> None:
    """What MemoryDenyWriteExecute=yes of systemd does."""
    assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN


def denied() -> list[np.ndarray]:
    return few(deny)


def few(between=lambda: None) -> list[np.ndarray]:
    table, values = kernels.load(), np.linspace(-1, 9, 48, dtype=np.float32).reshape(6, 8)
    kernels_with_code = [k for k in vars(table).values() if getattr(k, "compiled", None)]
    assert not any(k.compiled.signatures for k in kernels_with_code), "nothing compiles at import"
    table.add_bias_relu6(values, np.linspace(0, 1, 8, dtype=np.float32))
    between()
    table.normalize_rows(values)
    return [values]


def adapt() -> list[np.ndarray]:
    import tinytrain
    from tinytrain.pipeline import toy
    from tinytrain.pipeline.warmup import RUNS, _policy

    network, episode = toy.toy_network(), toy.toy_episode(way=2, shots=2, queries=1)
    device = tinytrain.Device(threads=1)
    report = tinytrain.adapt(
        network, episode, tinytrain.Budget(memory=2**24), _policy(*RUNS[1]), 0, device, force=True
    )
    return [*(piece.values for piece in report.delta.slices), report.delta.head.weights]


if __name__ == "__main__":
    arrays = {"few": few, "adapt": adapt, "denied": denied}[sys.argv[1]]()
    digest = hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()
    numbers = np.concatenate([a.reshape(-1) for a in arrays]).astype(float).tolist()
    backend = kernels.load().backend
    print(json.dumps({"digest": digest, "numbers": numbers, "backend": backend}))
