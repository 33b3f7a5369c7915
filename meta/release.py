"""Makes a network that comes with the package again, with its model card.

    python -m tinytrain.meta.release --work FOLDER
    python -m tinytrain.meta.release --work FOLDER --kind sound

Commands do the work, for images one `tinytrain pretrain` and two `tinytrain meta-train`, each by its shipped
recipe; a run that was stopped goes on where it was. The last one reads the pack free_photos, which `tinytrain
data pack free_photos.npz free_photos:FOLDER` makes. The encoder of sound needs the program espeak-ng. Then
the network gets the codes of `tinytrain calibrate`, is judged on packs that no stage has seen, as it is and
after adaptations inside 1 MB, and is written with its card to the package's folder.
"""

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tinytrain.backbones.catalogue import SHIPPED, SOUND, Backbone
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.errors import StorageError
from tinytrain.base.files import write_bytes
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.datasets.calibration import calibration_images
from tinytrain.episode.kinds import kind_of
from tinytrain.meta.bench.document import table_lines
from tinytrain.meta.bench.episode import run_episode
from tinytrain.meta.bench.sampler import Entry
from tinytrain.meta.bench.statistics import Interval, mean_interval
from tinytrain.network.file import load_network, save_network
from tinytrain.network.network import Network
from tinytrain.runtime.calibrate import calibrated_network

TEACHER = "mcunet-5fps"
EPISODES, SEED = 40, 7
COLUMNS = {"before_cosine": "cosine prototypes", "before": "LDA head", "after": "adapted, 1 MB"}
GAIN = "adapted, less LDA"


@dataclass(frozen=True)
class Release:
    """A network in the package: its `row`, the commands that train it, the `packs` it is judged on.

    `about` and `judged` are paragraphs of its card.
    """

    row: Backbone
    stages: tuple[tuple[str, str, list[str]], ...]
    packs: tuple[str, ...]
    about: tuple[str, ...]
    judged: str


RELEASES = {
    "image": Release(
        SHIPPED,
        (
            ("pretrain", "shipped-pretrain", ["--teacher", TEACHER]),
            ("meta-train", "shipped-meta", ["--backbone", "shipped-pretrain.safetensors"]),
            ("meta-train", "shipped-tasks", ["--backbone", "shipped-meta.safetensors"]),
        ),
        ("gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch"),
        (
            "The backbone that comes with the package, trained from random weights on unrestricted images:",
            "caltech101 (CC BY 4.0), free_photos (CC BY, CC0 and MIT, `datasets/free_photos.py` names the",
            "sources), the background alphabets of omniglot (MIT) and generated domains. The teacher of the",
            f"first stage is {TEACHER} (MIT, MIT HAN Lab); none of its weights are in here.",
        ),
        "with 95 % intervals. No stage saw any of this; of omniglot these are the evaluation alphabets.",
    ),
    "sound": Release(
        SOUND,
        (("pretrain", "sound", []),),
        ("speech", "sounds"),
        (
            "The encoder of sound that comes with the package (Apache-2.0), trained from random weights on",
            "1,000 kinds of generated sounds and on 1,600 words that mean nothing, spoken by eSpeak NG 1.51",
            "(GPL-3.0, a program of its own; no clip and no part of it is in here). No recording had a part.",
        ),
        "with 95 % intervals. Words and sounds of other classes than those of training and of the choice.",
    ),
}


@dataclass(frozen=True)
class Stage:
    """A finished command: what was typed, and the object that it printed."""

    command: str
    result: dict


def run_stage(kind: str, recipe: str, options: list[str], work: Path) -> Stage:
    """Run one command in the folder `work`. Raises SystemExit with its exit code if it fails."""
    typed = [kind, recipe, *options, "-o", f"{recipe}.safetensors"]
    command = [sys.executable, "-m", "tinytrain", *typed, "--json"]
    done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(done.returncode)
    return Stage(" ".join(["tinytrain", *typed]), json.loads(done.stdout))


