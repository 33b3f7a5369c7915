"""Heads by name: on the command line, in plans and in Python."""

import json

import pytest
from cases import each
from commandline import tt
from toydevices import ONE
from toyfiles import write_images, write_network

import tinytrain
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta, encode_delta, load_delta
from tinytrain.heads.registry import HEADS
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.plan import load_plan


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("heads")
    write_network(root)
    write_images(root / "photos", count=6)
    return root


def options(place, *more):
    return (place / "photos", "--backbone", place / "toy.safetensors", "--budget", "400kB", *more)


@each("name", list(HEADS))
def test_a_head_is_asked_for_by_its_name_and_its_delta_predicts(place, name, capsys):
    out = place / f"{name}.safetensors"
    code = tt("adapt", *options(place, "--policy", "none", "--head", name, "--out", out, "--force", "--json"))
    result = json.loads(capsys.readouterr().out)
    assert code == 0 and result["resources"]["head"] == name and result["policy"] == f"none+{name}"
    assert load_delta(out).head.kind == name
    image = next((place / "photos" / "ant").iterdir())
    assert tt("predict", out, image, "--backbone", place / "toy.safetensors") == 0


@pytest.mark.parametrize("name", list(HEADS))
def test_a_plan_names_any_head_and_is_obeyed(place, name, capsys):
    plan, out = place / "plan.json", place / "planned.safetensors"
    assert tt("plan", *options(place, "--head", name, "--out", plan)) == 0
    assert "--head" not in capsys.readouterr().out, "the plan says it"
    assert load_plan(plan).recipe.head == name
    assert tt("adapt", *options(place, "--plan", plan, "--out", out, "--force")) == 0
    assert load_delta(out).head.kind == name


def test_without_a_head_the_policy_chooses_it(place, capsys):
    assert tt("plan", *options(place, "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["policy"] == "tinytrain" and result["resources"]["head"] in ("lda", "mild-lda")


@pytest.mark.parametrize(
    "words, message",
    [
        (("--head", "sdla"), "no head 'sdla'; did you mean slda?"),
        (("--policy", "none+sdla"), "no head 'sdla'; did you mean slda?"),
        (("--plan", "plan.json", "--head", "slda"), "--head would mean nothing"),
    ],
)
def test_a_head_that_means_nothing_is_refused(place, words, message, capsys):
    assert tt("adapt", *options(place, *words)) == 2
    assert message in capsys.readouterr().err


def test_python_takes_a_head_as_the_command_line_does(place):
    network, episode = toy_network(), toy_episode(shots=6)
    given = ({"policy": "none+slda"}, {"policy": "none", "head": "slda"})
    one, other = (tinytrain.adapt(network, episode, "4MB", device=ONE, force=True, **x) for x in given)
    assert encode_delta(one.delta) == encode_delta(other.delta) and one.delta.head.kind == "slda"
    with pytest.raises(UsageError, match="no head 'x'"):
        tinytrain.adapt(network, episode, head="x")
    with pytest.raises(InputError, match="head is a value of type int"):
        tinytrain.adapt(network, episode, head=3)
    with pytest.raises(InputError, match="a plan says itself which head"):
        tinytrain.adapt(network, episode, policy=one.plan, head="slda")


def test_a_head_of_few_images_takes_fewer_bytes_in_the_arena_and_in_the_delta(place):
    """The same as it takes for more images, whose sums are the smaller form."""
    network = toy_network()
    few, many = (
        tinytrain.adapt(network, toy_episode(shots=k), "4MB", "none", device=ONE, force=True, head="slda")
        for k in (1, 40)
    )
    size = network.embedding_size
    assert few.delta.head.embeddings.shape == (3, size) and many.delta.head.embeddings is None
    again = decode_delta(*decode(encode_delta(few.delta))).head
    assert (again.embeddings == few.delta.head.embeddings).all()
    assert few.delta.nbytes < many.delta.nbytes
    names = {row["name"]: row["bytes"] for row in few.program.table()}
    assert not any("scatter" in name for name in names), "no matrix of the embedding"
