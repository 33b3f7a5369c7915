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
    "load_backbone": "tinytrain.modelfile",
    "load_delta": "tinytrain.deltafile",
    "load_network": "tinytrain.modelfile",
    "save_delta": "tinytrain.deltafile",
    "save_network": "tinytrain.modelfile",
}

_CALLABLE = ("adapt", "extend")  # modules that can be called like the function in them

__all__ = ["__version__", *_CALLABLE, *_PUBLIC]


def __getattr__(name: str):
    if name in _CALLABLE:
        return import_module(f"tinytrain.{name}")
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'tinytrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
