"""Tables of the documentation list exactly what the code has: keys with defaults, policies, boards, files."""

import dataclasses
import re
from collections.abc import Mapping

import pytest
import yaml
from cases import each
from sourcetree import ROOT
from toynets import toy

from tinytrain.cli.main import COMMANDS
from tinytrain.firmware_sim.boards.board import CHECKS, load_boards
from tinytrain.heads.registry import HEADS
from tinytrain.meta.bench import matrix, rates, sampler
from tinytrain.meta.training import augment, hearing, recipe
from tinytrain.network.committee import Committee
from tinytrain.pipeline.committee import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.policies.registry import POLICIES

KINDS = {
    "recipes.md": [
        recipe.Recipe, recipe.MetaRecipe, recipe.PretrainRecipe,
        recipe.AdaptationSettings, recipe.SourceSettings, recipe.EpisodeSettings, recipe.OptimizerSettings,
        augment.Looks, hearing.Hearing, recipe.ValidationSettings, recipe.TemperatureSettings,
        recipe.Architecture,
    ],
    "matrices.md": [
        matrix.Matrix, matrix.Cell, sampler.Sampler, matrix.PolicySettings, matrix.BackboneSettings,
        matrix.Tuning, rates.Rates,
    ],
}  # fmt: skip
ROWS = [(page, kind) for page, kinds in KINDS.items() for kind in kinds]


def page_text(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def documented(page: str, kind: type) -> dict[str, str]:
    """Default by key, in the table below the heading that names the class."""
    parts = re.split(rf"^### .*\(`{kind.__name__}`\)$", page_text(page), flags=re.M)
    assert len(parts) == 2, f"{page} needs one heading with (`{kind.__name__}`)"
    table = parts[1].split("\n#")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.M))


def own_fields(kind: type) -> list[dataclasses.Field]:
    """The fields of a dataclass; of a kind of recipe those that not every recipe has."""
    shared = {f.name for f in dataclasses.fields(recipe.Recipe)} if kind is not recipe.Recipe else set()
    skipped = shared if issubclass(kind, recipe.Recipe) else set()
    return [f for f in dataclasses.fields(kind) if f.name not in skipped]


@each("page, kind", ROWS, ids=lambda value: getattr(value, "__name__", value))
def test_a_table_has_every_key(page, kind):
    assert set(documented(page, kind)) == {f.name for f in own_fields(kind)}


@each("page, kind", ROWS, ids=lambda value: getattr(value, "__name__", value))
def test_a_table_has_the_defaults(page, kind):
    shown = documented(page, kind)
    for f in own_fields(kind):
        text = shown[f.name]
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            assert text == "required", f"{kind.__name__}.{f.name} is required, the page says {text}"
            continue
        assert text != "required", f"{kind.__name__}.{f.name} has a default"
        if text.startswith("`"):
            default = f.default_factory() if f.default is dataclasses.MISSING else f.default
            said = yaml.safe_load(text.strip("`"))
            assert plain(default) == said, f"{kind.__name__}.{f.name}: {default}, the page says {said}"


def plain(value):
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def test_a_default_that_is_a_number_is_shown():
    shown = [(kind, f) for page, kind in ROWS for f in own_fields(kind) if type(f.default) in (int, float)]
    assert len(shown) > 30
    for page, kind in ROWS:
        for f in own_fields(kind):
            if type(f.default) in (int, float, bool):
                assert documented(page, kind)[f.name].startswith("`"), f"{kind.__name__}.{f.name}"


def names_in_first_column(page: str) -> set[str]:
    rows = re.findall(r"^\| (`[^|]*) \|", page_text(page), re.M)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_policies_and_heads_are_listed():
    numbered = {name for name in POLICIES if re.fullmatch(r"sparse_update_\d+kb", name)}
    assert numbered and names_in_first_column("policies.md") >= set(POLICIES) - numbered
    assert names_in_first_column("heads.md") == set(HEADS)


def test_boards_and_their_keys_are_listed():
    assert names_in_first_column("boards.md") == set(load_boards()) | set(CHECKS)


@pytest.mark.parametrize(
    "page, folder", [("recipes.md", "meta/training/recipes"), ("matrices.md", "meta/bench/matrices")]
)
def test_shipped_files_are_listed(page, folder):
    files = {path.stem for path in (ROOT / folder).glob("*.yaml") if not path.stem.endswith(".rates")}
    assert files <= names_in_first_column(page)


def test_every_key_of_a_report_is_listed():
    networks = Committee((toy_network(), toy("headed")))  # its report has all keys, and one more
    report = adapt(networks, toy_episode(queries=2), Budget(2**22), "last_layer")
    table = page_text("formats.md").partition("## Report")[2]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(report.to_json())


@pytest.mark.parametrize("page, kind", [("recipes.md", "recipe"), ("matrices.md", "matrix")])
def test_the_examples_are_read(page, kind, tmp_path):
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", page_text(page), re.M | re.S)
    file = tmp_path / "example.yaml"
    file.write_text(example)
    if kind == "matrix":
        loaded, _ = matrix.load_matrix(file)
    else:
        loaded = recipe.load_recipe(file, "meta-train")
    assert not isinstance(loaded, Mapping) and loaded.name


def test_every_command_is_named_in_the_documents():
    pages = "".join(path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")])
    assert not [name for name in COMMANDS if f"tinytrain {name}" not in pages]
