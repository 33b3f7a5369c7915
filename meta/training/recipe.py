"""Recipes of the offline stage: strict YAML into dataclasses whose fields say what is allowed.

A wrong key, type or value ends as an InputError that names it and what may stand there.
"""
# ruff: noqa: RUF009 - `of` makes a dataclass field

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tinytrain.backbones.sound import OWN
from tinytrain.base.schema import (
    WrongError,
    choice,
    count,
    flag,
    list_of,
    number,
    of,
    pair,
    parsed,
    table,
    text,
)
from tinytrain.base.yaml_file import read_yaml
from tinytrain.meta.training.augment import Looks
from tinytrain.meta.training.hearing import Hearing
from tinytrain.network.input_spec import InputSpec

FOLDER = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class SourceSettings:
    """A pack, a generated domain or a folder.

    `classes`: only classes first <= c < last. `per_class`, `data_seed`: of generated domains. `size`: side
    at which images are kept in memory. `families`: fraction of the episodes that take all classes from one
    family (alphabet). `held_out`: fraction of the classes kept for validation.
    """

    data: str = of(text)
    weight: float = of(number(1e-6, 1e6), 1.0)
    classes: tuple[int, int] | None = of(pair(count(0)), None)
    per_class: int = of(count(2, 10_000), 40)
    data_seed: int = of(count(0, 2**31), 0)
    size: int = of(count(8, 512), 96)
    families: float = of(number(0, 1), 0.0)
    held_out: float = of(number(0, 0.9), 0.1)


@dataclass(frozen=True)
class EpisodeSettings:
    """`sampler` fixed: way x (shots + queries); meta-dataset: ways and shots drawn, at most `max_support`."""

    sampler: str = of(choice("fixed", "meta-dataset"), "fixed")
    way: int = of(count(2, 100), 10)
    shots: int = of(count(1, 100), 3)
    queries: int = of(count(1, 100), 3)
    max_support: int = of(count(5, 500), 50)


@dataclass(frozen=True, kw_only=True)
class RateSettings:
    """`rate`: highest learning rate of weights; `early`: factor of the first layer's.

    `relative`: rates are fractions of the rms of a layer's weights.
    """

    kind: str = of(choice("adamw", "sgd"), "adamw")
    rate: float = of(number(0, 1e6), 1e-4)
    bias_rate: float | None = of(number(0, 1e6), None)
    relative: bool = of(flag, False)
    early: float = of(number(0, 1), 1.0)
    betas: tuple[float, float] = of(list_of(number(0, 0.99999), 2, 2), (0.9, 0.999))
    decay: float = of(number(0, 10), 0.01)

    def __post_init__(self):
        if self.bias_rate is None:
            object.__setattr__(self, "bias_rate", self.rate)


@dataclass(frozen=True, kw_only=True)
class CourseSettings:
    """What changes in the course of a run, in steps: `warm_up`; `floor`: last learning rate, of the highest.

    `clip`: gradient norm. `ema`: decay of the running mean of the values that is judged and exported (0: the
    values themselves). `rounded`: fraction of the run, at its end, that is quantisation-aware: passes compute
    with weights rounded to int8, the gradient moves the others.
    """

    warm_up: int = of(count(0), 50)
    floor: float = of(number(0, 1), 0.0)
    clip: float = of(number(0, 1e6), 0.0)
    ema: float = of(number(0, 0.99999), 0.0)
    rounded: float = of(number(0, 1), 0.0)


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(CourseSettings, RateSettings):
    """How weights are changed, and what of that changes in the course of a run."""


@dataclass(frozen=True)
class ValidationSettings:
    """Every `every` steps, fixed episodes on whole held-out `domains` and on held-out source classes.

    `per_class` and `classes` bound the images that one domain is judged by. `blend`: ways from the first
    weights (0) to the trained ones (1) that are judged each time; the best of them is kept.
    """

    domains: tuple[SourceSettings, ...] = of(list_of(table(SourceSettings), 1, 20))
    every: int = of(count(), 100)
    episodes: int = of(count(2, 10_000), 200)
    way: int = of(count(2, 100), 5)
    shots: int = of(count(1, 100), 5)
    queries: int = of(count(1, 100), 10)
    per_class: int = of(count(2, 10_000), 20)
    classes: int = of(count(2, 10_000), 40)
    patience: int = of(count(0), 0)
    blend: tuple[float, ...] = of(list_of(number(0, 1), 1, 10), (1.0,))


@dataclass(frozen=True)
class TemperatureSettings:
    """Scale of the cosines: where it starts and its own learning rate (0: fixed)."""

    start: float = of(number(0.01, 1000), 10.0)
    rate: float = of(number(0, 10), 0.003)


