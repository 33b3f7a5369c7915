"""The same network and the same adaptation in PyTorch, written as people write them. For comparison only.

Eager mode, float32, no convolution followed by anything but its bias. Images enter as uint8
(n, size, size, 3), embeddings leave as (n, d). Needs PyTorch; nothing in the product imports this.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from tinytrain.episode.augment import FILL, Augmentation
from tinytrain.meta.pytorch.our_side import Whole
from tinytrain.network.network import Network
from tinytrain.network.node import Node
from tinytrain.program.trained_arrays import Slot

ACTIVATIONS = {
    "relu6": F.relu6, "relu": F.relu, "hard-swish": F.hardswish, "hard-sigmoid": F.hardsigmoid,
}  # fmt: skip
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def to_torch(layer: Node, weight: np.ndarray) -> torch.Tensor:
    """Our (fan_in, cout) matrix as (cout, cin / groups, kernel, kernel)."""
    cin = layer.cin // layer.groups
    array = weight.reshape(*layer.kernel, cin, layer.cout).transpose(3, 2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(array))


class TorchNetwork:
    """A network's layers as PyTorch convolutions, in one memory format."""

    def __init__(self, network: Network, memory_format: str = "contiguous"):
        self.network, self.format = network, FORMATS[memory_format]
        self.weights = [
            to_torch(layer, network.float_weight(i)).contiguous(memory_format=self.format)
            for i, layer in enumerate(network.layers)
        ]
        self.biases = [torch.from_numpy(b.copy()) for b in network.biases]

    def inputs(self, values: torch.Tensor) -> torch.Tensor:
        """Grey levels 0..255 (n, 3, size, size), any dtype, as the first layer wants them."""
        contract = self.network.input
        mean, scale = (torch.tensor(numbers).view(-1, 1, 1) for numbers in (contract.mean, contract.scale))
        x = (values.float() - mean) * scale
        x = x.flip(-2, -1) if contract.rotated else x
        return x.contiguous(memory_format=self.format)

    def layers(self, x: torch.Tensor, first: int, last: int) -> torch.Tensor:
        """Output of layers [first, last)."""
        start, end = map(self.network.position, (first, last))
        made = {start - 1: x}
        for i in range(start, end):
            made[i] = self._made(i, [made[k] for k in self.network.sources[i]])
        return made[end - 1]

    def _made(self, i: int, inputs: list[torch.Tensor]) -> torch.Tensor:
        node, number, (x, *others) = self.network.graph[i], self.network.numbers[i], inputs
        if node.op == "max-pool":
            return F.max_pool2d(x, node.kernel, node.stride, node.pad)
        x = x.mean((2, 3), keepdim=True) if node.op == "squeeze" else x
        geometry = node.stride, node.pad, 1, node.groups
        y = F.conv2d(x, self.weights[number], self.biases[number], *geometry)
        y = y + others[0] if node.adds else y
        y = ACTIVATIONS[node.activation](y, inplace=True) if node.activation else y
        return y * others[0] if node.op == "excite" else y

    def embed(self, x: torch.Tensor, first: int = 0) -> torch.Tensor:
        """Embeddings (n, d) of the inputs of layer `first`."""
        return self.layers(x, first, len(self.network.layers)).mean((2, 3))

    def gradient(self, slot: Slot) -> np.ndarray:
        """The gradient of a whole trained array, in our order."""
        if slot.part == "bias":
            return self.biases[slot.layer].grad.numpy()
        return self.weights[slot.layer].grad.permute(2, 3, 1, 0).reshape(-1).numpy()

    def train(self, layers: Sequence[int] | None = None, biases: Sequence[int] | None = None) -> None:
        """Ask for gradients of these weights and biases; of all of them by default."""
        every = range(len(self.biases))
        for i in every if layers is None else layers:
            self.weights[i].requires_grad_(True)
        for i in every if biases is None else biases:
            self.biases[i].requires_grad_(True)


def planes(images: np.ndarray) -> torch.Tensor:
    """uint8 images (n, size, size, 3) as (n, 3, size, size)."""
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)


