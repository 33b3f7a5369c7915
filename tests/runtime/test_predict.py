"""Inference and extension: what the report promised is what the predictor does, and heads grow."""

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from cases import each

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.heads.head import UNKNOWN
from tinytrain.heads.lda import RIDGE, lda_offsets
from tinytrain.heads.moments import UNIT
from tinytrain.heads.triangle import unpacked
from tinytrain.kernels import NAMES, load
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.add_classes import add_classes, doubtful
from tinytrain.pipeline.toy import toy_episode, toy_images, toy_network
from tinytrain.pipeline.warmup import warm_up
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy
from tinytrain.runtime.predict import Predictor


def policy(head):
    def recipe(network, *_):
        updates = (Update(6, tuple(range(12)), bias=True), Update(11, tuple(range(12))))
        return Recipe("test", updates, ((1e-2, 1e-2),) * 2, steps=5, head=head, views=3)

    return Policy("test", recipe, "none", macs_limited=False)


@pytest.fixture(scope="module")
def network():
    return toy_network()


@pytest.fixture(scope="module", params=["lda", "cosine"])
def report(request, network):
    return adapt(network, toy_episode(way=4, shots=6, queries=6), Budget(2**22), policy(request.param))


def test_a_stored_delta_predicts_what_the_report_says_of_the_queries(network, report):
    delta = decode_delta(*decode(encode_delta(report.delta)))
    predictor = Predictor(network, delta)
    assert (predictor.logits(report.episode.query).argmax(axis=1) == report.answers.after).all()


def test_probabilities_are_the_logits_at_the_fitted_temperature(network, report):
    predictor = Predictor(network, report.delta)
    probabilities = predictor.probabilities(report.episode.query)
    assert probabilities.sum(axis=1) == pytest.approx(1) and (probabilities >= 0).all()
    logits = predictor.logits(report.episode.query)
    ratio = np.log(probabilities[:, 0] / probabilities[:, 1]) * report.delta.head.temperature
    clear = (probabilities > 1e-6).all(axis=1)
    assert ratio[clear] == pytest.approx((logits[:, 0] - logits[:, 1])[clear], rel=1e-3, abs=1e-3)


def test_numpy_kernels_predict_the_same(network, report):
    one, other = (Predictor(network, report.delta, backend) for backend in ("auto", "numpy"))
    assert one.embed(report.episode.query) == pytest.approx(other.embed(report.episode.query), abs=1e-4)


def test_inference_needs_less_memory_than_the_adaptation(network, report):
    assert Predictor(network, report.delta).arena < report.program.nbytes


def test_a_delta_of_another_backbone_is_refused(report):
    with pytest.raises(InputError, match="backbone-mismatch"):
        Predictor(toy_network(seed=3), report.delta)


def test_new_classes_are_learnt_without_the_old_images(network, report):
    added = toy_images(np.repeat([4, 5], 6), seed=7)
    labels = np.repeat(np.arange(2, dtype=np.int32), 6)
    images = type(added)(labels, added.names, added.read)
    grown = add_classes(network, report.delta, images, ("toy 4", "toy 5"))
    assert grown.class_names == (*report.delta.class_names, "toy 4", "toy 5")
    assert grown.report["extended"] == [{"toy 4": 6, "toy 5": 6}] and grown.head.left_out is None
    predicted = Predictor(network, grown).logits(toy_images(np.repeat([4, 5], 10), seed=8)).argmax(axis=1)
    assert (predicted == np.repeat([4, 5], 10)).mean() > 2 / 6, (
        "better than chance, even on a random backbone"
    )
    again = decode_delta(*decode(encode_delta(grown)))
    assert again.class_names == grown.class_names


def test_old_classes_keep_every_bit_when_classes_are_added(network, report):
    """Of everything that is theirs alone; the covariance of all classes, which the new one moves, is not."""
    grown = add_classes(network, report.delta, toy_images(np.zeros(3), seed=9), ("new",))
    own = ("means", "counts", *(("weights", "offsets") if report.delta.head.kind == "cosine" else ()))
    for name in own:
        assert (getattr(grown.head, name)[:4] == getattr(report.delta.head, name)).all()
    assert grown.slices is report.delta.slices and grown.head.temperature == report.delta.head.temperature


