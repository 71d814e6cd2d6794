"""A custom model for MLServer, as its documentation writes one: what tests/stack/test_endpoint.py measures."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Sums(MLModel):
    """The sum of each row of a matrix."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("sums", rows.sum(axis=1))])
