"""Recipes: what is wrong in one is named, with what is allowed; the shipped ones hold to the rules."""

import pytest
import toyruns
import yaml
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.datasets import CLIPS, DOMAINS
from tinytrain.meta.training.augment import Looks
from tinytrain.meta.training.recipe import FOLDER, KINDS, load_recipe, parse_recipe

SHIPPED = sorted(p.stem for p in FOLDER.glob("*.yaml"))
FORBIDDEN = {"gtsrb", "flowers12", "dtd10", "pacs_sketch", "pacs_photo", "omniglot", "fsdd_logmel"}
UNRESTRICTED = {"caltech101", "free_photos", "free_emoji", "omniglot_background", *DOMAINS, *CLIPS}


def kind_of(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["kind"]


def share_classes(a, b):
    """Whether two sources have a class in common; a pack and its `_b` are of the same classes."""
    if a.data.removesuffix("_b") != b.data.removesuffix("_b"):
        return False
    return not (a.classes and b.classes) or max(a.classes[0], b.classes[0]) < min(a.classes[1], b.classes[1])


@each("name", SHIPPED)
def test_shipped_recipes_are_read_and_never_train_on_targets(name):
    recipe = load_recipe(name, kind_of(name))
    assert isinstance(recipe, KINDS[kind_of(name)])
    trained = {s.data for s in recipe.sources}
    assert not trained & FORBIDDEN
    assert all(s.classes and s.classes[0] >= 48 for s in recipe.sources if s.data == "signs")
    # What is left out is left out whole, but for signs as long as it is the default task.
    left_out = [d for d in recipe.validate.domains if d.data != "signs"]
    assert not [(s, d) for s in recipe.sources for d in left_out if share_classes(s, d)]
    if "tiny" not in name:
        assert trained <= UNRESTRICTED


def test_defaults_and_numbers_in_exponents(tmp_path):
    recipe = parse_recipe(toyruns.content(tmp_path, optimizer={"rate": "1e-4"}), "meta-train")
    assert recipe.optimizer.rate == recipe.optimizer.bias_rate == 1e-4
    assert recipe.augmentation == Looks()
    assert (recipe.temperature.start, recipe.seed, recipe.steps) == (10.0, 0, 6)


@each(
    ("changes", "said"),
    [
        ({"optimiser": 3}, "optimiser is 3; allowed: no such key, did you mean optimizer? Known: name,"),
        ({"seed": -1}, "seed is -1; allowed: a whole number from 0 to"),
        ({"seed": True}, "seed is True; allowed: a whole number"),
        ({"episodes": 2.5}, "episodes is 2.5; allowed: a whole number from 1 to"),
        ({"episodes": "many"}, "episodes is 'many'; allowed: a whole number"),
        ({"optimizer": {"kind": "adam"}}, "optimizer.kind is 'adam'; allowed: one of adamw, sgd"),
        ({"optimizer": {"rate": float("nan")}}, "optimizer.rate is nan; allowed: a number from 0 to"),
        ({"optimizer": [1]}, "optimizer is [1]; allowed: a table with kind, rate"),
        (
            {"augmentation": {"crop": [0.9, 0.5]}},
            "augmentation.crop is [0.9, 0.5]; allowed: a pair [low, high]",
        ),
        ({"augmentation": {"transforms": ["blur"]}}, "augmentation.transforms[0] is 'blur'; allowed: one of"),
        ({"sources": []}, "sources is []; allowed: a list of 1 to 100 items"),
        ({"sources": [{"weight": 1}]}, "sources[0].data is 'missing'; allowed: a value"),
        (
            {"sources": [{"data": "signs", "held_out": 2}]},
            "sources[0].held_out is 2; allowed: a number from 0 to",
        ),
        ({"validate": {"domains": []}}, "validate.domains is []; allowed: a list of 1 to 20 items"),
        ({"kind": "pretrain"}, "kind is 'pretrain'; allowed: meta-train"),
        ({"name": ""}, "name is ''; allowed: a text of 1 to 200 letters"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(tmp_path, changes, said):
    with pytest.raises(InputError) as refused:
        parse_recipe(toyruns.content(tmp_path) | changes, "meta-train", "mine.yaml")
    assert refused.value.code == "bad-value"
    assert f"mine.yaml: {said}" in str(refused.value)


@each("text", ["a: [", "- 1\n", "just a text", "\xff\xfe", "!!python/object/apply:os.getcwd []"])
def test_files_that_are_no_recipe(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"mine\.yaml"):
        load_recipe(path, "meta-train")


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_recipe(tmp_path / "none.yaml", "meta-train")


def test_a_class_range_beyond_a_folder_is_refused(tmp_path):
    content = toyruns.content(tmp_path)
    content["sources"][0]["classes"] = [0, 40]
    with pytest.raises(InputError, match="has 6 classes") as refused:
        toyruns.task(tmp_path, sources=content["sources"])
    assert refused.value.code == "too-few-classes"
