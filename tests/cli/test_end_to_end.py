"""The command line once against a real rocketpy cluster: a session as README tells it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import run
from tests.client.real_cluster import open_real_cluster


async def test_a_first_session(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path) as cluster:

        async def rocketpy(*arguments: str, stdin: bytes = b"") -> list[str]:
            ended = await run(*arguments, stdin=stdin, NAMESRV_ADDR=cluster.address)
            assert ended.status == 0, ended
            return ended.lines

        assert await rocketpy("topic", "create", "hello", "-q", "2") == [f"hello: 2 queues on {cluster.broker_address}"]
        assert ["hello", "broker-a", "2", "2", "RW"] in [line.split() for line in await rocketpy("topic", "list")]
        numbers = [str(number) for number in range(1000)]
        await rocketpy("produce", "-t", "hello", "-g", "blue", stdin="\n".join(numbers).encode())
        found = await rocketpy("consume", "-t", "hello", "-o", "beginning", "-e", "--commit")
        assert sorted(found, key=int) == numbers
        assert await rocketpy("consume", "-t", "hello", "-o", "stored", "-e") == []
        await rocketpy("produce", "-t", "hello", "-K", ":", "-q", "1", stdin=b"key:later\n")
        (last,) = await rocketpy("consume", "-t", "hello", "-o", "stored", "-e", "--json")
        assert (json.loads(last)["body"], json.loads(last)["keys"], json.loads(last)["queue_id"]) == ("later", "key", 1)
