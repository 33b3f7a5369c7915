"""Verdicts to an MQTT broker, in the form that Home Assistant discovers, and corrections from there."""

import contextlib
import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from urllib.parse import unquote, urlsplit

from tinytrain import __version__
from tinytrain.base.errors import UsageError, one_line, visible
from tinytrain.base.events import Event, Progress
from tinytrain.base.extras import needed
from tinytrain.drift.detector import DRIFT, STABLE
from tinytrain.stream.events import Drift, Hint, Learned, Readapted, Verdict
from tinytrain.stream.labels import CLASS
from tinytrain.stream.readers import MOST, Apart
from tinytrain.stream.session import About

PORTS = {"mqtt": 1883, "mqtts": 8883}
USER, PASSWORD = "TINYTRAIN_MQTT_USER", "TINYTRAIN_MQTT_PASSWORD"
EXAMPLE = "write mqtt://host, mqtt://host:1883/topic, or mqtts:// for TLS"
DISCOVERY = "homeassistant"
EVERY = 1.0  # seconds between two states that differ in image and confidence alone
KEEP_ALIVE = 30  # seconds
RETRY = 1, 60  # seconds before the first attempt to connect again, and before later ones
MOST_WAITING = 100  # events for a broker that is away
MOST_WORD = 1000  # letters


@dataclass(frozen=True)
class Address:
    """A broker, and the topic below which everything is published. The password is never shown."""

    host: str
    port: int
    topic: str
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def broker(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str, environment: Mapping[str, str] = os.environ) -> Address:
    """What ``mqtt://[user:password@]host[:port][/topic]`` names; ``mqtts://`` is TLS.

    The topic is by default ``tinytrain/`` and the name of this machine, user and password those of the
    `environment`. Raises UsageError, which shows nothing of `text`: whatever it is may be of a password.
    """
    try:
        url = urlsplit(text)
        host, port = (url.hostname or "").encode("idna").decode(), url.port
        user, password = url.username and unquote(url.username), url.password and unquote(url.password)
    except ValueError:  # a port or host that is none
        host = port = user = password = None
    if not host or url.scheme not in PORTS or port == 0 or url.query or url.fragment:
        raise UsageError("usage", f"this is no address of an MQTT broker; {EXAMPLE}")
    topic = unquote(url.path).strip("/") or f"tinytrain/{_slug(socket.gethostname())}"
    # With an @ in it, it is the rest of a password that has a slash, which must be written as %2F.
    if re.search(r"[+#@]|^\$|//", topic) or not topic.isprintable() or len(topic.encode()) > 200:
        raise UsageError("usage", f"this topic cannot be published to; {EXAMPLE}")
    user, password = user or environment.get(USER), password or environment.get(PASSWORD)
    return Address(host, port or PORTS[url.scheme], topic, url.scheme == "mqtts", user, password)


def discovery(topic: str, class_names: Sequence[str]) -> tuple[str, dict]:
    """Where Home Assistant looks for a device, and what it finds there: sensors, a button and a choice."""
    device, state = _slug(topic), f"{topic}/state"
    shown = {"state_topic": state}
    components = {
        "class": {
            "platform": "sensor", "name": "Class", **shown, "json_attributes_topic": state,
            "value_template": "{{ value_json.class or value_json.verdict }}",
        },
        "confidence": {
            "platform": "sensor", "name": "Confidence", **shown, "unit_of_measurement": "%",
            "state_class": "measurement", "value_template": "{{ (value_json.confidence * 100) | round(1) }}",
        },
        "drift": {
            "platform": "binary_sensor", "name": "Images have changed", **shown, "device_class": "problem",
            "value_template": "{{ 'ON' if value_json.drift == 'drift' else 'OFF' }}",
        },
        "wrong": {
            "platform": "button", "name": "Wrong", "command_topic": f"{topic}/wrong",
            "payload_press": "wrong",
        },
        "correct": {
            "platform": "select", "name": "It is", **shown, "command_topic": f"{topic}/correct",
            "options": [*class_names], "value_template": "{{ value_json.class }}",
        },
    }  # fmt: skip
    return f"{DISCOVERY}/device/{device}/config", {
        "device": {
            "identifiers": [device],
            "name": topic.rpartition("/")[2],
            "manufacturer": "tinytrain",
            "model": "image classifier",
            "sw_version": __version__,
        },
        "origin": {"name": "tinytrain", "sw_version": __version__},
        "availability_topic": f"{topic}/status",
        "components": {name: c | {"unique_id": f"{device}_{name}"} for name, c in components.items()},
    }


