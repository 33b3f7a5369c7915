"""What a device gets from a PC, so that it installs without a network and compiles nothing."""
