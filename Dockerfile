# One image for the coordinator and for every agent. Whatever is in wheelhouse/ is installed from there, without
# the network; where there is no such folder, from the package index.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
# what we depend on is a layer of its own, which a change of our code leaves as it is
COPY pyproject.toml wheelhous[e]/* wheelhouse/
RUN python -m venv --without-pip /opt/cpgt \
    && python -c "import tomllib; print(*tomllib.load(open('wheelhouse/pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > needs.txt \
    && if ls wheelhouse/*.whl >/dev/null 2>&1; then printf '[global]\nno-index = true\nfind-links = /src/wheelhouse\n' > /etc/pip.conf; fi \
    && pip --python /opt/cpgt/bin/python install --no-cache-dir -r needs.txt \
    # tests of other people's packages: a sixth of what they weigh
    && find /opt/cpgt -type d -name tests -prune -exec rm -rf {} +
COPY . .
RUN pip --python /opt/cpgt/bin/python install --no-cache-dir --no-deps .

FROM ${BASE}
COPY --from=build /opt/cpgt /opt/cpgt
# Nothing is written but to what is mounted and to /tmp. One thread for linear algebra: agents share a machine.
ENV PATH=/opt/cpgt/bin:$PATH PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=/tmp OPENBLAS_NUM_THREADS=1
USER 1000:1000
ENTRYPOINT ["cpgt"]
CMD ["--help"]
