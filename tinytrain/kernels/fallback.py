"""The fallback if numba cannot compile a kernel: the numpy reference runs, with one warning."""

import logging
from collections.abc import Callable, Sequence

from tinytrain.base.errors import CancelledError, one_line

TOLD: set[str] = set()  # codes of the warnings that this process has given


def warn_once(message: str) -> None:
    """Log `message` ("code: text") in one line, by default to stderr; once per code and process."""
    code = message.partition(":")[0]
    if code not in TOLD:
        TOLD.add(code)
        logging.getLogger("tinytrain").warning("tinytrain: %s", one_line(message))


def guarded(name: str, compiled, reference, replaced: set[str]):
    """A kernel that calls `compiled`; if that cannot be compiled, `reference`, with `name` in `replaced`."""

    def code(arguments: Sequence) -> Callable:
        if name not in replaced:
            try:
                return compiled.code(arguments)
            except CancelledError:  # by who is told of the compiling
                raise
            except Exception as error:  # numba and LLVM raise anything
                replaced.add(name)
                reason = one_line(f"{type(error).__name__}: {error}", 160)
                warn_once(
                    f"kernel-not-compiled: {name} cannot be compiled ({reason}); it runs in plain numpy,"
                    " slower and with other last bits; run tinytrain doctor"
                )
        return reference

    def call(*arguments):
        return code(arguments)(*arguments)

    call.compiled, call.direct = compiled, lambda arguments: (code(arguments), arguments)
    return call
