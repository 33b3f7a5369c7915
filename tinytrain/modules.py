"""Lets modules be what people write, functions: `tinytrain.adapt` and `tinytrain.extend`."""

import sys
from inspect import Signature, signature
from types import FunctionType, ModuleType


class _CallableModule(ModuleType):
    def __call__(self, *args, **kwargs):
        return _function(self)(*args, **kwargs)

    @property
    def __signature__(self) -> Signature:
        return signature(_function(self))


def _function(module: ModuleType) -> FunctionType:
    return getattr(module, module.__name__.rpartition(".")[2])


def make_callable(name: str) -> None:
    """Calling the module `name` calls its function of the same name.

    Importing a submodule binds it to the package's attribute, so the package itself cannot offer a
    function called like one of its modules.
    """
    sys.modules[name].__class__ = _CallableModule
