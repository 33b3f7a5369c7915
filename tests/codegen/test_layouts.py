"""An emitted folder as an Arduino library and as a module of Zephyr: its example learns the same bits there.

By default with stand-ins for an Arduino core and for Zephyr's build system, in `support/arduino` and
`support/zephyr`. ``TINYTRAIN_ARDUINO`` is a command that compiles a sketch, such as ``arduino-cli compile
--fqbn BOARD``: ``--libraries FOLDER SKETCH`` is added to it. ``TINYTRAIN_ZEPHYR`` is a Zephyr tree, in the
environment of its builds.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import emitted
import int8nets
import pytest
import toynets
from emitted import HERE, plan_of

from tinytrain import __version__

# Flags of Arduino cores for ARM. Products and sums may be fused, and a library can give no flags of its own.
ARDUINO = (
    "-DARDUINO=10819 -Os -ffunction-sections -fdata-sections -nostdlib --param max-inline-insns-single=500"
)
SKETCH = "-std=gnu++17 -fno-threadsafe-statics -fno-rtti -fno-exceptions"
M4 = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
MEMORY = "-DFLASH_AT=0 -DIMAGES_AT=0x21000000 -DRAM_AT=0x20000000 -DRAM_KB=256 -DSTACK_KB=4 -DFLASH_KB=1024"
FUSED = re.compile(r"\bvfn?m[as]\.")
PRAGMA = '#pragma GCC optimize("fp-contract=off")'

pytestmark = pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang")


def need(*tools: str) -> None:
    if absent := [tool for tool in tools if not shutil.which(tool)]:
        pytest.skip(f"not installed: {', '.join(absent)}")


def run(command: str, *more, **environment) -> str:
    words = [*command.split(), *map(str, more)]
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_qemu(machine: str, program: Path, *options: str) -> str:
    """What an emulated board says, until the example is at its end."""
    words = f"qemu-system-arm -M {machine} -nographic -monitor none".split()
    command = [*words, "-kernel", str(program), *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as board:
        lines = []
        for line in board.stdout:
            lines.append(line)
            if line.rstrip().endswith("right"):
                break
        board.kill()
    return "".join(lines)


def learnt(output: str) -> str:
    """The hash of what was learnt, which the example prints."""
    (found,) = re.findall(r"^learnt: ([0-9a-f]{8})\b", output, re.MULTILINE)
    return found


@pytest.fixture(scope="module", params=["float32", "int8"])
def folder(request, tmp_path_factory) -> Path:
    """An emitted toy network, with images that the guard keeps."""
    network = {"float32": toynets.toy, "int8": int8nets.toy8}[request.param]("headed")
    plan = plan_of(network, 2, 3, "lda", 60_000, 0.24, precision=request.param, steps=4)
    folder = tmp_path_factory.mktemp(request.param) / "tinytrain"
    emitted.add_examples(folder, emitted.emit(folder, network, plan, 3))
    return folder


@pytest.fixture(scope="module")
def known(folder) -> str:
    """The hash on a PC, with the options that forbid fused products."""
    program = folder.parent / "on_a_pc"
    run(emitted.compilers()[0], *emitted.STRICT, "-O2", *emitted.demo_of(folder), "-o", program)
    return learnt(run(str(program)))


def objects(folder: Path, into: Path, sources) -> list[Path]:
    """Object files for a Cortex-M4, by the flags of an Arduino core."""
    into.mkdir()
    found = [into / f"{Path(source).stem}.o" for source in sources]
    for source, made in zip(sources, found, strict=True):
        command = f"arm-none-eabi-gcc {M4} {ARDUINO} -std=gnu11 -Werror -c"
        run(command, f"-I{folder / 'src'}", source, "-o", made)
    return found


def fused(files) -> int:
    """Instructions that round a product and a sum together."""
    return len(FUSED.findall(run("arm-none-eabi-objdump -d", *files)))


@pytest.mark.slow
def test_a_sketch_learns_the_bits_of_a_pc_with_the_flags_of_an_arduino_core(folder, known, tmp_path):
    """On an emulated Cortex-M4, which has instructions for fused products and sums."""
    need("arm-none-eabi-g++", "qemu-system-arm")
    example, core, qemu = folder / "examples" / "demo", HERE / "arduino", folder / "qemu"
    library = objects(folder, tmp_path / "library", emitted.library_of(folder))
    assert fused(library) > 0  # where the source says so, as its bits show below
    made = [*library, *objects(folder, tmp_path / "example", [*example.glob("*.c")])]
    sketch = tmp_path / "demo.ino.cpp"
    sketch.write_text("#include <Arduino.h>\n" + (example / "demo.ino").read_text())
    places = [f"-I{place}" for place in (core, example, folder / "src")]
    for source in (sketch, core / "core.cpp"):
        made.append(tmp_path / f"{source.stem}.o")
        run(f"arm-none-eabi-g++ {M4} {ARDUINO} {SKETCH} -c", *places, source, "-o", made[-1])
    script, program = tmp_path / "link.ld", tmp_path / "sketch.elf"
    run(f"arm-none-eabi-gcc -E -P -x c {MEMORY}", qemu / "link.ld.S", "-o", script)
    # What starts the board calls the sketch, and lends it its text.
    start = (f"-I{example}", "-Ddemo=run_sketch", "-Dsay=board_say", qemu / "start.c", qemu / "cortex_m.c")
    linked = f"--specs=nano.specs -nostartfiles -Wl,--gc-sections -T {script}"
    run(f"arm-none-eabi-gcc {M4} -std=c99 -O2 {linked}", *made, *start, "-o", program)
    semihosting = ("-serial", "none", "-semihosting-config", "enable=on,target=native")
    assert learnt(in_qemu("mps2-an386", program, *semihosting)) == known


def test_without_the_line_that_forbids_it_products_and_sums_are_fused(folder, tmp_path):
    need("arm-none-eabi-gcc")
    shutil.copytree(folder, tmp_path / "changed")
    header = tmp_path / "changed" / "src" / "kernels.h"
    text = header.read_text()
    assert text.count(PRAGMA) == 1
    header.write_text(text.replace(PRAGMA, ""))
    sources = [header.parent / name for name in ("kernels_image.c", "kernels_math.c")]
    before = objects(folder, tmp_path / "before", [folder / "src" / path.name for path in sources])
    assert fused(objects(tmp_path / "changed", tmp_path / "objects", sources)) > fused(before)


@pytest.mark.parametrize(
    ("option", "message"),
    [("-ffast-math", "without -ffast-math"), ("-fsingle-precision-constant", "tt_double_has_64_bits")],
)
def test_options_that_change_bits_are_refused(option, message, folder):
    need("gcc")
    command = ["gcc", option, "-fsyntax-only", f"-I{folder / 'src'}", str(folder / "src" / "guard.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and message in done.stderr


def test_the_properties_are_those_that_arduino_asks_for(folder):
    """https://docs.arduino.cc/arduino-cli/library-specification"""
    lines = (folder / "library.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    required = "name version author maintainer sentence paragraph category url architectures"
    assert set(found) == {*required.split(), "includes"} and all(found.values())
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9 _.-]{0,62}", found["name"])
    assert found["version"] == __version__ and re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert found["category"] == "Data Processing"
    assert (folder / "src" / found["includes"]).is_file()
    assert [p.stem for p in folder.glob("examples/*/*.ino")] == [p.name for p in folder.glob("examples/*")]
    assert not list(folder.glob("*.[ch]")) and not (folder / "utility").exists()


