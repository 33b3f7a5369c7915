"""What is emitted: sizes, refusals, and what a reader finds in the files."""

import json
import re
from dataclasses import replace

import int8nets
import numpy as np
import pytest
import toynets
from cases import each
from documents import ROOT
from emitted import emit, plan_of

from tinytrain.base.errors import UsageError
from tinytrain.codegen.delta import c_delta_table
from tinytrain.codegen.device import device_of, for_one_core
from tinytrain.codegen.folder import PROJECT
from tinytrain.codegen.inputs import SOURCES
from tinytrain.codegen.text import comment, number
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.plan import Plan
from tinytrain.plan.scores import Scores
from tinytrain.planner.planner import Planner
from tinytrain.program.compile import compile_training
from tinytrain.program.memory_planner import check
from tinytrain.program.trained_arrays import slots

NETWORK = toynets.toy("headed")


def plan(**changes):
    return plan_of(NETWORK, 2, 2, "cosine", 60_000, steps=2, **changes)


def test_the_arena_is_that_of_the_larger_program_and_no_more_than_the_planner_says(tmp_path):
    made = plan()
    device, task = emit(tmp_path, NETWORK, made), TaskShape(made.task.n_support, made.task.n_way)
    said = int(re.search(r"TT_ARENA_BYTES (\d+)u", (tmp_path / "src" / "plan.h").read_text())[1])
    assert said == device.arena == max(device.training.nbytes, device.probe.nbytes)
    whole = compile_training(NETWORK, made.recipe, made.resources, task).buffers
    left_out = whole.keys() - device.training.buffers.keys()
    of_python = {"optimizer workspace", "result", "left out (after)", "head before, cosine: lengths"}
    assert left_out == of_python
    spared = sum(whole[name].nbytes for name in left_out)
    assert made.cost.arena - spared <= device.arena <= made.cost.arena
    for program in (device.training, device.probe):
        check(program.layout)


def test_a_plan_brings_the_kernels_of_its_precision_alone(tmp_path):
    network = int8nets.toy8("blocks")
    for precision in ("float32", "int8"):
        made = plan_of(network, 2, 3, "lda", 30_000, 0.9, precision=precision, steps=2)
        device = emit(tmp_path / precision, network, made)
        assert device.arena <= made.cost.arena
        for program in (device.training, device.probe):
            check(program.layout)
        others = {"float32": ("kernels_int8",), "int8": ("kernels_dense", "kernels_float32")}
        names = {path.stem for path in (tmp_path / precision / "src").glob("*.[ch]")}
        assert not any(name.startswith(others[precision]) for name in names)
        called = set(re.findall(r"tt_\w+(?=\()", (tmp_path / precision / "src" / "adapt.c").read_text()))
        assert ("tt_product_codes" in called, "tt_multiply" in called) == (device.int8, not device.int8)


def test_the_memory_map_names_every_buffer_at_its_offset(tmp_path):
    device = emit(tmp_path, NETWORK, plan())
    text = (tmp_path / "src" / "plan.h").read_text()
    found = dict(re.findall(r"#define (AT_\w+) (\d+)u", text))
    assert len(found) == sum(len(p.buffers) for p in (device.training, device.probe))
    assert int(found["AT_TRAINED_PARAMETERS"]) == device.training.offset("trained parameters")


def test_the_library_takes_no_memory_and_includes_only_string(tmp_path):
    emit(tmp_path, NETWORK, plan())
    sources = [p for place in ("src", "examples", "qemu") for p in (tmp_path / place).rglob("*.[ch]")]
    included = {name for p in sources for name in re.findall(r"#include <(.*)>", p.read_text())}
    assert included <= {"string.h", "stdint.h", "stddef.h", "float.h"}
    assert not any(re.search(r"\b(malloc|calloc|realloc|alloca|free)\(", p.read_text()) for p in sources)


@each("page", [ROOT / "docs" / "microcontroller.md", PROJECT / "README.md", SOURCES / "tinytrain.h"])
def test_pages_name_what_the_library_takes_of_the_c_library(page):
    used = {name for p in SOURCES.glob("*.c") for name in re.findall(r"\b((?:mem|str)\w+)\(", p.read_text())}
    assert used == set(re.findall(r"\bmem(?:cpy|move|set|cmp)\b", page.read_text()))


def test_one_gradient_is_computed_of_every_trained_array_and_none_of_others(tmp_path):
    """By its place among the gradients, and of weights by its size: rows of inputs, trained columns."""
    device = emit(tmp_path, NETWORK, plan())
    every = slots(device.network, device.recipe)
    backward = (tmp_path / "src" / "adapt.c").read_text().partition("train_backward(")[2].partition("\n}")[0]
    adds = r"(?:tt_add_transposed|tt_add_column_sums)"
    written = re.findall(adds + r"\(F\(tt_arena.bytes, AT_GRADIENTS\)(?: \+ (\d+))?,", backward)
    assert sorted(int(at or 0) for at in written) == [s.start for s in every]
    products = re.findall(r"tt_add_transposed\(.*?, (\d+), (\d+)\); /\*", backward)
    weights = [s.shape for s in every if s.part == "weight"]
    assert weights and [tuple(map(int, size)) for size in products] == weights[::-1]


