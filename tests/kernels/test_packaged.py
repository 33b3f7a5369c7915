"""Kernels that come with the package: used where they are what would be compiled here, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import each

from tinytrain.kernels.compile_cache import cache as jitcache
from tinytrain.kernels.compile_cache import facts as jitfacts
from tinytrain.kernels.dispatch.target import LEVELS, NAMED, PROCESSORS, X86, level, target
from tinytrain.kernels.kernel import Kernel

pytest.importorskip("numba")
COMPILED = []  # times that the source of the toy kernel was asked for


def add_two(total):
    total[0] += np.float32(2)


class Counted(Kernel):
    """A kernel that says when it is compiled."""

    def source(self):
        COMPILED.append(self.name)
        return super().source()


def total_of(cache):
    """What the toy kernel computes with this cache, and whether it was compiled for that."""
    COMPILED.clear()
    total = np.zeros(1, np.float32)
    Counted("toy.add_two", add_two, cache)(total)
    return total[0], bool(COMPILED)


def cache_of(folder, packaged):
    return jitcache.Cache(folder, folder is not None, None, {}, jitcache._brought(packaged))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder of packaged kernels, with the toy kernel."""
    folder = tmp_path_factory.mktemp("compiled") / "0123456789abcdef"
    folder.mkdir()
    assert total_of(jitcache.Cache(folder, True, None, {})) == (2, True)
    return folder


def test_a_packaged_kernel_runs_without_a_compiler_and_without_a_cache_folder(package, tmp_path):
    assert total_of(cache_of(None, package)) == (2, False)
    (tmp_path / "jit").write_text("no folder")
    cache = jitcache.open_cache(tmp_path / "jit", package)
    assert cache.warning is None and total_of(cache) == (2, False)
    assert jitcache.open_cache(tmp_path / "jit", tmp_path / "none").warning


def test_a_packaged_kernel_that_is_damaged_is_compiled_here_and_kept(package, tmp_path):
    (file,) = package.iterdir()
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / file.name).write_bytes(data)
    (tmp_path / "own").mkdir()
    for compiled in (True, False):
        assert total_of(cache_of(tmp_path / "own", tmp_path / "package")) == (2, compiled)


def test_a_packaged_kernel_may_belong_to_anybody(package, monkeypatch):
    """As the sources beside it may; a file of the cache may not."""
    (file,) = package.iterdir()
    monkeypatch.setattr("tinytrain.kernels.compile_cache.folder._trusted", lambda: {12345})
    with pytest.raises(OSError, match="no file of this user"):
        jitcache.Cache(package, True, None, {}).read(file.name)
    assert total_of(cache_of(None, package)) == (2, False)


def versions(monkeypatch, **changed):
    known = {name: jitfacts.library_version(name) for name in jitfacts.LIBRARIES}
    monkeypatch.setattr(jitfacts, "library_version", lambda name: (known | changed)[name])


@each(
    "change",
    ["numba", "llvmlite", "numpy's minor", "python's minor", "python's build", "sources", "processor"],
)
def test_what_was_packaged_for_something_else_is_not_looked_at(change, monkeypatch):
    before, processor = jitcache.packaged_for(target()), target()
    if change in ("numba", "llvmlite"):
        versions(monkeypatch, **{change: "0.1.2"})
    elif change == "numpy's minor":
        versions(monkeypatch, numpy="1.2.3")
    elif change == "python's minor":
        monkeypatch.setattr("platform.python_version_tuple", lambda: ("3", "99", "1"))
    elif change == "python's build":
        monkeypatch.setattr("sys.abiflags", "t")
    elif change == "sources":
        monkeypatch.setattr(jitfacts, "sources_digest", lambda: "other")
    else:
        processor = target()._replace(features="+other")
    assert jitcache.packaged_for(processor) != before


def test_another_patch_of_python_or_numpy_and_another_folder_are_the_same(monkeypatch):
    before = jitcache.packaged_for(target(), Path("there"))
    version = jitfacts.library_version("numpy").split(".")
    versions(monkeypatch, numpy=".".join([*version[:2], "99"]))
    monkeypatch.setattr("platform.python_version_tuple", lambda: (*map(str, sys.version_info[:2]), "99"))
    monkeypatch.setattr(jitfacts, "KERNELS", Path("elsewhere"))
    assert jitcache.packaged_for(target(), Path("there")) == before


def test_a_setting_of_numba_that_changes_code_leaves_packaged_kernels_out():
    code = (
        "from tinytrain.kernels.compile_cache import cache\n"
        "cache._brought = lambda folder: {'found': folder} if folder else {}\n"
        "from tinytrain.kernels.kernel import CACHE\n"
        "print(len(CACHE.packaged))"
    )
    for variables, found in (({}, 1), (dict.fromkeys(NAMED, ""), 1), ({"NUMBA_OPT": "1"}, 0)):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(**variables), capture_output=True, text=True
        )
        assert done.stdout.split() == [str(found)], done.stderr


def environment(**variables):
    return {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")} | variables


@each("name", LEVELS)
def test_a_processor_is_of_the_highest_level_whose_features_it_has(name):
    features = dict.fromkeys(LEVELS[name].split(), True)
    assert level(X86, features | {"other": True}) == PROCESSORS[name]
    assert level("aarch64-unknown-linux-gnu", features) is None
    for missing in features:
        lower = level(X86, features | {missing: False})
        assert lower is None or [*PROCESSORS.values()].index(lower) > [*PROCESSORS].index(name)


def test_code_for_another_processor_than_the_level_is_not_kept_as_code_of_the_level():
    """Numba's choice holds for the whole process; what it compiled is no code of the level."""
    from numba.core.registry import cpu_target

    from tinytrain.kernels import compiler

    codegen = cpu_target.target_context.codegen()
    total = (np.zeros(1, np.float32),)
    before = codegen.magic_tuple
    codegen.magic_tuple = lambda: (X86, "another", "")
    try:
        if compiler.is_chosen():
            with pytest.raises(compiler.Unexpected, match="another program's choice"):
                compiler.machine_code_of(add_two, total)
        else:
            assert compiler.machine_code_of(add_two, total)
    finally:
        codegen.magic_tuple = before
