"""Runs of the offline stage: resumed to the byte, chosen by held-out domains, stopped in good order."""

import errno
import json
import os

import numpy as np
import pytest
import toynets
import toyruns
from cases import each

from tinytrain.base.errors import AdaptationRefusedError, InputError, StorageError
from tinytrain.meta.bench.statistics import Interval
from tinytrain.meta.training import checkpoint
from tinytrain.meta.training.offline import finish
from tinytrain.meta.training.validate import Verdict
from tinytrain.network.file import load_network


class KilledError(Exception):
    pass


def killed_at(*steps):
    """Wraps a task: the steps of these numbers (from 0) end in an error, each once."""
    left = set(steps)

    def wrap(task):
        made = task.batch

        def batch(number):
            if number in left:
                left.discard(number)
                raise KilledError
            return made(number)

        task.batch = batch
        return task

    return wrap


def result(run) -> tuple[bytes, bytes]:
    """Network and log that a run leaves."""
    finish(run.task, run, run.paths)
    return run.paths.result.read_bytes(), run.paths.log.read_bytes()


@each("kind", ["meta-train", "pretrain"])
@each("optimizer", [{"kind": "sgd"}, {"ema": 0.8, "rounded": 0.5, "clip": 1.0}])
def test_a_run_that_was_killed_ends_as_if_it_had_not_been(tmp_path, kind, optimizer):
    changes = {"optimizer": {"rate": 1e-3, "warm_up": 2, **optimizer}}
    whole = result(toyruns.run(tmp_path, "whole", kind, **changes))
    wrap = killed_at(*toynets.rng(kind, optimizer).integers(0, 6, 4).tolist())
    tries = 0
    while True:
        tries += 1
        run = toyruns.run(tmp_path, "killed", kind, wrap, **changes)
        try:
            killed = result(run)
            break
        except KilledError:
            continue
    assert tries > 1
    assert killed == whole


def test_the_same_recipe_gives_the_same_bytes_and_another_seed_others(tmp_path):
    first, again = (result(toyruns.run(tmp_path, name)) for name in ("first", "again"))
    assert first == again
    assert first != result(toyruns.run(tmp_path, "other", seed=1))


def test_a_log_that_ran_ahead_of_its_checkpoint_is_cut_back(tmp_path):
    run = toyruns.run(tmp_path)
    expected = result(run)
    run.paths.log.write_bytes(run.paths.log.read_bytes() + b'{"step": 99}\n{"st')
    assert result(toyruns.run(tmp_path)) == expected


def test_a_finished_run_is_not_trained_again(tmp_path):
    expected = result(toyruns.run(tmp_path))
    assert result(toyruns.run(tmp_path, wrap=killed_at(*range(6)))) == expected


def test_the_checkpoint_is_chosen_by_held_out_domains_not_by_source_classes(tmp_path):
    """Scores by step: held-out domains are best at 2, held-out classes at the end."""
    scores = iter([(0.5, 0.5), (0.9, 0.6), (0.6, 0.7), (0.7, 0.99)])
    seen = []

    def wrap(task):
        def validate(values):
            left_out, held_out = next(scores)
            seen.append(values.copy())
            return Verdict({"target": Interval(left_out, 0.01, 2)}, {"source": Interval(held_out, 0.01, 2)})

        task.validate = validate
        return task

    run = toyruns.run(tmp_path, wrap=wrap)
    outcome = run()
    assert outcome.best_step == 2
    np.testing.assert_array_equal(run.task.exported(outcome.values), seen[1])
    assert [row["best"] for row in outcome.rows] == [True, True, False, False]


