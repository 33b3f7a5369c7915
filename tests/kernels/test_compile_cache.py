"""Compiled kernels on disk: nothing that is not as it was written gets as far as numba."""

import ast
import hashlib
import json
import os
import random
import shutil
import time

import pytest

from tinytrain.base.errors import StorageError
from tinytrain.kernels.compile_cache import cache as jitcache
from tinytrain.kernels.compile_cache import facts as jitfacts
from tinytrain.kernels.compile_cache.folder import in_doubt, make_private
from tinytrain.kernels.compile_cache.manifest import MANIFEST, read_manifest

FACTS = {"numba": "0.68.1", "cpu": "made up"}
SOURCES = {"dense": "d" * 64, "head": "h" * 64}
SUB = "kernels_0123"
SIZES = {  # of an index and of machine code, as they are
    "dense.pool-129.py311.nbi": 1540,
    "dense.pool-129.py311.1.nbc": 17803,
    "head.cholesky-85.py311.nbi": 1489,
    "head.cholesky-85.py311.1.nbc": 9001,
}
POOL, CODE = f"{SUB}/dense.pool-129.py311.nbi", f"{SUB}/dense.pool-129.py311.1.nbc"
HEAD = {f"{SUB}/{name}" for name in SIZES if name.startswith("head")}


@pytest.fixture
def folder(tmp_path):
    """A sealed folder of two kernels."""
    folder = tmp_path / "jit" / "0123456789abcdef"
    (folder / SUB).mkdir(parents=True, mode=0o700)
    for name, size in SIZES.items():
        (folder / SUB / name).write_bytes(random.Random(name).randbytes(size))
    jitcache.seal(folder, FACTS, SOURCES, {})
    return folder


def look(folder, facts=FACTS, sources=SOURCES):
    return jitcache.inspect(folder, facts, sources)


def clean(folder, facts=FACTS, sources=SOURCES):
    return jitcache.clean(folder, facts, sources)


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_a_sealed_folder_is_verified_and_left_alone(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    health = clean(folder)
    assert health.state == "verified" and health.kernels == 2 and health.nbytes == sum(SIZES.values())
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def rejected(folder, name):
    """Whether `name` and its other half would be removed, and the other kernel kept."""
    health = look(folder)
    surplus = {str(path.relative_to(folder)) for path in health.surplus}
    return health.good.keys() == HEAD and surplus == {POOL, CODE} and name in health.damaged


@pytest.mark.parametrize("name", [POOL, CODE])
def test_every_truncation_is_rejected_with_the_other_half_of_the_kernel(folder, name):
    data = (folder / name).read_bytes()
    for length in range(0, len(data), 64):
        (folder / name).write_bytes(data[:length])
        assert rejected(folder, name), length


@pytest.mark.parametrize("name", [POOL, CODE])
def test_a_thousand_flipped_bits_are_rejected(folder, name):
    data, draw = bytearray((folder / name).read_bytes()), random.Random(name)
    for _ in range(1000):
        at, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
        data[at] ^= bit
        (folder / name).write_bytes(data)
        assert rejected(folder, name), (at, bit)
        data[at] ^= bit


def test_added_bytes_and_missing_files_are_rejected(folder):
    with open(folder / CODE, "ab") as file:
        file.write(b"\0")
    assert rejected(folder, CODE)
    (folder / CODE).unlink()
    health = clean(folder)
    assert health.damaged == {CODE} and files(folder) == HEAD | {MANIFEST}
    assert clean(folder).state == "verified", "said once, then forgotten"


def test_what_is_removed_is_listed_anew_when_it_is_compiled_again(folder):
    (folder / CODE).write_bytes(b"torn")
    clean(folder)
    (folder / POOL).write_bytes(b"a new index")
    (folder / CODE).write_bytes(b"new code")
    jitcache.seal(folder, FACTS, SOURCES, {})
    health = look(folder)
    assert health.state == "verified" and health.kernels == 2
    assert health.good[CODE][:2] == (hashlib.sha256(b"new code").hexdigest(), 8)


def test_unlisted_and_foreign_files_are_removed_and_links_are_not_followed(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    (folder / SUB / "dense.copy-1.py311.nbi").write_bytes(b"of a process that was killed")
    (folder / SUB / "notes.txt").write_text("foreign")
    (folder / SUB / "deep").mkdir()
    (folder / SUB / "deep" / "er.nbi").write_bytes(b"?")
    (folder / "stray.nbc").write_bytes(b"?")
    (folder / "linked").symlink_to(precious)
    (folder / SUB / "link.nbi").symlink_to(precious / "file")
    os.mkfifo(folder / SUB / "dense.copy-1.py311.1.nbc")
    health = clean(folder)
    assert health.state == "verified" and not health.damaged, "nothing that was listed is damaged"
    assert files(folder) == HEAD | {POOL, CODE, MANIFEST} and not (folder / "linked").exists()
    assert (precious / "file").read_text() == "mine"


def test_an_unlisted_file_of_a_listed_kernel_takes_the_kernel_along(folder):
    (folder / SUB / "dense.pool-129.py311.2.nbc").write_bytes(b"of a process that was killed")
    health = clean(folder)
    assert health.good.keys() == HEAD and files(folder) == HEAD | {MANIFEST} and not health.damaged


def test_a_listed_file_that_became_a_link_or_a_pipe_is_rejected(folder, tmp_path):
    (folder / CODE).rename(tmp_path / "elsewhere")
    (folder / CODE).symlink_to(tmp_path / "elsewhere")
    assert rejected(folder, CODE)
    (folder / CODE).unlink()
    os.mkfifo(folder / CODE)
    assert rejected(folder, CODE)
    clean(folder)
    assert (tmp_path / "elsewhere").stat().st_size == SIZES["dense.pool-129.py311.1.nbc"]


def test_what_another_process_is_writing_is_left_to_it_for_an_hour(folder):
    young, old = (
        folder / SUB / "dense.copy-1.py311.nbi.tmp.01",
        folder / SUB / "dense.copy-1.py311.nbi.tmp.02",
    )
    young.write_bytes(b"half")
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 4000,) * 2)
    clean(folder)
    jitcache.seal(folder, FACTS, SOURCES, {})
    assert young.exists() and not old.exists() and "tmp" not in (folder / MANIFEST).read_text()


