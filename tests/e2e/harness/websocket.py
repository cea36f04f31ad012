"""A real WebSocket server that echoes, in a thread of its own."""
import asyncio
import threading

import websockets


class EchoServer:
    def __init__(self, **more):
        self.n = 0            # connections that were upgraded
        self.paths = []
        self.more = more
        self.ready = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _echo(self, ws):
        self.n += 1
        self.paths.append(ws.path)
        self.protocol = ws.subprotocol
        self.headers = dict(ws.request_headers.raw_items())
        async for message in ws:
            await ws.send(message)

    async def _run(self):
        self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
        async with websockets.serve(self._echo, "127.0.0.1", 0, max_size=None, **self.more) as server:
            self.port = server.sockets[0].getsockname()[1]
            self.ready.set()
            await self.stop.wait()

    @property
    def authority(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"ws://{self.authority}/chat?a=1"

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(5)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(5)
