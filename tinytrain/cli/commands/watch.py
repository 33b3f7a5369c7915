"""``tinytrain watch``: verdicts for images as they come, and corrections that are learnt at once."""

import os
import sys
import time
from functools import partial

from tinytrain.backbones.load import backbone_option
from tinytrain.base.console import at_least, confidence
from tinytrain.base.errors import InputError, UsageError, visible
from tinytrain.base.units import parse_seconds
from tinytrain.cli.commands.common import (
    DELTA_HELP,
    BackboneOfDelta,
    add_backbone_of_delta,
    add_verbosity,
    check_outputs,
    delta_in_use,
    open_delta,
    readers_of,
    say,
)
from tinytrain.cli.commands.terminal import Keyboard, Printer
from tinytrain.stream.events import CUSUM, IMAGES
from tinytrain.stream.verdicts import NONE

STDIN = "-"
SLICE = 0.2  # seconds between two looks for words that come over a network
DESCRIPTION = (
    "Predict the class of each image as it comes, and learn from corrections at once. With a store, what is "
    "learnt is kept: each correction is appended to a journal, which survives power cuts. In a terminal, a "
    "line corrects the last image: the name or number of its class, +NAME for a new class, an empty line if "
    "the verdict is right; u takes the last label back, ? shows the classes, q ends. A second label of an "
    "image replaces the first."
)
EXAMPLES = """\
  tinytrain watch mine.safetensors camera/ --store state/
  tinytrain watch state/ camera/ --labels corrections.csv --json
  tinytrain watch state/ photos/ --once
  tinytrain watch state/ --command 'rpicam-still -n -t 1 -o -' --every 10
  tinytrain watch state/ --command 'ffmpeg -f v4l2 -i /dev/video0 -f mjpeg -'
  tinytrain watch state/ camera/ --mqtt mqtt://homeassistant.local
  tinytrain watch state/ camera/ --on-verdict 'sh notify.sh' --metrics /run/tinytrain/watch.prom
  tinytrain watch state/ --microphone --background quiet.wav
  tinytrain watch state/ --rows /dev/ttyUSB0
  find . -name '*.jpg' | tinytrain watch mine.safetensors -
"""


def add_arguments(parser) -> None:
    parser.add_argument(
        "delta", metavar="DELTA", help=f"{DELTA_HELP}; watching with a store counts as a start"
    )
    parser.add_argument(
        "source",
        metavar="IMAGES",
        nargs="?",
        help="folder that a camera writes to, or - for names of files on standard input; for texts - means"
        " that each line of it is one",
    )
    parser.add_argument(
        "--command",
        metavar="CMD",
        help="instead of IMAGES: a shell command that writes an image to standard output and is run again and"
        " again, or one that goes on writing JPEG, PNG, PPM, WebP or BMP images",
    )
    parser.add_argument(
        "--microphone",
        metavar="DEVICE",
        nargs="?",
        const="default",
        help="instead of IMAGES: listen, by arecord to the ALSA device of that name, to a WAV file, or with "
        "- to raw samples of 16 bits on standard input; what is said between pauses is looked at",
    )
    parser.add_argument(
        "--background",
        metavar="PATH",
        help="a WAV file, or a folder of them, without any of the words: --microphone finds by it how sure "
        "it must be to make no more mistakes than --per-hour allows, and says how many it makes; the longer "
        "the better, and best not what was learnt",
    )
    parser.add_argument(
        "--per-hour",
        type=at_least(0),
        metavar="N",
        help="mistakes that are allowed in an hour of --background; default: 1",
    )
    parser.add_argument(
        "--rows",
        metavar="SOURCE",
        help="instead of IMAGES: rows of numbers as of an accelerometer, from a serial device, a CSV file"
        " that grows, or with - from standard input",
    )
    parser.add_argument(
        "--seconds",
        type=parse_seconds,
        metavar="S",
        help="of the rows that are looked at together; default: 4, or more if those are fewer than 64 rows",
    )
    parser.add_argument(
        "--store",
        metavar="DIR",
        help="keep what is learnt in this store; if it is new, it begins with DELTA, otherwise its delta is"
        " used",
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="corrections, a line 'image,class' each, the class as it would be typed, +NAME if it is new;"
        " each is learnt once, however the file is saved",
    )
    parser.add_argument(
        "--every",
        type=parse_seconds,
        metavar="S",
        help="seconds between two looks at a folder, or images of --command (default: 1), of --microphone "
        "(0.24) or of --rows (half of --seconds)",
    )
    parser.add_argument("--once", action="store_true", help="end when all images have been looked at")
    parser.add_argument(
        "--new", action="store_true", help="pass over the images that are in the folder already"
    )
    parser.add_argument(
        "--keep",
        type=at_least(0),
        default=200,
        metavar="N",
        help="corrected images that are kept in the store, for the network to be adapted to; 32 MB at most",
    )
    parser.add_argument(
        "--drift",
        choices=(IMAGES, CUSUM),
        default=IMAGES,
        help="what a change is looked for in: the images (default), or, by CUSUM, the errors that corrections"
        " show; for that, confirm right verdicts as well",
    )
    parser.add_argument(
        "--readapt",
        choices=("ask", "auto", "never"),
        default="ask",
        help="after a drift, or 32 corrections: print the command that adapts the network to the kept images,"
        " or do so while no image waits, and go back if it is worse; after a drift of --drift cusum, the head"
        " is fitted to the images since",
    )
    parser.add_argument(
        "-0", "--null", action="store_true", help="names or texts on standard input end with NUL"
    )
    parser.add_argument(
        "--reject",
        type=confidence,
        metavar="P",
        help=f"answer {NONE!r} also below this confidence, such as 60%%",
    )
    parser.add_argument(
        "--mqtt",
        metavar="URL",
        help="publish verdicts at this broker, where Home Assistant finds them, and take corrections from"
        " there: mqtt://host[:port][/topic], or mqtts:// for TLS; user and password are in the URL, or better"
        " in TINYTRAIN_MQTT_USER and TINYTRAIN_MQTT_PASSWORD",
    )
    parser.add_argument(
        "--on-verdict",
        metavar="CMD",
        help="run this program for each verdict, which is in its input as JSON and in variables such as"
        " TINYTRAIN_CLASS; one at a time, and without a shell: for one write sh -c '...'",
    )
    parser.add_argument(
        "--metrics",
        metavar="FILE",
        help="write counts to this file every 15 seconds, in the text form of Prometheus; its collector wants"
        " a name that ends in .prom",
    )
    add_backbone_of_delta(parser)
    add_verbosity(parser, "how long each correction took")
    parser.add_argument("--json", action="store_true", help="print a JSON object a line instead of text")


