#!/usr/bin/env bash
# Tests of single packages and one adaptation on an emulated Raspberry Pi Zero 2 W, compared with this machine.
#
#   check.sh                          everything
#   check.sh tests/planner            only these tests, then the adaptation
#   check.sh none                     the adaptation alone
#
# Exit code 0: all holds; 1: something does not; 77: skipped, because tools are missing.
# TINYTRAIN_PI_CACHE names the folder that keeps root and packages between runs (0.5 GB).
# TINYTRAIN_PI_QUERIES: pictures per class that judge the adaptation.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
cache=${TINYTRAIN_PI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tinytrain-pi}
queries=${TINYTRAIN_PI_QUERIES:-20}
MIB=1048576
export PLUGIN=$cache/count.so

"$here/build.sh" "$project" "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
guest() { "$here/run.sh" "$cache/root" "$cache/packages" "$@"; }

"$cache/host/bin/python" "$here/photos.py" "$work/photos" $((5 + queries))
job=("$queries" "$work/photos")
export TINYTRAIN_CACHE=$work/cache
# Compiling runs out of 512 MiB with llvmlite 0.50: LLVM reserves more addresses than it uses, and numba frees nothing.
echo "one adaptation, cold, with every kernel to compile, in 640 MiB of address space"
COUNT=$work/cold guest $((640 * MIB)) "$here/job.py" "$work/cold.npz" "${job[@]}"
echo "the same again, warm, in 384 MiB"
COUNT=$work/warm guest $((384 * MIB)) "$here/job.py" "$work/warm.npz" "${job[@]}"
COUNT=$work/start guest $((384 * MIB)) -c 'import tinytrain.pipeline.adapt, tinytrain.kernels; tinytrain.kernels.load()'
echo "and what this machine compiles for it beforehand, as for a kit"
env -u TINYTRAIN_CACHE "$cache/host/bin/python" -m tinytrain.kit.kernels cortex-a53 "$work/beforehand"
"$cache/host/bin/python" -m tinytrain.kit.same_code "$work/cache" "$work/beforehand"
TINYTRAIN_CACHE=$work/host "$cache/host/bin/python" "$here/job.py" "$work/host.npz" "${job[@]}"
"$cache/host/bin/python" "$here/compare.py" "$work"

# Starting processes in the guest would need the kernel's help (binfmt_misc); such tests stay outside, and those of
# what is only done on a PC, the accuracy of the shipped backbone over many adaptations among them.
tests=()
if [ $# -eq 0 ]; then
    for file in "$project"/tests/*/test_*.py "$project"/tests/*/*/test_*.py; do
        case ${file#"$project"/tests/} in
        system/*) ;;
        network/test_file_fuzz.py | program/test_memory_planner_random.py | planner/test_arena_sizes.py | kernels/test_bounds.py)
            echo "not under emulation, because it draws thousands of cases: ${file#"$project/"}" ;;
        meta/* | backbones/test_onnx* | backbones/test_shipped.py)
            echo "not under emulation, because it is about the work of a PC: ${file#"$project/"}" ;;
        *)
            if grep -qE 'subprocess|multiprocessing' "$file"; then
                echo "not under emulation, because it starts processes: ${file#"$project/"}"
            else
                tests+=("$file")
            fi ;;
        esac
    done
elif [ "$1" != none ]; then
    tests=("$@")
fi
# Packs are for a PC: the largest unpacks to 229 MB.
unset TINYTRAIN_DATA TINYTRAIN_SHARED
# A process for every file, because compiled kernels are never freed and 640 MiB of addresses hold those of a few.
# -P: the installed package is tested, not the folder of that name.
failed=
for file in "${tests[@]}"; do
    echo "in 640 MiB of address space: ${file#"$project/"}"
    (cd "$project" && guest $((640 * MIB)) -P -m pytest -q -n 0 -p no:cacheprovider "$file") || failed+=" $file"
done
if [ -n "$failed" ]; then
    echo "FAILED:$failed" >&2
    exit 1
fi
