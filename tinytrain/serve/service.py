"""Everything that a page can ask for, without HTTP: the project, its live delta, its camera and its work."""

import contextlib
import threading
import time
from collections.abc import Sequence

from tinytrain import __version__
from tinytrain.backbones.load import open_backbone, remember_backbone
from tinytrain.base.errors import InputError, TinytrainError
from tinytrain.base.events import Event, Note
from tinytrain.episode.kinds import IMAGES, KINDS
from tinytrain.serve import take
from tinytrain.serve.camera import DEVICE, MJPEG, Camera, of_device, source_at
from tinytrain.serve.hub import Hub
from tinytrain.serve.live import Live
from tinytrain.serve.project import Project
from tinytrain.serve.security import RefusedError
from tinytrain.serve.settings import Settings
from tinytrain.serve.work import Work
from tinytrain.stream.metrics import Counts, exposition, of_machine
from tinytrain.stream.readers import Reader, Readers

SHOWN = 200  # images of a class
EVERY, SLICE = 1.0, 0.2  # seconds between two looks at the camera, and at what readers say, without a browser


class Service:
    """The state that all browsers share; `hub` tells them what happens.

    `camera` is the one that was asked for, `usual` the one that is used otherwise, if the project has images.
    """

    def __init__(
        self,
        project: Project,
        settings: Settings,
        camera: str | None = None,
        others: Sequence[Reader] = (),
        usual: str | None = None,
    ):
        self.project, self.settings, self.hub = project, settings, Hub()
        self.counts, self._over = Counts(), threading.Event()
        self._readers = Readers(self._noted, [self.counts, *others])
        self._watching = threading.Thread(target=self._watch, daemon=True) if others else None
        network = None
        if settings.one_backbone is not None:
            network = open_backbone(settings.one_backbone)
            remember_backbone(settings.one_backbone, network)  # commands find it, too
        if camera is not None and project.known_kind is None:
            project.expect(IMAGES)
        self.live = Live(project, self.hub.tell, network, self._readers)
        if (kind := project.kind) is not IMAGES:
            if camera is not None:
                text = f"the page has {kind.plural}, and a camera gives images; leave --camera out"
                raise InputError("camera-failed", text)
            usual = None
        self._given, camera = camera, camera or usual
        self.camera = Camera(camera, lambda facts: self.hub.tell("camera", facts))
        self.work = Work(project, self.live, self.hub.tell, settings)
        self.work.look, self.work.learnt = self._look, self.refreshed
        self._stamp = project.images_stamp()

    def begin(self) -> None:
        self.hub.begin()
        self._readers.__enter__()
        self.work.begin()
        if self._watching:
            self._watching.start()

    def end(self) -> None:
        self.hub.end()
        self._over.set()
        self.camera.end()
        self.work.end()
        if self._watching:
            self._watching.join()
        self._readers.__exit__(None, None, None)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those of the delta in use."""
        return self.live.watcher.class_names if self.live.watcher else ()

    def status(self) -> dict:
        return {
            "project": self.project.name,
            "version": __version__,
            **self._input(),
            "classes": self.classes(),
            "undo": self.project.undo_text,
            "check": self.work.check,
            "learn": self.work.learn,
            **self.live.facts(),
            "camera": self.camera.facts(),
            "take": take.lines(self.project, self.settings),
        }

    def _input(self) -> dict:
        """What the project has, which files a page offers for it, and how long a clip is, in seconds."""
        known = self.project.known_kind
        kinds = [known] if known else [one for one in KINDS.values() if not one.aside]
        files = [",".join(["image/*"] if one is IMAGES else one.suffixes) for one in kinds]
        clip = self.settings.clip_seconds() if known is KINDS["sound"] else None
        return {"kind": (known or IMAGES).name, "accept": ",".join(files), "clip": clip}

    def classes(self) -> list[dict]:
        found = self.project.classes().items()
        return [
            {"name": name, "count": len(images), "images": [image.id for image in images[:SHOWN]]}
            for name, images in found
        ]

    def changed(self) -> dict:
        """The images are other ones: tell so, and check them; what "classes" says."""
        self._stamp = self.project.images_stamp()
        if self.camera.address is not None and self.project.kind is not IMAGES:
            self.camera.use(None)  # the first file was none
        facts = {"classes": self.classes(), "undo": self.project.undo_text, **self._input()}
        self.hub.tell("classes", facts)
        self.work.changed()
        return facts

    def refreshed(self) -> dict:
        """The delta is another one: tell everything, and return it."""
        status = self.status()
        self.hub.tell("status", status)
        return status

    def rename(self, name: str, new: str) -> dict:
        renamed = self.project.rename_class(name, new)
        try:
            self.live.rename(*renamed)
        except TinytrainError:
            self.project.undo()  # a delta may know a class that the project has no more
            raise
        return self.changed()

    def undo(self) -> dict:
        step = self.project.undo()
        if step.renamed:
            self.live.rename(step.renamed[1], step.renamed[0])
        return {**self.changed(), "undone": step.text}

    def learn(self, memory=None, macs=None) -> None:
        budget = self.settings.budget(memory, macs)
        if not self.work.ask({"budget": budget}):
            raise RefusedError(409, "busy", "the network is learning already; wait, or cancel it")

    def expected(self) -> dict:
        """What learning will take."""
        from tinytrain.serve.outlook import expected

        return expected(
            self.project, self.settings, self.settings.budget(), self.work.network, self.work.seconds_of_mac
        )

    def use_camera(self, source: str, address: str | None) -> dict:
        """Another camera: of folders only the one that the server was started with."""
        if source != "none" and (kind := self.project.kind) is not IMAGES:
            raise InputError("camera-failed", f"the page has {kind.plural}, and a camera gives images")
        given = self._given if self._given and source_at(self._given) == source else None
        if source == DEVICE:
            given = given or of_device()
        elif source == MJPEG:
            given = address or given
        if source != "none" and (given is None or source_at(given) != source):
            text = "this device has no such camera; plug one in, or start the server with --camera"
            raise InputError("camera-failed", text)
        self.camera.use(given)
        self.hub.tell("camera", self.camera.facts())
        return self.camera.facts()

    def cancel(self) -> None:
        if not self.work.cancel():
            raise RefusedError(409, "busy", "nothing is being learnt")

    def metrics(self) -> str:
        """What was counted, in the text form of Prometheus."""
        return exposition([*self.counts.samples(), *of_machine(self.project.state)])

    def _noted(self, event: Event) -> None:
        if isinstance(event, Note):
            self.hub.tell("note", {"text": event.words()})

    def _watch(self) -> None:
        """For readers beside the browsers: look at what the camera shows, and do what they say."""
        last, due = None, 0.0
        while not self._over.wait(SLICE):
            for about in self._readers.words():
                self.live.said(about)
                self.changed()
            newest = self.camera.newest
            if newest is not None and newest is not last and time.monotonic() >= due:
                last, due = newest, time.monotonic() + EVERY
                with contextlib.suppress(TinytrainError):  # heard already, or nothing is learnt yet
                    self.live.predict(newest[1])

    def _look(self) -> None:
        """Go on with what others have changed in the folder, and do what waits."""
        self.live.idle()
        if self.project.state_stamp() != self.live.stamp:
            self.live.open()
            self.refreshed()
        if self.project.images.is_dir() and self.project.images_stamp() != self._stamp:
            self.changed()
