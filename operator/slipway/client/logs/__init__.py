"""The logs of a job: of all its hosts, over restarts and broken connections."""

from slipway.client.logs.host_log import STREAMS
from slipway.client.logs.items import Batch, Item, Line, Note, Opening, Separator
from slipway.client.logs.job_logs import follow, follow_batches
from slipway.client.logs.selection import Selection

__all__ = ["STREAMS", "Batch", "Item", "Line", "Note", "Opening", "Selection", "Separator", "follow", "follow_batches"]
