"""Another kind of input than images, all of it in this file: from a folder to a delta, a report, a stream."""

import contextlib
import io
import json
import os
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from commandline import tt
from toyfiles import bare, write_images
from toynets import toy
from watching import CLASSES

import tinytrain
from tinytrain.base import file_kinds
from tinytrain.base.errors import InputError
from tinytrain.delta.file import load_delta
from tinytrain.episode.episode import Episode
from tinytrain.episode.kind import Kind
from tinytrain.episode.kinds import KINDS, register
from tinytrain.episode.sources import images_of
from tinytrain.network.committee import Committee
from tinytrain.network.file import load_network, save_network
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import quantised
from tinytrain.runtime.calibrate import calibrated_network
from tinytrain.runtime.embedder import Embedder
from tinytrain.store import Store

LENGTH, AXES = 24, 6


# What is said if it is the command that is wrong, and no file.
USAGE = ("it takes float32 values", "--command gives images", "kind windows")


class Shifted:
    """A window that begins later, and less loud."""

    def __init__(self, steps: int, gain: float):
        self.steps, self.gain = steps, np.float32(gain)

    def apply(self, y, x, kernels):
        np.copyto(y, np.roll(x, self.steps, axis=0) * self.gain, casting="unsafe")


class Windows(Kind):
    """Text files of AXES numbers a line, every `step`-th line of which counts."""

    name, noun, plural, suffixes = "windows", "window", "windows", (".rows",)

    def decode(self, content, spec):
        rows = np.array([line.split() for line in content.decode().splitlines()], np.float32)
        return rows[:: dict(spec.parameters)["step"]][: spec.shape[0], None]

    def augment(self, rng, spec, may_flip, ranges=None):
        return Shifted(int(rng.integers(-3, 4)), rng.uniform(0.6, 1))


def spec_of(step=1, dtype="float32"):
    return InputSpec((LENGTH, 1, AXES), dtype, 0.0, 1.0, kind="windows", parameters={"step": step})


def window(label, number):
    rng = np.random.default_rng([label, number])
    times = np.arange(LENGTH)[:, None] / LENGTH
    waves = np.sin(2 * np.pi * ((label + 1) * 2 * times + rng.uniform()) + np.arange(AXES))
    waves += 2.0 * (np.arange(AXES) % 3 == label)
    return (waves + rng.normal(0, 0.1, waves.shape)).astype(np.float32)


def write_windows(folder, numbers, classes=CLASSES):
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in numbers:
            write_window(folder / name / f"{number}.rows", window(label, number))
    return folder


def write_window(path, values):
    path.write_text("\n".join(" ".join(f"{x:.6f}" for x in row) for row in values))
    os.utime(path, (time.time() - 60,) * 2)


@pytest.fixture(scope="module", autouse=True)
def motion():
    rows = list(file_kinds.KINDS)
    yield register(Windows())
    del KINDS["windows"]
    file_kinds.KINDS[:] = rows


@pytest.fixture(scope="module")
def made(tmp_path_factory, motion):
    """Windows of three classes, a network for them, and what `adapt` makes of both."""
    root = tmp_path_factory.mktemp("windows")
    write_windows(root / "walks", range(8))
    write_windows(root / "more", range(20, 23))
    save_network(toy(spec=spec_of()), root / "net.safetensors")
    words = ("--out", root / "d.safetensors", "--report", root / "report.html", "--force", "-v")
    backbone = ("--backbone", root / "net.safetensors")
    options = (*backbone, "--budget", "200kB", "--policy", "full", "--queries", "2")
    said = tt_text("adapt", root / "walks", *options, *words)
    return SimpleNamespace(root=root, backbone=backbone, delta=root / "d.safetensors", said=said)


def tt_text(*words, code=0):
    """Standard output and error of a command that ends with `code`."""
    streams = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        found = tt(*words)
        for stream in streams:
            stream.flush()
    said = "".join(stream.buffer.getvalue().decode() for stream in streams)
    assert found == code, said
    return said


def test_a_folder_is_adapted_to_and_everything_that_is_said_of_it_names_the_kind(made):
    page = (made.root / "report.html").read_text()
    assert re.search(r"predict [^|]*d\.safetensors[\s\\]+new\.rows", made.said)  # long paths are wrapped
    assert "windows" in made.said and not re.search(r"\bimages?\b", made.said)
    shown = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert "Support windows" in shown and not re.search(r"\bimages?\b", shown, re.IGNORECASE)
    assert page.count("data:image/jpeg;base64,") >= 18
    delta = load_delta(made.delta)
    assert delta.report["episode"]["kind"] == "windows" and 0 in {s.layer for s in delta.slices}
    assert delta.report["memory"]["outside"]["support_images"] == 18 * LENGTH * AXES * 4


