"""Devices that tests run on."""

from tinytrain.base.arena import Arena
from tinytrain.runtime.device import Device

ONE = Device(threads=1)  # whatever the number of cores


class DirtyArena(Arena):
    """Memory that held something before."""

    def __init__(self, nbytes):
        super().__init__(nbytes)
        self.view(0, (nbytes,), "uint8")[:] = 0xFF  # NaN in every float
