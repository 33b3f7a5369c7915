"""``tinytrain federate``: rounds in which several devices learn together over a network."""

import socket
from pathlib import Path

from tinytrain.backbones.load import remember_backbone
from tinytrain.base.errors import UsageError
from tinytrain.base.extras import needed
from tinytrain.base.sockets import is_loopback
from tinytrain.base.units import parse_bytes, parse_seconds
from tinytrain.cli.commands.common import (
    add_action,
    add_backbone,
    add_json,
    add_number,
    add_threads,
    add_verbosity,
    check_outputs,
    print_result,
    say,
    token_in,
)
from tinytrain.cli.commands.merge import add_robust, merged_text
from tinytrain.federate import HEADS, STRATEGIES

SERVER = (
    "Ask clients for what they learn, and write one delta of it. Without --layers there is one round, of "
    "heads whose sums add exactly. With --layers K there come K rounds before it, in which clients train the "
    "layers of a plan, and a strategy of Flower puts them together. DIR keeps every answer: a server that "
    "was stopped goes on with the same command. No image leaves a client."
)
CLIENT = (
    "Take part in the rounds of a server with the images of DIR, a folder per class, and write the delta of "
    "all clients. Flower is not needed here."
)
DESCRIPTION = f"server: {SERVER}\nclient: {CLIENT}"
SERVER_EXAMPLES = """\
  tinytrain federate server rounds/ --clients 5 -o house.safetensors
  tinytrain federate server rounds/ --clients 5 --least 3 --deadline 600 -o house.safetensors
  tinytrain federate server rounds/ --clients 5 --layers 3 --plan plan.json -o house.safetensors
  tinytrain federate server rounds/ --clients 5 --host 0.0.0.0 --token-file token -o house.safetensors
"""
CLIENT_EXAMPLES = """\
  tinytrain federate client http://127.0.0.1:8765 kitchen/ --name kitchen -o house.safetensors
  tinytrain federate client http://pi.local:8765 kitchen/ --token-file token -o house.safetensors
"""
EXAMPLES = SERVER_EXAMPLES + CLIENT_EXAMPLES


def add_arguments(parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="server|client", required=True)
    server = add_action(actions, "server", "ask clients for one delta", SERVER_EXAMPLES, description=SERVER)
    server.add_argument("state", metavar="DIR", help="folder that keeps the rounds; made if it is new")
    add_number(server, "--clients", 2, "clients that are expected", 2)
    add_number(server, "--least", 2, "answers that a round needs; default: those of all clients")
    text = "how long a round waits for clients that do not answer; default: 3600"
    server.add_argument("--deadline", type=parse_seconds, default=3600.0, metavar="SECONDS", help=text)
    add_number(server, "--layers", 0, "rounds of trained layers before the one of heads", 0, metavar="K")
    server.add_argument("--plan", metavar="FILE", help="what is trained, by 'tinytrain plan --out'")
    add_number(server, "--steps", 1, "of training in each round; default: those of the plan")
    text = "how layers are put together: average by images; or, where one client of five may be wrong, "
    text += "median, trimmed mean, krum (those of one client); default: average"
    server.add_argument("--strategy", choices=STRATEGIES, default="average", help=text)
    server.add_argument("--head", choices=HEADS, default="lda", help="default: lda")
    server.add_argument("--check", metavar="DIR", help="images to try the result on, as in merge")
    add_robust(server)
    signed = "file of public keys, with one of which every client must sign what it sends"
    server.add_argument("--signed-by", metavar="KEYS", help=signed)
    text = "address to listen at; 0.0.0.0: all of this machine, which needs --token-file"
    server.add_argument("--host", metavar="ADDR", default="127.0.0.1", help=text)
    add_number(server, "--port", 0, "port to listen at; 0: a free one", 8765)
    client = add_action(actions, "client", "take part with own images", CLIENT_EXAMPLES, description=CLIENT)
    client.add_argument("server", metavar="URL", help="address of the server")
    client.add_argument("folder", metavar="DIR", help="folder that contains one folder of images per class")
    client.add_argument("--name", metavar="NAME", help="of this client; default: that of the machine")
    text = "private key to sign what is sent, by 'tinytrain sign --new-key'"
    client.add_argument("--key", metavar="KEY", help=text)
    client.add_argument("--budget", type=parse_bytes, metavar="SIZE", help="memory; default: as in adapt")
    add_number(client, "--seed", 0, "seed of all random choices", 0)
    text = "how long a server that does not answer is tried; default: 60"
    client.add_argument("--patience", type=parse_seconds, default=60.0, metavar="SECONDS", help=text)
    add_threads(client)
    for each in (server, client):
        each.add_argument("-o", "--out", metavar="FILE", required=True, help="delta file to write")
        each.add_argument("--token-file", metavar="FILE", help="a secret that server and clients share")
        add_backbone(each)
        add_verbosity(each, "every class, client and conflict")
        add_json(each)


