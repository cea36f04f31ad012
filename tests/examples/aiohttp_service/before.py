"""The service without Evenkeel: `API_URL=http://... python3 before.py`.

Everything between the two lines of dashes in this file is what after.py does without.
"""
import asyncio
import os
import sys
import time
from email.utils import parsedate_to_datetime
# ---------------------------------------------------------------------------------------------------------------------
from random import random

import aiohttp

import app

TOTAL_SECONDS, ATTEMPT_SECONDS, QUEUE_SECONDS = 2.0, 0.5, 1.0
MAX_ATTEMPTS, MAX_AT_ONCE = 4, 64
BACKOFF_BASE, BACKOFF_MAX = 0.05, 0.1
RETRY_STATUSES = {429, 502, 503, 504}
RETRY_METHODS = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}
BUDGET_RATIO, BUDGET_RESERVE = 0.2, 10.0


def wish_of(answer):
    """Retry-After in seconds; it comes as a number or as a date."""
    value = answer.headers.get("Retry-After", "")
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


class Api:
    def __init__(self, base):
        self.base = base
        self.budget = BUDGET_RESERVE

    async def __aenter__(self):
        self.seats = asyncio.Semaphore(MAX_AT_ONCE)
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=MAX_AT_ONCE))
        return self

    async def __aexit__(self, *_):
        await self.session.close()

    async def call(self, method, path, body=None, headers=None, limit=TOTAL_SECONDS):
        end = time.monotonic() + limit
        attempt_seconds = ATTEMPT_SECONDS if limit == TOTAL_SECONDS else limit
        is_repeatable = method in RETRY_METHODS or (headers and "Idempotency-Key" in headers)
        self.budget = min(BUDGET_RESERVE, self.budget + BUDGET_RATIO)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            fault, wish = None, 0.0
            try:
                await asyncio.wait_for(self.seats.acquire(), min(QUEUE_SECONDS, end - time.monotonic()))
            except asyncio.TimeoutError:
                raise app.ApiFailed(503, "too many calls at once") from None
            try:
                left = max(0.001, min(attempt_seconds, end - time.monotonic()))
                async with self.session.request(method, self.base + path, data=body, headers=headers,
                                                timeout=aiohttp.ClientTimeout(total=left)) as answer:
                    text = await answer.text()  # a body that breaks off is a failed attempt, too
                    if answer.status < 400:
                        return text
                    fault = app.ApiFailed(answer.status, text)
                    if answer.status not in RETRY_STATUSES:
                        raise fault
                    wish = wish_of(answer)
            except asyncio.TimeoutError:
                fault = app.ApiFailed(504, "the API took too long")
            except aiohttp.ClientError as broken:
                fault = app.ApiFailed(502, f"no answer: {broken!r}")
            finally:
                self.seats.release()
            delay = max(wish, random() * min(BACKOFF_MAX, BACKOFF_BASE * 2 ** (attempt - 1)))
            if not is_repeatable or attempt == MAX_ATTEMPTS or time.monotonic() + delay >= end or self.budget < 1:
                raise fault
            self.budget -= 1
            await asyncio.sleep(delay)
# ---------------------------------------------------------------------------------------------------------------------


if __name__ == "__main__":
    sys.exit(app.run(Api(os.environ["API_URL"])))