def test_the_best_way_from_the_first_weights_to_the_trained_ones_is_kept(tmp_path):
    """A score that is best halfway: that is what is kept and exported."""
    halfway = toyruns.content(tmp_path)["validate"] | {"blend": [0.25, 0.5, 1.0], "every": 6}

    def wrap(task):
        def way(values):
            gone, whole = values - task.first, run.state.averaged - task.first
            return float(gone @ whole / max(1e-12, whole @ whole))

        task.selection_score = lambda values: 1 - abs(way(values) - 0.5)
        task.validate = lambda v: Verdict({"target": Interval(task.selection_score(v), 0.01, 2)}, {})
        return task

    run = toyruns.run(tmp_path, wrap=wrap, validate=halfway, weights="float32")
    outcome = run()
    assert [row["blend"] for row in outcome.rows] == [1.0, 0.5]
    expected = run.task.first + np.float32(0.5) * (run.state.averaged - run.task.first)
    np.testing.assert_allclose(outcome.values, expected, rtol=1e-6, atol=1e-7)


def test_without_progress_on_held_out_domains_the_run_stops_early(tmp_path):
    def wrap(task):
        verdict = Verdict({"target": Interval(0.5, 0.01, 2)}, {})
        task.validate = lambda values: verdict
        return task

    patient = toyruns.content(tmp_path)["validate"] | {"patience": 2}
    outcome = toyruns.run(tmp_path, wrap=wrap, validate=patient, episodes=20)()
    assert (outcome.steps, outcome.best_step) == (4, 0)


@pytest.mark.parametrize("rate", [1e3, 1e6])
def test_divergence_ends_in_one_line_and_leaves_the_last_good_checkpoint(tmp_path, rate):
    run = toyruns.run(tmp_path, optimizer={"rate": rate, "warm_up": 0})
    with pytest.raises(AdaptationRefusedError, match=r"lower optimizer\.rate") as refused:
        run()
    assert (refused.value.code, refused.value.exit_code) == ("diverged", 5)
    arrays, state = checkpoint.load_checkpoint(run.paths.checkpoint, run.digest)
    np.testing.assert_array_equal(arrays["values"], run.task.first)
    assert state["step"] == 0
    assert not run.paths.result.exists()


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    def wrap(task):
        step = task.step
        task.step = lambda values, batch: (float("nan"), *step(values, batch)[1:])
        return task

    with pytest.raises(AdaptationRefusedError, match="the loss is nan"):
        toyruns.run(tmp_path, wrap=wrap)()


def test_a_full_disk_at_checkpoint_time_leaves_the_last_good_one(tmp_path, monkeypatch):
    expected = result(toyruns.run(tmp_path, "whole"))
    good = os.write
    full = {"now": False}

    def write(descriptor, data):
        if full["now"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return good(descriptor, data)

    run = toyruns.run(tmp_path, say=lambda text: full.update(now="step 4" in text))
    monkeypatch.setattr("tinytrain.base.files.os.write", write)
    with pytest.raises(StorageError, match="free some space") as failed:
        run()
    assert failed.value.exit_code == 6
    full["now"] = False
    assert checkpoint.load_checkpoint(run.paths.checkpoint, run.digest)[1]["step"] == 2
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]
    assert result(toyruns.run(tmp_path)) == expected


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    toyruns.run(tmp_path)()
    with pytest.raises(InputError, match="--restart") as refused:
        toyruns.run(tmp_path, seed=5)
    assert refused.value.code == "run-mismatch"


def test_something_else_in_the_place_of_the_checkpoint_is_refused(tmp_path):
    (tmp_path / "net.checkpoint").write_bytes(b"something else")
    with pytest.raises(InputError):
        toyruns.run(tmp_path)


@pytest.mark.parametrize(
    ("episode", "code"),
    [
        ({"way": 5, "shots": 2, "queries": 1}, "too-few-images"),
        ({"way": 2, "shots": 8, "queries": 1}, "too-few-images"),
        ({"sampler": "meta-dataset"}, "too-few-classes"),
    ],
)
def test_a_source_with_too_few_classes_is_refused_before_anything_is_trained(tmp_path, episode, code):
    with pytest.raises(InputError, match="source") as refused:
        toyruns.run(tmp_path, episode=episode)
    assert refused.value.code == code


def test_the_meta_dataset_sampler_trains_too(tmp_path):
    toyruns.folder(tmp_path / "source", classes=9)
    run = toyruns.run(tmp_path, episode={"sampler": "meta-dataset", "max_support": 12}, episodes=2)
    sizes = {(b.n_support, len(b.labels)) for b in map(run.task.batch, range(6))}
    assert len(sizes) > 1
    assert run().steps == 2


