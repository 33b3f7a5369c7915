"""Transformers in ONNX, as exporters write them: imported, adapted, and refused where they are others."""

import math

import numpy as np
import pytest
from cases import each

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402
from onnxmodels import Maker, save  # noqa: E402
from oracle import Oracle  # noqa: E402

from tinytrain.backbones.onnx.check import as_input, embeddings, largest_difference, random_images  # noqa: E402
from tinytrain.backbones.onnx.convert import import_onnx  # noqa: E402
from tinytrain.base.errors import InputError  # noqa: E402
from tinytrain.datasets import sample_episode  # noqa: E402
from tinytrain.datasets.generated.leaves import leaves  # noqa: E402
from tinytrain.network.file import decode, decode_network, encode_network  # noqa: E402
from tinytrain.network.quantisation import int8_obstacle  # noqa: E402
from tinytrain.pipeline.adapt import adapt  # noqa: E402
from tinytrain.plan.budget import Budget  # noqa: E402

SIDE, WIDTH, HEADS, TOKENS = 16, 8, 2, 16


class Transformer(Maker):
    """Writes norms, GELU, the scale of attention and shapes in one of several ways."""

    def __init__(self, norms="whole", gelus="whole", scales="products", shapes="given"):
        super().__init__(0, opset=20)
        self.norms, self.gelus, self.scales = norms, gelus, scales
        self.copied = shapes == "copied"  # 0 stands for the size that was there

    def number(self, value) -> str:
        return self.constant(np.float32(value))

    def some(self, *shape) -> str:
        return self.constant(self.rng.normal(0, 1 / math.sqrt(shape[0]), shape).astype(np.float32))

    def sides(self, *sides) -> str:
        return self.constant(np.array(sides, np.int64))

    def layer_norm(self, x) -> str:
        scale, bias = self.some(WIDTH), self.some(WIDTH)
        if self.norms == "whole":
            return self.node("LayerNormalization", x, scale, bias, epsilon=1e-4, axis=-1)
        axes = self.sides(1 if self.norms == "of positions" else -1)
        less, again = (self.node("Sub", x, self.node("ReduceMean", x, axes)) for _ in range(2))
        square = self.node("ReduceMean", self.node("Pow", again, self.number(2)), axes)
        root = self.node("Sqrt", self.node("Add", square, self.number(1e-4)))
        return self.node("Add", self.node("Mul", self.node("Div", less, root), scale), bias)

    def gelu(self, x, inside=None) -> str:
        if self.gelus == "whole":
            return self.node("Gelu", x)
        inner = ("Mul", math.sqrt(0.5)) if self.gelus == "halved inside" else ("Div", math.sqrt(2))
        erf = self.node("Erf", self.node(inner[0], inside or x, self.number(inner[1])))
        more = self.node("Add", self.number(1), erf)
        if self.gelus == "halved inside":
            return self.node("Mul", self.node("Mul", self.number(0.5), more), x)
        if self.gelus == "halved last":
            return self.node("Mul", self.node("Mul", x, more), self.number(0.5))
        return self.node("Mul", self.node("Mul", x, self.number(0.5)), more)

    def dense(self, x, cin, cout) -> str:
        return self.node("Add", self.node("MatMul", x, self.some(cin, cout)), self.some(cout))

    def heads(self, x, perm) -> str:
        same = (0, 0) if self.copied else (1, TOKENS)
        y = self.node("Reshape", self.dense(x, WIDTH, WIDTH), self.sides(*same, HEADS, WIDTH // HEADS))
        return self.node("Transpose", y, perm=perm)

    def attention(self, x, usual=(WIDTH // HEADS) ** -0.5) -> str:
        q, k, v = self.heads(x, [0, 2, 1, 3]), self.heads(x, [0, 2, 3, 1]), self.heads(x, [0, 2, 1, 3])
        if self.scales == "both":
            q, k = (self.node("Mul", y, self.number(math.sqrt(usual))) for y in (q, k))
        products = self.node("MatMul", q, k)
        if self.scales == "products":
            products = self.node("Div", products, self.number(1 / usual))
        if self.scales == "over":
            products = self.node("Div", self.number(usual), products)
        if self.scales == "infinite":
            products = self.node("Div", products, self.number(0))
        if self.scales == "turned":
            products = self.node("Transpose", products, perm=[0, 1, 3, 2])
        y = self.node("MatMul", self.node("Softmax", products, axis=-1), v)
        y = self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), self.sides(1, TOKENS, WIDTH))
        return self.dense(y, WIDTH, WIDTH)

    def tokens(self) -> str:
        x = self.node("Relu", self.conv("x", 3, WIDTH, kernel=3, stride=2))
        x = self.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        x = self.node("Reshape", x, self.sides(*((0, 0) if self.copied else (1, WIDTH)), -1))
        x = self.node("Transpose", x, perm=[0, 2, 1])
        return self.node("Add", x, self.constant(self.rng.normal(0, 0.2, (1, TOKENS, WIDTH)).astype("f")))

    def whole(self) -> str:
        """As a compact convolutional transformer is, up to its embedding."""
        x = self.tokens()
        for _ in range(2):
            x = self.node("Add", x, self.attention(self.layer_norm(x)))
            x = self.layer_norm(x)
            x = self.node("Add", x, self.dense(self.gelu(self.dense(x, WIDTH, 12)), 12, WIDTH))
        return self.layer_norm(x)

    def pooled(self, x) -> str:
        shares = self.node(
            "Softmax", self.node("Transpose", self.dense(x, WIDTH, 1), perm=[0, 2, 1]), axis=-1
        )
        return self.node("Squeeze", self.node("MatMul", shares, x), self.sides(1))


class Vision(Transformer):
    """As a vision transformer is: patches, a token of its own first, queries, keys and values as one product.

    `parts` says how these three are taken apart, `keys` how keys are turned, `embedding` what that is.
    """

    def __init__(self, parts="Gather", keys="whole", embedding="first"):
        super().__init__(scales="both" if keys == "by heads" else "products")
        self.parts, self.keys, self.embedding = parts, keys, embedding
        self.count = TOKENS + (embedding == "first")

    def part(self, x, k) -> str:
        if self.parts == "Gather":
            return self.node("Gather", x, self.constant(np.array(k, np.int64)), axis=0)
        ends = (self.sides(side) for side in (k, k + (2 if self.parts == "two" else 1), 0))
        return self.node("Squeeze", self.node("Slice", x, *ends), self.sides(0))

    def attention(self, x, usual=(WIDTH // HEADS) ** -0.5) -> str:
        width, tokens = WIDTH // HEADS, self.count
        y = self.node("Reshape", self.dense(x, WIDTH, 3 * WIDTH), self.sides(1, tokens, 3, HEADS, width))
        y = self.node("Transpose", y, perm=[2, 0, 3, 1, 4])
        q, k, v = (self.part(y, number) for number in range(3))
        if self.keys == "by heads":
            k = self.node("Reshape", k, self.sides(-1, tokens, width))
            k = self.node("Transpose", k, perm=[0, 2, 1])
            k = self.node("Reshape", k, self.sides(1, HEADS, width, tokens))
            q, k = (self.node("Mul", y, self.number(math.sqrt(usual))) for y in (q, k))
        else:
            k = self.node("Transpose", k, perm=[0, 1, 3, 2])
        products = self.node("MatMul", q, k)
        if self.keys != "by heads":
            products = self.node("Mul", products, self.number(usual))
        y = self.node("MatMul", self.node("Softmax", products, axis=-1), v)
        y = self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), self.sides(1, tokens, WIDTH))
        return self.dense(y, WIDTH, WIDTH)

    def tokens(self) -> str:
        x = self.conv("x", 3, WIDTH, kernel=4, stride=4, pads=[0] * 4)
        x = self.node("Reshape", x, self.sides(1, WIDTH, TOKENS))
        x = self.node("Transpose", x, perm=[0, 2, 1])
        if self.embedding == "first":
            x = self.node("Concat", self.some(1, 1, WIDTH), x, axis=1)
        places = self.rng.normal(0, 0.2, (1, self.count, WIDTH)).astype("f")
        return self.node("Add", x, self.constant(places))

    def pooled(self, x) -> str:
        if self.embedding == "first":
            return self.node("Gather", x, self.constant(np.array(0, np.int64)), axis=1)
        if self.embedding == "mean":
            return self.node("ReduceMean", x, self.sides(1), keepdims=0)
        shares = self.node("Softmax", self.dense(x, WIDTH, 1), axis=1)
        shares = self.node("Transpose", shares, perm=[0, 2, 1])
        return self.node("Squeeze", self.node("MatMul", shares, x), self.sides(1))


def imported_from(maker, output, folder):
    model = maker.model(output, (1, 3, SIDE, SIDE))
    return model, import_onnx(save(model, folder), mean=(120, 110, 100), scale=(0.02, 0.018, 0.016))


def answered(maker, folder):
    """The imported network of `maker`, and embeddings of images by the model, which are the network's."""
    model, imported = imported_from(maker, maker.pooled(maker.whole()), folder)
    images, evaluator = random_images((SIDE, SIDE, 3)), ReferenceEvaluator(model)
    rows = [evaluator.run(None, {"x": row[None]})[0].ravel() for row in as_input(imported.fed, images)]
    for found in (embeddings(imported.network, images), Oracle(imported.network).forward(images).embeddings):
        assert largest_difference(found, np.stack(rows)) < 1e-5
    return imported.network, np.stack(rows)


@each("ways", [
    ("whole", "whole", "products"), ("arithmetic", "halved last", "both", "copied"),
    ("whole", "halved first", "none"), ("whole", "halved inside", "none"),
])  # fmt: skip
def test_embeddings_are_those_of_the_model_however_it_is_written(tmp_path, ways):
    network, rows = answered(Transformer(*ways), tmp_path)
    assert [node.op for node in network.nodes].count("attention") == 2 and np.std(rows, axis=0).max() > 0.02


@each("ways", [
    ("Gather", "whole", "first"), ("Slice", "by heads", "first"), ("Slice", "whole", "mean"),
    ("Gather", "by heads", "weighted"),
])  # fmt: skip
def test_queries_keys_and_values_may_be_one_product_and_the_embedding_a_token_of_its_own(tmp_path, ways):
    network, rows = answered(Vision(*ways), tmp_path)
    assert [node.op for node in network.nodes].count("position") == 1 and np.std(rows, axis=0).max() > 0.005
    assert decode_network(*decode(encode_network(network))).digest == network.digest


def test_a_network_with_a_token_of_its_own_is_adapted(tmp_path):
    network, _ = answered(Vision("Gather", "by heads", "weighted"), tmp_path)
    report = adapt(network, sample_episode(leaves(), 3, 4, 2, 0), Budget(2**20, 10.0), force=True)
    assert any(s.part == "weight" for s in report.delta.slices)


@each("policy", ["tinytrain", "full", "last_layer", "bias_only", "none"])
def test_it_is_adapted_to_images_by_policies_and_refused_in_int8(tmp_path, policy):
    maker = Transformer()
    _, imported = imported_from(maker, maker.pooled(maker.whole()), tmp_path)
    assert "is of the operation max-pool" in int8_obstacle(imported.network)
    episode, budget = sample_episode(leaves(), 3, 4, 4, 0), Budget(2**20, 10.0)
    report = adapt(imported.network, episode, budget, policy, force=True)
    assert bool(report.delta.slices) == (policy != "none")


def changed(maker, kind):
    x = maker.tokens()
    if kind == "tanh":
        return maker.pooled(maker.node("Gelu", maker.dense(x, WIDTH, WIDTH), approximate="tanh"))
    if kind == "conv":
        return maker.node("GlobalAveragePool", maker.conv(x, WIDTH, WIDTH))
    if kind == "softmax":
        return maker.pooled(maker.node("Softmax", x, axis=-1))
    if kind == "erf":
        maker.gelus = "halved last"
        return maker.pooled(maker.gelu(x, inside=maker.dense(x, WIDTH, WIDTH)))
    if kind == "steep":
        more = maker.node("Add", maker.node("Erf", maker.node("Div", x, maker.number(2))), maker.number(1))
        return maker.pooled(maker.node("Mul", maker.node("Mul", x, more), maker.number(0.5)))
    if kind == "positions":
        maker.norms = "of positions"
        return maker.pooled(maker.layer_norm(x))
    if kind in ("over", "infinite", "turned"):
        maker.scales = kind
        return maker.pooled(maker.attention(x))
    if kind == "silu":
        return maker.pooled(maker.node("Mul", x, maker.node("Sigmoid", x)))
    if kind == "second":
        return maker.node("Gather", x, maker.constant(np.array(1, np.int64)), axis=1)
    if kind == "open":
        return maker.node("Squeeze", x)
    if kind == "fraction":
        return maker.node("Gather", x, maker.number(0), axis=1)
    if kind == "behind":
        return maker.pooled(maker.node("Concat", x, maker.some(1, 1, WIDTH), axis=1))
    if kind == "rows":
        return maker.node("ReduceMean", x, maker.sides(2), keepdims=0)
    if kind == "two":
        maker = Vision(parts="two")
        return maker, maker.pooled(maker.whole())
    if kind == "constant":
        return maker.pooled(maker.node("Add", x, maker.some(TOKENS, 1)))
    return maker.pooled(maker.node("MatMul", x, maker.node("Transpose", x, perm=[0, 2, 1])))


@each("kind, said", [
    ("tanh", "it is approximated by a tanh"), ("conv", "it reads tokens of a transformer"),
    ("softmax", "neither attention nor a weighted mean"), ("constant", r"adds a constant of shape \(16, 1\)"),
    ("product", "it multiplies npc by ncp"), ("over", "input 0 is not computed from the image"),
    ("positions", r"ReduceMean \(reducemean\d and 1 more\): the graph branches"),
    ("erf", r"Erf \(erf\d+\): no such"), ("steep", r"Erf \(erf\d+\): no such"),
    ("silu", r"Sigmoid \(sigmoid\d+\): no such operation here"), ("second", "takes neither the first token"),
    ("open", r"Squeeze \(squeeze\d\): which of them it takes"), ("fraction", "which of them it takes"),
    ("behind", r"Concat \(concat\d\): input 1 is not"), ("rows", "of tokens only the mean over all of them"),
    ("two", "takes neither the first token nor one of queries"),
    ("infinite", "by one number that is not 0"), ("turned", "neither attention nor a weighted mean"),
])  # fmt: skip
def test_what_is_another_transformer_is_refused_in_a_line(tmp_path, kind, said):
    maker = Transformer()
    output = changed(maker, kind)
    maker, output = output if isinstance(output, tuple) else (maker, output)
    with pytest.raises(InputError, match=said):
        imported_from(maker, output, tmp_path)
