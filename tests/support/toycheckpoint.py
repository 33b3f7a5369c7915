"""A small checkpoint as the published files are, with random numbers."""

import io
import zipfile

import numpy as np


def convolution(cin, cout, kernel=1, stride=1, groups=1, side=4) -> dict:
    """One convolution as the published files describe it, with random numbers."""
    rng = np.random.default_rng(cin * cout + kernel)
    return {
        "in_channel": cin, "in_shape": side, "out_channel": cout, "out_shape": (side + stride - 1) // stride,
        "kernel_size": (kernel, kernel), "stride": stride, "groups": groups, "depthwise": groups > 1,
        "act": None,
        "params": {
            "weight": rng.integers(-127, 128, (cout, cin // groups, kernel, kernel), dtype=np.int8),
            "bias": rng.integers(-9999, 9999, cout, dtype=np.int32),
            "w_scales": rng.uniform(0.01, 0.1, cout).astype(np.float32),
            "x_scale": 0.0235, "x_zero": -128, "y_scale": 0.1, "y_zero": 3,
        },
    }  # fmt: skip


def checkpoint() -> dict:
    block = {
        "pointwise1": convolution(4, 6),
        "depthwise": convolution(6, 6, kernel=3, groups=6),
        "pointwise2": convolution(6, 4),
        "residual": {"params": {}},
        "se": None,
    }
    stem = convolution(3, 4, kernel=3, stride=2, side=8)
    return {"first_conv": stem, "blocks": [block], "feature_mix": None, "classifier": None}


def archive(pickled: bytes, extra: dict | None = None, compression=zipfile.ZIP_STORED) -> bytes:
    """A PyTorch zip file around `pickled`."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", compression) as file:
        for name, data in {"archive/data.pkl": pickled, **(extra or {})}.items():
            file.writestr(zipfile.ZipInfo(name), data, compression)
    return memory.getvalue()
