"""``predict`` and ``eval`` take images as files, folders, patterns, lists of paths and standard input."""

import io
import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from cases import each
from commandline import tt
from PIL import Image
from toyfiles import write_images, write_network

from tinytrain.cli.commands import inputs
from tinytrain.delta.file import load_delta, save_delta
from tinytrain.episode.kinds import IMAGES
from tinytrain.heads.out_of_distribution import Limit

CLASSES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A network, images and a delta; notes of where networks lie are not shared with other tests."""
    with pytest.MonkeyPatch.context() as patch:
        notes = tmp_path_factory.mktemp("notes")
        patch.setattr("tinytrain.backbones.remembered.cache_folder", lambda part: notes / part)
        yield made(tmp_path_factory.mktemp("place"))


def made(place):
    write_network(place)
    write_images(place / "photos", CLASSES, count=5)
    write_images(place / "held", CLASSES, count=3, seed=9)
    backbone = ("--backbone", place / "toy.safetensors")
    assert tt("adapt", place / "photos", *backbone, "--policy", "none", "--out", place / "d.safetensors") == 0
    return place


def predict_words(place) -> list:
    """For processes of their own, which do not know where the network lies."""
    return ["predict", place / "d.safetensors", "--backbone", place / "toy.safetensors"]


@pytest.fixture
def seen(place, monkeypatch, capsys):
    """The names of the images that `predict` answers for; the delta finds its network by itself."""
    monkeypatch.chdir(place)

    def run(*arguments, code=0) -> list[str]:
        capsys.readouterr()
        assert tt("predict", "d.safetensors", *arguments, "--json") == code
        return [row["image"] for row in json.loads(capsys.readouterr().out)["images"]]

    return run


def test_a_folder_is_searched_with_those_inside_it_in_sorted_order(seen):
    assert seen("held") == sorted(f"held/{name}/9-{i}.png" for name in CLASSES for i in range(3))
    assert seen("held/ant", "held/bee/9-1.png") == [
        "held/ant/9-0.png", "held/ant/9-1.png", "held/ant/9-2.png", "held/bee/9-1.png"
    ]  # fmt: skip


def test_folders_may_be_nested_deeper_than_python_calls(tmp_path, monkeypatch):
    depth = sys.getrecursionlimit() + 100
    monkeypatch.chdir(tmp_path)
    for _ in range(depth):
        os.mkdir("a")
        os.chdir("a")
    open("x.png", "wb").close()
    monkeypatch.chdir(tmp_path)
    assert list(inputs.files_below(".", [], IMAGES)) == ["a/" * depth + "x.png"]
    subprocess.run(["rm", "-r", "a"], check=True)  # shutil.rmtree calls itself for each folder


def test_a_pattern_that_the_shell_left_alone_is_expanded(seen):
    assert seen("held/*/9-1.png") == [f"held/{name}/9-1.png" for name in CLASSES]
    assert seen("held/**/*.png") == seen("held")
    assert seen("hel?/ca*") == [f"held/cat/9-{i}.png" for i in range(3)]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(seen, place, tmp_path):
    shutil.copy(place / "held" / "ant" / "9-0.png", tmp_path / "a[1].png")
    assert seen(tmp_path / "a[1].png") == [str(tmp_path / "a[1].png")]


def test_a_pattern_without_files_is_an_error_that_names_it(seen, capsys):
    assert seen("held/*.jpg", "held/ant/9-0.png", code=3) == ["held/ant/9-0.png"]


def test_paths_come_from_a_file_one_a_line_or_with_nul(seen, tmp_path):
    paths = [f"held/{name}/9-0.png" for name in CLASSES]
    (tmp_path / "list").write_text("\r\n".join(paths) + "\n\n")
    assert seen("--files-from", tmp_path / "list") == paths
    (tmp_path / "list").write_text("\n".join(paths))
    assert seen("--files-from", tmp_path / "list", "held/bee/9-2.png") == ["held/bee/9-2.png", *paths]
    (tmp_path / "list").write_text("\0".join([*paths, ""]))
    assert seen("--files-from", tmp_path / "list", "--null") == paths


def test_a_list_that_cannot_be_read_is_one_line(seen, capsys, tmp_path):
    assert tt("predict", "d.safetensors", "--files-from", tmp_path / "no") == 3
    assert "cannot be read (No such file or directory)" in capsys.readouterr().err
    assert (
        tt("predict", "d.safetensors", "--files-from", "a\0b") == 3
        and capsys.readouterr().err.count("\n") == 1
    )


def test_an_image_comes_from_standard_input(seen, place, monkeypatch, capsys):
    image = (place / "held" / "bee" / "9-0.png").read_bytes()
    for content, code in ((image, 0), (b"", 3), (b"no image", 3)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert seen("-", code=code) == ["standard input"] * (code == 0)


USAGE = {
    "nothing": ((), "IMAGE, or --files-from FILE"),
    "two things on standard input": (("-", "--files-from", "-"), "give - once"),
    "--null without a list": (("x.png", "--null"), "no effect without --files-from"),
}


@each("command", ["predict", "eval"])
@each("name", USAGE)
def test_contradictions_are_usage_errors(command, name, capsys):
    words, said = USAGE[name]
    assert tt(command, "d.safetensors", *words) == 2 and said in capsys.readouterr().err


def test_other_files_of_a_folder_are_counted_by_kind_and_hidden_ones_are_no_news(place, tmp_path, capsys):
    photos = write_images(tmp_path / "photos", ("ant",), count=2)
    for name in ("a.txt", "b.txt", "c.mp4", ".hidden.png", "Thumbs.db", "desktop.ini"):
        (photos / "ant" / name).write_bytes(b"x")
    assert tt("predict", place / "d.safetensors", photos) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 2 and "Thumbs" not in err and "hidden" not in err
    assert "skipped 2 files, each is no image by its name (.txt): " in err and "c.mp4: " in err
    assert tt("predict", place / "d.safetensors", photos, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["skipped"]) == 3


def test_answers_are_printed_as_they_are_known(place):
    """A list that goes on: each line is there before the next path is given."""
    command = [sys.executable, "-m", "tinytrain", *predict_words(place), "--files-from", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stuck = threading.Timer(60, process.kill)
        stuck.start()
        for name in CLASSES:
            process.stdin.write(f"{place}/held/{name}/9-0.png\n")
            process.stdin.flush()
            assert f"{name}/9-0.png" in process.stdout.readline()
        process.stdin.close()
        assert process.wait() == 0
        stuck.cancel()


def test_a_rejected_image_says_what_it_looked_like_and_what_was_asked_for(place, capsys):
    image = place / "held" / "ant" / "9-0.png"
    assert tt("predict", place / "d.safetensors", image, "--reject", "100%") == 0
    line = capsys.readouterr().out
    assert (
        line.startswith(str(image))
        and "none of these (best guess " in line
        and line.endswith("below 100%)\n")
    )
    assert tt("predict", place / "d.safetensors", image, "--reject", "100%", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["images"]
    assert row["class"] is None and row["best_guess"] in CLASSES
    assert row["confidence"] == row["probabilities"][row["best_guess"]]


def changed(place, **facts):
    """A delta file like the first one, whose head has these `facts`."""
    delta = load_delta(place / "d.safetensors")
    save_delta(place / "changed.safetensors", replace(delta, head=replace(delta.head, **facts)))
    return place / "changed.safetensors"


@pytest.mark.parametrize(
    "least, words", [(1e9, "none of these (closest: "), (-1e9, "ant"), (None, "ant")], ids=str
)
def test_a_verdict_is_said_in_words_and_in_json(place, capsys, least, words):
    image, limit = place / "held" / "ant" / "9-0.png", least and Limit(1.0, least)
    delta = changed(place, limit=limit, temperature=1e-3)
    assert tt("predict", delta, image) == 0
    out, err = capsys.readouterr()
    assert words in out and ("cannot tell images of other things" in err) == (limit is None)
    assert tt("predict", delta, image, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["tells_strangers"] == (limit is not None)
    (row,) = result["images"]
    assert row["verdict"] == ("unknown" if least == 1e9 else "identified")
    assert (row["class"] is None) == (least == 1e9) and row["best_guess"] in CLASSES


def test_an_uncertain_verdict_still_names_the_class(place, capsys):
    image = place / "held" / "ant" / "9-0.png"
    delta = changed(place, limit=Limit(1.0, -1e9), temperature=1e6)
    assert tt("predict", delta, image) == 0
    assert ", uncertain\n" in capsys.readouterr().out
    assert tt("predict", delta, image, "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["images"]
    assert row["verdict"] == "uncertain" and row["class"] == row["best_guess"]


def test_a_wrong_backbone_is_refused_and_the_right_one_said_to_be_known(place, tmp_path, capsys):
    other = write_network(tmp_path, seed=1, name="other")
    image = place / "held" / "ant" / "9-0.png"
    assert tt("predict", place / "d.safetensors", image, "--backbone", other) == 3
    err = capsys.readouterr().err
    assert "backbone-mismatch: the delta belongs to toy" in err and "leave out --backbone" in err
    assert tt("predict", place / "d.safetensors", image) == 0


@pytest.mark.parametrize("command", ["export", "adapt"])
def test_a_network_that_was_found_is_not_overwritten(place, tmp_path, capsys, command):
    before = (place / "toy.safetensors").read_bytes()
    words = {
        "export": [place / "d.safetensors"],
        "adapt": ["--from", place / "d.safetensors", "--add", place / "held"],
    }
    assert tt(command, *words[command], "--out", place / "toy.safetensors") == 2
    assert "which is needed" in capsys.readouterr().err
    assert (place / "toy.safetensors").read_bytes() == before


def test_verbose_names_the_next_classes(place, capsys):
    image = place / "held" / "ant" / "9-0.png"
    assert tt("predict", place / "d.safetensors", image, "--verbose") == 0
    line = capsys.readouterr().out
    assert all(name in line for name in CLASSES) and "; then " in line


def test_quiet_leaves_results_and_errors(place, tmp_path, capsys):
    photos = write_images(tmp_path / "photos", ("ant",), count=1)
    (photos / "ant" / "a.txt").write_bytes(b"x")
    assert tt("predict", place / "d.safetensors", photos, "missing.png", "--quiet") == 3
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and "skipped" not in err and "missing.png" in err


@pytest.fixture
def judged(place, monkeypatch, capsys):
    """The result of `eval`."""
    monkeypatch.chdir(place)

    def run(*arguments, code=0) -> dict:
        capsys.readouterr()
        assert tt("eval", "d.safetensors", *arguments, "--json") == code
        return json.loads(capsys.readouterr().out)

    return run


def test_eval_takes_folders_of_classes_single_classes_files_and_patterns(judged, place, tmp_path):
    whole = judged("held")
    assert whole["n"] == 9
    for arguments in (
        ["held/*"],
        ["held/ant", "held/bee", "held/cat"],
        ["held/*/*.png"],
        ["held", "held/ant", "./held", place / "held"],
    ):
        assert judged(*arguments)["confusion"] == whole["confusion"], "an image counts once"
    (tmp_path / "list").write_text("held/ant\nheld/bee/9-0.png\n")
    assert judged("--files-from", tmp_path / "list")["n"] == 4
    assert judged("held", "photos")["n"] == 24


def test_results_say_image_and_for_one_version_more_picture(judged, place, tmp_path, capsys):
    (tmp_path / "broken.png").write_bytes(b"broken")
    assert tt("predict", "d.safetensors", "held/ant", tmp_path / "broken.png", "--json") == 3
    found = json.loads(capsys.readouterr().out)
    assert found["pictures"] == found["images"] and found["images"] and found["failed"]
    load = load_delta("d.safetensors")
    save_delta(tmp_path / "d.safetensors", replace(load, class_names=load.class_names[::-1]))
    assert tt("eval", tmp_path / "d.safetensors", "held", "--json") == 0
    wrong = json.loads(capsys.readouterr().out)["wrong"]
    assert wrong and all(
        row["picture"] == row["image"] for row in (*found["images"], *found["failed"], *wrong)
    )
    assert (
        tt("data", "export", "leaves", tmp_path / "out", "--classes", "2", "--per-class", "1", "--json") == 0
    )
    out = json.loads(capsys.readouterr().out)
    assert out["pictures"] == out["images"] == 2
    assert tt("data", "check", tmp_path, "--json") == 3
    sets = json.loads(capsys.readouterr().out)["sets"]
    assert sets and all(row["pictures_expected"] == row["images_expected"] > 0 for row in sets)


def test_eval_refuses_what_has_no_class(judged, place, tmp_path):
    assert judged("-", code=2)["error"]["code"] == "usage"
    shutil.copy(place / "held" / "ant" / "9-0.png", tmp_path / "x.png")
    assert judged(tmp_path / "x.png", code=3)["error"]["code"] == "unknown-class"
    assert judged(tmp_path / "missing.png", code=3)["error"]["code"] == "file-missing"


def test_eval_leaves_out_what_cannot_be_decoded_and_says_so(judged, place, tmp_path):
    photos = write_images(tmp_path / "photos", CLASSES, count=1)
    (photos / "ant" / "bad.png").write_bytes(b"broken")
    result = judged(photos)
    assert result["n"] == 3 and len(result["warnings"]) == 1 and "bad.png" in result["warnings"][0]
    assert judged(photos / "ant" / "bad.png", code=3)["error"]["code"] == "too-few-images"


@pytest.mark.slow
def test_a_thousand_images_take_no_more_memory_than_ten(place, tmp_path):
    """Resident memory of a run over many links to one image, which are separate files to the command."""
    image = tmp_path / "one.png"
    Image.new("RGB", (640, 480)).save(image)
    peaks = []
    for count in (10, 1000):
        folder = tmp_path / str(count)
        folder.mkdir()
        for i in range(count):
            os.link(image, folder / f"{i}.png")
        code = (
            "import resource, sys; from tinytrain.cli.main import main; main(sys.argv[1:]);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        command = [sys.executable, "-c", code, *predict_words(place), folder]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout.count("\n") == count
        peaks.append(int(done.stderr.split()[-1]))
    assert peaks[1] - peaks[0] < 20_000, "kB; the decoded images would take 900 MB"


def test_an_empty_list_is_named(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (place / "none.txt").write_text("\n")
    assert tt("predict", "d.safetensors", "--files-from", "none.txt") == 3
    assert "too-few-images: none.txt holds 0 images" in capsys.readouterr().err


def test_a_link_to_a_folder_is_said_to_be_one(place, tmp_path, seen, capsys):
    shutil.copytree(place / "held" / "ant", tmp_path / "mine")
    (tmp_path / "mine" / "up").symlink_to(tmp_path)
    assert len(seen(tmp_path / "mine")) == 3
    assert tt("predict", "d.safetensors", tmp_path / "mine") == 0
    assert "up: is a link to a folder, which is not followed" in capsys.readouterr().err


def test_eval_names_every_skipped_file_and_every_copy(place, tmp_path, capsys):
    held = shutil.copytree(place / "held", tmp_path / "held")
    for k in range(9):
        (held / "ant" / f"{k}.txt").write_text("x")
    first = min((held / "bee").iterdir())
    shutil.copy(first, held / "bee" / "zz.png")
    last = max((held / "cat").iterdir())
    whole = last.read_bytes()
    middle = len(whole) // 2
    last.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    assert tt("eval", place / "d.safetensors", held, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert sorted(os.path.basename(f["file"]) for f in result["skipped"]) == sorted(
        [last.name, *(f"{k}.txt" for k in range(9))]
    )
    assert [d["where"] for d in result["duplicates"]] == ["one class"] and len(result["warnings"]) == 3
