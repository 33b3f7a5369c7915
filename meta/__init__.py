"""The offline stage and the benchmark harness; runs on a host, never on the device."""
