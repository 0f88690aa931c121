# How image_check works in an image: one container at a time, a server in it, and nothing of either left behind.

# Sets INSIDE to what runs a command in a new container of the target $1; further arguments are options of `buildah run`.
enter() {
    CONTAINER=$(buildah from --pull-never "localhost/nsh:$1")
    INSIDE=(buildah run --isolation chroot "${MOUNTS[@]}" "${@:2}" "$CONTAINER" --)
    trap leave EXIT
    say "user in it: $("${INSIDE[@]}" id -u)"
}

leave() {
    stop_server
    buildah rm "$CONTAINER" > /dev/null
}

# A part of the image's configuration, one word a line: Cmd, Healthcheck.Test.
configured() {
    buildah inspect --format "{{range .Docker.Config.$2}}{{println .}}{{end}}" "localhost/nsh:$1" | sed '/^$/d'
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Runs the arguments in the container until `stop_server`; what they print goes to LOG.
start_server() {
    LOG=$CACHE/server.log
    setsid "${INSIDE[@]}" "$@" > "$LOG" 2>&1 & # a group of its own, which is stopped whole
    SERVER=$!
}

stop_server() {
    [ -n "${SERVER:-}" ] || return 0
    kill -- "-$SERVER" 2> /dev/null || true # gone already if it did not start
    wait "$SERVER" || true
    kill -KILL -- "-$SERVER" 2> /dev/null || true # workers may outlive the server that started them
    SERVER=
}

# Waits until the command that is given succeeds in the container, two minutes at most, while the server lives.
wait_until() {
    for _ in $(seq 120); do
        "${INSIDE[@]}" "$@" > /dev/null 2>&1 && return
        kill -0 "$SERVER" 2> /dev/null || break
        sleep 1
    done
    cat "$LOG"
    fail "the server does not answer to: $*"
}
