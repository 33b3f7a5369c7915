"""What commands and the process that decodes images import, and what they leave alone."""

import gc
import subprocess
import sys

from cases import each

from tinytrain.cli.main import COMMANDS


def test_help_of_every_command_imports_nothing_heavy():
    code = (
        "import sys; from tinytrain.cli.main import COMMANDS, main\n"
        "for words in [], ['data', 'preview'], *([name] for name in COMMANDS):\n"
        "    try: main([*words, '--help'])\n"
        "    except SystemExit: pass\n"
        "    heavy = {'numpy', 'numba', 'PIL', 'yaml', 'scipy'} & sys.modules.keys()\n"
        "    if heavy: sys.exit(f'{words}: {heavy}')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.count("usage: tinytrain") == len(COMMANDS) + 2


@each(
    "module, heavy",
    [("tinytrain", ["PIL", "numba", "numpy"]), ("tinytrain.episode.pixels", ["numba", "numpy"])],
)
def test_neither_the_package_nor_the_process_that_decodes_images_imports_what_is_heavy(module, heavy):
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_what_predicts_imports_nothing_that_it_seldom_needs():
    seldom = {
        "numba",
        "statistics",
        "subprocess",
        "tinytrain.datasets.named",
        "tinytrain.delta.merge",
        "tinytrain.stream.events",
        "wave",
    }
    code = (
        "import sys; from tinytrain.runtime.predict import Predictor; print('numpy.random' in sys.modules);"
        "import tinytrain.cli.commands.predict; from tinytrain import Predictor, adapt;"
        f"print({seldom} & sys.modules.keys())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\nset()\n"


def test_adapting_to_a_drawn_domain_imports_no_other_domain_no_pack_no_store_and_no_masked_arrays():
    code = (  # compiling would import masked arrays
        "import sys; sys.modules['numba'] = None; from tinytrain.cli.main import main; main(sys.argv[1:]);"
        "seldom = 'datasets.generated.', 'datasets.p', 'store', 'numpy.ma.';"
        "names = sorted(m.removeprefix('tinytrain.') for m in sys.modules);"
        "print([name for name in names if name.startswith(seldom)])"
    )
    words = ["adapt", "--way", "2", "--shots", "2", "--queries", "0", "--no-train"]
    done = subprocess.check_output([sys.executable, "-c", code, *words], text=True)
    drawn = [f"datasets.generated.{name}" for name in ("camera", "meters", "sign_shapes")]
    assert done.splitlines()[-1] == str(drawn)


def test_a_program_hardly_searches_for_garbage_and_not_at_its_end_but_python_goes_on_with_it():
    code = (
        "import gc, sys; from tinytrain.cli.main import main; main(['-V']);"
        "print(gc.isenabled(), gc.get_threshold()[0]); sys.argv[1:] = ['-V']; main();"
        "print(gc.isenabled(), gc.get_threshold()[0])"
    )
    lines = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert lines[1::2] == [f"True {gc.get_threshold()[0]}", "False 10000"]
