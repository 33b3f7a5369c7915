"""Images that looked whole and are not: left out, listed, and replaced by others if there are any."""

from functools import partial

import numpy as np
import pytest

from tinytrain.base.errors import InputError
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.decoding import all_decoded, decoded
from tinytrain.datasets.duplicates import unrepeated
from tinytrain.datasets.folder import folder_episode
from tinytrain.episode import holding
from tinytrain.episode.input_facts import Duplicate, Skipped

SHAPE = (4, 4, 3)
KNOWN = Skipped("made/notes.txt", "is no image", "other-kind")


def dataset(broken=(), of_each=6, alike=()):
    """Two classes of images a0, a1, ... and b0, b1, ...; those `alike` have the same pixels."""
    names = tuple(f"{c}{i}" for c in "ab" for i in range(of_each))

    def read(i, size):
        if names[i] in broken:
            raise InputError("image-unreadable", f"'made/{names[i]}' is cut off")
        return np.full((size, size, 3), 255 if names[i] in alike else i, np.uint8)

    labels = np.repeat(np.arange(2, dtype=np.int32), of_each)
    return Dataset(
        "made", labels, ("apple", "pear"), names, read, provenance=Provenance(folder="made", skipped=(KNOWN,))
    )


def test_others_are_drawn_for_broken_images_of_the_support_and_each_is_listed():
    draw = partial(folder_episode, shots=3)
    first = draw(dataset())
    broken = {first.support.names[0], first.query.names[0]}
    made = dataset(broken)
    episode = decoded(made, draw(made), SHAPE, redraw=draw)
    assert first.shots.tolist() == episode.shots.tolist() == [3, 3] and len(episode.query) == 4
    assert not broken & {*episode.support.names, *episode.query.names}
    assert episode.skipped[0] == KNOWN
    assert set(episode.skipped[1:]) == {Skipped(f"made/{name}", "is cut off", "damaged") for name in broken}


def test_without_another_draw_the_support_has_fewer_images():
    draw = partial(folder_episode, hold_out=2)
    first = draw(dataset())
    made = dataset({first.support.names[0]})
    episode = decoded(made, draw(made), SHAPE)
    assert episode.shots.tolist() == [3, 4] and episode.query.names == first.query.names


def test_a_class_of_broken_images_only_is_refused_with_the_first_reason():
    made = dataset({f"b{i}" for i in range(6)})
    for redraw in (folder_episode, None):
        with pytest.raises(InputError, match=r"'pear' has 0 usable images: .*b0' is cut off") as caught:
            decoded(made, folder_episode(made), SHAPE, redraw=redraw)
        assert caught.value.code == "too-few-images"


def test_all_images_of_a_dataset_come_without_the_broken_ones():
    images, facts = all_decoded(dataset({"a1"}), SHAPE)
    assert len(images) == 11 and "a1" not in images.names and (images.image(1, SHAPE) == 2).all()
    assert facts.skipped == (KNOWN, Skipped("made/a1", "is cut off", "damaged"))


def test_queries_that_repeat_the_support_are_left_out_unless_that_takes_too_much_memory(monkeypatch):
    made = dataset(alike={f"a{i}" for i in range(6)})
    episode = decoded(made, folder_episode(made, hold_out=2), SHAPE)
    left = unrepeated(episode, SHAPE)
    assert left.query.labels.tolist() == [1, 1] and left.support is episode.support
    (found,) = left.duplicates
    assert isinstance(found, Duplicate) and found.where == "both sides" and len(found.files) == 6
    monkeypatch.setattr(holding, "HELD_BYTES", 100)
    assert unrepeated(episode, SHAPE) is episode
