"""Assembles the service: routes, page, problems and middleware."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import nsh
from nsh.errors import IndexUnusable
from nsh.serving.service import items, pictures, routes, search
from nsh.serving.service.admission import Admission, Hosts
from nsh.serving.service.answers import explain
from nsh.serving.service.logs import log
from nsh.serving.service.observe import Observe, record_of
from nsh.serving.service.parameters import refuse_unknown
from nsh.serving.service.problems import KINDS, Problem, problem_of, respond
from nsh.serving.service.request_limits import RequestLimits
from nsh.serving.service.service import Service

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    **{f"/{name}": (name, "text/javascript; charset=utf-8") for name in ("page.js", "state.js", "hits.js")},
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def create_app(service: Service, *, host: str = "127.0.0.1") -> FastAPI:
    """The application of `service`, for a server that listens at `host`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(service.follow())
        yield
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        service.close()

    app = FastAPI(
        title="NSH",
        version=nsh.__version__,
        description="Binary codes of images, and the nearest images by Hamming distance.",
        lifespan=lifespan,
        docs_url=None,  # its scripts would come from another host
        redoc_url=None,
        redirect_slashes=False,  # it would redirect to the host in the client's Host header
    )
    app.state.service = service
    for room in (routes, search, pictures, items):
        app.include_router(room.router, dependencies=[Depends(refuse_unknown)])
    _add_page(app)
    _add_problems(app)
    settings = service.settings
    app.add_middleware(Admission, hosts=Hosts(host, allowed=settings.allowed_hosts))  # innermost
    app.add_middleware(
        RequestLimits,
        max_body=settings.max_body,
        queue=settings.queue,
        timeout=settings.timeout,
        metrics=service.metrics,
    )
    app.add_middleware(Observe, metrics=service.metrics)
    return app


def _add_page(app: FastAPI) -> None:
    folder = files("nsh.serving.service") / "page"
    for address, (name, media_type) in PAGE.items():
        app.add_route(address, _serve((folder / name).read_bytes(), media_type), methods=["GET"])


def _serve(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return Response(content, headers={"Content-Type": media_type, "Cache-Control": "no-cache"})

    return page


def _add_problems(app: FastAPI) -> None:
    async def answer(request: Request, problem: Problem) -> Response:
        return respond(problem, request_id=record_of(request.scope).request_id)

    async def unusable(request: Request, error: IndexUnusable) -> Response:
        problem = problem_of(error)
        if KINDS[problem.kind].status >= 500:
            log("index unusable", level=40, problem=problem.kind, detail=problem.detail)
        return await answer(request, problem)

    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return await answer(request, Problem("invalid", explain(error.errors())))

    async def unknown(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            return await answer(request, Problem("method-not-allowed", "not this method here: see /openapi.json"))
        return await answer(request, Problem("not-found", "there is nothing at this address: see /openapi.json"))

    app.add_exception_handler(Problem, answer)  # type: ignore[arg-type]
    app.add_exception_handler(IndexUnusable, unusable)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, invalid)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, unknown)  # type: ignore[arg-type]