def test_a_command_to_copy_names_the_folder_as_it_is_called(made, tmp_path, monkeypatch):
    monkeypatch.chdir(write_windows(tmp_path / "images", range(4)).parent)
    options = ("images", *made.backbone, "--budget", "200kB", "--policy", "none")
    assert "tinytrain adapt images " in tt_text("plan", *options)
    tt_text("adapt", *options, "--report", "report.html", "--force")
    assert "tinytrain adapt images " in (tmp_path / "report.html").read_text()


def test_a_trained_network_predicts_files_folders_arrays_and_bytes(made, tmp_path):
    (made.root / "more" / "note.txt").write_text("no window")
    said = tt_text("predict", made.delta, made.root / "more", "--json")
    assert "note.txt: is no window by its name (.txt)" in said
    (made.root / "more" / "note.txt").unlink()
    rows = json.loads(said[: said.rindex("}") + 1])["images"]
    right = [row["best_guess"] == os.path.basename(os.path.dirname(row["image"])) for row in rows]
    assert len(right) == 9 and np.mean(right) > 0.8
    predictor = tinytrain.Predictor(delta=made.delta)
    path = made.root / "more" / "bee" / "20.rows"
    array = Windows().decode(path.read_bytes(), spec_of())
    given = [str(path), path.read_bytes(), bytearray(path.read_bytes()), array]
    assert len({p.confidence for p in predictor(given)} | {predictor(one).confidence for one in given}) == 1
    said = tt_text("eval", made.delta, made.root / "more")
    assert "of 9 windows" in said and "image" not in said


def test_check_speaks_of_the_kind(made):
    (made.root / "walks" / "ant" / "copy.rows").write_bytes(
        (made.root / "walks" / "ant" / "0.rows").read_bytes()
    )
    said = tt_text("check", made.root / "walks", *made.backbone)
    (made.root / "walks" / "ant" / "copy.rows").unlink()
    assert "of new windows right" in said and "record" in said and not re.search(r"\bimages?\b", said)
    assert "duplicates  1" in said and re.search(r"^windows     25 of 3 classes", said, re.MULTILINE)


def test_a_folder_is_watched_and_what_is_corrected_is_kept_and_adapted_to(made, tmp_path):
    store, came, labels = tmp_path / "state", tmp_path / "came", tmp_path / "labels.csv"
    came.mkdir()
    for number in range(4):
        write_window(came / f"{number}.rows", window(3, number))
    (came / "note.png").write_bytes(b"no window")
    labels.write_text("".join(f"{number}.rows,+dog\n" for number in range(4)))
    words = ("--store", store, "--labels", labels, "--once", *made.backbone)
    said = tt_text("watch", made.delta, came, *words)
    assert "4 windows, 0 unreadable, 4 corrections learnt" in said and "image" not in said
    watcher = tinytrain.Watcher(store, made.root / "net.safetensors")
    watcher.observe("sent", (made.root / "more" / "ant" / "20.rows").read_bytes())
    watcher.correct("sent", "dog")
    kept = sorted((store / "kept" / "dog").iterdir())
    assert len(kept) == 5 and {path.suffix for path in kept} == {".rows"}
    assert "dog" in tt_text("predict", store, came / "0.rows", *made.backbone)
    write_windows(tmp_path / "all", range(4))
    os.rename(store / "kept" / "dog", tmp_path / "all" / "dog")
    adapted = ("--out", tmp_path / "again.safetensors", "--force", "--budget", "200kB", "--policy", "none")
    tt_text("adapt", tmp_path / "all", *made.backbone, *adapted)
    assert load_delta(tmp_path / "again.safetensors").class_names == (*CLASSES, "dog")


def test_a_class_is_added_and_an_adaptation_goes_on_without_the_old_windows(made, tmp_path):
    write_windows(tmp_path / "new", range(5), ("elk", "fox"))
    first, then = tmp_path / "replay.safetensors", tmp_path / "on.safetensors"
    options = (*made.backbone, "--budget", "300kB", "--force")
    tt_text("adapt", made.root / "walks", *options, "--replay", "4", "--out", first)
    assert load_delta(first).views > 1  # added windows are seen in as many
    words = ("adapt", "--from", first, "--add", tmp_path / "new", *made.backbone)
    assert "10 windows" in tt_text(*words, "--out", tmp_path / "wide.safetensors")
    tt_text("adapt", "--from", first, tmp_path / "new", *options, "--out", then)
    assert load_delta(then).class_names == (*CLASSES, "elk", "fox")


