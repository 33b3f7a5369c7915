"""What the emulated Pi did against what this machine did: ``compare.py FOLDER``, exit code 1 if they differ.

FOLDER holds ``cold.npz``, ``warm.npz`` and ``host.npz`` of `job.py`, ``older.npz`` of this machine with the
kernels of an older processor, ``portable.npz`` and ``portable_host.npz`` of both with portable ones, and the
numbers of instructions in ``cold``, ``warm`` and ``start`` (a process that only loads the kernels).

Two processors add in different orders, and Adam turns the last bit of a small gradient into a whole step. So
trained parameters are held against what rounding alone makes of them: this machine against itself as an older
one. With portable kernels, which add in one order, all of a result has to be the same.
"""

import sys
from pathlib import Path

import numpy as np

PREDICTIONS = 0.999  # least fraction of equal predictions
FIRST_LOSS = 1e-4  # most difference of the loss before anything is trained
WEIGHTS, TIMES = 1e-4, 2.0  # most difference of a trained number: this, or so many times what rounding makes
CLOCK = 1e9  # of a Raspberry Pi Zero 2 W
PER_CYCLE = (0.5, 0.8)  # instructions: assumed, no board was measured


def trained(result) -> list[str]:
    """Names of the trained arrays in a result."""
    return [name for name in result.files if name.partition(".")[0].isdigit()]


def largest_difference(a, b) -> float:
    """Largest absolute difference of the trained parameters; infinite if others were trained."""
    if trained(a) != trained(b) or any(a[name].shape != b[name].shape for name in trained(a)):
        return float("inf")
    return max(float(np.abs(a[name] - b[name]).max()) for name in trained(a))


def other_channels(a, b) -> int:
    """How many trained channels one result has and the other has not."""
    chosen = [
        {(name, int(c)) for name in result.files if name.startswith("channels of ") for c in result[name]}
        for result in (a, b)
    ]
    return len(chosen[0] ^ chosen[1])


def unlike_arrays(a, b) -> list[str]:
    """Names of the arrays that only one result has, or of which any bit differs."""

    def content(result, name):
        return (result[name].shape, result[name].tobytes()) if name in result.files else None

    return [name for name in sorted({*a.files, *b.files}) if content(a, name) != content(b, name)]


def same_bits(what: str, a, b) -> bool:
    """Whether all arrays are the same; printed, with how far they are apart."""
    others = unlike_arrays(a, b)
    told = f"the same bits in {len(a.files)} arrays"
    if others:
        told = f"DIFFERENT in {', '.join(others)}, by {largest_difference(a, b):.2e}"
        told += f", {other_channels(a, b)} channels"
    print(f"{what}: {told}; {parting(a, b)}; kernels {a['backend']}")
    return not others


def parting(a, b) -> str:
    """From which training step on the losses differ: where two runs that should be one part."""
    apart = np.flatnonzero(a["losses"] != b["losses"])
    if not len(apart):
        return "losses are equal in all steps"
    k = apart[0]
    return f"losses differ from step {k + 1} on, there by {abs(a['losses'][k] - b['losses'][k]):.1e}"


def compare(pi, host) -> tuple[float, float]:
    """Share of equal predictions before and after training, largest difference of a trained number."""
    both = [(pi[name], host[name]) for name in ("before", "after")]
    equal = np.concatenate([a == b for a, b in both]).mean()
    return float(equal), largest_difference(pi, host)


def main(folder: Path) -> int:
    names = ("cold", "warm", "host", "older", "portable", "portable_host")
    cold, warm, host, older, portable, portable_host = (np.load(folder / f"{name}.npz") for name in names)
    equal, apart = compare(warm, host)
    rounding, first = largest_difference(older, host), float(abs(warm["losses"][0] - host["losses"][0]))
    count = len(host["labels"])
    print(f"{equal:.2%} of 2 x {count} predictions are equal (at least {PREDICTIONS:.1%})")
    print(f"losses before the first step differ by {first:.1e} (at most {FIRST_LOSS:g})")
    print(
        f"trained numbers differ by {apart:.2e} at most; by rounding alone, of this machine with the kernels"
        f" of an older processor, {rounding:.2e} (at most {TIMES:g} times as much, or {WEIGHTS:g})"
    )
    print(f"channels trained by one side alone: {other_channels(warm, host)}; {parting(warm, host)}")
    exact = same_bits("with portable kernels", portable, portable_host)
    same = same_bits("cold and warm", cold, warm)
    for name in ("start", "cold", "warm"):
        instructions = int((folder / name).read_text())
        low, high = (instructions / CLOCK / rate for rate in reversed(PER_CYCLE))
        print(
            f"{name:<6}{instructions:>16,} instructions: {low:.0f} to {high:.0f} s at 1 GHz and an assumed"
            f" {PER_CYCLE[0]} to {PER_CYCLE[1]} per cycle (uncalibrated)"
        )
    close = first <= FIRST_LOSS and np.isfinite(rounding) and apart <= max(WEIGHTS, TIMES * rounding)
    kernels = (str(warm["backend"]), str(portable["backend"])) == ("numba", "portable")
    good = equal >= PREDICTIONS and close and exact and same and kernels
    print("the emulated Pi agrees with this machine" if good else "FAILED: the emulated Pi does not agree")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
