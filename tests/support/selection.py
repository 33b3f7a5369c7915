"""A plugin of pytest: which tests `--select` takes."""

DONE = "tinytrain/done"  # in pytest's cache: the tests that quick runs have run, and not skipped


def pytest_addoption(parser):
    parser.addoption(
        "--select",
        choices=("quick", "rest", "all"),
        default="quick",
        help="quick: what is not marked slow; rest: what is, and what no quick run in this folder has run",
    )


def done(config) -> set[str]:
    return set(config.cache.get(DONE, ())) if hasattr(config, "cache") else set()


def pytest_collection_modifyitems(config, items):
    select = config.getoption("select")
    named = config.option.markexpr or any("::" in argument for argument in config.args)
    if select == "all" or (select == "quick" and named):
        return
    known, chosen, left = done(config), [], []
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        is_chosen = slow or item.nodeid not in known if select == "rest" else not slow
        (chosen if is_chosen else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = chosen


def pytest_terminal_summary(terminalreporter, config):
    """Tests that this run did not come to stay as they were: it may be of a few, or interrupted."""
    if config.getoption("select") == "quick" and hasattr(config, "cache"):
        passed, failed, skipped = (
            {report.nodeid for report in terminalreporter.stats.get(kind, ())}
            for kind in ("passed", "failed", "skipped")
        )
        ran = done(config) | passed | failed
        # A file that was skipped whole is so by its own name.
        config.cache.set(DONE, sorted(x for x in ran if skipped.isdisjoint((x, x.split("::")[0]))))