def embedded(task, values, images):
    task.whole.values = values[: task.size]
    return task.whole.embed(images)


def test_staying_close_to_the_start_keeps_the_embeddings_closer(tmp_path):
    moved = []
    for k, weight in enumerate((0.0, 100.0)):
        run = toyruns.run(tmp_path, f"net{k}", distillation=weight, episodes=12, weights="float32")
        run()
        images = run.task.batch(0).images
        before, after = (embedded(run.task, v, images) for v in (run.task.first, run.state.values))
        before, after = (e / np.linalg.norm(e, axis=1, keepdims=True) for e in (before, after))
        moved.append(float((1 - (before * after).sum(axis=1)).mean()))
    assert moved[1] < moved[0]


def test_the_log_and_the_curve_of_a_run(tmp_path):
    run = toyruns.run(tmp_path)
    result(run)
    rows = [json.loads(line) for line in run.paths.log.read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 2, 4, 6]
    assert rows[0]["loss"] is None and all(row["loss"] > 0 for row in rows[1:])
    assert all(set(row["left_out"]) == {"target"} for row in rows)
    assert all(set(row["held_out"]) == {"source held-out"} for row in rows)
    svg = run.paths.curve.read_text()
    assert svg.startswith("<svg") and "target" in svg and "chosen" in svg


def test_the_exported_network_is_a_plain_int8_one(tmp_path):
    run = toyruns.run(tmp_path)
    result(run)
    network = load_network(run.paths.result)
    assert network.layers == toynets.toy().layers
    assert {w.dtype for w in network.weights} == {np.dtype(np.int8)}
    values = run.task.fake_quantised(run.state.best_values)
    for slot in run.task.whole.slots:
        part = network.float_weight(slot.layer) if slot.part == "weight" else network.biases[slot.layer]
        np.testing.assert_array_equal(part.reshape(-1), values[slot.start : slot.start + slot.size])


def test_what_a_domain_loses_against_the_start_counts_three_times():
    start = {"photos": 0.8, "drawings": 0.6}
    forgetful = Verdict({"photos": Interval(0.75, 0, 2), "drawings": Interval(0.72, 0, 2)}, {}, start)
    careful = Verdict({"photos": Interval(0.8, 0, 2), "drawings": Interval(0.65, 0, 2)}, {}, start)
    assert forgetful.score.mean > careful.score.mean
    assert forgetful.selection_score == pytest.approx((0.75 + 0.72) / 2 - 2 * 0.05 / 2)
    assert (
        careful.selection_score == pytest.approx(0.725)
        and careful.selection_score > forgetful.selection_score
    )


def test_a_log_that_is_not_its_checkpoint_s_is_refused_in_one_line(tmp_path):
    run = toyruns.run(tmp_path)
    whole = result(run)[1]
    cases = {whole[:-1]: "--restart", b"": "--restart", whole[:-2] + b"x\n": "no record of ours"}
    for other, said in cases.items():
        run.paths.log.write_bytes(other)
        with pytest.raises(InputError, match=said) as refused:
            toyruns.run(tmp_path)
        assert refused.value.code == "file-damaged"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("precious")])
def test_what_is_no_lock_file_is_refused_at_once_and_left_alone(tmp_path, make):
    (tmp_path / "precious").write_bytes(b"mine")
    make(tmp_path / "net.lock")
    with pytest.raises(StorageError, match=r"write-failed: .*net\.lock"), held(tmp_path):
        pass
    assert (tmp_path / "precious").read_bytes() == b"mine" and os.path.lexists(tmp_path / "net.lock")


def test_only_one_run_at_a_time_has_the_files(tmp_path):
    with held(tmp_path):
        assert (tmp_path / "net.lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(StorageError, match="store-busy"), held(tmp_path):
            pass
    assert not (tmp_path / "net.lock").exists()


def held(folder):
    return checkpoint.Paths(folder / "net.safetensors").held()
