# The service, for CPUs (EXTRA=cpu) or NVIDIA GPUs (EXTRA=gpu), whose CUDA and cuDNN come as wheels:
#
#     docker build -f docker/service.Dockerfile --build-arg EXTRA=gpu -t dragoman:gpu .
#
# EXTRA=cpu,fleet or gpu,fleet adds the drivers that several replicas need.
#
# The base needs only Debian with Python 3.11 or later and venv. BuildKit and buildah (with --format
# docker, for the health check) can both build it.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends binutils
# pip runs outside the target environment, so that the image does not contain pip.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/dragoman
WORKDIR /build
ENV PIP_CACHE_DIR=/var/cache/pip

# Dependencies, cached until one of these two files changes. An empty package stands for our code,
# so that changes to our code keep this layer.
ARG EXTRA=cpu
COPY pyproject.toml requirements.lock ./
RUN --mount=type=cache,target=/var/cache/pip \
    mkdir service && echo '__version__ = "0"' >service/__init__.py && touch README.md \
    && /opt/pip/bin/pip --python /opt/dragoman/bin/python install --no-compile \
        -c requirements.lock ".[${EXTRA},tracing]" \
    && /opt/pip/bin/pip --python /opt/dragoman/bin/python uninstall --yes dragoman-translate
# Remove files the image does not need: tests, samples, training tools, sources in C and Cython; the
# library for programs in C, of which ONNX Runtime's Python module has a copy of its own; all of
# fonttools but the names of glyphs, as matplotlib needs no more for PNG and SVG; SQLAlchemy's
# databases but SQLite and PostgreSQL; headers, static libraries and a second compiler from CUDA's
# wheels; symbols of extension modules, which are for debuggers. Byte-compile the remaining modules,
# since the file system is read-only at run time.
RUN cd /opt/dragoman/lib/python3*/site-packages \
    && find . -type d \( -name tests -o -path './nvidia/*/include' \) -prune -exec rm -r {} + \
    && find . -type f \( -name '*.c' -o -name '*.cc' -o -name '*.h' -o -name '*.pyx' -o -name '*.pxd' \) -delete \
    && find . -path './nvidia/*' \( -name '*.a' -o -name '*.alt.so.*' \) -delete \
    && find fontTools -mindepth 1 -maxdepth 1 ! \( -name __init__.py -o -name agl.py -o -name misc \) -exec rm -r {} + \
    && rm -r matplotlib/mpl-data/sample_data onnx/backend/test onnxruntime/capi/libonnxruntime.so.* \
        sqlalchemy/testing sqlalchemy/dialects/mssql sqlalchemy/dialects/mysql sqlalchemy/dialects/oracle \
        onnxruntime/datasets onnxruntime/quantization onnxruntime/tools onnxruntime/transformers \
    && find . -type f -name '*.cpython-*.so' -exec strip --strip-unneeded {} + \
    && /opt/dragoman/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash .

# Our own code, as a layer with only the files it adds to the environment.
COPY README.md ./
COPY models models
COPY dragoman dragoman
COPY service service
RUN --mount=type=cache,target=/var/cache/pip \
    /opt/pip/bin/pip --python /opt/dragoman/bin/python install --no-compile --no-deps \
        --prefix /installed . \
    && /opt/dragoman/bin/python -m compileall -q --invalidation-mode unchecked-hash /installed

FROM ${PYTHON_IMAGE}
# tini is in the image because Kubernetes and plain `docker run` have no `init: true`.
# Byte-compile Python's standard library where the base image has not.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    && groupadd --gid 10001 dragoman \
    && useradd --uid 10001 --gid dragoman --no-create-home --home-dir /tmp \
        --shell /usr/sbin/nologin dragoman \
    && install --directory --mode 0700 --owner dragoman --group dragoman /state \
    && python3 -m compileall -q -j 0 -x '/(site-packages|dist-packages|test|idlelib)/' \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/dragoman /opt/dragoman
COPY bundles /bundles
COPY --from=build /installed /opt/dragoman

ENV PATH=/opt/dragoman/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp/matplotlib \
    DRAGOMAN_HOST=0.0.0.0 \
    DRAGOMAN_PORT=8000 \
    DRAGOMAN_BUNDLES=/bundles \
    DRAGOMAN_STATE=/state
USER 10001:10001
WORKDIR /
VOLUME /state
EXPOSE 8000
STOPSIGNAL SIGTERM
# Not urllib, which would use a proxy from the environment that Docker may set.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD ["python", "-c", \
    "import http.client, os, sys; \
    connection = http.client.HTTPConnection('127.0.0.1', int(os.environ['DRAGOMAN_PORT']), timeout=4); \
    connection.request('GET', '/readyz'); \
    sys.exit(connection.getresponse().status != 200)"]
ENTRYPOINT ["tini", "--", "dragoman"]
CMD ["serve"]
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Dragoman" \
    org.opencontainers.image.description="A machine-translation service to look inside" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="${REVISION}"