def test_extending_in_two_goes_is_extending_at_once(network, report):
    images = toy_images(np.zeros(6), seed=9)
    at_once = add_classes(network, report.delta, images, ("new",)).head
    first = add_classes(network, report.delta, images.take(range(3)), ("new",))
    rest = images.take(range(3, 6))
    twice = add_classes(network, first, rest, ("new",)).head
    assert twice.counts.tolist() == at_once.counts.tolist()
    if report.delta.views == 1:  # augmented views are drawn by position, so they differ
        assert twice.means == pytest.approx(at_once.means, abs=1e-6)


@each("kind", ["slda", "ridge", "imprint", "cosine"])
@each("shots", [6, 40])
def test_adding_images_is_adapting_to_all_of_them(network, kind, shots):
    """For heads of clean images: augmented views are drawn anew when images are added.

    Up to the rounding of features to 8 bits, which an adaptation caches.
    """
    episode = toy_episode(way=3, shots=shots, queries=6)
    adapted = [adapt(network, e, Budget(2**22), f"none+{kind}", force=True) for e in (episode, some(episode))]
    whole, part = (report.delta for report in adapted)
    late = episode.support.take(np.setdiff1d(np.arange(len(episode.support)), chosen(episode)))
    grown = add_classes(network, part, late, episode.class_names)
    assert grown.head.counts.tolist() == whole.head.counts.tolist() == [shots] * 3
    one, other = (Predictor(network, delta).logits(episode.query) for delta in (grown, whole))
    np.testing.assert_allclose(one, other, rtol=0, atol=0.03 * np.ptp(other))


def chosen(episode):
    """Half of the images of the first two classes."""
    labels = episode.support.labels
    return np.concatenate([np.flatnonzero(labels == k)[::2] for k in range(2)])


def some(episode):
    return replace(
        episode,
        support=episode.support.take(chosen(episode)),
        query=episode.query.take(np.flatnonzero(episode.query.labels < 2)),
        class_names=episode.class_names[:2],
    )


def test_more_images_of_a_known_class_move_its_mean_by_their_share(network, report):
    images = report.episode.support.take(np.flatnonzero(report.episode.support.labels == 1))
    images = type(images)(np.zeros(6, np.int32), images.names, images.read)
    grown = add_classes(network, report.delta, images, (report.delta.class_names[1],)).head
    assert grown.counts[1] == 2 * report.delta.head.counts[1]
    assert grown.means[1] == pytest.approx(report.delta.head.means[1], abs=0.1)
    assert (grown.means[[0, 2, 3]] == report.delta.head.means[[0, 2, 3]]).all()


def test_an_lda_row_solves_the_stored_covariance(network, report):
    head = add_classes(network, report.delta, toy_images(np.zeros(3), seed=9), ("new",)).head
    if head.kind == "cosine":
        assert head.weights[4] == pytest.approx(head.means[4] / np.linalg.norm(head.means[4]), abs=1e-5)
        return
    shrinkage, scatter = head.method.shrinkage, unpacked(head.products) / UNIT
    means, size = head.means.astype(float), len(scatter)
    covariance = (scatter + np.tril(scatter, -1).T - (means * head.counts[:, None]).T @ means) / head.total
    s = (1 - shrinkage) * covariance
    s += (shrinkage * np.trace(covariance) / size + RIDGE) * np.eye(size)
    solved = np.linalg.solve(s, means.T).T
    assert head.weights == pytest.approx(solved, rel=2e-2, abs=2e-2 * np.abs(solved).max())
    excess = np.trace(np.linalg.solve(s, covariance))
    assert head.offsets == pytest.approx(lda_offsets(solved, means, excess, head.images), rel=1e-2)


def test_images_that_look_like_another_known_class_are_named_before_they_are_added(network, report):
    names = report.delta.class_names
    mixed = toy_images(np.repeat([1, 2], 6), seed=9)
    given = (names[2], "new")  # those of class 1 are called class 2, and those of class 2 a new one
    images = type(mixed)(np.repeat(np.arange(2, dtype=np.int32), 6), mixed.names, mixed.read)
    found = doubtful(network, report.delta, images, given)
    answers = Predictor(network, report.delta).probabilities(images.take(range(6)))
    wrong = [i for i in range(6) if answers[i].argmax() != 2]
    assert {row["name"] for row in found} == {images.names[i] for i in wrong} and len(wrong) > 2
    assert all(row["given"] == names[2] != row["looks_like"] for row in found)
    confidences = [row["confidence"] for row in found]
    assert confidences == sorted(confidences, reverse=True) and max(confidences) == answers[wrong].max()
    assert doubtful(network, report.delta, images.take(range(6, 12)), given) == []


