"""The store of deltas on a device: two slots, a trial, and always one usable delta."""

from tinytrain.store.deltastore import Start, Store
from tinytrain.store.journal import Entry
from tinytrain.store.learning import ChangedError, Place
from tinytrain.store.record import TRIAL_STARTS

__all__ = ["TRIAL_STARTS", "ChangedError", "Entry", "Place", "Start", "Store"]
