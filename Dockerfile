# What the README's two commands need, and nothing else. Emulation wants --privileged; packets in
# virtual time and the simulator do not:
#     docker build -t ina-testbed .
#     docker run --rm --privileged -v "$PWD/results:/ina-testbed/results" ina-testbed
#     docker run --rm --privileged ina-testbed ./run_tests.sh
FROM debian:12
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git kmod python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /ina-testbed
COPY . .
RUN ./setup.sh && rm -rf /var/lib/apt/lists/*
CMD ["./run_all.sh", "--quick"]
