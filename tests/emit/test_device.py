"""What is emitted: sizes, refusals, and what a reader finds in the files."""

import re
from dataclasses import replace

import numpy as np
import pytest
import toynets
from emitted import emit, plan_of

from tinytrain.base.errors import UsageError
from tinytrain.emit.device import device_of, for_one_core
from tinytrain.emit.text import comment, number
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.plan import Plan
from tinytrain.plan.scores import Scores
from tinytrain.planner.candidates import Programs
from tinytrain.program.memory_planner import check

NETWORK = toynets.toy("headed")


def plan(**changes):
    return plan_of(NETWORK, 2, 2, "cosine", 60_000, steps=2, **changes)


def test_the_arena_is_that_of_the_planner_to_the_byte(tmp_path):
    device = emit(tmp_path, NETWORK, plan())
    said = int(re.search(r"TT_ARENA_BYTES (\d+)u", (tmp_path / "plan.h").read_text())[1])
    assert said == device.arena == max(device.training.nbytes, device.probe.nbytes)
    assert device.arena <= plan().cost.arena
    for program in (device.training, device.probe):
        check(program.layout)


def test_the_memory_map_names_every_buffer_at_its_offset(tmp_path):
    device = emit(tmp_path, NETWORK, plan())
    text = (tmp_path / "plan.h").read_text()
    found = dict(re.findall(r"#define (AT_\w+) (\d+)u", text))
    assert len(found) == sum(len(p.buffers) for p in (device.training, device.probe))
    offsets = {interval.name: offset for offset, interval in device.training.rows()}
    assert int(found["AT_TRAINED_PARAMETERS"]) == offsets["trained parameters"]


def test_the_library_takes_no_memory_and_includes_only_string(tmp_path):
    emit(tmp_path, NETWORK, plan())
    sources = [p for p in tmp_path.rglob("*.[ch]") if p.name != "say_stdio.c"]
    included = {name for p in sources for name in re.findall(r"#include <(.*)>", p.read_text())}
    assert included <= {"string.h", "stdint.h", "stddef.h", "float.h"}
    assert not any(re.search(r"\b(malloc|calloc|realloc|alloca|free)\(", p.read_text()) for p in sources)


def test_no_gradient_of_an_untrained_weight_is_computed(tmp_path):
    device = emit(tmp_path, NETWORK, plan())
    backward = (tmp_path / "adapt.c").read_text().partition("train_backward(")[2].partition("\n}")[0]
    trained = sum(bool(u.channels) for u in device.recipe.updates)
    written = re.findall(r"tt_multiply_transposed\(.*weight gradient scratch", backward)
    assert trained and len(written) >= trained
    assert len(re.findall(r"tt_accumulate\(u->gradients", backward)) == len(written)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (lambda p: replace(p, recipe=p.recipe.in_precision("int8")), "int8; give --precision float32"),
        (lambda p: replace(p, recipe=replace(p.recipe, head="knn")), "its head is knn; give --head"),
        (lambda p: replace(p, task=TaskShape(5, 2)), "different numbers of images; give --shots"),
        (lambda p: replace(p, resources=replace(p.resources, workers=2)), "several workers"),
        (lambda p: replace(p, recipe=replace(p.recipe, updates=())), "trains nothing"),
    ],
)  # fmt: skip
def test_what_has_no_form_in_c_is_refused_with_a_remedy(changed, what):
    with pytest.raises(UsageError, match=f"emit-plan.*{what}"):
        device_of(NETWORK, changed(plan()))


def test_a_network_without_kernels_in_c_is_refused():
    with pytest.raises(UsageError, match=r"emit-network.*no kernel in C; take another backbone"):
        device_of(toynets.toy("residual"), plan())


def test_quotas_keep_numbers_of_channels_and_take_those_with_the_most_fisher_information():
    made = plan()
    layer = made.recipe.measured[0]
    count = len(next(u for u in made.recipe.updates if u.layer == layer).channels)
    fisher = np.zeros(NETWORK.layers[layer].cout, np.float32)
    fisher[-count:] = 1 + np.arange(count)
    chosen = made.recipe.with_channels(Scores({layer: fisher}, 0.0, 0, 0))
    update = next(u for u in chosen.updates if u.layer == layer)
    assert update.channels == tuple(range(len(fisher) - count, len(fisher)))
    equal = made.recipe.with_channels(Scores({layer: np.ones_like(fisher)}, 0.0, 0, 0))
    assert next(u for u in equal.updates if u.layer == layer).channels == tuple(range(count))


def test_a_plan_with_quotas_comes_back_from_its_file():
    made = plan()
    assert made.recipe.options.quotas and Plan.from_json(made.to_json()) == made
    assert for_one_core(made, NETWORK, Programs(NETWORK, made.task)) == made


def test_comments_and_numbers_are_what_c_reads():
    assert comment("a */ b \n") == "/* a * / b ? */"
    for value in np.float32([0, 1, -2.5, 1e-30, 3.4e38, 1 / 3]):
        assert np.float32(float(number(value).removesuffix("f"))) == value
