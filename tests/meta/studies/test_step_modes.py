"""Bytes of a training step of the published configurations in four modes of the compiler."""

import pytest
import toynets
from int8nets import toy8
from published import published_file, published_network

from tinytrain.meta.studies import step_modes
from tinytrain.policies.sparse_update import Configuration, published, updates_of

CONFIGURATION = Configuration(7, {9: 1, 12: 0.5})


def rows(text):
    """Cells of the rows of the table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[4:]]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_it_prints_bytes_that_fall_and_modes_that_agree(precision, capsys, monkeypatch):
    network = toy8("blocks") if precision == "int8" else toynets.toy("blocks")
    monkeypatch.setattr(step_modes, "load_backbone", lambda name: network)
    monkeypatch.setattr(step_modes, "published", lambda network: (CONFIGURATION,) * 5)
    assert step_modes.main(["--packs", "leaves", "--precision", precision, "--most", "2"]) == 0
    (first, second) = rows(capsys.readouterr().out)
    assert first[1:] == second[1:]
    made = step_modes.programs(network, step_modes.recipe_of(updates_of(network, CONFIGURATION), precision))
    assert first[2:6] == [f"{made[mode].nbytes:,}" for mode in step_modes.MODES]
    assert float(first[6]) >= 1 and float(first[7]) >= 1 and float(first[8]) < 1e-6


def test_modes_that_disagree_are_seen(monkeypatch):
    """The other mode takes its gradients from another image."""
    network = toynets.toy("blocks")
    recipe = step_modes.recipe_of(updates_of(network, CONFIGURATION), "float32")
    made = step_modes.programs(network, recipe)
    images = iter(toynets.images(len(made)))
    step = step_modes.Bound.step
    monkeypatch.setattr(step_modes.Bound, "step", lambda self, image: step(self, next(images)))
    assert step_modes.differences(network, recipe, made, None) > 0.01


def test_the_smallest_configuration_of_mcunet_takes_no_more_than_its_authors_say():
    """With what rounding leaves of every weight, too, and with all gradients until the end."""
    network = published_network("mcunet-5fps")
    recipe = step_modes.recipe_of(updates_of(network, published(network)[0]), "int8", "carried")
    made = step_modes.programs(network, recipe)
    sizes = [made[mode].nbytes for mode in (step_modes.IN_PLACE, step_modes.REORDERED, step_modes.PRUNED)]
    assert sizes == sorted(set(sizes)) and sizes[-1] <= 189_800


@pytest.mark.parametrize(
    ("name", "full"), [("mbv2-w0.35", 2_939), ("proxyless-w0.3", 2_745), ("mcunet-5fps", 3_650)]
)
def test_all_gradients_take_no_more_than_was_published_and_four_fifths_of_it(name, full):
    network = published_network(name)
    recipe = step_modes.recipe_of(updates_of(network, published(network)[0]), "int8")
    assert 0.8 < step_modes.programs(network, recipe)[step_modes.ALL].nbytes / (1000 * full) < 1


def test_it_has_a_row_for_each_configuration(capsys):
    backbone = str(published_file("proxyless-w0.3"))
    assert step_modes.main(["--backbone", backbone, "--packs", "leaves"]) == 0
    assert [row[0] for row in rows(capsys.readouterr().out)] == ["50", "75", "100", "125", "150"]


def test_a_network_without_published_configurations_is_refused(capsys):
    assert step_modes.main(["--backbone", "tinytrain-small"]) == 2
    assert "no-configuration" in capsys.readouterr().err
