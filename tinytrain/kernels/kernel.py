"""A kernel by its name: machine code on disk is loaded without numba, which compiles what is not there.

Every kernel has one kind of arguments, but for those of `SEVERAL`, which have one for each dtype. More would
stay in memory, because code is never freed.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module

from tinytrain.base.cache_folder import cache_folder
from tinytrain.kernels.compile_cache.cache import Cache, open_cache
from tinytrain.kernels.compile_cache.watch import WATCH
from tinytrain.kernels.dispatch import machine_code
from tinytrain.kernels.dispatch.code import Code, Kinds, described, kinds_of
from tinytrain.kernels.dispatch.machine_code import unpacked
from tinytrain.kernels.dispatch.target import packaged, target
from tinytrain.kernels.fallback import warn_once

CACHE = open_cache(cache_folder("jit"), packaged())  # before anything is read from it
if CACHE.warning and CACHE.folder:
    warn_once(CACHE.warning)
# Kinds of arguments that `tinytrain.pipeline.warmup` has for a kernel, if they are several.
SEVERAL = dict.fromkeys(("enter", "add_products", "add_rounded", "embed", "embed_grad"), 2)
STRIDED = ("product",)  # kernels that take arrays of any strides
NOT_KEPT = (
    "jit-cache: compiled kernels could not be kept ({}) and are compiled again in the next run; free some"
    " space or set TINYTRAIN_CACHE to another folder"
)


class Kernel:
    """Callable; `function` is its source, which its module sets when it is imported to be compiled."""

    def __init__(self, name: str, function: Callable | None = None, cache: Cache | None = CACHE):
        self.name, self.function = name, function
        self._cache = cache
        self._known: dict[Kinds, Callable] = {}
        self.strided = name.rpartition(".")[2] in STRIDED
        self._plain = None

    def __call__(self, *arguments) -> int | None:
        return self.code(arguments)(*arguments)

    @property
    def signatures(self) -> list[Kinds]:
        """The kinds of arguments that there is code for in this process."""
        return [*self._known]

    def code(self, arguments: Sequence) -> Callable:
        """A callable for arguments of the same kinds as these.

        Raises what `check_executable`, numba and LLVM raise.
        """
        kinds = kinds_of(arguments, self.strided)
        found = self._known.get(kinds)
        if found is None:
            with machine_code.LOCK:
                found = self._known.get(kinds)
                if found is None:
                    machine_code.check_executable()
                    found = self._kept(arguments) or self._compiled(arguments)
                    self._known[kinds] = found
        return found

    def _kept(self, arguments: Sequence) -> Code | None:
        """The code on disk; None if it must be compiled; never ends a run."""
        if self._cache is None:
            return None
        try:
            return self._loaded(self._cache.read(self.file(arguments)), arguments)
        except FileNotFoundError:
            pass
        except Exception as error:  # LLVM raises anything
            warn_once(f"jit-cache: a compiled kernel could not be loaded ({error}); it is compiled again")
        return None

    def _loaded(self, content: bytes, arguments: Sequence) -> Code:
        facts, kernel, stub = unpacked(content)
        tools()  # they have what a kernel may need
        (function,) = machine_code.load(kernel, [facts["kernel"]], facts["needs"])
        (entry,) = machine_code.load(stub, [facts["stub"]])
        return Code(self.name.rpartition(".")[2], entry, function, arguments, facts["returns"])

    def _compiled(self, arguments: Sequence) -> Callable:
        WATCH.begin(self.name, kinds_of(arguments, self.strided))
        try:
            from tinytrain.kernels import compiler

            try:
                content = self.machine_code(arguments)
                found = self._loaded(content, arguments)
            except Exception as error:
                self._plain = self._plain or compiler.plain(self.source())
                found = self._plain.compile(compiler.types_of(arguments, self.strided))
                warn_once(NOT_KEPT.format(error))
                return found
        finally:
            WATCH.end()
        if self._cache and self._cache.kept:
            keep(self._cache, self.file(arguments), content)
        return found

    def file(self, arguments: Sequence) -> str:
        """The name of the file of code for arguments of these kinds."""
        return file_name(self.name, described(arguments, self.strided))

    def machine_code(self, arguments: Sequence) -> bytes:
        """What that file holds. Raises what numba and LLVM raise."""
        from tinytrain.kernels import compiler

        return compiler.machine_code_of(self.source(), arguments, self.strided)

    def source(self) -> Callable:
        """The function in Python."""
        if self.function is None:
            import_module(self.name.rpartition(".")[0])
        return self.function


@functools.cache
def kernel_of(name: str) -> Kernel:
    """The one kernel of this process whose function has this name, such as tinytrain.kernels.dense.pool."""
    return Kernel(name)


def expect(kernels: Sequence[Kernel]) -> None:
    """What has no file of `kernels` will be compiled: whoever watches is told how much that is."""
    kept = Counter(name.rpartition("-")[0] for name in CACHE.verified.keys() | CACHE.packaged.keys())
    wanted = Counter({k.name: SEVERAL.get(k.name.rpartition(".")[2], 1) for k in kernels})
    WATCH.expect((wanted - kept).elements())


@functools.cache
def tools() -> list[int]:
    """Addresses of `TOOLS`, which all kernels share. Raises what `check_executable` and LLVM raise."""
    machine_code.check_executable()
    file = file_name("tools", "")
    try:
        content = CACHE.read(file)
    except OSError:
        content = None
    if content is None:
        from tinytrain.kernels.dispatch.call_tools import tools as made

        with machine_code.LOCK:
            content = made()
        if CACHE.kept:
            keep(CACHE, file, content)
    return machine_code.load(content, machine_code.TOOLS)


def file_name(name: str, kinds: str) -> str:
    """Of the code of the kernel `name` for arguments of these `kinds`, as `described`."""
    key = repr((kinds, " ".join(target()))).encode()
    return f"{name}-{hashlib.sha256(key).hexdigest()[:16]}.kernel"


def keep(cache: Cache, file: str, content: bytes) -> None:
    """Keep `content` for the next process; never ends a run."""
    try:
        cache.write(file, content)
    except Exception as error:
        warn_once(NOT_KEPT.format(error))
