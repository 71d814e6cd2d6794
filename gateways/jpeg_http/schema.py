"""The shapes of requests and answers, for the OpenAPI page.

Answers are written by orjson straight from the arrays and requests are read by body.py: these models document both, and
a test holds real answers against them.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field

from gateways.core.answer import Class
from gateways.core.image import MAX_IMAGES


class Base64Images(BaseModel):
    """1 to 32 JPEGs."""

    images: list[str] = Field(
        min_length=1, max_length=MAX_IMAGES, description="JPEG files in base64 (RFC 4648, with padding)"
    )


class ImageForm(BaseModel):
    """1 to 32 JPEG files."""

    images: list[bytes] = Field(
        min_length=1,
        max_length=MAX_IMAGES,
        description="JPEG files, one part each",
        json_schema_extra={"items": {"type": "string", "format": "binary"}},
    )


class Answer(BaseModel):
    """What every answer says of the model."""

    model: str
    weights: Literal["real", "random"] = Field(description="random: the numbers mean nothing, only the time does")


class Embeddings(Answer):
    """One embedding per image, in the order sent."""

    embeddings: list[list[float]]


class Classes(Answer):
    """The five most likely classes per image, best first, in the order sent; a score is a probability, 0 to 1."""

    classes: list[list[Class]]


class Preprocess(BaseModel):
    """To the tensor [3, crop, crop]: the shorter side to `resize` pixels, the centre crop, (x / 255 - mean) / std."""

    resize: int
    crop: int
    interpolation: Literal["bicubic", "bilinear"]
    mean: list[float] = Field(min_length=3, max_length=3)
    std: list[float] = Field(min_length=3, max_length=3)


class Photos(BaseModel):
    """How the served model takes photos, and what computes for them in this server."""

    kind: Literal["classifier", "embedding"]
    weights: Literal["real", "random"]
    labels: list[str] = Field(description="the classes' names by index; empty for an embedding model")
    preprocess: Preprocess
    device: str = Field(examples=["cpu"])
    precision: str = Field(examples=["FP32", "FP32 with TF32", "FP16"])
    threads: int | None = Field(description="threads that compute one batch; null: a GPU does")


class Served(BaseModel):
    """What the stack serves now."""

    model: str = Field(description="its name on the onnx routes; on the onnx-jpeg routes with _jpeg at its end")
    accelerated: str | None = Field(description="its name on the trt routes; null: they serve nothing")
    photos: Photos | None = Field(description="null: the model takes no photos")


class Error(BaseModel):
    """What went wrong and what to do."""

    code: str = Field(description="the name of the matching gRPC status code", examples=["INVALID_ARGUMENT"])
    message: str = Field(examples=["image is not a JPEG: send JPEG bytes (they start with FF D8 FF)"])


class ErrorAnswer(BaseModel):
    """Every answer that is not 200."""

    error: Error


def request_body(content: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The OpenAPI `requestBody` for the schema of each content type."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": one} for kind, one in content.items()}}}


BASE64_BODY = request_body({"application/json": Base64Images.model_json_schema()})
JPEG_BODY = request_body(
    {"image/jpeg": {"type": "string", "format": "binary"}, "multipart/form-data": ImageForm.model_json_schema()}
)
