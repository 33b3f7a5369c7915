"""Compiled kernels on disk: nothing that is not as it was written gets as far as numba."""

import os
import random
import shutil
import time
from importlib import metadata

import pytest

from tinytrain.base.errors import StorageError
from tinytrain.kernels.compile_cache import cache as jitcache
from tinytrain.kernels.compile_cache import facts as jitfacts
from tinytrain.kernels.compile_cache.folder import in_doubt, make_private

POOL, HEAD = "kernels.dense.pool-0123456789abcdef.kernel", "kernels.head.cholesky-fedcba9876543210.kernel"
SIZES = {POOL: 17803, HEAD: 9001}  # of machine code, as it is
CONTENT = {name: random.Random(name).randbytes(size) for name, size in SIZES.items()}


def cache_of(folder, verified=None, kept=True):
    """The cache of a process that found `verified` when it started."""
    return jitcache.Cache(folder, kept, None, dict(verified or {}))


@pytest.fixture
def folder(tmp_path):
    """A folder of two kernels."""
    folder = tmp_path / "jit" / "0123456789abcdef"
    folder.mkdir(parents=True, mode=0o700)
    for name, content in CONTENT.items():
        cache_of(folder).write(name, content)
    return folder


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_a_whole_folder_is_verified_and_left_alone(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    health = jitcache.clean(folder)
    assert health.state == "verified" and health.kernels == 2 and health.nbytes == sum(SIZES.values())
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert {name: cache_of(folder, health.good).read(name) for name in SIZES} == CONTENT


def rejected(folder):
    """Whether the one file would be removed and not read, and the other kernel kept."""
    health = jitcache.inspect(folder)
    with pytest.raises(OSError):
        cache_of(folder).read(POOL)
    return health.good.keys() == {HEAD} and health.damaged == [folder / POOL] and not health.foreign


def test_every_truncation_is_rejected(folder):
    data = (folder / POOL).read_bytes()
    for length in range(0, len(data), 64):
        (folder / POOL).write_bytes(data[:length])
        assert rejected(folder), length


def test_a_thousand_flipped_bits_are_rejected(folder):
    data, draw = bytearray((folder / POOL).read_bytes()), random.Random(POOL)
    for _ in range(1000):
        at, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
        data[at] ^= bit
        (folder / POOL).write_bytes(data)
        assert rejected(folder), (at, bit)
        data[at] ^= bit


def test_added_bytes_are_rejected_and_what_is_removed_is_kept_when_it_is_compiled_again(folder):
    with open(folder / POOL, "ab") as file:
        file.write(b"\0")
    assert rejected(folder)
    health = jitcache.clean(folder)
    assert health.state == "damaged" and files(folder) == {HEAD}
    assert jitcache.clean(folder).state == "verified", "said once, then forgotten"
    cache = cache_of(folder, health.good)
    with pytest.raises(FileNotFoundError):
        cache.read(POOL)
    cache.write(POOL, b"new code")
    assert cache.read(POOL) == b"new code" and jitcache.inspect(folder).good.keys() == SIZES.keys()


def test_a_file_of_another_size_than_code_can_have_is_not_read(folder):
    with open(folder / POOL, "r+b") as file:
        file.truncate(2**40)
    assert rejected(folder)


def test_foreign_files_are_removed_and_links_are_not_followed(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    (folder / "notes.txt").write_text("foreign")
    (folder / "deep").mkdir()
    (folder / "deep" / POOL).write_bytes(b"?")
    (folder / "dense.pool-129.py311.1.nbc").write_bytes(b"of numba")
    (folder / "linked").symlink_to(precious)
    (folder / "link.kernel").symlink_to(precious / "file")
    os.mkfifo(folder / "pipe")
    health = jitcache.clean(folder)
    assert health.state == "verified" and not health.damaged, "no kernel is damaged"
    assert files(folder) == SIZES.keys() and not (folder / "linked").exists()
    assert (precious / "file").read_text() == "mine"


def test_a_kernel_that_became_a_link_a_pipe_or_a_folder_is_rejected(folder, tmp_path):
    (folder / POOL).rename(tmp_path / "elsewhere")
    (folder / POOL).symlink_to(tmp_path / "elsewhere")
    assert rejected(folder)
    for make in (os.mkfifo, os.mkdir):
        (folder / POOL).unlink()
        make(folder / POOL)
        assert rejected(folder)
    jitcache.clean(folder)
    assert (tmp_path / "elsewhere").stat().st_size == 32 + SIZES[POOL] and files(folder) == {HEAD}


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator can give files away")
def test_a_kernel_of_somebody_else_is_rejected(folder):
    os.chown(folder / POOL, 65534, 65534)
    assert rejected(folder)


def test_what_another_process_is_writing_is_left_to_it_for_an_hour(folder):
    young, old = folder / f".{POOL}.01.tmp", folder / f".{POOL}.02.tmp"
    young.write_bytes(b"half")
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 4000,) * 2)
    health = jitcache.clean(folder)
    assert young.exists() and not old.exists() and health.good.keys() == SIZES.keys()


