"""What happens where numba cannot do its work: the numpy twin does it, and it is said once."""

import logging

from tinytrain.base.errors import one_line
from tinytrain.kernels.compile_cache.facts import portable
from tinytrain.kernels.dispatch.direct import entry

TOLD: set[str] = set()  # codes of the warnings that this process has given


def warn_once(message: str) -> None:
    """One line on stderr, or wherever the application logs; only the first that starts with its ``code:``."""
    code = message.partition(":")[0]
    if code not in TOLD:
        TOLD.add(code)
        logging.getLogger("tinytrain").warning("tinytrain: %s", one_line(message))


def not_portable() -> str:
    """What a warning about plain numpy adds where portable kernels were asked for."""
    return " and with other last bits on other processors" if portable() else ""


def guarded(name: str, compiled, twin, twins: set[str]):
    """`compiled`, and `twin` from the moment that compiling fails; `name` is among the `twins` from then on.

    A kernel raises nothing, so an exception means that it never ran and that its arrays are as they were.
    """

    def call(*arguments):
        if name in twins:
            return twin(*arguments)
        try:
            return compiled(*arguments)
        except Exception as error:  # numba and LLVM raise anything
            twins.add(name)
            reason = one_line(f"{type(error).__name__}: {error}", 160)
            warn_once(
                f"kernel-not-compiled: {name} cannot be compiled ({reason}); it runs in plain numpy, slower"
                f"{not_portable()}; run tinytrain doctor"
            )
            return twin(*arguments)

    call.compiled, call.direct = compiled, entry(compiled, call)
    return call
