"""Deltas that Python wrote, on the device: the same predictions and bits; others are refused."""

import subprocess
from dataclasses import replace

import emitted
import int8nets
import numpy as np
import pytest
import toynets
from cases import quick
from emitted import HERE, emit, plan_of

from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.heads.out_of_distribution import UNSURE, Limit
from tinytrain.runtime.answers import labels_of

COMPILERS = emitted.compilers()
BAD_DELTA = -6

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler is here: install gcc or clang")


def others(delta):
    """Deltas that are not for this network, plan and classes, by what is different."""
    first = next(k for k, s in enumerate(delta.slices) if s.part == "weight")
    slices, s = list(delta.slices), delta.slices[first]
    less = replace(s, channels=s.channels[1:], values=np.ascontiguousarray(s.values[:, 1:]))
    return {
        "backbone": replace(delta, backbone="0" * 64),
        "classes": replace(delta, class_names=("class 0", "class 2")),
        "fewer channels": replace(delta, slices=(*slices[:first], less, *slices[first + 1 :])),
        "an array less": replace(delta, slices=tuple(slices[1:])),
        "refused by the guard": replace(delta, slices=()),
        "views": replace(delta, head=replace(delta.head, views=delta.head.views + 1)),
    }


def verdict_of(head, words: list[str]) -> tuple[float, int]:
    """Confidence and state by `head` of logits, whose bits are `words`."""
    logits = np.array([int(word, 16) for word in words], np.uint32).view(np.float32)
    powers = np.exp((logits - logits.max()) / np.float64(head.temperature))
    confidence = float(1 / powers.sum())
    if head.limit is None:
        return confidence, 0
    return confidence, 2 if not head.limit.admits(logits) else int(confidence < UNSURE)


@pytest.mark.parametrize(
    ("precision", "head", "compiler"),
    quick(
        [
            ("float32", "lda", COMPILERS[0] if COMPILERS else ""),
            ("int8", "cosine", COMPILERS[-1] if COMPILERS else ""),
        ]
    ),
)
def test_a_delta_from_python_answers_alike_and_others_are_refused(precision, head, compiler, tmp_path):
    """With a report, and numbers of any form for what its head knows; damaged anywhere it is refused."""
    network = {"float32": toynets.toy, "int8": int8nets.toy8}[precision]("headed")
    plan = plan_of(network, 2, 3, head, 60_000, 0.3, precision=precision, steps=3)
    emit(tmp_path, network, plan, seed=3)
    support, query = emitted.classes_of(network, 2, 3, 1), emitted.classes_of(network, 2, 4, 2)
    query = emitted.with_strangers(query)
    want = emitted.in_python(network, plan, support, query, seed=3)
    plain = decode_delta(*decode(want["delta"]))
    report = {"said": 'a "text" with \\ in it', "more": ["}", {"kind": "head"}]}
    described = replace(plain.head, limit=Limit(50.5, -1.00000049e-5), temperature=12.34567890123)
    unlimited = replace(plain, head=replace(plain.head, limit=None, temperature=1e8))
    accepted = {"full": replace(plain, report=report, head=described), "unlimited": unlimited, "plain": plain}
    given = accepted | others(plain)
    for name, delta in given.items():
        (tmp_path / name).write_bytes(encode_delta(delta))
    (tmp_path / "queries").write_bytes(query.tobytes())
    sources = [f"-I{tmp_path / 'src'}", *emitted.library_of(tmp_path), HERE / "loading.c"]
    options = emitted.sanitizers(compiler)
    program = emitted.build(compiler, "-O2", *options, *sources, out=tmp_path / "loading")
    files = [str(tmp_path / name) for name in ("queries", *given)]
    done = subprocess.run([program, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, wrong = done.stdout.splitlines()
    assert wrong == "0", "so many damaged deltas were accepted"
    results = {name: line.split() for name, line in zip(given, lines, strict=True)}
    assert {int(words[0]) for name, words in results.items() if name not in accepted} == {BAD_DELTA}
    for name in accepted:
        code, *answers, saved = results[name]
        assert code == "0"
        assert [int(a.partition(":")[0]) for a in answers] == labels_of(want["answers"][0]).tolist()
        again = decode_delta(*decode(bytes.fromhex(saved)))
        assert [(s.layer, s.part, s.channels.tolist(), s.values.tobytes()) for s in again.slices] == want[
            "slices"
        ]
        assert {n: a.tobytes() for n, a in again.head.tensors().items()} == want["head"]
        head = given[name].head
        assert again.head.temperature == float(f"{head.temperature:.6e}")
        assert again.head.left_out == float(f"{head.left_out:.6e}")
        assert again.head.limit == (head.limit and Limit(*(float(f"{x:.6e}") for x in head.limit[:2])))
        verdicts = [verdict_of(head, a.split(":")[1:-2]) for a in answers]
        for found, expected in zip(answers, verdicts, strict=True):
            confidence, state = found.split(":")[-2:]
            assert float(confidence) == pytest.approx(expected[0], abs=1e-5) and int(state) == expected[1]
