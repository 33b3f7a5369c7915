"""Pre-training: it learns, follows a teacher, and leaves a plain folded network."""

from dataclasses import replace

import numpy as np
import pytest
import toynets
import toyruns

from tinytrain.backbones.load import load_backbone
from tinytrain.backbones.sound import OWN
from tinytrain.base.errors import InputError
from tinytrain.meta.training import losses
from tinytrain.meta.training.architecture import architecture, initial_network
from tinytrain.meta.training.compact_transformer import compact_transformer
from tinytrain.meta.training.offline import finish, table
from tinytrain.meta.training.recipe import load_recipe
from tinytrain.network.input_spec import InputSpec
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode
from tinytrain.plan.budget import Budget

TEACHER = toyruns.TEACHER
EQUAL = [[0, 4, 3, 1], [8, 6, 3, 2], [12, TEACHER.embedding_size, 3, 1]]
FAST = {"rate": 0.03, "relative": True, "bias_rate": 1e-3, "warm_up": 3}


def losses_of(run) -> list[float]:
    return [row["loss"] for row in run().rows[1:]]


@pytest.mark.parametrize(("loss", "blocks"), [("cosine", EQUAL), ("relational", toyruns.BLOCKS)])
def test_distillation_brings_the_embeddings_closer_to_the_teachers(tmp_path, loss, blocks):
    changes = {"loss": loss, "steps": 40, "optimizer": FAST, "batch": 12}
    changes["architecture"] = {"size": 16, "stem": 4, "blocks": blocks}
    run = toyruns.run(tmp_path, kind="pretrain", **changes, teacher_network=TEACHER)
    found = losses_of(run)
    assert np.mean(found[-4:]) < 0.8 * np.mean(found[:2])


def test_a_classifier_learns_the_classes(tmp_path):
    run = toyruns.run(tmp_path, kind="pretrain", steps=40, optimizer=FAST, batch=12)
    found = losses_of(run)
    assert np.mean(found[-4:]) < 0.8 * np.mean(found[:2])


def test_what_is_exported_is_a_plain_network_that_loads(tmp_path):
    run = toyruns.run(tmp_path, kind="pretrain")
    finished = finish(run.task, run, run.paths)
    network = load_backbone(run.paths.result)
    assert network.digest == finished.digest
    assert network.name == "toy"
    assert {layer.op for layer in network.layers} <= {"conv", "depthwise", "pointwise"}
    assert "target" in table(finished)
    assert set(finished.json()["int8"]["left_out"]) == {"target"}


def test_teacher_embeddings_are_centred_by_a_fixed_mean(tmp_path):
    shape = {"size": 16, "stem": 4, "blocks": EQUAL}
    task, _ = toyruns.task(
        tmp_path, "pretrain", teacher=TEACHER, architecture=shape, augmentation={"domain": 0.0}
    )
    images = np.concatenate([task.batch(k).images for k in range(20)])
    (wanted,) = task.teacher(images)
    raw = wanted + task.teacher.mean
    assert np.linalg.norm(wanted.mean(axis=0)) < 0.2 * np.linalg.norm(raw.mean(axis=0))
    np.testing.assert_array_equal(task.teacher(images[:3])[0], wanted[:3])


def bottleneck_teacher():
    """A teacher of inverted bottlenecks, the kind that `architecture` makes."""
    spec = toyruns.SPEC
    return initial_network(9, toynets.images(8), architecture(spec.shape, 4, EQUAL), {}, spec)


def inner_errors(task) -> list[float]:
    """Mean squared error of each block in units of the teacher's spread, on fixed images."""
    images = task.batch(0).images
    _, *found = task.whole.forward(images)
    _, *wanted = task.teacher(images)
    spreads = [spread for _, spread in task.teacher.spreads]
    pairs = zip(found, wanted, spreads, strict=True)
    return [losses.feature_loss([y], [t], [s], 1.0)[0] for y, t, s in pairs]


def test_every_block_starts_with_the_spread_of_the_teachers_and_follows_it(tmp_path):
    changes = {"inner": 1.0, "steps": 60, "optimizer": FAST, "batch": 12}
    changes["architecture"] = {"size": 16, "stem": 4, "blocks": EQUAL}
    run = toyruns.run(tmp_path, kind="pretrain", **changes, teacher_network=bottleneck_teacher())
    _, *outputs = run.task.whole.forward(run.task.batch(0).images)
    for y, (_, spread) in zip(outputs, run.task.teacher.spreads, strict=True):
        assert 1 / 3 < float(np.median(y.std(axis=(0, 1, 2)) / spread)) < 3
    before = inner_errors(run.task)
    run()
    run.task.whole.values = run.state.values
    assert np.divide(inner_errors(run.task), before).mean() < 0.8


def test_blocks_learn_apart_first_and_then_together(tmp_path):
    changes = {"inner": 1.0, "steps": 40, "apart": 30, "optimizer": FAST, "batch": 12}
    changes["architecture"] = {"size": 16, "stem": 4, "blocks": EQUAL}
    run = toyruns.run(tmp_path, kind="pretrain", **changes, teacher_network=bottleneck_teacher())
    assert [run.task.phase(k) for k in (0, 29, 30, 39)] == [(0, 30), (29, 30), (0, 10), (9, 10)]
    before = inner_errors(run.task)
    run()
    run.task.whole.values = run.state.values
    assert np.divide(inner_errors(run.task), before).mean() < 0.8


