"""The commands that are proposed: made of the one that was given, nothing of it lost."""

from types import SimpleNamespace

from cases import each

from tinytrain.backbones.remembered import remember
from tinytrain.cli.commands.hints import extended, free_name, predict_words, without

FLAGS = ("--json", "--quiet", "--verbose")


@each(
    "words, left",
    [
        ("adapt photos/ --json --shots 5", "adapt photos/ --shots 5"),
        ("adapt photos/ -q -o x.safetensors", "adapt photos/"),
        ("adapt photos/ -ox.safetensors -v", "adapt photos/"),
        ("adapt photos/ --out x --budget 1MB", "adapt photos/ --budget 1MB"),
        ("adapt photos/ --out=x --budget=1MB", "adapt photos/ --budget=1MB"),
        ("adapt --out-of-order 3 --outer", "adapt --out-of-order 3 --outer"),
        ("adapt --out", "adapt"),
        ("adapt -- --json", "adapt -- --json"),
    ],
)
def test_options_and_flags_are_taken_out_with_their_values(words, left):
    assert without(words.split(), ("--out",), FLAGS) == tuple(left.split())


def delta_of(*digests: str) -> SimpleNamespace:
    return SimpleNamespace(report={}, parts=[SimpleNamespace(backbone=digest) for digest in digests])


ONE, TWO = "0" * 64, "1" * 64


@each(
    "backbone, noted, named",
    [
        (None, {}, False),
        ("mcunet-5fps", {}, False),
        ("n.safetensors", {}, True),
        ("n.safetensors", {ONE: "n.safetensors"}, False),
        ("n.safetensors", {ONE: "old.safetensors"}, True),
        ("n.safetensors+mcunet-5fps", {}, True),
        ("n.safetensors+mcunet-5fps", {ONE: "n.safetensors"}, False),
        ("n.safetensors+m.safetensors", {ONE: "n.safetensors"}, True),
        ("n.safetensors+m.safetensors", {ONE: "n.safetensors", TWO: "m.safetensors"}, False),
    ],
)
def test_a_backbone_is_named_only_if_a_file_of_it_was_not_noted(
    backbone, noted, named, monkeypatch, tmp_path
):
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path))
    for digest, file in noted.items():
        remember(digest, file)
    words = predict_words("d.safetensors", backbone, delta_of(ONE, TWO))
    given = ("--backbone", backbone) if named else ()
    assert words == ("tinytrain", "predict", "d.safetensors", "new.jpg", *given)


def test_a_name_that_begins_with_a_dash_is_not_taken_for_an_option():
    assert predict_words("-d.safetensors", None, delta_of(ONE))[2] == "./-d.safetensors"
    assert extended(("tinytrain", "adapt", "--", "-x"), "--force") == (
        "tinytrain", "adapt", "--force", "--", "-x"
    )  # fmt: skip
    assert extended(("tinytrain", "adapt", "x"), "--force")[-1] == "--force"


@each(
    "folder, data, name",
    [
        ("photos/", None, "photos"),
        ("/a/b.c/my fruit", None, "my fruit"),
        (".", None, "adapted"),
        ("..", None, "adapted"),
        (None, None, "meters"),
        (None, "gtsrb", "gtsrb"),
        (None, "cub:/data/x", "cub"),
    ],
)
def test_a_delta_is_named_after_its_images_and_replaces_no_file(folder, data, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = SimpleNamespace(folder=folder, data=data)
    assert free_name(arguments) == f"{name}.safetensors"
    (tmp_path / f"{name}.safetensors").touch()
    assert free_name(arguments) == f"{name}-2.safetensors"
