"""The store of deltas on a device: two slots, a trial, and always one usable delta."""

from tinytrain.store.deltastore import Start, Store
from tinytrain.store.journal import Entry
from tinytrain.store.journal_replay import JUDGED, WATCHED, watched
from tinytrain.store.record import TRIAL_STARTS
from tinytrain.store.state import ChangedError, Place

__all__ = ["JUDGED", "TRIAL_STARTS", "WATCHED", "ChangedError", "Entry", "Place", "Start", "Store", "watched"]
