"""Follows the KV cache events of a server: which hashes its prefix cache has, by what ZeroMQ says alone.

    python3 kv_events_subscriber.py tcp://127.0.0.1:5557 tcp://127.0.0.1:5558

It needs pyzmq and msgpack. The second address is where missed batches are replayed. Each batch is printed as a line. It understands
both forms of the events: maps, and arrays as vLLM wrote them before 0.26. With --until N it ends behind batch N, and prints what it
knows as JSON.
"""

import argparse
import json
import sys

import msgpack
import zmq

END = b"\xff" * 8
FIELDS = {
    "BlockStored": ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys"],
    "BlockRemoved": ["block_hashes", "medium"],
    "AllBlocksCleared": [],
}


def as_map(event):
    """An event by the names of its fields."""
    if isinstance(event, dict):
        return event
    kind, *values = event
    return {"type": kind, **dict(zip(FIELDS[kind], values))}


class Index:
    """The hashes that can be found, by medium."""

    def __init__(self):
        self.hashes = {}
        self.last = -1  # number of the batch that was applied last

    def apply(self, seq, payload):
        _, events, _rank = msgpack.unpackb(payload)
        for event in map(as_map, events):
            if event["type"] == "AllBlocksCleared":
                self.hashes.pop("GPU", None)
                continue
            known = self.hashes.setdefault(event["medium"], set())
            if event["type"] == "BlockStored":
                parent = event["parent_block_hash"]
                tokens = len(event["token_ids"])
                assert tokens == event["block_size"] * len(event["block_hashes"]), event
                assert parent is None or parent not in event["block_hashes"], event
                known.update(event["block_hashes"])
            else:
                known.difference_update(event["block_hashes"])
        self.last = seq


def replay(dealer, index):
    """Asks for everything behind the last batch, and applies it."""
    dealer.send_multipart([b"", (index.last + 1).to_bytes(8, "big")])
    while True:
        # The reply's frames: empty, the topic (since vLLM 0.26), the number, the batch.
        *_, seq, payload = dealer.recv_multipart()
        if seq == END:
            return
        number = int.from_bytes(seq, "big")
        if number > index.last:
            index.apply(number, payload)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("replay_endpoint")
    parser.add_argument("--topic", default="")
    parser.add_argument("--until", type=int, help="end behind the batch of this number")
    parser.add_argument("--lose", type=int, default=0, help="lose every so-manieth message, to try replay")
    options = parser.parse_args()

    context = zmq.Context()
    subscriber = context.socket(zmq.SUB)
    subscriber.connect(options.endpoint)
    subscriber.setsockopt_string(zmq.SUBSCRIBE, options.topic)
    dealer = context.socket(zmq.DEALER)
    dealer.connect(options.replay_endpoint)
    index = Index()
    heard = 0
    replay(dealer, index)  # the events that were published before
    print("listening", flush=True)
    while options.until is None or index.last < options.until:
        if not subscriber.poll(1000):
            replay(dealer, index)
            continue
        _topic, seq, payload = subscriber.recv_multipart()
        heard += 1
        if options.lose and heard % options.lose == 0:
            continue
        number = int.from_bytes(seq, "big")
        if number <= index.last:
            continue
        if number > index.last + 1:
            replay(dealer, index)
        if number > index.last:
            index.apply(number, payload)
        if options.until is None:
            print(number, {medium: len(hashes) for medium, hashes in index.hashes.items()}, flush=True)
    if options.until is not None:
        text = lambda each: each.hex() if isinstance(each, bytes) else str(each)
        json.dump({medium: sorted(map(text, hashes)) for medium, hashes in index.hashes.items()}, sys.stdout)


if __name__ == "__main__":
    main()
