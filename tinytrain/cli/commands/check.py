"""``tinytrain check``: whether images are enough, what is confused, and what more of them would bring."""

from tinytrain.backbones.catalogue import JOINS
from tinytrain.backbones.load import open_backbone
from tinytrain.base.errors import UsageError
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import (
    SEVERAL,
    add_backbone,
    add_json,
    add_threads,
    add_verbosity,
    print_result,
    say,
    text_width,
)

DESCRIPTION = (
    "Show in seconds whether these images are enough: the accuracy to expect, which classes are confused, "
    "which images look mislabelled, what five more images per class would bring, and which class to "
    "photograph next; and what other networks on this machine would make of them. Nothing is trained and "
    "nothing is written."
)
EXAMPLES = """\
  tinytrain check photos/
  tinytrain check photos/ --adapt
  tinytrain check photos/ --shots 5 --json
  tinytrain check photos/ --backbone net.safetensors
  tinytrain check --data leaves --way 5 --shots 5
"""
# Options of `episodes` that only --adapt needs.
TRAINING = ("budget", "macs", "macs_mode", "precision", "policy", "head")
LINES, WIDTH = 12, 100  # of the text
ALONE = "unknown: no class has a second image, by which the first could be judged"
HARDLY = 0.02  # a gain of accuracy below this is hardly worth taking photographs


def add_arguments(parser) -> None:
    episodes.add_arguments(parser)
    add_backbone(parser, SEVERAL)
    add_threads(parser)
    parser.add_argument(
        "--adapt", action="store_true",
        help="estimate the accuracy by three real adaptations, each judged by the third of the images that "
        "it did not see; takes as long as these; --budget and --policy apply to them",
    )  # fmt: skip
    add_verbosity(parser, "every suspect, duplicate and confused image")
    add_json(parser)


def run(arguments) -> None:
    from functools import partial

    from tinytrain.base.progress import ProgressLine
    from tinytrain.episode.kinds import kind_of
    from tinytrain.pipeline.check import check, with_adaptations
    from tinytrain.runtime.device import Device

    unused = ("queries", "replay") if arguments.adapt else ("queries", "replay", *TRAINING)
    if ignored := episodes.given(arguments, unused):
        remedy = "" if ignored[0] in ("--queries", "--replay") else " without --adapt"
        raise UsageError(
            "usage", f"{ignored[0]} has no effect{remedy}: no image is held out, none trained on"
        )
    arguments.queries = 0
    policy, network = episodes.policy_of(arguments), open_backbone(arguments.backbone)
    with ProgressLine() as progress:
        opened = episodes.open_episode(arguments, network, policy, progress, within_budget=arguments.adapt)
        episode = opened.episode
        device = Device(threads=arguments.threads, progress=progress)
        found = check(network, episode, arguments.seed, device)
        if arguments.adapt:
            # Not that of `tinytrain`, which leaves out queries that are copies: every image is judged.
            from tinytrain.pipeline.committee import adapt

            budget, seed = episodes.budget_of(arguments), arguments.seed
            adapted = partial(adapt, network, budget=budget, policy=policy, seed=seed, device=device)
            found = with_adaptations(found, episode, adapted, seed)
    say(*opened.warnings)
    about = {"backbone": network.name, "backbone_digest": network.digest, "source": episode.source}
    text = kind_of(network.input.kind).words(render(found, text_width(), arguments.verbose))
    skipped = [file.to_json() for file in episode.skipped]
    about |= {**found.to_json(), "skipped": skipped, "warnings": opened.warnings}
    print_result(about, text, arguments.json)


def render(found, width: int = WIDTH, verbose: bool = False) -> str:
    """What `check` found as text: an item for each question, in twelve lines unless `verbose`.

    Other networks take two lines more.
    """
    from tinytrain.report.layout import Item, fitted

    judged = found.left_out.judged
    items = [
        Item("images", _images(found)),
        Item("accuracy", _accuracy(found.estimate)),
        _confused(found.confused) if judged else Item("confused", ALONE),
        _suspects(found.suspects, sum(found.shots), found.estimate.accuracy)
        if judged
        else Item("suspects", ALONE),
        _duplicates(found.duplicates, found.left_out.repeated),
        Item("enough", _gain(found.gain)),
        Item("next", _next_class(found)),
        *([Item("networks", _networks(found.networks, found.auto))] if found.networks else []),
    ]
    return "\n".join(fitted(items, width, None if verbose else LINES + 2 * bool(found.networks)))


