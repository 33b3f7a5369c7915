"""Masks cancel in the sum of all members, byte for byte, also if one drops out; a part alone says nothing."""

import json
import os
import shutil
import stat
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from commandline import tt
from devices import made_up
from headdata import embeddings

from tinytrain import kernels
from tinytrain.base.errors import InputError, StorageError, TinytrainError, UsageError
from tinytrain.base.safetensors import decode, encode
from tinytrain.delta.delta import Slice
from tinytrain.delta.file import load_delta, save_delta
from tinytrain.delta.merge import merge

pytest.importorskip("cryptography", reason="masks need the extra [keys]")
from tinytrain.trust import masks
from tinytrain.trust.keys import make_key, sign
from tinytrain.trust.masks import KEY, MEMBER, PART, WITHOUT, Round

WAY, SIZE, TEN = 10, 12, [f"member{k}" for k in range(10)]
X, LABELS = embeddings(300, SIZE, way=WAY)


def delta_of(chosen, *how, **more):
    return made_up(X[chosen], LABELS[chosen], *how, **more)


def background(delta):
    """`delta`, whose first class is no answer."""
    return replace(delta, head=delta.head.knowing(0))


DELTAS = {
    name: delta_of(np.flatnonzero(np.isin(LABELS, [k, (k + 1) % WAY, (k + 4) % WAY]))[k % 3 :: 3])
    for k, name in enumerate(TEN)
}


@pytest.fixture(scope="module")
def ten(tmp_path_factory):
    """A round that ten have joined and nine have given their parts to; the last one has not."""
    root = tmp_path_factory.mktemp("round")
    (root / "stick").mkdir()
    for name in TEN:
        Round(root / "stick").join(DELTAS[name], root / f"{name}.key")
    for name in TEN[:-1]:
        Round(root / "stick").give(DELTAS[name], root / f"{name}.key")
    return root


@pytest.fixture
def stick(ten, tmp_path):
    """A copy of it that may be changed."""
    shutil.copytree(ten, tmp_path / "copy")
    return tmp_path / "copy"


def key(stick, name):
    return stick / f"{name}.key"


def folder(root):
    """That of a round; keys lie in `root` beside it."""
    (root / "stick").mkdir()
    return root / "stick"


def same_head(found, names):
    """Whether the delta `found` has the head of the merged deltas of `names`, byte for byte."""
    want = merge(kernels.load(), [DELTAS[name] for name in names], names).delta
    theirs = want.head.tensors()
    assert found.class_names == want.class_names and found.head.views == want.head.views
    assert found.head.temperature == pytest.approx(want.head.temperature, rel=1e-4)
    assert found.report["merged"]["sums"] == want.report["merged"]["sums"]
    return all(values.tobytes() == theirs[name].tobytes() for name, values in found.head.tensors().items())


def test_the_masks_of_ten_members_cancel_exactly(stick):
    Round(stick / "stick").give(DELTAS[TEN[-1]], key(stick, TEN[-1]))
    assert same_head(Round(stick / "stick").total(kernels.load()), TEN)


def test_one_of_ten_that_drops_out_is_let_go_and_the_others_add_exactly(stick):
    for name in TEN[:-2]:
        Round(stick / "stick").without([TEN[-1]], key(stick, name))
    with pytest.raises(InputError, match=r"1 of 10 members have given no part: member9; .* of member8 run: "):
        Round(stick / "stick").total(kernels.load())
    Round(stick / "stick").without([TEN[-1]], key(stick, TEN[-2]))
    assert same_head(Round(stick / "stick").total(kernels.load()), TEN[:-1])


def test_names_of_others_are_quoted_in_the_command_that_lets_them_go(tmp_path):
    stick = folder(tmp_path)
    for name in ("a", "b c", "d;e", "f", "g"):
        Round(stick).join(DELTAS[TEN[0]], tmp_path / f"{name}.key")
    for name in "afg":
        Round(stick).give(DELTAS[TEN[0]], tmp_path / f"{name}.key")
    with pytest.raises(InputError, match=r"of a, f, g run: tinytrain mask without \S+ 'b c' 'd;e' --key KEY"):
        Round(stick).total(kernels.load())


def test_a_part_has_nothing_in_common_with_what_it_masks(stick):
    here = Round(stick / "stick")
    part = np.frombuffer(here._read(TEN[0], PART)[0], np.uint64)
    bits = np.unpackbits(part.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(bits)), "sums in the clear have mostly zeros"
    mine = DELTAS[TEN[0]].head.moments.products.astype(float)
    shown = part[-3 - len(mine) : -3].astype(float)
    assert abs(np.corrcoef(mine, shown)[0, 1]) < 5 / np.sqrt(len(mine))


