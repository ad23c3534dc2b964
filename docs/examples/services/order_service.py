"""An order service: ``python order_service.py 127.0.0.1:9876 orders.db 8000``.

An order (``curl -d tea http://127.0.0.1:8000/orders/1``) is announced in the topic ``orders`` if it is stored, and only
then. Its message goes to the broker first, hidden from consumers; the order is stored; then the message is committed.
If the service dies before the order is stored, the message is never seen. If it dies after that, or the broker does,
the broker asks a service of the group later, by default within two minutes, and the message is seen then. A caller that
got 503, or no answer, posts the order again: its number makes it one order.
"""

import logging
import signal
import sqlite3
import sys
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rocketpy.client import LocalTransactionState, Message, MessageExt, blocking
from rocketpy.errors import RocketpyError

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY, item BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS transactions (id TEXT PRIMARY KEY, has_order INTEGER NOT NULL);
"""
log = logging.getLogger("order_service")


def store(path: str, number: str, item: bytes, transaction_id: str) -> bool:
    """Store an order and its transaction; False if the order was there already."""
    with closing(sqlite3.connect(path)) as database, database:
        is_new = database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (number, item)).rowcount == 1
        database.execute("INSERT INTO transactions VALUES (?, ?)", (transaction_id, is_new))
        return is_new


def has_order(path: str, transaction_id: str) -> bool:
    """Tell how a transaction has ended. One that has not is ended here: its id is taken, and ``store`` fails."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT OR IGNORE INTO transactions VALUES (?, FALSE)", (transaction_id,))
        row = database.execute("SELECT has_order FROM transactions WHERE id = ?", (transaction_id,)).fetchone()
        return bool(row[0])


class OrderHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        number, item = self.path.rpartition("/")[2], self.rfile.read(int(self.headers["Content-Length"]))
        try:
            with self.server.producer.transaction(Message.create("orders", item, keys=number)) as transaction:
                is_new = store(self.server.path, number, item, transaction.transaction_id)
                (transaction.commit if is_new else transaction.rollback)()
            status = 201 if is_new else 200
        except (RocketpyError, sqlite3.Error) as failure:
            log.warning("order %s: %s", number, failure)
            status = 503
        self.send_response(status)
        self.end_headers()


def main(name_server: str, path: str, port: str) -> None:
    logging.basicConfig(level=logging.INFO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: KeyboardInterrupt
    sqlite3.connect(path).executescript(SCHEMA).connection.close()

    def outcome_of(message: MessageExt) -> LocalTransactionState:
        is_stored = has_order(path, message.msg_id)
        log.info("the broker asks about order %s: %s", message.keys, "stored" if is_stored else "not stored")
        return LocalTransactionState.COMMIT_MESSAGE if is_stored else LocalTransactionState.ROLLBACK_MESSAGE

    with (
        suppress(KeyboardInterrupt),
        blocking.open_client(name_server) as client,
        client.transaction_producer("order_service", check=outcome_of) as producer,
        ThreadingHTTPServer(("127.0.0.1", int(port)), OrderHandler) as server,
    ):
        server.producer, server.path, server.daemon_threads = producer, path, False  # its end waits for requests
        log.info("listening on port %d", server.server_port)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
