"""Paired episodes over policies: the log, going on from it, and the table."""

import json

import pytest
import toynets

from tinytrain.meta import accuracy
from tinytrain.modelfile import save_network


@pytest.fixture
def command(tmp_path):
    save_network(toynets.toy("blocks"), tmp_path / "net.safetensors")
    fixed = ["--backbone", tmp_path / "net.safetensors", "--packs", "signs", "--out", tmp_path / "log.jsonl"]
    small = ["--way", 2, "--shots", 2, "--queries", 2, "--policies", "none,last_layer"]
    return tmp_path / "log.jsonl", [str(a) for a in (*fixed, *small)]


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_policy_gets_every_episode_and_a_line_in_the_table(command, capsys):
    log, arguments = command
    accuracy.main([*arguments, "--episodes", "2"])
    assert [(r["episode"], r["policy"]) for r in rows(log)] == [
        (k, p) for k in (0, 1) for p in ("none", "last_layer")
    ]
    printed = capsys.readouterr().out
    assert (
        "| last_layer |" in printed and "last_layer - none: " in printed and "(2 paired episodes)" in printed
    )


def test_a_stopped_run_goes_on_where_it_was_and_drops_a_torn_line(command):
    log, arguments = command
    accuracy.main([*arguments, "--episodes", "2"])
    finished, lines = rows(log), log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:2]) + lines[2][:20] + "\n")
    accuracy.main([*arguments, "--episodes", "2"])
    results = [[(r["policy"], r["after"]) for r in found] for found in (accuracy.read_log(log), finished)]
    assert results[0] == results[1]


def test_ways_and_shots_can_vary_as_in_meta_dataset(command):
    log, arguments = command
    accuracy.main([*arguments, "--episodes", "2", "--max-support", "12"])
    assert len(rows(log)) == 4


def test_an_interval_is_that_of_the_mean():
    assert accuracy.mean_interval([1, 2, 3]) == (2, pytest.approx(1.96 / 3**0.5))