def test_a_key_is_for_its_owner_for_one_round_and_for_one_delta(stick):
    here, mine = Round(stick / "stick"), key(stick, TEN[0])
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600
    with pytest.raises(StorageError, match="member0 already; name another key"):
        here.join(DELTAS[TEN[1]], mine)
    with pytest.raises(InputError, match=r"bad-value: .* has joined with another delta"):
        here.give(DELTAS[TEN[1]], mine)
    (stick / "other").mkdir()
    with pytest.raises(StorageError, match="is there already, and keys are not replaced"):
        Round(stick / "other").join(DELTAS[TEN[0]], mine)
    with pytest.raises(InputError, match="has not joined"):
        Round(stick / "other").give(DELTAS[TEN[0]], mine)


def test_who_was_let_go_gives_no_part_and_whose_part_is_there_is_not_let_go(stick):
    """Either of them would show the part."""
    with pytest.raises(
        InputError, match="member1 is no member, or its part is here and would be shown; member9 can"
    ):
        Round(stick / "stick").without([TEN[1]], key(stick, TEN[0]))
    Round(stick / "stick").without([TEN[-1]], key(stick, TEN[0]))
    with pytest.raises(InputError, match="member0 has let member9 go"):
        Round(stick / "stick").give(DELTAS[TEN[-1]], key(stick, TEN[-1]))


def test_two_members_are_too_few_as_each_would_know_the_part_of_the_other(tmp_path):
    stick = folder(tmp_path)
    for name in TEN[:2]:
        Round(stick).join(DELTAS[name], tmp_path / f"{name}.key")
    with pytest.raises(InputError, match="2 members take part"):
        Round(stick).give(DELTAS[TEN[0]], tmp_path / f"{TEN[0]}.key")
    Round(stick).join(DELTAS[TEN[2]], tmp_path / f"{TEN[2]}.key")
    for name in TEN[:2]:
        Round(stick).give(DELTAS[name], tmp_path / f"{name}.key")
    with pytest.raises(InputError, match="2 members take part"):
        Round(stick).without([TEN[2]], tmp_path / f"{TEN[0]}.key")
    with pytest.raises(InputError, match="wait, or begin another round: at least 3 must give one"):
        Round(stick).total(kernels.load())


def test_a_part_for_other_members_is_refused(stick):
    with pytest.raises(InputError, match="gave parts for 10 members already; join another round"):
        Round(stick / "stick").join(DELTAS[TEN[0]], stick / "late.key")
    (stick / "other").mkdir()
    Round(stick / "other").join(DELTAS[TEN[0]], stick / "late.key")
    shutil.copy(stick / "other" / "late.member", stick / "stick")
    Round(stick / "stick").give(DELTAS[TEN[0]], key(stick, "late"))
    Round(stick / "stick").give(DELTAS[TEN[-1]], key(stick, TEN[-1]))
    with pytest.raises(InputError, match="is for other members than"):
        Round(stick / "stick").total(kernels.load())


def test_nobody_gives_a_part_again_for_other_members(stick):
    """The sum of ten less that of nine would be the part of who came last, whatever the masks are."""
    (stick / "other").mkdir()
    Round(stick / "other").join(DELTAS[TEN[0]], key(stick, "late"))
    Round(stick / "stick").give(DELTAS[TEN[0]], key(stick, TEN[0]))
    shutil.copy(stick / "other" / "late.member", stick / "stick")
    before = (stick / "stick" / f"{TEN[0]}.part").read_bytes()
    for gone in (False, True):
        with pytest.raises(
            InputError, match="has given its part for other members, and the difference of both"
        ):
            Round(stick / "stick").give(DELTAS[TEN[0]], key(stick, TEN[0]))
        assert gone or (stick / "stick" / f"{TEN[0]}.part").read_bytes() == before
        (stick / "stick" / f"{TEN[0]}.part").unlink(missing_ok=True)
    assert stat.S_IMODE(key(stick, TEN[0]).stat().st_mode) == 0o600