def run(arguments) -> int:
    _check(arguments)
    keyboard = None
    taken = STDIN in (arguments.source, arguments.microphone, arguments.rows)
    if not taken and sys.stdin is not None and sys.stdin.isatty():
        keyboard = Keyboard()
    session = opened(arguments)

    def said() -> list:
        return [*(keyboard.lines() if keyboard else ()), *session.tell.words()]

    if keyboard is not None:
        session.help()
    with session.tell as readers:
        frames = _frames(arguments, partial(_wait, keyboard, readers), session.watcher)
        try:
            for frame in frames:
                if frame is not None:
                    session.look_at(frame)
                session.correct(said())
                if session.over:
                    break
                if frame is None:
                    session.idle()
            session.correct(said(), ended=True)
            session.finish()
        finally:
            session.end()
    return InputError.exit_code if session.counts["failed"] else 0


def _check(arguments) -> None:
    given = (arguments.source, arguments.command, arguments.microphone, arguments.rows)
    if given.count(None) != 3:
        text = "give one of the four: IMAGES, --command CMD, --microphone, --rows; see tinytrain watch --help"
        raise UsageError("usage", text)
    for name, needed in (("seconds", "rows"), ("background", "microphone"), ("per_hour", "background")):
        if getattr(arguments, name) is not None and getattr(arguments, needed) is None:
            raise UsageError("usage", f"--{name.replace('_', '-')} has no effect without --{needed}")
    stream = arguments.rows not in (None, STDIN)
    if stream and (os.path.isdir(arguments.rows) or not os.access(arguments.rows, os.R_OK)):
        text = f"{visible(arguments.rows)} is no device or file that can be read; check its name and rights"
        raise InputError("file-missing", text)
    if arguments.null and arguments.source != STDIN:
        raise UsageError("usage", "--null has no effect without - as IMAGES")
    folder = arguments.source not in (None, STDIN)
    if arguments.new and not folder:
        raise UsageError("usage", "--new has no effect without a folder as IMAGES")
    if folder and not os.path.isdir(arguments.source):
        raise InputError(
            "file-missing", f"{arguments.source} is no folder; give the one that the images come to"
        )
    if arguments.store is not None and os.path.isdir(arguments.delta):
        raise UsageError("usage", f"{arguments.delta} is a store itself, so leave out --store")


