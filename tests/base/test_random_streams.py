import subprocess
import sys

from tinytrain.base.random_streams import rng_for


def draw(*names):
    return rng_for(*names).integers(0, 2**32, 3).tolist()


def test_the_same_names_give_the_same_stream():
    assert draw(7, "episode", "gtsrb", 12) == draw(7, "episode", "gtsrb", 12)


def test_every_part_of_the_name_matters():
    streams = [draw(0), draw(1), draw(0, "a"), draw(0, "a", 1), draw(0, "a", "1"), draw(0, "a1"), draw(-1)]
    assert len({tuple(s) for s in streams}) == len(streams)


def test_streams_do_not_depend_on_the_process_or_its_hash_seed():
    code = "from tinytrain.base.random_streams import rng_for\n"
    code += "print(rng_for(3, 'x', 4).integers(0, 2**32, 3).tolist())"
    for hash_seed in ("1", "2"):
        run = [sys.executable, "-c", code]
        out = subprocess.run(
            run, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        )
        assert out.stdout.strip() == str(draw(3, "x", 4))


def test_streams_never_change():
    assert draw(0, "frozen") == FROZEN


FROZEN = [3036122808, 533126892, 38873708]
