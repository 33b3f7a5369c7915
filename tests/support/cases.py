"""Cases of a test: which are run by default, and many small ones as one test."""

import functools
import inspect
from collections.abc import Callable, Iterable

import pytest


def quick(cases: Iterable, some: Iterable[int] = (0,), single: bool = False) -> list:
    """`cases` for a parametrised test, of which those at other places than `some` are slow.

    A case that is a tuple has a value for each name, or is the value of a `single` one.
    """
    found, some = list(cases), set(some)
    assert some <= set(range(len(found))), "a place without a case"
    for place in set(range(len(found))) - some:
        values = found[place] if isinstance(found[place], tuple) and not single else (found[place],)
        found[place] = pytest.param(*values, marks=pytest.mark.slow)
    return found


def each(names: str | tuple[str, ...], cases: Iterable, ids: Callable | Iterable = str) -> Callable:
    """As `pytest.mark.parametrize`, but all cases are one test, and each runs whatever became of the others.

    If cases fail, the test does, with their names and tracebacks; otherwise it is skipped if a case was. Each
    has a folder of its own as `tmp_path`, its own `monkeypatch`, and what it printed in `capsys`. Other
    fixtures are set up once for all.
    """
    names = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    cases, ids = list(cases), ids if callable(ids) else list(ids)
    assert callable(ids) or len(ids) == len(cases)

    def called(place: int) -> str:
        return str(ids(cases[place]) if callable(ids) else ids[place])[:200]

    def listed(places: dict) -> str:
        return f"{len(places)} of {len(cases)} cases: {', '.join(map(called, places))}"

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def all_cases(*own, **fixtures):
            failed, skipped = {}, {}
            for place, case in enumerate(cases):
                given = fixtures | dict(zip(names, case if len(names) > 1 else [case], strict=True))
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
                    except pytest.skip.Exception as why:
                        skipped[place] = why
                    except (Exception, pytest.fail.Exception) as why:
                        why.add_note(f"in the case {called(place)}")
                        failed[place] = why
            if failed:
                raise BaseExceptionGroup(listed(failed), [*failed.values()])
            if skipped or not cases:
                reasons = ", ".join(sorted({str(why) for why in skipped.values()}))
                pytest.skip(f"{test.__name__}, {listed(skipped)}: {reasons}")

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in names]
        all_cases.__signature__ = signature.replace(parameters=left)
        return all_cases

    return decorate
