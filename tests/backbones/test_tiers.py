"""Names of recommended networks: they stand for a network, and a refused budget says which of them fits."""

import json
import re
from dataclasses import replace

import pytest
from toynets import WIDE, toy

from tinytrain.api.opening import open_budget
from tinytrain.backbones.catalogue import SHIPPED, TIERS
from tinytrain.base.cache_folder import cache_folder
from tinytrain.cli.main import main
from tinytrain.delta.file import load_delta
from tinytrain.network.file import save_network
from tinytrain.network.input_spec import InputSpec

TASK = ("--shots", "2", "--way", "2")


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A network of few layers and large maps as the one of the large tier."""
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    folder = cache_folder("backbones")
    folder.mkdir(parents=True)
    name = TIERS["large"].backbone
    save_network(replace(toy(WIDE, spec=InputSpec((128, 128, 3))), name=name), folder / f"{name}.safetensors")
    return name


def refused(capsys, *words) -> tuple[str, int]:
    """The message, and the bytes that it says are needed."""
    assert main([*words, *TASK]) == 4
    err = capsys.readouterr().err
    return err, int(re.search(r"needs (\d+) bytes at the least", err)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["plan"], ["adapt"], ["simulate", "--board", "raspberry-pi-5"]], ids=" ".join
)
def test_a_refused_budget_names_the_tier_that_fits_it(words, large, capsys):
    _, small = refused(capsys, *words, "--budget", "1")
    err, least = refused(capsys, *words, "--backbone", "large", "--budget", str(small))
    assert err.startswith(f"tinytrain: budget-too-small: {large} with 4 support images") and least > small
    assert err.endswith(f"; --backbone small needs {small}\n")
    err, _ = refused(capsys, *words, "--backbone", "large", "--budget", str(small - 1))
    assert "--backbone" not in err


def test_a_delta_has_the_name_of_the_network_and_not_of_the_tier(tmp_path, capsys):
    path = tmp_path / "d.safetensors"
    assert main(["adapt", "--backbone", "small", *TASK, "--policy", "none", "--out", str(path)]) == 0
    assert load_delta(path).backbone_name == SHIPPED.name
    assert b'"small"' not in path.read_bytes()
    assert "--backbone" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_default_budget_is_the_one_that_the_figures_of_the_tier_are_of(large, capsys):
    """The network of the test needs more, so the refusal says what it was given."""
    for words, given in (((), TIERS["large"].budget), (("--budget", "3MB"), 3_000_000)):
        err, _ = refused(capsys, "plan", "--backbone", "large", *words)
        assert f"the budget is {given};" in err
    assert main(["plan", "--json", *TASK, "--backbone", "small"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["budget"] == TIERS["small"].budget


@pytest.mark.parametrize("name, tier", [(None, "small"), ("large", "large"), ("net.safetensors", "small")])
def test_python_has_the_same_default_budget(name, tier):
    assert open_budget(None, name).memory == TIERS[tier].budget
    assert open_budget("2MB", name).memory == 2_000_000
