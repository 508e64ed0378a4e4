# An image with JAX and Scalify; no compiler is left in it.
#
#   docker build -t scalify . && docker run --rm scalify python -c 'import scalify'
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git make
WORKDIR /scalify
COPY . .
# The folder of a build on this machine has its paths.
RUN rm -rf build .venv && make wheel

FROM debian:12
COPY --from=build /scalify/build/wheels /wheels
# Debian's Python is the wheel's.
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    libdnnl2 libopenblas0-pthread libssl3 python3 python3-venv \
  && python3 -m venv /opt/scalify \
  && /opt/scalify/bin/pip install --no-cache-dir "$(ls /wheels/*.whl)[train]" \
  && rm -rf /wheels /var/lib/apt/lists/*
ENV PATH=/opt/scalify/bin:$PATH
CMD ["scalify", "--help"]
