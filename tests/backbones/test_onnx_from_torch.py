"""Networks of torchvision and timm, exported by `torch.onnx.export` with its defaults, go all the way.

Their weights and the statistics of their normalisations are random: nothing is downloaded. Skipped without
PyTorch and its exporter, which the project does not depend on.
"""

import numpy as np
import pytest

for package in ("torch", "torchvision", "timm", "onnxscript", "onnx"):
    pytest.importorskip(package, reason=f"exports networks of PyTorch, and {package} is not installed")

import onnx  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402

from tinytrain.backbones.export.onnx_model import onnx_model  # noqa: E402
from tinytrain.backbones.onnx.check import (  # noqa: E402
    embeddings,
    largest_difference,
    random_images,
)
from tinytrain.backbones.onnx.convert import import_onnx  # noqa: E402
from tinytrain.datasets import sample_episode  # noqa: E402
from tinytrain.datasets.generated.leaves import leaves  # noqa: E402
from tinytrain.meta.pytorch.torch_reference import TorchNetwork, planes  # noqa: E402
from tinytrain.network.file import decode, decode_network, encode_network  # noqa: E402
from tinytrain.pipeline.adapt import adapt  # noqa: E402
from tinytrain.plan.budget import Budget  # noqa: E402
from tinytrain.runtime.predict import Predictor  # noqa: E402

SIZE = 64
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)  # ImageNet's, of 0..255
TORCHVISION = ("mobilenet_v2", "mobilenet_v3_small", "resnet18")
TIMM = (
    "mobilenetv1_100", "mobilenetv2_100", "resnet18", "mobilenetv4_conv_small", "mobilenetv3_small_100",
    "efficientnet_lite0", "tf_efficientnet_lite0",
)  # fmt: skip
NETWORKS = [*(("torchvision", name) for name in TORCHVISION), *(("timm", name) for name in TIMM)]


def model_of(library: str, name: str) -> torch.nn.Module:
    """A model whose normalisations have seen something, so that they are no identities."""
    torch.manual_seed(0)
    made = getattr(torchvision.models, name)() if library == "torchvision" else timm.create_model(name)
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, 0, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.7, 1.3)
            torch.nn.init.normal_(module.bias, 0, 0.2)
    return made.eval()


def features(model: torch.nn.Module) -> torch.nn.Module:
    """What computes the last feature map."""
    if hasattr(model, "forward_features"):
        return model.forward_features
    return getattr(model, "features", None) or torch.nn.Sequential(*list(model.children())[:-2])


def normalised(images: np.ndarray) -> torch.Tensor:
    pixels = (images - np.array(MEAN, "f")) / np.array(STD, "f")
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), "f"))


@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
@pytest.mark.parametrize("library, name", NETWORKS)
@pytest.mark.parametrize("dynamo", [True, False], ids=["torch.export", "tracing"])
def test_an_export_is_imported_adapted_and_exported_again(tmp_path, library, name, dynamo):
    model, path = model_of(library, name), tmp_path / "net.onnx"
    images = random_images((SIZE, SIZE, 3))
    torch.onnx.export(model, (normalised(images[:1]),), str(path), **({} if dynamo else {"dynamo": False}))
    network = import_onnx(path, MEAN, tuple(1 / x for x in STD)).network
    network = decode_network(*decode(encode_network(network)))
    with torch.inference_mode():
        expected = features(model)(normalised(images)).mean((2, 3)).numpy()
    assert network.input.rotated == name.startswith("tf_")
    assert largest_difference(embeddings(network, images), expected) < 1e-4
    with torch.inference_mode():
        again = TorchNetwork(network)
        assert largest_difference(again.embed(again.inputs(planes(images))).numpy(), expected) < 1e-4
    if dynamo:
        _goes_on(network)


def _goes_on(network) -> None:
    report = adapt(
        network, sample_episode(leaves(), 3, 2, 4, 0), Budget(2**25, 0.15), "tinytrain", force=True
    )
    assert report.delta.slices
    query = report.episode.query
    predictor, data = Predictor(network, report.delta), onnx_model(network, report.delta)
    expected, probabilities = predictor.embed(query), predictor.probabilities(query)
    images = np.stack([query.image(i, network.input.shape) for i in range(len(expected))])
    runtime = pytest.importorskip("onnxruntime", reason="runs the exported file where it is installed")
    model = onnx.load_model_from_string(data)
    embedding = next(node.output[0] for node in model.graph.node if node.op_type == "Flatten")
    model.graph.output.append(onnx.helper.make_tensor_value_info(embedding, onnx.TensorProto.FLOAT, None))
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found, answers = session.run([embedding, "probabilities"], {"image": images})
    assert largest_difference(found, expected) < 1e-4
    # To a random network all images are nearly alike, so that the head multiplies what rounding does.
    np.testing.assert_allclose(answers, probabilities, atol=0.02)
