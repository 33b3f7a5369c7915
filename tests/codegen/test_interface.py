"""What a program calls on a device: wrong calls, refusals, plans without quotas, and the order of scores."""

import ctypes
import json
import platform
import re
import shutil
import subprocess
from dataclasses import replace

import emitted
import numpy as np
import pytest
import toynets
from cases import each, quick
from emitted import Library, emit, plan_of
from int8nets import toy8

from tinytrain.base.safetensors import decode, encode
from tinytrain.codegen.device import for_one_core
from tinytrain.codegen.folder import PROJECT, SOURCES
from tinytrain.delta.file import load_delta
from tinytrain.plan.recipe import most

OK, NOT_FINITE, LOSS_ROSE, BAD_LABEL, FULL, INCOMPLETE, NOT_READY = 0, 1, 2, -1, -2, -3, -4
LOGITS_NOT_FINITE = -5
BAD_DELTA, ARITHMETIC = -6, -10
NETWORK = toynets.toy("headed")

MAIN = """
int tt_rounds_as_written(void);
#ifdef FLUSH
#include <xmmintrin.h>
#endif
int main(void)
{
#ifdef FLUSH
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
    return tt_rounds_as_written();
}
"""

pytestmark = pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang")


def images_of(n: int, seed: int = 1) -> np.ndarray:
    return toynets.images_of(NETWORK.input.shape, n, seed)


def library(folder, **changes) -> Library:
    emit(folder, NETWORK, plan_of(NETWORK, 2, 2, "cosine", 60_000, steps=4, **changes), seed=3)
    return Library(folder)


def test_calls_that_come_too_early_or_are_wrong_say_so(tmp_path):
    c, images = library(tmp_path), emitted.classes_of(NETWORK, 2, 2, 1)
    c.tt_init()
    assert (c.predict(images[0]), c.save(), c.tt_adapt(None)) == (NOT_READY, NOT_READY, INCOMPLETE)
    assert (c.add(2, images[0]), c.add(2**32 - 1, images[0])) == (BAD_LABEL, BAD_LABEL)
    assert [c.add(0, image) for image in images[:3]] == [OK, OK, FULL]
    assert c.tt_adapt(None) == INCOMPLETE
    assert [c.add(1, image) for image in images[2:]] == [OK, OK]
    logits = np.float32([1, 2])
    assert c.verdict(logits) == NOT_READY
    assert c.tt_adapt(None) == OK and isinstance(c.save(), bytes) and c.predict(images[0]) in (0, 1)
    assert c.verdict(logits)[0] == 1 and c.verdict(logits[::-1])[0] == 0
    for wrong in ([np.nan, 1], [1, np.nan], [np.inf, 1], [1, np.inf], [-np.inf] * 2):
        assert c.verdict(np.float32(wrong)) == LOGITS_NOT_FINITE
    c.tt_reset()
    assert (c.predict(images[0]), c.save(), c.tt_adapt(None)) == (NOT_READY, NOT_READY, INCOMPLETE)
    assert c.verdict(logits) == NOT_READY


