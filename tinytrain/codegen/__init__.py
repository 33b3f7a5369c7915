"""A Program as a C99 library for microcontrollers: the same stages, the same bits, one static arena."""