def _images(found) -> str:
    least, most = min(found.shots), max(found.shots)
    each = f"{least}" if least == most else f"{least} to {most}"
    return f"{sum(found.shots)} of {len(found.classes)} classes, {each} of each"


def _accuracy(e) -> str:
    if e.accuracy is None:
        return f"unknown: {e.why}"
    how = (
        f"{e.folds} adaptations, each judged by the images that it did not see"
        if e.network == "adapted"
        else f"each of {e.n} images judged by the others, without training"
    )
    return (
        f"about {e.accuracy:.0%} of new images right (95 % interval {e.low:.0%} to {e.high:.0%}), from {how}"
    )


def _confused(confused):
    from tinytrain.report.layout import Item, short

    if confused is None:
        return Item("confused", "no two classes")
    text = f"{' and '.join(short(name) for name in confused.classes)} most often"
    return Item("confused", text, tuple(map(short, confused.images)))


def _suspects(suspects, images: int, right: float | None):
    from tinytrain.report.conclusion import how_often_wrong, suspect_text
    from tinytrain.report.layout import Item, count_of

    often = how_often_wrong(len(suspects), images, right)
    text = f"{count_of(len(suspects), 'image')} ({often})" if suspects else "none"
    return Item("suspects", text, tuple(suspect_text(s.to_json()) for s in suspects))


def _duplicates(duplicates, repeated: float):
    from tinytrain.report.conclusion import duplicate_text
    from tinytrain.report.layout import Item

    text = f"{len(duplicates)}" if duplicates else "none"
    if round(100 * repeated) > 0:
        text += f"; {repeated:.0%} of the images are recognised only because others nearly repeat them"
    return Item("duplicates", text, tuple(map(duplicate_text, duplicates)))


def _gain(gain) -> str:
    if gain is None:
        return "unknown: a class has too few images to tell; add more"
    points = (100 * x for x in (gain.gain, gain.low, gain.high))
    mid, low, high = (f"{x:+.0f}" for x in points)
    more = f"{gain.images} more images of every class would bring {mid} points of accuracy"
    return f"{_enough(gain)}: {more} (95 % interval {low} to {high})"


def _enough(gain) -> str:
    return "no" if gain.low > 0 else "yes" if gain.gain < HARDLY else "perhaps"


def _networks(rows, auto: str) -> str:
    """What `--backbone auto` would take, and the best of the others."""
    wanted = set(auto.split(JOINS))
    first, *others = sorted(rows, key=lambda row: (set(row.networks) != wanted, -row.accuracy, row.times))
    if first is rows[0]:
        text = f"--backbone auto would take {_called(first)} as well"
    else:
        text = f"--backbone auto would take {_called(first)}: {_above(first)}"
    best = next(row for row in others if row is not rows[0])
    return f"{text}; {_called(best)}: {_above(best)}"


def _above(row) -> str:
    mid, low, high = (f"{100 * x:+.0f}" for x in (row.gain, *row.interval))
    return f"{mid} points (95 % interval {low} to {high}) in {row.times:.1f} times the time"


def _called(row) -> str:
    """The tiers of the networks, or their names: what ``--backbone`` takes."""
    from tinytrain.backbones.catalogue import tier_of
    from tinytrain.report.layout import short

    return JOINS.join(short(tier_of(name)) for name in row.networks)


def _next_class(found) -> str:
    from tinytrain.report.layout import short

    wanted = found.next_class
    name = short(wanted.name)
    if wanted.images == 1:
        return f"photograph {name}: it has a single image"
    take = "if you take more, photograph" if found.gain and _enough(found.gain) == "yes" else "photograph"
    what = f"{take} {name}: its {wanted.images} images are told from other classes least clearly"
    if not wanted.errors:
        return what
    verb = "looks" if wanted.errors == 1 else "look"
    return f"{what}, {wanted.errors} {verb} like another one, mostly {short(wanted.like)}"