def test_a_change_of_any_source_of_kernels_is_a_change_of_the_facts(tmp_path):
    shutil.copytree(jitfacts.KERNELS, tmp_path, dirs_exist_ok=True)
    digest = jitfacts.sources_digest.__wrapped__  # read once in a process
    before = digest(tmp_path)
    assert before == digest() and jitfacts.made_for()["sources"].startswith(before)
    for name, concerns in (("optimizer.py", True), ("jit.py", True), ("compile_cache/cache.py", False)):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text + "# changed\n")
        assert (digest(tmp_path) != before) == concerns
        (tmp_path / name).write_text(text)


# ---- two processes, other installations, rights --------------------------------------------------


def test_what_was_exchanged_since_the_process_started_is_not_read(folder):
    """Also if it is whole: it was another file that was verified."""
    cache = cache_of(folder, jitcache.clean(folder).good)
    cache_of(folder).write(POOL, b"code of somebody else")
    with pytest.raises(OSError, match="not as it was"):
        cache.read(POOL)
    assert cache.read(HEAD) == CONTENT[HEAD]


def test_what_another_process_has_compiled_since_is_read(folder):
    cache = cache_of(folder)
    name = "kernels.dense.copy-0123456789abcdef.kernel"
    with pytest.raises(FileNotFoundError):
        cache.read(name)
    cache_of(folder).write(name, b"theirs")
    assert cache.read(name) == b"theirs"


def test_two_that_compile_the_same_kernel_leave_one_whole_file(folder):
    for _ in range(2):
        cache = cache_of(folder)
        cache.write(POOL, b"mine")
        assert cache.read(POOL) == b"mine"
    assert jitcache.inspect(folder).state == "verified" and files(folder) == SIZES.keys()


def test_versions_of_libraries_are_those_of_their_metadata(tmp_path, monkeypatch):
    for name in jitfacts.LIBRARIES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = "none"
        assert jitfacts.library_version(name) == version
    for entry in ("numba-0.1.2.dist-info", "numpy-1.26.4-py3.11.egg-info", "numba_scipy-3.0.dist-info"):
        (tmp_path / entry).mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path / "none"), str(tmp_path)])
    assert jitfacts._installed.__wrapped__() == {"numba": "0.1.2", "numpy": "1.26.4"}


def test_facts_name_the_folder_and_old_ones_are_forgotten(folder, tmp_path, monkeypatch):
    facts = jitfacts.made_for()
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert jitcache.folder_of(jitfacts.made_for()) != jitcache.folder_of(facts)
    monkeypatch.delenv("NUMBA_OPT")
    monkeypatch.chdir(tmp_path)
    assert jitcache.folder_of(jitfacts.made_for()) == jitcache.folder_of(facts)
    (tmp_path / ".numba_config.yaml").write_text("cpu_name: nehalem")
    assert jitcache.folder_of(jitfacts.made_for()) != jitcache.folder_of(facts)
    monkeypatch.setattr("sys.abiflags", "t")  # objects of a Python without a global lock have other heads
    assert jitfacts.made_for()["python"] == facts["python"] + "t"
    (tmp_path / "proc").mkdir()
    cpuinfo = "processor: 0\nCPU part\t: 0xd03\nBogoMIPS: {}\nFeatures: {}\n\nprocessor: 1\nCPU part: 0xd08\n"
    made = []
    for speed, features in ((38, "fp asimd"), (40, "fp asimd"), (38, "fp asimd crc32")):
        (tmp_path / "proc" / "cpuinfo").write_text(cpuinfo.format(speed, features))
        made.append(jitfacts.made_for(tmp_path)["cpu"])
    assert made[0] == made[1] != made[2] and "0xd03" in made[0]
    for k in range(6):
        other = folder.parent / f"{k:016x}"
        other.mkdir()
        os.utime(other, (k, k))
    for name in SIZES:
        (folder / name).unlink()
    jitcache.clean(folder)  # nothing is in it: it is new
    left = {path.name for path in folder.parent.iterdir()}
    assert left == {folder.name, *(f"{k:016x}" for k in (2, 3, 4, 5))}


def test_a_folder_that_others_can_write_is_emptied_and_closed(folder):
    folder.chmod(0o770)
    make_private(folder)
    assert files(folder) == set() and folder.stat().st_mode & 0o777 == 0o700


def test_what_lies_beside_our_folders_is_left_alone(tmp_path):
    base = tmp_path / "jit"
    for name in ("project", "0123456789abcdef"):
        (base / name).mkdir(parents=True)
        (base / name / "thesis.tex").write_text("precious")
    base.chmod(0o775)
    cache = jitcache.open_cache(base)
    assert cache.folder is not None and base.stat().st_mode & 0o777 == 0o700
    assert (base / "project/thesis.tex").read_text() == "precious" and not (
        base / "0123456789abcdef"
    ).exists()