def judge(network: Network, packs, episodes: int) -> dict[str, dict[str, Interval]]:
    """Accuracy in per cent by pack and column, on `episodes` each."""
    found = {}
    for pack in packs:
        dataset = open_dataset(pack)
        drawn = (sample_episode(dataset, 5, 5, 10, SEED, k) for k in range(episodes))
        adapted = Entry("tinytrain", "tinytrain")
        rows = [run_episode(network, e, adapted, k)["accuracy"] for k, e in enumerate(drawn)]
        found[pack] = {c: mean_interval([100 * row[c] for row in rows]) for c in COLUMNS}
        found[pack][GAIN] = mean_interval([100 * (row["after"] - row["before"]) for row in rows])
    return found


def card(release: Release, network: Network, file: bytes, stages: list[Stage], found, episodes: int) -> str:
    """The model card as Markdown."""
    kind, (height, width, _) = kind_of(network.input.kind), network.input.shape
    lines = [
        f"# {network.name}",
        "",
        *release.about,
        "",
        f"- {len(network.layers)} layers, {network.n_weights:,} int8 weights with one scale per channel,",
        f"  {network.macs:,} MACs per {kind.noun}, input {height} x {width},",
        f"  embedding {network.embedding_size}",
        f"- file: {len(file):,} bytes, sha256 `{hashlib.sha256(file).hexdigest()}`",
        f"- digest of the network: `{network.digest}`",
        f"- codes of its layers' outputs, for int8: `tinytrain calibrate`, on generated {kind.plural} only",
        "",
        "## Training",
        "",
        f"`python -m tinytrain.meta.release --work FOLDER --kind {kind.name}` runs these commands; their",
        "recipes in `meta/training/recipes/` hold sources, classes, rates and seed. Checkpoints were chosen",
        "by the domains below, which no stage was trained on.",
        "",
    ]
    for stage in stages:
        result = stage.result
        lines.append(
            f"- `{stage.command}`: step {result['best_step']:,} of {result['steps']:,},"
            f" {result['seconds'] / 60:.0f} minutes"
        )
    last = stages[-1].result
    forms = [last[form]["left_out"] for form in ("start", "float32", "int8")]
    rows = [(name, *(f"{100 * form[name][0]:.1f}" for form in forms)) for name in forms[0]]
    lines += ["", *table_lines(("domain left out of training", "start", "float32", "int8"), rows)]
    lines += [
        "",
        "## Accuracy on what it never saw",
        "",
        f"5-way 5-shot, 10 queries per class, {episodes} episodes per pack, seed {SEED}; top-1 in per cent",
        release.judged,
        "",
    ]
    rows = [(pack, *(interval.text() for interval in row.values())) for pack, row in found.items()]
    lines += table_lines(("pack", *COLUMNS.values(), GAIN), rows)
    return "\n".join(lines) + "\n"


def ship(release: Release, work: Path, out: Path, packs, episodes: int) -> None:
    """Train in `work`, judge, and write `out` and its card. Raises what the stages raise."""
    for folder in (work, out.parent):
        if not folder.is_dir():
            raise StorageError("write-failed", f"{folder} is no folder; create it first")
    stages = [run_stage(kind, recipe, options, work) for kind, recipe, options in release.stages]
    network = replace(load_network(work / f"{release.stages[-1][1]}.safetensors"), name=out.stem)
    network = calibrated_network(network, calibration_images(network.input.kind))
    save_network(network, out)
    found = judge(network, packs, episodes)
    text = card(release, network, out.read_bytes(), stages, found, episodes)
    write_bytes(out.with_suffix(".md"), text.encode())


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    parser = Parser(prog="python -m tinytrain.meta.release", description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of checkpoints and logs")
    parser.add_argument("--kind", choices=RELEASES, default="image", help="default: %(default)s")
    parser.add_argument("--out", type=Path, help="default: the package's own file")
    parser.add_argument("--packs", help="with commas; default: those of the card")
    parser.add_argument(
        "--episodes", type=at_least(1), default=EPISODES, help="per pack (default: %(default)s)"
    )
    given = parser.parse(arguments)
    release = RELEASES[given.kind]
    packs = given.packs.split(",") if given.packs else release.packs
    ship(release, given.work, given.out or release.row.path, packs, given.episodes)


if __name__ == "__main__":
    sys.exit(main())
