"""Who is believed when deltas are merged: who lies is named, by what others say or by what no images have."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from devices import LABELS, NAMES, WAY, X, delta_of, having, made_up, merged

from tinytrain.base.errors import InputError
from tinytrain.delta.file import encode_delta
from tinytrain.delta.merge import SAME_IMAGES, SAME_NAME


def shares(n=5):
    """`n` deltas, each with five images of every class."""
    parts = (np.concatenate([having([c], slice(k, None, 8)) for c in range(WAY)]) for k in range(n))
    return [delta_of(part) for part in parts]


def lying(delta, sums=lambda sums: sums, times=1):
    """`delta` with other sums, and all of its moments as if its images were there so many `times`."""
    head = delta.head
    head = replace(head, counts=head.counts * times, products=head.products * times)
    return replace(delta, head=replace(head, sums=sums(head.sums) * np.int32(times)))


LIES = {
    "rolled labels": (lambda sums: np.roll(sums, 1, 0), 1),
    "rolled, three times": (lambda sums: np.roll(sums, 1, 0), 3),
    "rolled, ten times": (lambda sums: np.roll(sums, 1, 0), 10),
    "two classes for each other": (lambda sums: sums[[1, 0, *range(2, WAY)]], 1),
    "other signs": (lambda sums: -sums, 1),
    "other signs, ten times": (lambda sums: -sums, 10),
}


@each("lie", LIES)
def test_one_of_five_that_lies_is_named_and_left_out_if_merging_is_to_be_robust(lie):
    honest = shares()
    poisoned = [lying(honest[0], *LIES[lie]), *honest[1:]]
    (conflict,) = merged(*poisoned).conflicts
    assert conflict.kind == SAME_NAME and "looks otherwise in delta 0" in conflict.text
    found = merged(*poisoned, robust=True)
    assert found.outvoted == ("delta 0",) and found.names == tuple(f"delta {k}" for k in range(1, 5))
    assert encode_delta(found.delta) == encode_delta(merged(*honest[1:]).delta), "as if it had not been given"
    assert found.conflicts == ()
    for order in ([4, 0, 2, 1, 3], [3, 2, 1, 0, 4]):
        assert encode_delta(merged(*(poisoned[k] for k in order), robust=True).delta) == encode_delta(
            found.delta
        )


def test_two_of_five_that_lie_alike_are_left_out_and_honest_ones_never():
    honest = shares()
    liars = [lying(delta, *LIES["rolled, ten times"]) for delta in honest[:2]]
    assert merged(*liars, *honest[2:], robust=True).outvoted == ("delta 0", "delta 1")
    whole = merged(*honest, robust=True)
    assert whole.outvoted == whole.conflicts == ()
    assert encode_delta(whole.delta) == encode_delta(merged(*honest).delta)
    noisy = X + 0.3 * np.random.default_rng(0).standard_normal(X.shape).astype("f")
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    few = [np.concatenate([having([c], slice(k, k + 2)) for c in range(WAY)]) for k in range(0, 12, 2)]
    alike = [made_up(noisy[part], LABELS[part], "slda") for part in few]
    assert merged(*alike, robust=True).outvoted == (), "what chance does to two images is no lie"
    parts = [having(range(k, WAY - k), slice(k, None, 8 - k)) for k in range(4)]
    parts += [having(range(WAY), slice(k, None, 30)) for k in range(5, 9)]
    found = merged(*map(delta_of, parts), robust=True)
    assert found.outvoted == (), "few images, and other classes, are no lies"


def test_who_hands_in_what_another_one_has_under_other_names_does_not_take_its_place():
    honest = shares()
    names = NAMES[1:] + NAMES[:1]
    for copy in (replace(honest[2], class_names=names), lying(honest[2], *LIES["rolled labels"])):
        found = merged(copy, *honest, robust=True)
        assert found.outvoted == ("delta 0",)
        assert encode_delta(found.delta) == encode_delta(merged(*honest).delta)
        again = merged(*honest, honest[2], honest[2], robust=True)
        assert again.outvoted == () and len(again.left_out) == 2, "and who repeats it has one vote"


def test_a_class_for_which_nobody_can_vouch_is_refused_in_a_sentence():
    with pytest.raises(
        InputError, match="bad-value: class 'class 0' is held by 1 of 2 deltas, and nobody can"
    ):
        merged(*(delta_of(having(classes)) for classes in ((0, 1), (2, 3))), robust=True)
    honest = shares(4)
    divided = [*honest[:2], *(lying(delta, *LIES["rolled labels"]) for delta in honest[2:])]
    with pytest.raises(InputError, match=r"2 of 4 deltas mean something else by 'class \d' than the others"):
        merged(*divided, robust=True)


@each(
    "delta, times",
    [
        (lambda delta: replace(delta, head=replace(delta.head, sums=delta.head.sums * np.int32(3))), "2.9"),
        (lambda delta: replace(delta, head=replace(delta.head, products=delta.head.products * 3)), "1.5"),
    ],
    ids=lambda row: row[1],
)
def test_sums_that_no_embeddings_of_length_1_have_are_refused(delta, times):
    one, *others = shares(3)
    with pytest.raises(
        InputError, match=f"bad-value: delta 0: its sums are {times} times as large as those of"
    ):
        merged(delta(one), *others)


def test_a_copy_of_what_a_neighbour_knows_under_other_names_is_named():
    one, other = shares(2)
    names = tuple(f"stolen {k}" for k in range(WAY))
    head = replace(other.head, sums=np.concatenate([other.head.sums[:3], one.head.sums[3:]]))
    found = merged(one, replace(other, head=head, class_names=names)).conflicts
    assert (SAME_IMAGES, "the sums of 7 classes are in delta 0 and in delta 1, and count twice") in found
