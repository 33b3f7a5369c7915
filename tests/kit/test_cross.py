"""Kernels compiled for another processor are those that it would compile itself."""

import json
import struct
import subprocess
import sys

import pytest
from cases import each

from tinytrain.kernels.compile_cache.cache import NAME, packaged_for
from tinytrain.kernels.compile_cache.facts import settings
from tinytrain.kernels.dispatch.call_tools import tools
from tinytrain.kernels.dispatch.machine_code import packed, unpacked
from tinytrain.kernels.dispatch.target import PROCESSORS, X86, Target, target
from tinytrain.kit.same_code import main, running

numba = pytest.importorskip("numba")
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
# One that calls functions compiled into it, one that asks for the processor.
KERNELS = ("tinytrain.kernels.head.prototype_loss", "tinytrain.kernels.int8_dense.product_codes")
CROSS = f"""
import sys
from pathlib import Path
from tinytrain.kit.kernels import calls_of_all_kernels, compile_kernels
from tinytrain.kernels.dispatch.target import Target
calls = {{key: given for key, given in calls_of_all_kernels().items() if key[0].name in {KERNELS}}}
assert len(calls) == {len(KERNELS)}
compile_kernels(calls, Target(*sys.argv[2:]), Path(sys.argv[1]))
"""


def crossed(folder, processor: Target):
    """Machine code by kernel, compiled for `processor` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CROSS, str(folder), *processor], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    contents = {path.name: path.read_bytes()[32:] for path in packaged_for(processor, folder).iterdir()}
    assert all(NAME.fullmatch(name) for name in contents) and len(contents) == len(KERNELS) + 1
    return {
        name.partition("-")[0]: unpacked(c)[1]
        for name, c in contents.items()
        if "." in name.partition("-")[0]
    }


def native():
    """The same, as this process compiles for itself."""
    from tinytrain.kit.kernels import calls_of_all_kernels

    calls = calls_of_all_kernels().items()
    return {
        kernel.name: unpacked(kernel.machine_code(given))[1]
        for (kernel, _), given in calls
        if kernel.name in KERNELS
    }


@pytest.mark.slow
def test_code_compiled_beforehand_is_the_code_that_is_compiled_here(tmp_path):
    made, here = crossed(tmp_path, target()), native()
    assert made.keys() == here.keys()
    for name, code in here.items():
        assert running(made[name]) == running(code) != b"", name


@pytest.mark.slow
@each("name", PROCESSORS)
def test_there_is_code_for_every_processor(name, tmp_path):
    made = crossed(tmp_path / name, PROCESSORS[name])
    machine = ELF_MACHINES[PROCESSORS[name].triple.partition("-")[0]]
    assert {struct.unpack_from("<H", code, 18)[0] for code in made.values()} == {machine}


def test_every_kernel_is_called_once_without_compiling_any():
    code = (
        "import json, sys\n"
        "from tinytrain.kernels import NAMES\n"
        "from tinytrain.kit.kernels import calls_of_all_kernels\n"
        "names = [kernel.name.rpartition('.')[2] for kernel, _ in calls_of_all_kernels()]\n"
        "assert names.count('enter') == 2, 'items are uint8 or float32'\n"
        "print(json.dumps(sorted(set(NAMES) - set(names) - {'matmul', 'add_matmul'})))\n"
        "from tinytrain.kernels.kernel import Kernel\n"
        "print(Kernel.code.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    missing, module = done.stdout.splitlines()
    assert json.loads(missing) == [] and module == "tinytrain.kernels.kernel", done.stderr


def test_this_processor_is_one_that_code_is_compiled_for_or_is_older():
    if target().triple == X86 and not settings():
        assert target() in PROCESSORS.values() or "+avx2" not in target().features


def test_two_folders_of_kernels_are_compared_by_what_runs(tmp_path, capsys):
    code = tools()
    changed, at = bytearray(code), code.index(running(code)[:16])
    changed[at] ^= 1
    renamed = code.replace(b"tinytrain_runner", b"tinytrain_walker")
    for name, content in (("here", code), ("same", renamed), ("other", bytes(changed))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "toy.a-0123456789abcdef.kernel").write_bytes(bytes(32) + packed({}, content, b""))
    (tmp_path / "none").mkdir()
    for name, end in (("same", 0), ("other", 1), ("none", 1)):
        assert main([str(tmp_path / "here"), str(tmp_path / name)]) == end, name
    assert "1 kernels are in both; 1 differ: toy.a" in capsys.readouterr().out
