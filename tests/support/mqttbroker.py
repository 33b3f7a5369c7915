"""A real broker, Mosquitto, and another client of it; whoever asks for them is skipped without either."""

import json
import queue
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest

MOSQUITTO = shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/bin")


def free_port():
    """A port for a broker. Skips the test if there can be none."""
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def broker(port, folder, who="allow_anonymous true"):
    """Mosquitto on this port, which remembers nothing."""
    (folder / "broker.conf").write_text(f"listener {port} 127.0.0.1\n{who}\n")
    process = subprocess.Popen([MOSQUITTO, "-c", folder / "broker.conf"], stderr=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    break
            assert process.poll() is None, "mosquitto has ended"
            time.sleep(0.01)
        yield
    finally:
        process.kill()
        process.wait()


class Home:
    """Another client of the broker, which hears everything; what it says is below `prefix`."""

    def __init__(self, port, prefix="x"):
        from paho.mqtt.client import CallbackAPIVersion, Client

        self._got, self._prefix, subscribed = queue.Queue(), prefix, queue.Queue()
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.on_message = lambda client, data, message: self._got.put(message)
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self.client.on_subscribe = lambda *_: subscribed.put(True)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        subscribed.get(timeout=60)

    def next(self, topic):
        """The content of the next message with this topic; others are passed over."""
        while (message := self._got.get(timeout=60)).topic != topic:
            pass
        return message.payload.decode()

    def each(self, *topics):
        """The contents of the next message of each topic, in whatever order they come."""
        found = {}
        while found.keys() < {*topics}:
            message = self._got.get(timeout=60)
            if message.topic in topics:
                found.setdefault(message.topic, message.payload.decode())
        return [found[topic] for topic in topics]

    def state(self, **facts):
        """The next state that has these facts."""
        while not facts.items() <= (found := json.loads(self.next(f"{self._prefix}/state"))).items():
            pass
        return found

    def say(self, command, word="", **how):
        self.client.publish(f"{self._prefix}/{command}", word, qos=1, **how).wait_for_publish(60)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.client.disconnect()
        self.client.loop_stop()
