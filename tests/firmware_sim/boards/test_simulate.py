"""A simulated adaptation: what it is said to cost, and what is said where it does not fit."""

import io
import json
from dataclasses import replace

import int8nets
import pytest
from cases import each, quick

from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import BudgetError
from tinytrain.cli import main as cli
from tinytrain.firmware_sim.boards.board import Figure, find_board
from tinytrain.firmware_sim.boards.counters import Count
from tinytrain.firmware_sim.boards.estimate import (
    MEASURED_BAND,
    band,
    one_inference,
    seconds,
    store_writes,
    wear,
)
from tinytrain.firmware_sim.boards.remedies import for_flash
from tinytrain.firmware_sim.boards.simulate import simulate
from tinytrain.firmware_sim.boards.simulated_device import SimulatedDevice
from tinytrain.firmware_sim.boards.text import render_simulation, three_digits
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.policies.registry import find_policy
from tinytrain.runtime import bind
from tinytrain.runtime.embedder import Embedder

BIG = "raspberry-pi-zero-2w"
ROOMY = Budget(memory=2**22)


def board(wear_levelled=False, measured=None, **figures):
    row = find_board("stm32h743")
    values = {name: Figure(value, "test") for name, value in figures.items()}
    values["wear_levelled"] = wear_levelled
    values["measured"] = {"float32": Figure(measured, "test")} if measured else {}
    parts = {
        name: replace(part, **{key: values[key] for key in values.keys() & vars(part).keys()})
        for name, part in vars(row).items()
    }
    return replace(row, **parts)


def simulated(row, network=None, budget=ROOMY, policy="tinytrain"):
    return simulate(row, network or toy_network(), toy_episode(), budget, find_policy(policy))


# ---- estimates -----------------------------------------------------------------------------------


def test_time_is_the_longer_of_computing_and_moving_plus_the_calls():
    row = board(clock_mhz=100.0, macs_per_cycle=0.5, bytes_per_cycle=2.0, call_seconds=1e-3)
    assert seconds(Count(calls=2, network_macs=10**8, bytes=10), row, "int8") == pytest.approx(2 + 2e-3)
    assert seconds(Count(calls=0, network_macs=1, bytes=4 * 10**8), row, "int8") == pytest.approx(2)


def test_a_measured_rate_has_bytes_and_calls_in_it_and_is_that_of_one_precision():
    row = board(clock_mhz=100.0, call_seconds=1e-3, measured=0.25)
    count = Count(calls=2, network_macs=10**8, bytes=10**12)
    assert seconds(count, row, "float32") == pytest.approx(4)
    assert seconds(count, row, "int8") > 1000


def test_a_band_is_half_to_twice_and_a_quarter_where_it_was_measured():
    assert band(3.0) == {"low": 1.5, "estimate": 3.0, "high": 6.0}
    assert band(3.0, MEASURED_BAND) == {"low": 2.4, "estimate": 3.0, "high": 3.75}


def test_one_inference_is_counted_as_it_runs(monkeypatch):
    """Kernel by kernel what an embedder calls for one image."""
    network, machine = toy_network(), SimulatedDevice(2**22)
    counting = machine.kernels()
    monkeypatch.setattr(bind, "AFTER", {})  # products do nothing else
    monkeypatch.setattr("tinytrain.runtime.embedder.kernel_table.load", lambda _: counting)
    Embedder(network).embedding(toy_episode().support.image(0, network.input))
    machine.tally.end_stage("inference")
    assert one_inference(network, "float32") == machine.tally.stages["inference"]
    assert sum(c.network_macs for c in one_inference(network, "float32").values()) == network.macs


def test_the_store_writes_one_delta_and_three_records_per_adaptation():
    writes = store_writes(b"x" * 5000)
    assert (writes["deltas"], writes["records"]) == (1, 3) and 100 < writes["record_bytes"] < 2000


def test_without_a_controller_two_slots_share_the_wear():
    worn = wear(board(erase_block_bytes=4096, erase_cycles=1000), b"x" * 5000)
    assert worn["slot_bytes"] == 8192 and worn["blocks_erased_per_adaptation"] == 2
    assert worn["adaptations_until_worn"] == 2000


def test_a_controller_spreads_the_wear_over_the_medium():
    row = board(True, erase_block_bytes=4096, erase_cycles=1000, flash_bytes=4096 * 10_000)
    assert wear(row, b"x" * 5000)["adaptations_until_worn"] == 1000 * 10_000 // (2 + 3)


# ---- fitting -------------------------------------------------------------------------------------


