"""A watcher of a delta, or of a store in which what is learnt is kept."""

from tinytrain.delta.delta import Delta
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.network.network import Network
from tinytrain.runtime.predict import Predictor
from tinytrain.store import Start, Store
from tinytrain.store.kept import MOST, Kept
from tinytrain.stream.learner import Learner
from tinytrain.stream.watcher import Watcher


def parts_of(
    network: Network,
    delta: Delta,
    store: Store | None = None,
    start: Start | None = None,
    keep: int = MOST,
    backend: str = "auto",
) -> tuple[Learner, Predictor, Kept | None]:
    """What makes a `Watcher` of `delta`, which is that of `start` of a `store` if one is given.

    It keeps at most `keep` corrected images in the store. Raises InputError for a delta of another backbone.
    """
    learner = Learner(delta, store, start, UnlabelledDrift(delta.head.embedding_size), backend)
    kept = Kept(store.kept.path, keep) if store is not None and keep else None
    return learner, Predictor(network, delta, backend), kept


def open_watcher(
    network: Network, delta: Delta, store: Store | None = None, start: Start | None = None, keep: int = MOST
) -> Watcher:
    """The `Watcher` of `parts_of` these."""
    return Watcher(*parts_of(network, delta, store, start, keep))
