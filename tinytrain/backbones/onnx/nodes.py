"""Nodes and constants of an ONNX graph that is being made."""

import numpy as np


class Nodes:
    """`made` and `constants` are lists of protobuf messages, in order; every value has a name of its own."""

    def __init__(self, onnx):
        self.onnx, self.made, self.constants = onnx, [], []
        self._numbers: dict[float, str] = {}

    def add(self, op: str, inputs: list[str], output: str = "", **attributes) -> str:
        """A node with one output, whose name is returned; "" as an input leaves it out."""
        output = output or f"{op}.{len(self.made)}"
        self.made.append(self.onnx.helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def constant(self, name: str, array: np.ndarray) -> str:
        """An array in the file; returns `name`, made unique."""
        name = f"{name}.{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def number(self, value: float) -> str:
        """A float32 scalar, once in the file."""
        if value not in self._numbers:
            self._numbers[value] = self.constant(f"{value:g}", np.array(value, np.float32))
        return self._numbers[value]

    def texts(self, name: str, values: tuple[str, ...]) -> str:
        """A list of texts in the file."""
        encoded = [value.encode() for value in values]
        self.constants.append(
            self.onnx.helper.make_tensor(name, self.onnx.TensorProto.STRING, [len(values)], encoded)
        )
        return name
