"""``tinytrain serve`` with a broker, a command and counts: told what is seen, and corrected from there."""

import json
import re
import shutil
import signal

import numpy as np
import pytest
from commandline import tt
from imagefiles import encoded
from mqttbroker import Home, broker, free_port
from PIL import Image
from serving import Browser, port_of, program

from tinytrain.pipeline.toy import SIZE, toy_images


def drawn(seed, look=lambda image: image):
    """Images of both classes, as files."""
    found = toy_images(np.array([ord("a"), 1 + ord("b")], np.int32), seed)
    return [encoded(Image.fromarray(look(found.read(k, SIZE)))) for k in range(2)]


@pytest.mark.slow
def test_a_page_shows_itself_to_home_assistant_and_learns_from_its_button(place, tmp_path):
    port, project, camera = free_port(), tmp_path / "p", tmp_path / "camera"
    for name in ("ant", "bee"):
        shutil.copytree(place / "photos" / name, project / "images" / name)
    camera.mkdir()
    network = ("--backbone", place / "toy.safetensors")
    learn = ("--store", project / "state", "--policy", "none", "--budget", "400kB", "--force", "-q")
    assert tt("adapt", project / "images", *network, *learn) == 0
    seen = f"sh -c 'cat >> {tmp_path}/seen.jsonl'"
    words = ("--camera", camera, "--mqtt", f"mqtt://127.0.0.1:{port}/x", "--on-verdict", seen)
    with broker(port, tmp_path), Home(port) as home, program(project, *network, *words) as (process, link):
        config, online = home.each("homeassistant/device/x/config", "x/status")
        assert online == "online" and json.loads(config)["components"]["correct"]["options"] == ["ant", "bee"]
        shutil.copy(next((place / "new" / "bee").iterdir()), camera)
        state = home.state()  # although no browser is open
        other = {"ant": "bee", "bee": "ant"}[state["class"]]
        home.say("wrong")
        said = json.loads(home.next("x/event"))
        assert (said["event"], said["image"], said["class"]) == ("correction", state["image"], other)
        browser = Browser(port_of(link))
        assert browser.status()["live"]["history"][0]["corrected"] == other
        for seed in range(45):
            for image in drawn(seed) if seed < 30 else drawn(seed, lambda image: 255 - image):
                browser.post("/api/predict", image)
        assert home.state(drift="drift") and browser.status()["live"]["drift"]
        counts = dict(re.findall(r"^tinytrain_(\S+) (\S+)$", browser.get("/metrics").decode(), re.MULTILINE))
        assert counts["corrections_total"] == "1" and counts['drifts_total{found="images"}'] == "1"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and home.next("x/status") == "offline"
    told = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert told[0]["image"] == state["image"] and len(told) > 80
