"""The service: what it does for its own callers. before.py and after.py differ in how it calls the API, not in this.

  GET    /price/ITEM     asks the API; its answer is passed on
  GET    /stock/ITEM     the same, of an API that sometimes asks for a second of quiet (Retry-After)
  GET    /quote/ITEM     the same, of an API that has become far too slow
  POST   /events         takes an event; background workers bring it to the API
  POST   /reports        begins a report in the background, which takes the API long
  GET    /reports/N      running, done, failed or cancelled
  DELETE /reports/N      cancels it
  GET    /status         how many events were taken and delivered
"""
import asyncio
import os
import uuid

from aiohttp import web

WORKERS = 4
MAX_EVENTS = 1000
MAX_REPORTS = 100
RETRY_EVENT_SECONDS = 1.0
# How long the queued events may take once the service was told to stop. The sidecar has to live longer: drain.delay.
SHUTDOWN_SECONDS = 3.0


class ApiFailed(Exception):
    """The API gave no good answer, after all that was tried."""

    def __init__(self, status, detail):
        super().__init__(f"{status} {detail}")
        self.status, self.detail = status, detail


class Service:
    def __init__(self, api):
        self.api = api
        self.events = asyncio.Queue(MAX_EVENTS)
        self.taken = self.delivered = 0
        self.reports = []

    # --- calls within a request

    async def pass_on(self, path):
        try:
            return web.Response(text=await self.api.call("GET", path))
        except ApiFailed as fault:
            return web.json_response({"error": fault.detail}, status=fault.status)

    async def price(self, request):
        return await self.pass_on(f"/flaky?n=2&key=price-{request.match_info['item']}")

    async def stock(self, request):
        return await self.pass_on(f"/wait?s=1&n=1&key=stock-{request.match_info['item']}")

    async def quote(self, request):
        return await self.pass_on(f"/slow?ms=10000&key=quote-{request.match_info['item']}")

    # --- events, brought to the API by background workers

    async def take_event(self, request):
        # The key is made once, when the event is: however often it is sent, the API takes it in once.
        event = (str(uuid.uuid4()), await request.text())
        try:
            self.events.put_nowait(event)
        except asyncio.QueueFull:
            return web.json_response({"error": "too many events are waiting"}, status=503)
        self.taken += 1
        return web.json_response({"key": event[0]}, status=202)

    async def work(self):
        while True:
            key, body = await self.events.get()
            while not await self.deliver(key, body):
                await asyncio.sleep(RETRY_EVENT_SECONDS)
            self.delivered += 1
            self.events.task_done()

    async def deliver(self, key, body):
        try:
            await self.api.call("POST", "/inbox?n=1", body, {"Idempotency-Key": key})
            return True
        except ApiFailed as fault:
            print(f"event {key} is kept: {fault}", flush=True)
            return False

    # --- reports, which can be cancelled

    async def begin_report(self, _):
        if len(self.reports) >= MAX_REPORTS:
            return web.json_response({"error": "too many reports"}, status=503)
        number = len(self.reports)
        self.reports.append(asyncio.create_task(self.api.call("GET", "/drip?bytes=200&ms=100", limit=60)))
        return web.json_response({"report": number}, status=202)

    def report(self, request):
        number = request.match_info["number"]
        if not number.isdigit() or int(number) >= len(self.reports):
            raise web.HTTPNotFound()
        return self.reports[int(number)]

    async def tell_report(self, request):
        task = self.report(request)
        if not task.done():
            state = "running"
        elif task.cancelled():
            state = "cancelled"
        else:
            state = "failed" if task.exception() else "done"
        return web.json_response({"state": state})

    async def cancel_report(self, request):
        task = self.report(request)
        task.cancel()  # closes the connection that the call waits on: Evenkeel sees that and ends the call at the API
        await asyncio.wait([task])
        return await self.tell_report(request)

    async def status(self, _):
        return web.json_response({"taken": self.taken, "delivered": self.delivered})

    # --- life

    async def live(self, _):
        """Up to the yield: before the first request. After it: no request comes any more, and none is in flight."""
        async with self.api:
            workers = [asyncio.create_task(self.work()) for _ in range(WORKERS)]
            yield
            for report in self.reports:
                report.cancel()
            try:
                await asyncio.wait_for(self.events.join(), SHUTDOWN_SECONDS)
            except asyncio.TimeoutError:
                pass
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, *self.reports, return_exceptions=True)


def run(api):
    """Serves until SIGTERM; gives the exit code: 1 when events had to be left behind."""
    service = Service(api)
    app = web.Application()
    app.add_routes([
        web.get("/price/{item}", service.price), web.get("/stock/{item}", service.stock), web.get("/quote/{item}", service.quote),
        web.post("/events", service.take_event), web.get("/status", service.status),
        web.post("/reports", service.begin_report), web.get("/reports/{number}", service.tell_report),
        web.delete("/reports/{number}", service.cancel_report),
    ])
    app.cleanup_ctx.append(service.live)
    web.run_app(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")), access_log=None,
                print=lambda text: print(text, flush=True))
    print(f"delivered {service.delivered} of {service.taken} events", flush=True)
    return 0 if service.delivered == service.taken else 1
