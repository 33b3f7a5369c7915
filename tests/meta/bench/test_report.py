"""Tables and pages of a report, from records whose figures are known."""

import itertools
import re

import pytest
import toybench
import toynets
from cases import each
from published import published_network
from readpage import Page
from toybench import record, written
from toygraphs import GRAPHS

from tinytrain.base.errors import InputError
from tinytrain.base.units import format_count
from tinytrain.meta.bench.accounting import memory_at_batch, saved_inputs
from tinytrain.meta.bench.document import Heading
from tinytrain.meta.bench.pages import write_report
from tinytrain.meta.bench.published import published, published_blocks
from tinytrain.meta.bench.rates import Rates, TunedRate, save_rates
from tinytrain.meta.bench.sections import figure
from tinytrain.meta.bench.statistics import Interval
from tinytrain.meta.bench.tables import tables
from tinytrain.plan.published_costs import peak_activation, with_head
from tinytrain.plan.recipe import Update
from tinytrain.policies import lora, sparse_update
from tinytrain.policies.registry import POLICIES

MIB = 2**20


def group_of(records):
    (group,) = tables(records)["groups"]
    return group


def test_accuracy_is_the_mean_by_pack_and_the_mean_of_the_packs():
    values = {"gtsrb": (0.4, 0.6), "dtd10": (0.8, 0.8, 0.8)}
    records = [record(pack=p, episode=k, after=v) for p, of in values.items() for k, v in enumerate(of)]
    (method,) = group_of(records)["methods"]
    assert method["accuracy"]["gtsrb"][0] == pytest.approx(50) and method["accuracy"]["dtd10"][2] == 3
    assert method["mean"][0] == pytest.approx(65)


def test_differences_are_paired_by_episode():
    none = [record(episode=k, after=v) for k, v in enumerate((0.2, 0.5, 0.9))]
    full = [record("full", episode=k, after=v) for k, v in enumerate((0.3, 0.6))]
    rows = {(d["a"], d["b"]): d["mean"] for d in group_of([*none, *full])["differences"]}
    assert rows["full", "none"] == (pytest.approx(10), pytest.approx(0, abs=1e-6), 2)
    assert rows["none", "full"][0] == pytest.approx(-10)


def test_a_policy_that_lacks_a_pack_has_no_mean_over_packs():
    group = group_of([record(), record(pack="dtd10"), record("full")])
    assert [m["mean"] is None for m in group["methods"]] == [False, True]
    assert all(d["mean"] is None for d in group["differences"])


def test_the_last_run_counts_and_mixed_code_is_told():
    found = tables([record(after=0.1), record(after=0.9, code="new")])
    assert found["runs"] == 1 and found["groups"][0]["methods"][0]["mean"][0] == pytest.approx(90)
    assert found["code"] == {"new": 1}


@each(
    ("name", "value"),
    [("rate_scale", 2.0), ("budget", 2 * 10**6), ("macs_share", 0.3), ("backbone_digest", "e")],
)
def test_a_label_that_was_run_with_two_settings_has_no_mean(name, value):
    records = [record(episode=0), record(episode=1, **{name: value})]
    with pytest.raises(InputError, match=f"none on mcunet-5fps was run with {name} .* and with {value}"):
        tables(records)
    again = record(episode=0, **{name: value})
    assert tables([*records, again])["runs"] == 2, "what was run again takes the place of what was there"


def test_backbones_are_compared_on_the_episodes_they_share():
    better = [record(episode=k, after=0.9, backbone="mcunet-near") for k in range(2)]
    (row,) = tables([*(record(episode=k) for k in range(3)), *better])["between"]
    assert (row["backbone"], row["reference"]) == ("mcunet-near", "mcunet-5fps")
    assert row["methods"][0]["mean"][0] == pytest.approx(10) and row["methods"][0]["mean"][2] == 2


