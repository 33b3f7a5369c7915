"""The HTTP interface: addresses, and what answers there. See docs/browser.md."""

import asyncio
import contextlib
import json
import time
from importlib.resources import files

from anyio import to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tinytrain.base.errors import TinytrainError
from tinytrain.serve import take
from tinytrain.serve.camera import as_jpeg, shown
from tinytrain.serve.security import RefusedError, refused
from tinytrain.serve.service import Service

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/words.js": ("words.js", "text/javascript; charset=utf-8"),
}
TYPES = {
    ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".jfif": "image/jpeg", ".png": "image/png",
    ".webp": "image/webp", ".gif": "image/gif", ".avif": "image/avif", ".bmp": "image/bmp",
    ".wav": "audio/wav", ".wave": "audio/wav", ".flac": "audio/flac",
}  # fmt: skip
BYTES = "application/octet-stream"
REPORT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
MOST_JSON = 10_000  # bytes
THREADS = 8  # that answer
FRAME_SECONDS = 0.03  # between two looks for a new frame
SEND_AGAIN = 0.5  # seconds after which the last frame is sent again


def application(service: Service) -> Starlette:
    """What answers for `service`; to be put behind `security.Guarded`."""
    asked = Asked(service)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        service.begin()
        yield
        await run_in_threadpool(service.end)

    routes = [Route(path, asked.page, methods=["GET"]) for path in PAGE]
    routes += [Route(path, getattr(asked, name), methods=[method]) for method, path, name in ROUTES]
    handlers = {
        RefusedError: lambda _, error: answer(error),
        TinytrainError: lambda _, error: answer(refused(error, service.project.kind)),
        HTTPException: lambda _, error: answer(_of_http(error)),
        Exception: lambda _, error: answer(RefusedError(500, "internal", "something is wrong in the server")),
    }
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


ROUTES = [
    ("GET", "/api/status", "status"),
    ("GET", "/api/events", "events"),
    ("POST", "/api/classes", "add_class"),
    ("PATCH", "/api/classes/{name}", "rename_class"),
    ("DELETE", "/api/classes/{name}", "delete_class"),
    ("POST", "/api/classes/{name}/images", "add_image"),
    ("GET", "/api/images/{id}", "image"),
    ("GET", "/api/images/{id}/thumb", "small_image"),
    ("PATCH", "/api/images/{id}", "move_image"),
    ("DELETE", "/api/images/{id}", "delete_image"),
    ("POST", "/api/undo", "undo"),
    ("GET", "/api/learn", "expected"),
    ("POST", "/api/learn", "learn"),
    ("DELETE", "/api/learn", "cancel"),
    ("POST", "/api/predict", "predict"),
    ("GET", "/api/seen/{id}", "seen"),
    ("GET", "/api/seen/{id}/thumb", "small_seen"),
    ("POST", "/api/correct", "correct"),
    ("POST", "/api/correct/undo", "undo_correction"),
    ("POST", "/api/keep", "keep"),
    ("POST", "/api/back", "back"),
    ("GET", "/api/camera.jpg", "frame"),
    ("GET", "/api/camera.mjpeg", "film"),
    ("POST", "/api/camera", "use_camera"),
    ("GET", "/api/reports/{name}", "report"),
    ("GET", "/api/take/{what}", "take"),
    ("GET", "/metrics", "metrics"),
]


