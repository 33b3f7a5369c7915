"""Names of recommended networks: they stand for a network, and a refused budget says which of them fits."""

import json
import re
from dataclasses import replace

import pytest
from toynets import WIDE, toy

from tinytrain.api.adapt import adapt
from tinytrain.api.opening import open_budget
from tinytrain.backbones.catalogue import SHIPPED, TIERS
from tinytrain.base.cache_folder import cache_folder
from tinytrain.cli.main import main
from tinytrain.datasets.generated.leaves import leaves
from tinytrain.datasets.samplers import sample_episode
from tinytrain.delta.file import load_delta
from tinytrain.network.file import save_network
from tinytrain.network.input_spec import InputSpec
from tinytrain.pipeline.networks import installed

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


@pytest.mark.parametrize(
    "name, tier",
    [(None, "small"), ("large", "large"), ("best", "large"), ("duo", "small"), ("net.safetensors", "small")],
)
def test_python_has_the_same_default_budget(name, tier):
    assert open_budget(None, name).memory == TIERS[tier].budget
    assert open_budget("2MB", name).memory == 2_000_000


def test_networks_that_are_here_are_found_unless_damaged_or_for_other_images(large):
    def found(shape=(128, 128, 3)):
        return [network.name for network in installed(InputSpec(shape))]

    assert found() == [SHIPPED.name, large] and found((16, 16, 3)) == []
    (cache_folder("backbones") / f"{large}.safetensors").write_bytes(b"x")
    assert found() == [SHIPPED.name]


def test_auto_takes_what_is_here_and_fits_the_budget(large, tmp_path, capsys):
    path = tmp_path / "d.safetensors"
    words = ("adapt", *TASK, "--policy", "none", "--out", str(path), "--backbone", "auto")
    for more, names in (((), (SHIPPED.name, large)), (("--budget", "1MB"), (SHIPPED.name,))):
        assert main([*words, *more]) == 0
        delta = load_delta(path)
        assert tuple(part.backbone_name for part in delta.parts) == names
        said = capsys.readouterr()
        assert f"--backbone auto is {'+'.join(names)}" in said.err
        assert said.out.endswith("new.jpg\n"), "the delta finds its networks"


def test_python_chooses_as_the_command_does(large):
    episode = sample_episode(leaves(), 2, 2, 0, 0)
    report = adapt("auto", episode, policy="none")
    assert [n.name for n in report.network.members] == [SHIPPED.name, large]
    # What takes one network gets one.
    assert adapt("auto", replace(episode, replay=1), policy="none").network.name == SHIPPED.name


@pytest.mark.parametrize("words", [["plan"], ["check"], ["info", "auto"]], ids=" ".join)
def test_auto_is_refused_where_nothing_is_adapted(words, capsys):
    more = () if "auto" in words else ("--backbone", "auto")
    assert main([*words, *more]) == 2
    assert "unsupported: auto chooses by the images of an adaptation" in capsys.readouterr().err
