"""The table of kernels says what kernels do: held against random calls of all of them."""

import numpy as np
from cases import each
from kernelarrays import Output
from kernelcases import CASES

from tinytrain import kernels
from tinytrain.program.signatures import KERNELS, READS, SCRATCH, UPDATES, WRITES

ROUNDS = 20
# Several calls write all of the result; one may leave a part as it was, or go on with it.
OF_SEVERAL_CALLS = {"put_columns", "add_patches", "gather_some", "grad_input_rows"}


def calls(name):
    """(arrays of the signature with their arguments, values) of random calls."""
    for seed in range(ROUNDS):
        args = CASES[name](np.random.default_rng(seed))
        yield list(zip(KERNELS[name].arrays.items(), args, strict=False)), args[len(KERNELS[name].arrays) :]


def value_of(argument) -> np.ndarray:
    return argument.start if isinstance(argument, Output) else argument


def test_every_kernel_has_a_row_and_every_row_is_a_kernel():
    assert KERNELS.keys() == set(kernels.NAMES)


@each("name", CASES)
def test_arrays_come_first_and_have_the_declared_dtypes_and_sizes(name):
    for arrays, values in calls(name):
        assert len(arrays) == len(KERNELS[name].arrays)
        # Mean and scale of the channels, or the codes of pixels, are values of what reads an image.
        tables = name not in ("enter", "grad_weight_image", "unfold_codes") and any(
            isinstance(v, np.ndarray | Output) and np.ndim(v) for v in values
        )
        assert not tables
        sizes = {}
        for (role, declared), argument in arrays:
            array = value_of(argument)
            items = (name == "enter" and role == "image") or role == "ids"  # of either dtype
            assert declared.dtype == (None if items else array.dtype), role
            for letter, size in zip(declared.shape or "*" * array.ndim, array.shape, strict=True):
                assert letter == "*" or sizes.setdefault(letter, size) == size, (role, letter)


@each("name", CASES)
def test_what_is_written_is_declared_so_and_what_is_read_holds_a_value(name):
    """A fresh output starts as NaN, so that it cannot be read; an output with a start is updated."""
    for arrays, _ in calls(name):
        for (role, declared), argument in arrays:
            if not isinstance(argument, Output):
                assert declared.mode == READS, role
            elif argument.compared == "no":
                assert declared.mode == SCRATCH, role
            elif argument.fresh:
                assert declared.mode == WRITES, role
            else:
                assert declared.mode in (UPDATES, WRITES), role


@each("name", sorted(CASES.keys() - OF_SEVERAL_CALLS))
def test_an_array_that_is_only_written_depends_on_nothing_that_was_there(name):
    """Run twice by the numpy reference, once from zeros and once from ones."""
    reference = getattr(kernels.load("numpy"), name)
    for arrays, values in calls(name):
        found = []
        for start in (0, 1):
            given = [np.array(value_of(a)) for _, a in arrays]
            for k, ((_, declared), _) in enumerate(arrays):
                if declared.mode in (WRITES, SCRATCH):
                    given[k][...] = start
            reference(*given, *values)
            found.append([g for g, ((_, d), _) in zip(given, arrays, strict=True) if d.mode == WRITES])
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_macs_of_a_product_and_of_a_filter_are_those_of_the_definition():
    assert KERNELS["matmul"].macs([(5, 7), (5, 3), (3, 7)]) == 5 * 7 * 3
    assert KERNELS["depthwise_forward"].macs([(2, 4, 4, 6), (2, 8, 8, 6), (9, 6), (6,)]) == 2 * 4 * 4 * 6 * 9
    assert KERNELS["depthwise_grad_weight"].macs([(9, 6), (2, 8, 8, 6), (2, 4, 4, 6)]) == 2 * 4 * 4 * 6 * 9
    assert KERNELS["copy"].macs([(5,), (5,)]) == 0
    assert KERNELS["prototype_loss"].head_macs([(4,), (4, 3), (4, 3), (4, 10), (4,), (3, 10)]) == 4 * 3 * 10
