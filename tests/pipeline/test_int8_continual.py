"""Going on in int8: what is remembered are the codes of the layer where training begins."""

import numpy as np
import pytest
from cases import each
from commandline import tt
from integernet import Integers
from programcheck import check_program
from toyfiles import write_images
from toyreplay import FLOAT32, INT8, SHOTS, episode, new_images

from tinytrain.base.errors import BudgetError
from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta, encode_delta, load_delta
from tinytrain.network.file import save_network
from tinytrain.network.quantisation import Codes
from tinytrain.network.replay import int8_codes, range_of, remembered_codes
from tinytrain.plan.budget import Budget

NETWORK, CUT = INT8.network, 6
adapted, continued = INT8.adapted, INT8.continued


@pytest.fixture(scope="module")
def delta():
    return decode_delta(*decode(encode_delta(adapted().delta)))


def test_what_is_remembered_are_the_codes_of_an_oracle_in_whole_numbers(delta):
    memory, oracle, support = delta.replay, Integers(NETWORK), episode().support
    images = [support.image(i, NETWORK.input.shape) for i in range(len(support))]
    found = {oracle.run(oracle.pixels(image), 0, CUT - 1)[-1].astype(np.int8).tobytes() for image in images}
    assert memory.layer == CUT and len(memory) == len(found) == 4 * SHOTS
    assert {(code ^ 128).tobytes() for code in memory.codes} == found
    codes = NETWORK.quantisation.given(CUT - 1)
    values = memory.ranges[:, :1] + memory.ranges[:, 1:] * memory.codes.reshape(len(memory), -1)
    meant = codes.scale * ((memory.codes ^ 128).view(np.int8).reshape(len(memory), -1) - float(codes.zero))
    np.testing.assert_allclose(values, meant, atol=1e-5)


def test_a_small_budget_holds_a_replay_memory_or_says_what_it_takes():
    with pytest.raises(BudgetError, match=r"or remember less: \d+ of the bytes .* 16 images") as caught:
        adapted(budget=Budget(4000, precision="int8"))
    least = Budget(caught.value.smallest, precision="int8")
    report = adapted(budget=least)
    assert report.program.nbytes <= least.memory and len(report.delta.replay) == 4 * SHOTS
    check_program(report.program)


def test_it_trains_on_what_is_remembered_without_an_image(delta):
    result = continued(delta)
    assert result.delta.slices and np.isfinite(result.ran.losses).all() and len(result.ran.losses) == 4
    assert result.delta.replay.codes.tobytes() == delta.replay.codes.tobytes()


def test_a_memory_of_either_precision_goes_on_in_the_other(delta):
    after = continued(delta, new_images(4), ("new",), budget=FLOAT32.budget).delta
    assert after.precision == "float32"
    old = after.replay.labels < 4
    assert after.replay.codes[old].tobytes() == delta.replay.codes.tobytes(), "nothing is rounded"
    wide = adapted(budget=FLOAT32.budget).delta
    after = continued(wide, new_images(4), ("new",)).delta
    assert after.precision == "int8" and after.replay.codes.tobytes() != wide.replay.codes.tobytes()
    codes, old = NETWORK.quantisation.given(CUT - 1), after.replay.labels < 4
    meant, kept = (
        r.ranges[:, 0, None, None, None] + r.ranges[:, 1, None, None, None] * r.codes
        for r in (wide.replay, after.replay)
    )
    low, high = (codes.scale * (end - codes.zero) for end in (-128, 127))
    assert np.abs(np.clip(meant, low, high) - kept[old]).max() <= 0.501 * codes.scale


def test_the_commands_go_on_in_the_precision_that_is_asked_for(tmp_path, capsys):
    save_network(NETWORK, tmp_path / "net.safetensors")
    photos = write_images(tmp_path / "photos")
    more = write_images(tmp_path / "more", classes=("dog",), seed=1)
    first, second, third = (tmp_path / f"{k}.safetensors" for k in (1, 2, 3))
    common = ("--backbone", tmp_path / "net.safetensors", "--force", "--precision", "int8")
    assert tt("adapt", photos, "--queries", 0, "--replay", 3, "--out", first, *common) == 0
    assert tt("adapt", "--from", first, more, "--out", second, *common) == 0
    out = capsys.readouterr().out
    assert out.count("; trained in int8") == 2 and out.count("remembered") == 2
    assert tt("adapt", "--from", second, "--out", third, *common[:-1], "float32") == 0
    after = [load_delta(path) for path in (first, second, third)]
    assert [delta.precision for delta in after] == ["int8", "int8", "float32"]
    assert after[2].class_names == ("ant", "bee", "cat", "dog")
    assert np.array_equal(after[2].replay.codes, after[1].replay.codes)


@each("scale", [1e-11, 0.0234, 1.0, 3.7e11])
@each("zero", [-128, -3, 127])
def test_codes_come_back_as_they_were(scale, zero):
    codes = Codes(scale, zero)
    given = np.arange(-128, 128, dtype=np.int8).reshape(16, 16)
    kept, again = np.empty_like(given, np.uint8), np.empty_like(given)
    remembered_codes(kept, given)
    int8_codes(again, kept, np.array(range_of(codes), np.float32), codes)
    assert np.array_equal(again, given)
