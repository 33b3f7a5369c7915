"""What rows instead of whole layers save on the three published networks, as the page of results says it."""

import numpy as np
import pytest
from published import published_network
from toynets import relative
from toysegments import forward_segment, limit_row_tiles, ran

from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.program.autodiff.emitter import Emitter

WHOLE = 10**9  # bytes of a row tile that holds every layer


def forward(network):
    """(arena bytes, embedding) of one random image."""
    segment, source = forward_segment(network, 0, len(network.layers), 1)
    image = np.random.default_rng(0).integers(0, 256, source.shape, dtype=np.uint8)
    (embedding,) = ran(segment, network, {source: image})
    return segment.nbytes, embedding


def smallest(network):
    """Bytes of the smallest budget for 25 images of 5 classes, as refusals name it."""
    limits = Budget(precision="float32")
    return Planner(network, TaskShape(25, 5), "tinytrain", limits).smallest_budget(None)


@pytest.mark.parametrize(
    "name,passes,budgets",
    [
        ("mcunet-5fps", (655_360, 161_344), (850_816, 356_800)),
        ("mbv2-w0.35", (983_040, 122_880), (1_112_832, 252_672)),
        ("proxyless-w0.3", (524_288, 165_440), (637_568, 278_720)),
    ],
)
def test_rows_take_less_than_a_third_of_the_bytes_and_give_the_same_embedding(
    monkeypatch, name, passes, budgets
):
    network = published_network(name)
    fused, embedding = forward(network)
    least = smallest(network)
    limit_row_tiles(monkeypatch, WHOLE)
    monkeypatch.setattr(Emitter, "streams", lambda *_: 0)
    whole, want = forward(network)
    assert relative(embedding, want) < 1e-5
    assert ((whole, fused), (smallest(network), least)) == (passes, budgets)
