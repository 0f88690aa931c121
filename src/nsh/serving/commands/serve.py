"""`nsh serve`: the HTTP service and its page."""

from pathlib import Path
from typing import Annotated

import typer

from nsh.serving.commands.encode import Model
from nsh.serving.commands.health import DEFAULT_HOST, DEFAULT_PORT, AddressFile, Host, Port
from nsh.serving.commands.search import IndexAddress

_LIMITS = "Limits"


def serve(
    context: typer.Context,
    model: Model,
    index: IndexAddress,
    images: Annotated[
        Path | None,
        typer.Option(envvar="NSH_IMAGES", help="Folder that the ids are relative to, for thumbnails of items."),
    ] = None,
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
    which clients send as `Authorization: Bearer TOKEN`. After SIGTERM or Ctrl-C, requests in progress are finished.
    """
    import os

    from nsh.serving.arguments import find_model
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.cores import cpu_quota
    from nsh.serving.service.server import run
    from nsh.serving.service.settings import Settings

    settings = Settings(
        model=find_model(model, from_registry=context.obj, progress=show_progress),
        index=index,
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
