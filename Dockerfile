# One image for gateway, worker, migration, CLI and sandbox; docker-compose.yml says which of them a container is.
# The embedded servers of `make up` (stack, demo, bench) have no place in it.
ARG PYTHON=python:3.12.13-slim-trixie

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /venv
COPY requirements.runtime.lock /tmp/
RUN /venv/bin/pip install --require-hashes --only-binary :all: -r /tmp/requirements.runtime.lock \
 && /venv/bin/pip uninstall --yes pip
WORKDIR /app
COPY activities activities
COPY business_store business_store
COPY cli cli
COPY connectors connectors
COPY domain domain
COPY gateway gateway
COPY operating operating
COPY sandbox sandbox
COPY sweep sweep
COPY workflows workflows
COPY composition.py settings.py worker.py ./
COPY deploy/answers.py deploy/
RUN printf '#!/venv/bin/python\nfrom cli.main import main\nmain()\n' > /venv/bin/counterfoil \
 && chmod 755 /venv/bin/counterfoil \
 && python -m compileall -q /app

FROM ${PYTHON}
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin counterfoil \
 && install --directory --owner counterfoil --group counterfoil --mode 0700 /data
COPY --from=build /venv /venv
# Owned by root: what runs cannot change its own code.
COPY --from=build /app /app
ENV PATH=/venv/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
USER 10001:10001
CMD ["counterfoil", "--help"]
