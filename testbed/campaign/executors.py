"""Where cells run: here, or on several machines."""

from __future__ import annotations

from testbed.campaign.local import Executor, Local


def named(text: str) -> Executor:
    """The executor named ``local`` or ``dask:ADDRESS``. Raises ValueError for other names."""
    if text == "local":
        return Local()
    kind, _, address = text.partition(":")
    if kind == "dask" and address:
        from testbed.campaign.dask import Dask

        return Dask(address)
    raise ValueError(f"found {text!r}, wanted local or dask:ADDRESS, such as dask:10.0.0.1:8786")
