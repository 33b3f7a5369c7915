"""The tables of RESULTS.md have the figures of their logs: small ones, whose figures are plain to see."""

from tinytrain.meta.result_tables import (
    AS_IT_IS,
    FIFTEEN,
    FORM,
    LARGE,
    METHODS,
    NAMES,
    NET,
    PACKS,
    PAIRS,
    PUBLISHED,
    SMALL,
    SPARSE,
    TABLES,
    THIRTY,
    THREE,
)  # fmt: skip

LABELS = ("none", "last_layer", "sparse_update", "tinytrain_published", "tinytrain", "full", "random", "l2")


def cells(name: str, *logs: list[dict]) -> dict[tuple, list[str]]:
    """The rows of a table by their first cell; of rows that are called alike the last one."""
    header, *rows = map(list, TABLES[name][0](*logs))
    assert all(len(row) == len(header) for row in rows)
    return {row[0]: row[1:] for row in rows}


def runs(label: str, after: float, episodes=(0, 1), **more) -> list[dict]:
    """Episodes of every pack; those with an odd number are a tenth better."""
    return [
        {
            "backbone": NET, "label": label, "sampler": "5-way 5-shot, 10 queries", "pack": pack,
            "episode": k, "seed": 0, "accuracy": {"after": after + k % 2 / 10}, **more,
        }
        for pack in PACKS
        for k in episodes
    ]  # fmt: skip


def episodes(
    network: str, forms: dict[str, tuple[float, float]], shots: int = 5, count: int = 2
) -> list[dict]:
    """Rows of the study of operations: by form the accuracy, and that of the head before it.

    Accuracies of odd episodes are a tenth better, and cost twice as much.
    """
    settings = {"network": network, "shots": shots}
    return [
        {
            "pack": pack, "episode": k, "settings": settings,
            "forms": {
                form: {
                    "accuracy": after + k / 10, "before": before + k / 10, "arena": 1000 * (1 + k),
                    "executed": 2e9 * (1 + k), "seconds": 0.5 * (1 + k),
                }
                for form, (after, before) in forms.items()
            },
        }
        for pack in PACKS
        for k in range(count)
    ]  # fmt: skip


def all_methods() -> tuple[list[dict], list[dict]]:
    forms = [AS_IT_IS, PUBLISHED, SPARSE, FIFTEEN, THIRTY]
    rows = [row for n in METHODS for row in episodes(n, dict.fromkeys(forms, (0.6, 0.5)))]
    return rows, episodes(LARGE, {FORM: (0.4, 0.4)})


def test_methods_have_means_of_packs_differences_to_the_head_alone_and_costs():
    rows, first = all_methods()
    other = episodes(NET, {THIRTY: (0.0, 0.0)}, shots=1)
    _, *found = TABLES["methods"][0](rows + other, first)
    cells = {row[:2]: row[2:] for row in found}
    trained = cells[NET, "default, `--macs 30%`"]
    assert trained[0].startswith("65.0 ±") and trained[2:] == ("2,000", "3.0 G", "0.75", "10")
    assert trained[1] == "**+10.00 ±0.00**"
    assert cells[NET, "new head alone (LDA)"][0].startswith("55.0 ±")
    assert cells[LARGE, NAMES[FORM]][0].startswith("45.0 ±")
    assert len(cells) == sum(map(len, METHODS.values()))


def test_pairs_are_compared_on_the_episodes_that_both_have():
    rows, first = all_methods()
    _, *found = TABLES["pairs"][0](rows + episodes(THREE, {THIRTY: (0.7, 0.5)}, count=1), first)
    last = found[-1]
    assert last[0].startswith(THREE) and last[1] == f"{LARGE}, {NAMES[FORM]}"
    assert last[2].startswith("**+25.00 ±") and last[3] == "10"
    assert len(found) == len(PAIRS)


def test_shots_have_rows_of_what_was_run():
    rows = episodes(NET, {THIRTY: (0.9, 0.8)}, shots=20) + episodes(SMALL, {FIFTEEN: (0.3, 0.3)}, shots=1)
    _, *found = TABLES["shots"][0](rows + episodes(SMALL, {THIRTY: (0.3, 0.3)}, shots=1))
    assert [row[:3] for row in found] == [
        ("1", SMALL, "default"), ("1", SMALL, "default, `--macs 30%`"), ("20", NET, "default, `--macs 30%`"),
    ]  # fmt: skip
    assert found[-1][4] == "**+10.00 ±0.00**"


def test_a_claim_holds_if_the_paired_difference_is_clear_of_zero_and_above_it():
    rows = [row for label in LABELS for row in runs(label, 0.6)]
    rows += runs("full", 0.7) + runs("none", 0.5, episodes=(0,)) + runs("none", 0.3, episodes=(1,))
    other = runs("full", 0.0, backbone="another") + runs("full", 0.0, sampler="5-way 1-shot, 10 queries")
    found = cells("claims", rows + other)
    assert found["full training above TinyTrain as published"] == ["+1.3", "**+10.00 ±0.00**", "yes"]
    assert found["as published above SparseUpdate"] == ["+1.3", "+0.00 ±0.00", "no"]
    assert found["TinyTrain as published above the unadapted network"][1:] == ["**+20.00 ±11.50**", "yes"]


def test_the_first_job_compares_the_network_as_it_is_and_adapted_with_the_new_head_alone():
    accuracies = [{"before_cosine": 0.4 + k, "before": 0.6 + k, "after": 0.9 + k} for k in (0, 0.1)]
    rows = [{"label": "tinytrain", "accuracy": accuracy} for accuracy in accuracies]
    other = [{"label": "none", "accuracy": dict.fromkeys(accuracies[0], 0.0)}]
    found = list(cells("first_job", rows + other).values())
    assert [row[0].split(" ±")[0] for row in found] == ["45.0", "65.0", "95.0"]
    assert [row[1] for row in found] == ["**-20.00 ±0.00**", "", "**+30.00 ±0.00**"]


def of_forms(pack: str, episode: int, **forms) -> dict:
    return {"pack": pack, "episode": episode, "forms": forms}


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