class Asked:
    """A method for each address. What takes long is done in threads, so that others are answered."""

    def __init__(self, service: Service):
        self.service, self.project, self.live = service, service.project, service.live
        folder = files("tinytrain.serve") / "page"
        self._page = {path: (folder / name).read_bytes() for path, (name, _) in PAGE.items()}

    async def page(self, request) -> Response:
        path = request.url.path
        return Response(self._page[path], headers={"cache-control": "no-cache"}, media_type=PAGE[path][1])

    async def status(self, request) -> Response:
        return JSONResponse(await run_in_threadpool(self.service.status))

    async def events(self, request) -> Response:
        hub = self.service.hub
        if hub.is_full:
            raise RefusedError(503, "busy", "too many browsers listen; close one")
        return StreamingResponse(hub.listen(self.service.status), media_type="text/event-stream")

    async def add_class(self, request) -> Response:
        given = await _json(request, "name")
        return await self._changed(self.project.add_class, given["name"], status=201)

    async def rename_class(self, request) -> Response:
        given = await _json(request, "name")
        rename = self.service.rename
        return JSONResponse(await run_in_threadpool(rename, request.path_params["name"], given["name"]))

    async def delete_class(self, request) -> Response:
        return await self._changed(self.project.delete_class, request.path_params["name"])

    async def add_image(self, request) -> Response:
        data, recording = await self._image(request), request.query_params.get("recording") == "1"
        found = await run_in_threadpool(self.project.add, request.path_params["name"], data, recording)
        if found["kept"]:
            await run_in_threadpool(self.service.changed)
        return JSONResponse(found, 201 if found["kept"] else 200)

    async def image(self, request) -> Response:
        found = await run_in_threadpool(self.project.find, request.path_params["id"])
        data = await run_in_threadpool(found.path.read_bytes)
        return Response(data, media_type=TYPES.get(found.path.suffix.lower(), BYTES))

    async def small_image(self, request) -> Response:
        found = await run_in_threadpool(self.project.find, request.path_params["id"])
        return await self._small(found.path, {"cache-control": "private, max-age=86400"})

    async def move_image(self, request) -> Response:
        given = await _json(request, "class")
        return await self._changed(self.project.move, request.path_params["id"], given["class"])

    async def delete_image(self, request) -> Response:
        return await self._changed(self.project.delete, request.path_params["id"])

    async def undo(self, request) -> Response:
        return JSONResponse(await run_in_threadpool(self.service.undo))

    async def expected(self, request) -> Response:
        return JSONResponse(await run_in_threadpool(self.service.expected))

    async def learn(self, request) -> Response:
        given = await _json(request)
        await run_in_threadpool(self.service.learn, given.get("budget"), given.get("macs"))
        return JSONResponse(self.service.work.learn, 202)

    async def cancel(self, request) -> Response:
        self.service.cancel()
        return JSONResponse(self.service.work.learn, 202)

    async def predict(self, request) -> Response:
        return JSONResponse(await run_in_threadpool(self.live.predict, await self._image(request)))

    async def seen(self, request) -> Response:
        data = self.live.history.find(request.path_params["id"]).data
        return Response(data, media_type=TYPES.get(self.project.kind.suffix(data), BYTES))

    async def small_seen(self, request) -> Response:
        return await self._small(self.live.history.find(request.path_params["id"]).data)

    async def correct(self, request) -> Response:
        given = await _json(request, "id", "class")
        learnt = await run_in_threadpool(
            self.live.correct, given["id"], given["class"], given.get("new") is True
        )
        await run_in_threadpool(self.service.changed)
        return JSONResponse(learnt)

    async def undo_correction(self, request) -> Response:
        taken = await run_in_threadpool(self.live.undo)
        if taken is None:
            raise RefusedError(409, "file-missing", "there is no correction to take back")
        await run_in_threadpool(self.service.changed)
        return JSONResponse(taken)

    async def keep(self, request) -> Response:
        return await self._judged(self.live.keep)

    async def back(self, request) -> Response:
        return await self._judged(self.live.back)

    async def frame(self, request) -> Response:
        data = await run_in_threadpool(lambda: shown(self.service.camera.frame()))
        return Response(data, media_type="image/jpeg")

    async def film(self, request) -> Response:
        return StreamingResponse(self._film(), media_type="multipart/x-mixed-replace; boundary=frame")

    async def _film(self):
        last, sent = None, 0.0
        while self.service.hub.is_open:
            # Chromium shows an image when the next one begins: the last one is sent again.
            is_due = time.monotonic() - sent > SEND_AGAIN
            if (newest := self.service.camera.newest) is not None and (newest is not last or is_due):
                last, sent = newest, time.monotonic()
                with contextlib.suppress(TinytrainError):  # a frame that is no image is passed over
                    data = await run_in_threadpool(shown, newest[1])
                    yield b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(data)
                    yield data + b"\r\n"
            await asyncio.sleep(FRAME_SECONDS)

    async def use_camera(self, request) -> Response:
        given = await _json(request, "source")
        address = given.get("address")
        if not isinstance(address, str | None):
            raise RefusedError(400, "bad-value", "the address of a camera is a text")
        return JSONResponse(await run_in_threadpool(self.service.use_camera, given["source"], address))

    async def take(self, request) -> Response:
        what, project = request.path_params["what"], self.project
        if what not in take.NAMES:
            raise RefusedError(404, "file-missing", f"give one of {', '.join(take.NAMES)}")
        headers = {"content-disposition": f'attachment; filename="{take.NAMES[what]}"'}
        if what == "images":
            pieces = await run_in_threadpool(take.images, project)
            return StreamingResponse(pieces, headers=headers, media_type="application/zip")
        make = (take.firmware, self.service.settings) if what == "c" else (take.exported, what)
        data = await run_in_threadpool(make[0], project, make[1])
        return Response(data, headers=headers, media_type=BYTES)

    async def metrics(self, request) -> Response:
        text = await run_in_threadpool(self.service.metrics)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def report(self, request) -> Response:
        for path in self.project.reports.glob("*.html"):
            if path.name == request.path_params["name"]:
                data = await run_in_threadpool(path.read_bytes)
                return Response(data, headers={"content-security-policy": REPORT}, media_type="text/html")
        raise RefusedError(404, "file-missing", "there is no such report")

    async def _changed(self, change, *arguments, status: int = 200) -> Response:
        await run_in_threadpool(change, *arguments)
        return JSONResponse(await run_in_threadpool(self.service.changed), status)

    async def _judged(self, change) -> Response:
        await run_in_threadpool(change)
        return JSONResponse(await run_in_threadpool(self.service.refreshed))

    async def _small(self, source, headers: dict | None = None) -> Response:
        data = await run_in_threadpool(lambda: as_jpeg(self.project.small(source)))
        return Response(data, headers=headers, media_type="image/jpeg")

    async def _image(self, request) -> bytes:
        """The image file that was sent; without one the newest frame of the camera of the device."""
        return await request.body() or self.service.camera.frame()


def answer(error: RefusedError) -> Response:
    return JSONResponse({"code": error.code, "text": error.text}, error.status)


def _of_http(error: HTTPException) -> RefusedError:
    texts = {404: "there is nothing at this address", 405: "this address does not take that method"}
    code = {404: "file-missing"}.get(error.status_code, "usage")
    return RefusedError(error.status_code, code, texts.get(error.status_code, "the request has no meaning"))


async def _json(request, *texts: str) -> dict:
    """The JSON object of a request, in which these `texts` must be; {} for an empty body."""
    body = await request.body()
    try:
        given = json.loads(body or b"{}") if len(body) <= MOST_JSON else None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or not all(isinstance(given.get(name), str) for name in texts):
        with_texts = f" with {' and '.join(texts)}" if texts else ""
        raise RefusedError(400, "bad-value", f"send a JSON object{with_texts}")
    return given
