"""Deltas of several devices as one: sums add to the bits of all images together, layers by their images."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from devices import LABELS, NAMES, SIZE, WAY, X, delta_of, having, merged

import tinytrain
from tinytrain import kernels
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.classes import forget, rename
from tinytrain.delta.delta import Slice
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.delta.merge import AVERAGED, KEPT, SAME, SAME_IMAGES, SAME_NAME, UNTRAINED, sources_of, without
from tinytrain.heads.by_means import warmth_of
from tinytrain.heads.head import UNKNOWN
from tinytrain.network.replay import Replay

CLIENTS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]  # classes of each: nobody has those of another


def layer(values, channels=(1, 4)):
    values = np.asarray(values)
    return Slice(3, "weight", np.array(channels, np.int32), values)


@pytest.fixture(scope="module")
def clients():
    return [delta_of(having(classes)) for classes in CLIENTS]


def test_what_was_adapted_in_one_backend_is_merged_for_it_and_layers_of_others_are_kept_apart():
    ones, twos = layer(np.ones((6, 2), "f")), layer(np.full((6, 2), 2, "f"))
    there, also, elsewhere = (
        delta_of(having(classes), slices=[s], arithmetic=name)
        for classes, s, name in (
            ((0, 1, 2), ones, "noisy:0.1:3"), ((3, 4), twos, "noisy:0.1:3"), ((5, 6), twos, None),
        )
    )  # fmt: skip
    same, other = merged(there, also), merged(there, elsewhere)
    assert (same.layers, other.layers) == (AVERAGED, KEPT)
    assert same.delta.precision == other.delta.precision == "noisy:0.1:3"


@each("kind", ["slda", "lda", "mild-lda", "ridge"])
def test_five_devices_with_two_classes_each_make_the_head_of_all_images_byte_for_byte(kind):
    joint = delta_of(np.arange(len(X)), kind)
    found = merged(*(delta_of(having(classes), kind) for classes in CLIENTS)).delta
    assert found.class_names == joint.class_names == NAMES
    theirs = joint.head.tensors()
    for name, values in found.head.tensors().items():
        assert values.dtype == theirs[name].dtype and values.tobytes() == theirs[name].tobytes(), name


@each("seed", range(4))
def test_no_order_and_no_grouping_changes_a_byte_of_the_file(clients, seed):
    clients = [replace(delta, backbone_name=f"name {k}") for k, delta in enumerate(clients)]
    whole = encode_delta(merged(*clients).delta)
    order = np.random.default_rng(seed).permutation(len(clients))
    shuffled = [clients[k] for k in order]
    assert encode_delta(merged(*shuffled).delta) == whole
    first = merged(*shuffled[: 2 + seed % 3]).delta
    again = decode_delta(*decode(encode_delta(first)))
    assert encode_delta(merged(*shuffled[2 + seed % 3 :], again).delta) == whole


def test_few_embeddings_and_sums_add_as_well():
    few, many = delta_of(having((0, 1), slice(10))), delta_of(having((0, 1), slice(10, None)))
    assert few.head.embeddings is not None and many.head.products is not None
    found, joint = merged(few, many).delta, delta_of(having((0, 1)))
    assert found.head.products.tobytes() == joint.head.products.tobytes()
    assert found.head.weights.tobytes() == joint.head.weights.tobytes()
    assert found.head.images.tolist() == joint.head.counts.tolist()


def test_the_result_is_as_sure_as_its_parts_and_refuses_strangers():
    parts = [delta_of(having(range(WAY), slice(k, None, 4)), "lda") for k in range(4)]
    found, joint = merged(*parts).delta.head, delta_of(np.arange(len(X)), "lda").head
    assert found.temperature == pytest.approx(joint.temperature, rel=0.5)
    rng = np.random.default_rng(0)
    strangers = -X[:100] + 0.1 * rng.standard_normal((100, SIZE)).astype("f")
    refused = [found.verdict(e).state == UNKNOWN for e in strangers]
    own = [found.verdict(e).state == UNKNOWN for e in X]
    assert np.mean(refused) > 0.9 and np.mean(own) < 0.1


def test_how_sure_a_head_is_does_not_depend_on_what_all_logits_have_in_common():
    head = delta_of(np.arange(len(X)), "lda").head
    raised = replace(head, offsets=head.offsets + np.float32(5))
    assert warmth_of(raised) == pytest.approx(warmth_of(head), rel=1e-4)


def test_views_of_an_image_count_as_the_image():
    delta = delta_of(having((0, 1, 2)))
    seen = replace(delta, head=replace(delta.head, views=4))
    found = merged(
        seen, replace(delta_of(having((3, 4))), head=replace(delta_of(having((3, 4))).head, views=4))
    )
    assert found.images == (30, 20) and found.delta.head.views == 4
    assert found.delta.head.images.tolist() == [10] * 5


def test_images_of_a_class_are_counted_whatever_views_each_delta_has_of_them(clients):
    some = clients[1]
    doubled = some.head.method.of_moments(kernels.load(), some.head.moments + some.head.moments, views=2)
    others = replace(some, head=doubled), clients[2], clients[2]
    found = tinytrain.merge([clients[0], *others]).to_json()["classes"]
    assert found == {name: np.sum(NAMES.index(name) == LABELS) for name in NAMES[:6]}


def test_a_delta_that_is_given_twice_counts_once(clients):
    once = merged(*clients)
    twice = merged(*clients, clients[1])
    assert twice.left_out == ("delta 5",) and once.left_out == ()
    assert encode_delta(twice.delta) == encode_delta(once.delta)
    renamed = rename(clients[1], NAMES[2], "other")
    again = merged(*clients, renamed)
    assert again.left_out == ("delta 5",) and encode_delta(again.delta) == encode_delta(once.delta)
    (conflict,) = again.conflicts
    assert conflict == (
        SAME_IMAGES,
        "delta 5 has the images of delta 1 under other names, which are not used",
    )
    inside = merged(clients[0], merged(*clients).delta)
    assert inside.left_out == ("delta 0",) and encode_delta(inside.delta) == encode_delta(once.delta)


def test_deltas_that_share_a_part_cannot_be_added(clients):
    one, other = merged(*clients[:3]).delta, merged(*clients[2:]).delta
    with pytest.raises(InputError, match=r"bad-value: delta \d and delta \d share 1 of what they were"):
        merged(one, other)


def test_a_merged_delta_still_knows_its_parts_when_it_has_learnt_or_forgotten(clients):
    whole = merged(*clients[:3]).delta
    head = whole.head.extended(6)
    head.update(kernels.load(), X[:1], np.array([0], np.int32))
    learnt, forgot = replace(whole, head=head), forget(whole, NAMES[0])
    for changed in (learnt, forgot):
        assert merged(changed, clients[1]).left_out == ("delta 1",)
        assert merged(changed, whole).left_out == ("delta 1",)
    assert merged(learnt, clients[3]).images == (241, 80)
    with pytest.raises(InputError, match="share 3 of what they were made of"):
        merged(learnt, forgot)


@each("kind", ["lda", "ridge"])
def test_what_one_part_brought_can_be_taken_out_to_the_byte(kind):
    parts = [delta_of(having(classes), kind) for classes in CLIENTS] + [
        delta_of(having((0, 5, 9), slice(7)), kind)
    ]
    whole = decode_delta(*decode(encode_delta(merged(*parts).delta)))
    for k, part in enumerate(parts):
        others = merged(*parts[:k], *parts[k + 1 :]).delta
        assert encode_delta(taken(whole, part)) == encode_delta(others)
    some = merged(*parts[1:4]).delta
    assert encode_delta(taken(whole, some)) == encode_delta(merged(parts[0], *parts[4:]).delta)


def taken(whole, part):
    return without(kernels.load(), whole, part, ("whole", "part"))


def test_a_part_is_taken_out_of_a_delta_that_has_learnt_since_and_what_is_no_part_is_refused(clients):
    whole = merged(*clients[:3]).delta
    head = whole.head.extended(6)
    head.update(kernels.load(), X[having([3], slice(1))], np.array([3], np.int32))
    rest = taken(replace(whole, head=head), clients[0])
    assert rest.class_names == NAMES[2:6] and rest.head.counts.tolist() == [40, 41, 40, 40]
    assert sorted(row["images"] for row in sources_of(rest)) == [1, 80, 80]
    for part, text in ((clients[3], "part is none of what"), (whole, "part is all of what")):
        with pytest.raises(InputError, match=f"bad-value: {text} whole was made of"):
            taken(whole, part)
    with pytest.raises(InputError, match="unknown-class"):
        taken(forget(whole, NAMES[0]), clients[0])


def test_the_same_images_in_two_deltas_are_named_where_they_can_be_seen():
    one, other = delta_of(having((0, 1), slice(8))), delta_of(having((0, 1), slice(5, 13)))
    (conflict,) = merged(one, other).conflicts
    assert conflict.kind == SAME_IMAGES and conflict.text.startswith("3 images are in delta 0 and in delta 1")
    two_views = replace(one, head=replace(one.head, views=2))
    assert merged(two_views, other).conflicts[0].text.startswith("2 images are in"), "three of their views"
    assert merged(one, delta_of(having((0, 1), slice(8, 16)))).conflicts == ()


def test_one_name_for_two_things_is_said():
    one = delta_of(having((0, 1, 2), slice(0, None, 2)))
    other = delta_of(having((2, 3, 4), slice(1, None, 2)))
    assert merged(one, other).conflicts == ()
    wrong = rename(delta_of(having((3, 4), slice(1, None, 2))), NAMES[3], NAMES[0])
    (conflict,) = merged(one, wrong).conflicts
    assert (
        conflict.kind == SAME_NAME
        and "'class 0' looks like two things in delta 0 and delta 1" in conflict.text
    )


def test_layers_are_averaged_by_images_where_all_trained_the_same_channels():
    sizes, values = (30, 60, 10), [np.full((9, 2), v, np.float32) for v in (1, 2, -3)]
    deltas = [
        delta_of(having((0, 1, 2), slice(a, a + n)), slices=[layer(v)])
        for a, n, v in zip((0, 30, 90), sizes, values, strict=True)
    ]
    found = merged(*deltas)
    assert found.layers == AVERAGED and found.images == sizes
    assert found.delta.slices[0].values == pytest.approx((30 * 1 + 60 * 2 - 10 * 3) / 100)
    for order in itertools.permutations(deltas):
        assert encode_delta(merged(*order).delta) == encode_delta(found.delta)
    large = np.float32(2**60)  # beside which floats lose a 1, unless they are added in one order
    equal = [
        replace(delta_of(having((k, k + 1, k + 2))), slices=(layer(np.full((9, 2), v, "f")),))
        for k, v in zip((0, 3, 6), (large, 1, -large), strict=True)
    ]
    assert len({encode_delta(merged(*order).delta) for order in itertools.permutations(equal)}) == 1
    whole = [
        replace(d, slices=(layer(np.full((9, 2), v, np.int8)),))
        for d, v in zip(equal, (1, 2, 2), strict=True)
    ]
    assert (merged(*whole).delta.slices[0].values == np.full((9, 2), 2, np.int8)).all(), "the nearest step"
    same = merged(*(replace(delta, slices=(layer(values[0]),)) for delta in deltas))
    assert same.layers == SAME and same.delta.slices[0].values.tobytes() == values[0].tobytes()
    assert merged(*(replace(delta, slices=()) for delta in deltas)).layers == UNTRAINED


@each(
    "other",
    [(), (layer(np.ones((9, 2), "f"), (1, 5)),), (replace(layer(np.ones((9, 2), "f")), layer=2),)],
    ids=lambda other: len(other),
)
def test_layers_that_differ_are_kept_from_the_delta_with_most_images(other):
    large = delta_of(having((0, 1), slice(40)), slices=[layer(np.ones((9, 2), "f"))])
    small = delta_of(having((2, 3), slice(30)), slices=other)
    found = merged(small, large)
    assert found.layers == KEPT and found.largest == "delta 1" and found.delta.slices == large.slices


def test_a_replay_memory_is_left_out_and_what_was_forgotten_is_kept(clients):
    codes, ranges = np.zeros((2, 2, 2, 2), np.uint8), np.ones((2, 2), np.float32)
    memory = Replay(1, codes, ranges, np.array([0, 1], np.int32))
    forgot = replace(clients[1], report={"forgotten": {"classes": 1, "traces": ["head"]}}, replay=memory)
    found = merged(clients[0], forgot)
    assert found.without_replay and found.delta.replay is None
    assert found.delta.report["forgotten"] == {"classes": 1, "traces": ["head"]}
    assert not merged(*clients).without_replay


def test_what_does_not_go_together_is_refused(clients):
    with pytest.raises(InputError, match=r"backbone-mismatch: delta 0 belongs to made up \(0+\), delta 1 to"):
        merged(clients[0], replace(clients[1], backbone="1" * 64))
    with pytest.raises(UsageError, match="unsupported: delta 0 has head slda, delta 1 has lda"):
        merged(clients[0], delta_of(having(CLIENTS[1]), "lda"))
    with pytest.raises(UsageError, match="unsupported: delta 0 has the head cosine, which has no sums"):
        merged(delta_of(having(CLIENTS[1]), "cosine"), clients[0])


@each(
    "row",
    [{}, {"sums": 3, "images": 1, "warmth": 0.1}, {"sums": "a", "images": 1e9, "warmth": 0.1}, 7,
     {"sums": "a", "images": 0, "warmth": 0.1}, {"sums": "a", "images": 5, "warmth": -1.0}],
)  # fmt: skip
def test_a_report_that_lies_about_its_sources_is_one_source(clients, row):
    first = merged(*clients[:2]).delta
    lies = replace(first, report={"merged": first.report["merged"] | {"sources": [row]}})
    found = merged(lies, clients[2]).delta
    assert len(found.report["merged"]["sources"]) == 2
    assert found.head.products.tobytes() == merged(first, clients[2]).delta.head.products.tobytes()


def test_a_hundred_deltas_are_merged_in_little_memory():
    import tracemalloc

    deltas = [delta_of(having((k % 5, 5 + k % 5), slice(k % 20, k % 20 + 30 + k % 7))) for k in range(100)]
    for k, delta in enumerate(deltas):  # so that each has sums of its own
        delta.head.sums[0, 0] += k
    tracemalloc.start()
    found = merged(*deltas)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(found.images) == found.delta.head.counts.sum() and len(found.names) == 100
    assert peak < 3_000_000
