#!/usr/bin/env bash
# Run arm64 Python 3.11 on an emulated Cortex-A53: run.sh ROOT PACKAGES BYTES ARGUMENT...
# BYTES limits the address space of the guest. COUNT, if set, is the file for the number of instructions it
# executed, PLUGIN the plugin that counts them.
set -euo pipefail

root=$1 packages=$2 limit=$3
shift 3
# qemu shows the host's processor, so numba and OpenBLAS are told which one they run on.
export NUMBA_CPU_NAME=cortex-a53 NUMBA_CPU_FEATURES="-aes,+crc,+fp-armv8,+neon,-rand,-sha2,-sve"
export OPENBLAS_CORETYPE=CORTEXA53 OPENBLAS_NUM_THREADS=1
# The tools of the host may need a library path of their own; the guest has none.
exec qemu-aarch64 -cpu cortex-a53 -L "$root" -R "$limit" ${COUNT:+-plugin "$PLUGIN,out=$COUNT"} \
    -E LD_LIBRARY_PATH= -E "PYTHONPATH=$packages" "$root/usr/bin/python3.11" "$@"
