"""Dictionary learning from samples in chunks, by threads or on a cluster, as Dask is set; the codes stay there."""

from tecu.dictionary.chunked.store import read_codes

__all__ = ["read_codes"]
