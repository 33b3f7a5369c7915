from dataclasses import replace

import numpy as np
import pytest
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.episode import holding
from tinytrain.episode.episode import Episode, Images
from tinytrain.pipeline.toy import toy_images


def images(*labels, prefix="p"):
    return Images(
        labels=np.array(labels, dtype=np.int32),
        names=tuple(f"{prefix}{i}" for i in range(len(labels))),
        read=lambda i, size: np.full((size, size, 3), i, np.uint8),
    )


def test_shots_count_the_support_images_of_each_class():
    episode = Episode(images(0, 1, 1, 2), images(), ("a", "b", "c"))
    assert episode.n_way == 3
    assert episode.shots.tolist() == [1, 2, 1]


@pytest.mark.parametrize("names, count", [((), "0 classes"), (("a",), "1 class")])
def test_fewer_than_two_classes_are_refused_with_their_number(names, count):
    with pytest.raises(InputError, match=f"{count} given") as caught:
        Episode(images(*[0] * len(names)), images(), names)
    assert caught.value.code == "too-few-classes"


def test_a_class_without_support_is_refused_by_name():
    with pytest.raises(InputError, match="'b' has no support") as caught:
        Episode(images(0, 0), images(0, 1), ("a", "b"))
    assert caught.value.code == "too-few-images"


@pytest.mark.parametrize("support, query, bad", [((0, 1, 2), (), 2), ((0, 1), (-1,), -1), ((0, 1), (5,), 5)])
def test_a_label_that_is_no_class_is_refused(support, query, bad):
    with pytest.raises(InputError, match=f"label {bad} given") as caught:
        Episode(images(*support), images(*query), ("a", "b"))
    assert caught.value.code == "labels"


NAMES = {
    "twice": (("a", "b", "a"), "2 classes are called 'a'"),
    "twice for a file system": (("e\u0301", "b", "\u00e9"), "2 classes are called '\u00e9'"),
    "half a letter": (("a", "\ud800", "c"), "class name '\\ud800' is not a text"),
    "none": (("a", "", "c"), "class name '' is not a text of 1 to 1,100 letters"),
    "a number": (("a", 2, "c"), "class name 2 is not a text"),
    "long": (("a", "b" * 1101, "c"), "class name 'bbb"),
}


@each("case", NAMES)
def test_class_names_that_no_delta_can_keep_are_refused_before_any_work(case):
    names, said = NAMES[case]
    with pytest.raises(InputError) as caught:
        Episode(images(0, 1, 2), images(), names)
    assert caught.value.code == "class-names" and said in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("names", "code"),
    [([f"{c}" for c in range(4097)], "class-names"), ([f"{c:01000}" for c in range(300)], "class-names")],
)
def test_more_class_names_than_a_delta_can_keep_are_refused(names, code):
    with pytest.raises(InputError) as caught:
        Episode(images(*range(len(names))), images(), tuple(names))
    assert caught.value.code == code


def test_names_of_images_that_no_report_can_keep_are_refused_before_any_work():
    for changes in ({"support": images(0, 1, prefix="\ud800")}, {"query": images(0, prefix="\ud800")}):
        with pytest.raises(InputError, match=r"the name '.ud8000' is not text"):
            Episode(**{"support": images(0, 1), "query": images(), "class_names": ("a", "b")} | changes)
    with pytest.raises(InputError, match="is not text"):
        Episode(images(0, 1), images(), ("a", "b"), source="\ud800")


def test_take_keeps_order_labels_names_and_pixels():
    some = images(0, 1, 2, 1).take(np.array([3, 0, 3]))
    assert some.labels.tolist() == [1, 0, 1]
    assert some.names == ("p3", "p0", "p3")
    assert [some.read(i, 2)[0, 0, 0] for i in range(3)] == [3, 0, 3]
    assert len(some.take([])) == 0


def test_the_digest_tells_episodes_apart_and_nothing_else():
    def digest(support, query=(), names=("a", "b"), prefix="p"):
        return Episode(images(*support, prefix=prefix), images(*query), names).digest

    assert digest((0, 1)) == digest((0, 1))
    others = [
        digest((0, 1), (1,)),
        digest((1, 0)),
        digest((0, 1), names=("a", "c")),
        digest((0, 1), prefix="q"),
    ]
    assert len({digest((0, 1)), *others}) == 5


def test_held_images_are_decoded_once_each_and_another_size_of_them_is_refused():
    asked = []
    some = replace(
        images(0, 1, 1), read=lambda i, size: asked.append(i) or np.full((size, size, 3), i, np.uint8)
    )
    held = some.held(4)
    assert [held.image(i, 4)[0, 0, 0] for i in (2, 0, 1, 2)] == [2, 0, 1, 2] and asked == [0, 1, 2]
    assert held.labels is some.labels and held.names is some.names
    with pytest.raises(InputError, match="it must be 8 x 8"):
        held.image(0, 8)


def test_colours_become_grey_where_one_channel_is_asked_for_and_nothing_else_is_changed():
    red = replace(images(0, 1), read=lambda i, size: np.full((*size, 3), (255, 0, 0), np.uint8))
    assert red.image(0, (4, 6, 3)).shape == (4, 6, 3)
    grey = red.image(0, (4, 6, 1))
    assert grey.shape == (4, 6, 1) and set(grey.ravel().tolist()) == {76}  # 0.299 of it
    assert red.held((4, 6, 1)).image(1, (4, 6, 1)).tolist() == grey.tolist()
    plane = replace(red, read=lambda i, size: np.full((size, size, 1), 7, np.uint8))
    assert plane.image(0, (4, 4, 1)).tolist() == np.full((4, 4, 1), 7).tolist()
    with pytest.raises(InputError, match="image p0 is 4 x 4 x 1 uint8; it must be 4 x 4 x 3 uint8"):
        plane.image(0, 4)
    floats = replace(red, read=lambda i, size: np.zeros((size, size, 3), np.float32))
    with pytest.raises(InputError, match="4 x 4 x 3 float32; it must be 4 x 4 x 1 uint8"):
        floats.image(0, (4, 4, 1))


def test_images_are_decoded_once_and_broken_ones_left_out_however_many_there_are(monkeypatch):
    images, reads = toy_images([0, 1, 1]), []

    def read(i, size):
        reads.append(i)
        if i == 1:
            raise InputError("image-unreadable", "'x.png' cannot be decoded")
        return images.read(i, size)

    source = type(images)(images.labels, images.names, read)
    held, broken = holding.hold(source, (8, 8, 3), lambda *_: None)
    assert held.labels.tolist() == [0, 1] and list(broken.values()) == [
        "image-unreadable: 'x.png' cannot be decoded"
    ]
    assert (held.read(1, 8) == images.read(2, 8)).all() and reads == [0, 1, 2]
    monkeypatch.setattr(holding, "HELD_BYTES", 100)
    left, found = holding.hold(source, (8, 8, 3), lambda *_: None)
    assert found == broken and left.labels.tolist() == [0, 1]
    assert (left.read(1, 8) == images.read(2, 8)).all() and reads == [0, 1, 2, 0, 1, 2, 2], "and not kept"
