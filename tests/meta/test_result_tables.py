"""The tables of RESULTS.md have the figures of their logs: small ones, whose figures are plain to see."""

from tinytrain.meta.result_tables import FEW, HEADLINE, NET, PACKS, TABLES

LABELS = (*HEADLINE, "random", "l2")


def cells(name: str, *logs: list[dict]) -> dict[tuple, list[str]]:
    """The rows of a table by their first cell; of rows that are called alike the last one."""
    header, *rows = map(list, TABLES[name][0](*logs))
    assert all(len(row) == len(header) for row in rows)
    return {row[0]: row[1:] for row in rows}


def runs(label: str, after: float, before: float = 0.5, backbone: str = NET, episodes=(0, 1), **more) -> list:
    """Episodes of every pack; those with an odd number are a tenth better, and cost twice as much."""
    return [
        {
            "backbone": backbone, "label": label, "sampler": "5-way 5-shot, 10 queries", "pack": pack,
            "episode": k, "seed": 0, "accuracy": {"before": before, "after": after + k % 2 / 10},
            "memory": {"arena": 1000 * (1 + k % 2)}, "macs": {"total": 2e9 * (1 + k % 2)},
            "seconds": {"total": 0.5 * (1 + k % 2)}, **more,
        }
        for pack in PACKS
        for k in episodes
    ]  # fmt: skip


def test_the_headline_has_means_of_packs_and_the_largest_arena_of_each_method():
    rows = [row for label in LABELS for row in runs(label, 0.6)] + runs("tinytrain", 0.8, before=0.7)
    other = runs("full", 0.0, backbone="another") + runs("full", 0.0, sampler="5-way 1-shot, 10 queries")
    found = cells("headline", rows + other)
    assert found["full"][0].startswith("65.0 ±") and found["default"][0].startswith("85.0 ±")
    assert found["full"][1:] == ["2,000", "3.0 G", "0.75", "2"]
    assert found["LDA head alone"] == ["70.0 ±0.0", "-", "-", "-", "2"]


def test_a_claim_holds_if_the_paired_difference_is_clear_of_zero_and_above_it():
    rows = [row for label in LABELS for row in runs(label, 0.6)]
    rows += runs("tinytrain", 0.7) + runs("none", 0.5, episodes=(0,)) + runs("none", 0.3, episodes=(1,))
    lead = runs("tinytrain", 0.6) + runs("sparse_update", 0.65) + runs("tinytrain@30", 0.6)
    found = cells("claims", rows, lead)
    assert found["default above full training"] == ["", "**+10.00 ±0.00**", "yes"]
    assert found["default above none"] == ["", "**+30.00 ±11.50**", "yes"]
    assert found["as published above SparseUpdate"] == ["+1.3", "+0.00 ±0.00", "no"]
    assert found["TinyTrain as published above the unadapted network"][1:] == ["**+20.00 ±11.50**", "yes"]
    assert found["the same with `--macs 30%`"] == ["", "**-5.00 ±0.00**", "no"]


def test_larger_networks_are_compared_on_the_first_episodes_with_the_head_alone_of_the_same_network():
    rows = [row for label in ("tinytrain", "tinytrain@30") for row in runs(label, 0.6)]
    late = [
        row for x in ("none_lda", "tinytrain") for row in runs(x, 0.0, backbone="medium", episodes=(FEW,))
    ]
    tiers = late + [row for net in ("medium", "large") for row in runs("none_lda", 0.55, backbone=net)]
    for label in ("tinytrain", "tinytrain@30", "sparse_update"):
        tiers += runs(label, 0.6, backbone="medium")
    found = cells("sizes", rows, tiers + runs("tinytrain@30/4MB", 0.75, backbone="large"))
    assert found["mcunet-5fps meta-trained, default"][-1] == "**+5.00 ±0.00**"
    assert found["the same, `--macs 30%`, 4 MB"][-1] == "**+20.00 ±0.00**"
    assert found["efficientnet-lite0 meta-trained, LDA head alone"][1:] == ["2,000", "3.0 G", ""]
    assert found["mcunet-5fps as published, default"][-1].startswith("**+15.00 ±")


def test_the_first_job_is_judged_by_the_gain_above_a_new_head_on_the_same_images():
    rows = [
        {"label": label, "accuracy": {"before_cosine": 0.4, "before": k, "after": k + 0.2}}
        for k in (0.5, 0.7)
        for label in ("tinytrain", "none")
    ]
    found = cells("first_job", rows)
    assert found["as it is, cosine prototypes"][0] == "40.0 ±0.0"
    assert found["adapted by default"] == ["80.0 ±127.1", "**+20.00 ±0.00**"], "paired, though both differ"


def of_forms(pack: str, episode: int, **forms) -> dict:
    return {"pack": pack, "episode": episode, "forms": forms}


def test_of_two_versions_the_last_rows_of_the_same_episodes_are_compared():
    def log(accuracy: float, macs: float, episodes, packs=PACKS) -> list[dict]:
        facts = {"accuracy": accuracy, "executed": macs, "seconds": macs / 1e10}
        return [of_forms(p, k, **{f"policy@{n}%": facts for n in (15, 30)}) for p in packs for k in episodes]

    before, after = log(0.5, 4e10, range(3)), log(0.1, 9e10, (0, 1)) + log(0.6, 2e10, (0, 1))
    other = [log(accuracy, 1e10, (0, 1), ["signs"]) for accuracy in (0, 1)]
    found = cells("halved", after + other[0] + [of_forms("gtsrb", 9)], before + other[1])
    figures = ["50.0 ±0.0", "60.0 ±0.0", "**+10.00 ±0.00**", "40.0 G", "20.0 G", "4.00", "2.00"]
    assert list(found.values()) == [figures] * 2


def test_in_int8_differences_are_paired_and_costs_are_medians():
    def facts(accuracy: float, cost: int) -> dict:
        return {"accuracy": accuracy, "parameters": cost, "arena": 10 * cost}

    rows = [
        of_forms(p, k, **{
            "none@1MB": facts(0.4, 0), "float32@1MB": facts(0.5 + k / 10, 7),
            "int8@1MB": facts(0.6 + k / 10, k**3), "int8@256KB": facts(0.7 - k / 10, 1000 * k),
        })
        for p in PACKS for k in range(3)
    ]  # fmt: skip
    found = cells("int8", rows)
    assert found["unadapted, LDA head"][0] == "40.0 ±0.0" and found["float32, 1MB"][1:] == ["", "7", "70"]
    assert found["int8, 1MB"][1:] == ["**+10.00 ±0.00**", "1", "10"]
    assert found["int8, 256KB"][1].endswith("0.00 ±11.51") and found["int8, 256KB"][2:] == ["1,000", "10,000"]


def test_what_the_guard_refused_is_counted_by_rate_and_by_shots():
    estimates = [{"rate": rate, "accepted": k >= 10 * rate} for rate in (0, 0.2) for k in range(10)]
    strangers = [{"shots": shots, "accepted": k > 0} for shots in (1, 5) for k in range(2 * shots)]
    _, *rows = TABLES["guard"][0](estimates, strangers)
    assert [row[2:] for row in rows] == [("10", "0 %"), ("10", "20 %"), ("10", "10 %"), ("2", "50 %")]