def test_members_that_are_not_signed_by_a_known_key_are_refused(stick):
    """Whoever carries the folder could exchange keys, and know all masks."""
    make_key(stick / "fleet.key")
    keys = stick / "fleet.key.pub"
    with pytest.raises(InputError, match=r"member0\.member is not signed"):
        Round(stick / "stick", keys)
    for name in TEN:
        sign(stick / "stick" / f"{name}.member", stick / "fleet.key")
    assert len(Round(stick / "stick", keys).members) == 10
    shutil.copy(stick / "stick" / "member0.member", stick / "stick" / "member1.member")
    with pytest.raises(InputError, match=r"member1\.member\.sig is of no key in"):
        Round(stick / "stick", keys)


def test_who_was_let_go_stays_so_when_another_one_is_let_go(stick):
    """The masks that were published could have been kept, and its part would show with them."""
    (stick / "stick" / f"{TEN[-2]}.part").unlink()
    for gone in TEN[-1:], TEN[-2:-1]:
        Round(stick / "stick").without(gone, key(stick, TEN[0]))
    assert Round(stick / "stick").let_go == {TEN[0]: TEN[-2:]}
    with pytest.raises(InputError, match="member0 has let member9 go"):
        Round(stick / "stick").give(DELTAS[TEN[-1]], key(stick, TEN[-1]))


@each(
    "delta, text",
    [
        (background(DELTAS[TEN[0]]), "unsupported: .* has a background"),
        (replace(DELTAS[TEN[0]], class_names=("class 0", "caf\u00e9", "class 4")), "2 classes are called"),
    ],
    ids=lambda row: row[1],
)
def test_who_cannot_give_a_part_that_adds_does_not_join(tmp_path, delta, text):
    """A member that joined and gives nothing takes a step of each other one."""
    stick = folder(tmp_path)
    other = replace(DELTAS[TEN[1]], class_names=("class 1", "class 2", "cafe\u0301"))
    Round(stick).join(other, tmp_path / "b.key")
    with pytest.raises(TinytrainError, match=text):
        Round(stick).join(delta, tmp_path / "a.key")
    assert not list(tmp_path.rglob("a.*"))


def test_a_name_that_is_no_text_is_one_line(tmp_path, capsys):
    save_delta(tmp_path / "mine", DELTAS[TEN[0]])
    (tmp_path / "stick").mkdir()
    words = ("mask", "join", tmp_path / "mine", tmp_path / "stick", "--key")
    assert tt(*words, os.fsdecode(bytes(tmp_path) + b"/\xff.key")) == 3
    assert not list((tmp_path / "stick").iterdir())
    assert tt(*words, tmp_path / "a.key") == 0
    (tmp_path / "stick" / "a.member").rename(os.fsdecode(bytes(tmp_path) + b"/stick/\xff.member"))
    assert tt("mask", "sum", tmp_path / "stick", "-o", tmp_path / "all") == 3
    assert capsys.readouterr().err.count("\n") == 2


def test_a_round_without_a_folder_leaves_no_key(tmp_path):
    with pytest.raises(InputError, match=r"file-missing: .* is no folder"):
        Round(tmp_path / "none").join(DELTAS[TEN[0]], tmp_path / "a.key")
    assert not list(tmp_path.iterdir())


@each(
    "delta, text",
    [
        (delta_of(np.arange(30), "cosine"), "the head cosine, which has no sums"),
        (
            delta_of(np.arange(30), slices=[Slice(0, "bias", np.zeros(1, "i4"), np.zeros(1, "f4"))]),
            "trained layers",
        ),
    ],
    ids=lambda row: row[1],
)
def test_what_cannot_be_masked_is_refused(tmp_path, delta, text):
    with pytest.raises(UsageError, match=f"unsupported: .*{text}"):
        Round(tmp_path).join(delta, tmp_path / "a.key")
    assert not list(tmp_path.iterdir())


def refused(stick, capsys, ending, change):
    """The one line of the step that reads a file of the round, whose bytes were changed."""
    path = (stick if ending == KEY else stick / "stick") / f"{TEN[0]}{ending}"
    save_delta(stick / "mine", DELTAS[TEN[0]])
    give = "give", stick / "mine", stick / "stick", "--key", path
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert tt("mask", *(give if ending == KEY else ("sum", stick / "stick", "-o", stick / "out"))) == 3
    path.write_bytes(before)
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and not (stick / "out").exists()
    return err


@each("ending", [MEMBER, PART, KEY])
def test_a_damaged_file_of_a_round_is_one_line(stick, capsys, ending):
    Round(stick / "stick").give(DELTAS[TEN[-1]], key(stick, TEN[-1]))
    for change in (lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: b""):
        assert "file-damaged" in refused(stick, capsys, ending, change)


