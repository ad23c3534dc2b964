"""NamespaceUtil, as Java was recorded to answer."""

from __future__ import annotations

import pytest

from rocketpy.protocol.namespace import (
    is_already_with_namespace,
    namespace_of,
    namespace_of_endpoint,
    without_namespace,
    wrap_namespace,
    wrap_namespace_and_retry,
)
from tests.recorded import VECTORS


def test_every_recorded_answer_is_ours() -> None:
    compared = 0
    for vector in VECTORS["namespace"]:
        namespace, resource = vector["namespace"], vector["resource"]
        if resource is None:  # Java returns null for null
            continue
        assert wrap_namespace(namespace, resource) == vector["wrap"], vector
        assert without_namespace(resource) == vector["without"], vector
        without_this = without_namespace(resource, namespace) if namespace else resource
        assert without_this == vector["without_this"], vector
        assert is_already_with_namespace(resource, namespace or "") == vector["is_already"], vector
        assert namespace_of(resource) == vector["from_resource"], vector
        if resource:
            assert wrap_namespace_and_retry(namespace, resource) == vector["wrap_and_retry"], vector
        compared += 1
    assert (len(VECTORS["namespace"]), compared) == (80, 75)


@pytest.mark.parametrize(
    ("address", "namespace"),
    [
        ("MQ_INST_1_2.cn-x.example.com:80", "MQ_INST_1_2"),
        ("http://MQ_INST_12ab_CD.cn-x.example.com:80", "MQ_INST_12ab_CD"),
        ("MQ_INST_1.cn-x.example.com:80", ""),
        ("127.0.0.1:9876", ""),
        ("xMQ_INST_1_2.example.com:80", ""),
    ],
)
def test_an_endpoint_may_name_a_namespace(address: str, namespace: str) -> None:
    assert namespace_of_endpoint(address) == namespace
