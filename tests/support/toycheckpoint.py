"""A small checkpoint as the published files are, with random numbers."""

import io
import pickle
import struct
import zipfile

import numpy as np

SIX = (6 / 255, -128)  # scale and zero behind ReLU6
INPUT, STEM, BLOCK = (1 / 127.5, 0), (0.01, -128), (0.1, 3)


def codes(x=SIX, y=SIX) -> dict:
    """Scales and zeros of what a part of the network reads and gives."""
    return {"x_scale": x[0], "x_zero": x[1], "y_scale": y[0], "y_zero": y[1]}


def convolution(cin, cout, kernel=1, stride=1, groups=1, side=4, x=SIX, y=SIX) -> dict:
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
            **codes(x, y),
        },
    }  # fmt: skip


def checkpoint() -> dict:
    block = {
        "pointwise1": convolution(4, 6, x=STEM),
        "depthwise": convolution(6, 6, kernel=3, groups=6),
        "pointwise2": convolution(6, 4, y=BLOCK),
        "residual": {"params": codes(x=STEM, y=(0.2, -5))},
        "se": None,
    }
    stem = convolution(3, 4, kernel=3, stride=2, side=8, x=INPUT, y=STEM)
    return {"first_conv": stem, "blocks": [block], "feature_mix": None, "classifier": None}


def archive(pickled: bytes, extra: dict | None = None, compression=zipfile.ZIP_STORED) -> bytes:
    """A PyTorch zip file around `pickled`."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", compression) as file:
        for name, data in {"archive/data.pkl": pickled, **(extra or {})}.items():
            file.writestr(zipfile.ZipInfo(name), data, compression)
    return memory.getvalue()


def legacy_file(values: dict[str, np.ndarray], order=None) -> bytes:
    """Content of a file in PyTorch's first form: a state of arrays, whose storages come in the given `order`.

    An array lies in the file as it lies in memory, so that a transposed one has the strides of a view.
    """
    keys = {name: str(number) for number, name in enumerate(values)}
    kinds = {"float32": b"FloatStorage", "int64": b"LongStorage"}
    entries = []
    for name, array in values.items():
        size = array.dtype.itemsize
        strides = tuple(step // size for step in array.strides)
        storage = b"(" + _text("storage") + b"ctorch\n" + kinds[str(array.dtype)] + b"\n" + _text(keys[name])
        storage += _text("cpu") + _number(array.size) + b"NtQ"
        shapes = b"".join(b"(" + b"".join(map(_number, sizes)) + b"t" for sizes in (array.shape, strides))
        hooks = b"\x89ccollections\nOrderedDict\n)R"
        entries.append(
            _text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + shapes + hooks + b"tR"
        )
    state = b"\x80\2ccollections\nOrderedDict\n)R(" + b"".join(entries) + b"u"
    state += b"}" + _text("_metadata") + b"ccollections\nOrderedDict\n)Rsb."  # versions of modules
    machine = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}
    listed = [keys[name] for name in order or sorted(values)]
    parts = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, machine)]
    parts += [state, pickle.dumps(listed, 2)]
    for name in order or sorted(values):
        array = values[name]
        laid = array.transpose(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
        parts += [struct.pack("<q", array.size), laid.tobytes()]
    return b"".join(parts)


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def lite_state(widths=(4, 6, 8, 10, 10, 12, 14, 16), expansion=2, stem=4, head=20) -> dict[str, np.ndarray]:
    """Arrays of a small EfficientNet-Lite under their published names, with random numbers.

    `widths` are the output channels of the blocks; there are seven different ones, as many as stages.
    """
    rng, values = np.random.default_rng(len(widths)), {}

    def convolution(name, norm, cout, cin, kernel=1):
        # As TensorFlow has them, rows first: the axes of PyTorch are a view of that.
        weight = rng.normal(0, (2 / (kernel * kernel * cin)) ** 0.5, (kernel, kernel, cin, cout))
        values[f"{name}.weight"] = weight.astype(np.float32).transpose(3, 2, 0, 1)
        for part, low, high in (
            ("weight", 0.5, 1.5), ("bias", 0, 1), ("running_mean", -1, 1), ("running_var", 0.001, 2),
        ):  # fmt: skip
            values[f"{norm}.{part}"] = rng.uniform(low, high, cout).astype(np.float32)
        values[f"{norm}.num_batches_tracked"] = np.zeros(1, np.int64)

    convolution("_conv_stem", "_bn0", stem, 3, 3)
    cin = stem
    for number, cout in enumerate(widths):
        prefix, wide = f"_blocks.{number}.", cin
        if number:
            wide = cin * expansion
            convolution(f"{prefix}_expand_conv", f"{prefix}_bn0", wide, cin)
        convolution(f"{prefix}_depthwise_conv", f"{prefix}_bn1", wide, 1, 5 if number % 2 else 3)
        convolution(f"{prefix}_project_conv", f"{prefix}_bn2", cout, wide)
        cin = cout
    convolution("_conv_head", "_bn1", head, cin)
    return values