def augmented(images: torch.Tensor, draws: Sequence[Augmentation]) -> torch.Tensor:
    """Augmented copies of uint8 images (n, 3, size, size), as float grey levels."""

    def column(name: str) -> torch.Tensor:
        return torch.tensor([float(getattr(d, name)) for d in draws]).view(-1, 1, 1, 1)

    x = images.float()
    grey = x.mean(1, keepdim=True)
    x = (x - grey) * column("saturation") + grey + column("brightness")
    mean = x.mean((1, 2, 3), keepdim=True)
    x = ((x - mean) * column("contrast") + mean).clamp_(0, 255)
    # The place in x of each pixel, as fractions of half a side from the middle.
    cosine, sine, flip = (column(name).flatten() for name in ("cosine", "sine", "flip"))
    side = 1 - 2 * flip
    down, right = (2 / (x.shape[-1] - 1) * column(name).flatten() for name in ("down", "right"))
    across = torch.stack([side * cosine, sine, -side * cosine * right - sine * down], 1)
    along = torch.stack([-side * sine, cosine, side * sine * right - cosine * down], 1)
    places = F.affine_grid(torch.stack([across, along], 1), list(x.shape), align_corners=True)
    return F.grid_sample(x - FILL, places, align_corners=True) + FILL


def prototypes(embeddings: torch.Tensor, one_hot: torch.Tensor) -> torch.Tensor:
    """Class means (way, d)."""
    return one_hot.T @ embeddings / one_hot.sum(0)[:, None]


def losses(embeddings: torch.Tensor, means: torch.Tensor, labels: torch.Tensor, temperature: float):
    """Cross-entropy (n,) of scaled cosines."""
    cosine = F.normalize(embeddings) @ F.normalize(means).T
    return F.cross_entropy(temperature * cosine, labels, reduction="none")


def forward(reference: TorchNetwork, images: np.ndarray):
    """A call that computes embeddings; the images are converted beforehand."""
    x = reference.inputs(planes(images))

    def work():
        with torch.inference_mode():
            return reference.embed(x)

    return work


def forward_backward(reference: TorchNetwork, images: np.ndarray, gradient: np.ndarray):
    """A call that computes the gradients of all weights and biases from that of the embeddings."""
    x, g = reference.inputs(planes(images)), torch.from_numpy(gradient.copy())
    reference.train()

    def work():
        for tensor in (*reference.weights, *reference.biases):
            tensor.grad = None
        reference.embed(x).backward(g)

    return work


def differences(whole: Whole, images: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Relative differences of one training step: embeddings, their gradients, gradients of all parameters.

    The last is taken for every image by itself, the worst parameter counts, and of the images the
    median: where an activation lies within rounding of 0 or 6, any two float32 programs may pass or
    stop a gradient differently, and single images then differ by up to a per cent.
    """
    trainer, everyone, seen = whole.trainer, range(len(labels)), np.empty_like(images)
    trainer.compute_gradients(*([(view, i) for i in everyone] for view in (0, 1)))
    for i in everyone:
        trainer.kernels.augment(seen[i], images[i], *trainer.source.augmentation(1, i).arguments())
    reference, target = TorchNetwork(whole.program.network), torch.from_numpy(labels).long()
    reference.train()
    with torch.no_grad():
        embeddings = reference.embed(reference.inputs(planes(images)))
        means = prototypes(embeddings, F.one_hot(target).float())
    queries = reference.embed(reference.inputs(planes(seen)))
    loss = losses(queries, means, target, trainer.recipe.options.temperature).mean()
    (gradient,) = torch.autograd.grad(loss, queries)
    of_images = []
    for i in everyone:
        for tensor in (*reference.weights, *reference.biases):
            tensor.grad = None
        reference.embed(reference.inputs(planes(seen[i : i + 1]))).backward(gradient[i : i + 1])
        ours = whole.backward([(1, i)], [i])
        of_images.append(
            max(_relative(ours[s.start : s.start + s.size], reference.gradient(s)) for s in trainer.slots)
        )
    return {
        "embeddings": max(
            _relative(trainer.support, embeddings.numpy()),
            _relative(trainer.bind.array("embeddings of queries"), queries.detach().numpy()),
        ),
        "gradients of embeddings": _relative(trainer.grad[: len(labels)], gradient.numpy()),
        "gradients of parameters": float(np.median(of_images)),
    }


def set_threads(count: int) -> None:
    torch.set_num_threads(count)


def _relative(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x - y).max() / np.abs(y).max())
