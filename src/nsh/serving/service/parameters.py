"""Refuses query parameters that a route does not know: a misspelt filter would be no filter, without a word."""

from fastapi import Request

from nsh.serving.service.problems import Problem


async def refuse_unknown(request: Request) -> None:
    """A dependency of every route; the probes, to whose addresses a load balancer may add its own, take any parameter.

    Raises:
        Problem: the address is below /v1/ and has a parameter that the route has not.
    """
    route = request.scope["route"]
    if not route.path.startswith("/v1/"):
        return
    known = {field.alias for field in route.dependant.query_params}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        allowed = ", ".join(sorted(known)) or "none"
        raise Problem("invalid", f"found the parameter {unknown[0]!r}, allowed here are: {allowed}")
