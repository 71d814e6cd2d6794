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
