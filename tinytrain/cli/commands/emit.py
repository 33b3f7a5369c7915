"""``tinytrain emit``: write a C99 library that adapts on a microcontroller."""

import os
from dataclasses import replace

from tinytrain.backbones.load import open_backbone
from tinytrain.base.errors import UsageError
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import add_backbone, add_json, print_result, say
from tinytrain.cli.commands.tiers import naming_tiers

DESCRIPTION = (
    "Write a C99 library that learns new classes on a microcontroller, with the network in flash and one "
    "static block of memory. The images given say how many channels of which layers are trained; on the "
    "device, the images there choose the channels. The images also go into an example program. The same "
    "adaptation in Python: tinytrain adapt --plan DIR/plan.json, with TINYTRAIN_PORTABLE=1 to the last bit."
)
EXAMPLES = """\
  tinytrain emit photos/ --shots 5 --budget 400kB -o firmware/
  tinytrain emit --way 2 --shots 5 --backbone mcunet-5fps --budget 256kB --precision int8 -o firmware/
  tinytrain emit photos/ --shots 5 --plan plan.json -o firmware/ --json
"""


def add_arguments(parser) -> None:
    episodes.add_arguments(parser)
    add_backbone(parser)
    parser.add_argument("--target", choices=("c",), default="c", help="language; default: c")
    parser.add_argument(
        "--plan", metavar="FILE", help="obey a plan of an earlier 'tinytrain emit' instead of making one"
    )
    parser.add_argument("-o", "--out", metavar="DIR", required=True, help="folder to write")
    add_json(parser)


def run(arguments) -> int:
    with naming_tiers(arguments):
        return _emit(arguments)


def _emit(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.codegen.device import device_of
    from tinytrain.codegen.draws import draws_of
    from tinytrain.codegen.folder import EXAMPLES, c_examples, files_of, write_folder
    from tinytrain.plan.plan import save_plan

    if os.path.exists(arguments.out) and not os.path.isdir(arguments.out):
        raise UsageError("usage", f"{arguments.out} is no folder; name another with -o")
    network = open_backbone(arguments.backbone)
    policy = episodes.plan_of(arguments) or episodes.policy_of(arguments)
    with ProgressLine() as progress:
        opened = episodes.open_episode(arguments, network, policy, progress)
    plan = _plan(arguments, network, opened.episode, policy)
    device = device_of(network, plan)
    draws = draws_of(device, arguments.seed, opened.episode.may_flip)
    files = files_of(device, draws, opened.episode.class_names)
    files[EXAMPLES] = c_examples(device, opened.episode)
    write_folder(arguments.out, files)
    save_plan(os.path.join(arguments.out, "plan.json"), plan)
    for warning in opened.warnings:
        say(warning)
    result = {**_facts(network, plan, device), "out": arguments.out, "files": sorted([*files, "plan.json"])}
    print_result(result, _text(result), arguments.json)
    return 0


def _plan(arguments, network, episode, policy):
    """The plan with quotas for these images, or the one that was given."""
    from tinytrain.codegen.device import device_of
    from tinytrain.plan.plan import Plan

    if isinstance(policy, Plan):
        policy.check(network, _task(episode), episodes.budget_of(arguments, policy))
        return _for_one_core(policy, network, policy.recipe.options.quotas)
    budget, measured = episodes.budget_of(arguments), {}

    def made(memory: int) -> Plan:
        planner = _planner(network, episode, policy, replace(budget, memory=memory))
        return _for_one_core(planner.plan(_scores(arguments, network, episode, planner, measured)), network)

    plan = made(budget.memory)
    # A device does not need all bytes that a Python process does.
    wider = made(budget.memory + plan.cost.arena - device_of(network, plan).arena)
    chosen = wider if device_of(network, wider).arena <= budget.memory else plan
    return _for_one_core(replace(chosen, task=_task(episode)), network)


def _planner(network, episode, policy, budget):
    """A planner without queries: they take bytes in a Python process; a device answers them one by one."""
    from tinytrain.plan.budget import TaskShape
    from tinytrain.planner.planner import Planner

    return Planner(network, TaskShape(len(episode.support), episode.n_way), policy, budget)


def _scores(arguments, network, episode, planner, measured: dict):
    """Fisher scores as `planner` needs them; those of the same layers are in `measured` from then on."""
    from tinytrain.runtime.device import Device

    probe = planner.probe()
    key = probe and (planner.precision, probe.inspected)
    if key not in measured:
        with Device().open(network, episode, arguments.seed) as run:
            measured[key] = run.measure_fisher(probe)
    return measured[key]


def _for_one_core(plan, network, quotas: bool = True):
    from tinytrain.codegen.device import for_one_core
    from tinytrain.planner.candidates import Programs

    return for_one_core(plan, network, Programs(network, plan.task, plan.recipe.precision), quotas)


def _task(episode):
    from tinytrain.plan.budget import TaskShape

    return TaskShape.of(episode)


def _facts(network, plan, device) -> dict:
    from tinytrain.codegen.tables import flash_bytes

    quotas = {network.all_layers[u.layer].name: len(u.channels) for u in plan.recipe.updates if u.channels}
    return {
        "backbone": network.name,
        "policy": plan.policy,
        "classes": device.ways,
        "shots": device.shots,
        "arena": device.arena,
        "flash": flash_bytes(device),
        "steps": plan.recipe.n_steps,
        "channels": quotas,
        "quotas": bool(plan.recipe.measured),
    }


def _text(result: dict) -> str:
    layers = ", ".join(f"{count} of {name}" for name, count in result["channels"].items())
    who = "the images there choose" if result["quotas"] else "the plan names"
    chosen = f"these channels, which {who}: {layers}" if layers else "biases alone"
    return (
        f"{result['out']}: {result['backbone']} for {result['classes']} classes of {result['shots']} images\n"
        f"  RAM:   {result['arena']:,} bytes in one block\n"
        f"  flash: {result['flash']:,} bytes of weights, beside code and tables\n"
        f"  trains in {result['steps']} steps {chosen}\n"
        f"  next:  cmake -S {result['out']} -B build && cmake --build build && build/demo"
    )
