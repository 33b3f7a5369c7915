"""The page of `tinytrain serve` in a browser, with a server that says what a test wants; and photographs.

Chromium is driven by Playwright, from the extra `browser`. Where nothing listens, `shown` answers each
request of the page, so a test can show what a real server says seldom: a drift, a refusal, or silence.
"""

import io
import json
import shutil
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from PIL import Image, ImageDraw

import tinytrain
from tinytrain.datasets.generated.leaves import leaves
from tinytrain.serve.security import HEADERS

PAGE = Path(tinytrain.__file__).parent / "serve" / "page"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AT = "http://localhost:1"  # browsers lend their camera to this name; nothing listens there
ELSEWHERE = "http://pi.test:1"  # and not to this one
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
FAKE_CAMERA = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")
SPECIES = {"clover": 10, "fern": 23, "ginkgo": 5, "maple": 8, "oak": 16}  # classes of the domain "leaves"
COLOURS = {"cup": "#7a9e9f", "phone": "#4f6367", "key": "#b8a06a", "something else": "#a0a0a8"}


@contextmanager
def chromium(*flags: str):
    """A browser with a fake camera."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *FAKE_CAMERA, *flags])
        yield browser
        browser.close()


def camera_file(path: Path, images, repeats: int = 6) -> Path:
    """A film of uint8 `images` for the camera of a browser, thirty a second, each of them `repeats` times.

    Chromium reads it whenever a page turns its camera on.
    """
    path.write_bytes(b"".join(as_jpeg(image) * repeats for image in images))
    return path


def as_jpeg(image) -> bytes:
    """A uint8 image as a file of 320 x 240 pixels."""
    file = io.BytesIO()
    Image.fromarray(image).resize((320, 240), Image.Resampling.BICUBIC).save(file, "JPEG", quality=95)
    return file.getvalue()


def photographs(name: str, count: int = 24, size=(96, 128)) -> list[np.ndarray]:
    """Of leaves of one of SPECIES, uint8 of `size` rows and columns."""
    domain = leaves()
    return [domain.read(int(i), size) for i in domain.by_class[SPECIES[name]][:count]]


def fill(at: str, name: str, images) -> None:
    """Makes a class of a real server with these images."""
    post(f"{at}api/classes", json.dumps({"name": name}).encode())
    for image in images:
        post(f"{at}api/classes/{name}/images", as_jpeg(image))


def post(address: str, body: bytes = b"") -> None:
    request = urllib.request.Request(address, body, {"Content-Type": "application/octet-stream"})
    urllib.request.urlopen(request).close()


def a_file(name: str, kind: str) -> dict:
    """What somebody chooses in a browser; `kind` is what that takes it for."""
    return {"name": name, "mimeType": kind, "buffer": b"x"}


def drawn(key: str, side: int = 96) -> bytes:
    """A JPEG for the id `key`, such as "cup-3": a shape on the colour of its class."""
    name, _, number = key.rpartition("-")
    picture = Image.new("RGB", (side, side), COLOURS.get(name, "#8888aa"))
    move = int(number) % 9 * 2 if number.isdigit() else 0
    draw = {"cup": "ellipse", "phone": "rectangle", "key": "rounded_rectangle"}.get(name, "ellipse")
    getattr(ImageDraw.Draw(picture), draw)((20 + move, 24, 60 + move, 78), fill="#f3ead9", outline="#333")
    file = io.BytesIO()
    picture.save(file, "JPEG")
    return file.getvalue()


def empty() -> dict:
    """The status of a project without images."""
    live = {"running": False, "history": [], "drift": None, "text": None}
    return {
        "project": "my-things",
        "version": tinytrain.__version__,
        "kind": "image",
        "accept": "image/*",
        "clip": None,
        "classes": [],
        "undo": None,
        "check": {"state": "none"},
        "learn": {"state": "idle", "progress": None},
        "delta": None,
        "trial": False,
        "live": live,
        "camera": {"source": "none", "state": "off", "text": ""},
        "take": [],
    }


def collected(names=("cup", "phone", "key", "something else"), count=20) -> dict:
    """The status of a project with images that are checked."""
    images = {name: [f"{name}-{k}" for k in range(count, 0, -1)] for name in names}
    classes = [{"name": name, "count": count, "images": ids} for name, ids in images.items()]
    suspect = {"id": f"{names[0]}-3", "given": names[0], "looks_like": names[1], "reason": "mislabelled"}
    result = {
        "classes": list(names),
        "shots": [count] * len(names),
        "estimate": {"accuracy": 0.83, "low": 0.71, "high": 0.92, "why": None},
        "confused": {"classes": [names[0], names[1]], "images": []},
        "suspects": [suspect],
        "five_more": {"images": 5, "gain": 0.06, "low": 0.01, "high": 0.11},
        "next_class": {"name": names[1], "images": count, "errors": 4, "like": names[0]},
    }
    clear = {"images": count, "errors": 0, "like": None}
    others = [{"name": name} | clear for name in names if name != names[1]]
    check = {"state": "ready", "result": result | {"by_class": [result["next_class"], *others]}}
    return empty() | {"classes": classes, "undo": "deleted a picture", "check": check}


def learning() -> dict:
    progress = {"stage": "training", "done": 31, "total": 50, "loss": 0.4}
    return collected() | {"learn": {"state": "running", "progress": progress}}


def learnt(names=("cup", "phone", "key", "something else"), count=20, **answer) -> dict:
    """The status of a project with a delta on trial, and some verdicts."""
    figures = {"as_it_was": 0.55, "new_head": 0.78, "adapted": 0.93}
    found = {key: {"accuracy": x, "low": x - 0.14, "high": min(0.99, x + 0.1)} for key, x in figures.items()}
    found |= {
        "accepted": True,
        "expected": {"accuracy": 0.9, "low": 0.8, "high": 0.95, "n": 80, "method": "cross-validation"},
        "lines": ["accuracy    93% named rightly, 5% left open, 2% wrong of 40 held-out images"] * 8,
        "kept": "adapted",
        "refused_why": None,
        "report_url": "/api/reports/1.html",
    }
    told = [names[k % len(names)] for k in range(9)]
    rows = [verdict(f"{name}-{k + 1}", name, names) for k, name in enumerate(told)]
    rows[2] |= {"class": None, "verdict": "unknown"}
    rows[4] |= {"corrected": names[0]}
    delta = {"classes": list(names), "sha256": "0" * 64, "bytes": 210_000, "images": count * len(names)}
    kinds = {
        "delta": "predict my-things/state",
        "onnx": "export my-things/state -o mine.onnx",
        "tflite": "export my-things/state -o mine.tflite",
        "c": "emit my-things/state -o c/",
        "images": "check my-things",
    }
    return collected(names, count) | {
        "learn": {"state": "done", "progress": None, "answer": found | answer},
        "delta": delta,
        "trial": True,
        "live": {"running": True, "history": rows, "drift": None},
        "take": [{"what": what, "line": f"tinytrain {line}"} for what, line in kinds.items()],
    }


def verdict(key: str, name: str, names, **more) -> dict:
    scores = dict.fromkeys(names, 0.02) | {name: 1 - 0.02 * (len(names) - 1)}
    facts = {"id": key, "class": name, "best_guess": name, "confidence": scores[name], "verdict": "known"}
    return facts | {"drift": "stable", "scores": scores, "corrected": None} | more


def until(page, holds) -> None:
    """Waits for what becomes true in the browser or its server."""
    for _ in range(300):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it has not come true")


class Told:
    """The server of one page: `status` is what it says, `answers` what it answers to "METHOD /path".

    `asked` collects the requests that change something, with their bodies, but no images to be recognised.
    `refused` is what the browser itself would not do, such as a script of another place.
    """

    def __init__(self, status: dict):
        self.status, self.events, self.answers = status, [], {}
        self.asked: list[tuple[str, str]] = []
        self.refused: list[str] = []

    def serve(self, route) -> None:
        request, path = route.request, "/" + route.request.url.split("/", 3)[3].partition("?")[0]
        if (key := f"{request.method} {path}") in self.answers:
            code, facts = self.answers[key]
            return route.fulfill(status=code, content_type="application/json", body=json.dumps(facts))
        if path == "/api/events":
            told = [("status", self.status), *self.events]
            body = "".join(f"event: {name}\ndata: {json.dumps(facts)}\n\n" for name, facts in told)
            return route.fulfill(content_type="text/event-stream", body=f"retry: 300\n{body}")
        if path.startswith(("/api/images/", "/api/seen/")) and request.method == "GET":
            return route.fulfill(content_type="image/jpeg", body=drawn(unquote(path.split("/")[3])))
        if path == "/api/learn" and request.method == "GET":
            return route.fulfill(json={"seconds": 12.0, "bytes": 1_000_000})
        if not path.startswith("/api/"):
            file = PAGE / ("page.html" if path == "/" else path[1:])
            return route.fulfill(content_type=KINDS[file.suffix], body=file.read_bytes(), headers=HEADERS)
        if request.method != "GET":
            if path == "/api/predict":
                names = self.status["delta"]["classes"]
                return route.fulfill(json=verdict(f"{names[0]}-3", names[0], names))
            body = request.post_data if "json" in request.headers.get("content-type", "json") else None
            self.asked.append((key, body))
            return route.fulfill(json={"id": "new-1", "kept": True, "why": None})
        return route.fulfill(status=404, json={"code": "file-missing", "text": "there is no such thing"})


@contextmanager
def shown(browser, status: dict, view: str = "collect", at: str = AT, **context):
    """A page that shows `view` of `status`, and its server; `context`: width, colours, language."""
    told = Told(status)
    camera = ["camera"] if at == AT else []
    context = browser.new_context(**{"locale": "en-GB", "permissions": camera} | context)
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.on("console", lambda message: told.refused.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: told.refused.append(str(error)))
    page.route(f"{at}/**", told.serve)
    page.goto(f"{at}/#{view}")
    page.locator("#project", has_text=status["project"]).wait_for()
    yield page, told
    context.close()
