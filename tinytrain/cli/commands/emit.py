"""``tinytrain emit``: write a C99 library that adapts on a microcontroller."""

from tinytrain.base.shell import quoted
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import add_backbone, add_json, print_result, say

DESCRIPTION = (
    "Write a C99 library that learns new classes on a microcontroller, with the network in flash and one "
    "static block of memory. The images given say how many channels of which layers are trained; on the "
    "device, the images there choose the channels. The images also go into an example program. The same "
    "adaptation in Python: tinytrain adapt --plan DIR/plan.json, to the last bit."
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
    with episodes.naming_tiers(arguments):
        return _emit(arguments)


def _emit(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.codegen.planning import emit
    from tinytrain.episode.kinds import kind_of

    plan = episodes.plan_of(arguments)
    policy = plan or episodes.policy_of(arguments)
    drawn = episodes.draw(arguments, policy)
    with ProgressLine() as progress:
        network = episodes.network_of(arguments, drawn, progress, "a microcontroller")
        episode, warnings = episodes.open_episode(arguments, network, policy, progress, drawn)
    budget = episodes.budget_of(arguments, plan)
    emitted = emit(network, episode, arguments.out, budget, policy, arguments.seed)
    say(*warnings)
    result = emitted.to_json() | {"warnings": warnings}
    print_result(result, _text(result, kind_of(network.input.kind).plural), arguments.json)
    return 0


def _text(result: dict, images: str) -> str:
    layers = ", ".join(f"{count} of {name}" for name, count in result["channels"].items())
    who = f"the {images} there choose" if result["quotas"] else "the plan names"
    chosen = f"these channels, which {who}: {layers}" if layers else "biases alone"
    each = f"{result['shots']} {images}"
    return (
        f"{result['out']}: {result['backbone']} for {result['classes']} classes of {each}\n"
        f"  RAM:   {result['arena']:,} bytes in one block\n"
        f"  flash: {result['flash']:,} bytes of weights, beside code and tables\n"
        f"  trains in {result['steps']} steps {chosen}\n"
        f"  next:  cmake -S {quoted(result['out'])} -B build && cmake --build build && build/demo"
    )