@pytest.mark.parametrize(("changes", "said"), [({}, "inner: 0"), ({"inner": 1.0, "teacher": "given"}, "6")])
def test_steps_apart_need_blocks_to_follow_and_fit_into_the_run(tmp_path, changes, said):
    with pytest.raises(InputError, match=f"apart is .*{said}"):
        toyruns.task(tmp_path, "pretrain", apart=7, **changes)


def test_blocks_that_do_not_match_the_teachers_are_refused(tmp_path):
    shape = {"size": 16, "stem": 4, "blocks": [[0, 5, 3, 1], *EQUAL[1:]]}
    with pytest.raises(InputError, match="inner: 0") as refused:
        toyruns.task(tmp_path, "pretrain", teacher=bottleneck_teacher(), architecture=shape, inner=1.0)
    assert refused.value.code == "unsupported"


def test_a_teacher_of_another_width_needs_the_relational_loss(tmp_path):
    with pytest.raises(InputError, match="relational") as refused:
        toyruns.task(tmp_path, "pretrain", teacher=TEACHER)
    assert refused.value.code == "unsupported"


def test_an_architecture_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(InputError):
        toyruns.task(tmp_path, "pretrain", architecture={"size": 16, "stem": 4, "blocks": [[8, 4, 4, 1]]})


TOKENS = {"size": 16, "tokens": [6, 8], "attention": [1, 2, 12]}


def test_a_compact_transformer_learns_and_is_adapted_as_any_network(tmp_path):
    changes = {"architecture": TOKENS, "steps": 60, "optimizer": FAST, "batch": 12}
    run = toyruns.run(tmp_path, kind="pretrain", **changes, teacher_network=TEACHER, loss="relational")
    finished = finish(run.task, run, run.paths)
    found = [row["loss"] for row in finished.outcome.rows[1:]]
    network = load_backbone(run.paths.result)
    assert np.mean(found[-4:]) < 0.8 * np.mean(found[:2])
    assert network.digest == finished.digest and network.embedding_size == 8
    assert [node.op for node in network.nodes].count("attention") == 1
    report = adapt(network, toy_episode(queries=2), Budget(2**20, 1.0), force=True)
    assert any(s.part == "weight" for s in report.delta.slices)


@pytest.mark.parametrize(("more", "said"), [
    ({"architecture": TOKENS | {"blocks": EQUAL}}, "allowed: .. beside blocks"),
    ({"architecture": TOKENS | {"attention": [1, 3, 12]}}, "heads that divide 8 channels"),
    ({"architecture": TOKENS, "teacher": TEACHER, "inner": 1.0}, "inner is 1.0; allowed: 0 with tokens"),
])  # fmt: skip
def test_a_compact_transformer_that_cannot_be_is_refused(tmp_path, more, said):
    with pytest.raises(InputError, match=said) as refused:
        toyruns.task(tmp_path, "pretrain", **more)
    assert refused.value.code == "bad-value"


def test_the_recipes_of_both_compact_networks_differ_in_the_architecture_alone():
    ours, other = (load_recipe(f"compact-{name}", "pretrain") for name in ("transformer", "cnn"))
    assert replace(ours, name="", architecture=other.architecture) == replace(other, name="")
    shape = ours.architecture
    nodes = compact_transformer(shape.spec.shape, shape.tokens, shape.attention)
    layers = architecture(shape.spec.shape, other.architecture.stem, other.architecture.blocks)
    for fact in ("macs", "n_weights"):
        mine, others = (sum(getattr(node, fact) for node in each) for each in (nodes, layers))
        assert abs(mine - others) < 0.02 * mine


SOUND = {
    "architecture": {"input": "sound", "stem": 4, "blocks": [[0, 4, 3, 2], [8, 8, 3, 2]]},
    "sources": [{"data": "sounds", "classes": [98, 102], "per_class": 2, "held_out": 0}],
    "validate": {
        "domains": [{"data": "sounds", "classes": [300, 303], "per_class": 4}],
        "every": 20,
        "episodes": 3,
    }
    | {"way": 2, "shots": 2, "queries": 2},
}


def test_an_encoder_of_sound_learns_from_generated_clips_and_is_a_network_of_sound(tmp_path):
    run = toyruns.run(tmp_path, kind="pretrain", steps=40, optimizer=FAST, batch=12, **SOUND)
    finished = finish(run.task, run, run.paths)
    found = [row["loss"] for row in finished.outcome.rows[1:]]
    network = load_backbone(run.paths.result)
    assert found[-1] < 0.8 * found[0] and network.digest == finished.digest
    assert network.input == OWN and network.embedding_size == 8


def test_a_teacher_that_sees_images_has_nothing_to_say_about_clips(tmp_path):
    with pytest.raises(InputError, match="images alone") as refused:
        toyruns.task(tmp_path, "pretrain", teacher=TEACHER, **SOUND)
    assert refused.value.code == "unsupported"


def test_episodes_are_of_square_images(tmp_path):
    network = toynets.toy("headed", spec=InputSpec((16, 12, 3)))
    with pytest.raises(InputError, match="takes items of 16 x 12 x 3") as refused:
        toyruns.task(tmp_path, network=network)
    assert refused.value.code == "unsupported"