def test_deltas_are_merged_and_tried_on_windows(made, tmp_path):
    write_windows(tmp_path / "other", range(30, 38))
    (made.root / "more" / "ant" / "note.txt").write_text("no window")
    options = (*made.backbone, "--budget", "200kB", "--policy", "none", "--head", "lda", "--force")
    for folder, out in ((made.root / "walks", "a"), (tmp_path / "other", "b")):
        tt_text("adapt", folder, *options, "--out", tmp_path / out)
    words = ("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "all", *made.backbone)
    assert "2 deltas, 48 windows" in tt_text(*words)
    again = tt_text("merge", tmp_path / "all", tmp_path / "a", "-o", tmp_path / "again")
    assert (
        "1 delta, 48 windows" in again
        and load_delta(tmp_path / "again").report["episode"]["kind"] == "windows"
    )
    rest = tt_text("merge", tmp_path / "all", "--without", tmp_path / "a", "-o", tmp_path / "rest")
    Store(tmp_path / "store").commit_file(tmp_path / "all")
    assert "1 delta with 24 windows" in rest and "with 48 windows" in tt_text("status", tmp_path / "store")
    said = tt_text(*words, "--check", made.root / "more")
    (made.root / "more" / "ant" / "note.txt").unlink()
    assert "of 9 windows recognised" in said and "is no window" in said and "image" not in said


def test_one_seed_gives_the_same_bytes_and_views_are_changed_by_the_kind(made, monkeypatch):
    network = load_network(made.root / "net.safetensors")
    windows = [window(label, number)[:, None] for label in range(3) for number in range(4)]
    support = images_of(windows, np.repeat(np.arange(3), 4), kind="windows")
    episode = Episode(support, support.take([]), CLASSES)
    adapted = lambda: tinytrain.adapt(network, episode, "200kB", "full", force=True).delta  # noqa: E731
    first, again = adapted(), adapted()
    same = lambda a, b: all(  # noqa: E731
        np.array_equal(x.values, y.values) for x, y in zip(a.slices, b.slices, strict=True)
    )
    assert same(first, again)
    monkeypatch.setattr(Windows, "augment", lambda *_: None)
    assert not same(first, adapted())


def test_uint8_items_of_any_channels_are_trained_in_int8_and_changed_by_the_kind(monkeypatch):
    network = quantised(toy(spec=InputSpec((LENGTH, 1, AXES), "uint8", 127.5, 0.02, kind="windows")))
    bytes_of = lambda label, n: np.clip(128 + 50 * window(label, n), 0, 255).astype(np.uint8)[:, None]  # noqa: E731
    items = [bytes_of(label, number) for label in range(3) for number in range(4)]
    support = images_of(items, np.repeat(np.arange(3), 4), kind="windows")
    network = calibrated_network(network, support)
    plain, codes = (Embedder(network, precision=p).embed(support) for p in ("float32", "int8"))
    assert np.abs(plain - codes).mean() < 0.1 * plain.std()
    episode, budget = Episode(support, support.take([]), CLASSES), tinytrain.Budget(200_000, precision="int8")
    adapted = lambda: bare(tinytrain.adapt(network, episode, budget, "last_layer", force=True))  # noqa: E731
    first, drawn = adapted(), []
    assert first == adapted()
    monkeypatch.setattr(Windows, "augment", lambda *given: drawn.append(given))
    assert first != adapted() and drawn


def test_an_exported_model_takes_what_the_network_takes(made, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    said = tt_text("export", made.delta, "-o", tmp_path / "m.onnx", *made.backbone)
    assert "takes float32 windows of 24 x 1 x 6" in said
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    given = session.get_inputs()[0]
    facts = json.loads(session.get_modelmeta().custom_metadata_map["tinytrain.image"])
    assert (given.type, given.shape[1:]) == ("tensor(float)", [LENGTH, 1, AXES])
    assert {k: facts[k] for k in ("kind", "step", "channels")} == {
        "kind": "windows",
        "step": 1,
        "channels": AXES,
    }
    items = np.stack([window(1, n)[:, None] for n in range(3)])
    want = tinytrain.Predictor(delta=made.delta).probabilities(items)
    np.testing.assert_allclose(session.run(None, {given.name: items})[0], want, atol=1e-5)


def test_a_delta_refuses_a_network_that_reads_otherwise_and_each_kind_the_files_of_another(made, tmp_path):
    save_network(toy(spec=spec_of(2)), tmp_path / "other.safetensors")
    write_images(tmp_path / "photos", CLASSES, count=4)
    photo = next((tmp_path / "photos").glob("*/*"))
    (tmp_path / "both").mkdir()
    os.symlink(made.root / "walks" / "ant", tmp_path / "both" / "ant")
    os.symlink(tmp_path / "photos" / "bee", tmp_path / "both" / "bee")
    walks = made.root / "walks"
    for words, what in (
        (("predict", made.delta, walks, "--backbone", tmp_path / "other.safetensors"), "backbone-mismatch"),
        (("predict", made.delta, photo), "image-unreadable"),
        (("adapt", walks), ".rows and the others are windows, and images are needed; give images, or name"),
        (("check", walks), "file-kind: ant/"),
        (("adapt", walks, "--backbone", "auto"), "file-kind: ant/"),
        (("adapt", tmp_path / "photos", *made.backbone), "are images, and windows are needed"),
        (("eval", made.delta, tmp_path / "photos"), "are images, and windows are needed"),
        (
            ("adapt", "--from", made.delta, "--add", tmp_path / "photos", "--out", tmp_path / "x"),
            "are images",
        ),
        (("adapt", tmp_path / "both", *made.backbone), "has windows, such as"),
        (("adapt", walks, *made.backbone, "--precision", "int8"), "it takes float32 values"),
        (("watch", made.delta, "--command", "true"), "--command gives images"),
        (("emit", walks, *made.backbone, "-o", tmp_path / "c"), "kind windows"),
        (("data", "preview", walks, "-o", tmp_path / "p.png"), "are windows, and images are needed"),
        (("predict", walks / "ant" / "0.rows", walks), "is a window; the delta comes before the windows"),
    ):
        said = tt_text(*words, code=2 if what in USAGE else 3)
        *notices, last = said.splitlines()
        assert what in last and len(notices) == ("watch" in words), (words, said)


@each(
    ("given", "text"),
    [
        (
            np.zeros((LENGTH, 1, AXES)),
            "bad-value: window 0 is 24 x 1 x 6 float64; it must be 24 x 1 x 6 float32",
        ),
        (np.zeros((LENGTH, 1, 5), np.float32), "24 x 1 x 5 float32"),
        (np.full((LENGTH, 1, AXES), np.nan, np.float32), "144 values that are NaN or infinite"),
        (b"1 2 3", "1 x 1 x 3 float32"),
        (b"a b", "could not convert"),
        (b"", "has 0 bytes"),
        (5, "give a list"),
        ([5], "window 0 is a value of type int; give a path, the bytes of a file, or an array"),
    ],
)
def test_what_is_no_window_is_refused_in_one_line(given, text, made):
    with pytest.raises(InputError) as caught:
        tinytrain.Predictor(delta=made.delta)(given)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@each("kind", [Windows(), *KINDS.values()], ids=lambda kind: kind.name)
def test_bytes_without_a_name_are_called_by_the_noun_of_their_kind(kind):
    asked = spec_of() if isinstance(kind, Windows) else kind.asked(InputSpec())
    said = 0
    for read in (lambda content: kind.read(content, asked), kind.check):
        for content in (b"", b"RIFFxx"):
            try:
                read(content)
            except InputError as error:
                said += 1
                assert f"'{kind.noun} of {len(content)} bytes' " in str(error)
    assert said >= 3, "a check may let pass what cannot be read"


def test_networks_that_read_otherwise_do_not_sit_side_by_side():
    first, other = (toy(seed=seed, spec=spec_of(step)) for seed, step in ((0, 1), (1, 2)))
    Committee((first, toy(seed=1, spec=spec_of())))
    with pytest.raises(InputError, match=r"different inputs: .*step 1.* and .*step 2"):
        Committee((first, other))


def test_a_network_for_an_unknown_kind_is_refused_in_one_line(made, tmp_path):
    from dataclasses import replace

    network = replace(toy(spec=spec_of()), input=replace(spec_of(), kind="smell"))
    save_network(network, tmp_path / "smell.safetensors")
    said = tt_text("adapt", made.root / "walks", "--backbone", tmp_path / "smell.safetensors", code=3)
    known = ", ".join(KINDS)
    assert f"no kind of input 'smell' here, known: {known}" in said and said.count("\n") == 1
