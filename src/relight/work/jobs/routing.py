"""Which model does a job's work, and where it is asked: decided by the raw prompt alone."""

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from relight.config import Config
from relight.errors import RelightError
from relight.models.endpoints import Endpoint
from relight.work.agent.models import MOA, find_endpoint
from relight.work.jobs.job import Job
from relight.work.jobs.recipes import can_choose_model
from relight.work.moa.mixture import find_preset


class Route(Struct, frozen=True, kw_only=True):
    """The model of a run; what only the program that is run knows is None.

    `endpoints` are all that are asked: those of a mixture are several.
    """

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    endpoints: list[Endpoint] = []

    @property
    def is_local(self) -> bool:
        """Whether nothing that is asked lies beyond this machine and its own network."""
        return bool(self.endpoints) and all(is_local(one.base_url) for one in self.endpoints)


def choose_route(
    job: Job, *, config: Config, environment: Mapping[str, str] | None = None
) -> Route:
    """The model that a job names, else the first route that its prompt fits, else the default."""
    environment = os.environ if environment is None else environment
    if job.runner == "command":
        chooses = can_choose_model(job.command, use_shell=job.use_shell)
        return Route(model=job.model if chooses else None, provider=job.provider)
    if job.model is not None:
        chosen: Mapping[str, str | None] = {"model": job.model}
    else:
        chosen = find_default(job.prompt, config=config, environment=environment)
    model = chosen["model"]
    if model is None:
        raise RelightError(
            f"the job {job.name} names no model, and there is no default",
            f"name one with --model, or write model in [jobs] of {config.home / 'config.toml'}",
        )
    if model.startswith(MOA):
        preset = find_preset(config, model.removeprefix(MOA))
        endpoints = [*preset.references, preset.aggregator]
        return Route(model=model, provider="moa", endpoints=endpoints)
    # a key, and who is paid, belong to the address that they are named with
    place: Mapping[str, str | None] = {
        "base_url": config.jobs.base_url,
        "key_variable": config.jobs.key_variable,
        "provider": config.jobs.provider,
    }
    if job.base_url is not None:
        place = {"base_url": job.base_url}
    elif chosen.get("base_url"):
        place = chosen
    endpoint = find_endpoint(
        model,
        base_url=place["base_url"],
        key_variable=job.key_variable or place.get("key_variable"),
        environment=environment,
    )
    provider = job.provider or chosen.get("provider") or place.get("provider")
    return Route(
        model=model,
        provider=provider or endpoint.seller,
        base_url=endpoint.base_url,
        key_variable=endpoint.key_variable,
        endpoints=[endpoint],
    )


def find_default(
    prompt: str, *, config: Config, environment: Mapping[str, str] | None = None
) -> Mapping[str, str | None]:
    """What a job without a model of its own gets now: `model`, and where it is asked."""
    for route in config.jobs.routes:
        if re.search(route.pattern, prompt):
            return msgspec.structs.asdict(route)
    environment = os.environ if environment is None else environment
    return {"model": config.jobs.model or environment.get("RELIGHT_MODEL")}


def is_local(address: str) -> bool:
    """Whether a URL's host is this machine or in its private network, by all its addresses.

    >>> is_local("http://127.0.0.1:11434/v1"), is_local("http://192.168.1.7/v1")
    (True, True)
    >>> is_local("http://127.0.0.1@203.0.114.9/v1"), is_local("https://8.8.8.8")
    (False, False)
    """
    try:
        host = urlsplit(address).hostname or ""
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except (OSError, ValueError):  # no such host, or nothing that is one
        return False
    return bool(found) and all(_is_private(str(place[4][0])) for place in found)


def _is_private(address: str) -> bool:
    known = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped:
        known = known.ipv4_mapped
    return known.is_loopback or (known.is_private and not known.is_unspecified)
