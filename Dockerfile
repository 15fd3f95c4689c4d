# One image for the coordinator and for every agent. Packages come from the folder wheelhouse/, if it
# exists, and otherwise from the package index, or from the one given by --build-arg PIP_INDEX_URL.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG PIP_INDEX_URL
WORKDIR /src
# Dependencies form a separate layer, which changes of our code do not rebuild. Random graphs and
# tables need extras. Tests of other packages are deleted to save space.
COPY pyproject.toml wheelhous[e]/* wheelhouse/
RUN python -m venv --without-pip /opt/cpgt \
    && if ls wheelhouse/*.whl >/dev/null 2>&1; \
       then printf '[global]\nno-index = true\nfind-links = /src/wheelhouse\n' > /etc/pip.conf; fi \
    && python -c "import tomllib; project = tomllib.load(open('wheelhouse/pyproject.toml', 'rb'))['project']; \
       extras = project['optional-dependencies']; \
       print(*project['dependencies'], *extras['graphs'], *extras['tables'], sep='\n')" > needs.txt \
    && pip --python /opt/cpgt/bin/python install --no-cache-dir -r needs.txt \
    && find /opt/cpgt -type d -name tests -prune -exec rm -rf {} +
COPY . .
RUN pip --python /opt/cpgt/bin/python install --no-cache-dir --no-deps .

FROM ${BASE}
COPY --from=build /opt/cpgt /opt/cpgt
# One thread for linear algebra: several agents may share a machine.
ENV PATH=/opt/cpgt/bin:$PATH PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
USER 1000:1000
ENTRYPOINT ["cpgt"]
CMD ["--help"]
