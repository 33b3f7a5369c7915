"""Numba as a compiler for other processors: the same steps, so the same machine code as compiled there.

This changes numba in the whole process, which compiles nothing for itself afterwards.
"""

import numba
from llvmlite import binding
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.registry import cpu_target

from tinytrain.kernels.dispatch.target import Target


class _Library(CPUCodeLibrary):
    def _finalize_final_module(self):
        # At once, as numba does it: LLVM rewrites the module meanwhile, which others then link to.
        self._code = self._codegen._tm.emit_object(self._final_module)
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self):
        self._ensure_finalized()
        return self.name, "object", (self._code, b"")


class Codegen(JITCPUCodegen):
    """Numba's code generator for `target`."""

    _library_class = _Library

    def __init__(self, target: Target):
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        self.target = target
        self._tm = binding.Target.from_triple(target.triple).create_target_machine(
            cpu=target.name,
            features=target.features,
            opt=numba.config.OPT,
            reloc="static" if target.triple.startswith("x86") else "default",
            codemodel="jitdefault",
            jit=True,
        )
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)
        # As numba's own for an optimisation level that is not "max".
        self._loopvect, self._opt_level = False, 0

    def magic_tuple(self) -> tuple:
        return tuple(self.target)

    def _create_empty_module(self, name):
        module = super()._create_empty_module(name)
        module.triple = self.target.triple
        return module


def cross_compile(codegen: Codegen) -> None:
    """From now on numba compiles with `codegen`, and what it makes is never run."""
    context = cpu_target.target_context
    context._internal_codegen = codegen
    # Numba knows a compiled function by its entry point: each gets one of its own, which is never called.
    entries: list[list] = []

    def entry(library, *_):
        library._ensure_finalized()
        entries.append([])
        return entries[-1].append

    context.get_executable = entry