def opened(arguments):
    """The session that the command prints. Raises InputError or StorageError."""
    from tinytrain.store import Store
    from tinytrain.stream.readers import Readers
    from tinytrain.stream.session import Session, Settings
    from tinytrain.stream.watcher import Watcher

    path = arguments.delta if os.path.isdir(arguments.delta) else arguments.store
    others = readers_of(arguments, lambda: watcher.class_names)
    if arguments.metrics is not None:
        from tinytrain.stream.metrics import MetricsFile

        check_outputs(arguments.metrics, needed=(arguments.delta, arguments.labels))
        others.append(MetricsFile(arguments.metrics, path))
    backbone = BackboneOfDelta(arguments.backbone)
    store = start = None
    if path is None:
        delta = open_delta(arguments.delta)
        say("nothing that is learnt will be kept; give --store DIR to keep it")
    else:
        store = Store(path)
        if path == arguments.store:
            _begin(store, arguments, backbone)
        start = store.start(backbone.is_here)
        delta = delta_in_use(path, start)
        if start.torn:
            say(f"{path}: the last correction was cut short, and is not learnt")
    watcher = Watcher(backbone.of(delta), delta, store, start, arguments.keep)
    how = {name: getattr(arguments, name) for name in ("reject", "labels", "drift", "readapt")}
    network = arguments.backbone or backbone_option(delta)  # otherwise `adapt` would take the usual one
    settings = Settings(folder=arguments.source or "", backbone=network, **how)
    return Session(watcher, Readers(Printer(arguments, watcher.kind), others), settings)


def _begin(store, arguments, backbone) -> None:
    """Put the delta file into its store, confirmed, if the store is new."""
    delta = open_delta(arguments.delta)
    if os.path.isdir(arguments.store) and store.peek().delta is not None:
        say(
            f"{arguments.store} has a delta already, which is used, not {arguments.delta}; to use that, run "
            f"'tinytrain apply {arguments.delta} --store {arguments.store}' first"
        )
        return
    backbone.of(delta)
    store.commit_file(arguments.delta)
    store.confirm()


def _heard(arguments, wait, watcher):
    """Frames of the words in a stream of sound, with a line that says how often they are mistakes."""
    from tinytrain.stream import listening, microphone

    head = watcher.learner.delta.head
    if head.limit is None:
        text = f"--microphone needs a head with a limit, such as lda; {head.method.name} has none"
        raise UsageError("unsupported", text)
    how = watcher.predictor.input, watcher.logits, watcher.score, arguments.every or listening.HOP
    ear, least = listening.Ear(*how), head.limit.least
    if arguments.background is None:
        say("give --background PATH, a recording without any of the words, to know how many are mistakes")
    else:
        blocks = microphone.folder_samples(arguments.background, ear.rate)
        per_hour = 1 if arguments.per_hour is None else arguments.per_hour
        least, rate = listening.threshold_for(listening.Ear(*how), blocks, least, per_hour)
        say(f"mistakes: {rate.words()} of background")
    sound = microphone.sound_of(arguments.microphone, ear.rate, wait)
    return microphone.frames(sound, ear, listening.Trigger(least, ear.rest))


def _frames(arguments, wait, watcher):
    from tinytrain.episode.kinds import KINDS
    from tinytrain.network.input_spec import IMAGE
    from tinytrain.stream.camera import frames
    from tinytrain.stream.sources import FolderSource, named_on

    kind, every = watcher.kind, arguments.every or 1.0
    for name, given in (("command", IMAGE), ("microphone", "sound"), ("rows", "motion")):
        if getattr(arguments, name) is not None and kind.name != given:
            text = f"--{name} gives {KINDS[given].plural}, and the network takes {kind.plural}"
            raise UsageError("unsupported", f"{text}; give a folder or names")
    if arguments.microphone is not None:
        return _heard(arguments, wait, watcher)
    if arguments.rows is not None:
        from tinytrain.stream import rows

        found = rows.arriving(arguments.rows, arguments.once, wait)
        return rows.frames(found, watcher.predictor.input, arguments.seconds, arguments.every)
    if arguments.command is not None:
        return frames(arguments.command, every, wait, arguments.once)
    if arguments.source == STDIN:
        return named_on(0, b"\0" if arguments.null else b"\n", kind.name == "text")
    store = arguments.store or arguments.delta
    source = FolderSource(arguments.source, kind, every, arguments.once, wait, store)
    if arguments.new:
        source.skip_present()
    return source


def _wait(keyboard, readers, duration: float) -> None:
    """Wait for a typed line, or words of readers that listen, at most `duration` seconds."""
    end, wait = time.monotonic() + duration, keyboard.wait if keyboard else time.sleep
    step = SLICE if readers.listen else duration
    while (left := end - time.monotonic()) > 0 and not readers.has_words and not wait(min(step, left)):
        pass
