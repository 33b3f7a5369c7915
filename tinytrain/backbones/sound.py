"""Published encoders of sound as networks: a speech embedding (ONNX) and YAMNet (TensorFlow Lite).

Both read log-mel spectra and are convolutions to the end. So a longer spectrum gives more results, and the
embedding is their mean: one pass looks at a clip in all places.
"""

import struct
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from tinytrain.episode.logmel import HTK, SLANEY, LogMel
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network, quantised
from tinytrain.network.node import Node, slid
from tinytrain.network.validation import check_network

SPECTRA = LogMel(
    sampling_rate=16_000, fft_length=512, sequence_length=400, sequence_stride=160, min_freq=125.0,
    max_freq=7500.0, mag_exp=1.0, triangles=HTK, power_to_db=False, min_power=0.001, top_db=0.0,
    full_scale=1.0, low=-6.9, high=4.0,
)  # fmt: skip
# Decibels of samples of 16 bits, divided by 10, and 2 more.
SPEECH = replace(
    SPECTRA, min_freq=60.0, max_freq=3800.0, mag_exp=2.0, triangles=SLANEY, power_to_db=True,
    min_power=1e-10, top_db=80.0, full_scale=32768.0, low=-20.0, high=120.0,
)  # fmt: skip
# Of the encoder that comes with the package: decibels, a row for 16 ms.
OURS = replace(
    SPECTRA, sequence_length=512, sequence_stride=256, min_freq=60.0, max_freq=7800.0, mag_exp=2.0,
    power_to_db=True, min_power=1e-10, top_db=80.0, low=-40.0, high=50.0,
)  # fmt: skip
OWN = InputSpec((96, 48, 1), "uint8", 60.0, 1 / 64, kind="sound", parameters=asdict(OURS))
CONVOLUTIONS = {3: "conv", 4: "depthwise"}  # operators of TensorFlow Lite


def stretched(network: Network, rows: int) -> Network:
    """A `network` whose nodes follow each other, for spectra of so many `rows`."""
    _, columns, channels = network.input.shape
    size, nodes = (rows, columns), []
    for node in network.nodes:
        node = replace(node, in_hw=size)
        nodes.append(replace(node, out_hw=slid(node)))
        size = nodes[-1].out_hw
    network = replace(
        network, nodes=tuple(nodes), input=replace(network.input, shape=(rows, columns, channels))
    )
    check_network(network)
    return network


def convert(data: bytes, name: str, rows: int) -> Network:
    """The encoder `name` of the catalogue for items of so many `rows`, from its file, whose digest is right.

    Raises what `import_onnx` raises, such as InputError ``package-missing``.
    """
    return {"speech-embedding": speech_embedding, "yamnet": yamnet}[name](data, name, rows)


def speech_embedding(data: bytes, name: str, rows: int) -> Network:
    """The network of the file `embedding_model.onnx`. Raises what `import_onnx` raises."""
    from tinytrain.backbones.onnx.convert import import_onnx

    with tempfile.TemporaryDirectory(prefix="tinytrain-") as folder:
        path = Path(folder, f"{name}.onnx")
        path.write_bytes(data)
        spec = _spec(SPEECH, (76, 32, 1), factor=0.1, plus=2.0)
        return stretched(import_onnx(path, spec=spec).network, rows)


