"""The service with Evenkeel beside it: `HTTP_PROXY=http://127.0.0.1:3128 API_URL=http://... python3 after.py`.

What is left of calling the API: one call, and a word for each way that it can fail.
"""
import asyncio
import os
import sys

import aiohttp

import app

# Above `timeouts.total` of policies.yaml (2 s): so Evenkeel's answer, which says what happened, comes first. A client
# timeout below it would cut calls off that Evenkeel could still have brought to a good end.
CLIENT_SECONDS = 3.0


class Api:
    def __init__(self, base):
        self.base = base

    async def __aenter__(self):
        self.session = aiohttp.ClientSession(
            trust_env=True,                                # HTTP_PROXY and NO_PROXY are heeded
            connector=aiohttp.TCPConnector(limit=0))       # how many at once is said by `pool`, and counted there
        return self

    async def __aexit__(self, *_):
        await self.session.close()

    async def call(self, method, path, body=None, headers=None, limit=CLIENT_SECONDS):
        try:
            async with self.session.request(method, self.base + path, data=body, headers=headers,
                                            timeout=aiohttp.ClientTimeout(total=limit)) as answer:
                if answer.status >= 400:
                    raise app.ApiFailed(answer.status, await self.reason(answer))
                return await answer.text()
        except (aiohttp.ClientError, asyncio.TimeoutError) as fault:  # Evenkeel itself is not there, or the answer broke off
            raise app.ApiFailed(502, f"no answer: {fault!r}") from fault

    async def reason(self, answer):
        if answer.content_type == "application/problem+json":  # Evenkeel's own words
            return (await answer.json(content_type=None))["detail"]
        return await answer.text()


if __name__ == "__main__":
    sys.exit(app.run(Api(os.environ["API_URL"])))
