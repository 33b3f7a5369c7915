"""What a refused budget is good for: the recommended networks that fit it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tinytrain.backbones.load import open_backbone
from tinytrain.base.errors import BudgetError
from tinytrain.cli.commands import episodes


@contextmanager
def naming_tiers(arguments) -> Iterator[None]:
    """A BudgetError that passes also names the tiers that fit, if memory is what is too small."""
    try:
        yield
    except BudgetError as error:
        from tinytrain.pipeline.tiers import fitting_tiers

        if error.task is None or getattr(arguments, "plan", None):
            raise
        policy, memory = episodes.policy_of(arguments), episodes.budget_of(arguments).memory
        found = fitting_tiers(open_backbone(arguments.backbone).name, policy, error.task, memory)
        if not (names := [f"--backbone {tier} needs {least}" for tier, least in found]):
            raise
        message = f"{error.message}; {', '.join(names)}"
        raise BudgetError(error.code, message, error.smallest, error.task) from error