def yamnet(data: bytes, name: str, rows: int) -> Network:
    """The convolutions of the file `yamnet_spectra_in.tflite`, whose digest is known to be right."""
    size, nodes, weights, biases = (96, 64), [], [], []
    for op, stride, weight, bias in convolutions(data):
        turned = weight[:, ::-1, ::-1]  # see InputSpec.rotated
        if op == "conv":
            cout, kernel, _, cin = turned.shape
            matrix, op = turned.transpose(1, 2, 3, 0), op if kernel > 1 else "pointwise"
        else:
            _, kernel, _, cin = turned.shape
            cout, matrix = cin, turned[0]
        block = nodes[-1].block + (op != "pointwise") if nodes else 0
        out = tuple((side - 1) // stride + 1 for side in size)
        label = f"block{block}.{op}" if nodes else "stem"
        nodes.append(Node(label, op, cin, cout, kernel, stride, size, out, "relu6", block))
        weights.append(np.ascontiguousarray(matrix.reshape(-1, cout)))
        biases.append(bias)
        size = out
    spec = replace(_spec(SPECTRA, (96, 64, 1)), rotated=True)
    network = Network(name, tuple(nodes), tuple(weights), (None,) * len(nodes), tuple(biases), spec)
    return quantised(stretched(network, rows))


def _spec(settings: LogMel, shape: tuple[int, int, int], factor: float = 1.0, plus: float = 0.0) -> InputSpec:
    """Spectra of `shape` for a network that takes ``factor * value + plus`` for their values."""
    scale = factor * (settings.high - settings.low) / 255
    mean = -(factor * settings.low + plus) / scale
    return InputSpec(shape, "uint8", mean, scale, kind="sound", parameters=asdict(settings))


def convolutions(data: bytes):
    """(operator, stride, weights (cout, rows, columns, cin), bias) of each in turn, float32.

    Depthwise ones have weights (1, rows, columns, channels).
    """
    model = Table(data, struct.unpack_from("<I", data)[0])
    (graph,) = model.tables(2)
    tensors, buffers, codes = graph.tables(0), model.tables(4), model.tables(1)
    for operator in graph.tables(3):
        op = CONVOLUTIONS.get(codes[operator.number(0, "I")].number(0, "b"))
        if op:
            _, weight, bias = operator.numbers(1, "<i4")
            weight, bias = (_constant(tensors[i], buffers) for i in (weight, bias))
            yield op, operator.table(4).number(1, "i"), weight, bias


def _constant(tensor: "Table", buffers: list["Table"]) -> np.ndarray:
    """Its values, float32; codes have a scale for each of the channels of one axis."""
    shape, codes = tensor.numbers(0, "<i4"), buffers[tensor.number(2, "I")]
    scales = tensor.table(4).numbers(2, "<f4")
    values = codes.numbers(0, {2: "<i4", 9: "<i1"}[tensor.number(1, "b")], packed=True).reshape(shape)
    axis = int(shape[0] == 1) * (len(shape) - 1)
    sides = [1] * len(shape)
    sides[axis] = -1
    return values.astype(np.float32) * scales.reshape(sides)


class Table:
    """A table of a FlatBuffer, in which fields have numbers."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at
        self.fields = at - struct.unpack_from("<i", data, at)[0]

    def _place(self, field: int) -> int | None:
        """Where a field lies; None for one that has its default."""
        size, offset = struct.unpack_from("<H", self.data, self.fields)[0], 0
        if 4 + 2 * field < size:
            (offset,) = struct.unpack_from("<H", self.data, self.fields + 4 + 2 * field)
        return self.at + offset if offset else None

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return 0 if place is None else struct.unpack_from(f"<{form}", self.data, place)[0]

    def _behind(self, place: int) -> int:
        return place + struct.unpack_from("<I", self.data, place)[0]

    def table(self, field: int) -> "Table":
        return Table(self.data, self._behind(self._place(field)))

    def numbers(self, field: int, dtype: str, packed: bool = False) -> np.ndarray:
        """A list of numbers; if `packed`, its length is in bytes."""
        start = self._behind(self._place(field))
        (count,) = struct.unpack_from("<I", self.data, start)
        count //= np.dtype(dtype).itemsize if packed else 1
        return np.frombuffer(self.data, dtype, count, start + 4)

    def tables(self, field: int) -> list["Table"]:
        start = self._behind(self._place(field))
        (count,) = struct.unpack_from("<I", self.data, start)
        return [Table(self.data, self._behind(start + 4 + 4 * i)) for i in range(count)]
