"""Few-shot adaptation of small convolutional networks on the device itself.

``tinytrain.adapt(network, episode, budget=...)`` returns a `Report`, whose `delta` is the result. The
names below are imported when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module

__version__ = "0.1.0"

_PUBLIC = {
    "Budget": "tinytrain.plan",
    "Episode": "tinytrain.episode",
    "Pictures": "tinytrain.episode",
    "Predictor": "tinytrain.predict",
    "Store": "tinytrain.store",
    "apply": "tinytrain.delta",
    "extend": "tinytrain.extend",
    "load_backbone": "tinytrain.modelfile",
    "load_delta": "tinytrain.deltafile",
    "load_network": "tinytrain.modelfile",
    "save_delta": "tinytrain.deltafile",
    "save_network": "tinytrain.modelfile",
}

__all__ = ["__version__", "adapt", *_PUBLIC]


def __getattr__(name: str):
    if name == "adapt":
        return import_module("tinytrain.adapt")  # the module can be called like the function in it
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'tinytrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
