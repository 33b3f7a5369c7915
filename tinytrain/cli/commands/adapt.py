"""``tinytrain adapt``: adapt a network to images, and write a delta and a report."""

import os

from tinytrain.backbones.load import open_backbone, remember_backbone
from tinytrain.base.errors import AdaptationRefusedError, UsageError
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import (
    BackboneOfDelta,
    add_backbone,
    add_json,
    add_threads,
    backbone_file,
    check_outputs,
    check_store,
    hold,
    open_delta,
    print_result,
    say,
    skipped_files,
)

DESCRIPTION = (
    "Adapt a network to a few labelled images per class, within a hard memory budget. The result is a delta: "
    "a small file with the changed parameters and the classifier."
)
EXAMPLES = """\
  tinytrain adapt --shots 5 --budget 1MB
  tinytrain adapt photos/ --backbone net.safetensors --out mine.safetensors
  tinytrain adapt photos/ --backbone net.safetensors --store state/
  tinytrain adapt photos/ --out mine.safetensors --force
  tinytrain adapt photos/ --shots 5 --budget 512kB --macs 30% --report mine.html
  tinytrain adapt --data gtsrb --way 5 --shots 5 --policy tinytrain_published --json
  tinytrain adapt photos/ --shots 5 --plan plan.json --out mine.safetensors
  tinytrain adapt --from mine.safetensors --add more/ --out more.safetensors
"""
# Options of `episodes` for sampling and training, which have no effect with --from.
TRAINING = ("way", "shots", "queries", "episode", "budget", "macs", "macs_mode", "policy")


def add_arguments(parser) -> None:
    episodes.add_arguments(parser)
    add_backbone(parser)
    add_threads(parser)
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
        "--force", action="store_true", help="keep an adaptation that the guard refuses as harmful"
    )
    parser.add_argument("--report", metavar="FILE", help="also write a report (.html, .json or .txt)")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="DELTA",
        help="add images to this delta instead of training; needs --add",
    )
    parser.add_argument(
        "--add", metavar="DIR", help="images to add with --from: one folder per class, old or new"
    )
    add_json(parser)


def run(arguments) -> int:
    if (arguments.source is None) != (arguments.add is None):
        raise UsageError("usage", "--from DELTA and --add DIR go together")
    render = _renderer(arguments.report)
    needed = backbone_file(arguments.backbone), episodes.searched_file(arguments), arguments.plan
    check_outputs(arguments.out, arguments.report, needed=needed)
    check_store(arguments.store, arguments.out, arguments.report)
    return _adapt(arguments, render) if arguments.source is None else _extend(arguments)


def _renderer(path: str | None):
    """The function that turns a report into the text of file `path`."""
    if path is None:
        return None
    from tinytrain.report import RENDERERS

    suffix = os.path.splitext(path)[1].lower()
    if suffix not in RENDERERS:
        raise UsageError("report-kind", f"{path!r} must end in {', '.join(RENDERERS)}")
    return RENDERERS[suffix]


def _adapt(arguments, render) -> int:
    from tinytrain.base.files import write_bytes
    from tinytrain.base.progress import ProgressLine
    from tinytrain.delta.file import save_delta
    from tinytrain.pipeline.adapt import adapt
    from tinytrain.report.text import render_text
    from tinytrain.runtime.device import Device

    plan = _plan_of(arguments)
    policy, network = plan or episodes.policy_of(arguments), open_backbone(arguments.backbone)
    remember_backbone(arguments.backbone, network)
    with ProgressLine() as progress:
        opened = episodes.open_episode(arguments, network, policy, progress)
        budget = episodes.budget_of(arguments, plan)
        device = Device(threads=arguments.threads, progress=progress)
        report = adapt(network, opened.episode, budget, policy, arguments.seed, device, arguments.force)
    report = report.with_warnings(*opened.others)
    result, kept = report.to_json(), report.guard.accepted
    if arguments.out and kept:
        save_delta(arguments.out, report.delta)
    if arguments.store and kept:
        _commit(arguments.store, report.delta)
    if arguments.report:
        write_bytes(arguments.report, render(result).encode())
    for warning in dict.fromkeys([*result["warnings"], *opened.warnings]):
        say(warning)
    print_result(result, render_text(result), arguments.json)
    if not (arguments.out or arguments.store):
        say("no delta was written; give --out FILE to keep it")
    elif not kept:
        raise _withheld(report.guard)
    return 0


def _plan_of(arguments):
    """The plan of ``--plan``, None without one. Raises UsageError, InputError."""
    from tinytrain.plan.plan import load_plan

    if arguments.plan is None:
        return None
    if arguments.policy is not None:
        raise UsageError("usage", "--plan FILE says what is trained, so --policy would mean nothing")
    return load_plan(arguments.plan)


def _withheld(guard) -> AdaptationRefusedError:
    """The error for a requested delta that was not written."""
    reason = guard.reasons[0]
    remedy = "check the suspects" if guard.suspects else "check the images and the backbone"
    if reason.code != "not-finite":
        remedy += ", or keep the adaptation with --force"
    return AdaptationRefusedError(
        reason.code, f"{reason.text}; the old weights are kept and no delta was written; {remedy}"
    )


def _commit(folder: str, delta) -> None:
    from tinytrain.store import Store

    generation = Store(folder).commit(delta)
    say(f"generation {generation} is on trial; keep it with 'tinytrain confirm --store {folder}'")


def _extend(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import folder_dataset
    from tinytrain.delta.file import save_delta
    from tinytrain.pipeline.add_classes import add_classes

    taken = (arguments.folder, arguments.data, arguments.plan, arguments.report, arguments.store)
    if arguments.out is None or arguments.force or any(given is not None for given in taken):
        raise UsageError(
            "usage",
            "--from DELTA --add DIR needs --out FILE and takes no images, --plan, --report, --store or"
            " --force",
        )
    threads = [] if arguments.threads is None else ["--threads"]
    if ignored := episodes.given(arguments, TRAINING) + threads:
        text = f"trains nothing and takes one image at a time, so {', '.join(ignored)} would have no effect"
        raise UsageError("usage", f"--from DELTA {text}")
    delta = open_delta(arguments.source)
    network = BackboneOfDelta(arguments.backbone).of(delta, arguments.out)
    dataset = folder_dataset(arguments.add, arguments.flip)
    with ProgressLine() as progress:
        images, broken = hold(dataset.images(dataset.by_class), network.input.shape, progress)
    warnings = [*skipped_files(dataset), *(f"skipped {reason}" for reason in broken.values())]
    for line in warnings:
        say(line)
    extended = add_classes(network, delta, images, dataset.class_names, arguments.seed, dataset.may_flip)
    save_delta(arguments.out, extended)
    added = extended.report["extended"][-1]
    known = [name for name in added if name in delta.class_names]
    new = [name for name in added if name not in delta.class_names]
    result = {
        "out": arguments.out,
        "classes": list(extended.class_names),
        "added": added,
        "new_classes": new,
        "warnings": warnings,
    }
    lines = [f"{name}: {added[name]} images more" for name in known]
    lines += [f"{name}: new class with {added[name]} images" for name in new]
    text = "\n".join([*lines, f"{len(extended.class_names)} classes in {arguments.out}"])
    print_result(result, text, arguments.json)
    return 0
