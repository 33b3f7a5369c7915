"""The published tables beside ours, if the data set is the same in kind."""

from functools import cache
from pathlib import Path

from tinytrain.base.yaml_file import read_yaml
from tinytrain.meta.bench.document import Block, Heading, Table, Text

MIB = 2**20
LIKE = ("5-way 5-shot", "Meta-Dataset")  # samplers that come near to the published one


@cache
def published() -> dict:
    """The content of ``published.yaml``."""
    return read_yaml(Path(__file__).with_name("published.yaml"), "file-damaged")


def published_blocks(groups: list[dict]) -> list[Block]:
    """Tables of accuracy and of costs with the published figure before ours; nothing if none compares."""
    known = published()
    like = [group for group in groups if group["sampler"].startswith(LIKE)]
    compared = [(group, known["models"].get(group["backbone"])) for group in like]
    blocks = [block for group, model in compared if model for block in _accuracy(group, model, known)]
    costs = [row for group, model in compared if model for row in _costs(group, model, known)]
    if not blocks:
        return []
    blocks = [
        Heading("Published figures beside ours"),
        Text(f"Source: {known['source']}. {known['note']}"),
        *blocks,
    ]
    rows = tuple((name, f"{a:g}", f"{b:g}") for name, (a, b) in known["equal_start"].items())
    blocks += [
        Heading("What meta-training was published to change", 3),
        Text("MCUNet, mean of the nine published sets, in per cent, before and after meta-training."),
        Table(("method", "without", "with"), rows),
    ]
    header = ("backbone, method", "MiB published", "MiB ours", "M MACs published", "M MACs ours")
    return [
        *blocks,
        Heading("Memory and backward MACs of one image as published", 3),
        Text(
            "FullTrain and TinyTL at batch 100, the others at batch 1: 16 bytes per trained weight + peak"
            " activation of inference. The checkpoints lack the head convolution that the published "
            "figures of MobileNetV2 and ProxylessNASNet count."
        ),
        Table(header, tuple(dict.fromkeys(costs))),
    ]


def _accuracy(group: dict, model: str, known: dict) -> list[Block]:
    packs = [pack for pack in known["sets"] if pack in group["packs"]]
    order, table = list(known["sets"]), known["accuracy"][model]
    rows = []
    for method in group["methods"]:
        name = known["methods"].get(method["label"])
        if name not in table:
            continue
        cells = []
        for pack in packs:
            ours = method["accuracy"].get(pack)
            cells += [f"{table[name][order.index(pack)]:.1f}", f"{ours[0]:.1f}" if ours else "-"]
        rows.append((f"{name} / {method['label']}", *cells))
    if not packs or not rows:
        return []
    header = ("published / ours", *(text for pack in packs for text in (known["sets"][pack], pack)))
    title = f"{model} / {group['backbone']}, {group['sampler']}"
    return [Heading(title, 3), Table(header, tuple(rows))]


def _costs(group: dict, model: str, known: dict) -> list[tuple[str, ...]]:
    rows = []
    for method in group["methods"]:
        name, cost = known["methods"].get(method["label"]), method.get("cost")
        if cost and name in known["costs"][model]:
            memory, macs = known["costs"][model][name]
            ours = cost["published"] / MIB, cost["backward_per_sample"] / 1e6
            cells = (f"{memory:g}", f"{ours[0]:.2f}", f"{macs:g}", f"{ours[1]:.2f}")
            rows.append((f"{group['backbone']}: {name} / {method['label']}", *cells))
    return rows
