"""What an answer made by the proxy itself must look like."""


def problem(response, status, error, verdict=None, attempts=None, upstream=None, head=False):
    """A problem+json answer with all its fields; gives the parsed body."""
    assert response.status == status, response
    proxy_status = response.header("Proxy-Status")
    assert proxy_status.startswith(f"evenkeel; error={error}"), proxy_status
    if "details=" in proxy_status:
        assert proxy_status.split("details=", 1)[1].startswith('"') and proxy_status.endswith('"'), proxy_status
    assert response.header("Content-Type") == "application/problem+json"
    assert int(response.header("Content-Length")) > 0
    if head:
        assert response.body == b""
        return None
    body = response.json()
    wanted = {"type", "title", "status", "detail", "error", "upstream", "attempts", "verdict", "elapsed_ms", "request_id"}
    assert wanted <= set(body), wanted - set(body)
    assert body["status"] == status and body["error"] == error, body
    for field, member in (("Evenkeel-Upstream", "upstream"), ("Evenkeel-Attempts", "attempts"), ("X-Request-Id", "request_id")):
        assert response.all(field) == [str(body[member])], (field, response)
    assert isinstance(body["title"], str) and body["title"] and isinstance(body["detail"], str) and body["detail"]
    assert isinstance(body["attempts"], int) and isinstance(body["elapsed_ms"], (int, float)) and body["elapsed_ms"] >= 0
    if verdict is not None:
        assert body["verdict"] in ((verdict,) if isinstance(verdict, str) else verdict), body
    if attempts is not None:
        assert body["attempts"] == attempts, body
    if upstream is not None:
        assert body["upstream"] == upstream, body
    return body
