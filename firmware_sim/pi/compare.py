"""What the emulated Pi did against what this machine did: ``compare.py FOLDER``, exit code 1 if they differ.

FOLDER holds ``cold.npz``, ``warm.npz`` and ``host.npz`` of `job.py`, all of which has to be the same, and the
numbers of instructions in ``cold``, ``warm`` and ``start`` (a process that only loads the kernels).
"""

import sys
from pathlib import Path

import numpy as np

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


def main(folder: Path) -> int:
    cold, warm, host = (np.load(folder / f"{name}.npz") for name in ("cold", "warm", "host"))
    exact = same_bits("emulated and here", warm, host)
    same = same_bits("cold and warm", cold, warm)
    for name in ("start", "cold", "warm"):
        instructions = int((folder / name).read_text())
        low, high = (instructions / CLOCK / rate for rate in reversed(PER_CYCLE))
        print(
            f"{name:<6}{instructions:>16,} instructions: {low:.0f} to {high:.0f} s at 1 GHz and an assumed"
            f" {PER_CYCLE[0]} to {PER_CYCLE[1]} per cycle (uncalibrated)"
        )
    good = exact and same and str(warm["backend"]) == "numba"
    print("the emulated Pi agrees with this machine" if good else "FAILED: the emulated Pi does not agree")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
