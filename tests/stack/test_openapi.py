"""What the JPEG server's OpenAPI page describes, asked by schemathesis at the edge: what comes back is on the page."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.clients import EDGE_PORT, HOST

CHECKS = [
    checks.not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance,
]  # fmt: skip
"""All but those that take any bytes for a photo."""
FEW = settings(
    max_examples=100, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


def test_every_answer_is_one_that_the_page_describes() -> None:
    """No 5xx, and no status, type, header or form that the page does not have, whatever is sent."""
    page = schemathesis.openapi.from_url(f"http://{HOST}:{EDGE_PORT}/openapi.json")
    operations = [found.ok() for found in page.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) >= 5
    for operation in operations:

        @FEW
        @given(case=operation.as_strategy())
        def answered(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(checks=CHECKS, timeout=30)

        answered()
