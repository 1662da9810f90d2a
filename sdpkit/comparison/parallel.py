"""Where the runs of a command go: `--parallel-config FILE`, with the keys of benchopt's file.

    backend: dask
    dask_address: tcp://scheduler:8786

The file is YAML (read by PyYAML, which Dask needs, too) or JSON. Keys that begin with `dask_` are
arguments of `distributed.Client`. In Python the same is said by `joblib.parallel_config`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdpkit.errors import InputError, SdpkitError
from sdpkit.files import read_text, reading
from sdpkit.inputs import integer

_BACKENDS = ("loky", "threading", "dask")
# Keys that say where a cluster is; without them it is made here.
_PLACES = ("dask_address", "dask_scheduler_file")


@contextmanager
def parallel(path: Path | None) -> Iterator[None]:
    """Let joblib run tasks where the file says; with None, where it would anyway."""
    if path is None:
        yield
        return
    import joblib

    config = read_config(path)
    if config["backend"] != "dask":
        with joblib.parallel_config(config["backend"], n_jobs=config.get("n_jobs", 1)):
            yield
        return
    with (
        _client(config) as client,
        joblib.parallel_config("dask", client=client, n_jobs=config.get("n_jobs", -1)),
    ):
        yield


def on_a_cluster() -> str:
    """The name of the cluster's kind that joblib would use now, or ""."""
    return "dask" if hasattr(_active()[0], "client") else ""


def runs_at_a_time(n_jobs: int | None) -> int:
    """How many tasks are run at a time now; None for what `joblib.parallel_config` says."""
    backend, configured = _active()
    asked = configured if n_jobs is None else integer(n_jobs, "n_jobs")
    return int(backend.effective_n_jobs(asked))


def in_parallel(
    tasks: Iterable[Any], n_jobs: int | None, *, prefer: str | None = None, ordered: bool = False
) -> Iterator[Any]:
    """The values of joblib's delayed `tasks`, as they come or in order. A task is asked for when
    there is somebody to run it."""
    import joblib

    backend, _ = _active()
    where = {"backend": backend} if on_a_cluster() else {"prefer": prefer}
    run = joblib.Parallel(
        n_jobs=runs_at_a_time(n_jobs),
        return_as="generator" if ordered else "generator_unordered",
        batch_size=1,
        pre_dispatch="n_jobs",
        **where,
    )
    yield from run(tasks)


def _active() -> tuple[Any, int]:
    """The backend that joblib would use now, and how many tasks it was told to run at a time."""
    from joblib.parallel import get_active_backend

    backend, configured = get_active_backend(prefer="threads")
    return _cluster(backend.client) if hasattr(backend, "client") else backend, configured


# -- the file -------------------------------------------------------------------------------


def read_config(path: Path) -> dict[str, Any]:
    """The keys and values of a file; refuses what nobody would use."""
    with reading(path, "a parallel configuration"):
        text = read_text(path, "a parallel configuration")
        parse = _from_json if text.lstrip().startswith("{") else _from_yaml
        config = parse(text, path)
    backend = config.get("backend")
    if backend not in _BACKENDS:
        raise InputError(f"{path}: backend is {backend!r}; use one of {', '.join(_BACKENDS)}")
    if config.get("n_jobs") is not None:
        integer(config["n_jobs"], f"{path}: n_jobs")
    known = [key for key in config if key in ("backend", "n_jobs")]
    known += [key for key in config if key.startswith("dask_") and backend == "dask"]
    unknown = sorted(set(config) - set(known))
    if unknown:
        raise InputError(
            f"{path}: {', '.join(unknown)} is not used by the backend {backend!r}; it uses n_jobs"
            f"{' and dask_…, the arguments of distributed.Client' if backend == 'dask' else ''}"
        )
    return {key: value for key, value in config.items() if value is not None}


def _from_json(text: str, path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from error


def _from_yaml(text: str, path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise InputError(
            f"{path} is YAML, which needs the package PyYAML: pip install 'sdpkit[dask]', or write "
            "the file as JSON"
        ) from error
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise InputError(f"{path}, line {line}: expected 'key: value' ({error})") from error
    if not isinstance(config, dict):
        raise InputError(f"{path}, line 1: expected 'key: value', got {config!r}")
    return {str(key): value for key, value in config.items()}


# -- Dask -----------------------------------------------------------------------------------


@contextmanager
def _client(config: Mapping[str, Any]) -> Iterator[Any]:
    """The client of the cluster; one of processes here if the file names none."""
    try:
        import distributed
    except ImportError as error:
        raise InputError(
            "backend: dask needs the package distributed: pip install 'sdpkit[dask]'"
        ) from error
    given = {key.removeprefix("dask_"): value for key, value in config.items() if "dask_" in key}
    if not any(key in config for key in _PLACES):
        given = {"n_workers": config.get("n_jobs"), "threads_per_worker": 1, **given}
    try:
        client = distributed.Client(**given)
    except (OSError, TypeError, ValueError) as error:
        words = ", ".join(f"dask_{key}: {value}" for key, value in given.items())
        raise InputError(f"no Dask cluster could be reached with {words} ({error})") from error
    with client:
        yield client


class _Lost(Exception):
    """The workers that a task was given to died, more often than the cluster puts up with."""


def _cluster(client: Any) -> Any:
    """joblib's backend for Dask, with two of its traps closed."""
    from joblib._dask import DaskDistributedBackend

    class Cluster(DaskDistributedBackend):  # type: ignore[misc]
        def effective_n_jobs(self, n_jobs: int | None) -> int:
            """What was asked for, or the cluster's threads; with 1 joblib would run tasks here."""
            if n_jobs is None or n_jobs < 1:
                n_jobs = int(super().effective_n_jobs(n_jobs))
            return max(2, n_jobs)

        def submit(self, func: Any, callback: Any = None) -> Any:
            """A task that the cluster gave up is an error; joblib would wait for it for ever."""
            future = super().submit(func, callback)

            def tell(ended: Any) -> None:
                if ended.exception() is not None:
                    callback(_Lost(str(ended.exception())))

            future.add_done_callback(tell)
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, _Lost):
                raise SdpkitError(
                    f"the cluster gave a run up: {out}. What was made before is kept; repeat the "
                    "command to continue"
                )
            return super().retrieve_result_callback(out)

    return Cluster(client=client)


__all__ = ["in_parallel", "on_a_cluster", "parallel", "read_config", "runs_at_a_time"]