def test_the_board_caps_the_arena():
    simulation = simulated(board(ram_bytes=60_000))
    ram = simulation.facts["ram"]
    assert simulation.fits and 30_000 < ram["needs"] <= ram["has"] == 60_000
    assert "which caps the budget of 4,194,304" in render_simulation(simulation.facts)


@pytest.mark.slow
def test_too_little_ram_names_what_is_missing_and_that_many_bytes_more_fit():
    facts = simulated(board(ram_bytes=10_000)).facts
    assert not facts["fits"] and facts["ram"]["missing"] == facts["ram"]["needs"] - 10_000 > 0
    text = render_simulation(facts)
    assert f"{facts['ram']['missing']:,} bytes of RAM are missing" in text and "stm32h743" in text
    assert simulated(board(ram_bytes=facts["ram"]["needs"])).fits
    assert not simulated(board(ram_bytes=facts["ram"]["needs"] - 1)).fits


def test_too_little_flash_names_what_is_missing_and_that_many_bytes_more_fit():
    small = {"flash_reserved_bytes": 0, "erase_block_bytes": 4096}
    facts = simulated(board(flash_bytes=12_000, **small)).facts
    assert not facts["fits"] and facts["flash"]["missing"] == facts["flash"]["needs"] - 12_000 > 0
    assert any("have the flash" in text for text in facts["remedies"])
    assert simulated(board(flash_bytes=facts["flash"]["needs"], **small)).fits
    assert not simulated(board(flash_bytes=facts["flash"]["needs"] - 1, **small)).fits


def test_no_remedy_names_a_network_for_another_kind_of_input():
    texts = str([*for_flash(board(flash_bytes=460_000), load_backbone(SHIPPED.name), 8192)])
    assert "boards have the flash" in texts and "tinytrain-sound" not in texts


def test_a_budget_too_small_by_itself_is_no_fault_of_the_board():
    with pytest.raises(BudgetError):
        simulated(board(), budget=Budget(1000))


def test_the_facts_are_json_and_marked_uncalibrated():
    facts = json.loads(json.dumps(simulated(board()).facts, allow_nan=False))
    assert facts["model"]["calibrated"] is False and "UNCALIBRATED" in render_simulation(facts)
    assert facts["seconds"]["high"] == pytest.approx(4 * facts["seconds"]["low"])
    assert facts["counted"]["network_macs"] == facts["counted"]["planned_network_macs"]
    assert sum(facts["seconds"]["stages"].values()) == pytest.approx(facts["seconds"]["estimate"])
    assert 0 < facts["battery"]["share"]["estimate"] < 1


def test_seconds_of_an_inference_stand_beside_those_of_an_adaptation():
    facts = simulated(board()).facts
    one, whole = facts["inference"]["seconds"]["estimate"], facts["seconds"]["estimate"]
    assert 0 < one < whole / facts["episode"]["n_support"]
    assert f"inference   {three_digits(one)} s (" in render_simulation(facts)


def test_a_measured_board_is_calibrated_for_its_precision_alone():
    facts = simulated(board(measured=0.25)).facts
    text = render_simulation(facts)
    assert facts["model"]["calibrated"] and "UNCALIBRATED" not in text
    assert "0.25 MACs per cycle in float32" in text
    assert facts["seconds"]["high"] == pytest.approx(1.25 * facts["seconds"]["estimate"])
    macs = facts["counted"]["network_macs"] + facts["counted"]["other_macs"]
    assert facts["seconds"]["estimate"] == pytest.approx(macs / 0.25 / 480e6)
    only_int8 = board()
    only_int8.speed.measured["int8"] = Figure(0.25, "test")
    facts = simulated(only_int8).facts
    assert not facts["model"]["calibrated"] and "UNCALIBRATED" in render_simulation(facts)
    network = int8nets.toy8("headed")
    facts = simulated(only_int8, network, replace(ROOMY, precision="int8")).facts
    assert "0.25 MACs per cycle in int8" in render_simulation(facts)
    assert facts["inference"]["macs"] == network.macs
    assert facts["counted"]["network_macs"] == facts["counted"]["planned_network_macs"]


# ---- the command ---------------------------------------------------------------------------------


def test_boards_are_listed(capsys):
    assert cli.main(["simulate", "--boards"]) == 0
    table = capsys.readouterr().out
    assert cli.main(["simulate", "--board", "list"]) == 0
    assert table == capsys.readouterr().out and "stm32f746" in table


