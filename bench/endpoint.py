"""`scripts/bench endpoint URL`: any server that speaks the Open Inference Protocol v2, in the place of the stack's
Triton."""

import argparse
import json
import os
import tempfile
from pathlib import Path

from locustfiles import serving, tensors
from locustfiles.settings import BadSetting, edge_address
from locustfiles.study_routes.endpoint import GRPC, HTTP


def arguments(command: argparse.ArgumentParser) -> None:
    """Where the server is, and what it is sent."""
    command.add_argument("url", help="its HTTP address: http://HOST:8000 or https://HOST")
    command.add_argument("--grpc", metavar="HOST:PORT", help="its gRPC address; with https:// before it by TLS")
    command.add_argument("--model", required=True, help="the model's name there")
    file = "inputs: an .npz with an array per input, [items, ...]; default: drawn by chance, of the declared shapes"
    command.add_argument("--input", type=Path, metavar="FILE", help=file)
    header = "sent with every call, over gRPC as metadata; may be repeated"
    command.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help=header)


def stand_in(options: argparse.Namespace) -> list[str]:
    """Let this process, and those that it starts, ask the endpoint where they would ask the stack's Triton; the rows of
    the protocols that it speaks. Raises BadSetting, CallError."""
    http = edge_address(options.url, f"{options.url}: write it")
    grpc = edge_address(f"http://{options.grpc}" if "://" not in options.grpc else options.grpc) if options.grpc else ""
    os.environ["DIRECT_ADDRESSES"] = f"triton:8000={http}" + (f" triton:8001={grpc}" if grpc else "")
    headers = dict(_header(text) for text in options.header)
    os.environ["REQUEST_HEADERS"] = json.dumps(headers)
    options.header = sorted(headers)  # the result names them, without their values
    if options.input:
        if not options.input.is_file():
            raise BadSetting(f"there is no file {options.input}")
        os.environ["INPUT"] = str(options.input)
    folder = Path(tempfile.mkdtemp())
    served = {"schema": serving.SCHEMA, "model": options.model, "models": [options.model], "images": False}
    (folder / "serving.json").write_text(json.dumps(served))
    os.environ["ARTIFACTS"] = str(folder)
    if not tensors.described(http, options.model, serving.now()).binary:
        options.http_json = True
        print("Over HTTP tensors go as JSON: the server does not say that it takes them as bytes (binary_tensor_data)")
    return [HTTP, GRPC] if grpc else [HTTP]


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise BadSetting(f"--header {text!r}: write NAME:VALUE")
    return name.strip().lower(), value.strip()
