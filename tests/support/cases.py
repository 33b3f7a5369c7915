"""Cases of a test: which are run by default, and many small ones as one test."""

import inspect
from collections.abc import Callable, Iterable

import pytest


def quick(cases: Iterable, some: Iterable[int] = (0,), single: bool = False) -> list:
    """`cases` for a parametrised test, of which those at other places than `some` are slow.

    A case that is a tuple has a value for each name, or is the value of a `single` one.
    """
    found, some = [], set(some)
    for place, case in enumerate(cases):
        values = case if isinstance(case, tuple) and not single else (case,)
        found.append(case if place in some else pytest.param(*values, marks=pytest.mark.slow))
    return found


def each(names: str | tuple[str, ...], cases: Iterable, ids=None) -> Callable:
    """As `pytest.mark.parametrize`, but all cases are one test, which fails with a line for each that does.

    Every case has a folder of its own as `tmp_path`, its own `monkeypatch`, and what it printed in `capsys`.
    """
    names = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    cases = list(cases)

    def named(place: int) -> str:
        return str(cases[place] if ids is None else ids(cases[place]) if callable(ids) else ids[place])[:200]

    def decorate(test: Callable) -> Callable:
        signature = inspect.signature(test)

        def all_cases(*own, **fixtures):
            failed = []
            for place, case in enumerate(cases):
                given = dict(zip(names, case if len(names) > 1 else [case], strict=True)) | fixtures
                if "capsys" in given:
                    given["capsys"].readouterr()
                if "tmp_path" in given:
                    given["tmp_path"] = given["tmp_path"] / f"case{place}"
                    given["tmp_path"].mkdir()
                with pytest.MonkeyPatch.context() as patch:
                    if "monkeypatch" in given:
                        given["monkeypatch"] = patch
                    try:
                        test(*own, **given)
                    except Exception as error:
                        failed.append(f"{named(place)}: {type(error).__name__}: {error}")
            assert not failed, "\n".join(failed)

        left = [p for name, p in signature.parameters.items() if name not in names]
        all_cases.__signature__ = signature.replace(parameters=left)
        all_cases.__name__, all_cases.__doc__ = test.__name__, test.__doc__
        all_cases.__module__, all_cases.__qualname__ = test.__module__, test.__qualname__
        all_cases.pytestmark = list(getattr(test, "pytestmark", ()))
        return all_cases

    return decorate
