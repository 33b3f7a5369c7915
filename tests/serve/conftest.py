"""What tests of the server share."""

from contextlib import ExitStack

import pytest
from servedpage import CHROMIUM, chromium, shown
from toyfiles import write_images, write_network


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A toy network, images of three classes, and others of them."""
    place = tmp_path_factory.mktemp("serve")
    write_network(place)
    write_images(place / "photos", count=5)
    write_images(place / "new", count=3, seed=1)
    return place


@pytest.fixture(scope="session")
def photo(place):
    """A function: the bytes of a new image of a class."""
    return lambda name, number=0: (place / "new" / name / f"1-{number}.png").read_bytes()


@pytest.fixture(autouse=True, scope="session")
def soon():
    """The server looks at its folder more often than a person needs."""
    from tinytrain.serve import work

    work.PAUSE, work.LOOK = 0.1, 0.2


@pytest.fixture(scope="module")
def window():
    """Chromium, if that and Playwright are installed."""
    pytest.importorskip("playwright", reason="Playwright is not installed: pip install '.[browser]'")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with chromium() as started:
        yield started


@pytest.fixture
def opened(window):
    """A function: a page that shows a view of a status, and its server; a real one would seldom say that."""
    with ExitStack() as pages:
        yield lambda status, *view, **more: pages.enter_context(shown(window, status, *view, **more))
