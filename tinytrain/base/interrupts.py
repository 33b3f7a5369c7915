"""Signals that end a program: one does so wherever it is, and a first one nothing once it is over."""

import atexit
import os
import signal
import sys

AGAIN_SECONDS = 0.01
ENDING = (signal.SIGINT, signal.SIGTERM)
ALL = (*ENDING, signal.SIGALRM)


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt while `heard` is true.

    Whoever runs a program sets `heard` inside the ``try`` that catches the interrupt, and takes it back as
    the first thing there and in its ``except``: an assignment lets no signal in, as a call would.
    """

    def __init__(self):
        self.heard = False
        self._over = False
        self._timer = None  # the caller's, where ours has taken its place

    def listen(self) -> tuple:
        """Take the signals over. Returns what `restore` needs."""
        before = sys.unraisablehook, {number: signal.getsignal(number) for number in ALL}
        signal.signal(signal.SIGTERM, self._interrupt)
        if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:  # else the alarm is the caller's
            signal.signal(signal.SIGALRM, self._interrupt)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell ignores it
            signal.signal(signal.SIGINT, self._interrupt)
        return before

    def restore(self, before: tuple) -> None:
        """Handle signals as before; one that was still to come again is too late."""
        timer, self._timer = self._timer, None
        if timer is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook, handlers = before
        for number, handler in handlers.items():
            if handler is not None:  # one that Python did not set
                signal.signal(number, handler)
        if timer is not None:
            signal.setitimer(signal.ITIMER_REAL, *timer)

    def end(self, code: int) -> None:
        """Let one signal pass from now on: the process is ending. A second one ends it with `code` at once.

        In the very end none does anything: while Python takes itself apart, one would kill this process.
        """
        signals = []

        def second(number, frame):
            signals.append(number)
            if len(signals) > 1:
                os._exit(code)

        _handle({number: second for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN})
        _handle({signal.SIGALRM: signal.SIG_IGN})
        self._over = True

    def last(self) -> None:
        """Ignore signals for good, if this is the end of a program."""
        if self._over:
            _handle(dict.fromkeys(ALL, signal.SIG_IGN))

    def _interrupt(self, number, frame) -> None:
        if not self.heard:
            return
        if frame is not None and frame.f_code in (Interrupts._unheard.__code__, Interrupts._again.__code__):
            self._again()
            return
        sys.unraisablehook = self._unheard
        raise KeyboardInterrupt

    def _again(self) -> None:
        """Interrupt a moment later, as SIGALRM."""
        signal.signal(signal.SIGALRM, self._interrupt)
        timer = signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        if self._timer is None:
            self._timer = timer

    def _unheard(self, unraisable) -> None:
        """What Python ignores from the first interrupt on.

        What an interrupt leaves half-made, such as an object of the compiler, may fail to be unmade: no news.
        But an interrupt that meets a finalizer is itself ignored: it comes again, as SIGALRM, a moment later.
        """
        if unraisable.exc_type is KeyboardInterrupt and self.heard:
            self._again()


def _handle(handlers: dict) -> None:
    """Set handlers of signals; one that comes in between is not reported by Python."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: None
    for number, handler in handlers.items():
        signal.signal(number, handler)
    sys.unraisablehook = hook


INTERRUPTS = Interrupts()
atexit.register(INTERRUPTS.last)  # what was registered before this runs after it