@each(
    ("changed", "what"),
    [
        (lambda p: replace(p, recipe=p.recipe.in_precision("int8")), "in int8, but .*float32"),
        (lambda p: replace(p, recipe=replace(p.recipe, head="knn")), "its head is knn; give --head"),
        (lambda p: replace(p, task=TaskShape(5, 2)), "different numbers of images; give --shots"),
        (lambda p: replace(p, resources=replace(p.resources, workers=2)), "several workers"),
        (lambda p: replace(p, recipe=replace(p.recipe, updates=())), "trains nothing"),
    ],
)  # fmt: skip
def test_what_has_no_form_in_c_is_refused_with_a_remedy(changed, what):
    with pytest.raises(UsageError, match=f"unsupported.*{what}"):
        device_of(NETWORK, changed(plan()))


@each(("ways", "shots", "remedy"), [(11, 5, 4), (60, 2, 1)])
def test_more_images_than_a_step_sees_are_refused_with_a_number_of_shots_that_helps(ways, shots, remedy):
    with pytest.raises(UsageError, match=f"a part of the images; give --shots {remedy}$"):
        device_of(NETWORK, plan_of(NETWORK, ways, shots, "cosine", 500_000))
    assert device_of(NETWORK, plan_of(NETWORK, ways, remedy, "cosine", 500_000)).shots == remedy


@each("policy", ["adapterdrop_50", "lora"])
def test_lite_residual_modules_have_no_form_in_c(policy):
    network, task = toynets.toy("blocks"), TaskShape(4, 2)
    made = Planner(network, task, policy, Budget(10**6, 1.0)).plan(None)
    with pytest.raises(UsageError, match=r"unsupported.*lite residual modules; take policy tinytrain"):
        device_of(network, for_one_core(made, network))


def test_a_network_without_kernels_in_c_is_refused():
    with pytest.raises(UsageError, match=r"unsupported.*no kernel in C; take another backbone"):
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
    assert for_one_core(made, NETWORK) == made


def test_python_may_obey_a_plan_for_one_core_that_needs_more_than_the_budget():
    made = plan()
    little = replace(made, budget=replace(made.budget, memory=made.cost.arena - 1000))
    again = for_one_core(little, NETWORK)
    assert again.cost.arena == made.cost.arena
    again.check(NETWORK, made.task, again.budget)


def test_comments_and_numbers_are_what_c_reads():
    assert comment("a */ b \n") == "/* a * / b ? */"
    for value in np.float32([0, 1, -2.5, 1e-30, 3.4e38, 1 / 3]):
        assert np.float32(float(number(value).removesuffix("f"))) == value


def test_a_name_that_looks_like_a_part_of_the_header_breaks_nothing(tmp_path):
    """The device writes its texts into the header: behind the names, whatever they are."""
    names = ("img" + "0" * 64, '"temperature":1.000000e+00,"limit":{"scale":', '"file_sha256":"' + "0" * 64)
    device = device_of(replace(NETWORK, name=names[1]), plan_of(NETWORK, 3, 2, "cosine", 60_000, steps=2))
    text = "\n".join(c_delta_table(device, names))
    found = re.search(r"tt_delta_header\[\d+\] = \{(.*?)\}", text, re.S)[1]
    header = bytes(map(int, found.split(",")))
    sum_at = int(re.search(r"tt_delta_sum_at = (\d+)u", text)[1])
    places, ends = (
        re.search(rf"tt_delta_facts_{name}\[4\] = {{(.*?)}}", text, re.S)[1] for name in ("at", "end")
    )
    facts = json.loads(header[8:])["__metadata__"]
    assert json.loads(facts["classes"]) == list(names)
    written = bytearray(header)
    written[sum_at : sum_at + 64] = b"1" * 64
    numbers = b"2.345678e-01", b"5.000000e-01", b"1.500000e+01", b"-7.000000e-03"
    for at, end, given in zip(places.split(","), ends.split(","), numbers, strict=True):
        written[int(at) : int(end)] = given
    again = json.loads(written[8:])["__metadata__"]
    head = json.loads(again["head"])
    assert again["file_sha256"] == "1" * 64 and len(written) == len(header)
    assert (head["temperature"], head["left_out"]) == (0.2345678, 0.5)
    assert head["limit"] == {"scale": 15.0, "least": -0.007}
    changed = {"file_sha256", "head"}
    assert {k: v for k, v in again.items() if k not in changed} == {
        k: v for k, v in facts.items() if k not in changed
    }
