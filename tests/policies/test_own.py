"""A policy and a head of a user by the name of their file, on the command line and in matrices."""

import json

import pytest
import toybench
from commandline import tt
from toyfiles import write_images, write_network

from tinytrain.base.errors import InputError, UsageError
from tinytrain.heads.registry import HEADS
from tinytrain.meta.bench import session
from tinytrain.policies.own import given_head, given_policy, pinned
from tinytrain.policies.registry import find_policy

SOURCE = """
from dataclasses import dataclass
from tinytrain.heads.cosine import Cosine, CosineHead
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy

@dataclass
class Settings:
    rate: "float" = 2e-3

def recipe(network, scores, budget, task, fraction):
    last = len(network.layers) - 1
    return Recipe("mine", (Update(last, bias=True),), ((Settings().rate,) * 2,), step="both", head="cosine")

mine = Policy("mine", recipe, "this test", macs_limited=False)
class MyHead(CosineHead):
    pass

class MyMethod(Cosine):
    name, head = "my-head", MyHead

my_head = MyMethod()
number = 3
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mypaper.py").write_text(SOURCE)
    write_network(tmp_path)
    write_images(tmp_path / "photos", count=4)
    yield tmp_path
    HEADS.pop("my-head", None)


def test_adapt_takes_a_policy_and_a_head_from_a_file(place, capsys):
    words = ("adapt", "photos", "--backbone", "toy.safetensors", "--budget", "4MB", "--force", "--json")
    assert tt(*words, "--policy", "mypaper.py:mine", "--head", "mypaper.py:my_head") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["policy"] == "mine+my-head" and len(result["selection"]) == 1


def test_a_matrix_compares_an_own_policy_with_others_and_runs_it_anew_when_its_file_changed(place):
    cell = {**toybench.CELL, "policies": ["none", "mine"], "packs": ["signs"], "episodes": 1}
    rows = {"mine": {"policy": "mypaper.py:mine+mypaper.py:my_head"}}
    matrix = toybench.write(place, cells=[cell], policies=rows)
    for source, runs in (
        (SOURCE, 2),
        (SOURCE, 2),
        (SOURCE.replace("2e-3", "3e-3").replace("my-head", "new-head"), 3),
    ):
        (place / "mypaper.py").write_text(source)
        session.run(toybench.options(matrix, place / "log.jsonl"), print)
        records = [json.loads(line) for line in (place / "log.jsonl").read_text().splitlines()]
        assert len(records) == runs and {row["label"] for row in records} == {"none", "mine"}
    HEADS.pop("new-head")


@pytest.mark.parametrize("text, words", [
    ("mypaper.py:missing", "unknown-name: mypaper.py has no Policy called missing; name one"),
    ("mypaper.py:number", "unknown-name: .*no Policy called number, which is of type int"),
    ("broken.py:mine", r"bad-value: broken.py cannot be executed \(ZeroDivisionError: "),
    ("gone.py:mine", "file-missing"),
    ("none+mypaper.py:mine", "unknown-name: mypaper.py has no HeadMethod called mine"),
    ("none+mypaper.py:my_head", "bad-value: .* another head is called 'lda'"),
    ("mypaper.py:mine@0000000000000000", "run-mismatch: .* has changed since the run began"),
])  # fmt: skip
def test_what_is_no_policy_or_head_is_named(place, text, words):
    (place / "broken.py").write_text("1 / 0")
    (place / "mypaper.py").write_text(SOURCE + "MyMethod.name = 'lda'")
    with pytest.raises((UsageError, InputError), match=words):
        given_policy(text)


def test_what_a_delta_or_a_plan_names_executes_no_file(place):
    """They are read by `find_policy` and `find_head`, which know tables only."""
    (place / "mypaper.py").write_text("raise SystemExit")
    for text in ("mypaper.py:mine", "none+mypaper.py:my_head"):
        with pytest.raises(UsageError, match="unknown-"):
            find_policy(text)
    assert pinned("tinytrain+slda") == "tinytrain+slda" and given_head("slda") == "slda"
