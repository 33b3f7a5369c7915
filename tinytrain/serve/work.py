"""What takes long: one thread that checks the images after each change, and learns from them when asked."""

import threading
import time
import traceback
from collections.abc import Callable
from datetime import datetime

from tinytrain.base.errors import CancelledError, TinytrainError
from tinytrain.base.events import Cancellable, Event, Progress
from tinytrain.base.files import write_bytes
from tinytrain.base.progress import told, told_compiling
from tinytrain.kernels.compile_cache.watch import WATCH
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.serve.live import Live
from tinytrain.serve.project import Project
from tinytrain.serve.settings import Settings

PAUSE = 1.0  # seconds without a change, before images are checked
LOOK = 2.0  # seconds between two looks for what others have changed
TOLD = 0.2  # seconds between two events of progress
IDLE, CHECK, LEARN = "", "check", "learn"


class Work:
    """Checks and learns, one at a time, in a thread of its own; `look` is called now and then, and `learnt`
    when something was.

    `check` and `learn` are JSON values: see docs/browser.md. What is learnt is put into the store of `live`.
    """

    def __init__(self, project: Project, live: Live, tell: Callable[[str, dict], object], settings: Settings):
        self.project, self.live, self.tell, self._settings = project, live, tell, settings
        self.check: dict = {"state": "none"}
        self.learn: dict = {"state": "idle", "progress": None}
        self.look: Callable[[], object] = lambda: None
        self.learnt: Callable[[], object] = lambda: None
        self.network: Network | Committee | None = None  # that of the last check
        self.seconds_of_mac: float | None = None  # as it was measured then
        self._due: float | None = None  # when images are to be checked
        self._asked: dict | None = None  # how to learn
        self._over, self._doing, self._told = False, IDLE, 0.0
        self._wake, self._events = threading.Condition(), Cancellable(self._heard)
        self._thread = threading.Thread(target=self._run, name="serve work", daemon=True)

    def begin(self) -> None:
        self.changed()
        self._thread.start()

    def end(self) -> None:
        with self._wake:
            self._over = True
            self._events.cancelled.set()
            self._wake.notify()
        self._thread.join(10)

    def changed(self) -> None:
        """The images are other ones: check them soon."""
        with self._wake:
            self._due = time.monotonic() + PAUSE
            self._say_check(self._with_last("waiting"))
            if self._doing == CHECK:
                self._events.cancelled.set()
            self._wake.notify()

    def ask(self, how: dict) -> bool:
        """Learn from all images, `how` has the budget. False if that goes on already."""
        with self._wake:
            if self._is_learning:
                return False
            self._asked = how
            self._say_learn("running")
            if self._doing == CHECK:
                self._due = time.monotonic()  # again, when this is over
                self._events.cancelled.set()
            self._wake.notify()
        return True

    def cancel(self) -> bool:
        """Learn no further: the delta in use stays. False if nothing is learnt."""
        with self._wake:
            if not self._is_learning:
                return False
            if self._doing == LEARN:
                self._events.cancelled.set()
            else:
                self._asked = None
                self._say_learn("cancelled")
        return True

    @property
    def _is_learning(self) -> bool:
        return self._asked is not None or self._doing == LEARN

    def _run(self) -> None:
        while True:
            with self._wake:
                now, how = time.monotonic(), None
                if self._asked is None and (self._due is None or self._due > now) and not self._over:
                    self._wake.wait(LOOK if self._due is None else min(LOOK, self._due - now))
                if self._over:
                    return
                self._events.cancelled.clear()
                self._doing = IDLE
                if self._asked is not None:
                    self._doing, how, self._asked = LEARN, self._asked, None
                elif self._due is not None and self._due <= time.monotonic():
                    self._doing, self._due = CHECK, None
                doing = self._doing
            try:
                if doing == LEARN:
                    self._learn(how)
                elif doing == CHECK:
                    self._check()
                else:
                    self.look()
            except Exception:
                traceback.print_exc()
            with self._wake:
                self._doing = IDLE

    def _heard(self, event: Event) -> None:
        """Tell browsers of progress, not too often."""
        if self._doing != LEARN or not isinstance(event, Progress):
            return
        if time.monotonic() - self._told > TOLD or event.done == event.total:
            self._told = time.monotonic()
            progress = {key: value for key, value in event.facts().items() if key != "event"}
            self.learn = {"state": "running", "progress": progress}
            self.tell("progress", progress)

    def _device(self):
        from tinytrain.runtime.device import Device

        return Device(threads=self._settings.threads, progress=told(self._events))

    def _with_last(self, state: str) -> dict:
        """Another state of the check, with what was found before, if anything was."""
        return self.check | {"state": state} if "result" in self.check else {"state": state}

    def _say_check(self, facts: dict) -> None:
        self.check = facts
        self.tell("check", facts)

    def _say_learn(self, state: str, **more) -> None:
        facts, is_running = {"state": state, "progress": None, **more}, state == "running"
        with self._wake:
            self._doing, self.learn = self._doing if is_running else IDLE, facts
        self.tell("progress" if is_running else "learned", facts)

    def _check(self) -> None:
        from tinytrain.serve.outlook import outlook

        self._say_check(self._with_last("running"))
        try:
            with WATCH.told(told_compiling(self._events)):
                found, self.network, self.seconds_of_mac = outlook(
                    self.project, self._settings, self._device()
                )
        except CancelledError:
            self._say_check(self._with_last("waiting"))
        except TinytrainError as error:
            self._say_check({"state": "none", "text": self.project.kind.words(error.message)})
        except Exception:
            self._say_check({"state": "none", "text": "the check failed; the log of the server says more"})
            raise
        else:
            self._say_check({"state": "ready", "result": found})

    def _learn(self, how: dict) -> None:
        self.live.learning(True)
        try:
            with WATCH.told(told_compiling(self._events)):
                answer = self._adapted(how)
        except CancelledError:
            self._say_learn("cancelled")
        except TinytrainError as error:
            text = self.project.kind.words(error.message)
            self._say_learn("failed", error={"code": error.code, "text": text})
        except Exception:
            text = "learning failed; the log of the server says more"
            self._say_learn("failed", error={"code": "internal", "text": text})
            raise
        else:
            self._say_learn("done", answer=answer)
            self.learnt()
        finally:
            self.live.learning(False)

    def _adapted(self, how: dict) -> dict:
        from tinytrain.api.adapt import adapt
        from tinytrain.report.conclusion import conclude
        from tinytrain.report.html import render_html

        settings, project = self._settings, self.project
        report = adapt(settings.backbone, project.images, how["budget"], device=self._device())
        facts = report.to_json(settings.adapt_words(project))
        name = f"{datetime.now():%Y-%m-%d-%H%M%S}.html"
        page = render_html(facts, report.thumbnails()).encode()
        with self._wake:  # cancelled until here, or not
            if self._events.cancelled.is_set():
                raise CancelledError("interrupted", "cancelled before it was done")
            write_bytes(project.reports / name, page)
            if report.guard.accepted:
                self.live.commit(report.delta)
        return answer_of(facts, conclude(facts), name)


def answer_of(facts: dict, lines: list[str], report: str) -> dict:
    """What a page says of an adaptation, from the JSON values of its report."""
    accuracy, guard = facts["accuracy"], facts["guard"]
    reasons = "; ".join(reason["text"] for reason in guard["reasons"])
    figures = {"as_it_was": "before_cosine", "new_head": "before", "adapted": "after"}
    return {
        "lines": lines,
        **{name: fraction(accuracy[key], accuracy["n_query"]) for name, key in figures.items()},
        "expected": {key: facts["estimate"][key] for key in ("accuracy", "low", "high", "n", "method")},
        "seconds": facts["seconds"]["total"],
        "kept": guard["kept"],
        "accepted": guard["accepted"],
        "refused_why": None if guard["accepted"] else reasons,
        "report_url": f"/api/reports/{report}",
    }


def fraction(right: float | None, count: int) -> dict | None:
    """A fraction of `count` held-out images with its 95 % interval; None without any."""
    from tinytrain.base.statistics import wilson_interval

    if right is None or not count:
        return None
    low, high = wilson_interval(right * count, count)
    return {"accuracy": right, "low": low, "high": high, "n": count}