class Mqtt(Apart):
    """Publishes events to a broker, and takes corrections of the image that it published last.

    ``state`` is the last verdict, ``event`` each other event, ``status`` online or offline, all below the
    topic of `address`. A word on ``correct`` is about the image of the last state, or the one that was there
    when ``wrong`` came; of two classes that alone means the other one. Commands that the broker has retained
    do not count. If the broker is away, it is tried again; meanwhile MOST_WAITING events wait. `class_names`
    gives those of now. Raises InputError ``package-missing``.
    """

    name, listens = "--mqtt", True

    def __init__(
        self,
        address: Address,
        class_names: Callable[[], Sequence[str]],
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__()
        with needed("paho", "mqtt", "--mqtt"):
            from paho.mqtt.client import CallbackAPIVersion, Client
        self.address, self._class_names, self._clock = address, class_names, clock
        self._words: SimpleQueue[About] = SimpleQueue()
        self._shown: Verdict | None = None  # the verdict of the last state
        self._held: Verdict | None = None  # the one that is wrong
        self._drift, self._away = False, False
        self._offered: Sequence[str] = ()  # the classes that Home Assistant knows
        self._last: tuple = (None, 0.0)  # what the last state was, and when
        self._client = client = Client(CallbackAPIVersion.VERSION2)
        client.on_connect, client.on_message = self._connected, self._heard
        client.on_disconnect = lambda client, data, flags, reason, _: reason.is_failure and self._lost(reason)
        client.on_connect_fail = lambda client, data: self._lost(sys.exc_info()[1])
        client.max_queued_messages_set(MOST_WAITING)
        client.reconnect_delay_set(*RETRY)
        client.will_set(f"{address.topic}/status", "offline", qos=1, retain=True)
        if address.user is not None:
            client.username_pw_set(address.user, address.password)
        if address.tls:
            client.tls_set()

    def __enter__(self):
        self._client.connect_async(self.address.host, self.address.port, KEEP_ALIVE)
        self._client.loop_start()
        return super().__enter__()

    def __exit__(self, *exception) -> None:
        super().__exit__(*exception)
        if self._client.is_connected():
            with contextlib.suppress(ValueError, RuntimeError):  # the connection has gone meanwhile
                self._publish("status", "offline", qos=1, retain=True).wait_for_publish(self.patience)
        self._client.disconnect()  # its thread ends by itself; a broker that does not answer may hold it

    @property
    def has_words(self) -> bool:
        return not self._words.empty()

    def words(self) -> Iterable[About]:
        with contextlib.suppress(Empty):
            while True:
                yield self._words.get_nowait()

    def hear(self, event: Event) -> None:
        if isinstance(event, Verdict):
            kind = event.name, event.verdict.state, self._drift
            if kind == self._last[0] and self._clock() < self._last[1] + EVERY:
                return
            self._last, self._shown = (kind, self._clock()), event
            self._publish_state()
        elif not isinstance(event, Hint | Progress):
            before = self._drift
            if isinstance(event, Drift):
                self._drift = True
            elif isinstance(event, Learned) or (isinstance(event, Readapted) and event.done):
                self._drift = False
            if self._drift != before:
                self._publish_state()
            self._publish("event", json.dumps(event.facts()), qos=1)
            if self._offered != self._class_names():
                self._publish_discovery()

    # ---- on the thread of the client ------------------------------------------------------------

    def _connected(self, client, data, flags, reason, properties) -> None:
        if reason.is_failure:
            self._lost(reason)
            return
        if self._away:
            self.note(f"{self.address.broker} is there again", again=True)
        self._away = False
        client.subscribe([(f"{self.address.topic}/{command}", 1) for command in ("correct", "wrong")])
        self._publish_discovery()
        self._publish("status", "online", qos=1, retain=True)
        self._publish_state()

    def _lost(self, why: object) -> None:
        if not self._away:
            text = f"{self.address.broker}: {one_line(why, 200)}; it is tried again, and the stream goes on"
            self.note(text, again=True)
        self._away = True

    def _heard(self, client, data, message) -> None:
        if message.retain:
            return
        try:
            word = message.payload[: MOST_WORD + 1].decode()
        except UnicodeDecodeError:
            word = None
        if word is None or len(word) > MOST_WORD or self._words.qsize() >= MOST:
            self.note("a command that is no word, or one of too many, is passed over (said once)")
            return
        about = self._held or self._shown
        names, self._held = self._class_names(), None
        if message.topic.endswith("/correct"):
            self._words.put(About(about and about.key, word))
        elif about is not None and about.name is not None and len(names) == 2:
            self._words.put(About(about.key, CLASS + names[names[0] == about.name]))
        else:
            self._held = about
        self._publish_state()

    # ---- messages -------------------------------------------------------------------------------

    def _publish_state(self) -> None:
        if (shown := self._shown) is None:
            return
        facts = shown.facts() | {"image": visible(shown.key), "drift": DRIFT if self._drift else STABLE}
        facts["wrong"] = self._held and visible(self._held.key)
        self._publish("state", json.dumps(facts), retain=True)

    def _publish_discovery(self) -> None:
        self._offered = self._class_names()
        topic, content = discovery(self.address.topic, self._offered)
        self._client.publish(topic, json.dumps(content), qos=1, retain=True)

    def _publish(self, name: str, payload: str, **how):
        return self._client.publish(f"{self.address.topic}/{name}", payload, **how)


def _slug(text: str) -> str:
    """`text` as Home Assistant takes it for an id."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)
