"""Names that a user gives, against the rows that there are."""

import pytest

from tinytrain.base.errors import UsageError
from tinytrain.base.registry import find

ROWS = {"cosine": 1, "lda": 2}


def test_a_known_name_gives_its_row():
    assert find("head", "lda", ROWS) == 2


def test_a_misspelt_name_is_answered_with_the_closest():
    with pytest.raises(UsageError) as caught:
        find("head", "cosin", ROWS)
    assert caught.value.code == "unknown-name"
    assert "no head 'cosin'; did you mean cosine? known: cosine, lda" in str(caught.value)


def test_a_name_like_no_other_is_answered_with_all_of_them():
    with pytest.raises(UsageError, match="no head 'forest'; known: cosine, lda"):
        find("head", "forest", ROWS)
