# Image `mlflow`: the server that its command starts, at a free port, answers and records a run with an artifact.
port=$(free_port)
enter mlflow
mapfile -t command < <(configured mlflow Cmd | sed "s/^5000$/$port/")
start_server "${command[@]}"
wait_until python -c "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:$port/health')"
"${INSIDE[@]}" env no_proxy=127.0.0.1 python -W ignore - "http://127.0.0.1:$port" <<'PYTHON'
import sys

from mlflow import MlflowClient

client = MlflowClient(sys.argv[1])
run = client.create_run("0").info.run_id
client.log_metric(run, "mAP", 0.5)
client.log_text(run, "an artifact", "note.txt")
assert client.get_run(run).data.metrics == {"mAP": 0.5}
assert [file.path for file in client.list_artifacts(run)] == ["note.txt"]
print("a run is recorded")
PYTHON
