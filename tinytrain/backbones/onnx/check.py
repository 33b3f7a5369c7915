"""Compares the embeddings of an imported network with those of onnxruntime for its ONNX file."""

import numpy as np

from tinytrain.backbones.onnx.convert import Imported
from tinytrain.backbones.onnx.reading import FLOAT, FLOAT16, Graph
from tinytrain.base.errors import InputError, one_line
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.heads import cosine
from tinytrain.network.network import InputSpec, Network
from tinytrain.runtime.predict import Predictor

IMAGES = 4
MOST = 2**23  # numbers that any layer reads and gives for one image; more would take more than 0.5 GB here
TOLERANCE = 1e-4  # relative to the length of an embedding
# The same in int8: a quantised model rounds its image to 8 bits first, where no digit is lost here, and some
# runtimes round sums another way.
TOLERANCE_INT8 = 0.2


class SkippedError(Exception):
    """Nothing could be compared; the message is the reason."""


def compare(imported: Imported) -> float:
    """Largest difference between the embeddings of random images, relative to their length.

    Raises InputError ``unsupported`` above 1e-4, or above 0.2 in int8, and SkippedError if onnxruntime is
    missing or cannot read the file, or if the images are so large that it would take more than 0.5 GB.
    """
    network = imported.network
    numbers = max(node.in_size + node.out_size for node in network.nodes)
    if numbers > MOST:
        raise SkippedError(f"an operation has {numbers:,} numbers, the limit of the comparison is {MOST:,}")
    images = random_images(network.input.shape).astype(network.input.dtype)
    theirs = runtime_embeddings(imported, images)
    difference = largest_difference(embeddings(network, images), theirs)
    tolerance = TOLERANCE_INT8 if network.quantisation else TOLERANCE
    if not difference <= tolerance:  # NaN counts as different
        raise InputError(
            "unsupported",
            f"{network.name}: embeddings differ from onnxruntime's by {difference:.1e}, more than"
            f" {tolerance:.0e}; the import is faulty; nothing was written",
        )
    return difference


def random_images(shape: tuple[int, int, int]) -> np.ndarray:
    """(n, *shape) uint8, the same every time."""
    return np.stack(
        [rng_for(0, "onnx check", i).integers(0, 256, shape, dtype=np.uint8) for i in range(IMAGES)]
    )


def as_input(fed: InputSpec, images: np.ndarray) -> np.ndarray:
    """Images as the ONNX model takes them: (n, channels, rows, columns) float32."""
    values = (images - np.float32(fed.mean)) * np.float32(fed.scale)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))


def embeddings(network: Network, images: np.ndarray) -> np.ndarray:
    """(n, d) embeddings by the kernels of adaptation, with an empty delta; in int8 if there are codes."""
    empty = np.zeros((2, network.embedding_size), np.float32)
    head = cosine.CosineHead(cosine.METHOD, empty, np.zeros(2, np.float32), np.ones(2, np.int32), empty)
    delta = Delta(network.digest, network.name, (), head, ("a", "b"), {}, codes=network.quantisation)
    labels = np.zeros(len(images), np.int32)
    names = tuple(f"random {i}" for i in range(len(images)))
    given = Images(labels, names, lambda i, size: images[i], kind=network.input.kind)
    return Predictor(network, delta).embed(given)


def largest_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest distance of rows (n, d), relative to the length of `theirs`; absolute if that is 0."""
    lengths = np.linalg.norm(theirs, axis=1)
    return float((np.linalg.norm(ours - theirs, axis=1) / np.where(lengths > 0, lengths, 1)).max())


def runtime_embeddings(imported: Imported, images: np.ndarray) -> np.ndarray:
    """(n, d) embeddings by onnxruntime. Raises SkippedError."""
    try:
        import onnxruntime
    except ImportError as error:
        raise SkippedError("onnxruntime is not installed; pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    # Optimised for some processors, quantised models add products in 16 bits, which is too few for them.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    graph = imported.graph
    try:
        data = part_of(graph, imported.embedding).SerializeToString()
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        order = ["nchw".index(axis) for axis in graph.axes]
        inputs = (as_input(imported.fed, image[None]).transpose(order) for image in images)
        rows = [session.run([imported.embedding], {graph.input: values})[0] for values in inputs]
    except Exception as error:  # the errors of onnxruntime have no common base class
        reason = one_line(error, 200) or type(error).__name__
        raise SkippedError(f"onnxruntime cannot run the file: {reason}") from error
    return np.stack(rows).reshape(len(images), -1)


def part_of(graph: Graph, tensor: str):
    """The part of an ONNX model that computes `tensor` of one image, and nothing else, in float32.

    The rest of the model, or the batch size that the file states, might need any amount of memory.
    """
    model, needed, nodes = graph.model, {tensor}, []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(filter(None, node.input))  # an empty name is none
    part = type(model)(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = "part"
    part.graph.node.extend(reversed(nodes))
    part.graph.initializer.extend(x for x in model.graph.initializer if x.name in needed)
    part.graph.input.extend(x for x in model.graph.input if x.name in needed)
    image = next(x for x in part.graph.input if x.name == graph.input).type.tensor_type
    image.shape.dim[0].dim_value = 1
    image.elem_type = FLOAT
    part.graph.output.add(name=tensor).type.tensor_type.elem_type = FLOAT
    _widen(part.graph)
    return part


def _widen(graph) -> None:
    """Make all numbers of 16 bits in an ONNX `graph` float32, which holds each of them."""
    from onnx.numpy_helper import from_array, to_array

    attributes = [attribute for node in graph.node for attribute in node.attribute]
    for tensor in (*graph.initializer, *(attribute.t for attribute in attributes)):
        if tensor.data_type == FLOAT16:
            tensor.CopyFrom(from_array(to_array(tensor).astype(np.float32), tensor.name))
    for attribute in attributes:
        if attribute.name == "to" and attribute.i == FLOAT16:
            attribute.i = FLOAT
