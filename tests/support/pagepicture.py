"""The picture of the page in README: `python tests/support/pagepicture.py docs/images/page.png`.

A real server learns photographs of leaves, and the camera of a real browser shows others of them.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from servedpage import SPECIES, camera_file, chromium, fill, photographs
from serving import program

SIZE = {"width": 1080, "height": 860}
LEARNT, SHOWN = 20, ("maple", "fern", "clover", "ginkgo", "oak", "fern", "clover")


def picture(path: Path) -> None:
    """Writes a PNG of the page while it recognises leaves."""
    with tempfile.TemporaryDirectory() as folder, program(Path(folder) / "leaves") as (_, at):
        seen = {name: photographs(name, LEARNT + 4, (240, 320)) for name in SPECIES}
        for name, images in seen.items():
            fill(at, name, images[:LEARNT])
        film = Path(folder) / "film.mjpeg"
        others = [image for name in SHOWN for image in seen[name][LEARNT : LEARNT + 2]]
        camera_file(film, others, repeats=60)
        with chromium(f"--use-file-for-fake-video-capture={film}") as browser:
            context = browser.new_context(viewport=SIZE, permissions=["camera"], locale="en-GB")
            page = context.new_page()
            page.set_default_timeout(120_000)
            page.goto(f"{at}#learn")
            page.get_by_role("button", name="Learn now").click()
            page.locator("#answer .figure").wait_for()
            page.goto(f"{at}#live")
            page.locator("#history li").nth(4).wait_for()
            page.locator("#name", has_text=SHOWN[0]).wait_for()
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shot.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    picture(Path(sys.argv[1]))