def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(StorageError, match="not to 12345"):
        make_private(tmp_path)
    cache = jitcache.open_cache(tmp_path / "jit")
    assert cache.folder is None and "TINYTRAIN_CACHE" in cache.warning


def test_a_whole_folder_that_cannot_be_written_is_used_as_it_is(folder, monkeypatch):
    monkeypatch.setattr(jitcache, "folder_of", lambda facts: folder.name)
    monkeypatch.setattr("os.access", lambda *_: False)
    cache = jitcache.open_cache(folder.parent)
    assert cache.folder == folder and not cache.kept and cache.warning is None
    assert cache.read(POOL) == CONTENT[POOL]
    name = "kernels.dense.copy-0123456789abcdef.kernel"
    cache_of(folder).write(name, b"since")
    with pytest.raises(OSError):
        cache.read(name)
    folder.parent.chmod(0o777)
    monkeypatch.setattr(jitcache, "make_private", lambda folder, ours=None: (folder / "no").stat())
    assert jitcache.open_cache(folder.parent).folder is None, "somebody else may have put it there"


def test_a_file_in_place_of_the_folder_is_said_in_one_line(tmp_path):
    (tmp_path / "jit").write_text("a file")
    cache = jitcache.open_cache(tmp_path / "jit")
    assert (
        cache.folder is None
        and "\n" not in cache.warning
        and cache.warning.startswith("jit-cache-unusable: ")
    )


# ---- folders on the way to the cache -------------------------------------------------------------


@pytest.fixture
def parent(tmp_path):
    """A folder above a cache."""
    parent = tmp_path / "parent"
    (parent / "own").mkdir(parents=True)
    return parent


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_cache_below_a_folder_that_others_may_write_is_not_used(parent, mode):
    parent.chmod(mode)
    cache = jitcache.open_cache(parent / "own" / "jit")
    assert cache.folder is None and f"others may write to {parent})" in cache.warning
    assert "above which nobody else may write" in cache.warning and "\n" not in cache.warning


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o1777])
def test_a_cache_below_a_folder_that_only_its_owner_can_change_is_used(parent, mode):
    parent.chmod(mode)
    assert jitcache.open_cache(parent / "own" / "jit").kept


def test_a_group_that_is_not_the_users_own_counts_as_others(parent, monkeypatch):
    parent.chmod(0o770)
    for own, doubted in ((True, False), (False, True)):
        monkeypatch.setattr(
            "tinytrain.kernels.compile_cache.folder._is_own_group", lambda group, own=own: own
        )
        assert (in_doubt(parent) is not None) == doubted


def test_a_cache_behind_a_link_is_judged_where_it_lies(parent, tmp_path):
    (tmp_path / "link").symlink_to(parent)
    assert jitcache.open_cache(tmp_path / "link" / "jit").folder.is_relative_to(parent)
    parent.chmod(0o777)
    assert jitcache.open_cache(tmp_path / "link" / "jit").folder is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator can give folders away")
def test_a_cache_below_a_folder_of_somebody_else_is_not_used(parent):
    os.chown(parent, 65534, 65534)
    cache = jitcache.open_cache(parent / "own" / "jit")
    assert cache.folder is None and f"{parent} belongs to user 65534, not to 0" in cache.warning


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator can give folders away")
def test_whoever_owns_the_root_folder_is_the_administrator_by_whatever_number(parent, monkeypatch):
    """In a user namespace that maps one's own number alone, the administrator's folders show as 65534."""
    os.chown(parent, 65534, 65534)
    root = os.stat_result((*os.stat("/")[:4], 65534, *os.stat("/")[5:10]))
    monkeypatch.setattr("os.stat", lambda p, *a, stat=os.stat, **k: root if p == "/" else stat(p, *a, **k))
    assert in_doubt(parent) is None
    parent.chmod(0o777)
    assert in_doubt(parent) == f"others may write to {parent}", "rights are judged all the same"


def test_a_link_in_place_of_a_folder_is_not_followed(parent, tmp_path):
    (tmp_path / "link").symlink_to(parent)
    parent.chmod(0o775)
    with pytest.raises(StorageError, match="link is a link or a file, not a folder"):
        make_private(tmp_path / "link")
    assert parent.stat().st_mode & 0o777 == 0o775 and (parent / "own").exists()
    parent.chmod(0o755)
    assert in_doubt(tmp_path / "link") == f"{tmp_path}/link is a link or a file, not a folder"


def test_groups_are_only_looked_up_for_folders_that_a_group_may_write(parent, monkeypatch):
    looked_up = []
    monkeypatch.setattr("tinytrain.kernels.compile_cache.folder._is_own_group", looked_up.append)
    in_doubt(parent)
    assert looked_up == []