def test_a_trained_backbone_is_compared_with_the_one_it_was_trained_from():
    names = ("mcunet-5fps", "mbv2-w0.35", "mbv2-meta")
    records = [record(episode=k, backbone=name) for name in names for k in range(2)]
    pairs = [(r["backbone"], r["reference"]) for r in tables(records, {names[2]: names[1]})["between"]]
    assert pairs == [("mbv2-w0.35", "mcunet-5fps"), ("mbv2-meta", "mbv2-w0.35")]
    assert {r["reference"] for r in tables(records)["between"]} == {names[0]}


def test_the_unadapted_lda_head_is_a_row_of_its_own():
    methods = group_of([record(), record("tinytrain", head="lda")])["methods"]
    assert [(m["label"], round(m["mean"][0])) for m in methods][1] == ("none + LDA head", 60)
    # A refused run has the accuracy of cosine prototypes, which is no LDA head's.
    refused = record(
        "tinytrain", refused="diverged", accuracy={"before_cosine": 0.5, "before": 0.5, "after": 0.5}
    )
    del refused["head"]
    methods = group_of([record(), refused, record("tinytrain", episode=1, head="lda")])["methods"]
    assert [(m["label"], round(m["mean"][0])) for m in methods][1] == ("none + LDA head", 60)


def test_a_method_whose_head_depends_on_the_task_says_nothing_about_lda_alone():
    mixed = [record(), record("tinytrain", head="lda"), record("tinytrain", episode=1, head="mild-lda")]
    assert "none + LDA head" not in [m["label"] for m in group_of(mixed)["methods"]]


def test_full_training_is_counted_at_batch_100_and_others_as_sparse_methods():
    methods = {m["label"]: m for m in group_of([record(), record("full"), record("tinytrain")])["methods"]}
    assert [methods[x]["cost"]["published"] for x in ("full", "tinytrain")] == [4000, 2000]
    assert [methods[x]["cost"]["batch_1"] for x in ("full", "tinytrain")] == [3000, 3000]
    assert [methods[x]["cost"]["backward_per_sample"] for x in ("full", "tinytrain")] == [100, 30]


def test_costs_are_the_most_bytes_and_the_mean_macs_and_seconds_of_the_episodes():
    first, second = record("tinytrain"), record("tinytrain", episode=1)
    for name in ("memory", "macs", "seconds"):
        second[name] = {k: v if k == "full_backward" else 3 * v for k, v in first[name].items()}
    for records in ([first, second], [second, first]):
        (method,) = group_of(records)["methods"]
        assert method["cost"] == {
            "arena": 3000, "published": 6000, "batch_1": 9000, "trained_parameters": 15,
            "backward_per_sample": 60, "backward_per_query": 40, "full_backward": 100, "total": 1000,
            "seconds": {"probe": 1.0, "training": 3.0},
        }  # fmt: skip


def test_refused_adaptations_are_counted_and_cost_nothing():
    refused = {
        k: v for k, v in record("full", refused="diverged").items() if k not in ("memory", "macs", "head")
    }
    found = tables([record(), refused | {"seconds": {"wall": 1.0}}])
    assert found["refused"] == 1 and found["groups"][0]["methods"][1]["cost"] is None


@pytest.mark.parametrize(
    ("name", "head", "mib"),
    [("mcunet-5fps", None, 902.7), ("mbv2-w0.35", 448, 1045.3), ("proxyless-w0.3", 384, 854.5)],
)
def test_full_training_at_batch_100_is_the_published_figure(name, head, mib):
    layers = published_network(name).layers
    layers = with_head(layers, head) if head else layers
    updates = [Update(i, tuple(range(layer.cout)), bias=True) for i, layer in enumerate(layers)]
    # The published count trains the scale and shift of every normalisation.
    numbers = sum(layer.n_weights + 2 * layer.cout for layer in layers)
    assert memory_at_batch(layers, updates, numbers, 100) / MIB == pytest.approx(mib, abs=0.06)
    assert memory_at_batch(layers, updates, numbers, 1) / MIB < 17


