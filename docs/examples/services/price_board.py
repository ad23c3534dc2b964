"""A web application that sends and consumes: ``python price_board.py 127.0.0.1:9876 8000``.

It needs ``pip install fastapi uvicorn``, and the topic: ``rocketpy topic create prices -n 127.0.0.1:9876``. Try
``curl -X PUT http://127.0.0.1:8000/prices/tea?cents=150`` and ``curl http://127.0.0.1:8000/prices/tea``.

Prices are messages of the topic ``prices``, and each instance of the application reads all of them, from the beginning,
into its memory. So an instance that dies has lost nothing, and prices are as old as the broker keeps messages. Once PUT
has answered 204 the price is stored; every instance shows it a moment later. While the broker is away, PUT answers 503
and GET what was read before; PUT may have stored a price that got 503, and may be repeated.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException

from rocketpy.client import Message, MessageStream, aio, queue_by_hash
from rocketpy.errors import RocketpyError

TOPIC = "prices"
log = logging.getLogger("price_board")


async def read_prices(messages: MessageStream, prices: dict[str, int]) -> None:
    async for message in messages:
        try:
            prices[message.keys] = int(message.body)
        except ValueError:
            log.warning("message %s is no price: %r", message.msg_id, message.body)


def application(name_server: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            aio.open_client(name_server) as client,
            client.producer("price_board") as app.state.producer,
            client.pull_consumer("price_board") as reader,
            reader.open_messages(TOPIC, start="beginning") as messages,
        ):
            app.state.reading = asyncio.create_task(read_prices(messages, prices))
            yield
            app.state.reading.cancel()
            await asyncio.wait([app.state.reading])

    app, prices = FastAPI(lifespan=lifespan), dict[str, int]()

    @app.get("/health")
    async def health() -> None:
        if app.state.reading.done():  # it goes on over failures of brokers, so this one is a fault of the program
            raise HTTPException(503, f"prices are no longer read: {app.state.reading}")

    @app.get("/prices/{item}")
    async def show(item: str) -> int:
        if item not in prices:
            raise HTTPException(404)
        return prices[item]

    @app.put("/prices/{item}", status_code=204)
    async def change(item: str, cents: int) -> None:
        message = Message.create(TOPIC, b"%d" % cents, keys=item)
        try:
            await app.state.producer.send(message, queue=queue_by_hash(item))  # one queue: in the order of the changes
        except RocketpyError as failure:
            raise HTTPException(503, str(failure)) from failure

    return app


def main(name_server: str, port: str) -> None:
    uvicorn.run(application(name_server), host="127.0.0.1", port=int(port))  # until SIGTERM


if __name__ == "__main__":
    main(*sys.argv[1:])
