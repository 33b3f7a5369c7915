"""Devices that tests run on."""

from tinytrain.runtime.device import Device

ONE = Device(threads=1)  # whatever the number of cores
