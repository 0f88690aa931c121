"""Deploys an encoder: encodes the items of the current index again, beside it, and switches to both at once.

Nothing that a service uses is changed before the switch, and the switch is the move of one link. So a process that is
killed at any time leaves the old release or the new one, and the same command continues. Changes of the old index while
the new one is made are followed; the last of them are made while writers wait, just before the switch.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nsh.errors import CodesError, ConfigError, DataError
from nsh.serving.deployment.agreement import MIN_RECALL, recall_of_neighbours
from nsh.serving.deployment.catching_up import Encode, catch_up
from nsh.serving.deployment.folder import Deployment, Release
from nsh.serving.deployment.items import NO_IMAGE, Encoded, ItemEncoder
from nsh.serving.index import Index
from nsh.serving.index.changes import Changes
from nsh.serving.index.database import writing
from nsh.serving.index.succession import clear_address, set_address
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress, no_progress


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a new release must fulfil."""

    min_recall: float = MIN_RECALL  # of the former neighbours, see `agreement`
    leave_out: bool = False  # items whose image cannot be encoded, instead of refusing


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a deployment did."""

    release: Release
    former: Release | None  # None: there was none
    items: int
    left_out: int  # items of the former index that the new one lacks
    recall: float | None  # of the former neighbours; None: there were none
    switched: bool  # False: the release was current already, or is only prepared


@dataclass(frozen=True, kw_only=True)
class Deployer:
    """One deployment of one encoder; its caller has locked the folder (`Deployment.changing`)."""

    deployment: Deployment
    items: ItemEncoder
    conditions: Conditions
    progress: Progress = no_progress

    def deploy(self, *, adopt: Path | None = None, switch: bool = True) -> Outcome:
        """Make the encoder's release, or continue with the one that was prepared, and switch to it.

        Args:
            adopt: an index to begin with, in a deployment that has no release; without it, all images become items.
            switch: False: only prepare the release; the first one is always switched to.

        Raises:
            ConfigError: `adopt` is given, and the deployment has a release.
            DataError: an item has no image that can be encoded.
            CodesError: the recall is too small.
        """
        current = self.deployment.current
        if current is None:
            return self._begin() if adopt is None else self._finish(*self._make(Index.open(adopt), None), current=None)
        if adopt is not None:
            raise ConfigError(f"{self.deployment.folder} has a release, and its index is replaced: leave out --index")
        source = Index.open(current.index)
        if source.encoder_identity == self._identity:
            return Outcome(release=current, former=None, items=len(source), left_out=0, recall=None, switched=False)
        prepared = self._find_prepared(current)
        if prepared is None:
            target, changes = self._make(source, current)
        else:
            target, changes = prepared, Changes(source).resume(prepared.matches(current))
        return self._finish(target, changes, current=current, switch=switch)

    def go_back(self) -> Outcome:
        """Switch back to the former release, after doing to its index what was done to the current one since.

        The encoder of this deployer must be the former release's.

        Raises:
            ConfigError: there is no former release.
            DataError: an item that came since has no image that can be encoded.
        """
        former, current = self.deployment.former(), self.deployment.current
        assert current is not None  # there is a former one
        changes = Changes(Index.open(current.index)).resume(former.matches(current))
        return self._finish(former, changes, current=current)

    def _find_prepared(self, current: Release) -> Release | None:
        """A release of this encoder that agrees with a known state of the current one."""
        for release in self.deployment.kept():
            if release != current and Index.open(release.index, readonly=True).encoder_identity == self._identity:
                return release
        return None

    def _begin(self) -> Outcome:
        """The first release, of all images."""
        release, ids = self.deployment.next_release(self._identity), self.items.ids
        with self._building(release) as index:
            codes, faults = self._encode_all(ids)(ids)
            self._refuse(faults)
            index.add(list(codes), np.stack(list(codes.values())), encoder_identity=self._identity)
        self.deployment.switch(release)
        return Outcome(release=release, former=None, items=len(codes), left_out=len(faults), recall=None, switched=True)

    def _make(self, source: Index, current: Release | None) -> tuple[Release, Changes]:
        """A release of the items of `source`, and the later changes of `source`."""
        release, changes = self.deployment.next_release(self._identity), Changes(source).skip()
        with self._building(release) as index:
            ids = [name for change in Changes(source) for name in change.items.ids]
            same = (source.encoder_identity, source.bits) == (self._identity, index.bits)
            encode = self._copy(source) if same else self._encode_all(ids)
            faults = catch_up(index, Changes(source), encode=encode)
            faults |= catch_up(index, changes, encode=self.items)
            self._refuse(faults)
            if current is not None:
                changes.save(Release(index.folder.parent).matches(current))
        return release, changes

    @contextmanager
    def _building(self, release: Release) -> Iterator[Index]:
        """The empty index of a release that is complete if the block succeeds."""
        with atomic_folder(release.folder) as partial:
            made, encoder = Release(partial), self.items.encoder
            shutil.copyfile(encoder.path, made.model)
            index = Index.create(made.index, bits=encoder.contract.bits, encoder_identity=encoder.identity)
            yield index
            index.close()

    def _finish(self, target: Release, changes: Changes, *, current: Release | None, switch: bool = True) -> Outcome:
        clear_address(target.index)
        index, source = Index.open(target.index), changes.index
        self._refuse(catch_up(index, changes, encode=self.items))
        recall = self._check_recall(target, source, index)
        if switch or current is None:
            left_out = self._switch(target, index, changes, current)
        else:
            left_out = len(source.ids_beyond(index))  # others go on changing it
            changes.save(target.matches(current))
        return Outcome(
            release=target, former=current, items=len(index), left_out=left_out, recall=recall, switched=switch
        )

    def _switch(self, target: Release, index: Index, changes: Changes, current: Release | None) -> int:
        """Take the last changes over while writers wait, and move the link; return how many items were left out."""
        with writing(changes.index.folder):
            self._refuse(catch_up(index, changes, encode=self.items))
            left_out = self._count_left_out(changes.index, index)
            if current is not None:
                Changes(index).skip().save(current.matches(target))
                set_address(current.index, self.deployment.address)
            self.deployment.switch(target)
        self.deployment.prune()
        return left_out

    def _check_recall(self, target: Release, source: Index, index: Index) -> float:
        recall, least = recall_of_neighbours(source, index), self.conditions.min_recall
        if recall < least:
            raise CodesError(
                f"{target.folder} finds {recall:.2f} of the former neighbours, needed are {least:g}: nothing was "
                "switched; look at what it finds (nsh serve --shadow), and give a smaller --min-recall if that is good"
            )
        return recall

    def _count_left_out(self, source: Index, index: Index) -> int:
        """How many items of `source` are not in `index`, while nobody writes; makes sure that it has all others."""
        source.refresh()
        missing = source.ids_beyond(index)
        self._refuse(dict.fromkeys(missing, NO_IMAGE))
        if len(index) != len(source) - len(missing):
            raise CodesError(f"found {len(index)} items in {index.folder}, needed are {len(source) - len(missing)}")
        return len(missing)

    def _refuse(self, faults: Mapping[str, str]) -> None:
        if faults and not self.conditions.leave_out:
            first, reason = next(iter(faults.items()))
            raise DataError(
                f"{len(faults)} items have no image that can be encoded, such as {first!r} ({reason}), and nothing was "
                "switched: put their images where the others are, or give --leave-out to go on without these items"
            )

    def _encode_all(self, ids: Sequence[str]) -> Encode:
        codes = self.deployment.codes(self._identity)
        return self.items.encode_all(ids, codes, progress=self.progress)

    @staticmethod
    def _copy(source: Index) -> Encode:
        """The codes of an index that this encoder made."""
        return lambda ids: Encoded({name: source.code_of(name) for name in ids}, {})

    @property
    def _identity(self) -> str:
        return self.items.encoder.identity
