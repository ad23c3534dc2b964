"""What every header class is held to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.headers.codec import read_header, write_header


@pytest.fixture(scope="session")
def check_header() -> Callable[..., None]:
    """Check one full value of a class against its text fields; ``required`` are those it cannot do without."""

    def check(header: object, fields: dict[str, str], *, required: str) -> None:
        header_class = type(header)
        assert write_header(header) == fields
        assert read_header(fields, header_class) == header
        assert read_header(fields | {"AccessKey": "peers add fields"}, header_class) == header
        assert set(required.split()) <= fields.keys()
        for name in fields:
            rest = {key: text for key, text in fields.items() if key != name}
            if name not in required.split():
                read_header(rest, header_class)
                continue
            with pytest.raises(RequestError) as refusal:
                read_header(rest, header_class)
            assert refusal.value.response_code == ResponseCode.SYSTEM_ERROR
            assert refusal.value.remark.startswith(f"{header_class.__name__}.{name}: expected ")
            assert refusal.value.remark.endswith(", found nothing")

    return check