def test_what_the_header_sends_to_the_readme_for_is_explained_there():
    sent = re.findall(r"(TT_\w+) = .*see README\.md", (SOURCES / "tinytrain.h").read_text())
    assert sent and all(f"`{name}`" in (PROJECT / "README.md").read_text() for name in sent)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A library for four classes, and tensors and metadata of what it has learnt."""
    folder = tmp_path_factory.mktemp("learnt")
    emit(folder, NETWORK, plan_of(NETWORK, 4, 2, "cosine", 60_000, steps=2), seed=3)
    c = Library(folder)
    assert c.learn(emitted.classes_of(NETWORK, 4, 2, 1)) == OK
    return c, *decode(c.save())


@each(
    ("facts", "state"),
    [
        ({"limit": {"scale": 0.5, "least": -1.0}}, 0),
        ({"limit": {"scale": 0.5, "least": -1.0}, "temperature": 100.0}, 1),
        ({"limit": {"scale": 0.5, "least": 3.0340}}, 0),
        ({"limit": {"scale": 0.5, "least": 3.0342}}, 2),
        ({"temperature": 100.0}, 0),
    ],
)
def test_what_a_delta_says_of_its_head_decides_verdicts(facts, state, learnt):
    """The energy of the logits is 3.0341; without a limit all is identified, whatever the confidence."""
    c, tensors, metadata = learnt
    head = json.loads(metadata["head"]) | {"temperature": 1.0}
    del head["limit"]
    assert c.load(encode(tensors, metadata | {"head": json.dumps(head | facts, separators=(",", ":"))})) == OK
    temperature = facts.get("temperature", 1.0)
    label, confidence, found = c.verdict(np.float32([0, 3, 1.5, 1]))
    assert (label, found) == (1, state)
    assert confidence == pytest.approx(1 / np.exp(np.array([-3, 0, -1.5, -2]) / temperature).sum(), rel=1e-6)


@each(
    ("old", "new"),
    [
        (r'"scale":[^,]+', '"scale":-1.0'),
        (r'"scale":[^,]+', '"scale":0.0'),
        (r'"least":[^}]+', '"least":--1.0'),
        (r'"least":[^}]+', '"least":- 1.0'),
        (r'"least":[^}]+', '"least":.5'),
        (r'"least":[^}]+', '"least":null'),
        (r'"limit":{[^}]+}', '"limit":null'),
        (r'"limit":{[^}]+}', ""),
        (r'"limit":{[^}]+}', '"views":2'),
        (r'"temperature":[^,]+', '"temperature":-1.0'),
        (r'"temperature":[^,]+', '"temperature":0.0'),
        (r'"left_out":[^,]+', '"left_out":-0.5'),
    ],
)
def test_a_delta_whose_head_python_would_refuse_is_refused(old, new, learnt):
    c, tensors, metadata = learnt
    head, count = re.subn(old, new, metadata["head"])
    assert count == 1 and c.load(encode(tensors, metadata | {"head": head})) == BAD_DELTA
    assert c.load(encode(tensors, metadata)) == OK


@pytest.mark.parametrize(
    ("compiler", "options", "is_right"),
    quick(
        [
            ("clang", "-mfma -ffp-contract=fast", 1),  # withstood
            ("clang", "-fassociative-math -fno-signed-zeros -fno-trapping-math", 0),
            ("clang", "-freciprocal-math", 0),
            ("gcc", "-mfma -ffp-contract=fast", 1),
            ("gcc", "-fassociative-math -fno-signed-zeros -fno-trapping-math", 0),
            ("gcc", "-freciprocal-math", 0),
            ("gcc", "-msse2 -DFLUSH", 0),
        ],
        (0, 3),
    ),
)
def test_options_that_change_sums_and_that_no_macro_tells_are_withstood_or_found(
    compiler, options, is_right, tmp_path
):
    if compiler not in emitted.compilers():
        pytest.skip(f"{compiler} is not installed")
    if platform.machine() != "x86_64" and any(word.startswith("-m") for word in options.split()):
        pytest.skip("options of x86-64")
    source, program = tmp_path / "main.c", tmp_path / "program"
    source.write_text(MAIN)
    emit(tmp_path, NETWORK, plan_of(NETWORK, 2, 2, "cosine", 60_000, steps=4), seed=3)
    command = [
        compiler,
        "-O2",
        f"-I{tmp_path / 'src'}",
        str(source),
        str(tmp_path / "src" / "kernels_math.c"),
    ]
    for given, expected in ((options.split(), is_right), (["-ffp-contract=off"], 1)):
        subprocess.run([*command, *given, "-o", str(program)], check=True)
        assert subprocess.run([program]).returncode == expected, given


def test_a_library_whose_sums_are_changed_learns_and_loads_nothing(tmp_path):
    c, images = library(tmp_path / "a"), emitted.classes_of(NETWORK, 2, 2, 1)
    assert c.learn(images) == OK
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    source = tmp_path / "b" / "src" / "kernels_math.c"
    source.write_text(source.read_text().replace("33554432.0f", "4.0f"))  # as if sums had another order
    changed, delta = Library(tmp_path / "b"), c.save()
    assert (changed.learn(images), changed.load(delta), changed.predict(images[0])) == (
        *[ARITHMETIC] * 2,
        NOT_READY,
    )


@pytest.mark.parametrize(
    ("rate", "code", "last"),
    quick([(3e38, NOT_FINITE, np.isnan), (10.0, LOSS_ROSE, lambda loss: loss > 0.65)]),
)
def test_after_harm_the_network_as_it_was_answers(rate, code, last, tmp_path):
    """Training ends in NaN, or its loss rises."""
    network, found, losses = toynets.toy("blocks"), [], []
    images, asked = images_of(4), images_of(20, 2)
    images[:2] //= 4
    tell = emitted.PROGRESS(lambda stage, done, total, loss: losses.append(loss))
    for given in (rate, 0.0):
        folder = tmp_path / str(given)
        plan = plan_of(network, 2, 2, "cosine", 60_000, steps=4, optimizer="momentum")
        plan = replace(plan, recipe=replace(plan.recipe, rates=((given, given),) * len(plan.recipe.rates)))
        emit(folder, network, plan, seed=3)
        c = Library(folder)
        result = c.learn(images, tell)
        found.append([c.predict(image) for image in asked])
        if given:
            assert (result, c.save()) == (code, NOT_READY)
            assert any(map(last, losses))
    assert found[0] == found[1] and set(found[0]) == {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "inputs"), [("float32", None), ("int8", (5, 0, 2))])
def test_a_plan_without_quotas_trains_the_channels_that_it_names(precision, inputs, tmp_path):
    network = NETWORK if precision == "float32" else toy8("headed")
    plan = plan_of(network, 2, 3, "lda", 60_000, 0.3, quotas=False, precision=precision, steps=12)
    updates = tuple(
        replace(u, channels=(1, 4, 7), inputs=inputs) if u.channels else u for u in plan.recipe.updates
    )
    plan = replace(plan, recipe=replace(plan.recipe, updates=updates))
    plan = for_one_core(plan, network, quotas=False)
    device = emit(tmp_path, network, plan, seed=3)
    support, query = emitted.classes_of(network, 2, 3, 1), images_of(8, 2)
    want = emitted.in_python(network, plan, support, query, seed=3)
    got = emitted.in_c(emitted.compiled(tmp_path, emitted.compilers()[0]), support, query)
    assert device.probe is None and not any(name.startswith("fisher") for name in got)
    assert got["trained"] == want["trained"]
    (tmp_path / "delta.safetensors").write_bytes(got["delta"][0])
    slices = [s for s in load_delta(tmp_path / "delta.safetensors").slices if s.part == "weight"]
    assert {tuple(s.channels.tolist()) for s in slices} == {(1, 4, 7)}
    found = {None if s.inputs is None else tuple(s.inputs.tolist()) for s in slices}
    assert found == {inputs and tuple(sorted(inputs))}


def test_high_scores_are_chosen_as_python_chooses_them_even_beside_nan(tmp_path):
    kernels = emitted.shared(SOURCES.glob("kernels_*.c"), tmp_path / "kernels.so")
    rng = np.random.default_rng(0)
    for trial in range(200):
        scores, count = rng.integers(0, 4, 12).astype(np.float32), trial % 12 + 1
        scores[rng.permutation(12)[:5]] = [np.nan, np.nan, np.inf, -np.inf, np.nan]
        found = np.full(count + 1, -1, np.int32)
        kernels.tt_most(*(a.ctypes.data_as(ctypes.c_void_p) for a in (found, scores)), 12, count)
        assert found.tolist() == [*most(scores, count), -1]
