"""Stand-ins for the routes' servers, for the load generator's own tests: well-formed answers after a set delay.

`python locust_servers.py DELAY_S [MODE]` prints the HTTP and the gRPC port. MODE `short` leaves an image out of every
answer; `errors` refuses every call. A process of its own: the load generator patches the one it runs in.
"""

import json
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from fiveway.vision.v1.vision_pb2 import PredictRequest, PredictResponse
from torchserve.inference_pb2 import PredictionResponse, PredictionsRequest
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

WIDTH = 4
VECTOR = [0.5] * WIDTH


def answered(images: int) -> int:
    return images - 1 if MODE == "short" else images


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else its answers, written in two pieces, wait 40 ms for an acknowledgement

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        time.sleep(DELAY_S)
        if MODE == "errors":
            self.reply(503, b'{"error": {"code": "UNAVAILABLE", "message": "down"}}', {})
        elif self.path == "/embed/base64":
            images = len(json.loads(body)["images"])
            self.reply(200, json.dumps({"embeddings": [VECTOR] * answered(images), "model": "tiny"}).encode(), {})
        elif self.path == "/v1/predict":
            one = {"embedding": {"values": VECTOR}, "classes": [{"index": 1, "label": "tench", "score": 0.5}]}
            images = len(json.loads(body)["images"])
            self.reply(200, json.dumps({"predictions": [one] * answered(images)}).encode(), {})
        elif self.path == "/predictions/tiny":
            text = {"embedding": VECTOR, "classes": []} if answered(1) else {"code": 400}
            self.reply(200, json.dumps(text).encode(), {})
        elif self.path in [f"/v2/models/tiny{suffix}/infer" for suffix in ("", "_trt", "_jpeg")]:
            length = int(self.headers["inference-header-content-length"])
            (tensor,) = json.loads(body[:length])["inputs"]
            assert len(body) - length == tensor["parameters"]["binary_data_size"]
            shape = [answered(tensor["shape"][0]), WIDTH]
            head = json.dumps({"outputs": [{"name": "embedding", "datatype": "FP32", "shape": shape}]}).encode()
            headers = {"inference-header-content-length": str(len(head))}
            self.reply(200, head + struct.pack("<f", 0.5) * (shape[0] * WIDTH), headers)
        else:
            self.reply(404, b'{"error": {"code": "NOT_FOUND", "message": "no such path"}}', {})

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"content-length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    # Users begin together. With Python's 5 the kernel falls back to SYN cookies, and these reset a connection whose
    # large body comes before its place in the queue: a connection more than there are users.
    request_queue_size = 128


def infer(body: bytes, context: grpc.ServicerContext) -> bytes:
    request = ModelInferRequest.FromString(body)
    routed = dict(context.invocation_metadata()).get("x-route")
    wanted = {"tiny_trt": "trt-grpc", "tiny_jpeg": "onnx-jpeg-grpc"}.get(request.model_name)
    assert routed == wanted, (routed, request.model_name)
    reply = ModelInferResponse(model_name=request.model_name)
    shape = [answered(request.inputs[0].shape[0]), WIDTH]
    reply.outputs.add(name="embedding", datatype="FP32", shape=shape)
    reply.raw_output_contents.append(struct.pack("<f", 0.5) * (shape[0] * WIDTH))
    return reply.SerializeToString()


def typed(body: bytes, context: grpc.ServicerContext) -> bytes:
    reply = PredictResponse()
    for _ in range(answered(len(PredictRequest.FromString(body).images))):
        reply.predictions.add().embedding.values.extend(VECTOR)
    return reply.SerializeToString()


def predictions(body: bytes, context: grpc.ServicerContext) -> bytes:
    request = PredictionsRequest.FromString(body)
    assert request.model_name == "tiny"
    assert request.input["data"].startswith(b"\xff\xd8")
    text = {"embedding": VECTOR, "classes": []} if answered(1) else {"code": 400, "type": "InvalidInput"}
    return PredictionResponse(prediction=json.dumps(text).encode()).SerializeToString()


def slowly(handler: Callable[[bytes, grpc.ServicerContext], bytes]) -> "grpc.RpcMethodHandler[bytes, bytes]":
    def handle(body: bytes, context: grpc.ServicerContext) -> bytes:
        time.sleep(DELAY_S)
        if MODE == "errors":
            context.abort(grpc.StatusCode.UNAVAILABLE, "down")
        return handler(body, context)

    return grpc.unary_unary_rpc_method_handler(handle)


def main() -> None:
    http = HttpServer(("127.0.0.1", 0), Http)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    server = grpc.server(ThreadPoolExecutor(32))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelInfer": slowly(infer)}),
            grpc.method_handlers_generic_handler("fiveway.vision.v1.VisionService", {"Predict": slowly(typed)}),
            grpc.method_handlers_generic_handler(
                "org.pytorch.serve.grpc.inference.InferenceAPIsService", {"Predictions": slowly(predictions)}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(http.server_port, port, flush=True)
    sys.stdin.read()  # until the test closes it


if __name__ == "__main__":
    DELAY_S = float(sys.argv[1])
    MODE = sys.argv[2] if len(sys.argv) > 2 else "good"
    main()
