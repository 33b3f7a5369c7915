"""Lets `tinytrain.adapt` be what people write, a function, although a module has that name."""

import sys
from types import ModuleType


class _CallableModule(ModuleType):
    def __call__(self, *args, **kwargs):
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(name: str) -> None:
    """Calling the module `name` calls its function of the same name.

    Importing a submodule binds it to the package's attribute, so the package itself cannot offer a
    function called like one of its modules.
    """
    sys.modules[name].__class__ = _CallableModule
