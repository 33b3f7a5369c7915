"""The folder of a kit, from an index of toy wheels, and what its script does with it."""

import configparser
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib import metadata

import pytest
from cases import each

from tinytrain.base.errors import InputError, UsageError
from tinytrain.cli.main import main
from tinytrain.kit import folder
from tinytrain.kit.folder import Device, make_kit
from tinytrain.kit.units import COMMANDS, unit
from tinytrain.network.file import save_network
from tinytrain.pipeline.toy import toy_network

DEVICE = Device("Toy $(echo Board) `no` \\$HOME", "cortex-a53", 512 * 2**20)
TOYS = ("numba", "llvmlite", "numpy")
NEEDED = "cp{0}{1}-cp{0}{1}-manylinux_2_28_{2}".format(*sys.version_info[:2], "aarch64")
MAIN = "import sys\nprint('tinytrain 0.0.1', sys.argv[1:])\n"


def write_wheel(index, name, version, tag, **files):
    file = index / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path.replace("__", "/", 1), text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return file


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A folder of wheels in place of an index: pip is asked as always, and finds nothing elsewhere."""
    index = tmp_path_factory.mktemp("index")
    for name in TOYS:
        write_wheel(index, name, metadata.version(name), NEEDED)
        write_wheel(index, name, "99.0", NEEDED)
        write_wheel(index, name, metadata.version(name), NEEDED.replace("aarch64", "x86_64"))
    return index


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_wheel(
        tmp_path_factory.mktemp("project"), "tinytrain_adapt", "0.0.1", "py3-none-any",
        **{"tinytrain____init__.py": "", "tinytrain____main__.py": MAIN},
    )  # fmt: skip


@pytest.fixture
def made(index, project, tmp_path, monkeypatch):
    """Makes a kit; its kernels are two files."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)

    def compile_kernels(processor, place):
        (place / "0123").mkdir()
        for name in ("a", "b"):
            (place / "0123" / f"{processor}.{name}").write_text(name)

    monkeypatch.setattr(folder, "_compile_kernels", compile_kernels)
    return lambda networks=("small",): make_kit(tmp_path / "kit", DEVICE, networks, project)


def files(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir())


def script(kit, *words, **variables):
    return subprocess.run(
        ["sh", str(kit / "install.sh"), *words], env=os.environ | variables, capture_output=True, text=True
    )


