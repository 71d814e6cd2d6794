"""What a gateway's metrics say."""

from collections import Counter

from prometheus_client import REGISTRY

from gateways.core.errors import Status


def counts() -> Counter[str]:
    """Requests by status, `compute` (requests that were), `batches` and `images`. Two of these can be subtracted."""
    found = {name: value("fiveway_requests_total", status=name) for name in ("OK", "CANCELLED", *Status.__members__)}
    found["compute"] = value("fiveway_stage_seconds_count", stage="compute")
    found |= {"batches": value("fiveway_batch_images_count"), "images": value("fiveway_batch_images_sum")}
    return Counter(found)


def value(name: str, **labels: str) -> int:
    return int(REGISTRY.get_sample_value(name, labels) or 0)
