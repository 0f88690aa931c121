"""Deployments: what the new index holds, what is refused, and what is left after a kill at any moment."""

import json
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.commands import run_nsh

from nsh.errors import CodesError, ConfigError, DataError, IndexReplaced
from nsh.serving.bulk import encode_files
from nsh.serving.deployment.folder import Deployment
from nsh.serving.encoder import Encoder
from nsh.serving.index import Index


def test_the_new_index_has_the_items_of_the_old_one_with_codes_of_the_new_encoder(
    deployment, deploy, encoder_path, turned_path, photos, codes_of, items_of
):
    first = deployment.current
    old = Index.open(first.index)
    code = old.code_of("03.png")
    old.add(["03.png"], code[None], metadata=[{"side": "left"}], encoder_identity=old.encoder_identity)
    old.remove(["07.png"])
    outcome = deploy(turned_path)
    expected = {name: (code, {}) for name, code in codes_of(turned_path, photos).items() if name != "07.png"}
    expected["03.png"] = expected["03.png"][0], {"side": "left"}
    assert items_of(deployment.current.index) == expected
    assert Encoder(deployment.current.model).identity == Encoder(turned_path).identity
    assert (outcome.items, outcome.left_out, outcome.recall, outcome.switched) == (29, 0, 1.0, True)
    assert outcome.former == first != deployment.current


def test_changes_while_the_new_index_is_made_are_not_lost(
    deployment, deploy, encoder_path, turned_path, photos, codes_of, items_of
):
    former = Index.open(deployment.current.index)
    encoder = Encoder(encoder_path)

    def change_meanwhile(*arguments, **keywords):
        summary = encode_files(*arguments, **keywords)
        shutil.copyfile(photos / "01.png", photos / "late.png")
        shutil.copyfile(photos / "02.png", photos / "04.png")  # another image under an old id
        codes = encoder.encode([photos / "late.png", photos / "04.png"])
        metadata = [{"when": "late"}, {}]
        former.add(["late.png", "04.png"], codes, metadata=metadata, encoder_identity=encoder.identity)
        former.remove(["29.png"])
        return summary

    outcome = deploy(turned_path, encode_images=change_meanwhile)
    expected = {name: (code, {}) for name, code in codes_of(turned_path, photos).items() if name != "29.png"}
    expected["late.png"] = expected["late.png"][0], {"when": "late"}
    assert items_of(deployment.current.index) == expected
    assert expected["04.png"] == expected["02.png"]
    assert outcome.items == 30


def test_after_the_switch_the_old_index_refuses_changes_instead_of_losing_them(deployment, deploy, turned_path):
    by_link = Index.open(deployment.address)  # as `nsh index add --index deployment/current/index` does
    code = by_link.code_of("00.png")
    deploy(turned_path)
    with pytest.raises(IndexReplaced, match="another index has replaced"):
        by_link.add(["new.png"], code[None], encoder_identity=by_link.encoder_identity)
    with pytest.raises(IndexReplaced):
        by_link.remove(["00.png"])
    assert by_link.code_of("00.png").tolist() == code.tolist()
    assert len(Index.open(deployment.address)) == 30


def test_going_back_takes_along_what_came_since(
    deployment, deploy, encoder_path, turned_path, photos, codes_of, items_of
):
    first = deployment.current
    deploy(turned_path)
    second, encoder = deployment.current, Encoder(turned_path)
    shutil.copyfile(photos / "01.png", photos / "late.png")
    new = Index.open(second.index)
    new.add(["late.png"], encoder.encode([photos / "late.png"]), encoder_identity=encoder.identity)
    new.remove(["00.png"])
    went = run_nsh("rollback", deployment.folder)
    assert (went.returncode, went.stderr) == (0, "")
    assert f"{first.folder}: 30 items, current now" in went.stdout
    assert "of the former neighbours are found" in went.stdout
    assert deployment.current == first
    expected = {name: (code, {}) for name, code in codes_of(encoder_path, photos).items() if name != "00.png"}
    assert items_of(first.index) == expected
    restored = Index.open(first.index)
    restored.remove(["01.png"])  # the index that is current again can be changed
    assert run_nsh("rollback", deployment.folder).returncode == 0
    assert deployment.current == second
    assert sorted(items_of(second.index)) == sorted(set(expected) - {"01.png"})


def test_a_prepared_release_is_caught_up_and_switched_to(
    deployment, deployer, deploy, encoder_path, turned_path, photos, items_of
):
    first = deployment.current
    with deployment.changing():
        prepared = deployer(turned_path).deploy(switch=False)
    assert (prepared.switched, deployment.current) == (False, first)
    Index.open(first.index).remove(["05.png"])

    def encode_nothing(*arguments, **keywords):
        raise AssertionError("a prepared release is not made again")

    assert deploy(turned_path, encode_images=encode_nothing).release == prepared.release == deployment.current
    assert "05.png" not in items_of(prepared.release.index)


