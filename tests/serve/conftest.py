"""What tests of the server share."""

import pytest
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
