"""What the conformance kits of policies and of heads share: a broken promise is one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from tinytrain.base.errors import TinytrainError


class ConformanceError(AssertionError):
    """A policy or a head does not keep one of its promises; the message says which, and where."""


def demand(holds: bool, subject: str, otherwise: str) -> None:
    """Raise ConformanceError saying that `subject`, such as "policy none", does `otherwise`."""
    if not holds:
        raise ConformanceError(f"{subject} {otherwise}")


@contextmanager
def blamed(subject: str, where: str) -> Iterator[None]:
    """Errors of any kind become a sentence about `subject`."""
    try:
        yield
    except ConformanceError:
        raise
    except TinytrainError as error:
        raise ConformanceError(f"{subject} is refused {where}: {error}") from error
    except Exception as error:
        raise ConformanceError(f"{subject} raises {type(error).__name__} {where}: {error}") from error
