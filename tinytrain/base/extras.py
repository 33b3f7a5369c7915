"""How to install optional packages: one wording for all messages."""

from collections.abc import Iterator
from contextlib import contextmanager

from tinytrain.base.errors import InputError

# Extra in pyproject.toml -> its packages. They are named themselves: a wheel or a clone may be anywhere.
PACKAGES = {
    "onnx": ("onnx>=1.16",),
    "tflite": ("ai-edge-litert>=2.0.2",),
    "web": ("starlette>=0.40", "uvicorn>=0.30", "segno>=1.6", "cryptography>=42"),
    "keys": ("cryptography>=42",),
    "heic": ("pillow-heif>=1.0",),
    "flac": ("soundfile>=0.12",),
    "data": ("scipy>=1.14",),
    "federated": ("flwr>=1.42,<2",),
    "mqtt": ("paho-mqtt>=2.0",),
    "host": ("joblib>=1.5", "safetensors>=0.4.5"),
}


def install(extra: str) -> str:
    """The command that installs what the `extra` of this name stands for."""
    return " ".join(["pip install", *(f"'{package}'" for package in PACKAGES[extra])])


@contextmanager
def needed(packages: str, extra: str, what: str) -> Iterator[None]:
    """For imports of `packages`, words: without one InputError ``package-missing`` says `what` needs it."""
    try:
        yield
    except ImportError as error:
        if (package := (error.name or "").partition(".")[0]) not in packages.split():
            raise
        text = f"{what} needs {package}, which is not installed; run: {install(extra)}"
        raise InputError("package-missing", text) from error