def test_a_class_to_add_needs_images(network, report):
    with pytest.raises(InputError, match="too-few-images"):
        add_classes(network, report.delta, toy_images(np.zeros(2)), ("new", "empty"))


@pytest.mark.parametrize("names", [("new", "new"), ("new", "\ud800"), ("new", "")])
def test_classes_to_add_need_names_that_a_delta_can_keep(network, report, names):
    with pytest.raises(InputError, match="class-names"):
        add_classes(network, report.delta, toy_images(np.arange(2)), names)


@pytest.mark.slow
def test_warming_up_compiles_every_kernel_there_is():
    if load().backend == "numpy":
        assert warm_up() == []
        return
    # A process of its own, because other tests have compiled kernels in this one.
    code = "import json; from tinytrain.pipeline.warmup import warm_up; print(json.dumps(warm_up()))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True
    )
    compiled = set(json.loads(done.stdout))
    assert set(NAMES) - compiled <= {"matmul", "add_matmul"}, "a product does their work"


@pytest.fixture(scope="module")
def predictor(network, report):
    return Predictor(network, report.delta)


def test_a_prediction_names_the_likeliest_class_and_how_sure_that_is(predictor, report):
    expected = predictor.probabilities(report.episode.query)
    predictions = predictor.predict(report.episode.query)
    for prediction, row in zip(predictions, expected, strict=True):
        assert list(prediction.probabilities) == list(report.delta.class_names)
        assert list(prediction.probabilities.values()) == pytest.approx(row, abs=1e-5)
        assert prediction.best_guess == report.delta.class_names[row.argmax()]
        refused = prediction.verdict == UNKNOWN
        assert prediction.name == (None if refused else prediction.best_guess)
        assert prediction.confidence == max(prediction.probabilities.values())


def test_one_image_gives_one_answer_and_a_list_gives_a_list(predictor, report):
    frame = report.episode.query.image(0, 16)
    one, some = predictor(frame), predictor([frame, frame])
    assert some == [one, one] and predictor(np.stack([frame, frame])) == some and predictor([]) == []
    assert predictor.probabilities(frame).shape == (4,)
    assert predictor.probabilities([frame]).shape == (1, 4) and predictor.probabilities([]).shape == (0, 4)


def test_threads_may_share_a_predictor(predictor, report):
    query = report.episode.query
    expected = predictor.probabilities(query)

    def wrong(_) -> int:
        return sum((predictor.probabilities(query) != expected).any() for _ in range(20))

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(wrong, range(4))) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_predicts_although_a_thread_of_its_parent_had_the_turn(predictor, report):
    begun, over = threading.Event(), threading.Event()

    def takes_the_turn():
        with predictor.embedder._turns[0]:
            begun.set()
            over.wait()

    thread, image = threading.Thread(target=takes_the_turn), report.episode.query.image(0, 16)
    thread.start()
    begun.wait()
    if not (child := os.fork()):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(300)  # ends a hang
        predictor(image)
        os._exit(0)
    over.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_pickled_predictor_gives_the_same_bits_and_has_the_same_backend(network, report, copied):
    one = Predictor(network, report.delta, "numpy")
    other, images = copied(one), report.episode.query.take(range(3))
    assert other.probabilities(images).tobytes() == one.probabilities(images).tobytes()
    assert (other.backend, other.delta.head.method) == ("numpy", report.delta.head.method)
    assert not any(w.flags.writeable for w in other.network.weights)


def test_an_answer_below_the_confidence_asked_for_is_none_of_the_classes(predictor, report):
    frame = report.episode.query.image(0, 16)
    sure = predictor(frame)
    assert predictor(frame, reject=sure.confidence) == sure
    unsure = predictor(frame, reject=sure.confidence + 1e-3)
    assert unsure.name is None and unsure.probabilities == sure.probabilities
    for wrong in (-0.1, 1.1, float("nan"), "60%"):
        with pytest.raises(UsageError, match="is no confidence; give a number from 0 to 1"):
            predictor(frame, reject=wrong)


def test_a_prediction_and_a_predictor_are_one_short_line(predictor, report):
    for value in (predictor, predictor(report.episode.query.image(0, 16))):
        assert len(repr(value)) < 200 and "\n" not in repr(value)
