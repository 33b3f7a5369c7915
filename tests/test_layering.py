"""Every package imports only what stands below it, lazy imports included."""

import functools
import re
from pathlib import Path

from cases import each
from sourcetree import MODULES, imports

# Package -> what it may import beside its own files. A later row may be imported by no earlier one.
LAYERS = {
    "base": "",
    "network": "base",
    "episode": "base network",
    "kernels": "base",
    "heads": "base kernels",
    "drift": "base heads",
    "guard": "base heads",
    "plan": "base heads network episode",
    "delta": "base heads network",
    "trust": "base kernels heads network delta",
    "store": "base kernels heads network delta trust",
    "program": "base kernels heads network plan",
    "policies": "base episode heads network plan program",
    "planner": "base heads network plan policies program",
    "runtime": "base network episode kernels heads plan delta policies program planner",
    "backbones": "base delta episode heads network runtime",
}
LAYERS["codegen"] = f"{LAYERS['runtime']} guard runtime"
LAYERS["report"] = f"{LAYERS['runtime']} guard runtime backbones"
LAYERS["pipeline"] = f"{LAYERS['report']} report drift"
LAYERS["stream"] = "base kernels heads delta network episode plan runtime backbones store pipeline drift"
LAYERS["doctor"] = "base kernels"
LAYERS["datasets"] = "base episode"
LAYERS["api"] = f"{LAYERS['pipeline']} pipeline trust store stream datasets codegen"
LAYERS["serve"] = f"{LAYERS['api']} api"
LAYERS["federate"] = f"{LAYERS['pipeline']} pipeline trust"
LAYERS["meta"] = f"{LAYERS['pipeline']} pipeline trust store stream datasets federate"
LAYERS["firmware_sim"] = f"{LAYERS['meta']} codegen"
LAYERS["kit"] = "base kernels pipeline backbones network"
LAYERS["cli"] = f"{LAYERS['meta']} doctor codegen meta api serve federate firmware_sim kit"


def package_of(module: str) -> str:
    """The row of a dotted module; "" for the package itself, which hands names on."""
    return module.split(".")[1] if "." in module else ""


@functools.cache
def arrows() -> set[tuple[str, str]]:
    """Which module imports which. Found when a test asks: every worker of pytest imports this file."""
    return {(module, target) for module, path in MODULES.items() for target in imports(path)}


@each("package", LAYERS)
def test_a_package_imports_only_what_stands_below_it(package):
    allowed = {package, "", *LAYERS[package].split()}
    wrong = {(a, b) for a, b in arrows() if package_of(a) == package and package_of(b) not in allowed}
    assert not wrong, "\n".join(f"{a} imports {b}" for a, b in sorted(wrong))


def test_every_package_has_a_row_and_no_module_lies_beside_them():
    found = {package_of(module) for module in MODULES} - {"", "__main__"}
    assert found == LAYERS.keys()


def test_the_table_of_packages_for_contributors_has_each_of_them_once():
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text().partition("| package |")[2]
    first = (row.split(" | ")[0] for row in page.partition("\n\n")[0].splitlines()[2:])
    assert sorted(re.findall(r"`(?:tinytrain/)?(\w+)`", " ".join(first))) == sorted(LAYERS)


def test_modules_import_each_other_in_no_circle():
    """A package as such counts as its ``__init__``; importing a module runs those above it as well."""
    targets = {
        module: {b for a, b in arrows() if a == module and b in MODULES} - {module} for module in MODULES
    }
    done = set()
    while ready := {m for m in targets if m not in done and targets[m] <= done}:
        done |= ready
    assert not targets.keys() - done, sorted(targets.keys() - done)
