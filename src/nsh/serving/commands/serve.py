"""`nsh serve`: the HTTP service and its page."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsh.errors import ConfigError
from nsh.serving.commands.encode import MODEL
from nsh.serving.commands.health import DEFAULT_HOST, DEFAULT_PORT, AddressFile, Host, Port
from nsh.serving.commands.search import INDEX

if TYPE_CHECKING:
    from nsh.serving.service.settings import Shadow

_LIMITS = "Limits"
_PAIR = re.compile(r"(models:/[^:]+|https?://[^#]+#sha256=[0-9a-f]{64}|[^:]+):(.+)")


def serve(
    context: typer.Context,
    model: Annotated[str | None, MODEL] = None,
    index: Annotated[str | None, INDEX] = None,
    deployment: Annotated[
        Path | None,
        typer.Option(
            envvar="NSH_DEPLOYMENT",
            help="Folder of nsh deploy, in place of --model and --index: its current release is served and followed.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(envvar="NSH_IMAGES", help="Folder that the ids are relative to, for thumbnails of items."),
    ] = None,
    shadow: Annotated[
        str | None,
        typer.Option(
            envvar="NSH_SHADOW",
            metavar="MODEL:INDEX",
            help="A second encoder and its index: not to answer, but to be compared (/metrics, /v1/shadow).",
            show_default=False,
        ),
    ] = None,
    shadow_share: Annotated[
        float, typer.Option(envvar="NSH_SHADOW_SHARE", min=0, max=1, help="Share of the searches to compare.")
    ] = 0.1,
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    address_file: AddressFile = None,
    allowed_hosts: Annotated[
        str,
        typer.Option(
            envvar="NSH_ALLOWED_HOSTS",
            help="Host names to allow besides localhost, addresses and, in a container, names without a dot: "
            "images.example.org,*.lan; * for any.",
        ),
    ] = "",
    device: Annotated[str, typer.Option(envvar="NSH_DEVICE", help="cpu, cuda, cuda:N or auto.")] = "cpu",
    threads: Annotated[
        int | None,
        typer.Option(envvar="NSH_THREADS", help="Cores to use; if not given, all that this container may use."),
    ] = None,
    batch: Annotated[int, typer.Option(envvar="NSH_BATCH", help="Largest number of images in one inference.")] = 8,
    max_body: Annotated[
        int, typer.Option(envvar="NSH_MAX_BODY", help="Bytes of a request's body.", rich_help_panel=_LIMITS)
    ] = 16 * 1024 * 1024,
    max_pixels: Annotated[
        int, typer.Option(envvar="NSH_MAX_PIXELS", help="Width x height of an image.", rich_help_panel=_LIMITS)
    ] = 25_000_000,
    max_images: Annotated[
        int, typer.Option(envvar="NSH_MAX_IMAGES", help="Images in a request.", rich_help_panel=_LIMITS)
    ] = 16,
    queue: Annotated[
        int, typer.Option(envvar="NSH_QUEUE", help="Requests in progress or waiting.", rich_help_panel=_LIMITS)
    ] = 64,
    timeout: Annotated[
        float, typer.Option(envvar="NSH_TIMEOUT", help="Seconds for a request.", rich_help_panel=_LIMITS)
    ] = 30.0,
    keep_alive: Annotated[
        int, typer.Option(envvar="NSH_KEEP_ALIVE", help="Seconds for an idle connection.", rich_help_panel=_LIMITS)
    ] = 75,
) -> None:
    """Serve codes and nearest images over HTTP, with a web page at /.

    Items can be changed over HTTP only if the environment variable NSH_TOKEN holds a token of 16 characters or more,
    which clients send as `Authorization: Bearer TOKEN`. With --deployment, the service follows what nsh deploy and nsh
    rollback switch to, without losing a request. After SIGTERM or Ctrl-C, requests in progress are finished.
    """
    import os

    from nsh.serving.cores import cpu_quota
    from nsh.serving.service.server import run
    from nsh.serving.service.settings import Settings

    settings = Settings(
        **_answering(context, model, index, deployment),
        shadow=None if shadow is None else _compared(context, shadow, share=shadow_share),
        images=images,
        token=os.environ.get("NSH_TOKEN") or None,
        device=device,
        threads=threads or cpu_quota(),
        batch=batch,
        max_body=max_body,
        max_pixels=max_pixels,
        max_images=max_images,
        queue=queue,
        timeout=timeout,
        keep_alive=keep_alive,
        allowed_hosts=tuple(allowed_hosts.replace(",", " ").split()),
    )
    run(settings, host=host, port=port, address_file=address_file)


def _answering(context: typer.Context, model: str | None, index: str | None, deployment: Path | None) -> dict[str, Any]:
    """The settings that say what answers."""
    if deployment is not None:
        named = [name for name in ("model", "index") if _is_typed(context, name)]
        if named:
            raise ConfigError(f"found --deployment and --{named[0]}: the deployment has both, leave --{named[0]} out")
        return {"deployment": deployment}
    if model is None or index is None:
        raise ConfigError("found neither --deployment nor both --model and --index: say what to serve")
    return {"model": _find_model(context, model), "index": index}


def _is_typed(context: typer.Context, name: str) -> bool:
    """Whether an option is on the command line; the container's environment may have defaults for it."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _compared(context: typer.Context, pair: str, *, share: float) -> "Shadow":
    from nsh.serving.service.settings import Shadow

    parts = _PAIR.fullmatch(pair)
    if parts is None:
        raise ConfigError(f"found --shadow {pair}: it is written MODEL:INDEX, as encoder.onnx:index")
    return Shadow(model=_find_model(context, parts[1]), index=parts[2], share=share)


def _find_model(context: typer.Context, model: str) -> Path:
    from nsh.serving.arguments import find_model
    from nsh.serving.commands.terminal import show_progress

    return find_model(model, from_registry=context.obj, progress=show_progress)
