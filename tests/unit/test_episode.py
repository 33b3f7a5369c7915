from dataclasses import replace

import numpy as np
import pytest

from tinytrain.episode import Episode, Pictures
from tinytrain.errors import InputError


def pictures(*labels, prefix="p"):
    return Pictures(
        labels=np.array(labels, dtype=np.int32),
        names=tuple(f"{prefix}{i}" for i in range(len(labels))),
        read=lambda i, size: np.full((size, size, 3), i, np.uint8),
    )


def test_shots_count_the_support_pictures_of_each_class():
    episode = Episode(pictures(0, 1, 1, 2), pictures(), ("a", "b", "c"))
    assert episode.n_way == 3
    assert episode.shots.tolist() == [1, 2, 1]


@pytest.mark.parametrize("names, count", [((), "0 classes"), (("a",), "1 class")])
def test_fewer_than_two_classes_are_refused_with_their_number(names, count):
    with pytest.raises(InputError, match=f"{count} given") as caught:
        Episode(pictures(*[0] * len(names)), pictures(), names)
    assert caught.value.code == "one-class"


def test_a_class_without_support_is_refused_by_name():
    with pytest.raises(InputError, match="'b' has no support") as caught:
        Episode(pictures(0, 0), pictures(0, 1), ("a", "b"))
    assert caught.value.code == "empty-class"


@pytest.mark.parametrize("support, query, bad", [((0, 1, 2), (), 2), ((0, 1), (-1,), -1), ((0, 1), (5,), 5)])
def test_a_label_that_is_no_class_is_refused(support, query, bad):
    with pytest.raises(InputError, match=f"label {bad} given") as caught:
        Episode(pictures(*support), pictures(*query), ("a", "b"))
    assert caught.value.code == "bad-label"


def test_take_keeps_order_labels_names_and_pixels():
    some = pictures(0, 1, 2, 1).take(np.array([3, 0, 3]))
    assert some.labels.tolist() == [1, 0, 1]
    assert some.names == ("p3", "p0", "p3")
    assert [some.read(i, 2)[0, 0, 0] for i in range(3)] == [3, 0, 3]
    assert len(some.take([])) == 0


def test_the_digest_tells_episodes_apart_and_nothing_else():
    def digest(support, query=(), names=("a", "b"), prefix="p"):
        return Episode(pictures(*support, prefix=prefix), pictures(*query), names).digest

    assert digest((0, 1)) == digest((0, 1))
    others = [
        digest((0, 1), (1,)),
        digest((1, 0)),
        digest((0, 1), names=("a", "c")),
        digest((0, 1), prefix="q"),
    ]
    assert len({digest((0, 1)), *others}) == 5


def test_held_pictures_are_decoded_once_each_and_another_size_of_them_is_refused():
    asked = []
    some = replace(
        pictures(0, 1, 1), read=lambda i, size: asked.append(i) or np.full((size, size, 3), i, np.uint8)
    )
    held = some.held(4)
    assert [held.picture(i, 4)[0, 0, 0] for i in (2, 0, 1, 2)] == [2, 0, 1, 2] and asked == [0, 1, 2]
    assert held.labels is some.labels and held.names is some.names
    with pytest.raises(InputError, match="it must be 8 x 8"):
        held.picture(0, 8)
