"""The forward pass of published networks in int8: against an oracle in integers and published arithmetic.

TINYTRAIN_INT8_INPUTS sets the number of random inputs of each block (default 3).
"""

import os
from functools import cache

import numpy as np
import pytest
from int8nets import forward8
from integernet import Integers, Published
from oracle import Oracle
from published import published_network
from toysegments import ran

from tinytrain.backbones.onnx import check
from tinytrain.datasets import open_dataset

NAMES = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")
INPUTS = int(os.environ.get("TINYTRAIN_INT8_INPUTS", "3"))


@cache
def network(name):
    return published_network(name)


def real_images(count: int) -> np.ndarray:
    """Images of 128 pixels of a data pack, of generated leaves where there are no packs."""
    dataset = open_dataset("flowers12" if "TINYTRAIN_DATA" in os.environ else "leaves")
    return np.stack([dataset.read(k * 7, 128) for k in range(count)])


def images() -> np.ndarray:
    drawn = np.random.default_rng(5).integers(0, 256, (2, 128, 128, 3), dtype=np.uint8)
    ends = np.stack([np.zeros((128, 128, 3), np.uint8), np.full((128, 128, 3), 255, np.uint8)])
    return np.concatenate([drawn, ends, real_images(3)])


@pytest.mark.parametrize("name", NAMES)
def test_predictors_give_the_embeddings_of_the_oracle(name):
    pictures, oracle = images(), Integers(network(name))
    for picture, embedding in zip(pictures, check.embeddings(network(name), pictures), strict=True):
        wanted = oracle.embedding(oracle.run(oracle.pixels(picture))[-1])
        assert embedding.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_each_block_gives_the_codes_of_the_oracle_for_random_inputs(name):
    net, oracle, rng = network(name), Integers(network(name)), np.random.default_rng(6)
    starts = [i for i in range(len(net.layers)) if net.block_start(i) == i]
    for first, behind in zip(starts, (*starts[1:], len(net.layers)), strict=True):
        layer = net.layers[first]
        low, high, kind = (-128, 128, np.int8) if first else (0, 256, np.uint8)
        x = rng.integers(low, high, (INPUTS, *layer.in_hw, layer.cin), dtype=kind)
        for given, codes in zip(x, block(net, first, behind, x), strict=True):
            given = given.astype(np.int64) if first else oracle.pixels(given)
            assert np.array_equal(codes, oracle.run(given, first, behind - 1)[-1])


def block(net, first, behind, x):
    """The codes that layers [first, behind) of a program give for x."""
    segment, source = forward8(net, first, behind, len(x))
    return ran(segment, net, {source: x})[0]


def compared(name: str, pictures: np.ndarray) -> tuple[int, int, int]:
    """Codes that differ from the published arithmetic, all codes, and the largest difference.

    Every layer behind the first reads the same codes in both.
    """
    net, ours, theirs = network(name), Integers(network(name)), Published(network(name))
    wrong = count = largest = 0
    for picture in pictures:
        handed = ours.run(ours.pixels(picture))
        for i in range(1, len(net.layers)):
            pairs = [
                [each.convolved(i, handed[i - 1], ours.codes.given(i - 1).zero) for each in (ours, theirs)]
            ]
            if net.layers[i].adds:
                start = net.block_start(i) - 1
                skip = handed[start], ours.codes.given(start)
                pairs.append([each.added(i, pairs[0][0], *skip) for each in (ours, theirs)])
            for first, second in pairs:
                difference = np.abs(first - second)
                wrong += int((difference > 0).sum())
                count += difference.size
                largest = max(largest, int(difference.max()))
    return wrong, count, largest


@pytest.mark.parametrize("name", NAMES)
def test_codes_are_those_of_the_published_arithmetic_but_for_one_in_a_hundred_thousand(name):
    wrong, count, largest = compared(name, images())
    print(f"\n{name}: {wrong} of {count:,} codes differ, by {largest} at most")
    assert wrong <= count / 100_000 and largest <= 1


@pytest.mark.parametrize("name", NAMES)
def test_embeddings_in_int8_point_where_those_in_float32_do(name):
    """Those of the published arithmetic, too; it loses half a grey level before the first layer."""
    net, pictures = network(name), real_images(3)
    wanted = Oracle(net).forward(pictures).embeddings
    for kind in (Integers, Published):
        each = kind(net)
        found = np.stack([each.embedding(each.run(each.pixels(picture))[-1]) for picture in pictures])
        norms = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
        cosines = (found * wanted).sum(axis=1) / norms
        print(f"\n{name}, {kind.__name__}: cosines {cosines.round(4)}")
        assert cosines.min() > 0.98


def test_the_oracle_notices_a_bias_and_a_factor_that_are_off():
    net, picture = network("mcunet-5fps"), real_images(1)
    right = block(net, 0, 3, picture)[0]
    oracle = Integers(net)
    weights, bias, factor, shift = oracle.parts[2]
    for broken in ((weights, bias + 2**8, factor, shift), (weights, bias, factor + 2**23, shift)):
        oracle.parts[2] = broken
        assert not np.array_equal(oracle.run(oracle.pixels(picture[0]), 0, 2)[-1], right)