def test_an_item_without_an_image_is_refused_or_left_out(deployment, deploy, encoder_path, turned_path, items_of):
    deploy(encoder_path)
    first, encoder = deployment.current, Encoder(encoder_path)
    index = Index.open(first.index)
    ids = ["over-http", "../deployment/images.json"]
    index.add(ids, encoder.encode([first.folder.parents[2] / "photos/00.png"] * 2), encoder_identity=encoder.identity)
    with pytest.raises(DataError, match=r"2 items have no image .*'over-http'.*--leave-out"):
        deploy(turned_path)
    assert deployment.current == first
    assert [release.name for release in deployment.releases()] == [first.name]
    outcome = deploy(turned_path, leave_out=True)
    assert (outcome.items, outcome.left_out) == (30, 2)
    assert not set(ids) & set(items_of(deployment.current.index))


def test_an_encoder_that_finds_other_neighbours_is_refused_with_the_figure(deployment, deploy, collapsed_path):
    """Thirty items: of the 10 nearest of 29, those that come first in the index are about a third by chance."""
    first = deployment.current
    with pytest.raises(CodesError, match=r"finds 0\.[2-5]\d of the former neighbours, needed are 0\.7: nothing"):
        deploy(collapsed_path, min_recall=0.7)
    assert deployment.current == first


def test_releases_that_do_not_agree_with_the_current_one_are_deleted(deployment, deploy, turned_path, collapsed_path):
    names = [deployment.current.name]
    for model in (turned_path, collapsed_path):
        deploy(model, min_recall=0)
        names.append(deployment.current.name)
    assert sorted(release.name for release in deployment.releases()) == sorted(names[1:])
    codes = [path.name for path in (deployment.folder / "codes").iterdir()]
    assert sorted(codes) == sorted(name.rpartition("-")[0] for name in names[1:])


def test_the_commands(tmp_path, encoder_path, turned_path, photos):
    folder = tmp_path / "deployment"
    unknown = run_nsh("deploy", encoder_path, "--to", folder)
    assert (unknown.returncode, "give --images" in unknown.stderr) == (2, True)
    missing = run_nsh("serve", "--deployment", folder)
    assert (missing.returncode, "has no release" in missing.stderr) == (2, True)
    first = run_nsh("deploy", encoder_path, "--to", folder, "--images", photos, "--threads", 1, "--json")
    assert json.loads(first.stdout)["items"] == 30
    second = run_nsh("deploy", turned_path, "--to", folder, "--threads", 1)
    assert (second.returncode, second.stderr) == (0, "")
    assert "30 items, current now" in second.stdout
    assert "1.00 of the former neighbours are found" in second.stdout
    assert "current already" in run_nsh("deploy", turned_path, "--to", folder, "--threads", 1).stdout
    both = run_nsh("serve", "--deployment", folder, "--model", encoder_path)
    assert (both.returncode, "leave --model out" in both.stderr) == (2, True)


def test_a_deployment_begins_with_an_index_of_before(tmp_path, new_deployment, encoder_path, photos, items_of):
    deployment, deployer = new_deployment
    encoder = Encoder(encoder_path)
    index = Index.create(tmp_path / "index", bits=encoder.contract.bits, encoder_identity=encoder.identity)
    codes = encoder.encode([photos / "00.png", photos / "01.png"])
    index.add(["00.png", "no file"], codes, metadata=[{"a": "1"}, {}], encoder_identity=encoder.identity)
    with deployment.changing():
        outcome = deployer(encoder_path).deploy(adopt=tmp_path / "index")
    assert (outcome.items, outcome.recall) == (2, 1.0)
    assert items_of(deployment.current.index) == items_of(tmp_path / "index")
    with deployment.changing(), pytest.raises(ConfigError, match="leave out --index"):
        deployer(encoder_path).deploy(adopt=tmp_path / "index")


def test_one_process_deploys_at_a_time(deployment, deploy, encoder_path):
    with deployment.changing(), pytest.raises(ConfigError, match="another process deploys"):
        deploy(encoder_path)


KILLED = """
import os, signal, sys
from nsh.serving.deployment import deploy, folder
from nsh.serving.index import Index
from nsh.cli import main

def die(*arguments, **keywords):
    os.kill(os.getpid(), signal.SIGKILL)

places = {"index": (deploy, "catch_up"), "lock": (deploy, "set_address"), "link": (folder, "atomic_link")}
setattr(*places[sys.argv.pop(1)], die)
main()
"""


@pytest.mark.parametrize("moment", ["index", "lock", "link"])
def test_a_deployment_that_was_killed_leaves_the_old_release_and_can_be_repeated(
    deployment, deploy, turned_path, items_of, moment
):
    """Killed before the new index is filled, while writers wait, and just before the switch."""
    first = deployment.current
    before = items_of(first.index)
    command = [sys.executable, "-c", KILLED, moment, "deploy", turned_path, "--to", deployment.folder, "--threads", "1"]
    killed = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (deployment.current, items_of(first.index)) == (first, before)
    index = Index.open(first.index)
    index.remove(["00.png"])  # it can still be changed
    with suppress(ConfigError):
        Deployment(deployment.folder).former()
        raise AssertionError("a release that was never current is no former one")
    assert deploy(turned_path).items == 29
    assert deployment.current != first
    assert not [path for path in (deployment.folder / "releases").iterdir() if path.name.startswith(".")]