@pytest.mark.skipif("TINYTRAIN_ARDUINO" not in os.environ, reason="set TINYTRAIN_ARDUINO to a command")
def test_arduino_compiles_the_sketch(folder):
    words = shlex.split(os.environ["TINYTRAIN_ARDUINO"])
    run(words[0], *words[1:], "--libraries", folder.parent, folder / "examples" / "demo" / "demo.ino")


@pytest.mark.slow
def test_the_module_and_its_sample_build_with_the_functions_of_zephyr(folder, known, tmp_path):
    """With a stand-in for Zephyr, for a PC."""
    need("cmake")
    sample = folder / "zephyr" / "sample"
    run("cmake -S", sample, "-B", tmp_path, f"-DZephyr_DIR={HERE / 'zephyr'}")
    run("cmake --build", tmp_path)
    assert learnt(run(str(tmp_path / "app"))) == known


@pytest.mark.skipif("TINYTRAIN_ZEPHYR" not in os.environ, reason="set TINYTRAIN_ZEPHYR to a Zephyr tree")
def test_zephyr_builds_the_sample_and_an_emulated_board_learns_the_same_bits(folder, known, tmp_path):
    need("cmake", "ninja", "qemu-system-arm")
    base = os.environ["TINYTRAIN_ZEPHYR"]
    modules = [f"-DZEPHYR_MODULES={os.environ['ZEPHYR_MODULES']}"] if "ZEPHYR_MODULES" in os.environ else []
    build = ("-S", folder / "zephyr" / "sample", "-B", tmp_path, *modules)
    run("cmake -GNinja -DBOARD=mps2_an385", *build, ZEPHYR_BASE=base)
    run("cmake --build", tmp_path, ZEPHYR_BASE=base)
    program = tmp_path / "zephyr" / "zephyr.elf"
    assert learnt(in_qemu("mps2-an385", program, "-serial", "stdio")) == known