@each("size, kilobytes", list(enumerate((49.8, 74.8, 99.8, 125.0, 148.4))))
def test_saved_input_slices_are_those_of_sparse_updates_published_sizes(size, kilobytes):
    """Saved inputs in 8 bits are the largest part of the published memory of MCUNet's configurations."""
    network = published_network("mcunet-5fps")
    updates = sparse_update.updates_of(network, sparse_update.published(network)[size])
    biased = [network.layers[u.layer] for u in updates if u.bias]
    bits = 8 * (saved_inputs(network.layers, updates) + sum(u.n_weights(network) for u in updates))
    bits += sum(layer.out_size + 32 * layer.cout for layer in biased) + 8 * network.layers[-1].cout
    assert round(bits / 8 / 1024, 1) == kilobytes


def test_slices_save_the_channels_that_their_gradients_read():
    layers = toynets.toy("blocks").layers
    kinds = {layer.op: i for i, layer in enumerate(layers)}
    i, j = kinds["pointwise"], kinds["depthwise"]
    for layer, update, channels in (
        (layers[i], Update(i, (0,)), layers[i].cin),
        (layers[i], Update(i, (0,), inputs=(1, 2)), 2),
        (layers[j], Update(j, (0, 3, 4)), 3),
        (layers[j], Update(j, bias=True), 0),
    ):
        assert saved_inputs(layers, [update]) == channels * layer.in_hw[0] * layer.in_hw[1]


def test_a_pair_of_low_rank_saves_what_it_reads_and_all_from_its_layer_on():
    network = GRAPHS["tokens"]()
    (*_, pair) = network.possible_modules
    (down, up), above = pair.layers, network.layers[pair.first :]
    places = down.in_hw[0] * down.in_hw[1]
    gates = sum(layer.out_size for layer in above if layer.activation == "relu6")
    values = (down.cin + up.cin) * places + sum(layer.out_size for layer in (*above, down, up)) + gates
    updates = lora.updates_from(network, 1 / len(network.possible_modules))
    found = memory_at_batch(network.layers, updates, 7, 100, network.possible_modules)
    assert found == 7 * 16 + 100 * 4 * values


def test_nothing_trained_costs_the_peak_of_inference():
    layers = toynets.toy().layers
    assert memory_at_batch(layers, (), 0, 100) == peak_activation(layers)


def test_published_rows_name_what_they_compare():
    known = published()
    assert set(known["sets"]) == {"gtsrb", "omniglot", "flowers12", "dtd10"}
    for table in known["accuracy"].values():
        assert all(len(row) == len(known["sets"]) + 1 for row in table.values())
        assert set(known["methods"].values()) == set(table)
    assert set(known["methods"]) & set(POLICIES)


def rich_log(path):
    rows = []
    labels = (
        "none",
        "full",
        "sparse_update",
        "tinytrain",
        "tinytrain@30",
        "bias_only",
        "tinytl",
        "trady",
        "random",
    )
    for backbone, shots in itertools.product(("mcunet-5fps", "mcunet-near"), (1, 5, 10)):
        for k, label in enumerate(labels):
            for episode in range(3):
                row = record(
                    label, episode=episode, after=0.5 + 0.004 * k + 0.01 * episode, backbone=backbone
                )
                row["memory"] = row["memory"] | {"arena": 900_000 + 1000 * k}
                row["sampler"] = f"5-way {shots}-shot, 10 queries"
                rows.append(row)
    return written(path, *rows)


