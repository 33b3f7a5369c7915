"""Normal images alone: a small run of the study, its areas, and the figures of known rows."""

import numpy as np
from headdata import unit32

from tinytrain.meta.studies import heads
from tinytrain.meta.studies import normal as study


def around(centre, n, seed):
    return unit32(centre + 0.3 * np.random.default_rng(seed).standard_normal((n, len(centre))))


def test_a_job_is_a_line_with_every_episode(logged, rows, capsys):
    words = ["--packs", "leaves", "--way", "3", "--shots", "1,4", "--queries", "4", "--episodes", "2"]
    assert study.main([*logged, *words]) == 0
    found = rows()
    assert [row["shots"] for row in found] == [1, 4]
    for row in found:
        assert all(len(row[name]) == 2 for name in (*study.AREAS, *study.RATES))
        assert all(0 <= value <= 1 for name in (*study.AREAS, *study.RATES) for value in row[name])
    assert found[0]["to mean"] == found[0]["to closest"], "of one image"
    assert "| 4 | leaves |" in capsys.readouterr().out


def test_what_lies_elsewhere_has_a_larger_area_than_what_lies_between():
    centre = np.eye(1, 12)[0]
    normal, own = around(centre, 12, 0), around(centre, 10, 1)
    far, same = (study.judged(normal, own, x) for x in (around(-centre, 10, 2), around(centre, 10, 3)))
    assert far["score"] == far["to mean"] == far["found"] == 1
    assert 0.2 < same["score"] < 0.8 and same["found"] < 0.5
    assert far["lost"] == same["lost"] < 0.5


def test_the_gain_is_paired_and_all_packs_weigh_alike():
    def row(pack, score):
        rest = {name: [0.5, 0.5] for name in (*study.AREAS[1:], *study.RATES)}
        return {"pack": pack, "shots": 5, "score": score, **rest}

    _, _, *lines = study.summary([row("a", [0.6, 0.6]), row("b", [0.9, 0.7])])
    assert lines[0].startswith("| 5 | a | 60.0 | 50.0 |") and lines[0].endswith("| +10.00 ±0.00 |")
    assert lines[2].startswith("| 5 | all | 70.0 |") and "| +20.00 ±" in lines[2]


def test_embeddings_are_computed_once_for_the_images_that_are_drawn(monkeypatch):
    class Fake:
        name, digest, embedding_size, asked = "fake", "0", 1, []

        def __len__(self):
            return 9

        def images(self, groups):
            self.asked.append(groups[0].tolist())
            return groups[0]

    fake = Fake()
    monkeypatch.setattr(heads, "EMBEDDED", {})
    monkeypatch.setattr(heads, "embed", lambda network, images, device: images[:, None] * 1.0)
    assert heads.embedded(fake, fake, [3, 1, 3])[3] == [3.0]
    assert heads.embedded(fake, fake, [3, 5])[[1, 3, 5], 0].tolist() == [1, 3, 5]
    heads.embedded(fake, fake)
    assert fake.asked == [[1, 3], [5], [0, 2, 4, 6, 7, 8]]
