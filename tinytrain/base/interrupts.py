"""Signals that end a program: the first one interrupts it; while the process exits, one is ignored."""

import atexit
import os
import signal
import sys

AGAIN_SECONDS = 0.01
ENDING = (signal.SIGINT, signal.SIGTERM)
ALL = (*ENDING, signal.SIGALRM)


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt while `heard` is true.

    The caller sets `heard` inside the ``try`` that catches the interrupt. It clears `heard` as the last
    statement there and as the first of its ``except``. Use an assignment: Python may run a signal handler
    during a call, but not during an assignment.
    """

    def __init__(self):
        self.heard = False
        self._over = False
        self._timer = None  # the caller's timer, if `_again` has replaced it

    def listen(self) -> tuple:
        """Install the signal handlers. Returns the argument of `restore`."""
        before = sys.unraisablehook, {number: signal.getsignal(number) for number in ALL}
        signal.signal(signal.SIGTERM, self._interrupt)
        if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:  # otherwise the caller uses the alarm
            signal.signal(signal.SIGALRM, self._interrupt)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if a shell ignores it
            signal.signal(signal.SIGINT, self._interrupt)
        return before

    def restore(self, before: tuple) -> None:
        """Handle signals as before `listen`; an interrupt that `_again` has postponed is dropped."""
        timer, self._timer = self._timer, None
        if timer is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook, handlers = before
        for number, handler in handlers.items():
            if handler is not None:  # None: a handler that Python did not set
                signal.signal(number, handler)
        if timer is not None:
            signal.setitimer(signal.ITIMER_REAL, *timer)

    def end(self, code: int) -> None:
        """Ignore one signal from now on, because the process is ending; a second one exits with `code`.

        `last` ignores all signals in the last phase of the exit: Python removes its handlers there, and a
        signal would kill the process.
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
        """Ignore all signals if `end` was called."""
        if self._over:
            _handle(dict.fromkeys(ALL, signal.SIG_IGN))

    def _interrupt(self, number, frame) -> None:
        if not self.heard:
            return
        if frame is not None and frame.f_code in (Interrupts._ignored.__code__, Interrupts._again.__code__):
            self._again()
            return
        sys.unraisablehook = self._ignored
        raise KeyboardInterrupt

    def _again(self) -> None:
        """Raise the interrupt again in `AGAIN_SECONDS`, by SIGALRM."""
        signal.signal(signal.SIGALRM, self._interrupt)
        timer = signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        if self._timer is None:
            self._timer = timer

    def _ignored(self, unraisable) -> None:
        """The hook for unraisable exceptions after the first interrupt.

        An object that the interrupt left half-made may raise while being finalised; ignore it. Python also
        ignores an interrupt raised inside a finaliser; raise that one again.
        """
        if unraisable.exc_type is KeyboardInterrupt and self.heard:
            self._again()


def _handle(handlers: dict) -> None:
    """Set signal handlers; Python does not report a signal that arrives meanwhile."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: None
    for number, handler in handlers.items():
        signal.signal(number, handler)
    sys.unraisablehook = hook


INTERRUPTS = Interrupts()
atexit.register(INTERRUPTS.last)  # runs before the functions that were registered earlier
