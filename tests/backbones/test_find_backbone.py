"""A delta finds its network by its digest, wherever that lies; what lies there is checked."""

from types import SimpleNamespace

import pytest
from published import published_file
from toyfiles import write_network

from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.load import backbone_option, find_backbone, load_backbone, remember_backbone
from tinytrain.backbones.remembered import recall
from tinytrain.base.errors import InputError
from tinytrain.cli.commands.common import check_outputs
from tinytrain.network.file import save_network
from tinytrain.pipeline.toy import toy_network


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def code_of(digest: str, name: str = "toy") -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        find_backbone(digest, name)
    return caught.value.code, caught.value.message


def test_the_shipped_backbone_is_found_whatever_it_is_called(cache):
    for name in (SHIPPED.name, "another name", ""):
        assert find_backbone(SHIPPED.digest, name).digest == SHIPPED.digest


def test_a_downloaded_backbone_is_found_by_its_content_and_not_by_its_name(cache):
    network = load_backbone(published_file("mcunet-5fps"))
    (cache / "backbones").mkdir(parents=True)
    save_network(network, cache / "backbones" / "mcunet-5fps.safetensors")
    assert find_backbone(network.digest, "mcunet-5fps").digest == network.digest
    assert find_backbone(network.digest, "mbv2-w0.35").digest == network.digest
    assert code_of("0" * 64, "mcunet-5fps")[0] == "backbone-not-here"


def test_a_published_backbone_that_is_not_here_is_named_with_the_command_that_gets_it():
    code, message = code_of("0" * 64, "mcunet-5fps")
    assert code == "backbone-not-here" and "000000000000" in message
    assert message.endswith("run: tinytrain backbones get mcunet-5fps")


def test_a_network_of_ones_own_is_found_where_it_was_used_before(tmp_path):
    path, network = write_network(tmp_path), toy_network()
    assert code_of(network.digest)[1].endswith("with --backbone FILE")
    remember_backbone(path, network)
    assert find_backbone(network.digest, "toy").digest == network.digest


def test_a_file_that_changed_or_went_away_is_not_taken_for_the_network_that_it_was(tmp_path):
    path, network = write_network(tmp_path), toy_network()
    remember_backbone(path, network)
    save_network(toy_network(seed=1), path)
    code, message = code_of(network.digest)
    assert code == "backbone-not-here" and f"it was {path}, which is gone or has changed" in message
    path.unlink()
    assert code_of(network.digest)[0] == "backbone-not-here"


def test_a_command_names_the_file_of_a_network_as_long_as_it_is_there(tmp_path):
    path, network = write_network(tmp_path), load_backbone("small")
    parts = [SimpleNamespace(backbone=network.digest, backbone_name=SHIPPED.name)]
    assert backbone_option(SimpleNamespace(parts=parts)) == SHIPPED.name
    remember_backbone(path, network)
    assert backbone_option(SimpleNamespace(parts=2 * parts)) == f"{path}+{path}"
    path.unlink()
    assert backbone_option(SimpleNamespace(parts=2 * parts)) == f"{SHIPPED.name}+{SHIPPED.name}"


def test_names_leave_no_note_and_a_folder_that_cannot_be_written_is_no_error(cache, tmp_path):
    network = toy_network()
    remember_backbone(None, network)
    remember_backbone(SHIPPED.name, network)
    assert recall(network.digest) is None and not cache.exists()
    cache.write_text("a file where the folder would be")
    remember_backbone(write_network(tmp_path), network)
    assert recall(network.digest) is None


def test_a_note_that_says_the_same_is_not_written_again(cache, tmp_path):
    path, network = write_network(tmp_path), toy_network()
    remember_backbone(path, network)
    before = (cache / "networks" / network.digest).stat().st_ino
    remember_backbone(path, network)
    assert (cache / "networks" / network.digest).stat().st_ino == before


@pytest.mark.parametrize("note", [b"/x\0y", b"/\xff", b"toy.safetensors", b"/" + b"a" * 4000])
def test_a_damaged_note_is_no_error_of_its_own(cache, tmp_path, note):
    path, network = write_network(tmp_path), toy_network()
    remember_backbone(path, network)
    (cache / "networks" / network.digest).write_bytes(note)
    assert code_of(network.digest)[0] == "backbone-not-here"
    check_outputs(str(tmp_path / "out"), needed=(recall(network.digest),))
    remember_backbone(path, network)
    assert recall(network.digest) == path
