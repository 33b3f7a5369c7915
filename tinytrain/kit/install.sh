#!/bin/sh
# Installs tinytrain @VERSION@ on a @TITLE@ from this folder, without a network. It says first what it does.
#
#   sh install.sh           says it, and asks
#   sh install.sh --yes     says it, and does it
#   sh install.sh --say     says it
#
# ROOT=FOLDER installs below FOLDER, for an image that is being made. PYTHON=FILE is another Python.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=${ROOT:-} python=${PYTHON:-/usr/bin/python3}
place=/opt/tinytrain version=@VERSION@-$(sha256sum "$here/SHA256SUMS" | cut -c 1-8) units=/etc/systemd/system

end() {
    echo "install.sh: $1" >&2
    exit 1
}

cat <<TEXT
tinytrain @VERSION@ for a @TITLE@, Python @PYTHON@. This needs no network. It will
  1. compare the files of this folder with SHA256SUMS
  2. unpack @WHEELS@ wheels, compiled kernels and networks (@NETWORKS@) to $root$place/$version (@UNPACKED@)
  3. write the command $root/usr/local/bin/tinytrain, and lead it to this version: $root$place/current
  4. write to $root$units, and start nothing: @UNITS@
Other versions in $place stay. What it replaces is replaced whole, or not at all.
TEXT

case ${1-} in
--say) exit 0 ;;
--yes) ;;
"")
    printf 'Go on? [y/N] '
    read -r answer || answer=
    [ "$answer" = y ] || end "nothing was done"
    ;;
*) end "no option $1; there are --yes and --say" ;;
esac

[ -n "$root" ] || [ "$(id -u)" = 0 ] || end "only the administrator can do this: sudo sh install.sh"
found=$("$python" -c 'import platform, sys; print(platform.machine(), "%d.%d" % sys.version_info[:2])') ||
    end "$python does not run; install python3, or name another one: PYTHON=FILE"
[ "$found" = "@MACHINE@ @PYTHON@" ] ||
    end "this is $found, the kit is for @MACHINE@ @PYTHON@; make a kit with this version of Python"

(cd "$here" && sha256sum --quiet -c SHA256SUMS) || end "this folder is damaged; copy it again"

target=$root$place/$version new=$root$place/.$version.new
mkdir -p "$root$place" "$root/usr/local/bin" "$root$units"
if [ -e "$target" ]; then
    echo "$target is there already; to unpack it again, remove it first"
else
    rm -rf "$new"
    mkdir "$new"
    for wheel in "$here"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$new"; done
    mkdir -p "$new/tinytrain/kernels/compiled"
    cp -r "$here/kernels/." "$new/tinytrain/kernels/compiled"
    cp -r "$here/networks" "$new/networks"
    # Whoever uses it later may not write here. Some packages bring files that are no Python of this version.
    "$python" -m compileall -q "$new" >/dev/null || true
    chmod -R u=rwX,go=rX "$new"
    PYTHONPATH=$new "$python" -P -m tinytrain --version >/dev/null || end "what was unpacked does not run"
    sync # what has its name is whole, also after a power cut
    mv "$new" "$target"
fi

command=$root/usr/local/bin/tinytrain
printf '#!/bin/sh\nPYTHONPATH=%s exec "%s" -P -m tinytrain "$@"\n' "$place/current" "$python" >"$command.new"
chmod 755 "$command.new"
ln -sfn "$version" "$root$place/.current.new"
mv -T "$root$place/.current.new" "$root$place/current"
mv "$command.new" "$command"

for unit in "$here"/units/*.service; do
    cp "$unit" "$root$units/.tinytrain.new"
    mv "$root$units/.tinytrain.new" "$root$units/${unit##*/}"
done
sync
cat <<TEXT
Done. Now: tinytrain doctor
A service is started by, for example: systemctl enable --now @UNIT@
TEXT