def test_a_changed_source_concerns_only_its_own_kernels(folder):
    health = clean(folder, sources={**SOURCES, "dense": "e" * 64})
    assert health.state == "verified" and files(folder) == HEAD | {MANIFEST}
    assert read_manifest(folder, FACTS).keys() == HEAD


@pytest.mark.parametrize(
    "source,concerned",
    [
        ("optimizer", {"optimizer"}),
        (
            "depthwise_rows",
            {"depthwise_rows", "depthwise", "depthwise_weight"},
        ),  # the last one takes from depthwise
    ],
)
def test_a_change_concerns_every_kernel_that_is_compiled_from_it(tmp_path, source, concerned):
    shutil.copytree(jitfacts.KERNELS, tmp_path, dirs_exist_ok=True)
    before = jitfacts.source_digests(tmp_path)
    with open(tmp_path / f"{source}.py", "a") as file:
        file.write("# changed\n")
    after = jitfacts.source_digests(tmp_path)
    assert {module for module in before if after[module] != before[module]} == concerned


# Modules that no kernel takes code or numbers from; whether kernels are portable is a fact of its own.
NOT_COMPILED = {
    "tinytrain.base.cache_folder",
    "tinytrain.base.errors",
    "tinytrain.kernels.compile_cache.cache",
    "tinytrain.kernels.compile_cache.facts",
}


def test_imports_of_kernels_are_written_so_that_facts_find_them():
    for path in jitfacts.KERNELS.rglob("*.py"):
        if path.stem == "__init__" or path.parent.name == "compile_cache":  # compiles nothing
            continue
        found = {f"tinytrain.kernels.{m.decode()}" for m in jitfacts.IMPORT.findall(path.read_bytes())}
        named = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                named.add("." * node.level + (node.module or ""))
        assert {
            m for m in named if m.startswith((".", "tinytrain"))
        } - NOT_COMPILED == found - NOT_COMPILED, path.name


# ---- the manifest itself -----------------------------------------------------------------------


def true_entries(folder):
    return dict(look(folder).good)