def run(arguments) -> None:
    (_server if arguments.action == "server" else _client)(arguments)


def _server(arguments) -> None:
    if bool(arguments.layers) != bool(arguments.plan):
        raise UsageError("usage", f"--layers {arguments.layers} given; with it goes --plan, and only with it")
    if not arguments.layers and (arguments.steps or arguments.strategy != STRATEGIES[0]):
        raise UsageError("usage", "--steps and --strategy are of rounds of layers; give --layers, or neither")
    clients = arguments.clients
    least = arguments.least or clients
    if least > clients:
        raise UsageError("usage", f"--least {least} answers never come from {clients} clients; give less")
    if arguments.token_file is None and not is_loopback(arguments.host):
        raise UsageError("usage", f"{arguments.host} is open to others; give --token-file, as to clients")
    with needed("flwr", "federated", "a server"):
        from tinytrain.federate import grid, rounds, server
    from tinytrain.api.merge import merge
    from tinytrain.api.opening import open_network
    from tinytrain.base.progress import ProgressLine
    from tinytrain.delta.file import encode_delta, save_delta
    from tinytrain.federate.task import recipe_of
    from tinytrain.network.committee import alone
    from tinytrain.plan.plan import load_plan
    from tinytrain.trust.keys import public_keys

    check_outputs(arguments.out, needed=(arguments.plan,))
    network = open_network(arguments.backbone)
    remember_backbone(arguments.backbone, network)
    token, recipe = _token(arguments), None
    known = None if arguments.signed_by is None else public_keys(arguments.signed_by)
    if arguments.plan:
        recipe = recipe_of(load_plan(arguments.plan), alone(network, "--layers"), arguments.steps)
    of_layers = arguments.layers, recipe, arguments.strategy
    asked = rounds.Rounds(network, arguments.head, *of_layers, least, arguments.deadline)
    with ProgressLine() as progress:
        told = (lambda *facts: progress(*facts, None)), say
        places = grid.HttpGrid(Path(arguments.state), clients, asked.content_of, *told)
        places.keys = known
        with grid.listening(places, arguments.host, arguments.port, token) as address:
            say(f"listening at {address}")
            deltas, names, ran = server.run(asked, places)
            options = {"names": names, "progress": progress, "robust": arguments.robust}
            found = merge(deltas, arguments.check, network=network, **options)
            save_delta(arguments.out, found.delta)
            server.finish(places, encode_delta(found.delta), names)
    result = {"out": arguments.out, "rounds": [row._asdict() for row in ran], **found.to_json()}
    say(*found.warnings)
    sent = (f"{row.bytes_in:,} bytes in, {row.bytes_out:,} out" for row in ran)
    came = (f"{row.name}: {len(row.answered)} of {clients} answered" for row in ran)
    lines = map(", ".join, zip(came, sent, strict=True))
    text = merged_text(result, deltas[0], arguments.verbose)
    print_result(result, "\n".join([*lines, text]), arguments.json)


def _token(arguments, make: bool = True) -> str | None:
    return None if arguments.token_file is None else token_in(arguments.token_file, make)


def _client(arguments) -> None:
    from tinytrain.api.opening import open_task
    from tinytrain.base.files import write_bytes
    from tinytrain.base.safetensors import decode
    from tinytrain.delta.file import decode_delta
    from tinytrain.federate.client import Server, take_part
    from tinytrain.federate.task import check_name
    from tinytrain.federate.work import Client
    from tinytrain.runtime.device import Device
    from tinytrain.trust.keys import private_key

    check_outputs(arguments.out)
    name = socket.gethostname() if arguments.name is None else arguments.name
    check_name(name)
    key = None if arguments.key is None else private_key(arguments.key)
    device = Device(threads=arguments.threads)
    task = arguments.backbone, arguments.folder, arguments.budget, "none", arguments.seed, device
    episode, planner = open_task(*task)
    remember_backbone(arguments.backbone, planner.network)
    client = Client(planner.network, episode, planner.budget, device, arguments.seed)
    token = _token(arguments, make=False)
    server = Server(arguments.server.rstrip("/"), name, token, patience=arguments.patience, key=key)
    data = take_part(client, server, say)
    delta = decode_delta(*decode(data, arguments.server), arguments.server)
    delta.check_backbone(client.network)
    write_bytes(arguments.out, data)
    result = {"out": arguments.out, "classes": list(delta.class_names), "bytes": len(data)}
    text = f"{arguments.out}: {len(data):,} bytes, {len(delta.class_names)} classes of all clients"
    print_result(result, text, arguments.json)
