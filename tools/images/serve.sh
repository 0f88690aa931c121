# Image `serve`: encode, index, search, serve, and be healthy at another port than 8000, with a dead proxy about.
made=(models/*/encoder.onnx) # of `make repro`, if it has run
encoder=${ENCODER:-${made[0]}}
[ -f "$encoder" ] || encoder=tests/golden/encoder.onnx
rm -rf "$CACHE/data"
mkdir -p "$CACHE/data/images"
cp "$encoder" "$CACHE/data/encoder.onnx"
cp tests/golden/images/* "$CACHE/data/images/"
chown -R 10001:10001 "$CACHE/data"
say "the encoder is $encoder"

enter serve --volume "$PWD/$CACHE/data:/data"
if "${INSIDE[@]}" python -c 'import torch' 2> /dev/null; then fail "torch is in it, which it must not be"; fi
"${INSIDE[@]}" nsh encode images --model encoder.onnx --out codes
"${INSIDE[@]}" nsh index build codes --index index
"${INSIDE[@]}" nsh search images/rgb.png --model encoder.onnx --index index -k 3

say "the service, and the image's own health check"
mapfile -t health < <(configured serve Healthcheck.Test | sed 1d)
start_server nsh serve --images images --port "$(free_port)"
wait_until env http_proxy=http://127.0.0.1:9 "${health[@]}"
stop_server
if "${INSIDE[@]}" "${health[@]}" 2> /dev/null; then fail "a service that has stopped is said to be healthy"; fi