def test_the_report_is_one_page_that_loads_nothing_and_one_with_its_plots_beside_it(tmp_path):
    result = write_report([rich_log(tmp_path / "log")], tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    for tag, attributes in Page(page).found:
        assert tag != "script" and not {"src", "href", "srcset"} & attributes.keys()
    assert page.count("<svg") == 2 * (3 * 3 + 1)
    text = (tmp_path / "out" / "report.md").read_text()
    images = re.findall(r"\]\((\S+\.svg)\)", text)
    assert len(set(images)) == page.count("<svg")
    assert all((tmp_path / "out" / name).is_file() for name in images)
    assert sorted(result["files"]) == sorted(str(path) for path in (tmp_path / "out").iterdir())
    for wanted in ("What differs", "Traffic", "906", "mcunet-near minus mcunet-5fps", "95 %", "Student's t"):
        assert wanted in text and wanted.replace("'", "&#x27;") in page


def lines_of(tmp_path, records):
    """Lines of the Markdown page about `records`."""
    write_report([written(tmp_path / "log", *records)], tmp_path / "out")
    return (tmp_path / "out" / "report.md").read_text().splitlines()


def test_costs_stand_under_their_headings_with_their_units(tmp_path):
    made = record("full", budget=7_000_000)
    made["memory"] = {"arena": 1234567, "paper": 1, "batch_1": 2 * MIB, "batch_100": 3 * MIB,
                      "trained_parameters": 4321}  # fmt: skip
    made["macs"] = {"backward_per_sample": 1, "backward_per_query": 2.5e6, "full_backward": 10**7,
                    "total": 6 * 10**9}  # fmt: skip
    lines = lines_of(tmp_path, [made])
    at = next(i for i, line in enumerate(lines) if line.startswith("| policy | budget, bytes"))
    row = dict(zip(*([c.strip() for c in lines[k].strip("|").split("|")] for k in (at, at + 2)), strict=True))
    assert row == {
        "policy": "full", "budget, bytes": "7,000,000", "arena, bytes": "1,234,567",
        "as published, MiB": "3.000", "equal batch 1, MiB": "2.000", "trained numbers": "4,321",
        "backward MACs per image": format_count(10**7), "per pseudo-query": "25.0 %",
        "total MACs": format_count(6 * 10**9), "seconds": "2.00",
    }  # fmt: skip
    assert "| mcunet-5fps: FullTrain / full | 906 | 3.00 | 44.9 | 10.00 |" in lines


def test_published_accuracies_stand_beside_those_of_the_same_pack(tmp_path):
    lines = lines_of(tmp_path, [record("full", "gtsrb", after=0.25), record("full", "dtd10", after=0.5)])
    assert "| FullTrain / full | 82.0 | 25.0 | 74.6 | 50.0 |" in lines


def test_mixed_code_and_refused_adaptations_are_told_and_only_they(tmp_path):
    told = ("different versions of the code", "1 adaptations were refused")
    plain, mixed = record(), record(episode=1, code="new", refused="diverged")
    for records, wanted in (([plain], False), ([plain, mixed], True)):
        text = "\n".join(lines_of(tmp_path, records))
        assert [words in text for words in told] == [wanted] * 2


def test_the_report_shows_the_trials_of_learning_rates_and_names_what_is_at_the_edge(tmp_path):
    found = {
        "full": TunedRate(1.0, 1.0, False, (0.5, 0.7, 0.6)),
        "l2": TunedRate(0.5, 0.5, True, (0.9, 0.8, 0.7)),
    }
    save_rates(tmp_path / "rates", Rates("net", ("caltech101",), "s", 20, "c", (0.5, 1.0, 2.0), found))
    write_report([rich_log(tmp_path / "log")], tmp_path / "out", tmp_path / "rates")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| full | 50.0 | **70.0** | 60.0 |" in text and "| l2 | **90.0** |" in text
    assert "may lie beyond it: l2." in text and "caltech101" in text


def test_differences_of_the_default_policy_are_shown_by_pack_and_bold_where_clear_of_zero(tmp_path):
    rows = [record(label, pack, k, after) for label, after in (("none", 0.5), ("tinytrain", 0.6))
            for pack in ("gtsrb", "dtd10") for k in range(3)]  # fmt: skip
    line = "| tinytrain - none | **+10.00 ±0.00** | **+10.00 ±0.00** | **+10.00 ±0.00** |"
    assert line in lines_of(tmp_path, rows)
    rows[-1]["accuracy"]["after"] = 0.4  # differences of 10, 10 and -10 points
    line = "| tinytrain - none | **+10.00 ±0.00** | +3.33 ±28.68 | +6.67 ±14.34 |"
    assert line in lines_of(tmp_path, rows)


def test_only_what_is_like_the_published_protocol_stands_beside_it():
    def headings(sampler):
        return [
            b.text for b in published_blocks([group_of([record(sampler=sampler)])]) if isinstance(b, Heading)
        ]

    assert "MCUNet / mcunet-5fps, 5-way 5-shot, 10 queries" in headings("5-way 5-shot, 10 queries")
    assert headings("Meta-Dataset, support up to 100")
    for shots in ("5-way 1-shot", "2-way 5-shot", "15-way 5-shot"):
        assert not headings(f"{shots}, 10 queries")


def test_an_empty_log_is_refused(tmp_path):
    (tmp_path / "log").write_text("")
    with pytest.raises(InputError, match="hold 0 records"):
        write_report([tmp_path / "log"], tmp_path / "out")


def test_figures_are_rounded_for_people():
    assert figure(Interval(50.04, None, 1)) == "50.0"
    assert figure(Interval(-0.123, 0.456, 9), signed=True) == "-0.12 ±0.46" and figure(None) == "-"


def test_what_a_matrix_plans_and_the_logs_lack_is_in_the_report(tmp_path):
    cell = {"backbones": ["toy"], "packs": ["signs"], "policies": ["none", "full"], "episodes": 2}
    matrix = toybench.write(tmp_path, cells=[cell])
    made = [record("none", "signs", k, backbone="toy") for k in range(2)]
    log = written(tmp_path / "log", *made)
    found = write_report([log], tmp_path / "out", matrix=matrix)["missing"]
    assert [(r["label"], r["missing"], r["planned"]) for r in found] == [("full", 2, 2)]
    assert "| full | toy | 5-way 5-shot, 10 queries | 2 | 2 |" in (tmp_path / "out/report.md").read_text()
    written(log, *(r | {"label": label} for r in made for label in ("none", "full")))
    assert write_report([log], tmp_path / "out", matrix=matrix)["missing"] == []
    assert "Missing of the matrix toy\n\nNothing." in (tmp_path / "out/report.md").read_text()


def test_a_report_compares_backbones_as_its_matrix_says(tmp_path):
    names = ("first", "start", "toy")
    cell = {"backbones": names, "packs": ["signs"], "policies": ["none"], "episodes": 1}
    trained = {"toy": {"file": "toy.safetensors", "trained_from": "start"}}
    matrix = toybench.write(tmp_path, cells=[cell], backbones=trained)
    log = written(tmp_path / "log", *(record("none", "signs", backbone=name) for name in names))
    for given, reference in ((matrix, "start"), (None, "first")):
        between = write_report([log], tmp_path / "out", matrix=given)["between"]
        assert {row["backbone"]: row["reference"] for row in between} == {"start": "first", "toy": reference}


def test_a_report_of_some_packs_and_of_the_first_episodes(tmp_path):
    cell = {"backbones": ["toy"], "packs": ["signs", "leaves"], "policies": ["none"], "episodes": 3}
    matrix = toybench.write(tmp_path, cells=[cell])
    packs = (("signs", 1.0), ("leaves", 0.0))
    made = [record("none", pack, k, after=a, backbone="toy") for pack, a in packs for k in range(2)]
    log = written(tmp_path / "log", *made)

    def found(**part):
        facts = write_report([log], tmp_path / "out", matrix=matrix, **part)
        return facts["runs"], facts["groups"][0]["methods"][0]["mean"][0], facts["missing"]

    assert found()[:2] == (4, 50) and found()[2][0]["missing"] == 2
    assert found(packs=["signs"], episodes=2) == (2, 100, [])
    assert found(packs=["leaves"], episodes=1) == (1, 0, [])
    with pytest.raises(InputError, match="none of pack 'sings'; there are leaves, signs"):
        write_report([log], tmp_path / "out", packs=["signs", "sings"])
    written(log, *(row for row in made if row["pack"] == "signs"))
    assert found(packs=["signs", "leaves"])[2], "what the log lacks of the matrix is said"
