"""The studies of clips and of words in a stream: small runs, and who is on which side."""

from types import SimpleNamespace

import numpy as np
import pytest
from waves import write_clips, write_encoder

from tinytrain.base.errors import InputError
from tinytrain.datasets import open_dataset
from tinytrain.heads.head import IDENTIFIED, UNKNOWN
from tinytrain.meta.studies import listening, sounds


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """The toy encoder beside the folder `clips` of three words and `others` of a fourth one."""
    root = tmp_path_factory.mktemp("heard")
    write_encoder(root / "net.safetensors")
    write_clips(root / "clips", range(8), ("low", "glide", "hiss"))
    for number, clip in enumerate(sorted((root / "clips").rglob("*.wav"))):
        clip.rename(clip.with_name(f"s{number % 4}_{number}.wav"))  # four speakers
    write_clips(root / "others", range(100, 112), ("none",))
    return root


@pytest.fixture
def words(clips, log):
    return ["--backbone", f"{clips / 'net.safetensors'}", "--packs", f"{clips / 'clips'}", "--out", f"{log}"]


def test_clips_of_other_classes_or_of_a_folder_are_learnt_and_judged(clips, words, rows, capsys):
    small = "--way 2 --shots 2 --queries 2 --episodes 3 --group (s[0-9])_ --background 2"
    for others in ("other-classes", f"{clips / 'others'}"):
        assert sounds.main([*words, *small.split(), "--others", others]) == 0
    for row in rows():
        names = (*sounds.HEADS, *(f"{rate} 2" for rate in sounds.RATES))
        assert all(len(row[name]) == 3 and 0 <= min(row[name]) <= max(row[name]) <= 1 for name in names)
        assert min(np.mean(row["lda"]), np.mean(row["at 5 % 2"])) > 0.6
        assert np.mean(row["taken 2"]) < 0.5 < np.mean(row["kept 2"])
    assert "| kept 2 |" in capsys.readouterr().out


def test_what_is_unknown_or_other_clips_has_the_name_of_no_class():
    told = [(1, IDENTIFIED), (1, UNKNOWN), (2, IDENTIFIED)]
    head = SimpleNamespace(verdict=lambda i: SimpleNamespace(label=told[i][0], state=told[i][1]))
    assert sounds.named(head, range(3), 2).tolist() == [1, -1, -1]


def test_no_speaker_is_in_the_support_and_in_the_queries(clips):
    dataset = open_dataset(clips / "clips")
    groups = sounds.groups_of(dataset.names, "(s[0-9])_")
    args = SimpleNamespace(way=2, shots=2, queries=2, seed=7)
    for episode in range(5):
        (support, labels), (queries, truth), rest = sounds.drawn(dataset, groups, args, episode)
        assert (np.bincount(labels) == 2).all() and (np.bincount(truth) == 2).all()
        known = np.unique(dataset.labels[[*support, *queries]])
        for own, others, side in ((support, queries, rest[0]), (queries, support, rest[1])):
            assert not {*groups[own], *groups[side]} & {*groups[others]}
            assert not np.isin(dataset.labels[side], known).any() and len(side)
    with pytest.raises(InputError, match="finds nothing in"):
        sounds.groups_of(dataset.names, "(v[0-9])_")


def test_words_in_a_stream_are_hit_late_or_missed_and_mistakes_are_counted(clips, words, rows, capsys):
    small = "--shots 3 --background 3 --minutes 1 --episodes 1"
    assert listening.main([*words, *small.split(), "--others", f"{clips / 'others'}"]) == 0
    (row,) = rows()
    for way in listening.WAYS:
        (hits,), (mistakes,) = (row[f"{rate} {way}"] for rate in listening.RATES)
        assert 0 < hits <= 1 and mistakes % 60 == 0
    assert row["mistakes hour"] < row["mistakes limit"] and "| hour |" in capsys.readouterr().out


def test_a_word_is_named_once_where_its_score_gets_above_the_threshold():
    row = [(10, 0.9, 1), (20, 0.9, 1), (30, 0.1, 1), (40, 0.9, 1), (200, 0.2, 2), (8210, 0.8, 2)]
    assert [*listening.named(row, 0.5, 100)] == [(1, 10), (2, 8210)]
    assert listening.wait(row, 210, 2, 0.5, 100) == 0.5 and listening.wait(row, 0, 0, 0.5, 100) == np.inf
    row[0] = (10, 0.9, -1)  # somebody spoke, and the verdict names no word
    assert [*listening.named(row, 0.5, 100)] == [(2, 8210)]


def test_a_stream_has_every_clip_before_any_comes_again_and_lasts_as_long_as_asked():
    clips = [np.full(16_000, value, np.int16) for value in (1000, 2000, 3000)]
    blocks = [*listening.stream(np.random.default_rng(0), clips, 0.1)]
    order = [int(block[-1]) for block in blocks]
    assert sorted(order[:3]) == [1000, 2000, 3000] and len(order) > 3
    assert 6 * 16_000 <= sum(map(len, blocks)) < 7.7 * 16_000
    assert all(0.1 * 16_000 <= len(block) - 16_000 <= 0.6 * 16_000 for block in blocks)
