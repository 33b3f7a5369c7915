"""The errors that a user can cause: one line per message, and classes by exit code and by who is to act.

A message gives the fact, the number and the remedy, in that order. A bug is not a
`TinytrainError` and keeps its traceback.
"""

import copyreg


def visible(text: str) -> str:
    """`text` with line breaks and other control characters escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: object, limit: int = 500) -> str:
    """`text` for a message: one line, control characters escaped, at most `limit` characters."""
    line = visible(" ".join(str(text).split()))
    return line if len(line) <= limit else line[: limit - 4] + " ..."


class TinytrainError(Exception):
    """Base class of the errors that are printed as one line on stderr.

    `code` is a stable short name such as ``"file-damaged"``; `exit_code` is that of the command.
    """

    exit_code = 1

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message

    def facts(self) -> dict:
        """The fields that --json prints."""
        return {"code": self.code, "message": self.message, "exit_code": self.exit_code}

    def __reduce__(self):
        # Worker processes pickle errors; the default __reduce__ would call __init__ with the message alone.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__


class UsageError(TinytrainError):
    """The command line or an argument has no valid meaning (exit code 2)."""

    exit_code = 2


class InputError(TinytrainError):
    """A file, image, network or episode is missing, broken or unsuitable (exit code 3)."""

    exit_code = 3


class AnswerError(TinytrainError):
    """A network or head answers NaN or infinity (exit code 3).

    No `InputError`: no image is at fault, so none is left out for it, and a program that goes on with the
    next image ends.
    """

    exit_code = InputError.exit_code


class BudgetError(TinytrainError):
    """No plan fits the budget (exit code 4). `smallest` is the smallest feasible budget in bytes.

    `task` is the TaskShape for which it is that, if the memory is what is too small.
    """

    exit_code = 4

    def __init__(self, code: str, message: str, smallest: int | None = None, task: object = None):
        super().__init__(code, message)
        self.smallest, self.task = smallest, task

    def facts(self) -> dict:
        return {**super().facts(), "smallest": self.smallest}


class AdaptationRefusedError(TinytrainError):
    """The adaptation was refused and the old weights were kept (exit code 5)."""

    exit_code = 5


class CancelledError(TinytrainError):
    """Whoever waits for the work has ended it, by Ctrl-C or otherwise (exit code 130)."""

    exit_code = 130

    def __str__(self):
        return self.message


class StorageError(TinytrainError):
    """A result could not be written, another process holds its place, or memory ran out (exit code 6).

    No half-written file is left behind.
    """

    exit_code = 6
