"""One loader for all YAML files: a hostile or faulty file gives one line, quickly."""

import os
import time

import pytest
import toybench
import toyruns
import yaml
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.base.yaml_file import MAX_BYTES, read_yaml
from tinytrain.firmware_sim.boards.board import load_boards
from tinytrain.meta.bench.matrix import load_matrix
from tinytrain.meta.bench.rates import Rates, TunedRate, load_rates, save_rates
from tinytrain.meta.training.recipe import load_recipe

LOADERS = {
    "recipe": lambda path: load_recipe(path, "meta-train"),
    "matrix": load_matrix,
    "rates": load_rates,
    "boards": load_boards,
}
LAUGHS = "name: [&a [x, x, x, x, x, x, x, x, x]" + "".join(
    f", &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 10)
)
# (content of a file, words of the message).
HOSTILE = {
    "aliases of aliases": (LAUGHS + "]", "holds more than 100,000 values with its aliases"),
    "merged tables of merged tables": (MERGES, "holds more than 100,000 values with its aliases"),
    "a list in itself": ("a: &a [*a]", "is an alias of a node that contains it"),
    "a chain of lists": ("\n".join(f"- &x{i + 1} [*x{i}]" for i in range(900)).replace("*x0", "1"), "deeper"),
    "deep nesting": ("name: " + "[" * 40_000, "line 1 is nested deeper than 20 levels"),
    "deep tables": ("\n".join(" " * i + "a:" for i in range(300)), "is nested deeper than 20 levels"),
    "a date that is none": ("name: 2001-99-99", "line 1 is tag:yaml.org,2002:timestamp, not text"),
    "a date": ("name: 2001-01-01", "not text or a number; put it in quotes"),
    "6,000 digits": ("name: " + "9" * 6000, "line 1 is a number of more than 100 digits"),
    "9,000 hexadecimal digits": ("name: 0x" + "f" * 9000, "is a number of more than 100 digits"),
    "minutes of minutes": ("name: 1" + ":59" * 400 + ".0", "is a number of more than 100 digits"),
    "a key twice": ("name: a\nseed: 1\nname: b", "name occurs twice, the second time in line 3"),
    "a key twice inside": ("a: {b: 1, b: 2}", "b occurs twice, the second time in line 1"),
    "a key that is a number": ("1: 2", "line 1 has a key that is not text; put it in quotes"),
    "a key that is on": ("on: 2", "line 1 has a key that is not text; put it in quotes"),
    "a key that is a list": ("? [a]\n: 1", "line 1 has a key that is not text"),
    "a key that is infinite": (".inf: 1", "line 1 has a key that is not text"),
    "bytes": ("name: !!binary '%%'", "not text or a number"),
    "a number that is none": ("name: !!int ''", "a value does not match its tag"),
    "a truth that is none": ("name: !!bool x", "a value does not match its tag ('x'); correct it"),
    "a long truth": ("name: !!bool " + "x" * 50_000, "a value does not match its tag ('xxx"),
    "a call": ("name: !!python/object/apply:os.getcwd []", "not text or a number"),
    "an alias of nothing": ("name: *" + "x" * 50_000, "is not YAML"),
    "a control character": ('name: "\x01"', "is not YAML"),
    "no UTF-8": (b"name: \xff", "is not YAML"),
    "two documents": ("a: 1\n---\nb: 2", "is not YAML"),
    "a long key": ("x" * 50_000 + ": 1", "xxx"),
    "too many bytes": ("#" * (MAX_BYTES + 1), "file-kind"),
    "nothing": ("", "file-damaged"),
}


@each("name", HOSTILE)
@each("kind", LOADERS)
def test_hostile_yaml_is_refused_quickly_in_one_short_line(tmp_path, kind, name):
    content, said = HOSTILE[name]
    path = tmp_path / "mine.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    started = time.process_time()
    with pytest.raises(InputError) as refused:
        LOADERS[kind](path)
    assert time.process_time() - started < 5
    assert said in str(refused.value)
    assert str(refused.value).count("; ") == 1, "one remedy"
    assert len(str(refused.value)) < 1000 + len(str(path))


@each("kind", LOADERS)
def test_a_pipe_a_device_and_a_folder_are_no_yaml_files(tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(InputError, match="name a regular file") as refused:
            LOADERS[kind](path)
        assert refused.value.code == "file-kind"


@pytest.mark.slow
def test_the_largest_file_of_values_is_read_in_seconds(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("[" + "1," * (MAX_BYTES // 2 - 1) + "]")
    started = time.process_time()
    assert len(read_yaml(path, "mine")) == MAX_BYTES // 2 - 1
    assert time.process_time() - started < 30


def test_values_aliases_and_merged_tables_are_read_as_before(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "a: &a {x: 1, y: [.inf, -2, 1.5, no, ~, text]}\nb: *a\nc: {<<: *a, x: 3}\n'1': \"2001-01-01\""
    )
    found = read_yaml(path, "mine")
    assert found == yaml.safe_load(path.read_text())
    assert found["c"] == {"x": 3, "y": [float("inf"), -2, 1.5, False, None, "text"]}


def test_infinite_values_are_refused_by_name(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(toyruns.content(tmp_path) | {"seed": float("inf")}))
    with pytest.raises(InputError, match="seed is inf; allowed: a whole number"):
        LOADERS["recipe"](path)
    with pytest.raises(InputError, match="memory is inf; allowed: for example 1MB"):
        load_matrix(toybench.write(tmp_path, memory=float("inf")))


@pytest.mark.parametrize(
    ("tuned", "said"),
    [
        (
            TunedRate(3.0, 1.0, False, (0.5, 0.6)),
            r"policies\.full\.scale is 3\.0; allowed: a factor of the grid",
        ),
        (
            TunedRate(1.0, 3.0, False, (0.5, 0.6)),
            r"policies\.full\.best is 3\.0; allowed: a factor of the grid",
        ),
        (TunedRate(1.0, 1.0, False, (0.5,)), r"policies\.full\.accuracy is \[0\.5\]; allowed: 2 figures"),
    ],
)
def test_rates_beside_their_grid_are_refused(tmp_path, tuned, said):
    path = tmp_path / "rates.yaml"
    save_rates(path, Rates("toy", ("signs",), "any", 2, "abc", (1.0, 2.0)))
    whole = yaml.safe_load(path.read_text())
    row = {"scale": tuned.scale, "best": tuned.best, "edge": tuned.edge, "accuracy": list(tuned.accuracy)}
    path.write_text(yaml.safe_dump(whole | {"policies": {"full": row}}))
    with pytest.raises(InputError, match=said):
        load_rates(path)
