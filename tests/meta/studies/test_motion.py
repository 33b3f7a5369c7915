"""Recordings of motion: a small run of the study, and who is in the support and in the queries."""

from types import SimpleNamespace

import numpy as np

from tinytrain.datasets import open_dataset
from tinytrain.datasets.generated.recordings import export_recordings
from tinytrain.meta.studies import motion as study


def test_a_job_compares_forms_on_one_episode(logged, rows, capsys, tmp_path):
    export_recordings("shakes", tmp_path / "shakes", 8)
    words = ["--packs", f"{tmp_path / 'shakes'}", "--way", "3", "--shots", "3", "--queries", "4"]
    assert study.main([*logged, *words, "--episodes", "2"]) == 0
    found = rows()
    assert len(found) == 2 and found[0]["normal"] is None, "there are no 30 recordings of a class"
    assert found[0]["own"] is None, "names say of no volunteer"
    forms = found[0]["forms"]
    assert list(forms) == [*study.FORMS, "tinytrain"] and forms["features"]["accuracy"] > 0.8
    said = capsys.readouterr().out
    assert "| features |" in said and "too few" in said


def test_nobody_is_in_the_support_and_in_the_queries(tmp_path):
    export_recordings("shakes", tmp_path / "shakes", 12)
    args = SimpleNamespace(seed=7, shots=2, queries=4, way=3)
    dataset = open_dataset(tmp_path / "shakes")
    support, _, query, _ = study.drawn(dataset, args, 0)
    assert support.max() != query.max() and not set(support) & set(query)
    number = lambda i: int(dataset.names[i][-7:-4])  # noqa: E731
    assert max(map(number, support)) <= 6 < min(map(number, query))
    for folder in (tmp_path / "shakes").iterdir():
        for k, path in enumerate(sorted(folder.iterdir())):
            path.rename(folder / f"v{k % 4:02d}_{k}.csv")
    dataset = open_dataset(tmp_path / "shakes")
    sides = []
    for episode in range(3):
        support, labels, query, truth = study.drawn(dataset, args, episode)
        people = [{dataset.names[i].split("/")[1][:3] for i in side} for side in (support, query)]
        assert not people[0] & people[1] and (np.bincount(labels) == 2).all() and truth.max() == 2
        sides.append(frozenset(people[0]))
    assert len(set(sides)) > 1
    look = np.eye(24, dtype="f")[4 * dataset.labels + study.people_of(dataset)]
    before, after = study.with_own(dataset, look, args, 0)
    assert before < 0.7 and after == 1
