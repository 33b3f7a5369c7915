"""Signals that end a program: one does so wherever it is, and none does anything once it is over."""

import signal
import sys

AGAIN_SECONDS = 0.01
ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt while `heard` is true.

    Whoever runs a program sets `heard` inside the ``try`` that catches the interrupt, and takes it back as
    the first thing there and in its ``except``: an assignment lets no signal in, as a call would.
    """

    def __init__(self):
        self.heard = False

    def listen(self) -> tuple:
        """Take the signals over. Returns what `restore` needs."""
        before = sys.unraisablehook, {number: signal.getsignal(number) for number in ALL}
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, self._interrupt)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell ignores it
            signal.signal(signal.SIGINT, self._interrupt)
        return before

    def restore(self, before: tuple) -> None:
        """Handle signals as before; one that was still to come again is too late."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook, handlers = before
        for number, handler in handlers.items():
            if handler is not None:  # one that Python did not set
                signal.signal(number, handler)

    def end(self) -> None:
        """Ignore signals for good: while Python takes itself apart, they would kill this process."""
        hook = sys.unraisablehook
        sys.unraisablehook = lambda unraisable: None  # Python reports a signal that comes in between
        for number in ALL:
            signal.signal(number, signal.SIG_IGN)
        sys.unraisablehook = hook

    def _interrupt(self, number, frame) -> None:
        if not self.heard:
            return
        if frame is not None and frame.f_code is Interrupts._unheard.__code__:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
            return
        sys.unraisablehook = self._unheard
        raise KeyboardInterrupt

    def _unheard(self, unraisable) -> None:
        """What Python ignores from the first interrupt on.

        What an interrupt leaves half-made, such as an object of the compiler, may fail to be unmade: no news.
        But an interrupt that meets a finalizer is itself ignored: it comes again, as SIGALRM, a moment later.
        """
        if unraisable.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


INTERRUPTS = Interrupts()