@dataclass(frozen=True)
class Architecture:
    """Rows of `blocks`: expansion (0: none), output channels, kernel, stride. The last one embeds.

    If `tokens` are given, it is a compact transformer instead. They are the channels of its convolutions, and
    `attention` has the number of blocks behind these, the heads of each, and the channels between the last
    two layers of each. `size` is that of images; clips of sound have one form.
    """

    input: str = of(choice("image", "sound"), "image")
    size: int = of(count(16, 512), 128)
    stem: int = of(count(1, 512), 16)
    blocks: tuple[tuple[int, int, int, int], ...] = of(
        list_of(list_of(count(0, 4096), 4, 4, "[expand, out, kernel, stride]"), 1), ()
    )
    tokens: tuple[int, ...] = of(list_of(count(1, 1024), 0, 4), ())
    attention: tuple[int, int, int] = of(
        list_of(count(1, 4096), 3, 3, "[blocks, heads, hidden]"), (2, 2, 128)
    )

    def __post_init__(self):
        if self.tokens and self.blocks:
            raise WrongError("tokens", list(self.tokens), "[] beside blocks")
        if self.tokens and self.tokens[-1] % self.attention[1]:
            raise WrongError(
                "attention", list(self.attention), f"heads that divide {self.tokens[-1]} channels"
            )

    @property
    def spec(self) -> InputSpec:
        return OWN if self.input == "sound" else InputSpec((self.size, self.size, 3))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What both kinds of training need."""

    name: str = of(text)
    sources: tuple[SourceSettings, ...] = of(list_of(table(SourceSettings), 1))
    validate: ValidationSettings = of(table(ValidationSettings))
    seed: int = of(count(0, 2**31), 0)
    augmentation: Looks = of(table(Looks), Looks)
    optimizer: OptimizerSettings = of(table(OptimizerSettings), OptimizerSettings)
    temperature: TemperatureSettings = of(table(TemperatureSettings), TemperatureSettings)
    weights: str = of(choice("int8", "float32"), "int8")


@dataclass(frozen=True)
class AdaptationSettings:
    """Adaptations inside meta-training, by the default policy in a budget of `memory` bytes and `macs`.

    `fraction` of the episodes have one (0: none). `rate`: learning rate of the factors' logarithms.
    """

    fraction: float = of(number(0, 1), 0.0)
    memory: int = of(count(), 1_000_000)
    macs: float = of(number(0, 10), 0.15)
    rate: float = of(number(0, 10), 0.02)


@dataclass(frozen=True, kw_only=True)
class MetaRecipe(Recipe):
    """Of ``tinytrain meta-train``. `head`: what the loss goes through."""

    kind: str = of(choice("meta-train"), "meta-train")
    episodes: int = of(count(), 1000)
    episode: EpisodeSettings = of(table(EpisodeSettings), EpisodeSettings)
    head: str = of(choice("cosine", "lda"), "cosine")
    adaptation: AdaptationSettings = of(table(AdaptationSettings), AdaptationSettings)
    distillation: float = of(number(0, 1000), 0.0)

    @property
    def steps(self) -> int:
        return self.episodes


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe(Recipe):
    """Of ``tinytrain pretrain``. Without `teacher` classes are learned, with it the teacher's embeddings.

    `inner`: weight of feature distillation, which makes each block follow the teacher's (0: the embeddings
    alone). `apart`: steps of block-wise distillation at the start, in which each block learns by itself from
    what the teacher's block before it puts out; the schedule of rates starts anew after them. Clips are
    varied by `hearing`, images by `augmentation`.
    """

    architecture: Architecture = of(table(Architecture))
    kind: str = of(choice("pretrain"), "pretrain")
    teacher: str | None = of(text, None)
    loss: str = of(choice("cosine", "relational"), "cosine")
    centre: bool = of(flag, True)
    inner: float = of(number(0, 1000), 0.0)
    apart: int = of(count(0), 0)
    steps: int = of(count(), 10_000)
    batch: int = of(count(2, 4096), 40)
    head_rate: float = of(number(0, 10), 0.003)
    hearing: Hearing = of(table(Hearing), Hearing)

    @property
    def looks(self) -> Looks | Hearing:
        return self.hearing if self.architecture.input == "sound" else self.augmentation

    def __post_init__(self):
        if self.inner and self.architecture.tokens:
            raise WrongError("inner", self.inner, "0 with tokens")
        if self.apart and not (self.teacher and self.inner):
            raise WrongError("apart", self.apart, "0 without a teacher or with inner: 0")
        if self.apart > self.steps:
            raise WrongError("apart", self.apart, f"at most steps, {self.steps}")


KINDS = {"meta-train": MetaRecipe, "pretrain": PretrainRecipe}


def load_recipe(path: str | os.PathLike, kind: str):
    """The recipe in the file `path`, or the shipped one of that name. Raises InputError."""
    found = find_recipe(path)
    return parse_recipe(read_yaml(found, "bad-value"), kind, str(found))


def find_recipe(path: str | os.PathLike) -> Path:
    """A file, or the shipped recipe called `path`."""
    shipped = FOLDER / f"{os.fspath(path)}.yaml"
    return shipped if os.sep not in os.fspath(path) and shipped.is_file() else Path(path)


def parse_recipe(content, kind: str, source: str = "recipe"):
    """A recipe from what YAML gave; `source` names it in messages."""

    def check(content, where):
        if isinstance(content, dict) and content.get("kind", kind) != kind:
            raise WrongError("kind", content["kind"], f"{kind}: this command runs no other recipes")
        return table(KINDS[kind])(content, where)

    return parsed(check, content, source, "bad-value")


def changed(recipe, **changes):
    """`recipe` with other values in some fields. Raises InputError."""

    def check(values, where):
        return replace(recipe, **values)

    return parsed(check, changes, "the recipe with these options", "bad-value")


def digest_of(recipe, *more: str) -> str:
    """sha256 of a recipe and of what else decides its result."""
    return hashlib.sha256(json.dumps([asdict(recipe), *more], sort_keys=True).encode()).hexdigest()
