"""``tinytrain plan`` shows both precisions side by side, says which one is taken, and plans each once."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from cases import each
from commandline import tt
from int8nets import toy8
from toyfiles import write_images, write_network

import tinytrain
from tinytrain.network.file import save_network
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.plan import save_plan
from tinytrain.planner import candidates
from tinytrain.planner.planner import Planner
from tinytrain.runtime import adaptation

ENOUGH, SMALL = "4MB", "11kB"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("precisions")
    write_images(folder / "photos")
    save_network(named(toy8()), folder / "net.safetensors")
    write_network(folder)
    return folder


def named(network: Network) -> Network:
    return replace(network, name="net")


@pytest.fixture
def words(place):
    def make(*options, network="net"):
        return ("plan", place / "photos", "--backbone", place / f"{network}.safetensors", *options)

    return make


@pytest.fixture
def compared(words, capsys):
    def answer(*options, network="net") -> tuple[dict, dict]:
        assert tt(*words(*options, "--json", network=network)) == 0
        facts = json.loads(capsys.readouterr().out)
        return facts["precisions"], facts

    return answer


def test_the_plan_of_each_precision_is_the_one_that_it_has_alone(compared):
    both, facts = compared("--budget", ENOUGH)
    assert both["taken"] == facts["plan"]["recipe"]["options"]["arithmetic"]["precision"] == "float32"
    for precision in ("float32", "int8"):
        alone = compared("--budget", ENOUGH, "--precision", precision)[1]
        row = both[precision]
        assert row["arena"] == alone["memory"]["arena"] <= 4_000_000
        assert row["layers"] == len(alone["selection"]) > 0 and row["modules"] == 0
        assert row["channels"] == sum(s["n_channels"] for s in alone["selection"])
        assert row["trained_parameters"] == alone["memory"]["trained_parameters"]
        assert row["backward_per_query"] == alone["macs"]["backward_per_query"]
        assert row["executed"] > 0 and 0 < row["seconds"] < 1000
    assert both["int8"]["arena"] != both["float32"]["arena"]


@pytest.mark.parametrize(
    ("options", "taken", "why"),
    [
        (("--budget", ENOUGH), "float32", "all that the policy chooses can be trained inside the budget"),
        (("--budget", SMALL), "int8", "in float32 not all that the policy chooses"),
        (("--budget", ENOUGH, "--precision", "int8"), "int8", "--precision int8 was given"),
        (("--budget", "64MB", "--policy", "tinytl"), "float32", "cannot be trained in int8"),
        (("--budget", ENOUGH, "--precision", "noisy:0.05"), "noisy:0.05:0", "noisy:0.05 was given"),
    ],
)
def test_it_says_which_is_taken_and_why(compared, words, capsys, options, taken, why):
    both, _ = compared(*options)
    assert both["taken"] == taken and why in both["why"]
    assert tt(*words(*options)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 8 and max(map(len, lines)) <= 100
    other = next(name for name in ("float32", "int8") if name != taken)
    order = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert order[:3] == [taken.partition(":")[0], other, "taken"]
    assert f"{both[taken]['arena']:,} bytes" in lines[0] and f"{both[taken]['layers']} of" in lines[0]


def test_what_does_not_fit_names_the_bytes_that_it_needs(compared, words, capsys):
    both, _ = compared("--budget", SMALL)
    refused = both["float32"]
    assert refused["refused"] == "budget-too-small" and refused["needs"] > 11_000
    assert tt(*words("--budget", SMALL)) == 0
    assert f"float32     needs {refused['needs']:,} bytes at the least" in capsys.readouterr().out
    assert compared("--budget", refused["needs"])[0]["float32"]["arena"] <= refused["needs"]


def test_a_network_without_codes_says_so(compared):
    both, _ = compared("--budget", ENOUGH, network="toy")
    assert both["taken"] == "float32" and both["int8"]["refused"] == "unsupported"
    assert "no codes" in both["int8"]["why"]


def test_without_measured_layers_there_is_no_estimate_of_time(compared):
    both, _ = compared("--budget", ENOUGH, "--policy", "none")
    assert both["float32"]["seconds"] is None and both["float32"]["layers"] == 0
    assert both["float32"]["executed"] > 0


def without_times(facts: dict) -> dict:
    rows = {p: {**row, "seconds": None} for p, row in facts["precisions"].items() if isinstance(row, dict)}
    return {**facts, "precisions": {**facts["precisions"], **rows}}


def test_python_plans_what_the_command_plans(place, words, compared, tmp_path):
    _, shown = compared("--budget", ENOUGH, "--out", tmp_path / "shown.json")
    found = tinytrain.make_plan(place / "net.safetensors", place / "photos", ENOUGH)
    made = json.loads(json.dumps({**found.to_json(), "warnings": []}))
    assert without_times(made) == without_times(shown) and list(made) == list(shown)
    save_plan(tmp_path / "made.json", found.plan)
    assert (tmp_path / "made.json").read_bytes() == (tmp_path / "shown.json").read_bytes()
    report = tinytrain.adapt(place / "net.safetensors", place / "photos", ENOUGH)
    assert report.plan == found.plan and report.program.nbytes == found.program.nbytes
    with pytest.raises(tinytrain.base.errors.InputError, match="a plan is to be made by"):
        tinytrain.make_plan(place / "net.safetensors", place / "photos", policy=found.plan)


@pytest.fixture
def counted(monkeypatch):
    """How often planners are made, arenas laid out, and Fisher scoring is compiled and run."""
    counts = Counter()

    def count(owner, name):
        wrapped = getattr(owner, name)

        def counting(*arguments, **options):
            counts[name] += 1
            return wrapped(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    count(Planner, "__init__")
    count(candidates, "compile_fisher")
    count(candidates, "training_bytes")
    count(adaptation, "measure_fisher")
    return counts


def test_a_planner_that_was_made_has_compiled_nothing(counted):
    """Its precision is found when it is asked for."""
    planner = Planner(toy8(), TaskShape(6, 3), "tinytrain", Budget(10**6))
    assert counted == {"__init__": 1} and planner.precision == "float32"
    assert counted["training_bytes"] > 0


@each(
    "command, options, planners, scorings, probes",
    [
        ("plan", (), 2, 2, 3),  # one for each precision; the advice names what a single layer takes
        ("plan", ("--precision", "int8"), 2, 2, 3),
        ("plan", ("--policy", "none"), 2, 0, 0),
        ("adapt", (), 1, 1, 1),
        ("adapt", ("--verbose",), 1, 1, 2),
        ("adapt", ("--policy", "none"), 1, 0, 0),
    ],
)
def test_nothing_is_planned_or_scored_twice(words, counted, command, options, planners, scorings, probes):
    counted.clear()
    assert tt(command, *words("--budget", ENOUGH, *options)[1:]) == 0
    found = [counted[name] for name in ("__init__", "measure_fisher", "compile_fisher")]
    assert found == [planners, scorings, probes]
