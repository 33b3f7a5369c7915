"""Small ONNX models as onnxruntime quantises them: pairs of QuantizeLinear and DequantizeLinear."""

import numpy as np
from onnxmodels import Maker, save

SIDE = 24
MEAN, SCALE = 128.0, 1 / 128  # with these, 8 bits hold every pixel: the input is quantised without a loss


def act(m: Maker, x: str, op: str | None) -> str:
    return x if op is None else m.act(x, op)


def mobile(seed: int = 0, op: str = "Clip") -> Maker:
    """Stem, inverted bottlenecks with and without addition, last layer, pooling, classifier."""
    m = Maker(seed)
    x = act(m, m.conv("x", 3, 8, kernel=3, stride=2), op)
    x = m.conv(act(m, m.conv(x, 8, 8, kernel=3, groups=8), op), 8, 6)
    for cin, mid, cout, kernel, stride in ((6, 20, 10, 5, 2), (10, 24, 10, 3, 1), (10, 24, 10, 3, 1)):
        y = act(m, m.conv(x, cin, mid), op)
        y = m.conv(act(m, m.conv(y, mid, mid, kernel=kernel, stride=stride, groups=mid), op), mid, cout)
        x = m.node("Add", x, y) if stride == 1 else y
    m.output = m.classifier(act(m, m.conv(x, 10, 32), op), 32)
    return m


def random_input(count: int, seed: int) -> np.ndarray:
    """(count, SIDE, SIDE, 3) uint8: noise upon a slope of colours."""
    rng = np.random.default_rng(seed)
    slope = np.linspace(0, 255, SIDE)[:, None, None] * rng.uniform(0, 1, (count, 1, SIDE, 3))
    noise = rng.integers(0, 256, (count, SIDE, SIDE, 3))
    return np.clip(slope / 2 + noise / 2 + rng.integers(-60, 60, (count, 1, 1, 1)), 0, 255).astype(np.uint8)


def quantise(model, folder, name="net.onnx", folded=False, **options):
    """The file of `model` as `quantize_static` writes it, with ranges found on random images.

    Normalisations are folded into convolutions first if that is asked for.
    """
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            images = [*random_input(8, 1), np.zeros((SIDE, SIDE, 3)), np.full((SIDE, SIDE, 3), 255)]
            arrays = ((image.astype(np.float32) - MEAN) * np.float32(SCALE) for image in images)
            self.rows = iter({"x": a.transpose(2, 0, 1)[None]} for a in arrays)

        def get_next(self):
            return next(self.rows, None)

    given = {"per_channel": True, "activation_type": q.QuantType.QInt8, "weight_type": q.QuantType.QInt8}
    source = save(model, folder, f"float {name}")
    if folded:
        q.shape_inference.quant_pre_process(source, source, skip_symbolic_shape=True)
    given |= {"quant_format": q.QuantFormat.QDQ}
    q.quantize_static(source, folder / name, Reader(), **(given | options))
    source.unlink()
    return folder / name


def quantised_mobile(folder, seed: int = 0, op: str = "Clip", **options):
    m = mobile(seed, op)
    return quantise(m.model(m.output, (1, 3, SIDE, SIDE)), folder, **options)
