"""``tinytrain warmup``: compile all kernels, so that no adaptation has to wait for the compiler."""

from tinytrain.cli.commands.common import add_json, print_result

DESCRIPTION = (
    "Compile all kernels and keep them on disk, by running tiny adaptations. Run it once after installation. "
    "Run again, it compiles only what is missing or damaged. TINYTRAIN_CACHE sets another cache folder."
)
EXAMPLES = """\
  tinytrain warmup
  tinytrain warmup --json
"""


def add_arguments(parser) -> None:
    add_json(parser)


def run(arguments) -> None:
    import time

    from tinytrain import kernels as kernel_table
    from tinytrain.pipeline.warmup import warm_up

    start = time.perf_counter()
    backend = kernel_table.load().backend
    compiled = warm_up()
    result = {"kernels": backend, "compiled": compiled, "seconds": time.perf_counter() - start}
    if backend != "numpy":
        from tinytrain.kernels.kernel import CACHE

        result["folder"] = str(CACHE.folder) if CACHE.kept else None
        where = f"kept in {CACHE.folder}" if CACHE.kept else "not kept: the cache folder cannot be written"
        if CACHE.packaged:
            where = "those that came with the package"
        text = f"{len(compiled)} kernels ready in {result['seconds']:.1f} s, {where}"
    else:
        text = "kernels run in plain numpy, nothing to compile; tinytrain doctor shows the remedy"
    print_result(result, text, arguments.json)
