"""Folders of recordings, from files to predictions, with no network named: it is built for them."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from commandline import tt
from toyfiles import write_images, write_network
from watching import backbone

import tinytrain
from tinytrain.base.errors import InputError
from tinytrain.cli.commands import watch
from tinytrain.cli.main import parser_of
from tinytrain.datasets.generated.shakes import CLASSES
from tinytrain.delta.file import load_delta
from tinytrain.stream.session import About


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("shakes")
    assert tt("data", "export", "shakes", root / "shakes", "--per-class", "8") == 0
    assert tt("data", "export", "shakes", root / "others", "--per-class", "3", "--seed", "1") == 0
    delta, report = root / "d.safetensors", root / "r.html"
    assert tt("adapt", root / "shakes", "--out", delta, "--report", report, "--force") == 0
    return SimpleNamespace(root=root, delta=delta, report=report)


def test_a_folder_of_recordings_is_learnt_with_the_network_that_its_files_need(made, capsys):
    found = load_delta(made.delta)
    assert found.backbone_name == "motion-3-50hz" and found.class_names == CLASSES
    assert "data:image/jpeg;base64," in made.report.read_text()
    assert tt("predict", made.delta, made.root / "others", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["images"]
    right = [row["best_guess"] == re.sub(r"-\d+\.csv$", "", row["image"].split("/")[-1]) for row in rows]
    assert len(right) == 18 and np.mean(right) > 0.8
    assert tt("eval", made.delta, made.root / "others") == 0 and "18 recordings" in capsys.readouterr().out


def test_every_command_and_python_choose_the_same_network(made, capsys):
    assert tt("check", made.root / "shakes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["backbone"] == "motion-3-50hz"
    for words in (("--backbone", "auto"), ()):
        assert tt("adapt", made.root / "shakes", "--policy", "none", "--json", *words) == 0
        assert json.loads(capsys.readouterr().out)["backbone"] == "motion-3-50hz"
    assert tt("plan", made.root / "shakes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["backbone"] == "motion-3-50hz"
    assert tt("simulate", made.root / "shakes", "--board", "raspberry-pi-zero-2w") == 0
    assert re.search(r"motion-3-50hz.*\nrecordings +shakes: 6 classes", capsys.readouterr().out)
    report = tinytrain.adapt(None, made.root / "shakes", policy="none", force=True)
    assert report.network.name == "motion-3-50hz"
    assert tinytrain.check(None, made.root / "shakes").estimate.n == 48


def test_a_folder_of_recordings_becomes_c_whose_plan_python_obeys(made, tmp_path, capsys):
    words, out = ("--shots", "5", "--policy", "last_layer", "--budget", "200kB"), tmp_path / "of images"
    assert tt("emit", made.root / "shakes", *words, "-o", out) == 0
    said = capsys.readouterr().out
    assert "motion-3-50hz for 6 classes of 5 recordings" in said and f"cmake -S '{out}' -B build" in said
    files = {path.name for path in (out / "src").iterdir()}
    assert "motion.c" in files and not files & {"sound.c", "reservoir.c", "kernels_image.c"}
    assert tt("adapt", made.root / "shakes", "--shots", "5", "--plan", out / "plan.json") == 0


def test_a_folder_in_which_no_recording_can_be_read_is_refused_by_what_is_wrong_in_it(tmp_path, capsys):
    for name in CLASSES[:2]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "short.csv").write_text("1,2\n3,4\n")
    assert tt("adapt", tmp_path) == 3 and "has 2 rows" in capsys.readouterr().err
    with pytest.raises(InputError, match="has 2 rows"):
        tinytrain.check(None, tmp_path)


def test_training_goes_on_in_the_network_of_the_delta_whatever_suits_the_files(made, tmp_path):
    first, then = tmp_path / "first.safetensors", tmp_path / "then.safetensors"
    words = "adapt", made.root / "shakes", "--policy", "none", "--force"
    assert tt(*words, "--backbone", "motion-3-50hz-esn", "--out", first) == 0
    assert tt(*words, "--start", first, "--out", then) == 0
    assert load_delta(then).backbone_name == "motion-3-50hz-esn"


def test_a_folder_of_recordings_is_watched_and_corrections_are_learnt(made, tmp_path, capsys):
    came, labels = tmp_path / "came", tmp_path / "labels.csv"
    came.mkdir()
    (came / "a.csv").write_bytes((made.root / "others/walk/walk-001.csv").read_bytes())
    labels.write_text("a.csv,walk\n")
    assert tt("watch", made.delta, came, "--store", tmp_path / "state", "--labels", labels, "--once") == 0
    said = capsys.readouterr()
    assert "walk" in said.out and "1 recordings, 0 unreadable, 1 corrections learnt" in said.err


@pytest.fixture(scope="module")
def normal(made):
    """A delta of recordings of walking alone."""
    folder, out = made.root / "normal", made.root / "n.safetensors"
    shutil.copytree(made.root / "shakes" / "walk", folder / "walk")
    assert tt("adapt", folder, "--head", "oselm-ae", "--out", out) == 0
    return out


def test_recordings_of_what_is_normal_are_enough_to_notice_what_is_not(made, normal, capsys):
    assert tt("predict", normal, made.root / "others", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["images"]
    odd = {row["image"].split("/")[-1]: row["verdict"] == "unknown" for row in rows}
    assert sum(v for k, v in odd.items() if not k.startswith("walk")) >= 14


@pytest.fixture(scope="module")
def stream(made):
    """Twelve seconds of walking and then twelve of lying still, in one file of 50 rows a second."""
    files = [
        file for name in ("walk", "still") for file in sorted((made.root / "shakes" / name).glob("*"))[:6]
    ]
    parts = [np.loadtxt(file, delimiter=",", skiprows=1)[:100, 1:] for file in files]
    rows = np.column_stack([np.arange(1200) * 0.02, np.concatenate(parts)])
    path = made.root / "stream.csv"
    np.savetxt(path, rows, "%.4f", ",", header="time_s,x,y,z", comments="")
    return path


def test_a_stream_of_rows_is_named_corrected_and_kept_as_recordings(made, stream, tmp_path, capsys):
    words = (made.delta, "--rows", stream, "--once", "--store", tmp_path / "state")
    arguments = parser_of("watch")[0].parse([str(word) for word in words])
    session, found = watch.opened(arguments), {}
    for frame in watch._frames(arguments, None, session.watcher):
        if frame is not None:
            session.look_at(frame)
            session.correct([About(frame.name, "+lying")] if frame.name == "24.00 s" else [])
            found[frame.name] = session.watcher.guess_of(frame.name)
    assert [*found] == [f"{end}.00 s" for end in range(4, 25, 2)]
    assert [*found.values()][:5] == ["walk"] * 5 and [*found.values()][-5:] == ["still"] * 5
    (lying,) = (tmp_path / "state/kept/lying").iterdir()
    lines = stream.read_text().splitlines()
    assert lying.suffix == ".csv" and lying.read_text().splitlines() == [lines[0], *lines[-200:]]
    capsys.readouterr()
    assert tt("predict", tmp_path / "state", lying) == 0 and "lying" in capsys.readouterr().out


def test_rows_of_what_is_normal_are_enough_to_notice_in_a_stream_what_is_not(made, stream, normal, capsys):
    assert tt("watch", normal, "--rows", stream, "--once", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    odd = [row["verdict"] == "unknown" for row in rows if "verdict" in row]
    assert not any(odd[:5]) and all(odd[-5:])


def test_what_is_no_stream_of_rows_says_why_in_one_line(made, stream, tmp_path, capsys):
    two, images = tmp_path / "two.csv", tmp_path / "i.safetensors"
    two.write_text("1,2\n" * 64)
    write_network(tmp_path)
    write_images(tmp_path / "photos", ("ant", "bee"))
    adapt = ("adapt", tmp_path / "photos", *backbone(tmp_path), "--policy", "none", "--budget", "400kB")
    assert tt(*adapt, "--out", images, "--force", "-q") == 0
    for code, what, words in (
        (2, "one of the four", (made.delta, tmp_path, "--rows", stream)),
        (2, "--seconds has no effect without --rows", (made.delta, tmp_path, "--seconds", "2")),
        (2, "a window has 16 to 262144", (made.delta, "--rows", stream, "--once", "--seconds", "0.1")),
        (2, "--microphone gives clips, and the network takes recordings", (made.delta, "--microphone")),
        (2, "--rows gives recordings, and the network", (images, *backbone(tmp_path), "--rows", stream)),
        (3, "nowhere is no device or file that can be read", (made.delta, "--rows", "nowhere")),
        (3, "is no device or file that can be read", (made.delta, "--rows", tmp_path)),
        (3, "have 2 columns of motion; the network is for 3", (made.delta, "--rows", two, "--once")),
    ):
        capsys.readouterr()
        assert tt("watch", *words) == code, words
        err = capsys.readouterr().err.splitlines()
        assert what in err[-1] and "Traceback" not in "".join(err), err


def test_recordings_of_other_axes_and_mixed_folders_are_refused_in_one_line(made, tmp_path, capsys):
    (tmp_path / "one.csv").write_text("\n".join(f"{x},{x}" for x in np.sin(np.arange(40.0))))
    assert tt("predict", made.delta, tmp_path / "one.csv") == 3
    assert "has 2 columns of motion; the network is for 3" in capsys.readouterr().err
    assert tt("adapt", made.root / "shakes", "--precision", "int8") == 2
    assert "it takes float32 values" in capsys.readouterr().err
    assert tt("info", "motion-99") == 3
    assert "backbone-not-here: motion-99 would be for 99 axes; name 1 to 16" in capsys.readouterr().err