def test_a_kit_has_wheels_of_the_versions_here_for_the_board_and_everything_else(made, tmp_path):
    facts = made()
    wheels = [f"wheels/{name}-{metadata.version(name)}-{NEEDED}.whl" for name in TOYS]
    assert files(tmp_path / "kit") == sorted([
        "SHA256SUMS", "install.sh", "kernels/0123/cortex-a53.a", "kernels/0123/cortex-a53.b",
        "networks/tinytrain-small-2.safetensors", "units/tinytrain-serve.service",
        "units/tinytrain-watch.service", *wheels, "wheels/tinytrain_adapt-0.0.1-py3-none-any.whl",
    ])  # fmt: skip
    assert files(tmp_path) == [f"kit/{name}" for name in files(tmp_path / "kit")], "nothing is left beside it"
    for row in facts["files"]:
        data = (tmp_path / "kit" / row["file"]).read_bytes()
        assert (row["bytes"], row["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert facts["python"] == "{}.{}".format(*sys.version_info[:2]) and facts["unpacked"] > 0
    check = ["sha256sum", "--quiet", "-c", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path / "kit").returncode == 0


def test_without_a_wheel_the_kit_is_not_made_and_pip_is_quoted(made, index, tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "PINNED", ("numba", "no-such-thing"))
    monkeypatch.setattr(folder.metadata, "version", lambda name: "1.0")
    with pytest.raises(InputError, match=r"pip says: ERROR: .*numba") as caught:
        made()
    assert caught.value.code == "download-failed" and files(tmp_path) == []


def test_a_folder_in_which_something_lies_is_left_alone(made, tmp_path):
    (tmp_path / "kit").mkdir()
    made()
    with pytest.raises(UsageError, match="is there and not empty"):
        made()


def test_a_network_whose_name_could_run_in_the_script_is_refused(made, tmp_path):
    network = replace(toy_network(), name="toy$(reboot)")
    save_network(network, tmp_path / "toy.safetensors")
    with pytest.raises(InputError, match="letters and digits alone"):
        made(networks=[str(tmp_path / "toy.safetensors")])


def test_two_networks_of_one_name_are_refused_and_one_that_comes_twice_is_not(made, tmp_path):
    for k in range(2):
        network = replace(toy_network(seed=k), name="toy")
        save_network(network, tmp_path / f"{k}.safetensors")
    one, other = (str(tmp_path / f"{k}.safetensors") for k in range(2))
    with pytest.raises(InputError, match="is called toy, too"):
        made(networks=[one, other])
    assert "networks/toy.safetensors" in {row["file"] for row in made(networks=[one, one])["files"]}


def test_the_script_is_sound(made, tmp_path):
    made()
    assert subprocess.run(["sh", "-n", str(tmp_path / "kit" / "install.sh")]).returncode == 0
    assert "@" not in (tmp_path / "kit" / "install.sh").read_text().replace('"$@"', "")
    if shutil.which("shellcheck"):
        assert subprocess.run(["shellcheck", str(tmp_path / "kit" / "install.sh")]).returncode == 0


@pytest.fixture
def ready(made, tmp_path, monkeypatch):
    """A kit for this machine, and the folder that it is installed below."""
    monkeypatch.setattr(folder, "MACHINE", platform.machine())
    monkeypatch.setattr(folder, "PLATFORMS", [*folder.PLATFORMS, "manylinux_2_28_aarch64"])
    made()
    return tmp_path / "kit", {"ROOT": str(tmp_path / "root"), "PYTHON": sys.executable}


def test_the_script_says_what_it_will_do_and_does_nothing_without_a_yes(ready, tmp_path):
    kit, variables = ready
    for words, end in ((["--say"], 0), ([], 1), (["--no"], 1)):
        said = script(kit, *words, **variables)
        assert said.returncode == end and not (tmp_path / "root").exists()
        assert f"for a {DEVICE.title}, Python" in said.stdout and not said.stderr.partition("install.sh: ")[0]
        assert "unpack 4 wheels" in said.stdout and "tinytrain-watch.service" in said.stdout
        assert "tinytrain-small-2.safetensors" in said.stdout


def test_the_script_installs_and_installing_again_changes_nothing(ready, tmp_path):
    kit, variables = ready
    root = tmp_path / "root"
    first, again = (script(kit, "--yes", **variables) for _ in range(2))
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert "is there already" in again.stdout and "is there already" not in first.stdout
    (version,) = [p for p in (root / "opt/tinytrain").iterdir() if not p.is_symlink()]
    assert (root / "opt/tinytrain/current").resolve() == version and version.name.startswith(
        f"{metadata.version('tinytrain-adapt')}-"
    )
    assert (version / "tinytrain/kernels/compiled/0123/cortex-a53.a").read_text() == "a"
    assert (version / "networks/tinytrain-small-2.safetensors").exists()
    assert (root / "etc/systemd/system/tinytrain-watch.service").exists()
    command = (root / "usr/local/bin/tinytrain").read_text()
    (root / "run").write_text(command.replace("/opt/", f"{root}/opt/"))
    said = subprocess.run(["sh", str(root / "run"), "a b"], capture_output=True, text=True)
    assert said.stdout == "tinytrain 0.0.1 ['a b']\n", said.stderr


def test_after_a_power_cut_the_script_installs_the_new_version_whole(ready, tmp_path):
    kit, variables = ready
    place, tools = tmp_path / "root/opt/tinytrain", tmp_path / "my tools"
    (place / "before").mkdir(parents=True)
    (place / ".current.new").symlink_to("before")  # the power went here
    tools.mkdir()
    (tools / "sync").write_text('#!/bin/sh\nls "$ROOT/opt/tinytrain" >>"$ROOT/synced"\n')
    (tools / "sync").chmod(0o755)
    (tools / "python").symlink_to(sys.executable)
    variables |= {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHON": str(tools / "python")}
    done = script(kit, "--yes", **variables)
    assert done.returncode == 0, done.stderr
    assert (place / "current").resolve().name not in ("before", "current")
    assert (tmp_path / "root/synced").read_text().splitlines()[0] == "before", "bytes first, then their name"
    assert not list((place / "before").iterdir())
    assert f'exec "{tools}/python" -P' in (tmp_path / "root/usr/local/bin/tinytrain").read_text()


@each("what", ["a damaged wheel", "a missing kernel", "another Python", "a project that does not run"])
def test_what_does_not_fit_is_not_installed_and_the_version_before_stays(what, ready, tmp_path):
    kit, variables = ready
    current = tmp_path / "root/opt/tinytrain/current"
    current.parent.mkdir(parents=True, exist_ok=True)
    current.symlink_to("before")
    if what == "a damaged wheel":
        next(kit.glob("wheels/numpy*")).write_bytes(b"?")
    elif what == "a missing kernel":
        (kit / "kernels/0123/cortex-a53.a").unlink()
    elif what == "another Python":
        text = (kit / "install.sh").read_text()
        (kit / "install.sh").write_text(text.replace(f'"{platform.machine()} 3.', '"x 3.'))
    else:
        wheel = next(kit.glob("wheels/tinytrain*"))
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("tinytrain/__main__.py", "raise SystemExit(3)")
        check = f"cd {kit} && sha256sum wheels/* kernels/*/* > SHA256SUMS"
        subprocess.run(["sh", "-c", check], check=True)
    done = script(kit, "--yes", **variables)
    assert done.returncode == 1 and "install.sh: " in done.stderr
    assert os.readlink(current) == "before" and not (tmp_path / "root/usr/local/bin/tinytrain").exists()


@each("name", COMMANDS)
def test_units_can_be_read_and_confine_the_service(name):
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str
    parser.read_string(unit(name, 300 * 2**20))
    service = parser["Service"]
    assert {"Unit", "Service", "Install"} == set(parser.sections())
    assert service["ExecStart"].split()[:2] == ["/usr/local/bin/tinytrain", name]
    assert service["MemoryMax"] == "300M" and service["ProtectSystem"] == "strict"
    assert service["DynamicUser"] == "yes" and service["StateDirectory"] == "tinytrain"
    assert "MemoryDenyWriteExecute" not in service
    # A camera may be away for an hour (exit code 3), or hang.
    assert service["RestartPreventExitStatus"] == "2" and parser["Unit"]["StartLimitIntervalSec"] == "0"
    assert name != "watch" or "'timeout 30 " in service["ExecStart"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if shutil.which("systemd-analyze")])
def test_systemd_finds_nothing_to_say_about_the_units(name, tmp_path):
    text = unit(name, 300 * 2**20).replace("/usr/local/bin/tinytrain", "/bin/true")
    (tmp_path / f"tinytrain-{name}.service").write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / f"tinytrain-{name}.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and f"tinytrain-{name}" not in done.stderr, done.stderr


def test_a_board_without_numba_has_no_kit(tmp_path, capsys):
    assert main(["kit", "--board", "stm32h743", "-o", str(tmp_path / "kit")]) == 2
    err = capsys.readouterr().err
    assert "unsupported" in err and "cortex-a53" in err and not (tmp_path / "kit").exists()
