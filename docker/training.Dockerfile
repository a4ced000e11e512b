# Image for training. Bundles are published to /bundles; runs are kept in /runs.
#
#     docker build -f docker/training.Dockerfile -t dragoman:training .
#     docker run --gpus all -v ./data:/data:ro -v runs:/runs -v ./bundles:/bundles \
#         --user "$(id -u):$(id -g)" dragoman:training run multi30k-de-en
#
# pip's default PyTorch on Linux includes CUDA, so the image is large. The base has the same
# requirements as that of the service.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/dragoman
WORKDIR /build
ENV PIP_CACHE_DIR=/var/cache/pip

# Dependencies, as for the service. pip byte-compiles them, except PyTorch files that need a later
# Python.
COPY pyproject.toml requirements.lock ./
RUN --mount=type=cache,target=/var/cache/pip \
    mkdir service && echo '__version__ = "0"' >service/__init__.py && touch README.md \
    && /opt/pip/bin/pip --python /opt/dragoman/bin/python install \
        -c requirements.lock ".[cpu,train]" \
    && /opt/pip/bin/pip --python /opt/dragoman/bin/python uninstall --yes dragoman-translate

# Our own code. Recipes use the service to translate text with bundles.
COPY README.md ./
COPY service service
COPY models models
COPY training training
RUN --mount=type=cache,target=/var/cache/pip \
    /opt/pip/bin/pip --python /opt/dragoman/bin/python install --no-compile --no-deps \
        --prefix /installed . \
    && find /installed -type d -name site-packages -exec cp -r training {} ';' \
    && /opt/dragoman/bin/python -m compileall -q --invalidation-mode unchecked-hash /installed

FROM ${PYTHON_IMAGE}
# The user is chosen at container start, by write access to /bundles. All users may write /runs.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    && groupadd --gid 10001 dragoman \
    && useradd --uid 10001 --gid dragoman --no-create-home --home-dir /tmp \
        --shell /usr/sbin/nologin dragoman \
    && install --directory --mode 1777 /runs /bundles
COPY --from=build /opt/dragoman /opt/dragoman
COPY --from=build /installed /opt/dragoman

ENV PATH=/opt/dragoman/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    USER=dragoman \
    TRAINING_DATA=/data
USER 10001:10001
WORKDIR /
VOLUME /runs
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "python", "-m", "training"]
CMD ["--help"]
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Dragoman training" \
    org.opencontainers.image.description="Trains translation models for Dragoman" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="${REVISION}"
