"""What a person sees of adapt and plan: eight lines at most, and the command they propose works."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
from toyfiles import write_images, write_network

from tinytrain.base.units import parse_bytes
from tinytrain.cli.main import main
from tinytrain.delta.file import load_delta

CLASSES = ("ant", "bee", "cat")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory: a network, images and a new image."""
    write_network(tmp_path)
    write_images(tmp_path / "photos", CLASSES, count=8)
    shutil.copyfile(next((tmp_path / "photos" / "ant").iterdir()), tmp_path / "new.jpg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tell(capsys):
    """Runs a command line and returns its exit code, the lines on stdout and stderr."""

    def run(line):
        capsys.readouterr()
        code = main(shlex.split(line) if isinstance(line, str) else line)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def next_of(out: str) -> list[str]:
    """The words of the proposed command, without the name of the program."""
    lines = out.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("next "))
    return shlex.split(" ".join(line.removesuffix("\\") for line in lines[at:]))[2:]


ADAPT = "adapt photos/ --backbone toy.safetensors --policy last_layer"


def test_adapt_says_in_eight_lines_what_came_out_and_the_proposed_command_works(place, tell):
    code, out, err = tell(f"{ADAPT} --shots 6 --out d.safetensors --report r.html")
    lines = out.splitlines()
    assert code == 0 and err == "" and len(lines) <= 8 and max(map(len, lines)) <= 100
    assert lines[0].startswith("accuracy    ") and " held-out images" in lines[0]
    size = os.path.getsize(place / "d.safetensors")
    assert f"written     d.safetensors ({size / 1000:.1f} kB), report r.html; trained in float32" in lines
    assert next_of(out) == ["predict", "d.safetensors", "new.jpg"]
    code, out, err = tell(next_of(out))
    assert code == 0 and out.startswith("new.jpg")


def test_if_nothing_was_kept_on_disk_the_same_command_that_does_so_is_proposed(place, tell):
    code, out, _ = tell(f"{ADAPT} --shots 6 -q")
    assert code == 0 and "written     no delta" in out
    again = next_of(out)
    assert again == [*shlex.split(f"{ADAPT} --shots 6"), "--out", "photos.safetensors"]
    assert tell(again)[0] == 0 and load_delta(place / "photos.safetensors").class_names == CLASSES


def test_a_store_is_used_next_and_said_to_be_on_trial(place, tell):
    _, out, err = tell(f"{ADAPT} --shots 6 --store state")
    assert "state (generation 1, on trial until confirmed)" in out and err == ""
    assert next_of(out)[:3] == ["predict", "state", "new.jpg"] and tell(next_of(out))[0] == 0


def mislabelled(place):
    """Every image of the second half of a class lies in the folder of the next class."""
    for k, name in enumerate(CLASSES):
        for image in sorted((place / "photos" / name).glob("0-[4-7].png")):
            image.rename(place / "photos" / CLASSES[(k + 1) % 3] / f"wrong-{image.name}")


def test_a_refusal_comes_first_and_the_images_are_to_be_looked_at(place, tell):
    mislabelled(place)
    code, out, err = tell(f"{ADAPT} --out d.safetensors")
    lines = out.splitlines()
    assert code == 5 and len(lines) <= 8 and lines[0].startswith("refused     the old weights stay: ")
    assert "written     no delta" in lines and not (place / "d.safetensors").exists()
    assert next_of(out) == ["check", "photos/", "--backbone", "toy.safetensors"]
    assert err.count("\n") == 1 and "no delta was written" in err


def test_verbose_has_the_same_lines_first_and_then_everything(place, tell):
    short = tell(f"{ADAPT} --shots 6")[1]
    code, out, err = tell(f"{ADAPT} --shots 6 --verbose")
    assert code == 0 and out.startswith(short + "\n") and err == ""
    details = out.removeprefix(short)
    for words in ("block4.project", "is sensible", "executed in all", "time ", "arena ", "threads"):
        assert words in details and words not in short, words
    assert max(map(len, out.splitlines())) <= 100


