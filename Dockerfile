# Targets: serve (the default: one encoder as a search service, no torch), train (the whole pipeline, on CPU or CUDA)
# and mlflow (the server that compose.yaml starts, of the very version that the pipeline's client has).
#   docker build -t nsh:serve .
#   docker build -t nsh:train --target train .
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS base
# Nothing that we depend on reports home, and nothing but /data (or /workspace) and /tmp need be writable.
ENV LANG=C.UTF-8 \
    PATH=/opt/nsh/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ORT_DISABLE_TELEMETRY=1 \
    MLFLOW_DISABLE_TELEMETRY=true \
    DVC_NO_ANALYTICS=1 \
    DO_NOT_TRACK=1

# Packages first, for an nsh that is empty but for its name and version: they stay cached while the source changes.
# EXTRAS=serve,milvus: for an index in Milvus too.
FROM base AS build
ARG EXTRAS=serve
RUN python -m venv --without-pip /opt/nsh
WORKDIR /build
COPY pyproject.toml constraints.txt ./
COPY src/nsh/__init__.py src/nsh/
RUN touch LICENSE NOTICE README.md \
    && pip --python /opt/nsh/bin/python install --no-cache-dir -c constraints.txt ".[${EXTRAS}]" \
    && rm -rf build src
COPY LICENSE NOTICE README.md ./
COPY src src
RUN pip --python /opt/nsh/bin/python install --no-cache-dir --no-deps --force-reinstall .

FROM base AS build-mlflow
RUN python -m venv --without-pip /opt/nsh
COPY constraints.txt /build/
RUN pip --python /opt/nsh/bin/python install --no-cache-dir -c /build/constraints.txt mlflow

FROM base AS mlflow
COPY --from=build-mlflow /opt/nsh /opt/nsh
RUN install -d -o 10001 -g 10001 /mlflow
ENV HOME=/tmp
WORKDIR /mlflow
USER 10001:10001
EXPOSE 5000
CMD ["mlflow", "server", "--host", "0.0.0.0", "--port", "5000", \
     "--backend-store-uri", "sqlite:////mlflow/mlflow.db", "--artifacts-destination", "/mlflow/artifacts"]

# torch's wheels bring CUDA; the host brings the driver (NVIDIA Container Toolkit, docker run --gpus all). Without a GPU:
#   docker build -t nsh:train --target train --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu .
# Run it on a clone, of which it sees code and data, as the clone's owner:
#   docker run --rm --gpus all --shm-size 2g --user "$(id -u):$(id -g)" -v "$PWD:/workspace" nsh:train
FROM base AS train
# The clone may seem to belong to another user: rootless engines and desktops map them.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/* \
    && git config --system safe.directory '*' \
    && python -m venv --without-pip /opt/nsh && install -d -o 10001 -g 10001 /workspace
WORKDIR /workspace
COPY pyproject.toml constraints.txt ./
COPY src/nsh/__init__.py src/nsh/
ARG PIP_EXTRA_INDEX_URL
RUN touch LICENSE NOTICE README.md \
    && pip --python /opt/nsh/bin/python install --no-cache-dir -c constraints.txt -e '.[serve,train,ops]'
COPY --chown=10001:10001 . .
# The project in the image is in no git repository; DVC needs to know.
RUN printf '[core]\n    no_scm = true\n' > .dvc/config.local
# Users without a name or a home have both; what tools keep between two calls goes to /tmp.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    DVC_SITE_CACHE_DIR=/tmp/dvc \
    HOME=/tmp \
    USER=nsh
USER 10001:10001
CMD ["dvc", "repro"]

FROM base AS serve
COPY --from=build /opt/nsh /opt/nsh
RUN install -d -o 10001 -g 10001 /data
ENV NSH_MODEL=/data/encoder.onnx \
    NSH_INDEX=/data/index \
    NSH_HOST=0.0.0.0 \
    NSH_ADDRESS_FILE=/tmp/nsh-address
WORKDIR /data
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["nsh", "health"]
ENTRYPOINT ["nsh"]
CMD ["serve"]
