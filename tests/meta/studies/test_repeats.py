"""The study of an alarm that comes again and again."""

import numpy as np
import pytest

from tinytrain.meta.studies import repeats as study
from tinytrain.meta.studies.study import read_study

RUN = ["--packs", "signs", "--way", "2", "--shots", "2", "--queries", "12", "--episodes", "3"]


@pytest.fixture
def watched():
    """The first class of the first episode, so that there is one in it."""
    from tinytrain.datasets import open_dataset, sample_episode

    return sample_episode(open_dataset("signs"), 2, 2, 12, 7, 0).class_names[0]


def test_each_wrong_alarm_is_corrected_until_it_ends(logged, log, watched, capsys):
    assert study.main([*logged, *RUN, "--episodes", "1", "--watched", watched]) == 0
    (row,) = read_study(log)
    assert 0 <= row["recall"] <= 1
    assert len(row["after"]) == len(row["corrections"]) > 0 < max(row["corrections"]) <= study.FRAMES
    assert f"| {len(row['after'])} |" in capsys.readouterr().out
    *_, line = study.summary([row | {"corrections": [3, 2], "after": [0, 1]}])
    assert line.endswith(" | 2.50 | 50% |")


def test_a_frame_seen_again_is_nearly_the_same_image():
    image = np.full((40, 30, 3), 150, np.uint8)
    first, again = (study.seen_again(image, np.random.default_rng(seed)) for seed in (1, 2))
    assert first.shape == image.shape and first.dtype == np.uint8 and (first != again).any()
    assert 110 < first[10:-10, 10:-10].mean() <= 151


def test_a_class_that_is_not_there_is_said(logged, capsys):
    assert study.main([*logged, *RUN, "--watched", "nobody"]) == 2
    assert "'nobody'" in capsys.readouterr().err
