"""``tinytrain adapt --from``: more classes for a finished delta, by training or in its classifier alone."""

import os
from typing import NamedTuple

from tinytrain.backbones.catalogue import AUTO
from tinytrain.base.errors import UsageError
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import (
    BackboneOfDelta,
    open_delta,
    open_placed,
    print_result,
    say,
    text_width,
)
from tinytrain.cli.commands.hints import predict_words

# Options of `episodes` that say which images of a class are used, and how: with --from all of them are.
SAMPLING = ("data", "background", "way", "shots", "queries", "episode")
# Options of `episodes` for sampling and training, which have no effect with --add.
TRAINING = ("background", "way", "shots", "queries", "episode", "budget", "macs", "macs_mode", "precision")
TRAINING += ("policy", "head", "replay")
METHOD = ("policy", "head", "replay", "macs", "macs_mode")  # those that the delta itself settles


def check_arguments(arguments) -> None:
    """Raise UsageError if options of ``--from`` do not go together."""
    others = arguments.source, arguments.add, arguments.plan, arguments.backbone == AUTO or None
    if arguments.start is not None and any(given is not None for given in others):
        text = "--from, --add, --plan and --backbone auto do not go with it; leave them out"
        raise UsageError("usage", f"--start DELTA begins at its layers, so {text}")
    if arguments.source is None:
        if arguments.add is not None:
            raise UsageError(
                "usage", "--add DIR and --from DELTA, to which the images are added, go together"
            )
        return
    if arguments.add is not None:
        _check_extension(arguments)
        return
    without_folder = ("flip",) if arguments.folder is None else ()
    ignored = episodes.given(arguments, (*SAMPLING, *METHOD, *without_folder))
    ignored += [f"--{name}" for name in ("plan", "train") if getattr(arguments, name) is not None]
    if ignored:
        raise UsageError(
            "usage",
            "--from DELTA takes all images of DIR and trains what it trained before, so "
            f"{', '.join(ignored)} would have no effect; leave it out",
        )


class Source(NamedTuple):
    """The delta of ``--from``, and its network.

    `place` is where the store is that the delta comes from, None if the result does not go there as well.
    """

    delta: object
    network: object
    place: object

    @classmethod
    def of(cls, arguments) -> "Source | None":
        """None without ``--from``. Raises InputError."""
        if arguments.source is None:
            return None
        goes_back = arguments.store and os.path.realpath(arguments.store) == os.path.realpath(
            arguments.source
        )
        delta, place = open_placed(arguments.source)
        network = BackboneOfDelta(arguments.backbone).of(delta, arguments.out)
        return cls(delta, network, place if goes_back else None)

    def adapted(self, arguments, budget, progress):
        """The report of an adaptation to what is remembered and to the folder, if there is one."""
        from tinytrain.api.adapt import adapt_again
        from tinytrain.base.file_kinds import refuse_other_kinds
        from tinytrain.datasets import folder_dataset
        from tinytrain.runtime.device import Device

        images = None
        if arguments.folder is not None:
            refuse_other_kinds(arguments.folder, "images")
            images = folder_dataset(arguments.folder, arguments.flip)
        device = Device(threads=arguments.threads, progress=progress)
        options = {"budget": budget, "seed": arguments.seed, "force": arguments.force, "device": device}
        return adapt_again(self.network, self.delta, images, **options)


def _check_extension(arguments) -> None:
    """Raise UsageError if an option is missing for --from, or given in vain."""
    if arguments.out is None:
        raise UsageError("usage", "--from DELTA --add DIR needs --out FILE, the new delta")
    taken = {"a folder": arguments.folder, "--data": arguments.data, "--threads": arguments.threads}
    taken |= {"--plan": arguments.plan, "--report": arguments.report, "--store": arguments.store}
    taken["--seconds"], taken["--train"] = arguments.seconds, arguments.train
    taken["--force"] = arguments.force or None
    ignored = episodes.given(arguments, TRAINING) + [name for name in taken if taken[name] is not None]
    if ignored:
        text = f"trains nothing, so {', '.join(ignored)} would have no effect; leave it out"
        raise UsageError("usage", f"--from DELTA only adds the images of --add DIR and {text}")


def extend(arguments) -> None:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import folder_dataset
    from tinytrain.datasets.decoding import all_decoded
    from tinytrain.delta.file import save_delta
    from tinytrain.episode.input_facts import file_lines
    from tinytrain.episode.kinds import kind_of
    from tinytrain.pipeline.add_classes import add_classes, doubtful

    delta = open_delta(arguments.source)
    network = BackboneOfDelta(arguments.backbone).of(delta, arguments.out)
    dataset = folder_dataset(arguments.add, arguments.flip)
    with ProgressLine() as progress:
        images, facts = all_decoded(dataset, network.input, progress)
    kind = kind_of(network.input.kind)
    warnings = [*map(kind.words, file_lines(facts))]
    doubts = doubtful(network, delta, images, dataset.class_names)
    extended = add_classes(network, delta, images, dataset.class_names, arguments.seed, dataset.may_flip)
    save_delta(arguments.out, extended)
    added = extended.report["extended"][-1]
    result = {
        "out": arguments.out,
        "backbone": network.digest,
        "classes": list(extended.class_names),
        "added": added,
        "new_classes": [name for name in added if name not in delta.class_names],
        "doubtful": doubts,
        "warnings": warnings,
    }
    if arguments.json:
        say(*warnings)
    print_result(result, _extension_text(arguments, extended, result, kind.words), arguments.json)


def _extension_text(arguments, extended, result: dict, words) -> str:
    """What was added to a delta, in eight lines at most and other `words`; all of it with --verbose."""
    from tinytrain.report.conclusion import LINES, Written, warnings_item, written_item
    from tinytrain.report.layout import Command, Item, count_of, fitted, short

    added, new = result["added"], result["new_classes"]
    known = [f"{short(name)}: {added[name]} images more" for name in added if name not in new]
    fresh = [f"{short(name)}: new class with {added[name]} images" for name in new]
    total = sum(added.values())
    items = [
        Item("added", f"{count_of(total, 'image')}, {len(new)} of {len(result['classes'])} classes are new",
             (*fresh, *known)),
        _doubts_item(result["doubtful"], sum(added[name] for name in added if name not in new)),
        Item("accuracy", "not measured; 'tinytrain eval' does. With all images at hand, adapt again instead"),
        warnings_item(result["warnings"]),
        written_item(Written(arguments.out, os.path.getsize(arguments.out))),
        Command("next", predict_words(arguments.out, arguments.backbone, extended)),
    ]  # fmt: skip
    most = None if arguments.verbose else LINES
    return "\n".join(fitted([item for item in items if item], text_width(), most, words))


def _doubts_item(doubts: list[dict], judged: int):
    """Added images that the delta took for another class than theirs, None without any."""
    from tinytrain.report.conclusion import suspect_text
    from tinytrain.report.layout import Item, count_of

    if not doubts:
        return None
    shown = (f"{suspect_text(row)} ({row['confidence']:.0%})" for row in doubts)
    return Item("suspicious", f"{len(doubts)} of {count_of(judged, 'image')} of known classes", tuple(shown))
