"""Heads by name. To add one, add a row here and a line in `__init__.py` for the help."""

import copyreg

from tinytrain.base.registry import find
from tinytrain.heads import cosine, knn, lda, oselm, oselm_ae, rce, ridge, softmax
from tinytrain.heads.head import HeadMethod

HEADS: dict[str, HeadMethod] = {
    method.name: method
    for method in (
        cosine.METHOD,
        lda.METHOD,
        lda.MILD,
        lda.STREAMING,
        ridge.METHOD,
        cosine.IMPRINT,
        knn.METHOD,
        rce.METHOD,
        softmax.METHOD,
        oselm.METHOD,
        oselm_ae.METHOD,
    )
}
BASELINE = cosine.METHOD  # what every adaptation is compared with, and goes back to


def find_head(head: str | HeadMethod) -> HeadMethod:
    """The method of that name. Raises UsageError with the closest known one."""
    return head if isinstance(head, HeadMethod) else find("head", head, HEADS)


def _reduced(method: HeadMethod):
    """A method of the table stays itself where it is pickled: programs ask for it by ``is``."""
    return (
        (find_head, (method.name,)) if HEADS.get(method.name) is method else object.__reduce_ex__(method, 2)
    )


for _method in HEADS.values():
    copyreg.pickle(type(_method), _reduced)
