# Gateway and agent in one image:
#   docker build -t postern .
#   docker run -v postern:/var/lib/postern -p 7480:7480 -p 7432:7432 postern
#   docker run -e POSTERN_KEY postern agent
# For a release, pin the base: --build-arg BASE=docker.io/library/python:3.11-slim-bookworm@sha256:…
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
# Debian removes a version from its servers when the next one is out.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# With POSTERN_COMPILE=0 the hot path stays Python; with POSTERN_WEB=0 the web application is left out.
ARG POSTERN_COMPILE=1
ARG POSTERN_WEB=1
# EXTRAS: libraries for optional features, such as "boto3 opentelemetry-sdk".
ARG EXTRAS=""
RUN python3 -m venv /opt/postern \
    && /opt/postern/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
        -c constraints.txt . ${EXTRAS} \
    && /opt/postern/bin/python -m pip uninstall --yes --quiet pip setuptools \
    && /opt/postern/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/postern/lib

FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 postern \
    && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/postern --no-create-home \
        --shell /usr/sbin/nologin postern \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/postern
COPY --from=build /opt/postern /opt/postern
ENV PATH=/opt/postern/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/postern \
    PYTHONDONTWRITEBYTECODE=1 \
    POSTERN_HOME=/var/lib/postern \
    POSTERN_HOST=0.0.0.0
USER 10001:10001
WORKDIR /var/lib/postern
VOLUME /var/lib/postern
# API, native clients of each protocol, tunnels, agents
EXPOSE 7480 7432 7306 7014 7521 7017 7018 7019 7080 7422 7443 7444
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=90s CMD ["postern", "health"]
# tini reaps processes that commands of connections leave behind.
ENTRYPOINT ["tini", "--", "postern"]
CMD ["gateway"]
