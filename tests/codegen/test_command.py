"""``tinytrain emit``: its folder becomes a program that adapts, and its plan one that Python obeys."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import emitted
import int8nets
import pytest
import toynets
import toyruns

import tinytrain
from tinytrain.base.errors import InputError
from tinytrain.cli.main import main
from tinytrain.codegen import device
from tinytrain.codegen.folder import EXAMPLES, around, write_folder
from tinytrain.datasets import folder_episode
from tinytrain.network.file import save_network
from tinytrain.plan.plan import load_plan


@pytest.fixture
def given(tmp_path):
    """Options for a toy network and a folder of images."""
    save_network(int8nets.toy8("headed"), tmp_path / "net.safetensors")
    images = toyruns.folder(tmp_path / "images", classes=2, per_class=5)
    return [images, "--shots", "3", "--backbone", str(tmp_path / "net.safetensors")]


def emit(capsys, given, out, *options) -> dict:
    assert main(["emit", *given, "-o", str(out), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang")
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_example_learns_and_recognises(precision, given, tmp_path, capsys):
    result = emit(capsys, given, tmp_path / "c", "--budget", "40kB", "--precision", precision)
    assert result["arena"] <= 40_000 and result["channels"]
    demo = emitted.demo_of(tmp_path / "c")
    program = emitted.build(emitted.compilers()[0], "-O1", *demo, out=tmp_path / "demo")
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0 and "4 of 4 right" in done.stdout, done.stdout
    assert len(re.findall(r"^.+ -> .+, \d+ %(?:, unknown|, uncertain)?$", done.stdout, re.MULTILINE)) == 4


def test_a_plan_in_a_backend_without_a_form_in_c_is_refused_with_those_that_have_one(given, tmp_path, capsys):
    assert main(["emit", *given, "-o", str(tmp_path / "c"), "--precision", "noisy:0.1"]) == 2
    said = "computes in noisy:0.1:0, which has no form in C; give --precision float32 or int8"
    assert said in capsys.readouterr().err and not (tmp_path / "c").exists()


def test_the_example_asks_at_most_ten_images_of_all_classes_alike(tmp_path, capsys):
    save_network(int8nets.toy8("headed"), tmp_path / "net.safetensors")
    for classes, asked in ((2, 10), (3, 9)):
        images = toyruns.folder(tmp_path / f"{classes}", classes=classes, per_class=9)
        options = [
            images,
            "--shots",
            "2",
            "--backbone",
            str(tmp_path / "net.safetensors"),
            "--budget",
            "60kB",
        ]
        emit(capsys, options, tmp_path / f"c{classes}")
        text = (tmp_path / f"c{classes}" / EXAMPLES).read_text()
        labels = re.search(r"tt_example_label\[.*\] = \{\s*([\d, \n]+)\}", text)[1]
        assert re.findall(r"\d+", labels) == [str(k) for k in range(classes) for _ in range(asked // classes)]


def test_c_of_another_library_does_not_stay_and_what_a_user_wrote_does(tmp_path):
    write_folder(tmp_path, around(dict.fromkeys(("adapt.c", "kernels_image.c"), "int x;\n"), "", ""))
    (tmp_path / "src" / "mine.c").write_text("int main;\n")
    write_folder(tmp_path, around(dict.fromkeys(("adapt.c", "motion.c"), "int y;\n"), "", ""))
    assert sorted(p.name for p in tmp_path.glob("src/*.c")) == ["adapt.c", "mine.c", "motion.c"]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cmake"), reason="CMake is not installed")
def test_cmake_builds_it_also_behind_others_in_the_same_folder(given, tmp_path, capsys):
    for head, precision in (("lda", "int8"), ("cosine", "float32"), ("cosine", "int8")):
        emit(capsys, given, tmp_path / "c", "--budget", "40kB", "--head", head, "--precision", precision)
    for command in (["-S", str(tmp_path / "c"), "-B", str(tmp_path / "b")], ["--build", str(tmp_path / "b")]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "b" / "demo").exists()


def test_a_plan_that_names_channels_is_obeyed(given, tmp_path, capsys):
    plan = str(tmp_path / "plan.json")
    assert main(["plan", *given, "--budget", "40kB", "--macs", "0.5", "-o", plan]) == 0
    named = load_plan(plan).recipe.updates
    capsys.readouterr()
    assert main(["emit", *given, "-o", str(tmp_path / "c"), "--plan", plan]) == 0
    assert "which the plan names: " in capsys.readouterr().out
    text = (tmp_path / "c" / "src" / "adapt.c").read_text()
    for channels in (sorted(u.channels) for u in named if u.channels):
        assert f"{{\n    {', '.join(map(str, channels))}\n}}" in text


@pytest.mark.parametrize(("size", "precision", "seed"), [(40_000, "float32", 0), (30_000, "int8", 3)])
def test_the_function_writes_the_bytes_of_the_command(size, precision, seed, given, tmp_path, capsys):
    images, *_, network = given
    options = ("--budget", str(size), "--precision", precision, "--seed", str(seed))
    printed = emit(capsys, given, tmp_path / "c", *options)
    episode, budget = folder_episode(images, 3, seed=seed), tinytrain.Budget(size, precision=precision)
    for policy, limits in (("tinytrain", budget), (load_plan(tmp_path / "c" / "plan.json"), None)):
        own = tmp_path / "c of the function"
        emitted = tinytrain.emit(network, episode, own, limits, policy, seed)
        assert emitted.to_json() | {"warnings": []} == printed | {"out": str(own)}
        assert len(repr(emitted)) < 200 and f"{emitted.to_json()['arena']:,} bytes" in repr(emitted)
        assert contents(own) == contents(tmp_path / "c")
    assert len(contents(own)) == len(printed["files"])


def contents(folder) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_was_skipped_is_said_in_both_forms(given, tmp_path, capsys):
    next(Path(given[0]).glob("*/*")).with_name("broken.jpg").write_text("?")
    assert main(["emit", *given, "-o", str(tmp_path / "c"), "--budget", "40kB", "--json"]) == 0
    said = capsys.readouterr()
    (warning,) = json.loads(said.out)["warnings"]
    assert "broken.jpg" in warning and warning in said.err


def test_the_plan_states_the_budget_that_was_given(given, tmp_path, capsys):
    emit(capsys, given, tmp_path / "c", "--budget", "40kB")
    plan = load_plan(tmp_path / "c" / "plan.json")
    assert plan.cost.arena <= plan.budget.memory == 40_000


def test_no_plan_is_placed_twice_and_layers_are_scored_once(given, tmp_path, monkeypatch, capsys):
    placed, probed, runs = [], [], []
    compiled, inspected, opened = device.compile_training, device.compile_fisher, tinytrain.Device.open
    monkeypatch.setattr(device, "compile_training", lambda *a: placed.append(a[1:3]) or compiled(*a))
    monkeypatch.setattr(device, "compile_fisher", lambda *a, **k: probed.append(a) or inspected(*a, **k))
    monkeypatch.setattr(tinytrain.Device, "open", lambda *a: runs.append(a) or opened(*a))
    emit(capsys, given, tmp_path / "c", "--budget", "40kB")
    assert len(runs) == 1 and 1 <= len(probed) == len(placed) == len(set(placed)) <= 2


def test_python_and_another_emit_obey_the_plan(given, tmp_path, capsys):
    emit(capsys, given, tmp_path / "c", "--budget", "40kB")
    plan = str(tmp_path / "c" / "plan.json")
    assert main(["adapt", *given, "--plan", plan]) in (0, 5)
    capsys.readouterr()
    emit(capsys, given, tmp_path / "again", "--plan", plan)
    files = [(tmp_path / name / "src" / "plan.h").read_bytes() for name in ("c", "again")]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--plan", "p.json", "--head", "lda"], 2, "--head would mean nothing"),
        (["--budget", "1kB"], 4, "budget-too-small"),
    ],
)
def test_what_cannot_be_emitted_ends_in_one_line(given, options, code, message, tmp_path, capsys):
    assert main(["emit", *given, "-o", str(tmp_path / "c"), *options]) == code
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "c").exists()


def test_a_network_without_codes_is_not_emitted_in_int8(given, tmp_path, capsys):
    save_network(toynets.toy("headed"), tmp_path / "net.safetensors")
    assert main(["emit", *given, "-o", str(tmp_path / "c"), "--precision", "int8"]) == 2
    assert "unsupported: headed cannot be adapted in int8" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_a_file_in_place_of_the_folder_is_refused(given, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for name in (str(tmp_path / "file"), ""):  # the second is that of a variable of the shell that is not set
        assert main(["emit", *given, "-o", name]) == 2
        assert "is no folder" in capsys.readouterr().err
    with pytest.raises(InputError, match="folder is a value of type int; give the path"):
        tinytrain.emit(given[-1], given[0], 3)
