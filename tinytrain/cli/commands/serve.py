"""``tinytrain serve``: a page in a browser for a project, on this machine or for a network."""

import sys

from tinytrain.base.extras import needed
from tinytrain.base.units import parse_bytes
from tinytrain.cli.commands.common import (
    SEVERAL,
    add_backbone,
    add_json,
    add_number,
    add_threads,
    print_result,
    readers_of,
    say,
    token_in,
)

DESCRIPTION = (
    "Open a page for a project: collect images by class, see whether they are enough, learn, watch the "
    "camera, correct. PROJECT is a folder, made if it is new: images/ with a folder of images per class, "
    "state/ with the store, reports/. Commands work in it as well: 'tinytrain adapt PROJECT/images --store "
    "PROJECT/state'. Only this machine is answered; with --host also others, who need the token shown."
)
EXAMPLES = """\
  tinytrain serve fruit/
  tinytrain serve fruit/ --host 0.0.0.0
  tinytrain serve fruit/ --host 0.0.0.0 --https --camera /dev/video0
  tinytrain serve fruit/ --camera http://camera.local/stream
"""


def add_arguments(parser) -> None:
    parser.add_argument("project", metavar="PROJECT", help="folder of the project; made if it is new")
    add_number(parser, "--port", 0, "port to listen at; 0: a free one", 8000)
    parser.add_argument(
        "--host",
        metavar="ADDR",
        default="127.0.0.1",
        help="address to listen at; 0.0.0.0: all of this machine. Who asks must then know a token, which is "
        "shown as a link and a QR code",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="keep the token in this file, made if it is new, and want it on this machine, too; otherwise it "
        "is another one at each start",
    )
    parser.add_argument(
        "--https",
        action="store_true",
        help="with a certificate of its own, of which browsers warn once: so a page from another machine may "
        "use the camera of the browser",
    )
    parser.add_argument(
        "--camera",
        metavar="CAMERA",
        help="camera of this device: rpicam, /dev/video0, http://... (MJPEG), or a folder that images come "
        "to; default: rpicam on a Raspberry Pi, otherwise that of the browser",
    )
    parser.add_argument(
        "--budget", type=parse_bytes, metavar="SIZE", help="memory for learning; default: as in adapt"
    )
    parser.add_argument(
        "--mqtt",
        metavar="URL",
        help="tell an MQTT broker as well, as in watch; the camera of this device is looked at once a second"
        " then, also without a browser",
    )
    parser.add_argument("--on-verdict", metavar="CMD", help="run this program for each verdict, as in watch")
    add_backbone(parser, SEVERAL)
    add_threads(parser)
    add_json(parser)


def run(arguments) -> int:
    with needed("starlette uvicorn h11", "web", "the page"):
        from tinytrain.serve import run as running
    from tinytrain.base.sockets import bound, is_loopback
    from tinytrain.serve.camera import of_board, source_at
    from tinytrain.serve.certificate import certificate
    from tinytrain.serve.project import Project
    from tinytrain.serve.security import Door, names_of_this_machine
    from tinytrain.serve.service import Service
    from tinytrain.serve.settings import Settings

    settings = Settings(arguments.backbone, arguments.budget, arguments.threads)
    source_at(arguments.camera)
    with bound(arguments.host, arguments.port) as listening:
        port, names = listening.getsockname()[1], names_of_this_machine()
        is_open = is_loopback(arguments.host) and arguments.token_file is None
        token = None if is_open else token_in(arguments.token_file)
        door = Door(port, token, names, arguments.https)
        addresses = ("127.0.0.1", running.own_address())
        pair = certificate(addresses, names) if arguments.https else None
        others = readers_of(arguments, lambda: service.class_names)
        service = Service(Project(arguments.project), settings, arguments.camera, others, of_board())
        server = running.server(service, door, pair)
        link = running.link(arguments.host, port, door)
        whole = arguments.token_file is None or sys.stdout.isatty()
        shown = link if whole else link.partition("?")[0]
        print_result({"link": link, "port": port, "token": token}, shown, arguments.json)
        sys.stdout.flush()
        if whole and not arguments.json:
            say("open this link in a browser; Ctrl-C ends it")
        if token is not None and not arguments.json:
            _say_token(arguments.token_file, running.qr_code(link))
        server.run(sockets=[listening])
    return 0


def _say_token(path: str | None, code: str) -> None:
    """How others get in. A log is no place for a token that is kept in a file."""
    if sys.stdout.isatty():
        say("who has this link may use the page: from phones, by the code")
        print(code, flush=True)
    elif path is not None:
        say(f"open this with ?token= and what is in {path}")
