"""Counters for emulated processors, and instructions per multiply-accumulate of emitted C."""