def test_a_text_report_begins_with_the_conclusion(place, tell):
    out = tell(f"{ADAPT} --shots 6 --report r.txt")[1]
    text = (place / "r.txt").read_text()
    assert text.splitlines()[:2] == out.splitlines()[:2] and "\n\nbackbone    toy" in text


def test_quiet_leaves_out_notices_and_keeps_results(place, tell):
    loud, quiet = (tell(f"{ADAPT} --shots 6 --json {more}") for more in ("", "--quiet"))
    assert "no delta was written" in loud[2] and quiet[2] == ""
    assert json.loads(quiet[1])["accuracy"] == json.loads(loud[1])["accuracy"]


@pytest.mark.parametrize("command", ["adapt", "plan"])
def test_quiet_and_verbose_exclude_each_other(command, tell):
    code, _, err = tell(f"{command} --quiet --verbose")
    assert code == 2 and "not allowed with" in err


def test_what_plan_proposes_does_what_was_planned(place, tell):
    options = "photos/ --backbone toy.safetensors --policy last_layer --shots 6 --budget 300kB"
    code, out, err = tell(f"plan {options} -o plan.json")
    assert code == 0 and err == "" and len(out.splitlines()) <= 8
    line = next_of(out)
    assert line[-4:] == ["--plan", "plan.json", "--out", "photos.safetensors"] and "last_layer" not in line
    planned = json.loads((place / "plan.json").read_text())
    facts = json.loads(tell([*line, "--json"])[1])
    assert facts["memory"]["arena"] == planned["cost"]["arena"]
    assert "--plan" not in next_of(tell(f"plan {options}")[1])


def test_the_three_budgets_of_plan_work_and_are_in_a_refusal(place, tell):
    options = "photos/ --backbone toy.safetensors --policy last_layer --shots 6"
    advice = json.loads(tell(f"plan {options} --json")[1])["advice"]
    text = next(line for line in tell(f"plan {options}")[1].splitlines() if line.startswith("budgets"))
    said = [word for word in text.replace(",", " ").split() if word[0].isdigit()]
    assert [parse_bytes(word) >= advice[name] for word, name in zip(said, advice, strict=True)] == [True] * 3
    for word in said:
        assert tell(f"adapt {options} --budget {word} --force")[0] == 0
    code, _, err = tell(f"adapt {options} --budget 1kB")
    assert code == 4 and f"give --budget {advice['smallest']} or more" in err
    assert f"{said[1]} is sensible" in err and f"{said[2]} keeps everything" in err


def test_extending_says_what_was_added_and_what_is_next(place, tell):
    tell(f"{ADAPT} --out d.safetensors --force")
    many = [f"new {k}" for k in range(30)]
    write_images(place / "more", ("ant", *many), count=1, seed=9)
    code, out, err = tell(
        "adapt --from d.safetensors --add more --backbone toy.safetensors --out e.safetensors"
    )
    assert code == 0 and err == "" and len(out.splitlines()) <= 8
    assert out.startswith("added       31 images, 30 of 33 classes are new: new 0: new class with 1 images")
    assert tell(next_of(out))[0] == 0


def test_names_of_files_cannot_steer_the_terminal_and_the_command_still_works(place, tell):
    os.rename("toy.safetensors", "red\x1b[31m net.safetensors")
    for name in ("\x1b[2J", "x" * 90):
        write_images(place / "photos", (name,), count=8)
    words = ["adapt", "photos/", "--backbone", "red\x1b[31m net.safetensors", "--policy", "last_layer"]
    code, out, _ = tell([*words, "--shots", "6", "--out", "a\nb.safetensors", "--force"])
    lines = out.splitlines()
    assert code == 0 and len(lines) <= 8 and all(line.isprintable() for line in lines)
    at = next(k for k, line in enumerate(lines) if line.startswith("next "))
    script = (
        "\n".join(lines[at:]).removeprefix("next").replace("tinytrain", f"{sys.executable} -m tinytrain", 1)
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("new.jpg"), done.stderr
