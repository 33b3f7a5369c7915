"""``tinytrain check``: whether images are enough, what is confused, and what more of them would bring."""

import textwrap

from tinytrain.backbones.load import open_backbone
from tinytrain.base.errors import UsageError, visible
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import add_backbone, add_json, add_threads, print_result, say

DESCRIPTION = (
    "Show in seconds whether these images are enough: the accuracy to expect, which classes are confused, "
    "which images look mislabelled, what five more images per class would bring, and which class to "
    "photograph next. Nothing is trained and nothing is written."
)
EXAMPLES = """\
  tinytrain check photos/
  tinytrain check photos/ --adapt
  tinytrain check photos/ --shots 5 --json
  tinytrain check photos/ --backbone net.safetensors
  tinytrain check --data leaves --way 5 --shots 5
"""
TRAINING = ("budget", "macs", "macs_mode", "policy")  # options of `episodes` that only --adapt needs
NAMED = 3  # images that a line names
LABEL, WIDTH = 12, 100  # of the column of labels, and of all text


def add_arguments(parser) -> None:
    episodes.add_arguments(parser)
    add_backbone(parser)
    add_threads(parser)
    parser.add_argument(
        "--adapt", action="store_true",
        help="estimate the accuracy by three real adaptations, each judged by the third of the images that "
        "it did not see; takes as long as these; --budget and --policy apply to them",
    )  # fmt: skip
    add_json(parser)


def run(arguments) -> int:
    from functools import partial

    from tinytrain.base.progress import ProgressLine
    from tinytrain.pipeline.adapt import adapt
    from tinytrain.pipeline.check import check, with_adaptations
    from tinytrain.runtime.device import Device

    unused = ("queries",) if arguments.adapt else ("queries", *TRAINING)
    if ignored := episodes.given(arguments, unused):
        remedy = "" if ignored[0] == "--queries" else " without --adapt"
        raise UsageError(
            "usage", f"{ignored[0]} has no effect{remedy}: no image is held out, none trained on"
        )
    arguments.queries = 0
    policy, network = episodes.policy_of(arguments), open_backbone(arguments.backbone)
    with ProgressLine() as progress:
        opened = episodes.open_episode(arguments, network, policy, progress, within_budget=arguments.adapt)
        episode, warnings = opened[:2]
        device = Device(threads=arguments.threads, progress=progress)
        found = check(network, episode, arguments.seed, device, getattr(opened, "duplicates", ()))
        if arguments.adapt:
            budget, seed = episodes.budget_of(arguments), arguments.seed
            adapted = partial(adapt, network, budget=budget, policy=policy, seed=seed, device=device)
            found = with_adaptations(found, episode, adapted, seed)
    for warning in warnings:
        say(warning)
    about = {"backbone": network.name, "backbone_digest": network.digest, "source": episode.source}
    print_result({**about, **found.to_json(), "warnings": warnings}, render(found), arguments.json)
    return 0


def render(found) -> str:
    """What `check` found as text: a line for each question, two if it is long."""
    lines = [
        ("images", _images(found)),
        ("accuracy", _accuracy(found.estimate)),
        ("confused", _confused(found.confused)),
        ("suspects", _suspects(found.suspects)),
        ("duplicates", _duplicates(found.duplicates, found.left_out.repeated)),
        ("5 more", _gain(found.gain)),
        ("next", _next_class(found.next_class)),
    ]
    return "\n".join(_wrapped(label, text) for label, text in lines)


def _wrapped(label: str, text: str) -> str:
    indent = " " * LABEL
    # Names are made visible first: wrapping would turn a line break in one into a space.
    return textwrap.fill(visible(text), WIDTH, initial_indent=f"{label:<{LABEL}}", subsequent_indent=indent)


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


def _confused(confused) -> str:
    if confused is None:
        return "no two classes"
    return f"{' and '.join(confused.classes)} most often, by {_some(confused.images)}"


def _suspects(suspects) -> str:
    if not suspects:
        return "none"
    return _some([f"{s.name} ({_doubt(s)})" for s in suspects])


def _doubt(suspect) -> str:
    if suspect.reason == "mislabelled":
        return f"{suspect.given}, looks like {suspect.looks_like}"
    return f"unlike other images of {suspect.given}"


def _duplicates(duplicates, repeated: float) -> str:
    same = _some([f"{' = '.join(d['files'])} ({d['where']})" for d in duplicates]) or "none"
    if round(100 * repeated) == 0:
        return same
    return f"{same}; {repeated:.0%} of the images are recognised only because others nearly repeat them"


def _gain(gain) -> str:
    if gain is None:
        return "images of every class: unknown, as a class has too few to tell"
    points = (100 * x for x in (gain.gain, gain.low, gain.high))
    mid, low, high = (f"{x:+.0f}" for x in points)
    return f"images of every class: {mid} points of accuracy (95 % interval {low} to {high})"


def _next_class(wanted) -> str:
    if wanted.images == 1:
        return f"photograph {wanted.name}: it has a single image"
    what = f"photograph {wanted.name}: its {wanted.images} images are told from other classes least clearly"
    if not wanted.errors:
        return what
    verb = "looks" if wanted.errors == 1 else "look"
    return f"{what}, {wanted.errors} {verb} like another one, mostly {wanted.like}"


def _some(names) -> str:
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest
