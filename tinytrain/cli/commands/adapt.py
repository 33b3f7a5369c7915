"""``tinytrain adapt``: adapt a network to images, and write a delta and a report."""

import os
from argparse import BooleanOptionalAction
from functools import partial

from tinytrain.backbones.catalogue import AUTO
from tinytrain.backbones.load import remember_backbone
from tinytrain.base.errors import AdaptationRefusedError, UsageError
from tinytrain.cli.commands import episodes, going_on
from tinytrain.cli.commands.common import (
    SEVERAL,
    BackboneOfDelta,
    add_backbone,
    add_json,
    add_threads,
    add_verbosity,
    backbone_files,
    check_outputs,
    check_store,
    open_delta,
    print_result,
    say,
    say_what_goes,
    text_width,
)
from tinytrain.cli.commands.hints import extended, free_name, positional, predict_words, without

DESCRIPTION = (
    "Adapt a network to a few labelled images per class, within a hard memory budget. The result is a delta: "
    "a small file with the changed parameters and the classifier. With images of one class alone, --head "
    "oselm-ae learns what is normal: 'tinytrain predict' then says of an image whether it is."
)
EXAMPLES = """\
  tinytrain adapt --shots 5 --budget 1MB
  tinytrain adapt photos/ --backbone net.safetensors --out mine.safetensors
  tinytrain adapt photos/ --backbone net.safetensors --store state/
  tinytrain adapt photos/ --backbone small+medium --out mine.safetensors
  tinytrain adapt photos/ --backbone auto --out mine.safetensors
  tinytrain adapt photos/ --out mine.safetensors --force
  tinytrain adapt photos/ --shots 5 --budget 512kB --macs 30% --report mine.html
  tinytrain adapt --data gtsrb --way 5 --shots 5 --policy tinytrain_published --json
  tinytrain adapt photos/ --seconds 2 --out mine.safetensors
  tinytrain adapt photos/ --shots 5 --plan plan.json --out mine.safetensors
  tinytrain adapt normal/ --head oselm-ae --out normal.safetensors
  tinytrain adapt photos/ --replay 5 --out mine.safetensors
  tinytrain adapt --from mine.safetensors more/ --out more.safetensors
  tinytrain adapt --from mine.safetensors --add more/ --out more.safetensors
  tinytrain adapt photos/ --start all.safetensors --out mine.safetensors
"""


def add_arguments(parser) -> None:
    episodes.add_arguments(parser)
    add_backbone(parser, f"{SEVERAL}; auto: what is here of small, medium and large and suits the images")
    add_threads(parser)
    episodes.add_seconds(parser)
    parser.add_argument(
        "--plan", metavar="FILE",
        help="do exactly what this file of 'tinytrain plan --out' says; nothing is measured first, and the "
        "budget is by default that of the plan",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="delta file to write; without --out or --store none is kept"
    )
    parser.add_argument("--store", metavar="DIR", help="put the delta on trial in this store")
    parser.add_argument(
        "--force", action="store_true", help="keep what was trained, also if it did harm or is refused"
    )
    parser.add_argument(
        "--train",
        action=BooleanOptionalAction,
        help="train, or fit a new head alone; default: train unless the images show that it would not help",
    )
    parser.add_argument("--report", metavar="FILE", help="also write a report (.html, .json or .txt)")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="DELTA",
        help="go on from this delta with images of DIR, one folder per class, old or new; it must have been "
        "made with --replay, and what it remembers stands for the old images. Without DIR: adapt again to "
        "what it remembers, as after 'tinytrain forget'",
    )
    parser.add_argument(
        "--start",
        metavar="DELTA",
        help="begin at the layers that this delta has trained, such as a merged one, in place of those of "
        "the network; of its classes nothing is kept",
    )
    parser.add_argument(
        "--add", metavar="DIR", help="only add these images to the classifier of --from, and train nothing"
    )
    add_verbosity(parser, "all details: layers, memory, MACs, seconds, every suspect and skipped file")
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.base.files import write_bytes
    from tinytrain.base.progress import ProgressLine
    from tinytrain.episode.input_facts import file_lines
    from tinytrain.episode.kinds import kind_of

    going_on.check_arguments(arguments)
    render = _renderer(arguments.report)
    needed = *backbone_files(arguments.backbone), episodes.searched_file(arguments), arguments.plan
    check_outputs(arguments.out, arguments.report, needed=needed)
    check_store(arguments.store, arguments.out, arguments.report)
    if arguments.add is not None:
        return going_on.extend(arguments)
    plan, source = episodes.plan_of(arguments), going_on.Source.of(arguments)
    place = source.place if source else None
    if arguments.store and place is None:
        from tinytrain.store import Store

        Store(arguments.store).check_unsigned()
    with episodes.naming_tiers(arguments), ProgressLine() as progress:
        if source:
            report, planner = source.adapted(arguments, episodes.budget_of(arguments), progress), None
        else:
            report, planner = _adapted(arguments, plan or episodes.policy_of(arguments), progress)
    result, kept = report.to_json(arguments.words), report.guard.accepted
    words = kind_of(report.network.input.kind).words
    written = _write(arguments, report, kept, place)
    if arguments.report:
        write_bytes(arguments.report, render(result, report.thumbnails()).encode())
    if arguments.json:
        warnings = map(words, result["warnings"] + file_lines(report.episode))
        _notices(arguments, [*warnings], written, kept)
    if arguments.verbose and planner and not plan:
        planner = planner.of(report.plan.task, report.plan.budget)
        result = {**result, "advice": planner.advice(report.scores)}
    print_result(result, _text(arguments, result, written), arguments.json)
    if not kept:
        raise _withheld(report.guard, words)


