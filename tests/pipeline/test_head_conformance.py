"""Every registered head keeps its promises, and the kit says which one a broken head breaks."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases import each, quick

from tinytrain.heads.cosine import Cosine, CosineHead
from tinytrain.heads.head import ANSWERING, FITTING, UNKNOWN, HeadBuffer, HeadVerdict
from tinytrain.heads.lda import Lda
from tinytrain.heads.registry import HEADS, find_head
from tinytrain.heads.scatter_head import ScatterHead
from tinytrain.pipeline.conformance import ConformanceError
from tinytrain.pipeline.head_conformance import ANY_ORDER, INCREMENTAL, KEEPS_CLASSES, check_head

SUMS = {INCREMENTAL, ANY_ORDER}  # what heads of sums over all images have
PROPERTIES = dict.fromkeys(("cosine", "ridge", "lda", "mild-lda", "slda"), SUMS) | {
    "imprint": SUMS | {KEEPS_CLASSES},
    "oselm": {ANY_ORDER},
}
BACKENDS = pytest.mark.parametrize("backend", quick(["auto", "numpy"]))


@BACKENDS
@pytest.mark.parametrize("name", list(HEADS))
def test_every_registered_head_keeps_its_promises(name, backend):
    checked = check_head(HEADS[name], backend)
    assert find_head(name).name == name and min(checked.nbytes.values()) > 0
    assert checked.properties >= PROPERTIES.get(name, set())


def test_bytes_of_a_delta_are_known_before_anything_is_fitted():
    """Weights and means, an offset and a count for each class; LDA has sums, and those of a triangle."""
    weights, more = 4 * 200 * 8, 8 * 200
    assert check_head(HEADS["cosine"]).nbytes[200, 8] == 2 * weights + more
    assert check_head(HEADS["lda"]).nbytes[200, 8] == 3 * weights + more + 8 * 8 * 9 // 2


class Broken(Cosine):
    """A cosine head that breaks one promise; `changed` is made of a head that keeps them."""

    name = "broken"

    def fit(self, kernels, arrays, support):
        return self.changed(super().fit(kernels, arrays, support))

    def changed(self, head):
        return head


def head_of(promises=None, **methods):
    """A broken method whose fitted head has these methods, and which makes these `promises` beside."""
    head = dataclass(frozen=True, eq=False)(type("BrokenHead", (CosineHead,), methods))
    return type("WithHead", (Broken,), {"head": head, **(promises or {})})()


def method_of(**methods):
    return type("Method", (Broken,), methods)()


def with_buffer(name, lifetime):
    def buffers(self, way, size):
        return (*Cosine().buffers(way, size), HeadBuffer(name, (3,), lifetime))

    return buffers


def spoils_images(self, kernels, arrays, support):
    for embeddings, _ in support.clean():
        embeddings *= 2
    return Broken.fit(self, kernels, arrays, support)


def adds_to_what_was_there(self, kernels, arrays, support):
    was_nan = np.isnan(arrays["offsets"][0])
    head = Broken.fit(self, kernels, arrays, support)
    head.offsets[0] = 0.1 * was_nan
    return head


def fails_at_single_images(self, kernels, arrays, support):
    1 / (min(support.images.tolist()) - 1)
    return Broken.fit(self, kernels, arrays, support)


def knows_100_classes(self, kernels, embeddings, labels):
    np.eye(100)[labels]
    CosineHead.update(self, kernels, embeddings, labels)


def keeps_every_image(self, kernels, embeddings, labels):
    CosineHead.update(self, kernels, embeddings, labels)
    object.__setattr__(self, "means", np.vstack([self.means, embeddings]))


def learns_the_last(self, kernels, embeddings, labels):
    for label in np.unique(labels):
        last = np.flatnonzero(labels == label)[-1:]
        CosineHead.update(self, kernels, embeddings[last], labels[last])


def the_first_count_most(self, kernels, embeddings, labels):
    """Every image as often as there are images to come that nobody knows of: less and less."""
    for e, label in zip(embeddings, labels, strict=True):
        times = max(1, 40 - 4 * int(self.counts.sum() - 15))
        CosineHead.update(self, kernels, np.repeat(e[None], times, axis=0), np.repeat(label, times))


def decays(self, kernels, embeddings, labels):
    CosineHead.update(self, kernels, embeddings, labels)
    if self.counts.sum() > 900:
        self.weights[:] = self.weights[0]


def centred(self, embeddings):
    logits = CosineHead.logits(self, embeddings)
    return logits - logits.mean(axis=1, keepdims=True)


def ignores_new_classes(self, kernels, embeddings, labels):
    if self.counts[labels].all():
        CosineHead.update(self, kernels, embeddings, labels)


def other_numpy(self, kernels, arrays, support):
    head = Broken.fit(self, kernels, arrays, support)
    head.offsets[0] = 0.2 if kernels.backend == "numpy" else 0
    return head


def by_length(self, embeddings):
    return embeddings @ self.weights.T


def writes_when_it_answers(self, embeddings):
    self.offsets[:] += 1e-3
    return CosineHead.logits(self, embeddings)


def no_copy(self, way):
    return self if way == len(self.counts) else CosineHead.extended(self, way)


def spoilt(array, factor):
    array *= factor
    return array


def never_rejects(self, embedding, reject=None):
    return HeadVerdict(0, 0.5, False, self.probabilities(embedding[None])[0])


def always_unknown(self, embedding, reject=None):
    return replace(CosineHead.verdict(self, embedding, reject), state=UNKNOWN)


@dataclass(frozen=True, eq=False)
class SteepHead(CosineHead):
    slope: float = 1.0

    def logits(self, embeddings):
        return self.slope * super().logits(embeddings)


class Forgetful(Broken):
    """Part of what it answers by is in no tensor."""

    head = SteepHead

    def changed(self, head):
        return replace(head, slope=2.0)


@dataclass(frozen=True, eq=False)
class FrozenHead(ScatterHead):
    """The covariance of the first images is not that of all."""

    def update(self, kernels, embeddings, labels):
        before = self.moments
        super().update(kernels, embeddings, labels)
        self.products[:] = self.method.shrunk(before, self)
        scatter = np.empty(self.products.shape, np.float32)
        self.method.follow(kernels, self, self.means, scatter, self.counts / self.views)


class Premature(Lda):
    name, head = "premature", FrozenHead


def with_limit(**values):
    """A broken method whose limit is changed."""
    return method_of(
        changed=lambda self, head: replace(head, limit=head.limit and head.limit._replace(**values))
    )


COUNTER = itertools.count()


def another_buffer(self, way, size):
    return with_buffer(f"b{next(COUNTER)}", FITTING)(self, way, size)


BROKEN = {
    "a name for people": (method_of(name="My head"), "must have a name of small letters"),
    "other buffers each time": (method_of(buffers=another_buffer), "declares other buffers when asked again"),
    "a buffer twice": (method_of(buffers=with_buffer("means", FITTING)), "declares means twice"),
    "no such lifetime": (method_of(buffers=with_buffer("more", "forever")), "for the lifetime 'forever'"),
    "sized by a row": (method_of(sized_by="offsets"), "is sized by offsets"),
    "declares what it does not have": (
        method_of(buffers=with_buffer("more", ANSWERING)),
        "does not have more as declared when fitted",
    ),
    "has other numbers than it declares": (
        method_of(changed=lambda self, head: replace(head, counts=head.counts.astype(np.float32))),
        "does not have counts as declared when fitted",
    ),
    "arrays of its own": (
        method_of(changed=lambda self, head: replace(head, weights=head.weights.copy())),
        "has weights outside of the buffer",
    ),
    "NaN": (
        method_of(changed=lambda self, head: replace(head, offsets=spoilt(head.offsets, np.nan))),
        "holds NaN or infinity when fitted",
    ),
    "a temperature of 0": (
        method_of(changed=lambda self, head: replace(head, temperature=0.0)),
        "has a temperature, left_out or views that mean nothing",
    ),
    "fails where images are few": (
        method_of(fit=fails_at_single_images),
        "raises ZeroDivisionError for one image of each class",
    ),
    "knows 100 classes": (head_of(update=knows_100_classes), "raises IndexError for 200 classes"),
    "spoils its images": (method_of(fit=spoils_images), "writes to the embeddings that it is fitted to"),
    "reads what the memory held": (
        method_of(fit=adds_to_what_was_there),
        "differs with what its memory held before",
    ),
    "answers by length": (head_of(logits=by_length), "answers by the length of an embedding"),
    "changes when it answers": (head_of(logits=writes_when_it_answers), "changes itself or the embeddings"),
    "never rejects": (head_of(verdict=never_rejects), "does not reject what it is less sure of"),
    "guesses": (
        method_of(changed=lambda self, head: replace(head, weights=spoilt(head.weights, -1))),
        "is right about .* of new images",
    ),
    "other answers by numpy": (method_of(fit=other_numpy), "answers otherwise with numpy kernels"),
    "grows": (head_of(update=keeps_every_image), "does not have means as declared after an update"),
    "writes to the old head": (head_of(extended=no_copy), "changes the head that it was extended from"),
    "learns one image of many": (head_of(update=learns_the_last), "learns otherwise from images one by one"),
    "learns no new class": (head_of(update=ignores_new_classes), "does not know a new class"),
    "lets strangers through": (with_limit(least=-1e9), "refuses 0% of strangers"),
    "refuses everything": (with_limit(least=1e9), "refuses 100% of new images of its classes"),
    "refuses in secret": (
        head_of({"limited": False}, verdict=always_unknown),
        "refuses images, and says that it cannot tell strangers",
    ),
    "a state of its own": (
        head_of(state=lambda self, embedding, logits, confidence: "perhaps"),
        "says 'perhaps', which is none of identified, uncertain, unknown",
    ),
    "loses itself in a stream": (head_of(update=decays), "is right about .* after 1000 updates"),
    "other buffers for few images": (
        method_of(buffers_for=lambda self, way, size, _: another_buffer(self, way, size)),
        "declares other buffers when asked again",
    ),
    "state in no tensor": (Forgetful(), "does not come back from a delta file as it was"),
    "does not know itself": (head_of(problem=lambda self: "no head"), "is refused .*file-damaged: .*no head"),
}


@each("name", BROKEN)
def test_a_broken_head_is_caught_in_one_sentence(name):
    method, sentence = BROKEN[name]
    with pytest.raises(ConformanceError, match=sentence) as caught:
        check_head(method)
    assert str(caught.value).startswith(f"head {method.name} ") and "\n" not in str(caught.value)


def test_a_head_has_only_the_properties_that_were_found():
    by_order = head_of({"limited": False}, update=the_first_count_most)
    turned = head_of({"limited": False}, logits=centred)
    assert INCREMENTAL not in check_head(Premature()).properties
    assert ANY_ORDER not in check_head(by_order).properties
    assert KEEPS_CLASSES not in check_head(turned).properties


def test_what_a_broken_head_is_made_of_breaks_nothing():
    check_head(Broken())
    check_head(head_of())
