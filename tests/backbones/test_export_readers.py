"""Programs that the project does not need read exported files, too; those that are not installed are skipped.

OpenCV is given .onnx files without the modules of `tinytl`: docs/export.md says what it makes of others.
"""

import numpy as np
import pytest
import toynets
from exported import colourful, largest_difference, untrained

from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.export.files import export
from tinytrain.backbones.load import load_backbone
from tinytrain.network.input_spec import InputSpec

CLOSE = 1e-5
PLAIN = {name: lambda name=name: toynets.toy(name) for name in toynets.ROWS} | {
    "weights of 8 bits": lambda: load_backbone(SHIPPED.name),
    "grey": lambda: toynets.toy("blocks", spec=InputSpec((16, 16, 1), mean=30.0, scale=1 / 60)),
    "rotated": lambda: toynets.toy("blocks", spec=InputSpec((15, 20, 3), rotated=True)),
}
ALL = PLAIN | {"modules": lambda: toynets.modules_of(toynets.toy("blocks", 17))}


def opencv(package, path, images):
    network, rows = package.dnn.readNetFromONNX(path), []
    for image in images:
        network.setInput(image[None])
        rows.append(network.forward())
    return np.concatenate(rows)


def openvino(package, path, images):
    exact = {"INFERENCE_PRECISION_HINT": "f32"}  # where a processor has bfloat16 it would take that
    return package.Core().compile_model(path, "CPU", exact)(images)[0]


def tflite_micro(package, path, images):
    interpreter, rows = package.runtime.Interpreter.from_file(path, arena_size=2**22), []
    for image in images:
        interpreter.set_input(image[None], 0)
        interpreter.invoke()
        rows.append(interpreter.get_output(0))
    return np.concatenate(rows)


READERS = {
    "opencv .onnx": ("cv2", opencv, ".onnx", PLAIN),
    "openvino .onnx": ("openvino", openvino, ".onnx", ALL),
    "openvino .tflite": ("openvino", openvino, ".tflite", ALL),
    "tflite micro": ("tflite_micro", tflite_micro, ".tflite", ALL),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("float_input", [False, True])
def test_other_programs_give_the_probabilities_of_the_predictor(tmp_path, reader, float_input):
    name, run, suffix, networks = READERS[reader]
    package = pytest.importorskip(name, reason="runs exported files where it is installed")
    path = tmp_path / f"exported{suffix}"

    def answers(network, delta, images):
        export(network, delta, path, float_input=float_input)
        return run(package, str(path), images.astype(np.float32) if float_input else images)

    for kind, make in networks.items():
        network = make()
        images = colourful(network.input.shape, 6)
        found = largest_difference(answers, network, untrained(network, images), images)
        assert found < CLOSE, kind
