"""`tinytrain watch` killed at random while images and labels go on: every label counts once."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest
import toyruns

from tinytrain.cli.main import main
from tinytrain.store import Store

SECONDS = float(os.environ.get("TINYTRAIN_WATCH_SECONDS", "12"))
PAUSE = 0.15 if SECONDS < 60 else 1.0  # between two images
LONGEST = max(12, SECONDS / 100)  # seconds until a kill
CLASSES = 4


class Camera(threading.Thread):
    """Writes images to a folder, some of them slowly or broken, and labels some of them in a file."""

    def __init__(self, photos, folder, labels, pause):
        super().__init__(daemon=True)
        self.photos = [path for path in sorted(photos.glob("*/*")) if path.is_file()]
        self.folder, self.labels, self.pause = folder, labels, pause
        self.counts, self.images, self.over = Counter(), 0, threading.Event()

    def run(self):
        draw = random.Random(1)
        while not self.over.wait(self.pause):
            photo, self.images = draw.choice(self.photos), self.images + 1
            name = f"frame-{self.images:06d}.png"
            data = photo.read_bytes() + b"%d" % self.images  # each image is another one
            with open(self.folder / name, "wb") as file:
                file.write(data[: len(data) // 2])
                file.flush()
                time.sleep(draw.choice((0, 0, 0.05)))
                file.write(data[len(data) // 2 :])
            if draw.random() < 0.05:
                (self.folder / f"broken-{self.images}.png").write_bytes(data[:100])
            if draw.random() < 0.3:
                label = photo.parent.name if draw.random() < 0.9 else "stranger"
                self.counts[label] += 1
                with open(self.labels, "a") as file:
                    file.write(f"{name},+{label}\n")


def memory(pid):
    """Most memory of a process so far, in bytes; 0 if it has ended."""
    with suppress(OSError), open(f"/proc/{pid}/status") as file:
        return next((1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)
    return 0


def written(pid):
    """Bytes that a process wrote so far, to files and its output; 0 if that is not known."""
    with suppress(OSError), open(f"/proc/{pid}/io") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("wchar")), 0)
    return 0


def learnt(store):
    return Counter(Store(store).peek().delta.report.get("watched", {}).get("corrections", {}))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals")
def test_a_watch_that_is_killed_again_and_again_learns_every_label_once(tmp_path, capsys):
    draw = random.Random(0)
    photos, camera_folder = tmp_path / "photos", tmp_path / "camera"
    toyruns.folder(photos, classes=CLASSES)
    camera_folder.mkdir()
    delta, store, labels = (str(tmp_path / name) for name in ("d.safetensors", "store", "labels.csv"))
    adapted = ["adapt", str(photos), "--policy", "none", "--shots", "3", "--queries", "1", "--out", delta]
    assert main([*adapted, "--force", "-q"]) == 0
    words = [sys.executable, "-m", "tinytrain", "watch", delta, str(camera_folder), "--store", store,
             "--labels", labels, "--json", "--new", "--every", "0.2", "--readapt", "never", "-q"]  # fmt: skip
    camera = Camera(photos, camera_folder, labels, PAUSE)
    camera.start()
    kills, acknowledged, most, bytes_written, seconds = 0, Counter(), 0, 0, []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(1, LONGEST))
            most, so_far = max(most, memory(process.pid)), written(process.pid)
            assert process.poll() is None, "it ended by itself"
            process.send_signal(signal.SIGKILL)
            text = process.stdout.read()
        kills, bytes_written = kills + 1, bytes_written + max(0, so_far - len(text.encode()))
        rows = [json.loads(line) for line in text.split("\n")[:-1]]
        corrections = [row for row in rows if row.get("event") == "correction"]
        acknowledged.update(row["class"] for row in corrections)
        seconds += [row["seconds"] for row in corrections]
        if os.path.isdir(store):
            found = learnt(store)
            assert all(found[name] >= count for name, count in acknowledged.items()), "something is lost"
    camera.over.set()
    camera.join()
    with open(labels, "a") as file:  # the last process has begun when it knows this one
        file.write("frame-000001.png,+last\n")
    camera.counts["last"] += 1
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        limit = time.monotonic() + 120
        while time.monotonic() < limit and (not os.path.isdir(store) or learnt(store) != camera.counts):
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert learnt(store) == camera.counts, "every label once, none twice"
    folder = os.path.join(store, "")
    files = {n: os.path.getsize(folder + n) for n in os.listdir(folder) if os.path.isfile(folder + n)}
    status = Store(store).status()
    with capsys.disabled():
        print(
            f"\na correction takes {1000 * statistics.median(seconds):.1f} ms in the median,"
            f" {1000 * max(seconds):.1f} ms at most, and {bytes_written / len(seconds):,.0f} bytes written,"
            f" with its image; 0 of {acknowledged.total()} acknowledged ones were lost"
            f"\n{SECONDS:.0f} s, {kills} kills, {camera.images} images, {camera.counts.total()} labels, each"
            f" learnt once; generation {status['current']['generation']}, {status['learnt']} in the journal,"
            f" {sum(files.values()):,} bytes in {len(files)} files, at most {most / 2**20:.0f} MB of memory"
        )
    assert not status["warnings"] and len(files) <= 6
    assert SECONDS < 60 or statistics.median(seconds) < 0.05  # a busy machine must not fail the short form
