"""Tiny domains, recipes and tasks for tests of the offline stage: a run takes well under a second."""

from pathlib import Path

import numpy as np
import toynets
from PIL import Image

from tinytrain.episode.kinds import kind_of
from tinytrain.meta.training.architecture import architecture, initial_network
from tinytrain.meta.training.checkpoint import Paths
from tinytrain.meta.training.loop import Run
from tinytrain.meta.training.metatrain import MetaTask
from tinytrain.meta.training.pretrain import PretrainTask
from tinytrain.meta.training.recipe import digest_of, parse_recipe
from tinytrain.meta.training.sources import open_sources
from tinytrain.meta.training.validate import Validator
from tinytrain.network.input_spec import InputSpec

SPEC = InputSpec((16, 16, 3))
BLOCKS = [[0, 4, 3, 1], [8, 6, 3, 2], [12, 8, 3, 1]]
TEACHER = toynets.toy("headed")  # embeddings of 20 values


def student():
    """A network of inverted bottlenecks with embeddings of 8 values."""
    return initial_network(9, toynets.images(8), architecture(SPEC.shape, 4, BLOCKS), {}, SPEC)


STUDENT = student()


def folder(path: Path, classes: int = 6, per_class: int = 8, seed: int = 0) -> str:
    """A folder of images whose classes differ in colour and stripes."""
    for c in range(classes):
        (path / f"class{c}").mkdir(parents=True)
        r = toynets.rng("class", seed, c)
        base, period = r.uniform(60, 200, 3), r.integers(2, 7)
        for p in range(per_class):
            noise = toynets.rng("picture", seed, c, p).normal(0, 25, (20, 20, 3))
            stripes = 40 * (np.arange(20) % period < period / 2)[:, None, None]
            pixels = np.clip(base + stripes + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(path / f"class{c}" / f"{p}.png")
    return str(path)


def content(tmp_path: Path, kind: str = "meta-train", **changes) -> dict:
    """A recipe as YAML gives it; two folders are made where they are missing."""
    for name, seed in (("source", 0), ("target", 1)):
        if not (tmp_path / name).exists():
            folder(tmp_path / name, seed=seed)
    validate = {
        "domains": [{"data": str(tmp_path / "target")}],
        "every": 2, "episodes": 5, "way": 2, "shots": 2, "queries": 2,
    }  # fmt: skip
    made = {
        "name": "toy",
        "sources": [{"data": str(tmp_path / "source"), "size": 20, "held_out": 0.34}],
        "optimizer": {"rate": 1e-3, "warm_up": 2},
        "validate": validate,
    }
    if kind == "meta-train":
        made |= {"episodes": 6, "episode": {"way": 3, "shots": 2, "queries": 1}}
    else:
        made |= {"steps": 6, "batch": 7, "architecture": {"size": 16, "stem": 4, "blocks": BLOCKS}}
    return made | changes


def task(tmp_path: Path, kind: str = "meta-train", network=None, teacher=None, **changes):
    """(task, recipe) of a toy recipe; `teacher` is a network."""
    changes |= {"teacher": "given"} if teacher and kind == "pretrain" else {}
    recipe = parse_recipe(content(tmp_path, kind, **changes), kind)
    spec = recipe.architecture.spec if kind == "pretrain" else SPEC
    sources = open_sources(recipe.sources, recipe.seed, spec)
    validator = Validator(recipe.validate, sources, kind_of(spec.kind).asked(spec))
    if kind == "pretrain":
        return PretrainTask(recipe, sources, validator, teacher), recipe
    return MetaTask(network or toynets.toy(), recipe, sources, validator), recipe


def run(
    tmp_path: Path, out: str = "net", kind: str = "meta-train", wrap=lambda made: made, say=None,
    teacher_network=None, network=None, **changes,
):  # fmt: skip
    """A `Run` ready to be called; `wrap` may change its task."""
    made, recipe = task(tmp_path, kind, network, teacher_network, **changes)
    paths = Paths(tmp_path / f"{out}.safetensors")
    return Run(wrap(made), recipe, paths, digest_of(recipe), lambda *_: None, say or (lambda text: None))