def test_no_damage_to_the_manifest_lets_anything_else_in(folder):
    path, true, draw = folder / MANIFEST, true_entries(folder), random.Random(1)
    data = path.read_bytes()
    damaged = [data[:length] for length in range(0, len(data), 64)]
    for _ in range(300):
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        damaged.append(bytes(flipped))
    for content in damaged:
        path.write_bytes(content)
        assert look(folder).good.items() <= true.items()


HOSTILE = {
    "empty": b"",
    "no JSON": b"\x80\x04K\x01.",
    "huge": b" " * (2**20 + 1),
    "deep": b"[" * 100_000,
    "a long number": b"1" * 10_000,
    "a list": b"[]",
    "null": b"null",
    "no files": b'{"format": 1, "made_for": {}}',
    "another format": json.dumps({"format": 2, "made_for": FACTS, "files": {}}).encode(),
    "other facts": json.dumps({"format": 1, "made_for": {"numba": "0.1"}, "files": {}}).encode(),
    "files as a list": json.dumps({"format": 1, "made_for": FACTS, "files": [1]}).encode(),
    "an entry of wrong length": json.dumps({"format": 1, "made_for": FACTS, "files": {POOL: []}}).encode(),
    "an entry of wrong type": json.dumps(
        {"format": 1, "made_for": FACTS, "files": {POOL: [1, "2", None]}}
    ).encode(),
    "a negative size": json.dumps({"format": 1, "made_for": FACTS, "files": {POOL: ["", -1, ""]}}).encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_manifest_that_cannot_be_used_clears_the_folder(folder, name):
    (folder / MANIFEST).write_bytes(HOSTILE[name])
    assert clean(folder).state == "damaged" and files(folder) == {MANIFEST}
    assert clean(folder).state == "absent"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_a_manifest_that_is_no_file_is_replaced(folder, make):
    (folder / MANIFEST).unlink()
    make(folder / MANIFEST)
    clean(folder)
    jitcache.seal(folder, FACTS, SOURCES, {})
    assert look(folder).manifest == "ok" and (folder / MANIFEST).is_file()


def test_without_a_manifest_nothing_is_used(folder):
    (folder / MANIFEST).unlink()
    assert clean(folder).state == "absent" and files(folder) == set()


def test_names_in_a_manifest_lead_nowhere(folder, tmp_path):
    outside = tmp_path / "x"
    outside.write_bytes(b"not ours")
    (folder / "dense.x").write_bytes(b"not ours")
    entry = [hashlib.sha256(b"not ours").hexdigest(), 8, SOURCES["dense"]]
    names = (
        "../../x",
        "../x",
        str(outside),
        f"{SUB}/../../../x",
        "\0",
        "dense.x",
        f"{SUB}/dense.a-1.py311.nbi/..",
    )
    content = {"format": 1, "made_for": FACTS, "files": dict.fromkeys(names, entry)}
    (folder / MANIFEST).write_text(json.dumps(content))
    assert clean(folder).good == {} and outside.read_bytes() == b"not ours" and files(folder) == {MANIFEST}


# ---- two processes, other installations, rights --------------------------------------------------


def test_two_that_seal_keep_what_the_other_listed(folder):
    """Each knows what it verified at its start; the second to seal must not drop what the first added."""
    known = true_entries(folder)
    for name in ("dense.copy-1.py311.nbi", "dense.copy-1.py311.1.nbc", "head.add-2.py311.nbi"):
        (folder / SUB / name).write_bytes(name.encode())
        jitcache.seal(folder, FACTS, SOURCES, known)
    assert len(look(folder).good) == len(SIZES) + 3


def test_what_one_listed_and_then_was_damaged_is_not_listed_anew_by_another(folder):
    known, name = true_entries(folder), f"{SUB}/dense.copy-1.py311.nbi"
    (folder / name).write_bytes(b"as it was compiled")
    jitcache.seal(folder, FACTS, SOURCES, known)
    (folder / name).write_bytes(b"as the medium lost it")
    jitcache.seal(folder, FACTS, SOURCES, known)
    assert look(folder).damaged == {name}


def test_a_kernel_that_another_process_has_compiled_meanwhile_is_not_written_again(folder):
    cache = jitcache.Cache(folder, True, None, FACTS, SOURCES, true_entries(folder))
    written = []

    def save(kernel):
        def write():
            written.append(kernel)
            (folder / SUB / f"{kernel}.1.nbc").write_bytes(b"mine")

        cache.save(kernel, write)

    (folder / SUB / "dense.copy-1.py311.1.nbc").write_bytes(b"theirs")
    save("dense.copy-1.py311")
    assert written == []
    save("dense.add-2.py311")
    save("dense.add-2.py311")
    assert written == ["dense.add-2.py311"] * 2, "a second signature of its own"


def test_a_manifest_lost_while_running_is_made_from_what_was_verified(folder):
    known = true_entries(folder)
    (folder / MANIFEST).write_bytes(b"torn")
    (folder / CODE).write_bytes(b"damaged since")
    jitcache.seal(folder, FACTS, SOURCES, known)
    assert look(folder).good.keys() == HEAD


def test_facts_name_the_folder_and_old_ones_are_forgotten(folder, tmp_path, monkeypatch):
    facts = jitfacts.made_for()
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert jitcache.folder_of(jitfacts.made_for()) != jitcache.folder_of(facts)
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
    (folder / MANIFEST).unlink()
    jitcache.seal(folder, FACTS, SOURCES, {})
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


def test_a_verified_folder_that_cannot_be_written_is_used_from_a_copy(folder, monkeypatch):
    monkeypatch.setattr(jitcache, "made_for", lambda: FACTS)
    monkeypatch.setattr(jitcache, "source_digests", lambda: SOURCES)
    folder.rename(folder.parent / jitcache.folder_of(FACTS))
    monkeypatch.setattr("os.access", lambda *_: False)
    cache = jitcache.open_cache(folder.parent)
    try:
        assert cache.folder != folder and not cache.kept and cache.warning is None
        assert files(cache.folder) == HEAD | {POOL, CODE}
        cache.seal()
        assert files(cache.folder) == HEAD | {POOL, CODE}
    finally:
        shutil.rmtree(cache.folder)
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


def test_only_what_is_as_it_was_listed_is_ever_read(folder):
    """What is listed again does not count either: it was verified before."""
    data = (folder / CODE).read_bytes()
    cache = jitcache.Cache(folder, True, None, FACTS, SOURCES, true_entries(folder))
    assert cache.read(str(folder / CODE)) == data
    (folder / SUB / "dense.copy-1.py311.nbi").write_bytes(b"written since")
    (folder / CODE).write_bytes(data[:-1] + b"?")
    (folder / POOL).unlink()
    jitcache.write_manifest(folder, FACTS, {CODE: (sha256(data[:-1] + b"?"), len(data), SOURCES["dense"])})
    for name in (CODE, POOL, f"{SUB}/dense.copy-1.py311.nbi", f"{SUB}/../{CODE}", MANIFEST):
        with pytest.raises(OSError):
            cache.read(f"{folder}/{name}")


def test_what_another_process_has_listed_since_is_read(folder):
    cache = jitcache.Cache(folder, True, None, FACTS, SOURCES, {})
    assert cache.read(f"{folder}/{CODE}") == (folder / CODE).read_bytes()
    for name, source in ((CODE, "of other sources"), (POOL, SOURCES["dense"])):
        jitcache.write_manifest(folder, FACTS, {name: (sha256(b"else"), 4, source)})
        with pytest.raises(OSError):
            cache.read(f"{folder}/{name}")


def test_a_manifest_is_parsed_once_for_all_files_that_it_lacks(folder, monkeypatch):
    parsed = []
    monkeypatch.setattr(jitcache, "read_manifest", lambda *a: parsed.append(a) or read_manifest(*a))
    cache = jitcache.Cache(folder, True, None, FACTS, SOURCES, {})
    for k in range(9):
        with pytest.raises(FileNotFoundError):
            cache.read(f"{folder}/{SUB}/dense.none-{k}.py311.nbi")
    assert len(parsed) == 1
    jitcache.write_manifest(folder, FACTS, {})
    with pytest.raises(FileNotFoundError):
        cache.read(f"{folder}/{CODE}")
    assert len(parsed) == 2


def sha256(data):
    return hashlib.sha256(data).hexdigest()


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