LINE = "cycles: 135789000 for 22453504 MACs in float32, by DWT"
CALIBRATE = ("--board", "stm32h743", "--out", "mine.yaml", "--calibrate")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "give --board NAME"),
        (["--board", "stm32h734"], 2, "did you mean stm32h743"),
        (["--board", "rp2040", "--battery", "0"], 2, "not a number of watt-hours"),
        (["--board", "nowhere.yaml"], 3, "nowhere.yaml"),
        (["--board", "rp2040", "--calibrate", LINE], 2, "--out FILE"),
        (["--board", "rp2040", "--out", "x.yaml"], 2, "--calibrate LINE"),
        (["--calibrate", LINE, "--out", "x.yaml"], 2, "give --board NAME"),
        (["--board", "rp2040", "--calibrate", LINE, "--out", "x.txt"], 2, "must end in .yaml"),
        ([*CALIBRATE, "cycles: lots"], 3, "no line 'cycles: N for N MACs in PRECISION, by COUNTER'"),
        ([*CALIBRATE, f"{LINE}, emulated"], 3, "an emulator"),
        ([*CALIBRATE, "cycles: none, no counter is known"], 3, "counted no cycles"),
        ([*CALIBRATE, LINE.replace("135789000", "0")], 3, "0 cycles"),
        ([*CALIBRATE, LINE.replace("135789000", "1")], 3, "22453504.0; allowed: a number from 1e-06 to 1000"),
        ([*CALIBRATE, LINE.replace("22453504 M", "1 M")], 3, "allowed: a number from 1e-06 to 1000"),
        ([*CALIBRATE, LINE + "x" * 200], 3, "allowed: a text"),
        ([*CALIBRATE, "-"], 3, "no line 'cycles: N for N MACs"),
    ],
)
def test_a_wrong_command_line_is_one_line(capsys, arguments, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", None)  # closed, as by <&-
    assert cli.main(["simulate", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1 and not any(tmp_path.iterdir())


def test_a_line_of_the_demo_becomes_a_board_that_is_calibrated(capsys, tmp_path, monkeypatch):
    """The line is found in all that the demo said; what was measured before in another precision stays."""
    mine = str(tmp_path / "mine.yaml")
    assert cli.main(["simulate", "--board", "stm32h743", "--calibrate", LINE, "--out", mine, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["macs_per_cycle"] == pytest.approx(22453504 / 135789000)
    said = b"\xff\xfeadapted\r\ncycles: 400 for 100 MACs in int8, by mcycle\r\n10 of 10 right\r\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said), "utf-8"))
    assert cli.main(["simulate", "--board", mine, "--calibrate", "-", "--out", mine]) == 0
    found = find_board(mine)
    assert found.speed.measured == {
        "float32": Figure(22453504 / 135789000, LINE),
        "int8": Figure(0.25, "cycles: 400 for 100 MACs in int8, by mcycle"),
    }
    assert found.figures() == find_board("stm32h743").figures()
    text = capsys.readouterr().out
    assert "0.25 MACs per cycle in int8" in text and f"--board {mine}" in text


@pytest.mark.parametrize("policy", quick(["tinytrain", "none", "full"]))
@pytest.mark.parametrize(
    ("board", "budget", "code"),
    quick([("rp2040", "64MB", 7), (BIG, "1kB", 4), ("rp2040", "1kB", 7), ("rp2040", "1MB", 7)], range(2)),
)
def test_what_does_not_fit_the_board_is_no_matter_of_the_budget(capsys, board, budget, code, policy):
    """It has an exit code of its own. A remedy has to work: a larger budget is none without room for it."""
    words = ["--board", board, "--budget", budget, "--policy", policy, "--way", "10", "--shots", "2"]
    words += ["--precision", "float32"]
    assert cli.main(["simulate", *words, "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    if code == 7:
        assert answer["fits"] is False and answer["ram"]["missing"] > 0 and answer["remedies"]
    else:
        assert f"give --budget {answer['error']['smallest']} or more" in answer["error"]["message"]


def test_times_have_three_digits_and_no_exponent():
    shown = [three_digits(x) for x in (0.08333, 130.6, 1499.7, 123_456)]
    assert shown == ["0.0833", "131", "1,500", "123,000"]


@each("precision", ["float32", "int8"])
def test_the_bytes_that_a_remedy_names_are_those_that_the_task_needs_with_its_queries(precision):
    network, episode = int8nets.toy8("headed"), toy_episode(way=60, queries=1)
    budget, full = replace(ROOMY, precision=precision), find_policy("full")
    needs = simulate(board(ram_bytes=1000), network, episode, budget, full).facts["ram"]["needs"]
    texts = simulate(board(ram_bytes=needs - 1), network, episode, budget, full).facts["remedies"]
    (named,) = [text for text in texts if text.startswith("--policy tinytrain needs ")]
    least = int(named.split()[-2])
    adapt(network, episode, replace(budget, memory=least), "tinytrain")
    with pytest.raises(BudgetError):
        adapt(network, episode, replace(budget, memory=least - 1), "tinytrain")
