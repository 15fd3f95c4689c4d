# One image for the coordinator and for every agent. Packages come from wheelhouse/, without any network, where that
# folder is; and else from the package index, or from the one that --build-arg PIP_INDEX_URL names.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG PIP_INDEX_URL
WORKDIR /src
# What we depend on is a layer of its own, which a change in our code leaves as it is. Figures are drawn elsewhere:
# without matplotlib, and without the tests of other people's packages, it weighs a third less.
COPY pyproject.toml wheelhous[e]/* wheelhouse/
RUN python -m venv --without-pip /opt/cpgt \
    && if ls wheelhouse/*.whl >/dev/null 2>&1; \
       then printf '[global]\nno-index = true\nfind-links = /src/wheelhouse\n' > /etc/pip.conf; fi \
    && python -c "import tomllib; project = tomllib.load(open('wheelhouse/pyproject.toml', 'rb'))['project']; \
       print(*(need for need in project['dependencies'] if 'matplotlib' not in need), sep='\n')" > needs.txt \
    && pip --python /opt/cpgt/bin/python install --no-cache-dir -r needs.txt \
    && find /opt/cpgt -type d -name tests -prune -exec rm -rf {} +
COPY . .
RUN pip --python /opt/cpgt/bin/python install --no-cache-dir --no-deps .

FROM ${BASE}
COPY --from=build /opt/cpgt /opt/cpgt
# One thread for linear algebra: here several agents share a machine.
ENV PATH=/opt/cpgt/bin:$PATH PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
USER 1000:1000
ENTRYPOINT ["cpgt"]
CMD ["--help"]
