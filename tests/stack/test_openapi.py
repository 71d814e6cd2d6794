"""What the JPEG server's OpenAPI page describes, asked by schemathesis at the edge: what comes back is on the page."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks
from schemathesis.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.clients import EDGE_PORT, HOST

CHECKS = [
    checks.not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance, unsupported_method,
]  # fmt: skip
"""All but those that take any bytes for a photo."""


@pytest.fixture(scope="module")
def page() -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"http://{HOST}:{EDGE_PORT}/openapi.json")


schema = schemathesis.pytest.from_fixture("page")


@schema.parametrize()
@settings(max_examples=30, deadline=None, database=None, phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))  # fmt: skip
def test_every_answer_is_one_that_the_page_describes(case: schemathesis.Case) -> None:
    """No 5xx, no status, type, header or form that the page does not have, no method that it does not have."""
    case.call_and_validate(checks=CHECKS, timeout=30)
