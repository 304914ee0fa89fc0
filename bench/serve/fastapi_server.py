"""The base of vLLM's front end, without an engine: FastAPI on uvicorn with uvloop and httptools, which writes the bytes that our server
writes. fastapi_server.py PACE_MS. It speaks to the program that started it in lines of JSON."""

import asyncio
import json
import resource
import socket
import sys
import threading
import time

import fastapi
import uvicorn
from fastapi.responses import StreamingResponse

PACE = float(sys.argv[1]) / 1000
END = ',"logprobs":null,"finish_reason":null}]}\n\n'
app = fastapi.FastAPI()
queues = set()
state = {"tokens": 0}


@app.post("/v1/completions")
async def complete(request: fastapi.Request):
    await request.body()
    queue = asyncio.Queue()
    queues.add(queue)
    name = f"cmpl-{'0' * 24}{state['tokens'] % 10**8:08d}"
    start = f'data: {{"id":"{name}","object":"text_completion","created":1795424815,"model":"llama-3.1-8b","choices":[{{"index":0,"text":'

    async def chunks():
        try:
            while True:
                for _ in range(await queue.get()):
                    yield start + json.dumps(" word") + END
        finally:
            queues.discard(queue)

    return StreamingResponse(chunks(), media_type="text/event-stream")


async def steps():
    while True:
        for queue in queues:
            # A step waits for nobody; tokens that a stream has not taken yet wait in its queue.
            if PACE > 0 or queue.empty():
                state["tokens"] += 1
                queue.put_nowait(1)
        await asyncio.sleep(PACE)


@app.on_event("startup")
async def begin():
    state["task"] = asyncio.create_task(steps())


def say(message):
    print(json.dumps(message), flush=True)


def processor_ms():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return 1000 * (usage.ru_utime + usage.ru_stime)


def listen(started):
    at = tokens = spent = 0
    for line in sys.stdin:
        if line.strip() == "begin":
            at, tokens, spent = time.monotonic(), state["tokens"], processor_ms()
        elif line.strip() == "end":
            window = {
                "ms": 1000 * (time.monotonic() - at),
                "tokens": state["tokens"] - tokens,
                "processorMs": processor_ms() - spent,
                "delayP50": None,
                "delayP99": None,
                "idleP50": None,
            }
            say({"kind": "window", "window": window})


bound = socket.socket()
bound.bind(("127.0.0.1", 0))
threading.Thread(target=listen, args=(bound,), daemon=True).start()
say({"kind": "ready", "port": bound.getsockname()[1]})
config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="error", access_log=False)
uvicorn.Server(config).run(sockets=[bound])
