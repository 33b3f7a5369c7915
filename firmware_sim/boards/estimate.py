"""Time, energy and wear of one adaptation on a board: a model, not a measurement.

Time is that of one core: for every kernel of every stage the longer of its multiply-accumulates at
`macs_per_cycle` and its bytes at `bytes_per_cycle`, and `call_seconds` for each call. Energy is time x
`watts` of the whole board. Each figure stands for a band from half of it to twice.

If a prediction was measured on the board, time is MACs at its rate instead, in the precision that it was
measured in. Under QEMU, adaptations take 0.93 to 1.03 times the instructions for each MAC that predictions
take (results/microcontroller), and memory may cost them more: the band is a quarter.
"""

import math

import numpy as np

from tinytrain.firmware_sim.boards.board import Board
from tinytrain.firmware_sim.boards.counters import Count, Tally
from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash
from tinytrain.network.network import Network
from tinytrain.program.forward import compile_forward
from tinytrain.program.signatures import KERNELS
from tinytrain.store.record import DELTA_NAME, RECORDS
from tinytrain.store.slots import Slots

MODEL = (
    "cycles of one core = for every kernel the larger of MACs / rate and bytes / rate, plus the cost of each"
    " call; energy = time x watts of the board"
)
MEASURED = "cycles of one core = MACs / rate of a prediction on the board; energy = time x watts of the board"
BAND = 2.0
MEASURED_BAND = 1.25
ADAPTATION = ("probe", "plan", "features", "head", "training")  # stages; predicting queries is none
ROUNDS = 4  # adaptations whose writes are counted, so that both slots have their turn


def seconds(count: Count, board: Board, precision: str) -> float:
    """Of the calls in `count`, on one core."""
    clock = board.processor.clock_mhz.value * 1e6
    if rate := board.speed.measured.get(precision):
        return count.macs / (rate.value * clock)
    compute = count.macs / (board.speed.macs_per_cycle.value * clock)
    memory = count.bytes / (board.speed.bytes_per_cycle.value * clock)
    return max(compute, memory) + count.calls * board.speed.call_seconds.value


def seconds_by_stage(tally: Tally, board: Board, precision: str) -> dict[str, float]:
    stages = (name for name in ADAPTATION if tally.stages.get(name))
    return {name: sum(seconds(c, board, precision) for c in tally.stages[name].values()) for name in stages}


def one_inference(network: Network, precision: str) -> dict[str, Count]:
    """The calls for the embedding of one image, by kernel; the head on top is less than a thousandth."""
    tally = Tally()
    for segment in compile_forward(network, precision).segments.values():
        for call in segment.calls:
            arrays = (np.empty(a.extent, a.dtype) if hasattr(a, "extent") else a for a in call.args)
            if call.kernel in KERNELS:  # others only bring what kernels read
                tally.add(call.kernel, tuple(arrays))
    tally.end_stage("inference")
    return tally.stages["inference"]


def band(value: float, width: float = BAND) -> dict[str, float]:
    return {"low": value / width, "estimate": value, "high": value * width}


def store_writes(delta: bytes) -> dict[str, float]:
    """Files that the store writes per adaptation: commit, one start, confirm, on a simulated flash."""
    flash = Flash(LAYOUTS["ordered-journal"])
    slots = Slots(flash)
    for _ in range(ROUNDS):
        slots.commit(delta)
        slots.start()
        slots.confirm()
    written = [m.operation.split()[-1] for m in flash.moments if m.operation.startswith("rename")]
    records = [name for name in written if name in RECORDS]
    files = flash.moments[-1].medium.files()
    return {
        "deltas": sum(bool(DELTA_NAME.fullmatch(name)) for name in written) / ROUNDS,
        "records": len(records) / ROUNDS,
        "record_bytes": max(len(files[name]) for name in RECORDS),
    }


def wear(board: Board, delta: bytes) -> dict:
    """Erasures that one adaptation costs, and how many adaptations the flash lasts.

    With a controller, every write is taken to cost a whole erase block, spread over the medium. Without one,
    deltas take turns in two slots that are erased for each of them, and records are appended to two blocks
    that are erased when full.
    """
    writes, block = store_writes(delta), board.flash.erase_block_bytes.value
    blocks = math.ceil(len(delta) / block)
    if board.flash.wear_levelled:
        erased = writes["deltas"] * blocks + writes["records"]
        per_block = erased / (board.flash.flash_bytes.value // block)
    else:
        in_slot = writes["deltas"] / 2
        in_record = writes["records"] / 2 / max(1, block // writes["record_bytes"])
        erased, per_block = writes["deltas"] * blocks, max(in_slot, in_record)
    return {
        "delta_bytes": len(delta),
        "slot_bytes": blocks * block,
        "writes_per_adaptation": {"deltas": writes["deltas"], "records": writes["records"]},
        "blocks_erased_per_adaptation": erased,
        "erase_cycles": board.flash.erase_cycles.value,
        "adaptations_until_worn": math.floor(board.flash.erase_cycles.value / per_block),
    }
