#!/usr/bin/env bash
# Build what the emulated Pi needs in folder CACHE, or use what is there: build.sh PROJECT CACHE
#   root/      arm64 Debian 12 with Python 3.11, unpacked only: no arm64 code runs while it is made
#   wheels/    the project as a wheel, new every time
#   packages/  the project with aarch64 wheels of what it needs, again whenever pyproject.toml changes
#   host/      the same for this machine
#   count.so   the plugin that counts instructions
# Exit code 77: skipped, because tools are missing.
set -euo pipefail

missing=
for tool in qemu-aarch64 mmdebstrap gcc git python3; do
    command -v "$tool" >/dev/null || missing+=" $tool"
done
if [ -n "$missing" ]; then
    echo "SKIPPED: the emulated Pi needs$missing; on Debian: apt-get install --no-install-recommends" \
        "qemu-user mmdebstrap gcc libc6-dev git python3-venv" >&2
    exit 77
fi

project=$1 cache=$2
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

if [ ! -x "$cache/root/usr/bin/python3.11" ]; then
    echo "arm64 root: unpacking Debian packages"
    rm -rf "$cache/root.new"
    mmdebstrap --quiet --variant=extract --arch=arm64 --include=python3,libgomp1,libstdc++6 \
        bookworm "$cache/root.new"
    mv -T "$cache/root.new" "$cache/root"
fi

# A copy, because building leaves its traces in the folder.
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git -C "$project" ls-files -z --cached --others --exclude-standard |
    tar -C "$project" --null --ignore-failed-read -cf - -T - | tar -C "$source" -xf -

wanted=$(sha256sum "$project/pyproject.toml" | cut -d ' ' -f 1)
if [ "$(cat "$cache/packages.of" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$cache/packages" "$cache/host" "$cache/packages.of"
    python3 -m venv "$cache/host"
fi
rm -rf "$cache/wheels"
"$cache/host/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$cache/wheels" "$source"
wheel=$(echo "$cache"/wheels/tinytrain_adapt-*.whl)
if [ ! -e "$cache/packages.of" ]; then
    echo "packages: installing wheels for aarch64 and for this machine"
    "$cache/host/bin/python" -m pip install --quiet "$wheel"
    # Newest wheels are tagged manylinux_2_27 or 2_28; pip looks for exactly the tags that it is given.
    "$cache/host/bin/python" -m pip install --quiet --target "$cache/packages" --only-binary=:all: \
        --implementation cp --python-version 3.11 --platform manylinux2014_aarch64 \
        --platform manylinux_2_17_aarch64 --platform manylinux_2_27_aarch64 \
        --platform manylinux_2_28_aarch64 "$wheel[test]"
    echo "$wanted" >"$cache/packages.of"
fi
rm -rf "$cache"/packages/tinytrain "$cache"/packages/tinytrain_adapt-*
"$cache/host/bin/python" -m pip install --quiet --no-deps --target "$cache/packages" "$wheel"
"$cache/host/bin/python" -m pip install --quiet --no-deps --force-reinstall "$wheel"

gcc -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden -o "$cache/count.so" \
    "$project/firmware_sim/emulated/count.c"
