"""Few-shot adaptation of small convolutional networks on the device itself.

``tinytrain.adapt(network, episode, budget=...)`` returns a `Report`, whose `delta` is the result. The
names below are imported when they are first used, so that importing the package costs nothing.
"""

import os
from importlib import import_module
from warnings import warn

# In a clone, datasets/, meta/ and firmware_sim/ lie beside this folder, and a script that is started there
# finds this folder before the installed package.
if os.path.isfile(os.path.join(_clone := os.path.dirname(os.path.dirname(__file__)), "pyproject.toml")):
    __path__.append(_clone)

__version__ = "0.2.0"

_PUBLIC = {
    "Budget": "tinytrain.plan.budget",
    "Device": "tinytrain.runtime.device",
    "Episode": "tinytrain.episode.episode",
    "FewShotClassifier": "tinytrain.api.classifier",
    "Images": "tinytrain.episode.episode",
    "Plan": "tinytrain.plan.plan",
    "Prediction": "tinytrain.runtime.predict",
    "Predictor": "tinytrain.api.deltas",
    "Store": "tinytrain.store",
    "Watcher": "tinytrain.api.watch",
    "adapt": "tinytrain.api.adapt",
    "adapt_again": "tinytrain.api.adapt",
    "add_classes": "tinytrain.api.deltas",
    "apply": "tinytrain.delta.delta",
    "check": "tinytrain.api.outlook",
    "emit": "tinytrain.api.emit",
    "export": "tinytrain.api.deltas",
    "forget": "tinytrain.api.deltas",
    "load_backbone": "tinytrain.backbones.load",
    "load_delta": "tinytrain.delta.file",
    "load_network": "tinytrain.network.file",
    "make_plan": "tinytrain.api.outlook",
    "merge": "tinytrain.api.merge",
    "rename": "tinytrain.api.deltas",
    "save_delta": "tinytrain.delta.file",
    "save_network": "tinytrain.network.file",
    "watch": "tinytrain.api.watch",
}

# Former names; they work for one more version.
_RENAMED = {"Pictures": "Images", "extend": "add_classes"}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name in _RENAMED:
        new = _RENAMED[name]
        warn(f"tinytrain.{name} is called tinytrain.{new} now", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    raise AttributeError(f"module 'tinytrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
