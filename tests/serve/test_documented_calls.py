"""What docs/browser.md tells a reader to type for the HTTP interface works, in order."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import tt
from documents import ROOT, blocks
from serving import serving

from tinytrain.serve.routes import ROUTES
from tinytrain.serve.security import MOST_BODY

TEXT = (ROOT / "docs" / "browser.md").read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_calls_of_the_page_work_one_after_another(tmp_path):
    texts = [block.text for block in blocks(ROOT / "docs" / "browser.md")]
    calls = [text for text in texts if text.startswith(("curl", "id="))]
    assert len(calls) == 2
    assert tt("data", "export", "leaves", tmp_path / "photos", "--classes", 3, "--per-class", 5) == 0
    shutil.copy(next((tmp_path / "photos" / "oval").iterdir()), tmp_path / "new.png")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with serving(tmp_path / "leaves") as browser:
        for call in calls:
            text = call.replace("127.0.0.1:8000", f"127.0.0.1:{browser.port}")
            shell = ["bash", "-euo", "pipefail", "-c", re.sub(r"\bcurl ", "curl --fail-with-body ", text)]
            options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
            done = subprocess.run(shell, timeout=300, **options)
            assert done.returncode in (0, 23), f"{done.stdout}\n{done.stderr}"  # 23: grep has read enough
        assert "fern" not in browser.status()["delta"]["classes"]
        counts = {c["name"]: c["count"] for c in browser.status()["classes"]}
        assert counts == {"fern": 0, "oval": 5, "palmate": 5}


def test_the_page_names_every_address_and_every_event():
    table = TEXT.partition("## The HTTP interface")[2].partition("```")[0]
    for _, path, _ in ROUTES:
        name = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)
        short = name.removeprefix("/api/images/ID") or name
        assert name in table or short in table, name
    source = "".join(p.read_text() for p in (ROOT / "tinytrain" / "serve").glob("*.py"))
    told = set(re.findall(r'tell\(\s*"(\w+)"', source)) | {"progress", "learned", "check"}
    assert all(f"`{event}`" in table for event in told), told
    assert f"{MOST_BODY // 10**6} MB" in TEXT