def _renderer(path: str | None):
    """The function that turns a report into the text of file `path`."""
    if path is None:
        return None
    from tinytrain.report import RENDERERS

    suffix = os.path.splitext(path)[1].lower()
    if suffix not in RENDERERS:
        raise UsageError("usage", f"{path!r} must end in {', '.join(RENDERERS)}")
    return RENDERERS[suffix]


def _adapted(arguments, policy, progress):
    """The report of an adaptation to what the options say, and its planner."""
    from tinytrain.api.adapt import adapt
    from tinytrain.api.opening import chosen_network
    from tinytrain.delta.rebase import begun
    from tinytrain.runtime.device import Device

    drawn = episodes.draw(arguments, policy)
    device = Device(threads=arguments.threads, progress=progress)
    if arguments.backbone == AUTO:
        limits = partial(episodes.budget_of, arguments, policy if arguments.plan else None)
        chosen = chosen_network(drawn, arguments.budget, limits, policy, arguments.seed, device)
        arguments.backbone, drawn = chosen
        say(f"--backbone auto is {arguments.backbone}")
    if start := arguments.start and open_delta(arguments.start):
        network = BackboneOfDelta(arguments.backbone).of(start, arguments.out)
        planner = episodes.planner_of(arguments, begun(network, start), policy, drawn)
    else:
        network = episodes.network_of(arguments, drawn, progress)
        remember_backbone(arguments.backbone, network)
        planner = episodes.planner_of(arguments, network, policy, drawn)
    options = {"force": arguments.force, "train": arguments.train, "start": start}
    report = adapt(network, drawn, None, planner, arguments.seed, device, **options)
    return report.with_warnings(*episodes.warnings(arguments, policy, report.episode)), planner


def _write(arguments, report, kept: bool, place_before):
    """Write what is asked for of a `kept` adaptation, and say where it is and what to do next.

    A store takes it only if it still is at `place_before`, unless that is None.
    """
    from tinytrain.delta.file import save_delta
    from tinytrain.report.conclusion import Written

    if not kept:
        return Written(report=arguments.report, then=_after_refusal(arguments, report.guard))
    nbytes = generation = None
    if arguments.out:
        save_delta(arguments.out, report.delta)
        nbytes = os.path.getsize(arguments.out)
    if arguments.store:
        from tinytrain.store import Store

        if place_before is None:  # otherwise the new delta knows what the one in use has learnt
            say_what_goes(arguments.store, over=True)
        generation = Store(arguments.store).commit(report.delta, place_before)
    place = arguments.out or arguments.store
    then = (
        predict_words(place, arguments.backbone, report.delta)
        if place
        else _again(arguments, "--out", free_name(arguments))
    )
    return Written(arguments.out, nbytes, arguments.store, generation, arguments.report, then)


def _after_refusal(arguments, guard) -> tuple[str, ...]:
    """Folders can be looked at. Other images cannot be changed, so all that is left is to insist."""
    if arguments.folder and arguments.source is None:
        backbone = () if arguments.backbone is None else ("--backbone", arguments.backbone)
        return ("tinytrain", "check", positional(arguments.folder), *backbone)
    if any(reason.code == "not-finite" for reason in guard.reasons):
        return ()
    place = () if arguments.out or arguments.store else ("--out", free_name(arguments))
    return _again(arguments, "--force", *place)


def _again(arguments, *more: str) -> tuple[str, ...]:
    """The command as it was given, with `more` words."""
    return extended(without(arguments.words, flags=("--verbose", "--quiet", "--json")), *more)


def _text(arguments, result: dict, written) -> str:
    from tinytrain.report.conclusion import conclude
    from tinytrain.report.text import render_text

    if arguments.verbose:
        return render_text(result, written, text_width())
    return "\n".join(conclude(result, written, text_width()))


def _notices(arguments, warnings: list[str], written, kept: bool) -> None:
    """What a text would say and the JSON object has no place for, or no reader yet."""
    say(*warnings)
    if written.store:
        say(
            f"generation {written.generation} is on trial; keep it with 'tinytrain confirm --store "
            f"{written.store}'"
        )
    if kept and not (arguments.out or arguments.store):
        say("no delta was written; give --out FILE to keep it")


def _withheld(guard, words) -> AdaptationRefusedError:
    """The error for an adaptation that was not kept, whether or not a delta was asked for."""
    reason = min(guard.reasons, key=lambda reason: reason.code == "diverged")  # by itself it refuses nothing
    remedy = "check the suspects" if guard.suspects else "check the images and the backbone"
    if reason.code != "not-finite":
        remedy += ", or keep the adaptation with --force"
    text = f"{reason.text}; the old weights are kept and no delta was written; {remedy}"
    return AdaptationRefusedError(reason.code, words(text))
