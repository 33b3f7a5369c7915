"""`tinytrain watch` with a broker, a command and a file of counts: corrected from afar, and then killed."""

import json
import shutil
import subprocess
import sys

from commandline import tt
from mqttbroker import Home, broker, free_port
from toyfiles import write_images, write_network


def test_a_stream_is_corrected_over_mqtt_and_its_end_is_told_by_the_broker(tmp_path):
    port = free_port()
    write_network(tmp_path)
    write_images(tmp_path / "photos", ("ant", "bee", "cat"), count=4)
    words = ("adapt", tmp_path / "photos", "--backbone", tmp_path / "toy.safetensors", "--policy", "none")
    assert tt(*words, "--budget", "400kB", "--out", tmp_path / "d.safetensors", "--force", "-q") == 0
    (tmp_path / "camera").mkdir()
    command = [
        sys.executable, "-m", "tinytrain", "watch", "d.safetensors", "camera", "--store", "store", "--json",
        "--backbone", "toy.safetensors", "--mqtt", f"mqtt://127.0.0.1:{port}/x", "--metrics", "m.prom",
        "--on-verdict", "sh -c 'cat >> seen.jsonl'", "--every", "0.1",
    ]  # fmt: skip
    with broker(port, tmp_path), Home(port) as home:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert home.next("x/status") == "online"
            shutil.copy(next((tmp_path / "photos" / "ant").iterdir()), tmp_path / "camera" / "new.png")
            seen = home.state()
            printed = json.loads(process.stdout.readline())
            assert seen["image"] == "camera/new.png" and seen.pop("wrong") is None
            assert printed == {**seen, "picture": seen["image"]}
            home.say("correct", "q")  # nobody may end it from afar
            assert json.loads(home.next("x/event"))["code"] == "labels-unreadable"
            home.say("correct", "+dog")
            said = json.loads(home.next("x/event"))
            assert (said["event"], said["image"], said["class"]) == ("correction", "camera/new.png", "dog")
            config = json.loads(home.next("homeassistant/device/x/config"))
            assert "dog" in config["components"]["correct"]["options"]
        finally:
            process.kill()
            process.communicate()
        assert home.next("x/status") == "offline", "the broker says so for who cannot"
    assert json.loads((tmp_path / "seen.jsonl").read_text())["image"] == "camera/new.png"