@each(
    "ending, change, facts",
    [
        (KEY, lambda v: v[:5], {}),
        (KEY, lambda v: v.astype(np.float32), {}),
        (MEMBER, lambda v: v.view(np.float32), {}),
        (MEMBER, lambda v: v, {"size": "9" * 5000}),
        (MEMBER, lambda v: v, {"size": "0"}),
        (MEMBER, lambda v: v, {"classes": "[1]"}),
        (PART, lambda v: v[None], {}),
        (PART, lambda v: v.view(np.float32), {}),
        (WITHOUT, lambda v: v, {"dropped": "5"}),
    ],
    ids=lambda row: f"{row[0]} {row[2]} {row[1](np.zeros(40, 'u1')).dtype}",
)
def test_a_whole_file_with_something_else_in_it_is_one_line(stick, capsys, ending, change, facts):
    for name in TEN[:-1]:
        Round(stick / "stick").without([TEN[-1]], key(stick, name))

    def changed(data):
        tensors, said = decode(data)
        return encode({"values": change(tensors["values"])}, said | facts)

    assert "tinytrain: file-" in refused(stick, capsys, ending, changed)


@each("place, value", [(-2, -(2**60)), (-2, 2**62), (3 * WAY, 2**40), (-4, 2**40), (-5, -(2**63))])
def test_a_part_of_numbers_that_no_images_have_is_refused(stick, monkeypatch, place, value):
    """Whoever makes it up may write what no check of its own would let through."""
    numbers = masks._numbers

    def made_up(*given):
        found = numbers(*given)
        found.view(np.int64)[place] = value
        return found

    monkeypatch.setattr(masks, "_numbers", made_up)
    Round(stick / "stick").give(DELTAS[TEN[-1]], key(stick, TEN[-1]))
    with pytest.raises(InputError, match=r"add to no sums|as large as those of so many images"):
        Round(stick / "stick").total(kernels.load())


def test_a_member_that_cannot_be_written_leaves_no_key(tmp_path):
    (tmp_path / "stick").mkdir()
    long = tmp_path / f"{'n' * 250}.key"
    with pytest.raises(StorageError, match=r"write-failed: .*choose a shorter name"):
        Round(tmp_path / "stick").join(DELTAS[TEN[0]], long)
    assert not long.exists() and not list((tmp_path / "stick").iterdir())


def test_the_sum_replaces_no_file_of_the_round(ten, capsys):
    part = ten / "stick" / f"{TEN[0]}.part"
    before = part.read_bytes()
    assert tt("mask", "sum", ten / "stick", "-o", part) == 2
    assert "which is needed" in capsys.readouterr().err and part.read_bytes() == before


def test_three_devices_merge_by_commands_so_that_only_the_sum_shows(tmp_path, capsys):
    (tmp_path / "stick").mkdir()
    for step in ("join", "give"):
        for name in TEN[:3]:
            save_delta(tmp_path / name, DELTAS[name])
            assert (
                tt("mask", step, tmp_path / name, tmp_path / "stick", "--key", tmp_path / f"{name}.key") == 0
            )
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("; members: 1, parts: 0") and out[-1].endswith("; members: 3, parts: 3")
    assert tt("mask", "sum", tmp_path / "stick", "-o", tmp_path / "all", "--json") == 0
    assert same_head(load_delta(tmp_path / "all"), TEN[:3])
    images = merge(kernels.load(), [DELTAS[name] for name in TEN[:3]], TEN[:3]).images
    assert json.loads(capsys.readouterr().out)["images"] == sum(images)


def test_the_sum_says_what_the_deltas_are_for_as_far_as_members_do(tmp_path, capsys):
    said = {"episode": {"kind": "sound"}}  # the third one is of a version that did not say it
    deltas = {name: replace(DELTAS[name], report=said if k < 2 else {}) for k, name in enumerate(TEN[:3])}
    stick = folder(tmp_path)
    for step in (Round.join, Round.give):
        for name, delta in deltas.items():
            step(Round(stick), delta, tmp_path / f"{name}.key")
    assert tt("mask", "sum", stick, "-o", tmp_path / "all") == 0
    assert capsys.readouterr().out.endswith(" clips\n")
    assert load_delta(tmp_path / "all").report_of_kind == said


def test_a_key_that_all_members_would_see_is_not_made(ten):
    with pytest.raises(InputError, match="keep the key in another folder"):
        Round(ten / "stick").join(DELTAS[TEN[0]], ten / "stick" / "new.key")
    assert not (ten / "stick" / "new.key").exists()
